//! The script: what the double is to pretend. The crate's documentation shows every field.

use std::path::PathBuf;

use serde::Deserialize;

use crate::install::SCRIPT_VAR;

/// Where products are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// On the host, under a virtual clock.
    #[default]
    Host,
    /// On an NVIDIA device, by its vendor's libraries.
    Cuda,
}

/// A whole script.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    pub mode: Mode,
    /// `"7"`, `"6"`, `"5"`; absent: by the name that the library was loaded under, else 7.
    pub generation: Option<String>,
    pub device: Device,
    /// The git revision of hipBLASLt and rocBLAS.
    pub revision: Option<String>,
    pub index_base: IndexBase,
    pub trace: Option<PathBuf>,
    pub noise: Noise,
    /// Virtual time that an eager launch takes besides its kernel.
    pub launch_gap_us: f64,
    /// As above, for the launch of a graph.
    pub replay_gap_us: f64,
    /// How many more solutions rocBLAS counts than it fills in.
    pub rocblas_overstates: u32,
    /// How many results of a heuristic are ranked; those behind them come by index.
    pub ranked: Option<usize>,
    /// Absent: a set of the double's own.
    pub solutions: Option<Vec<SolutionScript>>,
}

/// The device that is pretended.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Device {
    pub count: i32,
    pub arch: String,
    pub name: String,
    pub cus: i32,
    pub memory_bytes: u64,
    pub l2_bytes: i32,
    pub warp: i32,
    pub pci_bus_id: String,
    pub xccs: i32,
    /// What the device computes, 10^12 operations a second in 16 bits; other types by their width.
    pub tflops: f64,
    /// What its memory moves, 10^9 bytes a second.
    pub gb_s: f64,
}

impl Default for Device {
    fn default() -> Device {
        // The public figures of an MI300X.
        Device {
            count: 1,
            arch: "gfx942:sramecc+:xnack-".into(),
            name: "AMD Instinct MI300X".into(),
            cus: 304,
            memory_bytes: 192 << 30,
            l2_bytes: 4 << 20,
            warp: 64,
            pci_bus_id: "0000:c1:00.0".into(),
            xccs: 8,
            tflops: 600.0,
            gb_s: 4000.0,
        }
    }
}

/// What is added to the indices of hipBLASLt's solutions.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum IndexBase {
    Number(i32),
    /// `"revision"`: a number that the revision determines, so that indices move with the build.
    Word(String),
}

impl Default for IndexBase {
    fn default() -> IndexBase {
        IndexBase::Number(0)
    }
}

/// Multiplies each time by e^(sigma · a normal number).
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Noise {
    pub sigma: f64,
    pub seed: u64,
}

/// Which library has a solution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Library {
    #[default]
    Hipblaslt,
    Rocblas,
}

/// One solution.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SolutionScript {
    pub index: i32,
    #[serde(default)]
    pub library: Library,
    /// Absent: from index and tile.
    pub name: Option<String>,
    #[serde(default = "default_tile")]
    pub tile: [u32; 2],
    #[serde(default = "one")]
    pub split_k: u32,
    #[serde(default)]
    pub cost: Cost,
    /// Absent: the script's.
    pub sigma: Option<f64>,
    /// Absent: what split-K needs.
    pub workspace_bytes: Option<u64>,
    #[serde(default)]
    pub only: Only,
    #[serde(default)]
    pub fault: Fault,
}

fn default_tile() -> [u32; 2] {
    [128, 128]
}

fn one() -> u32 {
    1
}

/// What a launch costs: `times` the double's own model (1 by default), or `base_us` + FLOPs / `tflops`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cost {
    pub times: Option<f64>,
    pub base_us: Option<f64>,
    pub tflops: Option<f64>,
}

/// The products that a solution takes; ranges hold both ends.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Only {
    /// Types of A: `bf16`, `f16`, `f32`, `f64`, `e4m3`, `e5m2`, `e4m3fnuz`, `e5m2fnuz`.
    pub types: Vec<String>,
    /// `NN`, `TN`, `NT`, `TT`.
    pub trans: Vec<String>,
    pub m: Option<[usize; 2]>,
    pub n: Option<[usize; 2]>,
    pub k: Option<[usize; 2]>,
    /// `k` must be a multiple of this.
    pub k_multiple: Option<usize>,
}

/// What is wrong with a solution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    #[default]
    None,
    /// Drops the last quarter of K.
    Wrong,
    /// One element is NaN.
    Nan,
    /// Leaves the last column as it was.
    Unwritten,
    /// Writes 16 elements behind its output.
    OutOfBounds,
    /// Two runs differ in a bit.
    Nondeterministic,
    /// Whoever waits for it waits for ever.
    Hang,
    /// Ends the process with SIGABRT when launched.
    Abort,
    /// Ends the process with SIGSEGV when launched.
    Segfault,
    /// Whoever waits for it gets `hipErrorIllegalAddress`, and the device is lost to the process.
    IllegalAddress,
    /// The launch answers this status.
    ErrorStatus(i32),
    /// Listed whatever workspace is allowed, though it needs `workspace_bytes` (1 GiB by default).
    Workspace,
    /// Cannot be captured: the launch fails and spoils the capture.
    CaptureFails,
}

impl Script {
    /// The script that the environment names, or the default one; why it cannot be read.
    pub fn from_env() -> Result<Script, String> {
        let Some(file) = std::env::var_os(SCRIPT_VAR).filter(|file| !file.is_empty()) else {
            return Ok(Script::default());
        };
        let at = |reason: String| format!("{SCRIPT_VAR}={}: {reason}", file.to_string_lossy());
        let text = std::fs::read_to_string(&file).map_err(|error| at(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| at(error.to_string()))
    }
}
