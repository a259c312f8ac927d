//! What the libraries list, and whether a stored solution is still the one that runs when it is asked for again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tgemm_db::outcome::OutcomeKind;
use tgemm_db::{Build, Problem, Recorded, Solution, Trial, key};
use tgemm_kernels::{Ask, Between, Effort};

use crate::sweep::{BenchSettings, Halt, Session};
use crate::worker::{Candidate, Interrupt};

/// Solutions that are named one by one, of each library and problem.
const NAMED_MAX: usize = 64;
/// Stored solutions that are asked for again, of each library and problem.
const ASKED_AGAIN_MAX: usize = 4;

/// What one library offered for one problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// For what, in short.
    pub problem: String,
    /// How many solutions were asked for.
    pub effort: &'static str,
    /// Who.
    pub library: String,
    /// Calls that an engine would make.
    pub baselines: usize,
    /// Solutions on the list.
    pub candidates: usize,
    /// The first of them.
    pub named: Vec<Solution>,
}

/// All lists of a device.
#[derive(Debug, Default)]
pub struct Lists {
    /// One a problem, effort and library.
    pub offers: Vec<Offer>,
    /// What could not be listed: problem and reason.
    pub failed: Vec<(String, String)>,
}

/// One stored solution asked for again.
#[derive(Clone, Debug)]
pub struct Route {
    /// For what, in short.
    pub problem: String,
    /// What was stored.
    pub asked: Solution,
    /// What ran, as the library says.
    pub ran: Solution,
    /// Does it carry another build's version on purpose? Then it must be refused.
    pub foreign: bool,
    /// What became of it.
    pub outcome: OutcomeKind,
    /// Why.
    pub detail: String,
    /// Error over its bound, if it ran.
    pub error_over_bound: Option<f64>,
    /// Time of a call, microseconds, if it ran.
    pub probe_us: Option<f64>,
}

impl Route {
    /// Did it go as it should: the very solution, right; or a foreign one refused?
    pub fn holds(&self) -> bool {
        match self.foreign {
            true => self.outcome == OutcomeKind::Unsupported,
            false => self.outcome == OutcomeKind::Ok && self.asked.key() == self.ran.key(),
        }
    }
}

/// Where and until when things are asked.
pub struct Asking<'a> {
    /// As on the command line.
    pub device: &'a str,
    /// When no further problem is begun.
    pub until: Instant,
    /// Set when the user wants to stop.
    pub interrupt: &'a Interrupt,
}

impl Asking<'_> {
    /// A session with a worker of its own.
    fn session(&self, effort: Effort) -> Session {
        // Nothing here is timed for a choice: one set of operands, short samples.
        const SAMPLE_US: f64 = 1000.0;
        let settings = BenchSettings {
            effort,
            seed: 1,
            rotation_bytes: 1,
            between: Between { kernels: Some(0), ..Between::default() },
            streams: Some(0),
        };
        let mut session = Session::new(self.device, settings, SAMPLE_US, self.interrupt.clone());
        session.set_deadline(Some(self.until + Duration::from_secs(1)));
        session
    }

    fn is_over(&self) -> bool {
        self.interrupt.is_set() || Instant::now() >= self.until
    }

    /// What every library offers for `rows`, by the usual effort and by the greatest.
    ///
    /// # Errors
    /// The device is lost.
    pub fn lists(&self, rows: &[Recorded]) -> Result<Lists, Halt> {
        let mut lists = Lists::default();
        for (effort, word) in [(Effort::Balanced, "balanced"), (Effort::Full, "full")] {
            let mut session = self.session(effort);
            for row in rows {
                let name = key::short(&row.problem);
                if self.is_over() {
                    lists.failed.push((name, "no time was left".into()));
                    continue;
                }
                match session.turn_to(&row.problem, &[Ask::from(row)]) {
                    Ok(offered) => lists.offers.extend(by_library(&name, word, offered)),
                    Err(halt @ (Halt::Device(_) | Halt::Interrupted)) => return Err(halt),
                    Err(halt) => lists.failed.push((name, halt.to_string())),
                }
            }
        }
        Ok(lists)
    }

    /// Asks in a fresh worker for what `trials` of `problem` say was right before, and for one of another build.
    ///
    /// # Errors
    /// The device is lost.
    pub fn again(&self, problem: &Problem, trials: &[Trial]) -> Result<Vec<Route>, Halt> {
        let mut session = self.session(Effort::Minimal);
        let mut routes = Vec::new();
        match session.turn_to(problem, &[Ask::default()]) {
            Ok(_) => {}
            Err(halt @ (Halt::Device(_) | Halt::Interrupted)) => return Err(halt),
            Err(_) => return Ok(routes),
        }
        for (asked, foreign) in asked_again(trials) {
            if self.is_over() {
                break;
            }
            let number = session.admit(Candidate { solution: asked.clone(), baseline_via: None });
            let look = match session.look(number, f64::INFINITY) {
                Ok(look) => look,
                Err(Halt::BudgetOver) => break,
                Err(halt) => return Err(halt),
            };
            routes.push(Route {
                problem: key::short(problem),
                asked,
                ran: look.ran,
                foreign,
                outcome: look.outcome.kind,
                detail: look.outcome.detail,
                error_over_bound: look.error.map(|error| error.max_over_bound),
                probe_us: look.probe_us,
            });
            session.release(number)?;
        }
        Ok(routes)
    }
}

fn by_library(problem: &str, effort: &'static str, offered: Vec<Candidate>) -> Vec<Offer> {
    let mut offers: BTreeMap<String, Offer> = BTreeMap::new();
    for Candidate { solution, baseline_via } in offered {
        let library = solution.library().to_owned();
        let offer = offers.entry(library.clone()).or_insert_with(|| Offer {
            problem: problem.to_owned(),
            effort,
            library,
            baselines: 0,
            candidates: 0,
            named: Vec::new(),
        });
        match baseline_via {
            Some(_) => offer.baselines += 1,
            None => offer.candidates += 1,
        }
        if offer.named.len() < NAMED_MAX {
            offer.named.push(solution);
        }
    }
    offers.into_values().collect()
}

/// Of each library some that were right, spread over its list; and the first of them as if of another build.
fn asked_again(trials: &[Trial]) -> Vec<(Solution, bool)> {
    let mut by_library: BTreeMap<&str, Vec<&Solution>> = BTreeMap::new();
    let was_right = |t: &&Trial| matches!(t.outcome.kind, OutcomeKind::Ok | OutcomeKind::Pruned);
    for trial in trials.iter().filter(was_right) {
        by_library.entry(trial.solution.library()).or_default().push(&trial.solution);
    }
    let mut asked = Vec::new();
    for solutions in by_library.values() {
        let step = solutions.len().div_ceil(ASKED_AGAIN_MAX).max(1);
        asked.extend(solutions.iter().step_by(step).map(|solution| (Solution::clone(solution), false)));
        if let Some(&first) = solutions.first() {
            let build = Build { version: format!("{}-other", first.build.version), ..Build::clone(&first.build) };
            asked.push((Solution { build: build.into(), ..first.clone() }, true));
        }
    }
    asked
}
