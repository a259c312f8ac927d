//! Candidates of the problem in hand, checked and timed: whatever one does to the worker, it gets its outcome.

use tgemm_db::Solution;
use tgemm_db::outcome::{ErrorFigures, Outcome, OutcomeKind};

use super::{Halt, Session, unexpected};
use crate::worker::{Entry, Loss, Reply, Request};

/// What a first look at a candidate gave.
#[derive(Clone, Debug)]
pub struct Look {
    /// The solution that really ran; as asked for where it never got so far.
    pub ran: Solution,
    /// Right, wrong, refused, dead, …
    pub outcome: Outcome,
    /// How far off.
    pub error: Option<ErrorFigures>,
    /// Time to pack the weights, microseconds.
    pub pack_us: Option<f64>,
    /// May it be captured into a graph? `None`: not known.
    pub graph_safe: Option<bool>,
    /// Time of one call, microseconds, if it ran.
    pub probe_us: Option<f64>,
}

/// What became of a block.
pub enum BlockResult {
    /// Microseconds a call, one an entry.
    Times(Vec<f64>),
    /// Something else was at work on the device: no figures, and it may be tried again.
    Disturbed,
    /// These candidates fail when timed, alone as well: no figures.
    Guilty(Vec<(usize, Outcome)>),
    /// The worker dies of this block, twice, but of none of its candidates alone.
    Together(Outcome),
}

/// How often a candidate's first timing is tried while the device is disturbed.
const PROBES_MAX: u32 = 3;

impl Session {
    /// Loads, checks and times candidate `number` once. Whatever it does to the worker, it gets exactly one outcome: a
    /// death is repeated in a fresh worker before it is believed.
    ///
    /// The launches of the check find their operands in the cache, so they are faster than those of a rotation: one that
    /// is slower than `enough_us` even so is not timed again, that figure is its probe.
    pub fn look(&mut self, number: usize, enough_us: f64) -> Result<Look, Halt> {
        match self.look_once(number, enough_us)? {
            Ok(look) => Ok(look),
            Err(_first) => match self.look_once(number, enough_us)? {
                Ok(look) => Ok(look),
                Err(again) => Ok(self.lost_look(number, again)),
            },
        }
    }

    fn lost_look(&self, number: usize, loss: Loss) -> Look {
        Look {
            ran: self.candidates[number].solution.clone(),
            outcome: blame(&loss),
            error: None,
            pack_us: None,
            graph_safe: None,
            probe_us: None,
        }
    }

    /// The outer error ends the problem; the inner one is the death of a worker.
    fn look_once(&mut self, number: usize, enough_us: f64) -> Result<Result<Look, Loss>, Halt> {
        self.ensure_worker()?;
        let solution = self.candidates[number].solution.clone();
        let mut look = Look {
            ran: solution.clone(),
            outcome: Outcome::ok(),
            error: None,
            pack_us: None,
            graph_safe: None,
            probe_us: None,
        };
        let id = match self.ask(&Request::Load { solution })? {
            Ok(Reply::Loaded { id, ran, pack_us }) => {
                (look.ran, look.pack_us) = (ran, pack_us);
                id
            }
            Ok(Reply::Failed { outcome }) => return Ok(Ok(Look { outcome, ..look })),
            Ok(other) => return Ok(Err(unexpected(&other))),
            Err(loss) => return Ok(Err(loss)),
        };
        self.loaded.insert(number, id);
        let call_us = match self.ask(&Request::Verify { id, enough_us: enough_us.is_finite().then_some(enough_us) })? {
            Ok(Reply::Verified { outcome, error, call_us, graph_safe }) => {
                (look.outcome, look.error, look.graph_safe) = (outcome, error, graph_safe);
                call_us
            }
            Ok(Reply::Failed { outcome }) => return Ok(Ok(Look { outcome, ..look })),
            Ok(other) => return Ok(Err(unexpected(&other))),
            Err(loss) => return Ok(Err(loss)),
        };
        if look.outcome.kind != OutcomeKind::Ok {
            return Ok(Ok(look));
        }
        if call_us > enough_us {
            look.probe_us = Some(call_us);
            return Ok(Ok(look));
        }
        // A first impression, if not the best: it stands if the device is never calm.
        look.probe_us = Some(call_us);
        let block = vec![Entry { id, calls: self.calls(call_us) }];
        for _ in 0..PROBES_MAX {
            match self.ask(&Request::Measure { block: block.clone() })? {
                Ok(Reply::Measured { times_us }) => look.probe_us = times_us.first().copied(),
                Ok(Reply::Disturbed { why }) => {
                    self.disturbances.wait_for_calm(why);
                    continue;
                }
                Ok(Reply::Failed { outcome }) => look.outcome = outcome,
                Ok(other) => return Ok(Err(unexpected(&other))),
                Err(loss) => return Ok(Err(loss)),
            }
            break;
        }
        Ok(Ok(look))
    }

    /// Times `entries` (candidate, expected microseconds) in order. A death is followed up alone, entry by entry.
    pub fn measure(&mut self, entries: &[(usize, f64)]) -> Result<BlockResult, Halt> {
        match self.measure_once(entries)? {
            Ok(result) => return Ok(result),
            Err(_) => self.ensure_worker()?,
        }
        let mut numbers: Vec<usize> = entries.iter().map(|entry| entry.0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut guilty = Vec::new();
        for number in numbers {
            // As often as in the block: a second launch may do what the first does not.
            let alone: Vec<(usize, f64)> = entries.iter().copied().filter(|entry| entry.0 == number).collect();
            match self.measure_once(&alone)? {
                Ok(BlockResult::Guilty(mut failed)) => guilty.append(&mut failed),
                Ok(_) => {}
                Err(loss) => guilty.push((number, blame(&loss))),
            }
        }
        if !guilty.is_empty() {
            return Ok(BlockResult::Guilty(guilty));
        }
        Ok(match self.measure_once(entries)? {
            Ok(result) => result,
            Err(loss) => BlockResult::Together(blame(&loss)),
        })
    }

    fn measure_once(&mut self, entries: &[(usize, f64)]) -> Result<Result<BlockResult, Loss>, Halt> {
        self.ensure_worker()?;
        let mut block = Vec::with_capacity(entries.len());
        for &(number, expected_us) in entries {
            let id = match self.loaded.get(&number) {
                Some(&id) => id,
                None => {
                    let solution = self.candidates[number].solution.clone();
                    match self.ask(&Request::Load { solution })? {
                        Ok(Reply::Loaded { id, .. }) => {
                            self.loaded.insert(number, id);
                            id
                        }
                        Ok(Reply::Failed { outcome }) => return Ok(Ok(BlockResult::Guilty(vec![(number, outcome)]))),
                        Ok(other) => return Ok(Err(unexpected(&other))),
                        Err(loss) => return Ok(Err(loss)),
                    }
                }
            };
            block.push(Entry { id, calls: self.calls(expected_us) });
        }
        Ok(match self.ask(&Request::Measure { block })? {
            Ok(Reply::Measured { times_us }) => {
                self.disturbances.calm();
                Ok(BlockResult::Times(times_us))
            }
            Ok(Reply::Disturbed { why }) => {
                self.disturbances.wait_for_calm(why);
                Ok(BlockResult::Disturbed)
            }
            Ok(Reply::Failed { outcome }) if entries.iter().all(|entry| entry.0 == entries[0].0) => {
                Ok(BlockResult::Guilty(vec![(entries[0].0, outcome)]))
            }
            // Some entry of several failed: each alone will show which.
            Ok(other) => Err(unexpected(&other)),
            Err(loss) => Err(loss),
        })
    }

    /// Checks candidate `number` again, on the operands as they are now; `None`: it is right, or no answer was to be had
    /// because the worker died (which timing it will show).
    pub fn verify_again(&mut self, number: usize) -> Result<Option<Outcome>, Halt> {
        let Some(&id) = self.loaded.get(&number) else { return Ok(None) };
        Ok(match self.ask(&Request::Verify { id, enough_us: None })? {
            Ok(Reply::Verified { outcome, .. } | Reply::Failed { outcome }) => {
                (outcome.kind != OutcomeKind::Ok).then_some(outcome)
            }
            _ => None,
        })
    }

    fn calls(&self, expected_us: f64) -> u32 {
        const CALLS_MAX: f64 = 2000.0;
        (self.sample_us / expected_us.max(0.01)).ceil().clamp(1.0, CALLS_MAX) as u32
    }
}

/// What the repeated loss of a worker makes of the candidate that was running.
fn blame(loss: &Loss) -> Outcome {
    match loss {
        Loss::Hung(after) => Outcome::new(OutcomeKind::Hung, format!("no answer within {after:.1?}, twice")),
        other => Outcome::new(OutcomeKind::Crashed, format!("{other}, twice")),
    }
}
