//! This machine as a caller describes it.

use std::collections::BTreeMap;
use std::ffi::c_char;

use tgemm_db::{Build, Device, Environment};

use crate::status::Failure;
use crate::text::{array, optional_text, text};
use crate::versioned::versioned;
use crate::words;

/// The exact version of a library. A solution that was tuned with a known build serves only where this says the same.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TgemmBuild {
    /// Its name in tuned tables: "hipblaslt", "cublaslt", "onednn".
    pub library: *const c_char,
    /// Its version as tuned tables write it; NULL or empty if not known.
    pub version: *const c_char,
    /// Its source revision or content hash as tuned tables write it; NULL or empty if not known.
    pub revision: *const c_char,
}

/// The device that a database answers for, and the libraries that the engine has.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TgemmDevice {
    /// sizeof(TgemmDevice).
    pub size: usize,
    /// The instruction set: "gfx942", "sm_90", "x86_64-v4".
    pub arch: *const c_char,
    /// A TgemmVendor.
    pub vendor: u32,
    /// Compute units, multiprocessors or cores; 0 if not known, which fits any.
    pub compute_units: u32,
    /// Memory in GiB, rounded; 0 if not known, which fits any.
    pub memory_gib: u32,
    /// PCI device id of a GPU, CPUID leaf 1 signature of an x86 CPU; 0 if not known, which fits any.
    pub chip_id: u32,
    /// Partition mode such as "SPX/NPS1"; NULL if there is none or it is not known.
    pub partition: *const c_char,
    /// The libraries that the engine can call. What was tuned with a known build of any other does not serve.
    pub builds: *const TgemmBuild,
    /// How many there are.
    pub build_count: usize,
}

versioned!(TgemmDevice, least vendor, [
    arch, vendor, compute_units, memory_gib, chip_id, partition, builds, build_count,
]);

/// What a database answers for.
///
/// # Safety
///
/// The pointers in `device` are as the header asks for.
pub(crate) unsafe fn environment(device: &TgemmDevice) -> Result<Environment, Failure> {
    let Some(vendor) = words::VENDORS.word(device.vendor)? else {
        return Err(Failure::value("TgemmDevice.vendor is 0; it must say whose device this is"));
    };
    // SAFETY: as promised by the caller.
    let (arch, partition, builds) = unsafe {
        (
            text(device.arch, "TgemmDevice.arch")?,
            optional_text(device.partition, "TgemmDevice.partition")?,
            array(device.builds, device.build_count, "TgemmDevice.builds")?,
        )
    };
    if arch.is_empty() {
        return Err(Failure::value("TgemmDevice.arch is empty; it is such as gfx942, sm_90 or x86_64-v4"));
    }
    let known = |number: u32| (number != 0).then_some(number);
    // SAFETY: as promised by the caller.
    let builds: Result<Vec<Build>, Failure> = builds.iter().map(|given| unsafe { build(given) }).collect();
    let mut builds = builds?;
    builds.sort();
    let device = Device {
        memory_gib: known(device.memory_gib),
        chip_id: known(device.chip_id),
        partition: partition.filter(|text| !text.is_empty()).map(str::to_owned),
        ..Device::named(vendor, arch, device.compute_units)
    };
    Ok(Environment { device, builds, driver: String::new(), vars: BTreeMap::new() })
}

/// # Safety
///
/// The pointers in `given` are as the header asks for.
unsafe fn build(given: &TgemmBuild) -> Result<Build, Failure> {
    // SAFETY: as promised by the caller.
    unsafe {
        let library = text(given.library, "TgemmBuild.library")?.to_owned();
        let version = optional_text(given.version, "TgemmBuild.version")?.unwrap_or_default().to_owned();
        let revision = optional_text(given.revision, "TgemmBuild.revision")?.unwrap_or_default().to_owned();
        Ok(Build { library, version, revision })
    }
}
