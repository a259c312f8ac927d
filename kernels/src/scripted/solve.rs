//! One scripted solution made ready: it computes, or it misbehaves.

use std::ffi::c_void;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tgemm_db::{Gemm, Problem, Solution, WeightForm};

use super::script::{Behaviour, Kind, SolutionScript, When};
use super::{ANNOUNCE, Shared, product};
use crate::measure::float::Float;
use crate::measure::layout::Layouts;
use crate::measure::scan::GUARD_BYTE;
use crate::{Error, Launch, Operands, Packed, PackedForm, Prepared, Stream};

/// What a misbehaving solution prints: neither text nor a message of any protocol.
const GARBAGE: &[u8] = b"\xff\xfe{\"id\": 1, oops\n\x00\x00\x00\x10\n";

struct Scripted {
    shared: Arc<Shared>,
    gemm: Gemm,
    types: product::Types,
    /// Bytes from the output's start to the end of its last gap.
    out_bytes: usize,
    ran: Solution,
    script: SolutionScript,
    pack_key: Option<String>,
    /// Launches so far, verifying and measuring.
    launches: [AtomicU32; 2],
}

/// The behaviours that are due at the `count`-th time (from 1) of `when`.
fn due(behaviours: &[Behaviour], when: When, count: u32) -> impl Iterator<Item = &Behaviour> {
    behaviours.iter().filter(move |behaviour| behaviour.when == when && count.is_multiple_of(behaviour.every))
}

/// What happens before anything is computed; an error is what the library reports.
fn before(behaviour: &Behaviour) -> Result<(), Error> {
    match behaviour.kind {
        Kind::Hang => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
        Kind::Abort => std::process::abort(),
        Kind::Exit0 => std::process::exit(0),
        Kind::Garbage => {
            let mut stdout = std::io::stdout().lock();
            // Printing is all this is for; nobody waits for its success.
            let _ = stdout.write_all(GARBAGE).and_then(|()| stdout.flush());
            Ok(())
        }
        Kind::Unsupported => Err(Error::unsupported("scripted: not offered here")),
        Kind::OutOfMemory => Err(Error::OutOfMemory { bytes: 1 << 40, what: "scripted needs" }),
        Kind::Error => Err(Error::Failed { call: "scripted".into(), reason: "status 7".into() }),
        Kind::Disturbed => Err(Error::Disturbed("scripted: another process was at work".into())),
        _ => Ok(()),
    }
}

/// Makes `known` ready for `problem`, as far as the script lets it.
pub(super) fn prepare(shared: &Arc<Shared>, problem: &Problem, known: &Solution) -> Result<Box<dyn Prepared>, Error> {
    let gemm = crate::gemm_of(problem)?;
    let missing = || Error::unsupported(format!("the script has no solution {}", known.index));
    let at = usize::try_from(known.index).map_err(|_| missing())?;
    let script = shared.script.solutions.get(at).ok_or_else(missing)?.clone();
    due(&script.behaviours, When::Prepare, 1).try_for_each(before)?;
    let own_key = || format!("{} {} {}", known.library(), known.name, known.params);
    let pack_key =
        (known.weight_form == WeightForm::Prepacked).then(|| script.pack_key.clone().unwrap_or_else(own_key));
    let types = product::Types::of(gemm)?;
    Ok(Box::new(Scripted {
        shared: shared.clone(),
        gemm: *gemm,
        types,
        out_bytes: Layouts::of(gemm)?.out.elements() * types.out.bytes(),
        ran: known.clone(),
        script,
        pack_key,
        launches: Default::default(),
    }))
}

impl Scripted {
    fn when(&self) -> When {
        match self.shared.phase.load(Ordering::Relaxed) {
            phase if phase == When::Measure as u8 => When::Measure,
            _ => When::Verify,
        }
    }

    /// The product of a batch in which `behaviour` happens.
    fn batch_of(&self, behaviour: &Behaviour) -> u32 {
        let last = self.gemm.site.batch.count - 1;
        behaviour.matrix.map_or(last, |matrix| matrix.min(last))
    }

    /// What happens after the product: `exact` has the last output of each product of the batch before rounding.
    ///
    /// # Safety
    /// As [`Prepared::launch`], and guards lie around output and behind workspace, as they do on a bench.
    unsafe fn after(&self, behaviour: &Behaviour, io: &Operands, exact: &[f64], count: u32) {
        let (out, batch) = (self.types.out, self.batch_of(behaviour));
        let exact = exact[batch as usize];
        let last = product::last_offset(&self.gemm, self.types, batch);
        let scribble = |memory: *mut c_void, at: isize| {
            // SAFETY: a guard or a gap lies there.
            unsafe { memory.cast::<u8>().offset(at).write(!GUARD_BYTE) }
        };
        let value = match behaviour.kind {
            Kind::Wrong => exact + f64::from(self.gemm.site.k).sqrt().max(exact.abs()) / 2.0,
            Kind::Nan => f64::NAN,
            Kind::Nondeterministic if count.is_multiple_of(2) => other_neighbour(out, exact),
            Kind::OutOfBounds => return scribble(io.out, self.out_bytes as isize),
            Kind::BeforeBounds => return scribble(io.out, -1),
            Kind::InGap => return scribble(io.out, (last + out.bytes()) as isize),
            Kind::OverWorkspace => return scribble(io.workspace, io.workspace_bytes as isize),
            _ => return,
        };
        // SAFETY: within the output.
        unsafe { product::store(io.out, last, out, value) }
    }
}

/// Of the two values of a type around `exact`, the one that is not the nearest.
fn other_neighbour(float: Float, exact: f64) -> f64 {
    let nearest = float.round(exact);
    let unit = match float {
        Float::F32 => 1,
        // A bf16 is the upper half of an f32; an f16 lacks its last 13 bits, if it is not subnormal.
        Float::Bf16 => 1 << 16,
        Float::F16 => 1 << 13,
        // Three bits of mantissa at most.
        Float::F8(_) => 1 << 20,
    };
    let outward = (f64::from(nearest).abs() <= exact.abs()) || nearest == 0.0;
    let bits = nearest.to_bits();
    f64::from(f32::from_bits(if outward { bits + unit } else { bits - unit }))
}

impl Prepared for Scripted {
    fn ran(&self) -> &Solution {
        &self.ran
    }

    fn workspace_bytes(&self) -> usize {
        self.script.workspace_bytes as usize
    }

    fn pack_key(&self) -> Option<&str> {
        self.pack_key.as_deref()
    }

    unsafe fn pack(&self, w: *const c_void) -> Result<Option<Packed>, Error> {
        due(&self.script.behaviours, When::Pack, 1).try_for_each(before)?;
        if self.pack_key.is_none() {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        let values = unsafe { product::pack(&self.gemm, self.types, w) };
        let bytes = size_of_val(&*values) as u64;
        let lacking = Error::OutOfMemory { bytes, what: "packed weights" };
        Rows::book(self.shared.clone(), values).map(Some).ok_or(lacking)
    }

    unsafe fn launch(&self, io: &Operands, _stream: Stream) -> Result<(), Launch> {
        if self.shared.phase.load(Ordering::Relaxed) == ANNOUNCE {
            self.shared.announced.store(self.gemm.m, Ordering::Relaxed);
            return Ok(());
        }
        let when = self.when();
        let start = Instant::now();
        let count = self.launches[usize::from(when == When::Measure)].fetch_add(1, Ordering::Relaxed) + 1;
        let due: Vec<&Behaviour> = due(&self.script.behaviours, when, count).collect();
        for behaviour in &due {
            before(behaviour).map_err(|error| match behaviour.kind {
                Kind::Error => Launch::MayHaveRun(error),
                _ => Launch::NotEnqueued(error),
            })?;
        }
        let gemm = &self.gemm;
        let unwritten = due.iter().filter(|behaviour| behaviour.kind == Kind::Unwritten);
        let skip: Vec<u32> = unwritten.map(|behaviour| self.batch_of(behaviour)).collect();
        // SAFETY: the caller's promise.
        let exact = unsafe { product::compute(gemm, self.types, io, self.pack_key.is_some(), &skip) };
        for behaviour in due {
            // SAFETY: the caller's promise; scripted misbehaviour is for benches, which have guards.
            unsafe { self.after(behaviour, io, &exact, count) };
        }
        if self.shared.script.real_time {
            let takes = Duration::from_secs_f64(self.script.time_us.at(gemm.m) * 1e-6);
            std::thread::sleep(takes.saturating_sub(start.elapsed()));
        }
        Ok(())
    }
}

/// Packed weights: rows of K f32, booked on the scripted memory.
struct Rows {
    shared: Arc<Shared>,
    values: Vec<f32>,
}

impl Rows {
    fn book(shared: Arc<Shared>, values: Vec<f32>) -> Option<Packed> {
        shared.book(size_of_val(&*values) as u64).then(|| -> Packed { Box::new(Rows { shared, values }) })
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.shared.used.fetch_sub(self.bytes() as u64, Ordering::Relaxed);
    }
}

impl PackedForm for Rows {
    fn as_ptr(&self) -> *const c_void {
        self.values.as_ptr().cast()
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.values)
    }

    fn duplicate(&self) -> Option<Packed> {
        Rows::book(self.shared.clone(), self.values.clone())
    }
}
