//! One weight matrix, ready to be multiplied with at any M.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustc_hash::FxHashMap;
use tgemm_db::Site;
use tgemm_kernels::{Error, Launch, Operands, Packed, Prepared, Queue, Stream};

use super::resolve::{Fallback, Resolved};
use super::workspace::{Lacking, Scratch};
use super::{DispatchError, PROBLEMS_MAX, Shared};

/// Where a solution finds its weights.
#[derive(Clone, Copy)]
enum Weights {
    /// Not asked for yet.
    Unknown,
    /// As the caller holds them.
    Plain,
    /// In this place of the plan's packs.
    Packed(usize),
}

/// One M of a plan.
struct Bound {
    m: u32,
    resolved: Arc<Resolved>,
    choice: Weights,
    baseline: Weights,
}

/// What a launch lacks that cannot be had while its stream is captured.
const NOT_LOOKED_UP: &str = "it was not looked up";
const NOT_PACKED: &str = "its weights are not packed";
const NO_BASELINE: &str = "its baseline is not ready";
const NO_WORKSPACE: &str = "its stream's workspace is too small";

/// One weight matrix, ready to be multiplied with.
///
/// It may go from thread to thread, and is one thread's at a time: its launches are as ordered as their streams are.
pub struct Plan {
    shared: Arc<Shared>,
    site: Site,
    bound: Vec<Bound>,
    /// Where in `bound` each M is.
    place: FxHashMap<u32, usize>,
    /// Where the last M is.
    last: usize,
    /// One packed form a pack key, shared by all M and by choice and baseline.
    packs: Vec<(String, Packed)>,
    /// What they were packed from; 0 as long as nothing is.
    weights: usize,
    /// Scratch memory of the queue that was used last.
    scratch: Option<(Queue, Scratch)>,
}

impl Plan {
    pub(super) fn new(shared: Arc<Shared>, site: Site) -> Plan {
        let (bound, place, packs) = (Vec::new(), FxHashMap::default(), Vec::new());
        Plan { shared, site, bound, place, last: 0, packs, weights: 0, scratch: None }
    }

    /// The plan's site.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Memory that this plan holds in packed weights, bytes.
    pub fn packed_bytes(&self) -> u64 {
        self.packs.iter().map(|(_, packed)| packed.bytes() as u64).sum()
    }

    /// Makes `m` ready for `stream`, packing and workspace included, so that the first run is as fast as the others: none of
    /// them allocates any more, and `stream` may be captured.
    ///
    /// # Safety
    /// `w` points to the plain weights as the site describes them, the same at every call.
    pub unsafe fn warm(&mut self, m: u32, w: *const c_void, stream: Stream) -> Result<(), DispatchError> {
        self.check_weights(w)?;
        let at = self.bind(m, stream)?;
        // SAFETY: the caller's promise.
        if unsafe { self.ready_choice(at, w, stream) }?.is_some() {
            let needed = self.bound[at].resolved.usable().map_or(0, |choice| choice.workspace_bytes());
            match self.scratch(needed, stream) {
                Ok(_) => return Ok(()),
                Err(Lacking::Captured) => return Err(self.not_warm(at, NO_WORKSPACE)),
                Err(Lacking::Failed(error)) => self.bound[at].resolved.give_up(Fallback::Launch(error)),
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.ready_baseline(at, w, stream) }?;
        let resolved = Arc::clone(&self.bound[at].resolved);
        let needed = resolved.baseline(&self.shared)?.workspace_bytes();
        self.scratch(needed, stream).map(drop).map_err(|lacking| match lacking {
            Lacking::Captured => self.not_warm(at, NO_WORKSPACE),
            Lacking::Failed(error) => DispatchError::Baseline { problem: Box::new(resolved.problem), error },
        })
    }

    /// Computes the product at `m` tokens into `stream`: by the choice, else by the baseline.
    ///
    /// `io.w` is the plain weight matrix, the same at every call; the plan keeps packed forms of it. A workspace in `io`
    /// is used where it is large enough, else that of the stream. The factors count where the site says
    /// [`Scalar::Other`](tgemm_db::problem::Scalar::Other), and must be the site's where it says another.
    ///
    /// # Safety
    /// As [`Prepared::launch`], but for `io.w`: every pointer is valid for what the site at `m` says it holds until the
    /// launch has finished. The device is current on this thread, and `stream` is one of it.
    pub unsafe fn run(&mut self, m: u32, io: &Operands, stream: Stream) -> Result<(), DispatchError> {
        self.check_weights(io.w)?;
        let at = self.bind(m, stream)?;
        // SAFETY: the caller's promise.
        if let Some(w) = unsafe { self.ready_choice(at, io.w, stream) }? {
            // SAFETY: the caller's promise; `w` is the form that the choice takes.
            match unsafe { self.launch_choice(at, w, io, stream) } {
                Ok(()) => return Ok(()),
                Err(Missed::Captured) => return Err(self.not_warm(at, NO_WORKSPACE)),
                Err(Missed::Launch(Launch::NotEnqueued(error))) => {
                    self.bound[at].resolved.give_up(Fallback::Launch(error));
                }
                Err(Missed::Launch(Launch::MayHaveRun(error))) => return Err(self.may_have_run(at, error)),
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.run_baseline(at, io, stream) }
    }

    /// # Safety
    /// As [`Plan::run`].
    unsafe fn run_baseline(&mut self, at: usize, io: &Operands, stream: Stream) -> Result<(), DispatchError> {
        // SAFETY: the caller's promise.
        let w = unsafe { self.ready_baseline(at, io.w, stream) }?;
        let Plan { shared, bound, scratch, .. } = self;
        let resolved = &bound[at].resolved;
        let baseline = resolved.baseline(shared)?;
        // SAFETY: the caller's promise; `w` is the form that `baseline` takes.
        let launched = unsafe { launch(shared, scratch, baseline, w, io, stream) };
        match launched {
            Ok(()) => {
                resolved.baseline_runs.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(Missed::Captured) => Err(self.not_warm(at, NO_WORKSPACE)),
            Err(Missed::Launch(Launch::NotEnqueued(error))) => {
                Err(DispatchError::Baseline { problem: Box::new(resolved.problem), error })
            }
            Err(Missed::Launch(Launch::MayHaveRun(error))) => Err(self.may_have_run(at, error)),
        }
    }

    /// # Safety
    /// As [`Plan::run`], with `w` in the form that the choice takes.
    unsafe fn launch_choice(
        &mut self,
        at: usize,
        w: *const c_void,
        io: &Operands,
        stream: Stream,
    ) -> Result<(), Missed> {
        let Plan { shared, bound, scratch, .. } = self;
        let resolved = &bound[at].resolved;
        let Some(choice) = &resolved.choice else {
            return Err(Missed::Launch(Launch::NotEnqueued(Error::unsupported("there is no choice"))));
        };
        // SAFETY: the caller's promise.
        unsafe { launch(shared, scratch, &**choice, w, io, stream) }?;
        resolved.applied.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The place of `m`, resolved on first sight.
    #[inline]
    fn bind(&mut self, m: u32, stream: Stream) -> Result<usize, DispatchError> {
        // A layer runs at one M for many steps.
        if self.bound.get(self.last).is_some_and(|bound| bound.m == m) {
            return Ok(self.last);
        }
        self.last = match self.place.get(&m) {
            Some(&at) => at,
            None => self.bind_new(m, stream)?,
        };
        Ok(self.last)
    }

    #[cold]
    fn bind_new(&mut self, m: u32, stream: Stream) -> Result<usize, DispatchError> {
        let gemm = self.site.at(m);
        let invalid = |invalid| DispatchError::Invalid { problem: Box::new(gemm.into()), invalid };
        gemm.validate().map_err(invalid)?;
        let resolved = self.shared.resolve(gemm.into(), || self.shared.backend.is_capturing(stream));
        let Some(resolved) = resolved else {
            return Err(DispatchError::NotWarm { problem: Box::new(gemm.into()), lacks: NOT_LOOKED_UP });
        };
        if self.bound.len() >= PROBLEMS_MAX
            && let Some(last) = self.bound.pop()
        {
            self.place.remove(&last.m);
        }
        self.bound.push(Bound { m, resolved, choice: Weights::Unknown, baseline: Weights::Unknown });
        self.place.insert(m, self.bound.len() - 1);
        Ok(self.bound.len() - 1)
    }

    /// The weights for the choice, packed if need be; `None` if there is no choice to run.
    ///
    /// # Safety
    /// As [`Plan::warm`].
    #[inline]
    unsafe fn ready_choice(
        &mut self,
        at: usize,
        w: *const c_void,
        stream: Stream,
    ) -> Result<Option<*const c_void>, DispatchError> {
        let Some(choice) = self.bound[at].resolved.usable() else { return Ok(None) };
        if let Weights::Unknown = self.bound[at].choice {
            if self.must_pack(choice) && self.shared.backend.is_capturing(stream) {
                return Err(self.not_warm(at, NOT_PACKED));
            }
            let resolved = Arc::clone(&self.bound[at].resolved);
            let Some(choice) = resolved.usable() else { return Ok(None) };
            // SAFETY: the caller's promise.
            match unsafe { self.pack(choice, w) } {
                Ok(weights) => self.bound[at].choice = weights,
                Err(error) => {
                    resolved.give_up(Fallback::Pack(error));
                    return Ok(None);
                }
            }
        }
        Ok(Some(self.pointer(self.bound[at].choice, w)))
    }

    /// The weights for the baseline, packed if need be.
    ///
    /// # Safety
    /// As [`Plan::warm`].
    #[inline]
    unsafe fn ready_baseline(
        &mut self,
        at: usize,
        w: *const c_void,
        stream: Stream,
    ) -> Result<*const c_void, DispatchError> {
        if let Weights::Unknown = self.bound[at].baseline {
            let resolved = Arc::clone(&self.bound[at].resolved);
            if !resolved.has_baseline() && self.shared.backend.is_capturing(stream) {
                return Err(self.not_warm(at, NO_BASELINE));
            }
            let baseline = resolved.baseline(&self.shared)?;
            if self.must_pack(baseline) && self.shared.backend.is_capturing(stream) {
                return Err(self.not_warm(at, NOT_PACKED));
            }
            // SAFETY: the caller's promise.
            let packed = unsafe { self.pack(baseline, w) };
            let problem = || Box::new(resolved.problem);
            self.bound[at].baseline = packed.map_err(|error| DispatchError::Baseline { problem: problem(), error })?;
        }
        Ok(self.pointer(self.bound[at].baseline, w))
    }

    fn pointer(&self, weights: Weights, w: *const c_void) -> *const c_void {
        match weights {
            Weights::Packed(place) => self.packs[place].1.as_ptr(),
            Weights::Plain | Weights::Unknown => w,
        }
    }

    /// Packed forms stand for one weight matrix: another one must not be answered with them.
    #[inline]
    fn check_weights(&self, w: *const c_void) -> Result<(), DispatchError> {
        match self.weights == 0 || self.weights == w.addr() {
            true => Ok(()),
            false => Err(DispatchError::OtherWeights { site: Box::new(self.site) }),
        }
    }

    fn must_pack(&self, prepared: &dyn Prepared) -> bool {
        prepared.pack_key().is_some_and(|key| self.packs.iter().all(|(have, _)| have != key))
    }

    /// Finds or makes the packed form that `prepared` takes.
    ///
    /// # Safety
    /// As [`Plan::warm`].
    unsafe fn pack(&mut self, prepared: &dyn Prepared, w: *const c_void) -> Result<Weights, Error> {
        let Some(key) = prepared.pack_key() else { return Ok(Weights::Plain) };
        if let Some(place) = self.packs.iter().position(|(have, _)| have == key) {
            return Ok(Weights::Packed(place));
        }
        // SAFETY: the caller's promise.
        let Some(packed) = (unsafe { prepared.pack(w) })? else { return Ok(Weights::Plain) };
        self.shared.packed_bytes.fetch_add(packed.bytes() as u64, Ordering::Relaxed);
        self.packs.push((key.to_owned(), packed));
        self.weights = w.addr();
        Ok(Weights::Packed(self.packs.len() - 1))
    }

    fn scratch(&mut self, needed: usize, stream: Stream) -> Result<Scratch, Lacking> {
        scratch(&self.shared, &mut self.scratch, needed, stream)
    }

    #[cold]
    fn not_warm(&self, at: usize, lacks: &'static str) -> DispatchError {
        DispatchError::NotWarm { problem: Box::new(self.bound[at].resolved.problem), lacks }
    }

    #[cold]
    fn may_have_run(&self, at: usize, error: Error) -> DispatchError {
        DispatchError::MayHaveRun { problem: Box::new(self.bound[at].resolved.problem), error }
    }
}

/// Why nothing was launched, or what came of it.
enum Missed {
    /// It lacks a workspace, and its stream is captured.
    Captured,
    Launch(Launch),
}

/// Scratch memory for a launch into `stream`: `last`, if it is of the same queue and large enough.
#[inline]
fn scratch(
    shared: &Shared,
    last: &mut Option<(Queue, Scratch)>,
    needed: usize,
    stream: Stream,
) -> Result<Scratch, Lacking> {
    if needed == 0 {
        return Ok(Scratch::NONE);
    }
    let backend = &*shared.backend;
    let queue = backend.queue(stream);
    match last {
        Some((of, scratch)) if *of == queue && scratch.bytes >= needed => Ok(*scratch),
        _ => {
            let found = shared.workspaces.get(backend, stream, queue, needed)?;
            *last = Some((queue, found));
            Ok(found)
        }
    }
}

/// # Safety
/// As [`Plan::run`], with `w` in the form that `prepared` takes.
#[inline]
unsafe fn launch(
    shared: &Shared,
    last: &mut Option<(Queue, Scratch)>,
    prepared: &dyn Prepared,
    w: *const c_void,
    io: &Operands,
    stream: Stream,
) -> Result<(), Missed> {
    let mut io = Operands { w, ..*io };
    let needed = prepared.workspace_bytes();
    if io.workspace.is_null() || io.workspace_bytes < needed {
        let found = scratch(shared, last, needed, stream).map_err(|lacking| match lacking {
            Lacking::Captured => Missed::Captured,
            Lacking::Failed(error) => Missed::Launch(Launch::NotEnqueued(error)),
        })?;
        (io.workspace, io.workspace_bytes) = (found.start, found.bytes);
    }
    // SAFETY: the caller's promise, and the workspace is as large as asked for and used by this queue only.
    unsafe { prepared.launch(&io, stream) }.map_err(Missed::Launch)
}

impl Drop for Plan {
    fn drop(&mut self) {
        self.shared.packed_bytes.fetch_sub(self.packed_bytes(), Ordering::Relaxed);
    }
}
