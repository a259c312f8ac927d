//! Choices: the best outcome for a problem under constraints, against its baseline.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::device::Device;
use crate::dtype::word_enum;
use crate::origin::Origin;
use crate::problem::Problem;
use crate::solution::{Numerics, Solution, WeightForm};

/// What the user allows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Constraints {
    /// Only these libraries; `None` allows all.
    pub libraries: Option<BTreeSet<String>>,
    /// The weight forms that the engine holds or lets be made.
    pub weight_forms: BTreeSet<WeightForm>,
    /// Most scratch memory a launch may use; `None` is no cap.
    pub workspace_bytes_max: Option<u64>,
    /// The least faithful class of arithmetic that will do.
    pub numerics: Numerics,
    /// Only solutions known to be deterministic.
    pub deterministic: bool,
    /// Only solutions known to be graph-safe.
    pub graph_safe: bool,
}

impl Default for Constraints {
    /// Every library, plain and prepacked weights, exact sums: strict where nothing was recorded.
    fn default() -> Constraints {
        Constraints {
            libraries: None,
            weight_forms: BTreeSet::from([WeightForm::Plain, WeightForm::Prepacked]),
            workspace_bytes_max: None,
            numerics: Numerics::Exact,
            deterministic: false,
            graph_safe: false,
        }
    }
}

impl Constraints {
    /// The first constraint that `solution` breaks, in words; `None` if it may run.
    pub fn refuse(&self, solution: &Solution) -> Option<String> {
        if let Some(libraries) = &self.libraries
            && !libraries.contains(solution.library())
        {
            return Some(format!("library {} is not allowed", solution.library()));
        }
        if !self.weight_forms.contains(&solution.weight_form) {
            return Some(format!("weights are not held {}", solution.weight_form));
        }
        if let Some(cap) = self.workspace_bytes_max
            && solution.workspace_bytes > cap
        {
            return Some(format!("needs {} bytes of workspace, {cap} are allowed", solution.workspace_bytes));
        }
        if solution.numerics > self.numerics {
            return Some(format!("its arithmetic is {}, {} is asked for", solution.numerics, self.numerics));
        }
        if self.deterministic && solution.deterministic != Some(true) {
            return Some("not known to be deterministic".into());
        }
        if self.graph_safe && solution.graph_safe != Some(true) {
            return Some("not known to be graph-safe".into());
        }
        None
    }

    /// As [`Constraints::refuse`], for a choice: the numerics class says what tuning may trade away, so it does not refuse
    /// a baseline, which is what runs anyway.
    pub fn refuse_choice(&self, choice: &Choice) -> Option<String> {
        if choice.is_baseline() && choice.solution.numerics > self.numerics {
            return Constraints { numerics: choice.solution.numerics, ..self.clone() }.refuse(&choice.solution);
        }
        self.refuse(&choice.solution)
    }
}

word_enum! {
    /// How the best candidate compares with the baseline.
    pub enum Verdict("verdict") {
        /// The whole interval of the ratio lies below 1 − min_gain: the candidate is chosen.
        Faster = "faster",
        /// No candidate is: the baseline is chosen.
        Same = "same",
        /// The interval is too wide to say either: the baseline is chosen.
        Ambiguous = "ambiguous",
        /// There was no valid baseline: the fastest valid candidate is chosen.
        NoBaseline = "no_baseline",
        /// The source does not say (imported rows).
        Unknown = "unknown",
    }
}

/// Time of the choice over time of the baseline, with a 95 % interval of the mean of paired log ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Ratio {
    /// Best estimate; below 1 is faster than the baseline.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Ratio {
    /// A choice that is its own baseline.
    pub const ONE: Ratio = Ratio { estimate: 1.0, low: 1.0, high: 1.0 };
}

/// What the caller would have run without us, and its time here.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Baseline {
    /// The API call it stands for: `gemm`, `onednn prepacked`, `cublasLtMatmul`.
    pub via: String,
    /// What that call runs.
    pub solution: Solution,
    /// Median microseconds a call, measured beside the choice.
    pub time_us: f64,
}

/// The best outcome for (problem, device, environment) under constraints, against its baseline.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Choice {
    /// What is computed.
    pub problem: Problem,
    /// Where; rows of one device share it.
    pub device: Arc<Device>,
    /// How. The baseline's own solution where nothing was faster.
    pub solution: Solution,
    /// Published microseconds a call: re-measured on fresh buffers, not the figure of the selection.
    pub time_us: f64,
    /// Against the best baseline.
    pub ratio: Ratio,
    /// What the comparison came to.
    pub verdict: Verdict,
    /// All baselines that ran, best first.
    pub baselines: Vec<Baseline>,
    /// Largest error over its bound, at most 1.
    pub error_over_bound: f64,
    /// Share of outputs beyond AITER's own limit (its `err_ratio`).
    pub err_ratio: f64,
    /// Time to pack the weights once, microseconds, where the choice packs.
    pub pack_us: Option<f64>,
    /// How often the recording ran this problem; 0 if it did not say.
    pub count: u64,
    /// When, RFC 3339; empty if unknown.
    pub tuned_at: String,
    /// Which row of which file it was imported from; `None` for one that a sweep made here.
    pub origin: Option<Arc<Origin>>,
}

impl Choice {
    /// A choice that was compared with nothing, and of which nothing more is known: what files of other tools say.
    #[inline]
    pub fn uncompared(problem: Problem, device: impl Into<Arc<Device>>, solution: Solution, time_us: f64) -> Choice {
        Choice {
            problem,
            device: device.into(),
            solution,
            time_us,
            ratio: Ratio::ONE,
            verdict: Verdict::Unknown,
            baselines: Vec::new(),
            error_over_bound: 0.0,
            err_ratio: 0.0,
            pack_us: None,
            count: 0,
            tuned_at: String::new(),
            origin: None,
        }
    }

    /// Time of the best baseline by the ratio that was measured, microseconds a call; `None` if nothing was compared.
    pub fn baseline_us(&self) -> Option<f64> {
        let was_compared = !matches!(self.verdict, Verdict::NoBaseline | Verdict::Unknown);
        let time_us = self.time_us / self.ratio.estimate;
        (was_compared && time_us.is_finite()).then_some(time_us)
    }

    /// The fastest of its baselines, alone.
    pub fn best_baseline(&self) -> Option<&Baseline> {
        self.baselines.iter().min_by(|a, b| a.time_us.total_cmp(&b.time_us))
    }

    /// Is this what the caller would have run without us?
    pub fn is_baseline(&self) -> bool {
        matches!(self.verdict, Verdict::Same | Verdict::Ambiguous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Build;
    use crate::solution::Params;

    #[test]
    fn each_constraint_refuses_in_words() {
        let solution = Solution {
            build: Build::unknown("hipblaslt").into(),
            index: 7,
            name: "Cijk".into(),
            params: Params::new(),
            weight_form: WeightForm::Preshuffled,
            workspace_bytes: 100,
            numerics: Numerics::Partial16,
            deterministic: None,
            graph_safe: Some(false),
        };
        let all = Constraints {
            weight_forms: WeightForm::ALL.iter().copied().collect(),
            numerics: Numerics::Partial16,
            ..Constraints::default()
        };
        assert_eq!(all.refuse(&solution), None);
        let cases = [
            (
                Constraints { libraries: Some(["rocblas".into()].into()), ..all.clone() },
                "library hipblaslt is not allowed",
            ),
            (
                Constraints { weight_forms: [WeightForm::Plain].into(), ..all.clone() },
                "weights are not held preshuffled",
            ),
            (
                Constraints { workspace_bytes_max: Some(99), ..all.clone() },
                "needs 100 bytes of workspace, 99 are allowed",
            ),
            (
                Constraints { numerics: Numerics::Exact, ..all.clone() },
                "its arithmetic is partial16, exact is asked for",
            ),
            (Constraints { deterministic: true, ..all.clone() }, "not known to be deterministic"),
            (Constraints { graph_safe: true, ..all.clone() }, "not known to be graph-safe"),
        ];
        for (constraints, why) in cases {
            assert_eq!(constraints.refuse(&solution).as_deref(), Some(why));
        }
    }
}
