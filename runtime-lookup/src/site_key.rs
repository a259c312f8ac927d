//! A site packed into a few words, so that hashing and comparing it costs a few nanoseconds.

use std::hash::{Hash, Hasher};

use tgemm_db::problem::{Batch, Leading};
use tgemm_db::{DType, MoeSite, Problem, Site};

/// A [`Site`] in seven words, equal exactly where the sites are.
///
/// A site has some twenty fields; hashing each by itself would cost more than the rest of a lookup.
#[derive(Clone, Copy, Debug, Eq)]
pub(crate) struct SiteKey {
    /// N in the upper half, K in the lower.
    nk: u64,
    /// All small fields side by side.
    words: u64,
    /// Row lengths of x and w; row length of out and batch count; the three batch strides.
    layout: [u64; 5],
}

/// Puts small values side by side; the test of distinct keys shows that they do not overlap.
struct Packer {
    word: u64,
}

impl Packer {
    #[inline]
    fn push(&mut self, value: u8, bits: u32) {
        debug_assert!(u32::from(value) < 1 << bits, "{value} takes more than {bits} bits");
        self.word = self.word << bits | u64::from(value);
    }
}

/// Bits of an element type: 16 types now, twice as many have room.
const DTYPE_BITS: u32 = 5;
/// Bits of a word with few values.
const WORD_BITS: u32 = 3;

impl SiteKey {
    #[inline]
    pub(crate) fn new(site: &Site) -> SiteKey {
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let mut packer = Packer { word: 0 };
        for dtype in [site.x, site.w, site.out, site.scale_dtype] {
            packer.push(dtype as u8, DTYPE_BITS);
        }
        packer.push(site.bias.map_or(0, |dtype: DType| dtype as u8 + 1), DTYPE_BITS);
        for word in [
            site.compute as u8,
            site.scale as u8,
            site.activation as u8,
            site.alpha as u8,
            site.beta as u8,
            site.trans as u8,
            site.align as u8,
        ] {
            packer.push(word, WORD_BITS);
        }
        for flag in [site.in_place, site.fast_accumulation, site.preshuffled] {
            packer.push(u8::from(flag), 1);
        }
        let batch = &site.batch;
        SiteKey {
            nk: pair(site.n, site.k),
            words: packer.word,
            layout: [
                pair(site.ld.x, site.ld.w),
                pair(site.ld.out, batch.count),
                batch.stride_x,
                batch.stride_w,
                batch.stride_out,
            ],
        }
    }
}

impl SiteKey {
    /// The key of a fused MoE layer: its `words` have the top bit set, which a GEMM's never reach.
    pub(crate) fn moe(site: &MoeSite) -> SiteKey {
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let mut packer = Packer { word: 0 };
        for dtype in [site.x, site.q_x, site.q_w] {
            packer.push(dtype.map_or(0, |dtype| dtype as u8 + 1), DTYPE_BITS);
        }
        packer.push(site.quant as u8, WORD_BITS + 1);
        packer.push(site.activation as u8, WORD_BITS);
        for flag in [site.gated, site.weight_in_stage1] {
            packer.push(u8::from(flag), 1);
        }
        SiteKey {
            nk: pair(site.experts, site.topk),
            words: packer.word | 1 << 63,
            layout: [pair(site.model_dim, site.inter_dim), pair(site.block.0, site.block.1), 0, 0, 0],
        }
    }

    /// The key of a fused MoE layer whatever its activation: the second bit from the top is set too.
    pub(crate) fn moe_any_activation(site: &MoeSite) -> SiteKey {
        let key = SiteKey::moe(&site.any_activation());
        SiteKey { words: key.words | 1 << 62, ..key }
    }

    /// The key of whatever `problem` is an instance of.
    pub(crate) fn of(problem: &Problem) -> SiteKey {
        match problem {
            Problem::Gemm(gemm) => SiteKey::new(&gemm.site),
            Problem::Moe(moe) => SiteKey::moe(&moe.site),
            // Words of one operation alone: no two operations share a key.
            _ => SiteKey { nk: 0, words: u64::MAX, layout: [0; 5] },
        }
    }
}

/// What sites share that differ in N and K only, if their layout does not depend on either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Family(u64);

impl Family {
    /// The family of a site whose matrices are packed and not batched.
    pub(crate) fn of(site: &Site) -> Option<Family> {
        let key = SiteKey::new(site);
        let plain = Site { ld: Leading::default(), batch: Batch::default(), ..*site };
        (key.layout == SiteKey::new(&plain).layout).then_some(Family(key.words))
    }
}

impl PartialEq for SiteKey {
    /// Without a branch: the map compares one candidate, which nearly always is the right one.
    #[inline]
    fn eq(&self, other: &SiteKey) -> bool {
        let layout = self.layout.iter().zip(&other.layout).fold(0, |differing, (a, b)| differing | (a ^ b));
        (self.nk ^ other.nk) | (self.words ^ other.words) | layout == 0
    }
}

impl Hash for SiteKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The layout is the same for almost all sites: folded into one word it costs one round of the hash, not five.
        let folded = self.layout.iter().fold(0u64, |folded, word| folded.rotate_left(13) ^ word);
        state.write_u64(self.nk);
        state.write_u64(self.words ^ folded.rotate_left(52));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use tgemm_db::Compute;
    use tgemm_db::problem::{Activation, Alignment, Scalar, ScaleMode, Trans};

    /// Sites that differ from a plain one in exactly one field, each value of each field.
    fn variants() -> Vec<Site> {
        let plain = Site { bias: None, ..Site::linear(1024, 3072, DType::Bf16) };
        let mut sites = vec![plain, Site { n: 3072, k: 1024, ..plain }];
        for dtype in DType::all() {
            sites.extend([
                Site { x: dtype, ..plain },
                Site { w: dtype, ..plain },
                Site { out: dtype, ..plain },
                Site { scale_dtype: dtype, ..plain },
                Site { bias: Some(dtype), ..plain },
            ]);
        }
        sites.extend(Compute::ALL.iter().map(|&compute| Site { compute, ..plain }));
        sites.extend(ScaleMode::ALL.iter().map(|&scale| Site { scale, ..plain }));
        sites.extend(Activation::ALL.iter().map(|&activation| Site { activation, ..plain }));
        sites.extend(Scalar::ALL.iter().map(|&alpha| Site { alpha, ..plain }));
        sites.extend(Scalar::ALL.iter().map(|&beta| Site { beta, ..plain }));
        sites.extend(Trans::ALL.iter().map(|&trans| Site { trans, ..plain }));
        sites.extend(Alignment::ALL.iter().map(|&align| Site { align, ..plain }));
        sites.extend([
            Site { in_place: false, ..plain },
            Site { fast_accumulation: true, ..plain },
            Site { preshuffled: true, ..plain },
        ]);
        for ld in [(4000, 0, 0), (0, 4000, 0), (0, 0, 4000)] {
            sites.push(Site { ld: Leading { x: ld.0, w: ld.1, out: ld.2 }, ..plain });
        }
        for (count, stride_x, stride_w, stride_out) in [(2, 0, 0, 0), (1, 7, 0, 0), (1, 0, 7, 0), (1, 0, 0, 7)] {
            sites.push(Site { batch: Batch { count, stride_x, stride_w, stride_out }, ..plain });
        }
        sites
    }

    #[test]
    fn keys_are_equal_exactly_where_sites_are() {
        let sites: HashSet<Site> = variants().into_iter().collect();
        let keys: Vec<SiteKey> = sites.iter().map(SiteKey::new).collect();
        for (i, a) in keys.iter().enumerate() {
            for (j, b) in keys.iter().enumerate() {
                assert_eq!(a == b, i == j, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn hashes_of_one_field_variants_do_not_collide() {
        let sites: HashSet<Site> = variants().into_iter().collect();
        let hash = |site: &Site| {
            let mut hasher = rustc_hash::FxHasher::default();
            SiteKey::new(site).hash(&mut hasher);
            hasher.finish()
        };
        let hashes: HashSet<u64> = sites.iter().map(hash).collect();
        assert_eq!(hashes.len(), sites.len());
    }
}
