//! Which device the host's processors are, read from the processor and the kernel, never from a marketing name.

use std::fs;

use tgemm_db::{Device, Vendor};

/// Caches that the kernel describes for one processor; real ones have four or five.
const CACHES_MAX: usize = 16;

/// The processors that this process may run on.
///
/// Cores are counted as the scheduler would let this process use them (affinity mask and cgroup quota), since that is
/// how many threads a sweep may start; a process with another allowance is another device.
pub fn device() -> Device {
    Device {
        vendor: Vendor::Cpu,
        arch: arch().to_owned(),
        compute_units: cores(),
        memory_gib: super::memory::total_bytes().map(round_to_gib),
        chip_id: chip_id(),
        partition: None,
        last_level_cache_bytes: last_level_cache_bytes(),
    }
}

/// How many threads can run at once; at least 1.
pub fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
}

/// Instruction set extensions that decide which GEMM kernels run, as the kernel spells them in `/proc/cpuinfo`, in a
/// fixed order.
pub fn features() -> Vec<&'static str> {
    detected().into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
}

/// To the nearest GiB: the kernel keeps some megabytes of the installed memory to itself.
fn round_to_gib(bytes: u64) -> u32 {
    u32::try_from((bytes + (1 << 29)) >> 30).unwrap_or(u32::MAX)
}

/// The x86-64 micro-architecture level, each of which contains the one before.
///
/// Levels as the x86-64 psABI defines them, §3.1.1 table "Micro-Architecture Levels".
#[cfg(target_arch = "x86_64")]
fn arch() -> &'static str {
    use std::arch::is_x86_feature_detected as has;
    let v2 = has!("cmpxchg16b") && has!("popcnt") && has!("sse3") && has!("ssse3") && has!("sse4.1") && has!("sse4.2");
    let vectors = has!("avx") && has!("avx2") && has!("f16c") && has!("fma");
    let v3 = v2 && vectors && has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("movbe");
    let v4 = has!("avx512f") && has!("avx512bw") && has!("avx512cd") && has!("avx512dq") && has!("avx512vl");
    match (v2, v3, v3 && v4) {
        (_, _, true) => "x86_64-v4",
        (_, true, _) => "x86_64-v3",
        (true, _, _) => "x86_64-v2",
        _ => "x86_64-v1",
    }
}

/// The architecture as Rust names it: `aarch64`.
#[cfg(not(target_arch = "x86_64"))]
fn arch() -> &'static str {
    std::env::consts::ARCH
}

/// Type, family, model and stepping: CPUID leaf 1, register EAX.
#[cfg(target_arch = "x86_64")]
fn chip_id() -> Option<u32> {
    Some(raw_cpuid::cpuid!(1).eax)
}

/// Nothing comparable can be read everywhere.
#[cfg(not(target_arch = "x86_64"))]
fn chip_id() -> Option<u32> {
    None
}

#[cfg(target_arch = "x86_64")]
fn detected() -> Vec<(&'static str, bool)> {
    use std::arch::is_x86_feature_detected as has;
    // What std cannot name yet is read from CPUID; it is usable only if the kernel saves the wide registers, which is
    // what std's answer for avx and avx512f includes.
    let leaf = raw_cpuid::CpuId::new().get_extended_feature_info();
    let wide = |test: fn(&raw_cpuid::ExtendedFeatures) -> bool, state: bool| state && leaf.as_ref().is_some_and(test);
    let (avx, avx512) = (has!("avx"), has!("avx512f"));
    vec![
        ("sse4_2", has!("sse4.2")),
        ("avx", avx),
        ("f16c", has!("f16c")),
        ("fma", has!("fma")),
        ("avx2", has!("avx2")),
        ("avx_vnni", wide(|f| f.has_avx_vnni(), avx)),
        ("avx512f", avx512),
        ("avx512bw", has!("avx512bw")),
        ("avx512dq", has!("avx512dq")),
        ("avx512vl", has!("avx512vl")),
        ("avx512_vnni", wide(|f| f.has_avx512vnni(), avx512)),
        ("avx512_bf16", wide(|f| f.has_avx512_bf16(), avx512)),
        ("avx512_fp16", wide(|f| f.has_avx512_fp16(), avx512)),
        ("amx_tile", wide(|f| f.has_amx_tile(), avx512)),
        ("amx_int8", wide(|f| f.has_amx_int8(), avx512)),
        ("amx_bf16", wide(|f| f.has_amx_bf16(), avx512)),
    ]
}

#[cfg(target_arch = "aarch64")]
fn detected() -> Vec<(&'static str, bool)> {
    use std::arch::is_aarch64_feature_detected as has;
    vec![
        ("asimd", has!("neon")),
        ("asimdhp", has!("fp16")),
        ("asimddp", has!("dotprod")),
        ("i8mm", has!("i8mm")),
        ("bf16", has!("bf16")),
        ("sve", has!("sve")),
        ("sve2", has!("sve2")),
    ]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn detected() -> Vec<(&'static str, bool)> {
    Vec::new()
}

/// Size of the largest-numbered cache level of the first processor, 0 where the kernel does not say.
fn last_level_cache_bytes() -> u64 {
    let read = |index: usize, file: &str| {
        fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{file}")).ok()
    };
    let caches = (0..CACHES_MAX).map_while(|index| {
        let level: u32 = read(index, "level")?.trim().parse().ok()?;
        Some((level, read(index, "size").and_then(|text| cache_size(&text)).unwrap_or(0)))
    });
    caches.max().map_or(0, |(_, bytes)| bytes)
}

/// Reads the kernel's `266240K`; it writes kibibytes, and larger units are taken too.
fn cache_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_sizes_are_read_in_the_kernels_units() {
        assert_eq!(cache_size("266240K\n"), Some(266_240 << 10));
        assert_eq!(cache_size("32M"), Some(32 << 20));
        assert_eq!(cache_size("512"), Some(512));
        for bad in ["", "K", "12T", "-1K", "1 K", "99999999999999999999K", "18446744073709551615K", "1Ä"] {
            assert_eq!(cache_size(bad), None, "{bad}");
        }
    }

    #[test]
    fn memory_is_rounded_to_what_is_sold() {
        assert_eq!(round_to_gib(24_684_084 << 10), 24);
        assert_eq!(round_to_gib(0), 0);
        assert_eq!(round_to_gib(u64::MAX >> 1), (1u64 << 33).try_into().unwrap_or(u32::MAX));
    }

    #[test]
    fn the_device_names_itself_without_a_marketing_name() {
        let device = device();
        assert_eq!(device.vendor, Vendor::Cpu);
        assert!(device.compute_units >= 1 && device.compute_units == cores());
        assert_eq!(device.difference(&super::device()), None);
        if cfg!(target_arch = "x86_64") {
            assert!(device.arch.starts_with("x86_64-v"), "{}", device.arch);
            assert!(device.chip_id.is_some_and(|id| id != 0));
            assert_eq!(device.arch == "x86_64-v4", ["avx512f", "avx512vl"].iter().all(|f| features().contains(f)));
        }
        if fs::metadata("/proc/meminfo").is_ok() {
            assert!(device.memory_gib.is_some_and(|gib| gib >= 1));
        }
    }

    /// The kernel's own list is the judge, where there is one.
    #[test]
    fn features_agree_with_the_kernel() {
        let Ok(cpuinfo) = fs::read_to_string("/proc/cpuinfo") else { return };
        let Some(line) = cpuinfo.lines().find(|line| line.starts_with("flags") || line.starts_with("Features")) else {
            return;
        };
        let flags: Vec<&str> = line.split_whitespace().collect();
        for (name, has) in detected() {
            assert_eq!(has, flags.contains(&name), "{name}");
        }
    }
}
