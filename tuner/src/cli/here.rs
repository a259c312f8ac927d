//! For which device a lookup answers: one of this machine, or one that is assumed.

use std::path::PathBuf;

use tgemm_db::format::AssumedDevice;
use tgemm_db::{Build, Environment};

use super::Failure;
use super::db::tables;
use crate::device;

/// For which device.
#[derive(Debug, clap::Args)]
pub struct HereArgs {
    /// For this device of this machine: cpu, cuda:0, hip:0
    #[arg(long, value_name = "DEVICE", default_value = "cpu", conflicts_with = "assume_device")]
    pub device: String,
    /// For such a device instead, with the libraries that the tables were made with: gfx942/304, x86_64-v4/2
    #[arg(long, value_name = "ARCH/UNITS", value_parser = tables::assumed_device)]
    pub assume_device: Option<AssumedDevice>,
}

impl HereArgs {
    /// The environment to look up for, in the tables `files`.
    ///
    /// # Errors
    /// The device cannot be opened, or a table cannot be read.
    pub fn environment(&self, files: &[PathBuf]) -> Result<Environment, Failure> {
        match &self.assume_device {
            None => Ok(device::open(&self.device).map_err(Failure::device)?.context.environment().clone()),
            Some(assumed) => {
                let bare = tables::environment(assumed);
                let builds = builds_of(files, &bare)?;
                Ok(Environment { builds, ..bare })
            }
        }
    }
}

/// The newest build of each library that choices for such a device name: what is assumed to be installed there.
fn builds_of(files: &[PathBuf], bare: &Environment) -> Result<Vec<Build>, Failure> {
    let mut newest: Vec<Build> = Vec::new();
    let mut choices = Vec::new();
    for file in files {
        choices.extend(tables::choices(file, &Default::default())?);
    }
    for choice in choices {
        if choice.device.difference(&bare.device).is_some() {
            continue;
        }
        let build = &choice.solution.build;
        match newest.iter_mut().find(|have| have.library == build.library) {
            Some(have) if is_newer(build, have) => *have = build.as_ref().clone(),
            Some(_) => {}
            None => newest.push(build.as_ref().clone()),
        }
    }
    newest.sort();
    Ok(newest)
}

/// By the numbers of their versions, then by their text.
fn is_newer(build: &Build, have: &Build) -> bool {
    let numbers = |build: &Build| -> Vec<u64> {
        build.version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
    };
    (numbers(build), &build.version, &build.revision) > (numbers(have), &have.version, &have.revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_build_is_assumed() {
        let build = |version: &str| Build { version: version.into(), ..Build::unknown("cublaslt") };
        assert!(is_newer(&build("13.10.0"), &build("13.9.1")));
        assert!(!is_newer(&build("13.1.0"), &build("13.1.0")));
        assert!(is_newer(&build("13.1.0"), &build("")));
    }
}
