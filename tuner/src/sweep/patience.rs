//! After how long a request without an answer counts as hung.

use std::time::Duration;

use tgemm_db::{Device, Problem, Vendor, cost};
use tgemm_kernels::measure::rotation;

use super::order::LAUNCHES_MAX as MIX_LAUNCHES_MAX;
use crate::worker::Request;

/// Rates no working solution falls below: they turn a problem's cost into the time after which it counts as hung.
const SLOWEST_FLOPS_PER_S: f64 = 1e9;
const SLOWEST_BYTES_PER_S: f64 = 1e8;
/// What every request may take before cost is considered: process start, page faults, a busy host.
const PATIENCE: Duration = Duration::from_secs(2);
/// GPU libraries load a kernel's code when it is first launched, from files of gigabytes that may be on a cold disk.
const CODE_MAX: Duration = Duration::from_secs(8);
/// Filling device memory is never slower than this, and no copy takes longer to allocate.
const ROTATION_BYTES_PER_S: f64 = 5e8;
const COPY_SECONDS_MAX: f64 = 0.01;
/// Opening a device loads every library it has.
const OPEN_MAX: Duration = Duration::from_secs(60);

/// What a request is about.
pub(super) struct Here<'a> {
    /// The problem in hand, or those of a mix.
    pub problems: &'a [Problem],
    /// The device, once it is open.
    pub device: Option<&'a Device>,
    /// Bytes that are rotated over; 0 for several times the last-level cache.
    pub rotation_bytes: u64,
    /// How long a sample is to take.
    pub sample_us: f64,
}

impl Here<'_> {
    /// The longest that `request` may take.
    pub(super) fn limit(&self, request: &Request) -> Duration {
        if let Request::Open { .. } = request {
            return OPEN_MAX;
        }
        let seconds =
            |problem| cost::flops(problem) / SLOWEST_FLOPS_PER_S + cost::bytes(problem) as f64 / SLOWEST_BYTES_PER_S;
        let once = PATIENCE + Duration::from_secs_f64(self.problems.iter().map(seconds).sum());
        match request {
            Request::Measure { block } => once + self.block_max(block.len()),
            // Every launch of a round is paid for alone.
            Request::MeasureMix { block } => once * (MIX_LAUNCHES_MAX + 1) + self.block_max(block.len()),
            Request::Problem { .. } | Request::Refresh { .. } => once * 3,
            Request::Mix { .. } if self.is_gpu() => once * 3 + CODE_MAX * self.problems.len().max(1) as u32,
            Request::Mix { .. } => once * 3,
            Request::Load { .. } | Request::Verify { .. } if self.is_gpu() => once + CODE_MAX,
            _ => once,
        }
    }

    /// How long so many entries may take to be timed; the first block makes the rotation.
    fn block_max(&self, entries: usize) -> Duration {
        let samples = entries as f64 * self.sample_us * 20.0 / 1e6;
        let rotations: f64 = self.problems.iter().map(|problem| self.rotation_seconds(problem)).sum();
        Duration::from_secs_f64(samples + rotations)
    }

    fn is_gpu(&self) -> bool {
        self.device.is_some_and(|device| device.vendor != Vendor::Cpu)
    }

    /// How long it may take to make a rotation of several times the last-level cache: hundreds of copies of small operands,
    /// each with its allocations.
    fn rotation_seconds(&self, problem: &Problem) -> f64 {
        let cache_bytes = self.device.map_or(0, |device| device.last_level_cache_bytes);
        let bytes = rotation::bytes_wanted(self.rotation_bytes, cache_bytes);
        let copies = rotation::copies(bytes, cost::bytes(problem), u64::MAX);
        bytes as f64 / ROTATION_BYTES_PER_S + copies as f64 * COPY_SECONDS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::Entry;
    use tgemm_db::{DType, Site};

    #[test]
    fn patience_grows_with_what_is_asked() {
        let small: Problem = Site::linear(128, 2048, DType::Bf16).at(1).into();
        let large: Problem = Site::linear(65536, 8192, DType::Bf16).at(8192).into();
        let device = |vendor, cache| Device { last_level_cache_bytes: cache, ..Device::named(vendor, "x", 1) };
        let (cpu, gpu) = (device(Vendor::Cpu, 32 << 20), device(Vendor::Amd, 256 << 20));
        let limit = |problem: &Problem, device, request: &Request| {
            Here { problems: &[*problem], device: Some(device), rotation_bytes: 0, sample_us: 1000.0 }.limit(request)
        };
        let verify = Request::Verify { id: 0, enough_us: None };
        let measure = Request::Measure { block: vec![Entry { id: 0, calls: 1 }] };
        assert!(limit(&large, &cpu, &verify) > limit(&small, &cpu, &verify));
        assert!(limit(&small, &gpu, &verify) >= limit(&small, &cpu, &verify) + CODE_MAX);
        assert!(limit(&small, &cpu, &verify) < Duration::from_secs(3), "a hung CPU solution is known soon");
        // Over a thousand copies of half a megabyte.
        assert!(limit(&small, &gpu, &measure) > Duration::from_secs(10));
    }
}
