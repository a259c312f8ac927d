//! Devices and versions.

use std::cell::Cell;

use crate::abi::{Answer, Out, exports, hip_call, write_bytes};
use crate::state::Double;

/// `hipErrorInvalidValue`, `hipErrorInvalidDevice`, `hipErrorNoDevice`.
const INVALID_VALUE: i32 = 1;
const INVALID_DEVICE: i32 = 101;
const NO_DEVICE: i32 = 100;

thread_local! {
    static CURRENT: Cell<i32> = const { Cell::new(0) };
}

/// What is told of a device.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub name: String,
    /// With feature flags.
    pub arch: String,
    pub memory_bytes: u64,
    pub shared_bytes_per_block: i32,
    pub warp: i32,
    pub clock_khz: i32,
    pub memory_clock_khz: i32,
    pub bus_width_bits: i32,
    pub major: i32,
    pub minor: i32,
    pub cus: i32,
    pub l2_bytes: i32,
    pub pci_bus_id: String,
    pub xccs: i32,
}

/// Is there such a device? Programs set theirs again before every call: nothing more is asked.
fn check(double: &Double, device: i32) -> Answer {
    if (0..count(double)?).contains(&device) { Ok(()) } else { Err(INVALID_DEVICE) }
}

impl Facts {
    fn of(double: &Double, device: i32) -> Result<Facts, i32> {
        check(double, device)?;
        let script = &double.script.device;
        let (major, minor) = compute_capability(&script.arch);
        let scripted = Facts {
            name: script.name.clone(),
            arch: script.arch.clone(),
            memory_bytes: script.memory_bytes,
            shared_bytes_per_block: 64 << 10,
            warp: script.warp,
            clock_khz: 2_100_000,
            memory_clock_khz: 1_300_000,
            bus_width_bits: 8192,
            major,
            minor,
            cus: script.cus,
            l2_bytes: script.l2_bytes,
            pci_bus_id: script.pci_bus_id.clone(),
            xccs: script.xccs,
        };
        match double.host() {
            Ok(_) => Ok(scripted),
            // The name and the version of an AMD part, the sizes of the device that computes.
            Err(cuda) => cuda.facts(device, scripted),
        }
    }

    /// (domain, bus, device).
    fn pci(&self) -> (i32, i32, i32) {
        let mut parts = self.pci_bus_id.split([':', '.']).map(|part| i32::from_str_radix(part, 16).unwrap_or(0));
        let mut next = || parts.next().unwrap_or(0);
        (next(), next(), next())
    }

    /// `hipDeviceProp_t` in the layout of HIP 6 and later ("R0600").
    fn record(&self) -> [u8; 1472] {
        let mut record = [0u8; 1472];
        let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
        let text = |text: &str| text.bytes().take(255).collect::<Vec<u8>>();
        put(0, &text(&self.name));
        put(288, &self.memory_bytes.to_ne_bytes());
        put(296, &(self.shared_bytes_per_block as u64).to_ne_bytes());
        put(1160, &text(&self.arch));
        put(1416, &(self.shared_bytes_per_block as u64).to_ne_bytes());
        for (at, value) in [
            (308, self.warp),
            (348, self.clock_khz),
            (360, self.major),
            (364, self.minor),
            (388, self.cus),
            (584, self.pci().1),
            (608, self.memory_clock_khz),
            (612, self.bus_width_bits),
            (616, self.l2_bytes),
        ] {
            put(at, &value.to_ne_bytes());
        }
        record
    }

    /// `hipDeviceAttribute_t`.
    fn attribute(&self, number: i32) -> Option<i32> {
        Some(match number {
            5 => self.clock_khz,
            19 => self.l2_bytes,
            23 => self.major,
            59 => self.bus_width_bits,
            60 => self.memory_clock_khz,
            61 => self.minor,
            63 => self.cus,
            67 => self.pci().1,
            69 => self.pci().0,
            74 => self.shared_bytes_per_block,
            84 => i32::try_from(self.memory_bytes).unwrap_or(i32::MAX),
            87 => self.warp,
            10012 => 0,
            10017 => 100_000,
            10018 => self.xccs,
            10020 => 0x74a1,
            _ => return None,
        })
    }
}

/// (9, 4) of `gfx942`, (11, 0) of `gfx1100`: the last two digits are minor and stepping.
fn compute_capability(arch: &str) -> (i32, i32) {
    let digits = arch.split(':').next().unwrap_or_default().trim_start_matches("gfx");
    let split = digits.len().saturating_sub(2);
    let (major, rest) = digits.split_at_checked(split).unwrap_or(("", ""));
    let minor = rest.chars().next().and_then(|digit| digit.to_digit(16)).unwrap_or(0);
    (major.parse().unwrap_or(0), minor as i32)
}

fn count(double: &Double) -> Result<i32, i32> {
    match double.host() {
        Ok(host) => Ok(host.device.count),
        Err(cuda) => cuda.count(),
    }
}

fn put<T>(place: &Out<T>, value: T) -> Answer {
    if place.put(value) { Ok(()) } else { Err(INVALID_VALUE) }
}

exports! { hip_call;
    fn hipInit(flags: u32) |double| {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        if count(double)? == 0 { Err(NO_DEVICE) } else { Ok(()) }
    }

    fn hipGetDeviceCount(place: Out<i32>) |double| {
        let count = count(double)?;
        put(&place, count)?;
        if count == 0 { Err(NO_DEVICE) } else { Ok(()) }
    }

    fn hipSetDevice(device: i32) |double| {
        check(double, device)?;
        CURRENT.set(device);
        match double.host() {
            Ok(host) => host.alive(),
            Err(cuda) => cuda.enter_device(device),
        }
    }

    fn hipGetDevice(place: Out<i32>) |_double| { put(&place, CURRENT.get()) }

    fn hipDriverGetVersion(place: Out<i32>) |double| { put(&place, double.versions.hip) }

    fn hipRuntimeGetVersion(place: Out<i32>) |double| { put(&place, double.versions.hip) }

    fn hipDeviceGetAttribute(place: Out<i32>, attribute: i32, device: i32) |double| {
        let value = Facts::of(double, device)?.attribute(attribute).ok_or(INVALID_VALUE)?;
        put(&place, value)
    }

    fn hipGetDevicePropertiesR0600(record: usize, device: i32) |double| {
        if record == 0 {
            return Err(INVALID_VALUE);
        }
        write_bytes(record, &Facts::of(double, device)?.record());
        Ok(())
    }

    fn hipDeviceGetPCIBusId(text: usize, bytes: i32, device: i32) |double| {
        let id = Facts::of(double, device)?.pci_bus_id;
        let room = usize::try_from(bytes).ok().filter(|room| *room > id.len());
        if room.is_none() || text == 0 {
            return Err(INVALID_VALUE);
        }
        write_bytes(text, format!("{id}\0").as_bytes());
        Ok(())
    }

    fn hipDeviceGetUuid(place: usize, device: i32) |double| {
        let facts = Facts::of(double, device)?;
        write_bytes(place, format!("{:016x}", crate::solutions::hash(facts.pci_bus_id.as_bytes())).as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_come_from_the_name() {
        assert_eq!(compute_capability("gfx942:sramecc+:xnack-"), (9, 4));
        assert_eq!(compute_capability("gfx90a"), (9, 0));
        assert_eq!(compute_capability("gfx1100"), (11, 0));
        assert_eq!(compute_capability(""), (0, 0));
    }
}
