//! The child's side: opens the device and answers one request after the other.

use std::collections::HashSet;
use std::io;
use std::os::unix::net::UnixStream;

use tgemm_db::outcome::{Outcome, OutcomeKind};
use tgemm_db::{Problem, Solution};
use tgemm_kernels::measure::{Bench, BenchOptions, BlockEntry, Mix, Verified};
use tgemm_kernels::{Ask, Context, Effort, Error, Mode, Prepared};

use super::wire::{self, Candidate, MixPart, MixTurn, Reply, Request};
use crate::device;

/// Freed buffers are kept up to this part of the host's memory (one quarter).
const SPARE_SHARE: u64 = 4;

/// What this process holds.
#[derive(Default)]
struct Served {
    context: Option<Box<dyn Context>>,
    problem: Option<Problem>,
    ask: Ask,
    bench: Option<Bench>,
    mix: Option<Mix>,
}

/// Answers requests until the parent closes the socket.
///
/// # Errors
/// The socket is broken, or the device is lost to this process. A request that fails is an answer, not an error; one that kills this process is the parent's
/// to see.
pub fn serve(mut socket: UnixStream) -> io::Result<()> {
    // Operands and packed weights of one candidate after the other have the same sizes.
    let memory = tgemm_kernels::cpu::memory::total_bytes().unwrap_or(0);
    tgemm_kernels::cpu::memory::recycle(memory / SPARE_SHARE);
    let mut served = Served::default();
    while let Some(request) = wire::receive::<Request>(&mut socket)? {
        let reply = match served.answer(request) {
            Ok(reply) => reply,
            // Every later answer would be a failure of this one's making: the parent sees a death, and blames it rightly.
            Err(lost @ Error::DeviceLost { .. }) => return Err(io::Error::other(lost.to_string())),
            Err(error) => Reply::Failed { outcome: outcome_of(&error) },
        };
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
            Request::Open { device, streams } => self.open(&device, streams),
            Request::Problem { problem, asks, effort, seed, rotation_bytes, between } => {
                let options = BenchOptions { seed, rotation_bytes, between, ..BenchOptions::default() };
                self.turn_to(&problem, &asks, effort, options)
            }
            Request::Baselines { problem, asks } => {
                let context = self.context.as_ref().ok_or_else(nothing_open)?;
                Ok(Reply::Ready { candidates: baselines(context.as_ref(), &problem, &asks) })
            }
            Request::Mix { parts, round, seed, rotation_bytes } => {
                let options = BenchOptions { seed, rotation_bytes, ..BenchOptions::default() };
                self.turn_to_mix(&parts, &round, &options)
            }
            Request::MeasureMix { block } => {
                let (Some(context), Some(mix)) = (&mut self.context, &mut self.mix) else { return Err(nothing_open()) };
                measured(mix.measure(context.as_mut(), &block))
            }
            request => {
                let (Some(context), Some(problem), Some(bench)) = (&mut self.context, &self.problem, &mut self.bench)
                else {
                    return Err(nothing_open());
                };
                at_bench(request, context.as_mut(), problem, &self.ask, bench)
            }
        }
    }

    fn open(&mut self, name: &str, streams: Option<u32>) -> Result<Reply, Error> {
        let mut opened = device::open(name).map_err(|e| Error::unsupported(e.to_string()))?;
        opened.context.use_streams(streams)?;
        let environment = opened.context.environment().clone();
        self.context = Some(opened.context);
        Ok(Reply::Opened { environment, absent: opened.absent })
    }

    fn turn_to(
        &mut self,
        problem: &Problem,
        asks: &[Ask],
        effort: Effort,
        options: BenchOptions,
    ) -> Result<Reply, Error> {
        let context = self.context.as_mut().ok_or_else(nothing_open)?;
        // The former problem's memory goes before the new one's is taken.
        (self.bench, self.mix) = (None, None);
        self.ask = for_all(asks);
        let candidates = offers(context.as_ref(), problem, asks, effort);
        self.bench = Some(Bench::new(context.as_mut(), problem, &options)?);
        self.problem = Some(*problem);
        Ok(Reply::Ready { candidates })
    }

    fn turn_to_mix(&mut self, parts: &[MixPart], round: &[MixTurn], options: &BenchOptions) -> Result<Reply, Error> {
        let context = self.context.as_ref().ok_or_else(nothing_open)?;
        (self.bench, self.mix) = (None, None);
        let problems: Vec<Problem> = parts.iter().map(|part| part.problem).collect();
        let mut mix = Mix::new(context.as_ref(), &problems, round, options)?;
        let mut ids = Vec::with_capacity(parts.len());
        for (at, part) in parts.iter().enumerate() {
            let load = |solution: &Solution| {
                let prepared = prepare(context.as_ref(), &part.problem, solution)?;
                Ok(mix.load(context.as_ref(), at, prepared)?.id)
            };
            ids.push(part.solutions.iter().map(load).collect::<Result<_, Error>>()?);
        }
        self.mix = Some(mix);
        Ok(Reply::Mixed { ids })
    }
}

/// Several libraries may share a name (a routine, and an adapter over it): the one that takes `solution` is meant.
fn prepare(context: &dyn Context, problem: &Problem, solution: &Solution) -> Result<Box<dyn Prepared>, Error> {
    let mut refusal = Error::unsupported(format!("no library '{}' here", solution.library()));
    for library in context.libraries().iter().filter(|l| l.build().library == solution.library()) {
        match library.prepare(problem, solution) {
            Ok(ready) => return Ok(ready),
            Err(e) => refusal = e,
        }
    }
    Err(refusal)
}

fn measured(times_us: Result<Vec<f64>, Error>) -> Result<Reply, Error> {
    match times_us {
        Ok(times_us) => Ok(Reply::Measured { times_us }),
        Err(Error::Disturbed(why)) => Ok(Reply::Disturbed { why }),
        Err(error) => Err(error),
    }
}

/// What a solution may use that is to serve every one of `asks`: the least workspace of all.
fn for_all(asks: &[Ask]) -> Ask {
    Ask { workspace_bytes_max: asks.iter().filter_map(|ask| ask.workspace_bytes_max).min(), ..Ask::default() }
}

/// What engines get by default when they ask in these ways, each once.
fn baselines(context: &dyn Context, problem: &Problem, asks: &[Ask]) -> Vec<Candidate> {
    let libraries = context.libraries();
    let asks_or_any = if asks.is_empty() { &[Ask::default()][..] } else { asks };
    let all = asks_or_any.iter().flat_map(|ask| libraries.iter().flat_map(|l| l.baselines(problem, ask)));
    let mut known = HashSet::new();
    all.filter(|baseline| known.insert(baseline.solution.key()))
        .map(|baseline| Candidate { solution: baseline.solution, baseline_via: Some(baseline.via) })
        .collect()
}

/// Every solution on offer, baselines first, each once. A library that fails to list its solutions offers none.
fn offers(context: &dyn Context, problem: &Problem, asks: &[Ask], effort: Effort) -> Vec<Candidate> {
    let mut offers = baselines(context, problem, asks);
    let mut known: HashSet<String> = offers.iter().map(|offer| offer.solution.key()).collect();
    let ask = for_all(asks);
    let libraries = context.libraries().iter();
    let listed = libraries.flat_map(|library| library.candidates(problem, effort, &ask).unwrap_or_default());
    for solution in listed {
        if known.insert(solution.key()) {
            offers.push(Candidate { solution, baseline_via: None });
        }
    }
    offers
}

fn at_bench(
    request: Request,
    context: &mut dyn Context,
    problem: &Problem,
    ask: &Ask,
    bench: &mut Bench,
) -> Result<Reply, Error> {
    match request {
        Request::Neighbours { solution } => {
            let libraries = context.libraries().iter().filter(|l| l.build().library == solution.build.library);
            let near =
                libraries.map(|library| library.neighbours(problem, &solution, ask)).collect::<Result<Vec<_>, _>>()?;
            Ok(Reply::Neighbours { solutions: near.concat() })
        }
        Request::Load { solution } => {
            let prepared = prepare(context, problem, &solution)?;
            let loaded = bench.load(context, prepared)?;
            Ok(Reply::Loaded { id: loaded.id, ran: loaded.ran, pack_us: loaded.pack_us })
        }
        Request::Verify { id, enough_us } => {
            let verified = bench.verify(context, id, enough_us.unwrap_or(f64::INFINITY))?;
            let Verified { outcome, error, call_us, graph_safe } = verified;
            Ok(Reply::Verified { outcome, error, call_us, graph_safe })
        }
        Request::Measure { block } => {
            let block: Vec<BlockEntry> = block.iter().map(|e| BlockEntry { id: e.id, calls: e.calls }).collect();
            measured(bench.measure(context, &block, Mode::Rotated))
        }
        Request::Refresh { seed } => {
            bench.refresh(context, seed)?;
            Ok(Reply::Done)
        }
        Request::Drop { id } => {
            bench.drop_candidate(id);
            Ok(Reply::Done)
        }
        Request::Open { .. }
        | Request::Problem { .. }
        | Request::Baselines { .. }
        | Request::Mix { .. }
        | Request::MeasureMix { .. } => Err(nothing_open()),
    }
}
