//! What a problem must cost: operations, bytes, and the time that a device's roofline allows.

use crate::dtype::DType;
use crate::moe::{Moe, MoeSite};
use crate::problem::{Gemm, Problem};

/// Floating-point (or integer) operations: 2·M·N·K a product, a multiply and an add each.
pub fn flops(problem: &Problem) -> f64 {
    let Gemm { m, site } = match problem {
        Problem::Gemm(gemm) => gemm,
        Problem::Moe(moe) => return moe_flops(moe),
    };
    2.0 * f64::from(*m) * f64::from(site.n) * f64::from(site.k) * f64::from(site.batch.count)
}

/// Bytes that must move at least once: `x`, `w` and bias read, `out` written, and read too where beta is not zero.
pub fn bytes(problem: &Problem) -> u64 {
    let Gemm { m, site } = match problem {
        Problem::Gemm(gemm) => gemm,
        Problem::Moe(moe) => return moe_bytes(moe),
    };
    let (m, n, k, count) = (u64::from(*m), u64::from(site.n), u64::from(site.k), u64::from(site.batch.count));
    // A stride of zero is one matrix that all products share.
    let matrices = |stride: u64| if count > 1 && stride == 0 { 1 } else { count };
    let out_passes = if site.beta == crate::problem::Scalar::Zero { 1 } else { 2 };
    site.x.bytes(m * k) * matrices(site.batch.stride_x)
        + site.w.bytes(n * k) * matrices(site.batch.stride_w)
        + site.out.bytes(m * n) * count * out_passes
        + site.bias.map_or(0, |bias| bias.bytes(n))
}

/// Products of a fused MoE layer: each token meets its experts' two (gated: three) weight matrices.
fn moe_flops(moe: &Moe) -> f64 {
    let s = &moe.site;
    let matrices = if s.gated { 3.0 } else { 2.0 };
    2.0 * f64::from(moe.m) * f64::from(s.topk.max(1)) * f64::from(s.model_dim) * f64::from(s.inter_dim) * matrices
}

/// Input and output once, and the weights of the experts that can be hit.
fn moe_bytes(moe: &Moe) -> u64 {
    let s = &moe.site;
    let hit = u64::from(s.experts).min(u64::from(moe.m) * u64::from(s.topk.max(1)));
    let x = s.x.unwrap_or(DType::Bf16);
    2 * x.bytes(u64::from(moe.m) * u64::from(s.model_dim)) + hit * (moe_weight_bytes(s) / u64::from(s.experts.max(1)))
}

fn moe_weight_bytes(s: &MoeSite) -> u64 {
    let matrices = if s.gated { 3 } else { 2 };
    let dtype = s.q_w.or(s.x).unwrap_or(DType::Bf16);
    dtype.bytes(matrices * u64::from(s.experts) * u64::from(s.model_dim) * u64::from(s.inter_dim))
}

/// Bytes of the weights as stored.
pub fn weight_bytes(problem: &Problem) -> u64 {
    let site = match problem {
        Problem::Gemm(gemm) => &gemm.site,
        Problem::Moe(moe) => return moe_weight_bytes(&moe.site),
    };
    site.w.bytes(u64::from(site.n) * u64::from(site.k))
}

/// GFLOP/s at `time_us`.
pub fn gflops_per_s(problem: &Problem, time_us: f64) -> f64 {
    flops(problem) / time_us / 1e3
}

/// GB/s of compulsory traffic at `time_us`.
pub fn gbytes_per_s(problem: &Problem, time_us: f64) -> f64 {
    bytes(problem) as f64 / time_us / 1e3
}

/// The two ceilings of a device for one element type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofline {
    /// Arithmetic ceiling, GFLOP/s.
    pub gflops_per_s: f64,
    /// Memory ceiling, GB/s.
    pub gbytes_per_s: f64,
}

impl Roofline {
    /// The least time the device could take, microseconds.
    pub fn time_us(&self, problem: &Problem) -> f64 {
        let arithmetic = flops(problem) / self.gflops_per_s / 1e3;
        let memory = bytes(problem) as f64 / self.gbytes_per_s / 1e3;
        arithmetic.max(memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Activation, Batch, Scalar, Site};

    #[test]
    fn a_small_product_by_hand() {
        let problem = Problem::from(Site::linear(3, 4, DType::Bf16).at(2));
        assert_eq!(flops(&problem), 48.0);
        assert_eq!(bytes(&problem), 2 * (2 * 4 + 3 * 4 + 2 * 3));
        assert_eq!(weight_bytes(&problem), 24);
        // 48 FLOP in 2 us are 0.024 GFLOP/s; 52 bytes in 2 us are 0.026 GB/s.
        assert!((gflops_per_s(&problem, 2.0) - 0.024).abs() < 1e-12);
        assert!((gbytes_per_s(&problem, 2.0) - 0.026).abs() < 1e-12);
    }

    #[test]
    fn beta_and_shared_matrices_change_the_traffic() {
        let batch = Batch { count: 3, stride_x: 8, stride_w: 0, stride_out: 6 };
        let site = Site { batch, beta: Scalar::One, ..Site::linear(3, 4, DType::F32) };
        assert_eq!(bytes(&site.at(2).into()), 4 * (3 * 8 + 12 + 3 * 6 * 2));
    }

    #[test]
    fn a_moe_layer_by_hand() {
        let site = MoeSite {
            experts: 8,
            topk: 2,
            model_dim: 4,
            inter_dim: 6,
            x: Some(DType::Bf16),
            q_x: None,
            q_w: Some(DType::F8E4m3Fn),
            quant: crate::moe::MoeQuant::PerToken,
            block: (0, 0),
            activation: Activation::Silu,
            gated: true,
            weight_in_stage1: false,
        };
        let problem = Problem::from(site.at(3));
        assert_eq!(flops(&problem), 2.0 * 3.0 * 2.0 * 4.0 * 6.0 * 3.0);
        assert_eq!(weight_bytes(&problem), 3 * 8 * 4 * 6);
        // Three tokens hit at most six experts; input and output are 12 bf16 each.
        assert_eq!(bytes(&problem), 2 * 24 + 6 * (3 * 4 * 6));
    }

    #[test]
    fn the_slower_ceiling_rules() {
        let roof = Roofline { gflops_per_s: 100.0, gbytes_per_s: 10.0 };
        let skinny = Problem::from(Site::linear(1024, 1024, DType::F32).at(1));
        assert!((roof.time_us(&skinny) - bytes(&skinny) as f64 / 1e4).abs() < 1e-9);
        let square = Problem::from(Site::linear(1024, 1024, DType::F32).at(1024));
        assert!((roof.time_us(&square) - flops(&square) / 1e5).abs() < 1e-6);
    }
}
