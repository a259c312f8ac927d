//! The validators of a results file: what PyTorch compares as text before it takes a single row.

use std::path::Path;

use crate::device::{Build, Device};
use crate::format::hipblaslt::words::{decoded_version, device};
use crate::format::sheet::{Reason, read_file};
use crate::format::{Format, ReadError, ReadOptions, Unreadable};

/// The most validators of one file; PyTorch writes five.
const VALIDATORS_MAX: usize = 64;

/// The first cell of a validator's line.
pub(super) const WORD: &str = "Validator";

/// Why a text has no validators that PyTorch would accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no line 'Validator,PT_VERSION,…': name a results file that PyTorch itself wrote on the target")]
pub struct NoValidators;

/// Keys and values in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators(Vec<(String, String)>);

impl Validators {
    /// The validators of a results file that PyTorch wrote.
    ///
    /// # Errors
    /// It cannot be read, or holds none.
    pub fn read(path: &Path) -> Result<Validators, ReadError> {
        let bytes = read_file(path)?;
        Validators::parse(&bytes).map_err(|none| ReadError {
            file: path.into(),
            line: None,
            unreadable: Unreadable::Malformed { format: Format::TunableOp, why: none.to_string() },
        })
    }

    /// The validators among the lines of `bytes`.
    ///
    /// # Errors
    /// `PT_VERSION`, which every PyTorch writes, is not among them.
    pub fn parse(bytes: &[u8]) -> Result<Validators, NoValidators> {
        let found = Validators::among(bytes);
        if found.get("PT_VERSION").is_some() { Ok(found) } else { Err(NoValidators) }
    }

    /// Whatever validators there are. Appended runs may repeat them: the first value of a key counts.
    pub(super) fn among(bytes: &[u8]) -> Validators {
        let mut found = Validators::default();
        for line in bytes.split(|&byte| byte == b'\n') {
            let Ok(line) = std::str::from_utf8(line) else { continue };
            let Some((key, value)) = cells(line).filter(|_| is_whole(line)) else { continue };
            if found.get(key).is_none() && found.0.len() < VALIDATORS_MAX {
                found.0.push((key.to_owned(), value.to_owned()));
            }
        }
        found
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(have, _)| have == key).map(|(_, value)| value.as_str())
    }

    /// The lines as PyTorch writes them.
    pub(super) fn to_text(&self) -> String {
        self.0.iter().map(|(key, value)| format!("{WORD},{key},{value}\n")).collect()
    }

    /// The architecture without its feature flags.
    pub(super) fn arch(&self) -> Option<&str> {
        let name = self.get("GCN_ARCH_NAME")?;
        Some(name.split(':').next().unwrap_or(name)).filter(|arch| !arch.is_empty())
    }

    /// The build of one of the libraries that TunableOp asks, `torch` among them.
    pub(super) fn build(&self, library: &str) -> Build {
        let parts = match library {
            "hipblaslt" => self.get("HIPBLASLT_VERSION").map(hipblaslt_version),
            "rocblas" => self.get("ROCBLAS_VERSION").map(rocblas_version),
            "torch" => self.get("PT_VERSION").map(|version| (version.to_owned(), String::new())),
            _ => None,
        };
        let (version, revision) = parts.unwrap_or_default();
        Build { library: library.to_owned(), version, revision }
    }

    /// The device: the file says its architecture only, so compute units come from the assumed device if that is of the
    /// same one, and are unknown otherwise.
    ///
    /// # Errors
    /// No architecture (rows without their file, or a file of an NVIDIA card) and no assumed device.
    pub(super) fn device(&self, options: &ReadOptions) -> Result<Device, Reason> {
        let assumed = options.device.as_ref();
        let (arch, compute_units) = match (self.arch(), assumed) {
            (Some(arch), Some(device)) if device.arch == arch => (arch, device.compute_units),
            (Some(arch), _) => (arch, 0),
            (None, Some(device)) => (device.arch.as_str(), device.compute_units),
            (None, None) => return Err("the file names no device (GCN_ARCH_NAME): say which it was".into()),
        };
        Ok(device(arch, compute_units))
    }
}

/// `Validator,KEY,VALUE`; a value may hold commas, and the carriage return that a Windows tool adds is none of it.
fn cells(line: &str) -> Option<(&str, &str)> {
    line.trim_end_matches('\r').strip_prefix(WORD)?.strip_prefix(',')?.split_once(',')
}

/// Version and revision of `100201-5b515cf1bc` (major·100000 + minor·100 + patch) or of `0.6.0-592518e7`.
fn hipblaslt_version(text: &str) -> (String, String) {
    let (version, revision) = text.split_once('-').unwrap_or((text, ""));
    let version = version.parse().map_or_else(|_| version.to_owned(), decoded_version);
    (version, revision.to_owned())
}

/// Version and revision of `5.2.0.5b515cf1bc` or `4.1.0-cefa4a9b-dirty`.
fn rocblas_version(text: &str) -> (String, String) {
    if let Some((version, revision)) = text.split_once('-') {
        return (version.to_owned(), revision.to_owned());
    }
    match text.match_indices('.').nth(2) {
        Some((at, _)) => (text[..at].to_owned(), text[at + 1..].to_owned()),
        None => (text.to_owned(), String::new()),
    }
}

/// Is `line` a whole validator?
pub(super) fn is_whole(line: &str) -> bool {
    cells(line).is_some_and(|(key, value)| !key.is_empty() && !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Vendor;
    use crate::format::AssumedDevice;

    const FILE: &[u8] = b"Validator,PT_VERSION,2.9.1\r\nValidator,GCN_ARCH_NAME,gfx950:sramecc+:xnack-\nrow,of,no,2\n\
        Validator,HIPBLASLT_VERSION,100201-5b51\nValidator,ROCBLAS_VERSION,5.2.0.5b51\nValidator,PT_VERSION,9\n";

    #[test]
    fn builds_and_device_come_from_the_lines() {
        let found = Validators::parse(FILE).unwrap();
        let build = |library: &str| found.build(library).to_string();
        assert_eq!(build("hipblaslt"), "hipblaslt 1.2.1 (5b51)");
        assert_eq!(build("rocblas"), "rocblas 5.2.0 (5b51)");
        assert_eq!(build("torch"), "torch 2.9.1", "the first of a key counts, without carriage return");
        assert_eq!(found.device(&ReadOptions::default()).unwrap().to_string(), "gfx950/0");
        let known = |arch: &str| ReadOptions {
            device: Some(AssumedDevice { arch: arch.into(), compute_units: 256 }),
            ..ReadOptions::default()
        };
        assert_eq!(found.device(&known("gfx950")).unwrap().compute_units, 256);
        assert_eq!(
            found.device(&known("gfx942")).unwrap().compute_units,
            0,
            "the file knows better which device it was"
        );
        let nvidia = Validators::parse(b"Validator,PT_VERSION,2.11.0\n").unwrap();
        assert!(nvidia.device(&ReadOptions::default()).is_err());
        assert_eq!(nvidia.device(&known("sm_90")).unwrap().vendor, Vendor::Nvidia);
    }

    #[test]
    fn versions_of_every_age() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(hipblaslt_version("1000-b4e5042b"), pair("0.10.0", "b4e5042b"));
        assert_eq!(hipblaslt_version("0.6.0-592518e7"), pair("0.6.0", "592518e7"));
        assert_eq!(rocblas_version("4.1.0-cefa4a9b-dirty"), pair("4.1.0", "cefa4a9b-dirty"));
        assert_eq!(rocblas_version("4"), pair("4", ""));
    }

    #[test]
    fn a_file_without_the_one_that_pytorch_always_writes_has_none() {
        assert_eq!(Validators::parse(b"Validator,HIP_VERSION,702\n"), Err(NoValidators));
        assert_eq!(Validators::parse(b""), Err(NoValidators));
    }
}
