//! Outcomes: what happened to a candidate in a sweep, exactly one each.

use crate::dtype::word_enum;
use crate::solution::Solution;

word_enum! {
    /// What happened to a candidate.
    pub enum OutcomeKind("outcome") {
        /// It ran, it is right, it has samples.
        Ok = "ok",
        /// It is right but so much slower than the best that it was dropped early; its samples are kept.
        Pruned = "pruned",
        /// The budget ended first.
        Untried = "untried",
        /// Its result is not within the gate.
        Wrong = "wrong",
        /// The library or the device refuses it here.
        Unsupported = "unsupported",
        /// The process that ran it died.
        Crashed = "crashed",
        /// It did not answer within its time.
        Hung = "hung",
        /// It needs more memory than there is.
        OutOfMemory = "out-of-memory",
        /// It gave different bits for the same input.
        Nondeterministic = "nondeterministic",
    }
}

impl OutcomeKind {
    /// Is this final for this environment: not worth another try when a sweep resumes?
    pub fn is_final_failure(self) -> bool {
        matches!(
            self,
            Self::Wrong | Self::Unsupported | Self::Crashed | Self::Hung | Self::OutOfMemory | Self::Nondeterministic
        )
    }
}

/// An outcome with its reason.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Outcome {
    /// What happened.
    pub kind: OutcomeKind,
    /// Why, for a person; empty where the kind says it all.
    pub detail: String,
}

impl Outcome {
    /// An outcome with a reason.
    pub fn new(kind: OutcomeKind, detail: impl Into<String>) -> Outcome {
        Outcome { kind, detail: detail.into() }
    }

    /// It ran and is right.
    pub fn ok() -> Outcome {
        Outcome::new(OutcomeKind::Ok, "")
    }
}

/// How far a result was from the reference; all relative to the scale of the row, see the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ErrorFigures {
    /// Largest error over all outputs that were checked, divided by the bound: over 1 is wrong.
    pub max_over_bound: f64,
    /// Largest error divided by the norm that scales it.
    pub max_relative: f64,
    /// Share of outputs beyond the bound (AITER's `err_ratio`).
    pub share_beyond: f64,
    /// Outputs that were compared.
    pub checked: u64,
}

word_enum! {
    /// What a sample was taken for.
    pub enum Phase("phase") {
        /// First look at a candidate.
        Probe = "probe",
        /// A round of the race.
        Race = "race",
        /// A pair of a finalist with the baseline.
        Final = "final",
        /// The winner on fresh buffers: the published figure.
        Confirm = "confirm",
    }
}

/// One timing of one candidate: the mean time of a call over a block of launches.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sample {
    /// Why it was taken.
    pub phase: Phase,
    /// Number of the block, counted over the whole race of one problem: samples of one block are neighbours in time.
    pub block: u32,
    /// Microseconds a call.
    pub time_us: f64,
}

/// A candidate of one problem with everything that was found out about it.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Trial {
    /// The solution as it ran, read back from the library.
    pub solution: Solution,
    /// If this is a baseline: the API call it stands for.
    pub baseline_via: Option<String>,
    /// What happened.
    pub outcome: Outcome,
    /// Did it reach the last round against the baseline?
    pub finalist: bool,
    /// How exact it was; `None` if it never gave a result.
    pub error: Option<ErrorFigures>,
    /// Time to pack the weights once, microseconds; `None` where nothing is packed.
    pub pack_us: Option<f64>,
    /// Every timing, in order.
    pub samples: Vec<Sample>,
}

impl Trial {
    /// Median of all samples but the probe's if there are others, microseconds.
    pub fn median_us(&self) -> Option<f64> {
        let raced = |s: &&Sample| s.phase != Phase::Probe;
        let mut times: Vec<f64> = self.samples.iter().filter(raced).map(|s| s.time_us).collect();
        if times.is_empty() {
            times = self.samples.iter().map(|s| s.time_us).collect();
        }
        median(&mut times)
    }
}

/// The middle value; the mean of the middle two for an even count. Sorts in place.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(values[n / 2]),
        _ => Some((values[n / 2 - 1] + values[n / 2]) / 2.0),
    }
}
