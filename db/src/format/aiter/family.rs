//! The families of AITER's GEMM tables as one table: columns, names of files, and what the columns mean.
//!
//! Columns and file stems are those of AITER in August 2026 (`aiter/configs`); what a family multiplies, and what its
//! `splitK` counts, is what AITER's loaders and its kernels' names say.

use crate::dtype::{DType, word_enum};
use crate::problem::ScaleMode;

word_enum! {
    /// A family of AITER's GEMM tables: one kind of product, one lookup.
    pub enum Family("AITER family") {
        /// `bf16_tuned_gemm`: bf16, f16 and per-tensor fp8 through `tgemm`.
        Bf16 = "bf16",
        /// `a8w8_tuned_gemm`: one scale a token and a channel.
        A8w8 = "a8w8",
        /// `a8w8_bpreshuffle_tuned_gemm`: the same over shuffled weights.
        A8w8Bpreshuffle = "a8w8_bpreshuffle",
        /// `a8w8_blockscale_tuned_gemm`: fp8 with scales of 1x128 and 128x128.
        A8w8Blockscale = "a8w8_blockscale",
        /// `a8w8_blockscale_bpreshuffle_tuned_gemm`: the same over shuffled weights.
        A8w8BlockscaleBpreshuffle = "a8w8_blockscale_bpreshuffle",
        /// `a4w4_blockscale_tuned_gemm`: fp4 with a power-of-two scale for 32 elements.
        A4w4Blockscale = "a4w4_blockscale",
        /// `a8w8_tuned_batched_gemm`: int8, one scale a token and a channel.
        BatchedA8w8 = "batched_a8w8",
        /// `bf16_tuned_batched_gemm`.
        BatchedBf16 = "batched_bf16",
        /// `batched_gemm_a8w8_blockscale_mxscale_tuned`: fp8 with power-of-two scales.
        BatchedMxscale = "batched_a8w8_mxscale",
        /// `asm_a8w8_gemm`, which AITER no longer looks at.
        AsmA8w8 = "asm_a8w8",
    }
}

/// Where a family's element types come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Types {
    /// The columns `dtype` and `outdtype`, with `bias`, `scaleAB` and `bpreshuffle`.
    Columns,
    /// The column `q_dtype_w`; `x` is of the same 8-bit type, or fp8 beside weights of 4 bits.
    WeightColumn,
    /// Both are the fp8 that the arch has.
    Fp8OfArch,
    /// Both are this.
    Both(DType),
}

/// What the number in `splitK` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SplitK {
    /// Parts of K; 0 is the same as 1.
    Factor,
    /// The power of two that the parts of K are.
    Exponent,
    /// Exponent for composable-kernel libraries, factor for all others.
    ByLibrary,
}

/// Who computes where the table does not say, because it has no `libtype` or an empty one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Library {
    /// The table always says.
    Said,
    /// This one.
    Default(&'static str),
    /// `asm` for mangled kernel names, else `ck`.
    ByKernelName,
}

/// Everything about one family.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) family: Family,
    /// Parts of the names of tuned files, as AITER globs for them.
    pub(super) tuned_stems: &'static [&'static str],
    /// The same of untuned files.
    pub(super) untuned_stems: &'static [&'static str],
    /// Today's tuned columns in AITER's order.
    pub(super) tuned: &'static [&'static str],
    /// Today's untuned columns.
    pub(super) untuned: &'static [&'static str],
    /// Names that tuned columns had before, beside today's.
    pub(super) aged: &'static [&'static str],
    /// Tuned columns, under today's names of the bf16 family, without which nothing can be read.
    pub(super) required: &'static [&'static str],
    pub(super) types: Types,
    pub(super) scale: ScaleMode,
    pub(super) scale_dtype: DType,
    pub(super) preshuffled: bool,
    pub(super) split_k: SplitK,
    pub(super) library: Library,
    /// Libraries that AITER's lookup of this family can run.
    pub(super) libraries: &'static [&'static str],
    /// Parts of kernel names that only this family has, in lower case.
    pub(super) kernel_marks: &'static [&'static str],
}

/// Names that columns have elsewhere or had before, and the ones that the reader knows them by.
pub(super) const RENAMED: &[(&str, &str)] = &[
    ("soltimes", "us"),
    ("kernelId", "solidx"),
    ("errRatio", "err_ratio"),
    ("b", "B"),
    ("m", "M"),
    ("n", "N"),
    ("k", "K"),
];

/// Columns that a sweep fills: what stands before them in a header is a key.
pub(super) const RESULTS: &[&str] = &["libtype", "solidx", "splitK", "us", "kernelName", "err_ratio", "tflops", "bw"];

const FP8: &[&str] = &["ck", "cktile", "asm", "flydsl", "opus", "triton"];
const MNK: &[&str] = &["M", "N", "K", "solidx", "us"];
const BMNK: &[&str] = &["B", "M", "N", "K", "solidx", "us"];

/// One row a family, in the order of [`Family::ALL`].
#[rustfmt::skip]
pub(super) const LAYOUTS: &[Layout] = &[
    Layout {
        family: Family::Bf16,
        tuned_stems: &["bf16_tuned_gemm"],
        untuned_stems: &["bf16_untuned_gemm"],
        tuned: &[
            "gfx", "cu_num", "M", "N", "K", "bias", "dtype", "outdtype", "scaleAB", "bpreshuffle", "libtype", "solidx",
            "splitK", "us", "kernelName", "err_ratio", "tflops", "bw",
        ],
        untuned: &["M", "N", "K", "bias", "dtype", "outdtype", "scaleAB", "bpreshuffle"],
        aged: &["soltimes"],
        required: &["M", "N", "K", "bias", "dtype", "outdtype", "libtype", "solidx", "us"],
        types: Types::Columns,
        scale: ScaleMode::None,
        scale_dtype: DType::F32,
        preshuffled: false,
        split_k: SplitK::Factor,
        library: Library::Said,
        libraries: &["torch", "hipblaslt", "skinny", "asm", "triton", "flydsl", "opus"],
        kernel_marks: &[],
    },
    Layout {
        family: Family::A8w8,
        tuned_stems: &["a8w8_tuned_gemm"],
        untuned_stems: &["a8w8_untuned_gemm"],
        tuned: &[
            "gfx", "cu_num", "M", "N", "K", "q_dtype_w", "kernelId", "splitK", "us", "kernelName", "tflops", "bw",
            "errRatio",
        ],
        untuned: &["M", "N", "K", "q_dtype_w"],
        // AITER's own fixtures have it, empty.
        aged: &["libtype"],
        required: MNK,
        types: Types::WeightColumn,
        scale: ScaleMode::TokenChannel,
        scale_dtype: DType::F32,
        preshuffled: false,
        split_k: SplitK::Exponent,
        library: Library::Default("ck"),
        libraries: &["ck"],
        kernel_marks: &["a8w8_rowwise"],
    },
    Layout {
        family: Family::A8w8Bpreshuffle,
        tuned_stems: &["a8w8_bpreshuffle_tuned_gemm"],
        untuned_stems: &["a8w8_bpreshuffle_untuned_gemm"],
        tuned: &[
            "gfx", "cu_num", "M", "N", "K", "q_dtype_w", "libtype", "kernelId", "splitK", "us", "kernelName", "tflops",
            "bw", "errRatio",
        ],
        untuned: &["M", "N", "K", "q_dtype_w"],
        aged: &[],
        required: MNK,
        types: Types::WeightColumn,
        scale: ScaleMode::TokenChannel,
        scale_dtype: DType::F32,
        preshuffled: true,
        split_k: SplitK::ByLibrary,
        library: Library::Default("ck"),
        libraries: FP8,
        kernel_marks: &["a8w8_bpreshuffle", "pertokeni8_bpreshuffle", "flydsl_bpreshu"],
    },
    Layout {
        family: Family::A8w8Blockscale,
        tuned_stems: &["a8w8_blockscale_tuned_gemm"],
        untuned_stems: &["a8w8_blockscale_untuned_gemm"],
        tuned: &[
            "gfx", "cu_num", "M", "N", "K", "libtype", "kernelId", "splitK", "us", "kernelName", "tflops", "bw",
            "errRatio",
        ],
        untuned: &["M", "N", "K"],
        aged: &[],
        required: MNK,
        types: Types::Fp8OfArch,
        scale: ScaleMode::Block128,
        scale_dtype: DType::F32,
        preshuffled: false,
        split_k: SplitK::ByLibrary,
        library: Library::Default("ck"),
        libraries: FP8,
        kernel_marks: &["a8w8_blockscale_1x128x128"],
    },
    Layout {
        family: Family::A8w8BlockscaleBpreshuffle,
        tuned_stems: &["a8w8_blockscale_bpreshuffle_tuned_gemm"],
        untuned_stems: &["a8w8_blockscale_bpreshuffle_untuned_gemm"],
        tuned: &[
            "gfx", "cu_num", "M", "N", "K", "libtype", "kernelId", "splitK", "us", "kernelName", "tflops", "bw",
            "errRatio",
        ],
        untuned: &["M", "N", "K"],
        aged: &[],
        required: MNK,
        types: Types::Fp8OfArch,
        scale: ScaleMode::Block128,
        scale_dtype: DType::F32,
        preshuffled: true,
        split_k: SplitK::ByLibrary,
        library: Library::Default("ck"),
        libraries: FP8,
        kernel_marks: &["a8w8_blockscale_bpreshuffle", "blockscale_bpreshuffle", "a8w8_bs_bpreshuf"],
    },
    Layout {
        family: Family::A4w4Blockscale,
        tuned_stems: &["a4w4_blockscale_tuned_gemm"],
        untuned_stems: &["a4w4_blockscale_untuned_gemm"],
        tuned: &[
            "gfx", "cu_num", "M", "N", "K", "kernelId", "splitK", "us", "kernelName", "tflops", "bw", "errRatio",
        ],
        untuned: &["M", "N", "K"],
        aged: &[],
        required: MNK,
        types: Types::Both(DType::F4E2m1x2),
        scale: ScaleMode::Mx,
        scale_dtype: DType::Ue8m0,
        // Its assembly kernels all are `BpreShuffle`, and one table serves both kinds.
        preshuffled: true,
        split_k: SplitK::Exponent,
        library: Library::ByKernelName,
        libraries: &["asm", "ck"],
        kernel_marks: &["f4gemm_bf16_per1x32fp4", "a4w4_blockscale"],
    },
    Layout {
        family: Family::BatchedA8w8,
        tuned_stems: &["a8w8_tuned_batched_gemm"],
        untuned_stems: &["a8w8_untuned_batched_gemm"],
        tuned: &[
            "gfx", "cu_num", "B", "M", "N", "K", "kernelId", "splitK", "us", "kernelName", "tflops", "bw", "errRatio",
        ],
        untuned: &["B", "M", "N", "K"],
        aged: &[],
        required: BMNK,
        types: Types::Both(DType::I8),
        scale: ScaleMode::TokenChannel,
        scale_dtype: DType::F32,
        preshuffled: false,
        split_k: SplitK::Exponent,
        library: Library::Default("ck"),
        libraries: &["ck"],
        kernel_marks: &["a8w8_batched"],
    },
    Layout {
        family: Family::BatchedBf16,
        tuned_stems: &["bf16_tuned_batched_gemm"],
        untuned_stems: &["bf16_untuned_batched_gemm"],
        tuned: &[
            "gfx", "cu_num", "B", "M", "N", "K", "kernelId", "splitK", "us", "kernelName", "tflops", "bw", "errRatio",
        ],
        untuned: &["B", "M", "N", "K"],
        aged: &[],
        required: BMNK,
        types: Types::Both(DType::Bf16),
        scale: ScaleMode::None,
        scale_dtype: DType::F32,
        preshuffled: false,
        split_k: SplitK::Exponent,
        library: Library::Default("ck"),
        libraries: &["ck"],
        kernel_marks: &["bf16_batched"],
    },
    Layout {
        family: Family::BatchedMxscale,
        tuned_stems: &["batched_gemm_a8w8_blockscale_mxscale_tuned"],
        untuned_stems: &["batched_gemm_a8w8_blockscale_mxscale_untuned"],
        tuned: &[
            "gfx", "b", "m", "n", "k", "libtype", "kernelId", "splitK", "us", "kernelName", "tflops", "bw", "errRatio",
        ],
        untuned: &["b", "m", "n", "k"],
        aged: &["cu_num"],
        required: BMNK,
        types: Types::Fp8OfArch,
        scale: ScaleMode::Mx,
        scale_dtype: DType::Ue8m0,
        preshuffled: false,
        split_k: SplitK::ByLibrary,
        library: Library::Said,
        libraries: FP8,
        kernel_marks: &["a8w8_mxscale"],
    },
    Layout {
        family: Family::AsmA8w8,
        tuned_stems: &["asm_a8w8_gemm"],
        untuned_stems: &[],
        tuned: &["M", "N", "K", "bias", "outdtype", "splitK", "us"],
        untuned: &[],
        aged: &["gfx", "cu_num"],
        required: &["M", "N", "K", "bias", "outdtype", "splitK", "us"],
        types: Types::Both(DType::I8),
        scale: ScaleMode::TokenChannel,
        scale_dtype: DType::F32,
        // Every per-token int8 kernel in AITER's assembly catalogues is `BpreShuffle`.
        preshuffled: true,
        split_k: SplitK::Factor,
        library: Library::Default("asm"),
        libraries: &["asm"],
        kernel_marks: &[],
    },
];

impl Family {
    pub(super) fn layout(self) -> &'static Layout {
        // LAYOUTS has a row for every family; the test `every_family_has_its_row` keeps it so.
        LAYOUTS.iter().find(|layout| layout.family == self).unwrap_or(&LAYOUTS[0])
    }

    /// The name, without `.csv`, under which AITER looks for the family's tuned table.
    pub fn tuned_stem(self) -> &'static str {
        self.layout().tuned_stems.first().copied().unwrap_or_default()
    }

    /// Today's columns of its tuned table, in AITER's order.
    pub fn tuned_columns(self) -> &'static [&'static str] {
        self.layout().tuned
    }

    /// Today's columns of its untuned table.
    pub fn untuned_columns(self) -> &'static [&'static str] {
        self.layout().untuned
    }

    /// The libraries (`libtype`) that AITER's lookup of this family can run.
    pub fn libraries(self) -> &'static [&'static str] {
        self.layout().libraries
    }
}

impl SplitK {
    /// Does `library` count in powers of two?
    fn is_exponent(self, library: &str) -> bool {
        match self {
            SplitK::Factor => false,
            SplitK::Exponent => true,
            SplitK::ByLibrary => matches!(library, "ck" | "cktile"),
        }
    }

    /// The parts of K that the number stands for; 0 and 1 are one part. `None` where it is beyond 2^31.
    pub(super) fn parts(self, library: &str, number: u32) -> Option<u32> {
        match self.is_exponent(library) {
            true => 1u32.checked_shl(number),
            false => Some(number),
        }
    }

    /// The number that stands for so many parts of K, if one does.
    pub(super) fn number(self, library: &str, parts: u32) -> Option<u32> {
        match self.is_exponent(library) {
            true if parts <= 1 => Some(0),
            true => parts.is_power_of_two().then(|| parts.trailing_zeros()),
            false => Some(parts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_its_row() {
        assert_eq!(LAYOUTS.iter().map(|layout| layout.family).collect::<Vec<_>>(), Family::ALL);
        for layout in LAYOUTS {
            let known = |name: &&str| layout.tuned.iter().any(|have| *have == *name || renamed(have) == *name);
            assert!(layout.required.iter().all(known), "{}", layout.family);
            assert!(layout.untuned.iter().all(|name| layout.tuned.contains(name)), "{}", layout.family);
        }
    }

    fn renamed(name: &str) -> &str {
        RENAMED.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
    }

    #[test]
    fn split_k_goes_there_and_back() {
        for meaning in [SplitK::Factor, SplitK::Exponent, SplitK::ByLibrary] {
            for library in ["ck", "cktile", "asm", "opus"] {
                for number in 0..31 {
                    let parts = meaning.parts(library, number).unwrap();
                    assert_eq!(meaning.number(library, parts), Some(number), "{meaning:?} {library}");
                }
            }
        }
        assert_eq!(SplitK::Exponent.parts("ck", 3), Some(8));
        assert_eq!(SplitK::Exponent.parts("ck", 32), None);
        assert_eq!(SplitK::Exponent.number("ck", 3), None);
        assert_eq!((SplitK::Factor.parts("asm", 3), SplitK::Factor.number("asm", 1)), (Some(3), Some(1)));
    }
}
