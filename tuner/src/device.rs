//! Devices by their command-line names.

use tgemm_kernels::Context;
use tgemm_kernels::cpu::CpuContext;
use tgemm_kernels::scripted::ScriptedContext;
use tgemm_vendor::gpu::Dialect;

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
    #[error("no device is called '{0}' (known: cpu, cuda:N, hip:N)")]
    Unknown(String),
    /// It is known, but cannot be opened.
    #[error("device '{name}' cannot be opened: {why}")]
    Failed {
        /// As asked for.
        name: String,
        /// The reason.
        why: String,
    },
}

/// The GPU that `name` means: `cuda:1`, `hip:0`, or `hip` for the first.
fn gpu(name: &str) -> Option<(Dialect, u32)> {
    let (family, ordinal) = name.split_once(':').unwrap_or((name, "0"));
    let dialect = Dialect::ALL.into_iter().find(|dialect| dialect.name() == family)?;
    Some((dialect, ordinal.parse().ok()?))
}

/// Opens `name`: `cpu`, `cuda:N`, `hip:N`, or `scripted:FILE`, a device that plays a script, for tests of search and supervision.
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
    let (dialect, ordinal) = gpu(name).ok_or_else(|| DeviceError::Unknown(name.into()))?;
    let context = tgemm_kernels::gpu::open(dialect, ordinal).map_err(|e| failed(e.to_string()))?;
    let absent = context.absent().to_vec();
    Ok(Opened { context: Box::new(context), absent })
}
