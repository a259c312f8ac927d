//! NVML (libnvidia-ml): clocks, throttling and other processes of an NVIDIA card.

use std::ffi::{CString, c_char};

use super::{CallError, Dialect, Handle};
use crate::dialect_table;
use crate::load::{self, Absent, Candidate};

dialect_table! {
    /// The functions of libnvidia-ml (`nvml.h`).
    pub struct Table {
        /// Must come first.
        fn init ["", "nvmlInit_v2"] ();
        /// The driver's version.
        fn driver_version ["", "nvmlSystemGetDriverVersion"] (text: *mut c_char, bytes: u32);
        /// A card by its bus address.
        fn device ["", "nvmlDeviceGetHandleByPciBusId_v2"] (bus_id: *const c_char, device: *mut Handle);
        /// A clock in MHz.
        fn clock ["", "nvmlDeviceGetClockInfo"] (device: Handle, kind: u32, mhz: *mut u32);
        /// Why clocks are lower than they could be, as bits.
        fn throttle_reasons ["", "nvmlDeviceGetCurrentClocksThrottleReasons"] (device: Handle, bits: *mut u64);
        /// Who computes on the card.
        fn processes ["", "nvmlDeviceGetComputeRunningProcesses_v3"] (device: Handle, count: *mut u32, infos: *mut ProcessInfo);
    }
}

/// `nvmlProcessInfo_t` of the third version.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ProcessInfo {
    /// Who.
    pub pid: u32,
    /// Memory it holds, bytes.
    pub memory_bytes: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

/// `NVML_CLOCK_SM`.
const CLOCK_SM: u32 = 1;

/// `NVML_ERROR_INSUFFICIENT_SIZE`: there is more than there was room for, and how much was written.
const INSUFFICIENT_SIZE: i32 = 7;

/// `nvmlClocksThrottleReason*` that mean trouble with the hardware or its cooling, not a power limit that is always near
/// under matrix work: software thermal 0x20, hardware slowdown 0x8, hardware thermal 0x40, power brake 0x80.
const TROUBLE: u64 = 0x20 | 0x8 | 0x40 | 0x80;

/// `nvmlClocksThrottleReasonSwPowerCap`.
const POWER_CAP: u64 = 0x4;

/// The state of a card at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Clock of the multiprocessors, MHz; 0 if not said.
    pub clock_mhz: u32,
    /// Is the hardware too hot or short of power?
    pub is_in_trouble: bool,
    /// Does the power limit hold clocks down?
    pub is_power_capped: bool,
    /// Processes that compute on it; `None` if not said.
    pub processes: Option<u32>,
}

/// One card, watched.
pub struct Nvml {
    table: Table,
    device: Handle,
    driver: String,
}

// SAFETY: NVML's handles may be used from any thread, and its calls are thread-safe.
unsafe impl Send for Nvml {}

impl Nvml {
    /// Opens NVML and finds the card at `bus_id` (`0000:03:00.0`).
    pub fn open(bus_id: &str) -> Result<Nvml, Absent> {
        let candidates = Candidate::sonames(&["libnvidia-ml.so.1"]);
        // SAFETY: this is the library's own name.
        unsafe {
            load::open("nvml", &candidates, |library| {
                // The types are those of the header named at the table.
                let table = Table::fill(library, Dialect::Cuda);
                Nvml::of(table, bus_id).map_err(|error| format!("{}: {error}", library.file().display()))
            })
        }
    }

    fn of(table: Table, bus_id: &str) -> Result<Nvml, CallError> {
        // SAFETY: takes nothing.
        unsafe { table.init() }?;
        let name = CString::new(bus_id).map_err(|_| CallError::Missing("a card whose address holds a zero"))?;
        let mut device = std::ptr::null_mut();
        // SAFETY: one handle is written; the address ends with a zero.
        unsafe { table.device(name.as_ptr(), &raw mut device) }?;
        let mut text = [0u8; 96];
        // SAFETY: at most the told number of bytes is written.
        let read = unsafe { table.driver_version(text.as_mut_ptr().cast(), text.len() as u32 - 1) };
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(0);
        let driver = if read.is_ok() { String::from_utf8_lossy(&text[..end]).into_owned() } else { String::new() };
        Ok(Nvml { table, device, driver })
    }

    /// The kernel driver's version: `580.159.04`; empty if not said.
    pub fn driver_version(&self) -> &str {
        &self.driver
    }

    /// The card's state now. What a driver does not say is left out.
    pub fn state(&self) -> State {
        let (mut clock_mhz, mut reasons, mut count) = (0u32, 0u64, 0u32);
        // SAFETY: one number is written by each call; without room for processes only their number is.
        unsafe {
            let _ = self.table.clock(self.device, CLOCK_SM, &raw mut clock_mhz);
            let _ = self.table.throttle_reasons(self.device, &raw mut reasons);
            let counted = self.table.processes(self.device, &raw mut count, std::ptr::null_mut());
            let known = counted.is_ok() || counted.as_ref().is_err_and(|e| e.status() == Some(INSUFFICIENT_SIZE));
            State {
                clock_mhz,
                is_in_trouble: reasons & TROUBLE != 0,
                is_power_capped: reasons & POWER_CAP != 0,
                processes: known.then_some(count),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvml_wrapper_sys::bindings as nvml;

    #[test]
    fn the_numbers_are_those_of_the_header() {
        assert_eq!(CLOCK_SM, nvml::nvmlClockType_enum_NVML_CLOCK_SM);
        assert_eq!(INSUFFICIENT_SIZE as u32, nvml::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE);
        assert_eq!(POWER_CAP, u64::from(nvml::nvmlClocksThrottleReasonSwPowerCap));
        let trouble = nvml::nvmlClocksThrottleReasonSwThermalSlowdown
            | nvml::nvmlClocksThrottleReasonHwSlowdown
            | nvml::nvmlClocksThrottleReasonHwThermalSlowdown
            | nvml::nvmlClocksThrottleReasonHwPowerBrakeSlowdown;
        assert_eq!(TROUBLE, u64::from(trouble));
    }

    #[test]
    fn a_process_lies_as_the_header_says() {
        use std::mem::offset_of;
        type Theirs = nvml::nvmlProcessInfo_t;
        assert_eq!((size_of::<ProcessInfo>(), align_of::<ProcessInfo>()), (size_of::<Theirs>(), align_of::<Theirs>()));
        assert_eq!(offset_of!(ProcessInfo, pid), offset_of!(Theirs, pid));
        assert_eq!(offset_of!(ProcessInfo, memory_bytes), offset_of!(Theirs, usedGpuMemory));
        assert_eq!(offset_of!(ProcessInfo, gpu_instance), offset_of!(Theirs, gpuInstanceId));
        assert_eq!(offset_of!(ProcessInfo, compute_instance), offset_of!(Theirs, computeInstanceId));
    }
}
