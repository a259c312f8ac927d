//! The race that decides which candidate of one problem wins.
//!
//! Pure: it takes blocks of timings and says what to measure next. It knows no clock, no device and no library, so every
//! race can be replayed from its samples, and all of it is tested with made-up arms.
//!
//! The course (the reasons of the numbers stand at [`Rules`]):
//! 1. arms come with one probe each; those far behind the best are pruned;
//! 2. halving: shuffled rounds over the whole field, the slower half of the contenders leaves, baselines never do;
//! 3. final: the last contenders and all baselines in palindromic blocks (ABBA), so that drift cancels in paired log
//!    ratios; it ends when every contender is decided, or no more can be learnt within the limits;
//! 4. confirmation: on fresh buffers the winner meets the baselines again. That figure is published, and a win that does
//!    not show again is none.

mod judge;
mod rules;

use tgemm_db::choice::{Ratio, Verdict};
use tgemm_db::outcome::{Phase, Sample, median};

pub use rules::Rules;

use crate::stats::Shuffle;

/// So many blocks in a row without usable figures mean that the device cannot be timed.
pub const VOIDS_MAX: u32 = 16;

/// One solution that entered the race: it is right, and was timed once.
#[derive(Clone, Copy, Debug)]
pub struct Entrant {
    /// Is it what the caller would run without us?
    pub baseline: bool,
    /// Its probe, microseconds a call.
    pub probe_us: f64,
    /// Fixed order among equals: lower is preferred.
    pub rank: u64,
}

/// What the race wants next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Time these entrants one after the other, in this order, and [`Race::feed`] the figures.
    Measure {
        /// What for.
        phase: Phase,
        /// Entrants by number; one may stand twice.
        entries: Vec<usize>,
    },
    /// Make fresh buffers, then ask again.
    Refresh,
    /// The race is over: see [`Race::conclude`].
    Done,
}

/// Where an entrant stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Too far behind, or in the slower half.
    Pruned,
    /// Still in the field, or a finalist at the end.
    InField,
    /// It failed while being timed.
    Retired,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Halving { rounds_left: u32, rounds_next: u32 },
    Final,
    Refresh,
    Confirm,
    Done,
}

#[derive(Clone, Debug)]
struct Runner {
    entrant: Entrant,
    standing: Standing,
    finalist: bool,
    samples: Vec<Sample>,
    /// (block, log of the geometric mean of its two timings there), of the final and of the confirmation.
    final_logs: Vec<(u32, f64)>,
    confirm_logs: Vec<(u32, f64)>,
}

/// The race of one problem.
#[derive(Clone, Debug)]
pub struct Race {
    rules: Rules,
    runners: Vec<Runner>,
    stage: Stage,
    rng: Shuffle,
    block: u32,
    pending: Option<(Phase, Vec<usize>)>,
    /// Void blocks in a row.
    voids: u32,
    /// The contender that goes into the confirmation; `None`: a baseline does.
    winner: Option<usize>,
    verdict: Verdict,
}

/// How the race ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Conclusion {
    /// The entrant chosen.
    pub chosen: usize,
    /// How it compares with the best baseline.
    pub verdict: Verdict,
    /// Its time over that of the best baseline; exactly one where the baseline is chosen.
    pub ratio: Ratio,
    /// The figure to publish: median of the confirmation, or of the latest phase that was reached.
    pub time_us: f64,
    /// Baselines with their medians of the same phase, fastest first.
    pub baselines: Vec<(usize, f64)>,
    /// Did the confirmation take place?
    pub confirmed: bool,
}

impl Race {
    /// A race among `entrants`; the order of shuffles follows from `seed`.
    pub fn new(entrants: &[Entrant], rules: Rules, seed: u64) -> Race {
        let best = entrants.iter().map(|e| e.probe_us).fold(f64::INFINITY, f64::min);
        let runners = entrants
            .iter()
            .map(|&entrant| {
                let behind = !entrant.baseline && entrant.probe_us > best * rules.prune_factor;
                let probe = Sample { phase: Phase::Probe, block: 0, time_us: entrant.probe_us };
                Runner {
                    entrant,
                    standing: if behind { Standing::Pruned } else { Standing::InField },
                    finalist: false,
                    samples: vec![probe],
                    final_logs: Vec::new(),
                    confirm_logs: Vec::new(),
                }
            })
            .collect();
        let rounds = rules.rounds_first;
        let mut race = Race {
            rules,
            runners,
            stage: Stage::Halving { rounds_left: rounds, rounds_next: rounds * 2 },
            rng: Shuffle::new(seed),
            block: 1,
            pending: None,
            voids: 0,
            winner: None,
            verdict: Verdict::Same,
        };
        race.enter_final_if_small();
        race
    }

    /// What to do next; the same answer until it is done.
    pub fn step(&mut self) -> Step {
        if let Some((phase, entries)) = &self.pending {
            return Step::Measure { phase: *phase, entries: entries.clone() };
        }
        let (phase, mut entries) = match self.stage {
            Stage::Halving { .. } => (Phase::Race, self.field()),
            Stage::Final => (Phase::Final, self.field()),
            Stage::Refresh => {
                self.stage = Stage::Confirm;
                return Step::Refresh;
            }
            Stage::Confirm => (Phase::Confirm, self.confirm_field()),
            Stage::Done => return Step::Done,
        };
        if entries.is_empty() {
            self.stage = Stage::Done;
            return Step::Done;
        }
        self.rng.shuffle(&mut entries);
        if phase != Phase::Race {
            entries.extend(entries.clone().iter().rev());
        }
        self.pending = Some((phase, entries.clone()));
        Step::Measure { phase, entries }
    }

    /// The figures of the block that [`Race::step`] asked for, in its order. A block with a figure that is no positive
    /// number is void and asked for again; [`VOIDS_MAX`] in a row end the race.
    pub fn feed(&mut self, times_us: &[f64]) {
        let Some((phase, entries)) = self.pending.take() else { return };
        if times_us.len() != entries.len() || times_us.iter().any(|t| !t.is_finite() || *t <= 0.0) {
            self.voids += 1;
            if self.voids >= VOIDS_MAX {
                self.stop();
            }
            return;
        }
        self.voids = 0;
        for (&arm, &time_us) in entries.iter().zip(times_us) {
            self.runners[arm].samples.push(Sample { phase, block: self.block, time_us });
        }
        if phase != Phase::Race {
            self.note_pairs(phase, &entries, times_us);
        }
        self.block += 1;
        self.advance();
    }

    /// Takes an entrant out that failed while being timed; the block in hand is void.
    pub fn retire(&mut self, arm: usize) {
        self.pending = None;
        self.runners[arm].standing = Standing::Retired;
        if self.winner == Some(arm) {
            self.winner = None;
            self.verdict = Verdict::Ambiguous;
        }
        if matches!(self.stage, Stage::Halving { .. }) {
            self.enter_final_if_small();
        }
    }

    /// Time is short: the final begins at once, among those that are fastest so far. A halving that is cut off would decide
    /// nothing; a final can.
    pub fn hurry(&mut self) {
        if !matches!(self.stage, Stage::Halving { .. }) {
            return;
        }
        self.pending = None;
        let mut contenders = self.contenders();
        contenders.sort_by(|&a, &b| self.median_us(a).total_cmp(&self.median_us(b)));
        for &arm in contenders.iter().skip(self.rules.finalists_max) {
            self.runners[arm].standing = Standing::Pruned;
        }
        self.enter_final_if_small();
    }

    /// The budget is over: what is decided stands, nothing more is measured.
    pub fn stop(&mut self) {
        self.pending = None;
        match self.stage {
            Stage::Halving { .. } => self.verdict = self.no_win(),
            Stage::Final => self.decide(),
            Stage::Refresh | Stage::Confirm | Stage::Done => {}
        }
        self.stage = Stage::Done;
    }

    /// Where entrant `arm` stands.
    pub fn standing(&self, arm: usize) -> Standing {
        self.runners[arm].standing
    }

    /// Did it meet the baselines in the final?
    pub fn is_finalist(&self, arm: usize) -> bool {
        self.runners[arm].finalist
    }

    /// Will it be timed again? What is not needed may be freed.
    pub fn is_needed(&self, arm: usize) -> bool {
        match self.stage {
            Stage::Refresh | Stage::Confirm => self.confirm_field().contains(&arm),
            _ => self.alive(arm),
        }
    }

    /// All its timings.
    pub fn samples(&self, arm: usize) -> &[Sample] {
        &self.runners[arm].samples
    }

    fn alive(&self, arm: usize) -> bool {
        self.runners[arm].standing == Standing::InField
    }

    fn field(&self) -> Vec<usize> {
        (0..self.runners.len()).filter(|&arm| self.alive(arm)).collect()
    }

    fn baselines(&self) -> Vec<usize> {
        self.field().into_iter().filter(|&arm| self.runners[arm].entrant.baseline).collect()
    }

    fn contenders(&self) -> Vec<usize> {
        self.field().into_iter().filter(|&arm| !self.runners[arm].entrant.baseline).collect()
    }

    fn confirm_field(&self) -> Vec<usize> {
        self.winner.into_iter().chain(self.baselines()).collect()
    }

    fn note_pairs(&mut self, phase: Phase, entries: &[usize], times_us: &[f64]) {
        for arm in &entries[..entries.len() / 2] {
            let logs = entries.iter().zip(times_us).filter(|(a, _)| *a == arm).map(|(_, t)| t.ln());
            let mean = logs.sum::<f64>() / 2.0;
            let runner = &mut self.runners[*arm];
            let list = if phase == Phase::Final { &mut runner.final_logs } else { &mut runner.confirm_logs };
            list.push((self.block, mean));
        }
    }

    /// Median of this entrant's timings of the latest phase it reached, none later than `last`.
    fn median_until_us(&self, arm: usize, last: Phase) -> f64 {
        let samples = self.runners[arm].samples.iter().filter(|s| s.phase <= last);
        let latest = samples.clone().map(|s| s.phase).max().unwrap_or(Phase::Probe);
        let mut times: Vec<f64> = samples.filter(|s| s.phase == latest).map(|s| s.time_us).collect();
        median(&mut times).unwrap_or(f64::INFINITY)
    }

    fn median_us(&self, arm: usize) -> f64 {
        self.median_until_us(arm, Phase::Confirm)
    }

    /// Log ratios `a` over `b` in the blocks where both ran.
    fn log_ratios(&self, a: usize, b: usize, phase: Phase) -> Vec<f64> {
        let logs = |arm: usize| match phase {
            Phase::Confirm => &self.runners[arm].confirm_logs,
            _ => &self.runners[arm].final_logs,
        };
        let (a, b) = (logs(a), logs(b));
        a.iter().filter_map(|(block, x)| b.iter().find(|(other, _)| other == block).map(|(_, y)| x - y)).collect()
    }

    fn advance(&mut self) {
        match self.stage {
            Stage::Halving { rounds_left, rounds_next } if rounds_left > 1 => {
                self.stage = Stage::Halving { rounds_left: rounds_left - 1, rounds_next };
            }
            Stage::Halving { rounds_next, .. } => {
                self.halve();
                self.stage = Stage::Halving { rounds_left: rounds_next, rounds_next: rounds_next * 2 };
                self.enter_final_if_small();
            }
            Stage::Final if self.final_is_over() => self.decide(),
            Stage::Confirm if self.confirm_is_over() => self.judge_confirmation(),
            _ => {}
        }
    }

    /// The slower half of the contenders leaves, but never more than down to the finalists.
    fn halve(&mut self) {
        let mut contenders = self.contenders();
        contenders.sort_by(|&a, &b| self.median_us(a).total_cmp(&self.median_us(b)));
        let keep = contenders.len().div_ceil(2).max(self.rules.finalists_max);
        for &arm in contenders.iter().skip(keep) {
            self.runners[arm].standing = Standing::Pruned;
        }
    }

    fn enter_final_if_small(&mut self) {
        if self.contenders().len() <= self.rules.finalists_max {
            self.stage = Stage::Final;
            for arm in self.field() {
                self.runners[arm].finalist = true;
            }
        }
    }
}

#[cfg(test)]
mod tests;
