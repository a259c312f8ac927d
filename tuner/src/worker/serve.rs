//! The child's side: opens the device and answers one request after the other.

use std::io;
use std::os::unix::net::UnixStream;

use tgemm_db::Problem;
use tgemm_db::outcome::{Outcome, OutcomeKind};
use tgemm_kernels::measure::{Bench, BenchOptions, BlockEntry};
use tgemm_kernels::{Ask, Context, Effort, Error, Mode};

use super::wire::{self, Candidate, Reply, Request};
use crate::device;

/// Freed buffers are kept up to this part of the host's memory (one quarter).
const SPARE_SHARE: u64 = 4;

/// What this process holds.
#[derive(Default)]
struct Served {
    context: Option<Box<dyn Context>>,
    problem: Option<Problem>,
    bench: Option<Bench>,
}

/// Answers requests until the parent closes the socket.
///
/// # Errors
/// The socket is broken. A request that fails is an answer, not an error; one that kills this process is the parent's
/// to see.
pub fn serve(mut socket: UnixStream) -> io::Result<()> {
    // Operands and packed weights of one candidate after the other have the same sizes.
    let memory = tgemm_kernels::cpu::memory::total_bytes().unwrap_or(0);
    tgemm_kernels::cpu::memory::recycle(memory / SPARE_SHARE);
    let mut served = Served::default();
    while let Some(request) = wire::receive::<Request>(&mut socket)? {
        let reply = served.answer(request).unwrap_or_else(|e| Reply::Failed { outcome: outcome_of(&e) });
        wire::send(&mut socket, &reply)?;
    }
    Ok(())
}

/// What an error makes of the candidate that it came from.
fn outcome_of(error: &Error) -> Outcome {
    let kind = match error {
        Error::OutOfMemory { .. } => OutcomeKind::OutOfMemory,
        // A library that says no, or returns an error status, does not support this here.
        _ => OutcomeKind::Unsupported,
    };
    Outcome::new(kind, error.to_string())
}

fn nothing_open() -> Error {
    Error::unsupported("no device and problem are open")
}

impl Served {
    fn answer(&mut self, request: Request) -> Result<Reply, Error> {
        match request {
            Request::Open { device } => self.open(&device),
            Request::Problem { problem, effort, seed, rotation_bytes } => {
                self.turn_to(&problem, effort, BenchOptions { seed, rotation_bytes, ..BenchOptions::default() })
            }
            request => {
                let (Some(context), Some(problem), Some(bench)) = (&mut self.context, &self.problem, &mut self.bench)
                else {
                    return Err(nothing_open());
                };
                at_bench(request, context.as_mut(), problem, bench)
            }
        }
    }

    fn open(&mut self, name: &str) -> Result<Reply, Error> {
        let opened = device::open(name).map_err(|e| Error::unsupported(e.to_string()))?;
        let environment = opened.context.environment().clone();
        self.context = Some(opened.context);
        Ok(Reply::Opened { environment, absent: opened.absent })
    }

    fn turn_to(&mut self, problem: &Problem, effort: Effort, options: BenchOptions) -> Result<Reply, Error> {
        let context = self.context.as_mut().ok_or_else(nothing_open)?;
        // The former problem's memory goes before the new one's is taken.
        self.bench = None;
        let candidates = offers(context.as_ref(), problem, effort);
        self.bench = Some(Bench::new(context.as_mut(), problem, &options)?);
        self.problem = Some(*problem);
        Ok(Reply::Ready { candidates })
    }
}

/// Every solution on offer, baselines first, each once. A library that fails to list its solutions offers none.
fn offers(context: &dyn Context, problem: &Problem, effort: Effort) -> Vec<Candidate> {
    let libraries = context.libraries();
    let mut offers: Vec<Candidate> = Vec::new();
    for baseline in libraries.iter().flat_map(|library| library.baselines(problem, &Ask::default())) {
        offers.push(Candidate { solution: baseline.solution, baseline_via: Some(baseline.via) });
    }
    for solution in
        libraries.iter().flat_map(|library| library.candidates(problem, effort, &Ask::default()).unwrap_or_default())
    {
        if !offers.iter().any(|offer| offer.solution.key() == solution.key()) {
            offers.push(Candidate { solution, baseline_via: None });
        }
    }
    offers
}

fn at_bench(request: Request, context: &mut dyn Context, problem: &Problem, bench: &mut Bench) -> Result<Reply, Error> {
    match request {
        Request::Load { solution } => {
            // Several libraries may share a name (a routine, and an adapter over it): the one that takes it is meant.
            let mut refusal = Error::unsupported(format!("no library '{}' here", solution.library()));
            let mut prepared = None;
            for library in context.libraries().iter().filter(|l| l.build().library == solution.library()) {
                match library.prepare(problem, &solution) {
                    Ok(ready) => {
                        prepared = Some(ready);
                        break;
                    }
                    Err(e) => refusal = e,
                }
            }
            let loaded = bench.load(context, prepared.ok_or(refusal)?)?;
            Ok(Reply::Loaded { id: loaded.id, ran: loaded.ran, pack_us: loaded.pack_us })
        }
        Request::Verify { id } => {
            let verified = bench.verify(context, id)?;
            Ok(Reply::Verified { outcome: verified.outcome, error: verified.error, call_us: verified.call_us })
        }
        Request::Measure { block } => {
            let block: Vec<BlockEntry> = block.iter().map(|e| BlockEntry { id: e.id, calls: e.calls }).collect();
            Ok(Reply::Measured { times_us: bench.measure(context, &block, Mode::Rotated)? })
        }
        Request::Refresh { seed } => {
            bench.refresh(context, seed)?;
            Ok(Reply::Done)
        }
        Request::Drop { id } => {
            bench.drop_candidate(id);
            Ok(Reply::Done)
        }
        Request::Open { .. } | Request::Problem { .. } => Err(nothing_open()),
    }
}
