//! The script: what a scripted device offers, what it costs, and how it misbehaves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tgemm_db::{Build, Numerics, Params, Solution, WeightForm};

use crate::Effort;

/// The longest script that is read.
pub const SCRIPT_BYTES_MAX: u64 = 1 << 20;

/// Most solutions of one script.
pub const SOLUTIONS_MAX: usize = 4096;

/// Why a script cannot be played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("{path}: {reason}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// Over [`SCRIPT_BYTES_MAX`].
    #[error("a script of {0} bytes; at most {SCRIPT_BYTES_MAX} are read")]
    TooLong(u64),
    /// Not the JSON of a script; the message has line and column.
    #[error("script: {0}")]
    Json(#[from] serde_json::Error),
    /// Over [`SOLUTIONS_MAX`], or none.
    #[error("a script with {0} solutions; it must have between 1 and {SOLUTIONS_MAX}")]
    Count(usize),
    /// A solution says something that cannot be.
    #[error("script: solution '{name}': {reason}")]
    Solution {
        /// Its name.
        name: String,
        /// What cannot be.
        reason: String,
    },
}

/// A whole script.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// What the device says it is.
    #[serde(default)]
    pub device: DeviceScript,
    /// What noise is drawn from.
    #[serde(default)]
    pub seed: u64,
    /// Do launches take the time that the script gives them? Else time is virtual and a sweep takes none.
    #[serde(default)]
    pub real_time: bool,
    /// Does the device look over memory itself when it is asked to?
    #[serde(default)]
    pub surveys: bool,
    /// Version that all libraries report.
    #[serde(default = "version")]
    pub version: String,
    /// Device memory.
    #[serde(default = "memory_bytes")]
    pub memory_bytes: u64,
    /// What can be run, in the order in which libraries offer it.
    pub solutions: Vec<SolutionScript>,
}

/// The device's identity.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeviceScript {
    /// Instruction set.
    pub arch: String,
    /// Compute units.
    pub compute_units: u32,
    /// Memory in GiB.
    pub memory_gib: Option<u32>,
    /// Chip id.
    pub chip_id: Option<u32>,
    /// Last-level cache; small by default, so that rotations are short.
    pub last_level_cache_bytes: u64,
}

impl Default for DeviceScript {
    fn default() -> DeviceScript {
        let arch = "scripted".into();
        DeviceScript { arch, compute_units: 2, memory_gib: None, chip_id: None, last_level_cache_bytes: 64 << 10 }
    }
}

/// One solution.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SolutionScript {
    /// Its name, unique within the library and parameters.
    pub name: String,
    /// The library that offers it.
    #[serde(default = "library")]
    pub library: String,
    /// What a call takes.
    pub time_us: Cost,
    /// Standard deviation of the logarithm of a figure.
    #[serde(default)]
    pub noise: f64,
    /// Relative change of the time from one timed block to the next.
    #[serde(default)]
    pub drift: f64,
    /// Microseconds more where a launch comes after another problem's.
    #[serde(default)]
    pub mixed_us: f64,
    /// The API call that it is the baseline of.
    #[serde(default)]
    pub baseline: Option<String>,
    /// `plain` or `prepacked`.
    #[serde(default)]
    pub weight_form: String,
    /// Name of the packed form; equal names share. Its own by default.
    #[serde(default)]
    pub pack_key: Option<String>,
    /// Scratch memory.
    #[serde(default)]
    pub workspace_bytes: u64,
    /// Parameters, such as `threads`.
    #[serde(default)]
    pub params: BTreeMap<String, serde_json::Value>,
    /// Numerics class; exact by default.
    #[serde(default)]
    pub numerics: String,
    /// The least effort at which it is offered.
    #[serde(default = "effort")]
    pub effort: Effort,
    /// The solution that it is a neighbour of: it is offered to whoever searches around that one, and on no list.
    #[serde(default)]
    pub near: Option<String>,
    /// How it misbehaves.
    #[serde(default)]
    pub behaviours: Vec<Behaviour>,
}

/// Microseconds a call: in a script a number, or an object from M to a number.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "CostText")]
pub enum Cost {
    /// The same for every problem.
    Flat(f64),
    /// By M: the time of the largest M listed that is not above the problem's, else of the smallest.
    ByM(BTreeMap<u32, f64>),
}

/// A cost as it stands in a script, where keys are text.
#[derive(Deserialize)]
#[serde(untagged, expecting = "time_us is neither a number nor an object from M to a number")]
enum CostText {
    Flat(f64),
    ByM(BTreeMap<String, f64>),
}

impl TryFrom<CostText> for Cost {
    type Error = String;
    fn try_from(text: CostText) -> Result<Cost, String> {
        let number = |(m, us): (String, f64)| match m.parse() {
            Ok(m) => Ok((m, us)),
            Err(_) => Err(format!("time_us: '{m}' is no number of tokens")),
        };
        match text {
            CostText::Flat(us) => Ok(Cost::Flat(us)),
            CostText::ByM(times) => times.into_iter().map(number).collect::<Result<_, _>>().map(Cost::ByM),
        }
    }
}

impl Cost {
    /// The time of a call with `m` tokens.
    pub fn at(&self, m: u32) -> f64 {
        match self {
            Cost::Flat(us) => *us,
            Cost::ByM(times) => {
                let at = times.range(..=m).next_back().or_else(|| times.first_key_value());
                at.map_or(0.0, |(_, &us)| us)
            }
        }
    }

    fn all(&self) -> Vec<f64> {
        match self {
            Cost::Flat(us) => vec![*us],
            Cost::ByM(times) => times.values().copied().collect(),
        }
    }
}

/// One way to misbehave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Behaviour {
    /// What happens.
    pub kind: Kind,
    /// While doing what.
    #[serde(default)]
    pub when: When,
    /// At every n-th time only: 1 is always, 2 makes the first launch good and the second bad.
    #[serde(default = "every")]
    pub every: u32,
    /// In which matrix of a batched output; the last by default.
    #[serde(default)]
    pub matrix: Option<u32>,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The last output is off.
    Wrong,
    /// The last output is NaN.
    Nan,
    /// The last output is not written.
    Unwritten,
    /// A byte behind the output is written.
    OutOfBounds,
    /// A byte before the output is written.
    BeforeBounds,
    /// The byte behind the last output is written: it lies in a gap where rows or matrices lie apart.
    InGap,
    /// A byte behind the workspace that it asked for is written.
    OverWorkspace,
    /// The last bit of the last output changes from launch to launch.
    Nondeterministic,
    /// It never returns.
    Hang,
    /// The process aborts.
    Abort,
    /// The process exits with code 0.
    Exit0,
    /// It prints bytes that are no message to stdout.
    Garbage,
    /// It says that it does not do this.
    Unsupported,
    /// It says that there is not enough memory.
    OutOfMemory,
    /// It fails with a status after it may have started.
    Error,
    /// Something else is at work on the device: the whole block means nothing.
    Disturbed,
}

impl Kind {
    fn needs_output(self) -> bool {
        use Kind::{BeforeBounds, InGap, Nan, Nondeterministic, OutOfBounds, OverWorkspace, Unwritten, Wrong};
        let out_of_place = matches!(self, OutOfBounds | BeforeBounds | InGap | OverWorkspace);
        out_of_place || matches!(self, Wrong | Nan | Unwritten | Nondeterministic)
    }
}

/// While doing what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum When {
    /// Making it ready.
    Prepare = 0,
    /// Packing the weights.
    Pack = 1,
    /// Launches outside of timing.
    #[default]
    Verify = 2,
    /// Launches that are timed.
    Measure = 3,
}

fn version() -> String {
    "1".into()
}
fn memory_bytes() -> u64 {
    1 << 30
}
fn library() -> String {
    "scripted".into()
}
fn effort() -> Effort {
    Effort::Minimal
}
fn every() -> u32 {
    1
}

impl Script {
    /// Reads the script in the file at `path`.
    pub fn read(path: &Path) -> Result<Script, ScriptError> {
        let io = |reason| ScriptError::Io { path: path.into(), reason };
        let bytes = std::fs::metadata(path).map_err(io)?.len();
        if bytes > SCRIPT_BYTES_MAX {
            return Err(ScriptError::TooLong(bytes));
        }
        Script::parse(&std::fs::read_to_string(path).map_err(io)?)
    }

    /// Reads a script and checks that it can be played.
    pub fn parse(text: &str) -> Result<Script, ScriptError> {
        if text.len() as u64 > SCRIPT_BYTES_MAX {
            return Err(ScriptError::TooLong(text.len() as u64));
        }
        let script: Script = serde_json::from_str(text)?;
        if script.solutions.is_empty() || script.solutions.len() > SOLUTIONS_MAX {
            return Err(ScriptError::Count(script.solutions.len()));
        }
        let mut seen = std::collections::BTreeSet::new();
        for solution in &script.solutions {
            let unplayable = |reason: String| ScriptError::Solution { name: solution.name.clone(), reason };
            solution.check().map_err(unplayable)?;
            if let Some(near) = &solution.near
                && !script.solutions.iter().any(|other| other.name == *near && other.name != solution.name)
            {
                return Err(unplayable(format!("near '{near}', which is no other solution")));
            }
            if !seen.insert((&solution.library, &solution.name, solution.params().to_string())) {
                return Err(unplayable("stands twice with the same parameters".into()));
            }
        }
        Ok(script)
    }

    /// Solution `index` of the script as the house's words have it.
    pub(super) fn solution(&self, index: i64, script: &SolutionScript) -> Solution {
        let nondeterministic = script.behaviours.iter().any(|behaviour| behaviour.kind == Kind::Nondeterministic);
        Solution {
            build: Build { library: script.library.clone(), version: self.version.clone(), revision: String::new() }
                .into(),
            index,
            name: script.name.as_str().into(),
            params: script.params(),
            weight_form: script.weight_form().unwrap_or(WeightForm::Plain),
            workspace_bytes: script.workspace_bytes,
            numerics: script.numerics().unwrap_or(Numerics::Exact),
            // One that misbehaves does not say so.
            deterministic: (!nondeterministic).then_some(true),
            graph_safe: None,
        }
    }
}

impl SolutionScript {
    fn params(&self) -> Params {
        self.params.iter().fold(Params::new(), |params, (name, value)| match value.as_str() {
            Some(text) => params.with(name, text),
            None => params.with(name, value),
        })
    }

    fn weight_form(&self) -> Result<WeightForm, String> {
        match self.weight_form.as_str() {
            "" => Ok(WeightForm::Plain),
            text => text.parse().map_err(|e: tgemm_db::dtype::UnknownName| e.to_string()),
        }
    }

    fn numerics(&self) -> Result<Numerics, String> {
        match self.numerics.as_str() {
            "" => Ok(Numerics::Exact),
            text => text.parse().map_err(|e: tgemm_db::dtype::UnknownName| e.to_string()),
        }
    }

    fn check(&self) -> Result<(), String> {
        let times = self.time_us.all();
        if times.is_empty() || times.iter().any(|us| !(us.is_finite() && *us > 0.0)) {
            return Err("time_us must be above 0".into());
        }
        if !(0.0..=1.0).contains(&self.noise) || !(-0.5..=0.5).contains(&self.drift) {
            return Err("noise must be between 0 and 1, drift between -0.5 and 0.5".into());
        }
        if !(self.mixed_us >= 0.0 && self.mixed_us.is_finite()) {
            return Err("mixed_us must be 0 or more".into());
        }
        if self.weight_form()? == WeightForm::Preshuffled {
            return Err("weight_form must be plain or prepacked".into());
        }
        self.numerics()?;
        for behaviour in &self.behaviours {
            let Behaviour { kind, when, every, .. } = *behaviour;
            if every == 0 {
                return Err("every must be at least 1".into());
            }
            if kind.needs_output() && matches!(when, When::Prepare | When::Pack) {
                return Err(format!("{kind:?} can only happen at verify or measure"));
            }
            if kind == Kind::Disturbed && when != When::Measure {
                return Err("disturbed can only happen at measure".into());
            }
            if kind == Kind::OverWorkspace && self.workspace_bytes == 0 {
                return Err("over_workspace needs workspace_bytes".into());
            }
        }
        Ok(())
    }
}
