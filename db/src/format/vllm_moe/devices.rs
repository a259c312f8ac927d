//! Which device a marketing name is, where that is certain.

use crate::device::{Device, Vendor};
use crate::format::limits::excerpt;

/// A name that stands for one device.
struct Known {
    /// As vLLM spells it: the driver's name with `_` for blanks.
    name: &'static str,
    arch: &'static str,
    compute_units: u32,
    /// Where devices of one arch and size differ by it.
    memory_gib: Option<u32>,
    /// PCI device id (pci.ids), for names of exactly one board.
    chip_id: Option<u32>,
}

const fn known(name: &'static str, arch: &'static str, compute_units: u32) -> Known {
    Known { name, arch, compute_units, memory_gib: None, chip_id: None }
}

impl Known {
    const fn memory_gib(self, gib: u32) -> Known {
        Known { memory_gib: Some(gib), ..self }
    }
    const fn chip_id(self, id: u32) -> Known {
        Known { chip_id: Some(id), ..self }
    }
}

/// The first name of a device is the one that is written. AMD's figures are those of its Instinct data sheets and ROCm's
/// table of GPU architectures; NVIDIA's those of its architecture white papers (A100, H100, Ada, Blackwell) and data
/// sheets. `NVIDIA_H200` has no chip id, since vLLM writes it for every board of that family; `_OAM` is how some drivers
/// call the same card. Names whose number of compute units depends on the board or on how it is counted (GB200, B300,
/// RDNA) are left out.
const KNOWN: &[Known] = &[
    known("AMD_Instinct_MI300X", "gfx942", 304).memory_gib(192),
    known("AMD_Instinct_MI325X", "gfx942", 304).memory_gib(256),
    known("AMD_Instinct_MI325_OAM", "gfx942", 304).memory_gib(256),
    known("AMD_Instinct_MI308X", "gfx942", 80).memory_gib(192),
    known("AMD_Instinct_MI350X", "gfx950", 256),
    known("AMD_Instinct_MI350_OAM", "gfx950", 256),
    known("AMD_Instinct_MI355X", "gfx950", 256),
    known("AMD_Instinct_MI355_OAM", "gfx950", 256),
    known("NVIDIA_A100-SXM4-40GB", "sm_80", 108).chip_id(0x20b0),
    known("NVIDIA_A100-SXM4-80GB", "sm_80", 108).chip_id(0x20b2),
    known("NVIDIA_A800-SXM4-80GB", "sm_80", 108),
    known("NVIDIA_H100_80GB_HBM3", "sm_90", 132).chip_id(0x2330),
    known("NVIDIA_H100_PCIe", "sm_90", 114).chip_id(0x2331),
    known("NVIDIA_H200", "sm_90", 132),
    known("NVIDIA_H20", "sm_90", 78),
    known("NVIDIA_H20-3e", "sm_90", 78),
    known("NVIDIA_B200", "sm_100", 148),
    known("NVIDIA_L40S", "sm_89", 142),
    known("NVIDIA_L20", "sm_89", 92),
    known("NVIDIA_GeForce_RTX_4090", "sm_89", 128),
    known("NVIDIA_RTX_PRO_6000_Blackwell_Server_Edition", "sm_120", 188),
    known("NVIDIA_RTX_PRO_6000_Blackwell_Workstation_Edition", "sm_120", 188),
    known("NVIDIA_GB10", "sm_121", 48),
];

/// Vendors by how their names begin.
const PREFIXES: &[(&str, Vendor)] = &[("AMD_", Vendor::Amd), ("Radeon_", Vendor::Amd), ("NVIDIA_", Vendor::Nvidia)];

/// The device that vLLM calls `name`. A name that is not certain is kept as the arch: such rows are stored, merged and
/// exported, and match no device until someone says which one it was.
pub(super) fn by_name(name: &str) -> Result<Device, String> {
    let vendor = PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, vendor)| *vendor);
    let vendor = vendor.ok_or_else(|| {
        format!("device_name={} is of no vendor that tgemm knows (AMD_…, Radeon_…, NVIDIA_…)", excerpt(name))
    })?;
    let known = KNOWN.iter().find(|known| known.name == name);
    Ok(Device {
        vendor,
        arch: known.map_or(name, |known| known.arch).to_owned(),
        compute_units: known.map_or(0, |known| known.compute_units),
        memory_gib: known.and_then(|known| known.memory_gib),
        chip_id: known.and_then(|known| known.chip_id),
        partition: None,
        last_level_cache_bytes: 0,
    })
}

/// What vLLM calls `device`, if one name is right for it: what tells two names apart must be known of the device.
pub(super) fn name_of(device: &Device) -> Option<&str> {
    if device.compute_units == 0 && by_name(&device.arch).is_ok_and(|named| named.vendor == device.vendor) {
        return Some(&device.arch);
    }
    let same = |known: &&Known| {
        (known.arch, known.compute_units) == (device.arch.as_str(), device.compute_units)
            && known.memory_gib.is_none_or(|gib| device.memory_gib == Some(gib))
            && known.chip_id.is_none_or(|id| device.chip_id == Some(id))
    };
    KNOWN.iter().find(same).map(|known| known.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certain_names_are_devices_and_the_others_stay_names() {
        let mi300x = by_name("AMD_Instinct_MI300X").unwrap();
        assert_eq!((mi300x.vendor, mi300x.arch.as_str(), mi300x.compute_units), (Vendor::Amd, "gfx942", 304));
        let mi325x = by_name("AMD_Instinct_MI325_OAM").unwrap();
        assert!(mi300x.difference(&mi325x).is_some(), "they differ in memory");
        assert_eq!(name_of(&mi325x), Some("AMD_Instinct_MI325X"));
        assert_eq!(name_of(&Device { memory_gib: None, ..mi300x }), None, "it might be either");
        let unknown = by_name("NVIDIA_GB200").unwrap();
        assert_eq!((unknown.arch.as_str(), unknown.compute_units), ("NVIDIA_GB200", 0));
        assert_eq!(name_of(&unknown), Some("NVIDIA_GB200"));
        assert!(by_name("Intel(R)_Arc(TM)_Pro_B70_Graphics").unwrap_err().contains("no vendor"));
    }

    #[test]
    fn no_name_stands_twice_and_each_finds_its_device_again() {
        for (at, known) in KNOWN.iter().enumerate() {
            assert!(KNOWN[..at].iter().all(|other| other.name != known.name), "{}", known.name);
            let device = by_name(known.name).unwrap();
            let again = by_name(name_of(&device).unwrap()).unwrap();
            assert_eq!((again.arch, again.compute_units), (device.arch, device.compute_units), "{}", known.name);
        }
    }
}
