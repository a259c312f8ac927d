//! The dozen problems that a self-check tunes: each asks for something that the libraries may get wrong in a way of its own.

use tgemm_db::problem::{Activation, Batch, ScaleMode};
use tgemm_db::{DType, Device, Problem, Recorded, Site};

/// The problems for `device`: decode and prefill of small layers in every type that it may have, a bias, an activation,
/// row lengths that are no multiple of a tile, an output projection, a strided batch.
pub fn dozen(device: &Device) -> Vec<Recorded> {
    let bf16 = |n, k| Site::linear(n, k, DType::Bf16);
    // CDNA 3 has the 8-bit type without a negative zero; everything since has OCP's.
    let eight = if &*device.arch == "gfx942" { DType::F8E4m3Fnuz } else { DType::F8E4m3Fn };
    let fp8 = Site { scale: ScaleMode::Tensor, ..Site::linear(4096, 4096, eight).with_out(DType::Bf16) };
    let problems = [
        bf16(4096, 1024).at(1),
        heads(16, 16).at(16),
        bf16(1024, 3072).at(64),
        bf16(1024, 3072).at(512),
        bf16(1000, 1000).at(7),
        bf16(3072, 1024).with_bias(DType::Bf16).at(32),
        Site { activation: Activation::Gelu, ..bf16(3072, 1024).with_bias(DType::Bf16) }.at(32),
        Site::linear(4096, 4096, DType::F16).at(8),
        Site::linear(1024, 1024, DType::F32).at(32),
        fp8.at(16),
        fp8.at(512),
        bf16(32_000, 1024).at(1),
    ];
    problems.into_iter().map(|gemm| Recorded { count: 1, ..Recorded::bare(Problem::from(gemm)) }).collect()
}

/// Queries of `count` heads against their cached keys: one product a head for `m` tokens. Keys lie further apart than they are
/// long, as in a cache with room for more.
fn heads(count: u32, m: u32) -> Site {
    let (n, k, room) = (512, 128, 640);
    let batch = Batch {
        count,
        stride_x: u64::from(m) * u64::from(k),
        stride_w: room * u64::from(k),
        stride_out: u64::from(m) * u64::from(n),
    };
    Site { batch, ..Site::linear(n, k, DType::Bf16) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use tgemm_db::Vendor;

    #[test]
    fn a_dozen_different_and_possible_problems() {
        for arch in ["gfx942", "gfx950", "sm_90", "x86_64-v4"] {
            let rows = dozen(&Device::named(Vendor::of_arch(arch), arch, 100));
            assert_eq!(rows.iter().map(|row| row.problem).collect::<HashSet<_>>().len(), 12);
            assert!(rows.iter().all(|row| row.problem.gemm().is_some_and(|gemm| gemm.validate().is_ok())));
            // What the host can make operands of and check, it does.
            assert!(rows.iter().all(|row| tgemm_kernels::measure::data::Data::new(&row.problem, 1).is_ok()));
            let batches = rows.iter().filter(|row| row.problem.gemm().is_some_and(|gemm| gemm.site.batch.count > 1));
            assert_eq!(batches.count(), 1);
        }
    }
}
