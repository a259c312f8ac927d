//! One weight matrix, ready to be multiplied with at any M.

use std::ffi::c_void;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use tgemm_db::Site;
use tgemm_kernels::{Error, Launch, Operands, Packed, Prepared};

use super::resolve::{Fallback, Resolved};
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
    resolved: Rc<Resolved>,
    choice: Weights,
    baseline: Weights,
}

/// One weight matrix, ready to be multiplied with.
pub struct Plan<'a> {
    shared: Rc<Shared<'a>>,
    site: Site,
    bound: Vec<Bound>,
    /// Where in `bound` each M is.
    place: FxHashMap<u32, usize>,
    /// One packed form a pack key, shared by all M and by choice and baseline.
    packs: Vec<(String, Packed)>,
    /// What they were packed from.
    weights: *const c_void,
}

impl<'a> Plan<'a> {
    pub(super) fn new(shared: Rc<Shared<'a>>, site: Site) -> Plan<'a> {
        let (bound, place, packs) = (Vec::new(), FxHashMap::default(), Vec::new());
        Plan { shared, site, bound, place, packs, weights: std::ptr::null() }
    }

    /// The plan's site.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Memory that this plan holds in packed weights, bytes.
    pub fn packed_bytes(&self) -> u64 {
        self.packs.iter().map(|(_, packed)| packed.bytes() as u64).sum()
    }

    /// Makes `m` ready, packing included, so that the first run is as fast as the others.
    ///
    /// # Safety
    /// `w` points to the plain weights as the site describes them, the same at every call.
    pub unsafe fn warm(&mut self, m: u32, w: *const c_void) -> Result<(), DispatchError> {
        self.check_weights(w)?;
        let at = self.bind(m);
        // SAFETY: the caller's promise.
        if unsafe { self.ready_choice(at, w) }?.is_none() {
            // SAFETY: the caller's promise.
            unsafe { self.ready_baseline(at, w) }?;
        }
        Ok(())
    }

    /// Computes the product at `m` tokens: by the choice, else by the baseline.
    ///
    /// `io.w` is the plain weight matrix, the same at every call; the plan keeps packed forms of it. A workspace in `io`
    /// is used where it is large enough, else the shared one.
    ///
    /// # Safety
    /// As [`Prepared::launch`], but for `io.w`: every pointer is valid for what the site at `m` says it holds until the
    /// launch has finished.
    pub unsafe fn run(&mut self, m: u32, io: &Operands) -> Result<(), DispatchError> {
        self.check_weights(io.w)?;
        let at = self.bind(m);
        let resolved = Rc::clone(&self.bound[at].resolved);
        let problem = || Box::new(resolved.problem);
        // SAFETY: the caller's promise.
        if let Some(w) = unsafe { self.ready_choice(at, io.w) }?
            && let Some(choice) = &resolved.choice
        {
            // SAFETY: the caller's promise; `w` is the form that `choice` takes.
            match unsafe { self.launch(&**choice, w, io) } {
                Ok(()) => {
                    resolved.applied.set(resolved.applied.get() + 1);
                    return Ok(());
                }
                Err(Launch::NotEnqueued(error)) => resolved.give_up(Fallback::Launch(error)),
                Err(Launch::MayHaveRun(error)) => return Err(DispatchError::MayHaveRun { problem: problem(), error }),
            }
        }
        // SAFETY: the caller's promise.
        let w = unsafe { self.ready_baseline(at, io.w) }?;
        let baseline = resolved.baseline(self.shared.context, &self.shared.options)?;
        // SAFETY: the caller's promise; `w` is the form that `baseline` takes.
        match unsafe { self.launch(baseline, w, io) } {
            Ok(()) => {
                resolved.baseline_runs.set(resolved.baseline_runs.get() + 1);
                Ok(())
            }
            Err(Launch::NotEnqueued(error)) => Err(DispatchError::Baseline { problem: problem(), error }),
            Err(Launch::MayHaveRun(error)) => Err(DispatchError::MayHaveRun { problem: problem(), error }),
        }
    }

    /// The place of `m`, resolved on first sight.
    fn bind(&mut self, m: u32) -> usize {
        if let Some(&at) = self.place.get(&m) {
            return at;
        }
        if self.bound.len() >= PROBLEMS_MAX
            && let Some(last) = self.bound.pop()
        {
            self.place.remove(&last.m);
        }
        let resolved = self.shared.resolve(self.site.at(m).into());
        self.bound.push(Bound { m, resolved, choice: Weights::Unknown, baseline: Weights::Unknown });
        self.place.insert(m, self.bound.len() - 1);
        self.bound.len() - 1
    }

    /// The weights for the choice, packed if need be; `None` if there is no choice to run.
    ///
    /// # Safety
    /// As [`Plan::warm`].
    unsafe fn ready_choice(&mut self, at: usize, w: *const c_void) -> Result<Option<*const c_void>, DispatchError> {
        let resolved = Rc::clone(&self.bound[at].resolved);
        let Some(choice) = resolved.usable() else { return Ok(None) };
        if let Weights::Unknown = self.bound[at].choice {
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
    unsafe fn ready_baseline(&mut self, at: usize, w: *const c_void) -> Result<*const c_void, DispatchError> {
        if let Weights::Unknown = self.bound[at].baseline {
            let resolved = Rc::clone(&self.bound[at].resolved);
            let baseline = resolved.baseline(self.shared.context, &self.shared.options)?;
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
    fn check_weights(&self, w: *const c_void) -> Result<(), DispatchError> {
        match self.weights.is_null() || self.weights == w {
            true => Ok(()),
            false => Err(DispatchError::OtherWeights { site: Box::new(self.site) }),
        }
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
        self.shared.packed_bytes.set(self.shared.packed_bytes.get() + packed.bytes() as u64);
        self.packs.push((key.to_owned(), packed));
        self.weights = w;
        Ok(Weights::Packed(self.packs.len() - 1))
    }

    /// # Safety
    /// As [`Plan::run`], with `w` in the form that `prepared` takes.
    unsafe fn launch(&self, prepared: &dyn Prepared, w: *const c_void, io: &Operands) -> Result<(), Launch> {
        let mut io = Operands { w, ..*io };
        let needed = prepared.workspace_bytes();
        if io.workspace.is_null() || io.workspace_bytes < needed {
            (io.workspace, io.workspace_bytes) = self.shared.workspace(needed).map_err(Launch::NotEnqueued)?;
        }
        // SAFETY: the caller's promise, and the workspace is as large as asked for and used by this stream only.
        unsafe { prepared.launch(&io, self.shared.options.stream) }
    }
}

impl Drop for Plan<'_> {
    fn drop(&mut self) {
        self.shared.packed_bytes.set(self.shared.packed_bytes.get() - self.packed_bytes());
    }
}
