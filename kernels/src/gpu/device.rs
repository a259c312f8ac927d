//! Which device this is.

use std::fs;
use std::path::Path;

use tgemm_db::{Device, Vendor};
use tgemm_vendor::gpu::numbers::DeviceAttribute;
use tgemm_vendor::gpu::{CallError, Dialect, Runtime};

/// Where Linux keeps what the bus and its drivers know.
const SYSFS: &str = "/sys";

/// The device as a measurement knows it.
pub(super) fn describe(runtime: &Runtime, ordinal: u32) -> Result<Device, CallError> {
    let dialect = runtime.dialect();
    let arch = arch(runtime, ordinal)?;
    let bus_id = runtime.bus_id(ordinal).unwrap_or_default();
    let l2_bytes = runtime.attribute(DeviceAttribute::L2CacheBytes, ordinal).unwrap_or(0).into();
    let bytes = runtime.memory_bytes(ordinal)?;
    let sysfs = Path::new(SYSFS);
    let behind_l2 = match dialect {
        Dialect::Hip => known_cache_bytes(&arch).max(topology_cache_bytes(sysfs, &bus_id)),
        Dialect::Cuda => 0,
    };
    Ok(Device {
        vendor: dialect.pick(Vendor::Amd, Vendor::Nvidia),
        compute_units: runtime.attribute(DeviceAttribute::MultiprocessorCount, ordinal)?,
        memory_gib: u32::try_from((bytes + (1 << 29)) >> 30).ok(),
        chip_id: chip_id(sysfs, &bus_id),
        partition: partition(sysfs, &bus_id),
        last_level_cache_bytes: behind_l2.max(l2_bytes),
        ..Device::named(dialect.pick(Vendor::Amd, Vendor::Nvidia), arch, 0)
    })
}

/// `gfx942` of `gfx942:sramecc+:xnack-`; `sm_90` of compute capability 9.0.
fn arch(runtime: &Runtime, ordinal: u32) -> Result<String, CallError> {
    if runtime.dialect() == Dialect::Hip {
        let full = runtime.properties(ordinal)?.arch();
        return Ok(full.split(':').next().unwrap_or_default().to_owned());
    }
    let major = runtime.attribute(DeviceAttribute::ComputeCapabilityMajor, ordinal)?;
    let minor = runtime.attribute(DeviceAttribute::ComputeCapabilityMinor, ordinal)?;
    Ok(format!("sm_{major}{minor}"))
}

/// What the run-time compiler is told: with feature flags on AMD.
pub(super) fn compiler_arch(runtime: &Runtime, ordinal: u32) -> Result<String, CallError> {
    match runtime.dialect() {
        Dialect::Hip => Ok(runtime.properties(ordinal)?.arch()),
        Dialect::Cuda => arch(runtime, ordinal),
    }
}

/// Caches behind the L2 that HIP does not report (AMD's product pages): Infinity Cache.
fn known_cache_bytes(arch: &str) -> u64 {
    const MIB: u64 = 1 << 20;
    match arch {
        // MI300A, MI300X, MI308X, MI325X; MI350X, MI355X.
        "gfx940" | "gfx941" | "gfx942" | "gfx950" => 256 * MIB,
        "gfx1030" => 128 * MIB,
        "gfx1100" => 96 * MIB,
        "gfx1031" => 96 * MIB,
        "gfx1101" => 64 * MIB,
        "gfx1102" => 32 * MIB,
        "gfx1200" => 32 * MIB,
        "gfx1201" => 64 * MIB,
        _ => 0,
    }
}

/// The largest cache that the kernel driver's topology has for the device at `bus_id`.
fn topology_cache_bytes(sysfs: &Path, bus_id: &str) -> u64 {
    /// More nodes or caches than any machine has.
    const ENTRIES_MAX: usize = 4096;
    let Some((domain, location)) = location(bus_id) else { return 0 };
    let nodes = fs::read_dir(sysfs.join("class/kfd/kfd/topology/nodes"));
    let nodes = nodes.into_iter().flatten().take(ENTRIES_MAX).flatten().map(|entry| entry.path());
    let is_it = |node: &std::path::PathBuf| {
        let properties = fs::read_to_string(node.join("properties")).unwrap_or_default();
        property(&properties, "location_id") == Some(location) && property(&properties, "domain").unwrap_or(0) == domain
    };
    let caches =
        nodes.filter(is_it).flat_map(|node| fs::read_dir(node.join("caches")).into_iter().flatten().take(ENTRIES_MAX));
    let kibibytes = caches
        .flatten()
        .filter_map(|cache| property(&fs::read_to_string(cache.path().join("properties")).ok()?, "size"));
    kibibytes.max().unwrap_or(0) << 10
}

/// (domain, bus << 8 | device << 3 | function) of `0000:c1:00.0`, as the topology writes it.
fn location(bus_id: &str) -> Option<(u64, u64)> {
    let (domain, rest) = bus_id.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    Some((hex(domain)?, hex(bus)? << 8 | hex(device)? << 3 | hex(function)?))
}

fn property(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

fn of_bus(sysfs: &Path, bus_id: &str, file: &str) -> Option<String> {
    if bus_id.is_empty() || bus_id.contains('/') {
        return None;
    }
    let text = fs::read_to_string(sysfs.join("bus/pci/devices").join(bus_id).join(file)).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn chip_id(sysfs: &Path, bus_id: &str) -> Option<u32> {
    u32::from_str_radix(of_bus(sysfs, bus_id, "device")?.strip_prefix("0x")?, 16).ok()
}

/// `SPX/NPS1`, where the driver says so.
fn partition(sysfs: &Path, bus_id: &str) -> Option<String> {
    let compute = of_bus(sysfs, bus_id, "current_compute_partition")?;
    let memory = of_bus(sysfs, bus_id, "current_memory_partition");
    Some(memory.map_or(compute.clone(), |memory| format!("{compute}/{memory}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_in_the_tree_of_its_driver() {
        let root = std::env::temp_dir().join(format!("tgemm-sysfs-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("class/kfd/kfd/topology/nodes/0/properties", "location_id 0\ndomain 0\n");
        write("class/kfd/kfd/topology/nodes/0/caches/0/properties", "level 3\nsize 999999\n");
        write("class/kfd/kfd/topology/nodes/1/properties", "simd_count 1216\nlocation_id 49408\ndomain 0\n");
        write("class/kfd/kfd/topology/nodes/1/caches/0/properties", "level 2\nsize 4096\n");
        write("class/kfd/kfd/topology/nodes/1/caches/1/properties", "level 3\nsize 262144\n");
        write("bus/pci/devices/0000:c1:00.0/device", "0x74a1\n");
        write("bus/pci/devices/0000:c1:00.0/current_compute_partition", "SPX\n");
        write("bus/pci/devices/0000:c1:00.0/current_memory_partition", "NPS1\n");
        assert_eq!(topology_cache_bytes(&root, "0000:c1:00.0"), 256 << 20);
        assert_eq!(topology_cache_bytes(&root, "0000:c2:00.0"), 0);
        assert_eq!(chip_id(&root, "0000:c1:00.0"), Some(0x74a1));
        assert_eq!(chip_id(&root, "../../etc"), None);
        assert_eq!(partition(&root, "0000:c1:00.0").as_deref(), Some("SPX/NPS1"));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn bus_addresses_are_read() {
        assert_eq!(location("0000:c1:00.0"), Some((0, 0xc100)));
        assert_eq!(location("0001:03:1f.7"), Some((1, 0x3ff)));
        assert_eq!(location("c1:00.0"), None);
    }
}
