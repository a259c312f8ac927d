//! What a device could do at best, by its maker's data sheet: to weigh problems against each other before anything is
//! measured, and to say how far a choice is from it.

use tgemm_db::cost::{Roofline, bytes, flops};
use tgemm_db::{Compute, DType, Device, Problem, Vendor};

/// The dense rates of one kind of card.
struct Sheet {
    arch: &'static str,
    /// Cards of this memory; `None`: any of the architecture.
    memory_gib: Option<std::ops::RangeInclusive<u32>>,
    gbytes_per_s: f64,
    /// TFLOP/s of 8-bit, 16-bit, tf32 and f32 products.
    tflops: [f64; 4],
}

/// Data sheets, without sparsity. NVIDIA H100 SXM and H200; AMD Instinct MI250X (one of its two dies), MI300X and MI325X,
/// MI355X. AMD has no tf32 matrix cores since gfx950; MI300X has (xf32).
const SHEETS: &[Sheet] = &[
    Sheet {
        arch: "sm_90",
        memory_gib: Some(100..=u32::MAX),
        gbytes_per_s: 4800.0,
        tflops: [1979.0, 989.5, 494.7, 67.0],
    },
    Sheet { arch: "sm_90", memory_gib: None, gbytes_per_s: 3350.0, tflops: [1979.0, 989.5, 494.7, 67.0] },
    Sheet { arch: "gfx90a", memory_gib: None, gbytes_per_s: 1638.4, tflops: [191.5, 191.5, 47.9, 47.9] },
    Sheet {
        arch: "gfx942",
        memory_gib: Some(220..=u32::MAX),
        gbytes_per_s: 6000.0,
        tflops: [2614.9, 1307.4, 653.7, 163.4],
    },
    Sheet { arch: "gfx942", memory_gib: None, gbytes_per_s: 5300.0, tflops: [2614.9, 1307.4, 653.7, 163.4] },
    Sheet { arch: "gfx950", memory_gib: None, gbytes_per_s: 8000.0, tflops: [5033.2, 2516.6, 157.3, 157.3] },
];

/// Compute units of the whole card that a sheet is about: partitions have fewer.
fn whole_card_units(arch: &str) -> u32 {
    match arch {
        "sm_90" => 132,
        "gfx90a" => 110,
        "gfx942" => 304,
        "gfx950" => 256,
        _ => 0,
    }
}

fn sheet_of(device: &Device) -> Option<&'static Sheet> {
    let fits = |sheet: &&Sheet| {
        let memory = device.memory_gib.unwrap_or(0);
        sheet.arch == &*device.arch && sheet.memory_gib.as_ref().is_none_or(|range| range.contains(&memory))
    };
    SHEETS.iter().find(fits)
}

/// The ceilings of `device` for the types of `problem`; round figures where no sheet is known.
pub fn nominal(device: &Device, problem: &Problem) -> Roofline {
    let units = f64::from(device.compute_units.max(1));
    if let Some(sheet) = sheet_of(device) {
        let share = (units / f64::from(whole_card_units(sheet.arch))).min(1.0);
        let [eight, sixteen, tf32, thirty_two] = sheet.tflops;
        let tflops = match problem.gemm() {
            Some(gemm) if gemm.site.w.bits() <= 8 => eight,
            Some(gemm) if gemm.site.w.bits() <= 16 => sixteen,
            Some(gemm) if gemm.site.compute == Compute::Tf32 => tf32,
            Some(gemm) if gemm.site.w == DType::F32 => thirty_two,
            _ => sixteen,
        };
        return Roofline { gflops_per_s: tflops * 1e3 * share, gbytes_per_s: sheet.gbytes_per_s * share };
    }
    match device.vendor {
        // A core of this decade: 16 f32 lanes x 2 FMA x 2 GHz, and some 8 GB/s of memory each.
        Vendor::Cpu => Roofline { gflops_per_s: 128.0 * units, gbytes_per_s: 8.0 * units },
        // A compute unit of this decade: some 2.5 TFLOP/s of 16-bit matrix work and 15 GB/s each.
        _ => Roofline { gflops_per_s: 2500.0 * units, gbytes_per_s: 15.0 * units },
    }
}

/// The least time that `device` could take for `problem`, microseconds.
pub fn least_time_us(device: &Device, problem: &Problem) -> f64 {
    nominal(device, problem).time_us(problem)
}

/// Share of the roofline that `time_us` reaches, at most about 1; `None` where no data sheet is known.
pub fn share(device: &Device, problem: &Problem, time_us: f64) -> Option<f64> {
    sheet_of(device).map(|_| least_time_us(device, problem) / time_us)
}

/// Does arithmetic, not memory, bound `problem` on `device`?
pub fn is_arithmetic_bound(device: &Device, problem: &Problem) -> bool {
    let roofline = nominal(device, problem);
    flops(problem) / roofline.gflops_per_s > bytes(problem) as f64 / roofline.gbytes_per_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgemm_db::Site;

    fn h200() -> Device {
        Device { memory_gib: Some(140), ..Device::named(Vendor::Nvidia, "sm_90", 132) }
    }

    #[test]
    fn cards_of_one_architecture_differ_by_memory_and_partition() {
        let decode = Problem::from(Site::linear(8192, 8192, DType::Bf16).at(1));
        let h100 = Device { memory_gib: Some(80), ..h200() };
        assert!(least_time_us(&h100, &decode) > 1.4 * least_time_us(&h200(), &decode));
        let mi300x = Device { memory_gib: Some(192), ..Device::named(Vendor::Amd, "gfx942", 304) };
        let cpx = Device { compute_units: 38, ..mi300x.clone() };
        assert!((least_time_us(&cpx, &decode) / least_time_us(&mi300x, &decode) - 8.0).abs() < 1e-9);
    }

    #[test]
    fn a_share_is_said_only_where_a_data_sheet_is_known() {
        let decode = Problem::from(Site::linear(8192, 8192, DType::Bf16).at(1));
        let half = share(&h200(), &decode, 2.0 * least_time_us(&h200(), &decode)).unwrap();
        assert!((half - 0.5).abs() < 1e-9);
        assert_eq!(share(&Device::named(Vendor::Cpu, "x86_64-v4", 2), &decode, 1.0), None);
    }

    #[test]
    fn types_have_their_own_ceilings() {
        let time_us =
            |dtype| least_time_us(&h200(), &Site::linear(8192, 8192, dtype).with_out(DType::Bf16).at(8192).into());
        assert!((time_us(DType::Bf16) / time_us(DType::F8E4m3Fn) - 2.0).abs() < 1e-3);
        assert!(time_us(DType::F32) > 10.0 * time_us(DType::Bf16));
        assert!(is_arithmetic_bound(&h200(), &Site::linear(8192, 8192, DType::Bf16).at(8192).into()));
        assert!(!is_arithmetic_bound(&h200(), &Site::linear(8192, 8192, DType::Bf16).at(8).into()));
    }
}
