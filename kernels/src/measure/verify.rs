//! Is a candidate right? Two launches into prefilled, guarded memory, against the reference and against each other.

use std::time::Instant;

use tgemm_db::Outcome;
use tgemm_db::outcome::{ErrorFigures, OutcomeKind};

use super::bench::Bench;
use super::float::Float;
use super::gate::{Gate, Worst};
use super::scan::{Fault, GUARD_BYTE, Scan, UNWRITTEN_BYTE};
use super::set::OperandSet;
use crate::{Arm, Context, Error, Launch, Operands, Stream};

/// What the host may add to the time of a launch that it waits for: far more than it does. A wait of 1.0 to 1.4 ms for a kernel
/// of 6 us was seen; timing three more launches of one that is really that slow costs less than dropping one that is not.
pub const HOST_US: f64 = 10_000.0;

/// What verification found.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    /// ok, wrong, unsupported, out-of-memory or nondeterministic, with the reason.
    pub outcome: Outcome,
    /// How exact it was; `None` if it gave no result that could be compared.
    pub error: Option<ErrorFigures>,
    /// Time of one launch with its operands in the cache, as the context times it; of the attempt if it failed.
    pub call_us: f64,
    /// May it be captured into a graph? `None` where the device has none, or where it is not right.
    pub graph_safe: Option<bool>,
}

impl Verified {
    fn refused((kind, detail): (OutcomeKind, String), call_us: f64) -> Verified {
        Verified { outcome: Outcome::new(kind, detail), error: None, call_us, graph_safe: None }
    }
}

/// What one launch left behind.
struct Seen {
    figures: ErrorFigures,
    wrong: Option<String>,
    digest: u64,
}

impl std::fmt::Display for Worst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Worst { place, got, want, bound } = self;
        let error = (got - want).abs();
        write!(f, "output {place} is {got}, should be {want:.9}: off by {error:.3e}, allowed {bound:.3e}")
    }
}

/// The outcome of a launch that failed.
fn launch_failed(error: Launch) -> (OutcomeKind, String) {
    match error {
        Launch::NotEnqueued(error @ Error::OutOfMemory { .. }) => (OutcomeKind::OutOfMemory, error.to_string()),
        Launch::NotEnqueued(error) => (OutcomeKind::Unsupported, error.to_string()),
        // It took the problem and failed in the middle: its output cannot be trusted.
        Launch::MayHaveRun(error) => (OutcomeKind::Wrong, format!("failed while running: {error}")),
    }
}

impl Bench {
    /// Runs candidate `id` twice and says whether it is right: every output written, finite and within the gate of its
    /// class, nothing written elsewhere, the same bits both times.
    ///
    /// A candidate whose faster launch takes longer than `enough_us` by more than 10 ms is not timed any further: that is
    /// its figure. (The first launch alone says nothing: it may hold the loading of its code.)
    ///
    /// An `Err` is about the bench (an unknown number, the context failing to copy), never about the candidate.
    pub fn verify(&mut self, context: &mut dyn Context, id: usize, enough_us: f64) -> Result<Verified, Error> {
        let numerics = self.candidate(id)?.prepared.ran().numerics;
        let gate = Gate::new(&self.problem, numerics)?;
        let io = self.operands(id, 0)?;
        let mut call_us = f64::INFINITY;
        let mut runs = Vec::with_capacity(2);
        for round in 0..2 {
            self.set.reset_output(context, &self.data, 0)?;
            self.reset_workspace(context, io.workspace_bytes)?;
            context.synchronize()?;
            let start = Instant::now();
            let launched = self.launch(context, id, &io)?;
            call_us = call_us.min(start.elapsed().as_secs_f64() * 1e6);
            if let Err(error) = launched {
                let (kind, detail) = launch_failed(error);
                return Ok(Verified::refused((kind, detail), call_us));
            }
            let seen = self.inspect(context, &gate, io.workspace_bytes)?;
            if let Some(wrong) = seen.wrong {
                let detail = if round == 0 { wrong } else { format!("right at first, then: {wrong}") };
                let outcome = (OutcomeKind::Wrong, detail);
                return Ok(Verified { error: Some(seen.figures), ..Verified::refused(outcome, call_us) });
            }
            runs.push(seen);
        }
        let same = runs.windows(2).all(|pair| pair[0].digest == pair[1].digest);
        let error = runs.first().map(|seen| seen.figures);
        if !same {
            let why = "two runs on the same operands differ in their bits".to_owned();
            return Ok(Verified { error, ..Verified::refused((OutcomeKind::Nondeterministic, why), call_us) });
        }
        if call_us > enough_us + HOST_US {
            return Ok(Verified { outcome: Outcome::ok(), error, call_us, graph_safe: None });
        }
        let (call_us, graph_safe) = self.time_warm(context, id, call_us)?;
        Ok(Verified { outcome: Outcome::ok(), error, call_us, graph_safe })
    }

    /// One launch as the context times it, and whether a graph can hold it. `host_us` is what the host saw, with the
    /// launch and the wait in it: good enough where the host computes, and where nothing better is to be had.
    fn time_warm(&self, context: &mut dyn Context, id: usize, host_us: f64) -> Result<(f64, Option<bool>), Error> {
        let turns = [self.turn(id, 0)?];
        let arm = Arm { turns: &turns, start: 0, calls: 1 };
        // SAFETY: as in `launch`.
        let graph_safe = unsafe { context.is_graph_safe(&arm) }?;
        if graph_safe.is_none() {
            return Ok((host_us, None));
        }
        // SAFETY: as in `launch`.
        let timed = unsafe { context.time(&[arm]) };
        let call_us = timed.ok().and_then(|us| us.first().copied()).filter(|us| us.is_finite() && *us > 0.0);
        Ok((call_us.unwrap_or(host_us), graph_safe))
    }

    fn launch(&self, context: &dyn Context, id: usize, io: &Operands) -> Result<Result<(), Launch>, Error> {
        let prepared = &self.candidate(id)?.prepared;
        // SAFETY: the pointers of `io` come from this bench's own memory, laid out as the problem says, with the workspace
        // that the solution asked for; nothing else runs, and `synchronize` waits for the end.
        let launched = unsafe { prepared.launch(io, Stream::DEFAULT) };
        match launched.and_then(|()| context.synchronize().map_err(Launch::MayHaveRun)) {
            // Not an outcome to be told here: whoever holds this process has to end it.
            Err(
                Launch::NotEnqueued(lost @ Error::DeviceLost { .. })
                | Launch::MayHaveRun(lost @ Error::DeviceLost { .. }),
            ) => Err(lost),
            launched => Ok(launched),
        }
    }

    /// Fills the candidate's share of the workspace with NaN and everything behind it with guard bytes.
    fn reset_workspace(&mut self, context: &dyn Context, bytes: usize) -> Result<(), Error> {
        let Some(zone) = &mut self.workspace else { return Ok(()) };
        zone.arm_guards(context)?;
        zone.fill_from(context, 0, UNWRITTEN_BYTE)?;
        zone.fill_from(context, bytes, GUARD_BYTE)
    }

    fn inspect(&self, context: &dyn Context, gate: &Gate, workspace_bytes: usize) -> Result<Seen, Error> {
        let prefilled = OperandSet::prefills(&self.data, &crate::gemm_of(&self.problem)?.site);
        let mut scan = Scan::new(&self.problem, &self.reference, prefilled)?;
        let (before, after) = match self.set.survey(context, 0, prefilled)? {
            None => self.set.read_output(context, 0, |rows, bytes| scan.rows(rows, bytes))?,
            Some(found) => {
                let float = Float::of_output(crate::gemm_of(&self.problem)?.site.out)?;
                scan.surveyed(&found, |stored, col| {
                    let mut value = f32::NAN;
                    let decode = |_, cells: &[u8]| value = float.decode(&cells[col * float.bytes()..]);
                    self.set.read_rows(context, 0, [stored], decode)?;
                    Ok(value)
                })?;
                let sampled = scan.sampled_rows();
                self.set.read_rows(context, 0, sampled, |stored, cells| scan.sampled_row(stored, cells))?;
                self.set.broken_guards(context, 0)?
            }
        };
        let (figures, worst) = gate.judge(&self.reference, &scan.outputs);
        let mut wrong = scan.fault.as_ref().map(Fault::to_string);
        if before + after > 0 {
            wrong = Some(format!("wrote outside its output: {before} bytes before, {after} after"));
        } else if let Some(spill) = self.workspace_spill(context, workspace_bytes)? {
            wrong = Some(spill);
        }
        let wrong = wrong.or_else(|| worst.map(|worst| worst.to_string()));
        Ok(Seen { figures, wrong, digest: scan.digest })
    }

    fn workspace_spill(&self, context: &dyn Context, bytes: usize) -> Result<Option<String>, Error> {
        let Some(zone) = &self.workspace else { return Ok(None) };
        let (before, after) = zone.broken_guards(context)?;
        let after = after + zone.differing_from(context, bytes, GUARD_BYTE)?;
        let spilled = before + after > 0;
        Ok(spilled.then(|| format!("wrote outside its workspace of {bytes}: {before} bytes before, {after} after")))
    }
}
