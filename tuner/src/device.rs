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
    /// A list names it more than once.
    #[error("device '{0}' is named twice")]
    Twice(String),
    /// It is known, but cannot be opened.
    #[error("device '{name}' cannot be opened: {why}")]
    Failed {
        /// As asked for.
        name: String,
        /// The reason.
        why: String,
    },
}

/// The devices that `names` means: one, several with commas between them, or `all`: every GPU that is found, else the CPU.
///
/// # Errors
/// No name, or one that stands twice: two workers on one device would disturb each other.
pub fn names(names: &str) -> Result<Vec<String>, DeviceError> {
    if names == "all" {
        let found = Dialect::ALL.into_iter().flat_map(|dialect| {
            let count = tgemm_kernels::gpu::devices(dialect).map_or(0, |found| found.len());
            (0..count).map(move |ordinal| format!("{dialect}:{ordinal}"))
        });
        let found: Vec<String> = found.collect();
        return Ok(if found.is_empty() { vec!["cpu".into()] } else { found });
    }
    let listed: Vec<String> = names.split(',').map(|name| name.trim().to_owned()).collect();
    let same = |a: &str, b: &str| a == b || (gpu(a).is_some() && gpu(a) == gpu(b));
    for (at, name) in listed.iter().enumerate() {
        if listed[..at].iter().any(|before| same(before, name)) {
            return Err(DeviceError::Twice(name.clone()));
        }
    }
    Ok(listed)
}

/// The GPU that `name` means: `cuda:1`, `hip:0`, or `hip` for the first.
fn gpu(name: &str) -> Option<(Dialect, u32)> {
    let (family, ordinal) = name.split_once(':').unwrap_or((name, "0"));
    let dialect = Dialect::ALL.into_iter().find(|dialect| dialect.name() == family)?;
    Some((dialect, ordinal.parse().ok()?))
}

/// Opens `name`: `cpu`, `cuda:N`, `hip:N`, or `scripted:FILE`, a device that plays a script, for tests
/// of search and supervision.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_devices_name_each_once() {
        assert_eq!(names("cuda:0, cuda:1").unwrap(), ["cuda:0", "cuda:1"]);
        assert_eq!(names("cpu").unwrap(), ["cpu"]);
        assert_eq!(names("hip,hip:0"), Err(DeviceError::Twice("hip:0".into())));
        assert!(!names("all").unwrap().is_empty());
    }
}
