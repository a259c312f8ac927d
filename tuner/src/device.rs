//! Devices by their command-line names.

use tgemm_kernels::Context;
use tgemm_kernels::cpu::CpuContext;
use tgemm_kernels::scripted::ScriptedContext;

/// A device opened in this process.
pub struct Opened {
    /// The device.
    pub context: Box<dyn Context>,
    /// Libraries that could not be opened, with the reason.
    pub absent: Vec<(String, String)>,
}

/// Why a device could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// No such device is known.
    #[error("no device is called '{0}' (known: cpu)")]
    Unknown(String),
    /// GPUs have their own place in this interface, but this version has no code for them.
    #[error("device '{0}': this version of tune drives the CPU only")]
    NoGpu(String),
    /// It is known, but cannot be opened.
    #[error("device '{name}' cannot be opened: {why}")]
    Failed {
        /// As asked for.
        name: String,
        /// The reason.
        why: String,
    },
}

/// Opens `name`: `cpu`, or `scripted:FILE`, a device that plays a script, for tests of search and supervision.
pub fn open(name: &str) -> Result<Opened, DeviceError> {
    let failed = |why: String| DeviceError::Failed { name: name.into(), why };
    if let Some(path) = name.strip_prefix("scripted:") {
        let context = ScriptedContext::open(std::path::Path::new(path)).map_err(|e| failed(e.to_string()))?;
        return Ok(Opened { context: Box::new(context), absent: Vec::new() });
    }
    if name == "cpu" {
        let context = CpuContext::open();
        let absent = context.absent().to_vec();
        return Ok(Opened { context: Box::new(context), absent });
    }
    let family = name.split(':').next().unwrap_or(name);
    match family {
        "hip" | "cuda" => Err(DeviceError::NoGpu(name.into())),
        _ => Err(DeviceError::Unknown(name.into())),
    }
}
