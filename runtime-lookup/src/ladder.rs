//! The token counts that a lookup tries, in order, of those that AITER would try too.
//!
//! AITER's rule (its `gemm_common.cu` and `tuned_gemm.py`), kept to the letter so that a table tuned for AITER answers
//! here as it does there: the exact M; M rounded up on a grid that widens (`gl = 0`); the next power of two with a cap
//! for wide layers (`gl = 1`). K plays no part, and the cap may lead *down*: M = 20000, N = 8192 borrows from M = 8192.

use crate::index::Tuned;
use crate::moe::Spans;
use crate::predict::Nears;

/// Which counts are tried, and among which rows: each operation has its own rule.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ladder {
    /// A GEMM.
    Gemm {
        /// Its site's rows.
        tuned: Tuned,
        /// Out features.
        n: u32,
    },
    /// A GEMM whose site was not tuned, but others near it.
    Predicted(Nears),
    /// A fused MoE layer, by the rules of [`crate::moe`].
    Moe(Spans),
}

/// AITER's rule for fused MoE: the next power of two below 32768 tokens; from there on the largest of 32768 and 131072
/// that is not above M, and where that is missing the smaller.
#[inline]
pub fn moe_padded(m: u32) -> [u32; 2] {
    match m {
        0..32_768 => [m.max(1).next_power_of_two(); 2],
        32_768..131_072 => [32_768; 2],
        _ => [131_072, 32_768],
    }
}

/// The counts to try after `m` itself at a site of `n` out features: AITER's `gl = 0`, then its `gl = 1`.
#[inline]
pub fn padded(m: u32, n: u32) -> [u32; 2] {
    [finer(m), coarser(m, n)]
}

/// `gl = 0`: up to a multiple of 16, 32, 64 or 128, by the size of M.
fn finer(m: u32) -> u32 {
    let grid = match m {
        0..=256 => 16,
        257..=1024 => 32,
        1025..=4096 => 64,
        _ => 128,
    };
    m.checked_next_multiple_of(grid).unwrap_or(m)
}

/// `gl = 1`: the next power of two, but never more than 8192 where N > 4096.
fn coarser(m: u32, n: u32) -> u32 {
    if m > 8192 && n > 4096 { 8192 } else { m.checked_next_power_of_two().unwrap_or(m) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aiters_golden_values() {
        let any = [1, 4096, 4097, 100_000];
        let golden: &[(u32, &[u32], [u32; 2])] = &[
            (1, &any, [16, 1]),
            (9, &any, [16, 16]),
            (17, &any, [32, 32]),
            (257, &any, [288, 512]),
            (300, &any, [320, 512]),
            (1000, &any, [1024, 1024]),
            (1025, &any, [1088, 2048]),
            (4097, &any, [4224, 8192]),
            (8193, &[4096], [8320, 16384]),
            (8193, &[4097], [8320, 8192]),
            (20000, &[8192], [20096, 8192]),
            (40000, &[2048], [40064, 65536]),
        ];
        for (m, ns, want) in golden {
            for &n in *ns {
                assert_eq!(padded(*m, n), *want, "M {m}, N {n}");
            }
        }
    }

    #[test]
    fn aiters_tiers_of_fused_moe() {
        let golden =
            [(1, 1), (3, 4), (1000, 1024), (16_385, 32_768), (32_767, 32_768), (40_000, 32_768), (131_071, 32_768)];
        for (m, want) in golden {
            assert_eq!(moe_padded(m), [want; 2], "M {m}");
        }
        assert_eq!(moe_padded(131_072), [131_072, 32_768]);
        assert_eq!(moe_padded(u32::MAX), [131_072, 32_768]);
    }

    #[test]
    fn the_fine_grid_has_681_points_up_to_80000() {
        let points: std::collections::BTreeSet<u32> = (1..=80_000).map(finer).collect();
        assert_eq!(points.len(), 681);
    }

    #[test]
    fn extremes_do_not_overflow() {
        assert_eq!(padded(0, 1), [0, 1]);
        assert_eq!(padded(u32::MAX, 1), [u32::MAX, u32::MAX]);
    }
}
