//! The decisions of the race: who wins, what a comparison came to, what is published.

use tgemm_db::choice::{Ratio, Verdict};
use tgemm_db::outcome::Phase;

use super::{Conclusion, Race, Stage};
use crate::stats::{paired_ratio, ratio_estimate};

/// How a contender stands against all baselines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Against {
    Wins,
    Loses,
    Open,
}

impl Race {
    /// The confidence of one decision about one finalist at one look.
    fn confidence(&self) -> f64 {
        let finalists = self.runners.iter().filter(|r| r.finalist && !r.entrant.baseline).count();
        1.0 - (1.0 - self.rules.confidence) / (finalists.max(1) * self.rules.looks.len().max(1)) as f64
    }

    /// Contender against every baseline: it wins if it beats all, loses if it cannot beat one.
    fn against_baselines(&self, arm: usize) -> Against {
        let bar = 1.0 - self.rules.min_gain;
        let mut verdict = Against::Wins;
        for baseline in self.baselines() {
            match paired_ratio(&self.log_ratios(arm, baseline, Phase::Final), self.confidence()) {
                Some(ratio) if ratio.low >= bar => return Against::Loses,
                Some(ratio) if ratio.high < bar => {}
                _ => verdict = Against::Open,
            }
        }
        verdict
    }

    pub(super) fn final_is_over(&self) -> bool {
        let contenders = self.contenders();
        let blocks = self.field().iter().map(|&arm| self.runners[arm].final_logs.len()).min().unwrap_or(0);
        if self.rules.looks.iter().all(|&look| blocks >= look) {
            return true;
        }
        if !self.rules.looks.contains(&blocks) {
            return false;
        }
        let baselines = self.baselines();
        if baselines.is_empty() || contenders.is_empty() {
            return true;
        }
        contenders.iter().all(|&arm| {
            self.against_baselines(arm) != Against::Open
                || baselines.iter().all(|&b| {
                    paired_ratio(&self.log_ratios(arm, b, Phase::Final), self.confidence())
                        .is_some_and(|r| (r.high - r.low) / 2.0 <= self.rules.half_width)
                })
        })
    }

    pub(super) fn confirm_is_over(&self) -> bool {
        let blocks = |arm: &usize| self.runners[*arm].confirm_logs.len();
        self.confirm_field().iter().map(blocks).min().unwrap_or(0) >= self.rules.confirm_blocks
    }

    /// The final is over: names the winner and goes on to the confirmation.
    pub(super) fn decide(&mut self) {
        let contenders = self.contenders();
        if self.baselines().is_empty() {
            self.winner = self.preferred(&contenders);
            self.verdict = Verdict::NoBaseline;
        } else {
            let wins: Vec<usize> =
                contenders.iter().copied().filter(|&arm| self.against_baselines(arm) == Against::Wins).collect();
            self.winner = self.preferred(&wins);
            self.verdict = if self.winner.is_some() { Verdict::Faster } else { self.no_win() };
        }
        self.stage = Stage::Refresh;
    }

    /// The baseline stays: because no contender is faster, or because that is not known?
    pub(super) fn no_win(&self) -> Verdict {
        let open = |&arm: &usize| self.against_baselines(arm) == Against::Open && self.is_undecided(arm);
        if self.contenders().iter().any(open) { Verdict::Ambiguous } else { Verdict::Same }
    }

    /// Could this contender still be faster by more than the half-width of what is known about it?
    fn is_undecided(&self, arm: usize) -> bool {
        self.baselines().iter().any(|&b| {
            paired_ratio(&self.log_ratios(arm, b, Phase::Final), self.confidence())
                .is_none_or(|r| r.low < 1.0 - self.rules.min_gain && (r.high - r.low) / 2.0 > self.rules.half_width)
        })
    }

    /// The fastest of `arms`; among those not measurably slower than it, the first in the fixed order.
    fn preferred(&self, arms: &[usize]) -> Option<usize> {
        let fastest = *arms.iter().min_by(|&&a, &&b| self.median_us(a).total_cmp(&self.median_us(b)))?;
        let is_equal = |&&arm: &&usize| {
            arm == fastest
                || ratio_estimate(&self.log_ratios(arm, fastest, Phase::Final))
                    .is_some_and(|ratio| ratio < 1.0 + self.rules.min_gain)
        };
        arms.iter().filter(is_equal).min_by_key(|&&arm| self.runners[arm].entrant.rank).copied()
    }

    /// On fresh buffers a win must show again: its interval excludes "slower" against every baseline.
    pub(super) fn judge_confirmation(&mut self) {
        if let Some(winner) = self.winner
            && self.verdict == Verdict::Faster
        {
            let holds = self.baselines().iter().all(|&b| {
                paired_ratio(&self.log_ratios(winner, b, Phase::Confirm), self.rules.confidence)
                    .is_some_and(|ratio| ratio.high < 1.0)
            });
            if !holds {
                self.winner = None;
                self.verdict = Verdict::Ambiguous;
            }
        }
        self.stage = Stage::Done;
    }

    /// Time of `arm` over that of the best baseline in the blocks of the final, whoever was chosen; `None` if they never met.
    pub fn against_best_baseline(&self, arm: usize) -> Option<Ratio> {
        let best = self.baselines().into_iter().min_by(|&a, &b| self.median_us(a).total_cmp(&self.median_us(b)))?;
        let logs = self.log_ratios(arm, best, Phase::Final);
        let estimate = ratio_estimate(&logs)?;
        let wide = Ratio { estimate, low: 0.0, high: f64::INFINITY };
        Some(paired_ratio(&logs, self.rules.confidence).unwrap_or(wide))
    }

    /// The result so far; `None` if nothing can be chosen, because no entrant is left.
    pub fn conclude(&self) -> Option<Conclusion> {
        let confirmed = !self.confirm_field().is_empty() && self.confirm_is_over();
        // A confirmation that was cut short gives no figure: the final's stand.
        let last = if confirmed { Phase::Confirm } else { Phase::Final };
        let mut baselines: Vec<(usize, f64)> =
            self.baselines().iter().map(|&b| (b, self.median_until_us(b, last))).collect();
        baselines.sort_by(|a, b| a.1.total_cmp(&b.1));
        let best_baseline = baselines.first().map(|b| b.0);
        let chosen = match (self.winner, best_baseline) {
            (Some(winner), _) => winner,
            (None, Some(baseline)) => baseline,
            (None, None) => self.preferred(&self.contenders())?,
        };
        let ratio = match best_baseline {
            Some(baseline) if baseline != chosen => {
                let logs = self.log_ratios(chosen, baseline, last);
                let estimate = ratio_estimate(&logs)?;
                let wide = Ratio { estimate, low: 0.0, high: f64::INFINITY };
                paired_ratio(&logs, self.rules.confidence).unwrap_or(wide)
            }
            _ => Ratio::ONE,
        };
        let verdict = if best_baseline.is_none() { Verdict::NoBaseline } else { self.verdict };
        let time_us = self.median_until_us(chosen, last);
        Some(Conclusion { chosen, verdict, ratio, time_us, baselines, confirmed })
    }
}
