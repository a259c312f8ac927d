//! A worker and the problem it is at, kept alive over deaths. What is done with its candidates is in `timing`.

mod timing;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use tgemm_db::{Environment, Problem, Solution};
use tgemm_kernels::{Ask, Between, Effort};

pub use timing::{BlockResult, Look};

use super::builds::FileVar;
use super::disturbances::Disturbances;
use super::patience::Here;
use crate::worker::{Candidate, Interrupt, Loss, Reply, Request, Worker};

/// How far past the end of the budget a request that is already running may go before its worker is killed.
pub const BUDGET_GRACE: Duration = Duration::from_secs(4);

/// How the sweep asks a problem to be set up.
#[derive(Clone, Debug)]
pub struct BenchSettings {
    /// How many candidates to list.
    pub effort: Effort,
    /// Seed of operand values.
    pub seed: u64,
    /// Bytes to rotate over; 0 is three times the last-level cache.
    pub rotation_bytes: u64,
    /// What stands between two launches.
    pub between: Between,
    /// Streams that a worker is to have used besides its own; `None`: as many as is usual for the device.
    pub streams: Option<u32>,
}

/// Why the session cannot go on with what it was asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Halt {
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The budget ended in the middle of it.
    #[error("the budget ended")]
    BudgetOver,
    /// The device cannot be opened, or is lost.
    #[error("{0}")]
    Device(String),
    /// The problem's operands cannot be made.
    #[error("{0}")]
    Problem(String),
}

/// One device's worker over the problems of a sweep.
pub struct Session {
    device: String,
    interrupt: Interrupt,
    library_files: Vec<FileVar>,
    settings: BenchSettings,
    worker: Option<Worker>,
    environment: Option<Environment>,
    absent: Vec<(String, String)>,
    problem: Option<Problem>,
    asks: Vec<Ask>,
    disturbances: Disturbances,
    candidates: Vec<Candidate>,
    /// Number of the candidate in `candidates` → its number in the worker that lives now.
    loaded: HashMap<usize, usize>,
    /// Calls a sample, so that it takes about this long, microseconds.
    sample_us: f64,
    /// When the whole sweep must be over.
    deadline: Option<Instant>,
}

impl Session {
    /// A session on `device`; nothing is started yet.
    pub fn new(device: &str, settings: BenchSettings, sample_us: f64, interrupt: Interrupt) -> Session {
        Session {
            device: device.into(),
            interrupt,
            library_files: Vec::new(),
            settings,
            worker: None,
            environment: None,
            absent: Vec::new(),
            problem: None,
            asks: Vec::new(),
            disturbances: Disturbances::default(),
            candidates: Vec::new(),
            loaded: HashMap::new(),
            sample_us,
            deadline: None,
        }
    }

    /// Has workers open these files; to be said before the first is started.
    pub fn set_library_files(&mut self, files: Vec<FileVar>) {
        self.library_files = files;
    }

    /// Sets the moment after which nothing new is started and what runs is cut off (see [`BUDGET_GRACE`]).
    pub fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// The environment of the device, opening it if need be; and the libraries that could not be opened.
    pub fn open(&mut self) -> Result<(Environment, Vec<(String, String)>), Halt> {
        self.ensure_worker()?;
        match &self.environment {
            Some(environment) => Ok((environment.clone(), self.absent.clone())),
            None => Err(Halt::Device("the worker did not say what device it opened".into())),
        }
    }

    /// What was thrown away so far.
    pub fn disturbances(&self) -> &Disturbances {
        &self.disturbances
    }

    /// Turns to `problem`, asked for in these ways, and lists the solutions on offer, baselines first.
    pub fn turn_to(&mut self, problem: &Problem, asks: &[Ask]) -> Result<Vec<Candidate>, Halt> {
        self.problem = Some(*problem);
        self.asks = asks.to_vec();
        self.loaded.clear();
        self.candidates.clear();
        self.ensure_worker()?;
        if self.candidates.is_empty() {
            self.set_up_problem()?;
        }
        Ok(self.candidates.clone())
    }

    /// What engines get by default for `problem` when they ask in these ways; nothing is set up. Empty where the worker dies
    /// of it.
    pub fn baselines(&mut self, problem: &Problem, asks: &[Ask]) -> Result<Vec<Solution>, Halt> {
        self.ensure_worker()?;
        Ok(match self.ask(&Request::Baselines { problem: *problem, asks: asks.to_vec() })? {
            Ok(Reply::Ready { candidates }) => candidates.into_iter().map(|candidate| candidate.solution).collect(),
            _ => Vec::new(),
        })
    }

    /// Asks for solutions near that of candidate `number`, and takes those in that are not known yet: their numbers.
    pub fn search_around(&mut self, number: usize) -> Result<std::ops::Range<usize>, Halt> {
        self.ensure_worker()?;
        let solution = self.candidates[number].solution.clone();
        let known = self.candidates.len();
        if let Ok(Reply::Neighbours { solutions }) = self.ask(&Request::Neighbours { solution })? {
            let mut keys: HashSet<String> = self.candidates.iter().map(|c| c.solution.key()).collect();
            let new = solutions.into_iter().filter(|solution| keys.insert(solution.key()));
            self.candidates.extend(new.map(|solution| Candidate { solution, baseline_via: None }));
        }
        Ok(known..self.candidates.len())
    }

    /// Takes in a candidate that was not offered: its number. The same solution twice is two candidates.
    pub fn admit(&mut self, candidate: Candidate) -> usize {
        self.candidates.push(candidate);
        self.candidates.len() - 1
    }

    /// The solution of candidate `number`.
    pub fn solution(&self, number: usize) -> &Solution {
        &self.candidates[number].solution
    }

    /// Frees candidate `number` in the worker.
    pub fn release(&mut self, number: usize) -> Result<(), Halt> {
        if let Some(id) = self.loaded.remove(&number)
            && self.worker.is_some()
        {
            let _ = self.ask(&Request::Drop { id })?;
        }
        Ok(())
    }

    /// Fresh operands at other addresses.
    pub fn refresh(&mut self, seed: u64) -> Result<(), Halt> {
        self.ensure_worker()?;
        match self.ask(&Request::Refresh { seed })? {
            Ok(Reply::Failed { outcome }) => Err(Halt::Problem(outcome.detail)),
            // A worker that died over it starts again with fresh operands anyway.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// A request about several problems at once. What was set up for one is forgotten; a dead worker is an error here.
    pub(super) fn ask_about(&mut self, problems: &[Problem], request: &Request) -> Result<Result<Reply, Loss>, Halt> {
        self.problem = None;
        self.candidates.clear();
        self.loaded.clear();
        self.ensure_worker()?;
        self.ask_within(problems, request)
    }

    /// Notes that figures were to be had, or waits because `why` spoilt them.
    pub(super) fn note_disturbance(&mut self, why: Option<String>) {
        match why {
            Some(why) => self.disturbances.wait_for_calm(why),
            None => self.disturbances.calm(),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Result<Reply, Loss>, Halt> {
        let problem = self.problem;
        self.ask_within(problem.as_slice(), request)
    }

    /// Sends a request within its limit and the budget's end. Inner error: the worker is dead.
    fn ask_within(&mut self, problems: &[Problem], request: &Request) -> Result<Result<Reply, Loss>, Halt> {
        let Some(worker) = self.worker.take() else { return Ok(Err(Loss::Died("no worker".into()))) };
        let here = Here {
            problems,
            device: self.environment.as_ref().map(|environment| &environment.device),
            rotation_bytes: self.settings.rotation_bytes,
            sample_us: self.sample_us,
        };
        let mut limit = here.limit(request);
        let mut cut_by_budget = false;
        if let Some(deadline) = self.deadline {
            let left = (deadline + BUDGET_GRACE).saturating_duration_since(Instant::now());
            cut_by_budget = left < limit;
            limit = limit.min(left);
        }
        match worker.ask(request, limit) {
            Ok((worker, reply)) => {
                self.worker = Some(worker);
                Ok(Ok(reply))
            }
            Err(loss) => {
                self.loaded.clear();
                match loss {
                    Loss::Interrupted => Err(Halt::Interrupted),
                    Loss::Hung(_) if cut_by_budget => Err(Halt::BudgetOver),
                    Loss::Unkillable(_) | Loss::NotStarted(_) => Err(Halt::Device(loss.to_string())),
                    other => Ok(Err(other)),
                }
            }
        }
    }

    /// A live worker with the device open and the problem set up.
    fn ensure_worker(&mut self) -> Result<(), Halt> {
        if self.worker.is_some() {
            return Ok(());
        }
        if self.interrupt.is_set() {
            return Err(Halt::Interrupted);
        }
        self.loaded.clear();
        self.worker =
            Some(Worker::spawn(&self.interrupt, &self.library_files).map_err(|e| Halt::Device(e.to_string()))?);
        match self.ask(&Request::Open { device: self.device.clone(), streams: self.settings.streams })? {
            Ok(Reply::Opened { environment, absent }) => {
                self.environment = Some(environment);
                self.absent = absent;
            }
            Ok(Reply::Failed { outcome }) => return Err(Halt::Device(outcome.detail)),
            Ok(other) => return Err(Halt::Device(unexpected(&other).to_string())),
            Err(loss) => return Err(Halt::Device(format!("device {} cannot be opened: {loss}", self.device))),
        }
        if self.problem.is_some() {
            self.set_up_problem()?;
        }
        Ok(())
    }

    fn set_up_problem(&mut self) -> Result<(), Halt> {
        let Some(problem) = self.problem else { return Ok(()) };
        let BenchSettings { effort, seed, rotation_bytes, between, .. } = self.settings;
        let asks = self.asks.clone();
        match self.ask(&Request::Problem { problem, asks, effort, seed, rotation_bytes, between })? {
            Ok(Reply::Ready { candidates }) => {
                // Numbers stay valid over a restart of the worker: a solution is sent whole when it is loaded.
                if self.candidates.is_empty() {
                    self.candidates = candidates;
                }
                Ok(())
            }
            Ok(Reply::Failed { outcome }) => Err(Halt::Problem(outcome.detail)),
            Ok(other) => Err(Halt::Problem(unexpected(&other).to_string())),
            Err(loss) => Err(Halt::Problem(format!("its operands cannot be made: {loss}"))),
        }
    }
}

pub(super) fn unexpected(reply: &Reply) -> Loss {
    let mut text = format!("{reply:?}");
    if let Some((cut, _)) = text.char_indices().nth(80) {
        text.truncate(cut);
    }
    Loss::Garbled(format!("unexpected answer {text}"))
}
