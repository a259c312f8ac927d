//! What is to be computed: `out[M,N] = act(alpha · x[M,K] · w[N,K]ᵀ · scales + bias[N] + beta · c[M,N])`.
//!
//! M counts tokens, N out features, K in features: AITER's order and torch's linear layout. All matrices are row-major;
//! [`crate::blas`] turns a problem into the column-major call that BLAS libraries take.

use crate::dtype::{Compute, DType, word_enum};

/// The largest extent of a matrix: what a signed 32-bit BLAS argument holds.
pub const EXTENT_MAX: u32 = i32::MAX as u32;

/// What is to be computed. GEMM first; more operations follow as variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Problem {
    /// One (batched) matrix product.
    Gemm(Gemm),
    /// A fused mixture-of-experts layer.
    Moe(crate::moe::Moe),
}

impl Problem {
    /// The GEMM, if this is one.
    #[inline]
    pub fn gemm(&self) -> Option<&Gemm> {
        match self {
            Problem::Gemm(gemm) => Some(gemm),
            Problem::Moe(_) => None,
        }
    }

    /// The fused MoE layer, if this is one.
    pub fn moe(&self) -> Option<&crate::moe::Moe> {
        match self {
            Problem::Moe(moe) => Some(moe),
            Problem::Gemm(_) => None,
        }
    }

    /// Tokens.
    pub fn m(&self) -> u32 {
        match self {
            Problem::Gemm(gemm) => gemm.m,
            Problem::Moe(moe) => moe.m,
        }
    }
}

impl From<Gemm> for Problem {
    fn from(gemm: Gemm) -> Problem {
        Problem::Gemm(gemm)
    }
}

/// A GEMM: a [`Site`] at one number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gemm {
    /// Rows of `x` and `out`: tokens.
    pub m: u32,
    /// Everything but M.
    pub site: Site,
}

/// A problem less its M: what one layer of a model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// Columns of `out`, rows of `w`: out features.
    pub n: u32,
    /// Columns of `x` and `w`: in features.
    pub k: u32,
    /// Element type of `x`.
    pub x: DType,
    /// Element type of `w`.
    pub w: DType,
    /// Element type of `out`.
    pub out: DType,
    /// Type in which products are summed.
    pub compute: Compute,
    /// Type of the bias vector of N elements, if one is added.
    pub bias: Option<DType>,
    /// What `x · wᵀ` is multiplied with.
    pub scale: ScaleMode,
    /// Element type of the scales; `F32` where there are none.
    pub scale_dtype: DType,
    /// What is applied to the sum last.
    pub activation: Activation,
    /// Class of the factor of the product.
    pub alpha: Scalar,
    /// Class of the factor of the old output.
    pub beta: Scalar,
    /// Is the old output (C) the same memory as the new (D)? Meaningless, and true, where beta is zero.
    pub in_place: bool,
    /// May the library sum 8-bit products in fewer than 32 bits?
    pub fast_accumulation: bool,
    /// Does `w` arrive already shuffled for the matrix cores (AITER's `bpreshuffle`)?
    pub preshuffled: bool,
    /// How `x` and `w` are stored.
    pub trans: Trans,
    /// Row lengths in elements where rows are not packed; 0 means packed.
    pub ld: Leading,
    /// Number of problems in one call, and how far apart their matrices lie.
    pub batch: Batch,
    /// What every pointer and row is aligned to.
    pub align: Alignment,
}

word_enum! {
    /// How the product is scaled back.
    pub enum ScaleMode("scale mode") {
        /// Not at all.
        None = "none",
        /// One factor for `x` and one for `w` (AITER's `scaleAB`).
        Tensor = "tensor",
        /// One factor a token and one an out feature.
        TokenChannel = "token_channel",
        /// `x` in blocks of 1x128, `w` in blocks of 128x128.
        Block128 = "block128",
        /// OCP microscaling: one power of two for 32 elements along K.
        Mx = "mx",
    }
}

word_enum! {
    /// The function applied to the sum last.
    pub enum Activation("activation") {
        /// Identity.
        None = "none",
        /// max(0, v).
        Relu = "relu",
        /// Gaussian error linear unit.
        Gelu = "gelu",
        /// v · sigmoid(v).
        Silu = "silu",
        /// Clamped SiLU of the gate times up + 1 (gpt-oss).
        Swiglu = "swiglu",
        /// What AITER's fused MoE tables call Situv2; kept, never computed here.
        Situv2 = "situv2",
    }
}

word_enum! {
    /// The class of a scalar factor: kernels are specialised on it, its value is not part of a problem.
    pub enum Scalar("scalar class") {
        /// Exactly 0.
        Zero = "0",
        /// Exactly 1.
        One = "1",
        /// Anything else.
        Other = "other",
    }
}

word_enum! {
    /// How `x` and `w` are stored, as seen from `out = x · wᵀ`.
    pub enum Trans("storage") {
        /// `x[M,K]` and `w[N,K]`, both with K fastest: a linear layer.
        Linear = "linear",
        /// `x[K,M]`, `w[N,K]`.
        X = "x",
        /// `x[M,K]`, `w[K,N]`: a plain matrix product.
        W = "w",
        /// `x[K,M]`, `w[K,N]`.
        Xw = "xw",
    }
}

impl Scalar {
    /// The class of `factor`.
    #[inline]
    pub fn of(factor: f64) -> Scalar {
        if factor == 0.0 {
            Scalar::Zero
        } else if factor == 1.0 {
            Scalar::One
        } else {
            Scalar::Other
        }
    }
}

impl Trans {
    /// Is `x` stored as `[K,M]`?
    pub fn x(self) -> bool {
        matches!(self, Trans::X | Trans::Xw)
    }
    /// Is `w` stored as `[K,N]`?
    pub fn w(self) -> bool {
        matches!(self, Trans::W | Trans::Xw)
    }
}

word_enum! {
    /// What every pointer and every row start is a multiple of, in bytes; vector kernels need 16.
    pub enum Alignment("alignment") {
        /// 16 bytes or more.
        B16 = "16",
        /// 8 bytes.
        B8 = "8",
        /// 4 bytes.
        B4 = "4",
        /// Less than 4 bytes.
        B1 = "1",
    }
}

impl Alignment {
    /// What `addresses` (of matrices, and bytes from row to row) are all multiples of.
    pub fn of(addresses: impl IntoIterator<Item = u64>) -> Alignment {
        match addresses.into_iter().fold(0, |all, address| all | address).trailing_zeros() {
            4.. => Alignment::B16,
            3 => Alignment::B8,
            2 => Alignment::B4,
            _ => Alignment::B1,
        }
    }
}

/// Row lengths in elements where rows are longer than their content; 0 means packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leading {
    /// Of `x` as stored.
    pub x: u32,
    /// Of `w` as stored.
    pub w: u32,
    /// Of `out`.
    pub out: u32,
}

/// A strided batch. Strides in elements; 0 means that all share one matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Batch {
    /// Number of products.
    pub count: u32,
    /// From one `x` to the next.
    pub stride_x: u64,
    /// From one `w` to the next.
    pub stride_w: u64,
    /// From one `out` to the next.
    pub stride_out: u64,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch { count: 1, stride_x: 0, stride_w: 0, stride_out: 0 }
    }
}

/// Why a problem cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// A size is zero or beyond [`EXTENT_MAX`].
    #[error("{name} is {value}; it must be between 1 and {EXTENT_MAX}")]
    Extent {
        /// Which size.
        name: &'static str,
        /// Its value.
        value: u64,
    },
    /// A row length is shorter than the row.
    #[error("leading dimension of {name} is {value}, shorter than its row of {row}")]
    Leading {
        /// Which matrix.
        name: &'static str,
        /// The row length given.
        value: u32,
        /// The row's content.
        row: u32,
    },
}

impl Site {
    /// A plain linear layer `x[M,K] · w[N,K]ᵀ`, one element type throughout, summed in f32 (i32 for integers), packed.
    pub fn linear(n: u32, k: u32, dtype: DType) -> Site {
        let (compute, out) = match dtype {
            DType::I8 | DType::U8 | DType::I4 => (Compute::I32, DType::I32),
            DType::F64 => (Compute::F64, DType::F64),
            other => (Compute::F32, other),
        };
        Site {
            n,
            k,
            x: dtype,
            w: dtype,
            out,
            compute,
            bias: None,
            scale: ScaleMode::None,
            scale_dtype: DType::F32,
            activation: Activation::None,
            alpha: Scalar::One,
            beta: Scalar::Zero,
            in_place: true,
            fast_accumulation: false,
            preshuffled: false,
            trans: Trans::Linear,
            ld: Leading::default(),
            batch: Batch::default(),
            align: Alignment::B16,
        }
    }

    /// The same site with a bias of type `dtype`.
    pub fn with_bias(self, dtype: DType) -> Site {
        Site { bias: Some(dtype), ..self }
    }

    /// The same site with another output type.
    pub fn with_out(self, dtype: DType) -> Site {
        Site { out: dtype, ..self }
    }

    /// This site at `m` tokens.
    #[inline]
    pub fn at(self, m: u32) -> Gemm {
        Gemm { m, site: self }
    }

    /// Is this a packed, unbatched, unscaled linear layer with alpha 1 and beta 0: what every library here can take?
    pub fn is_plain_linear(&self) -> bool {
        let plain = Site { bias: self.bias, out: self.out, ..Site::linear(self.n, self.k, self.x) };
        Site { align: Alignment::B16, ..*self } == plain
    }

    /// Row length of `x` as stored, in elements; `m` is needed where `x` is transposed.
    pub fn ldx(&self, m: u32) -> u32 {
        or_packed(self.ld.x, if self.trans.x() { m } else { self.k })
    }
    /// Row length of `w` as stored, in elements.
    pub fn ldw(&self) -> u32 {
        or_packed(self.ld.w, if self.trans.w() { self.n } else { self.k })
    }
    /// Row length of `out`, in elements.
    pub fn ldo(&self) -> u32 {
        or_packed(self.ld.out, self.n)
    }
}

fn or_packed(ld: u32, packed: u32) -> u32 {
    if ld == 0 { packed } else { ld }
}

impl Gemm {
    /// Are all sizes possible? Readers call this on every row, so that nothing downstream divides by zero.
    #[inline]
    pub fn validate(&self) -> Result<(), Invalid> {
        let site = &self.site;
        for (name, value) in [("M", self.m), ("N", site.n), ("K", site.k), ("batch", site.batch.count)] {
            if value == 0 || value > EXTENT_MAX {
                return Err(Invalid::Extent { name, value: value.into() });
            }
        }
        let rows = [
            ("x", site.ld.x, if site.trans.x() { self.m } else { site.k }),
            ("w", site.ld.w, if site.trans.w() { site.n } else { site.k }),
            ("out", site.ld.out, site.n),
        ];
        for (name, value, row) in rows {
            if value != 0 && value < row {
                return Err(Invalid::Leading { name, value, row });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_layer_is_plain_and_valid() {
        let gemm = Site::linear(1024, 3072, DType::Bf16).with_bias(DType::Bf16).at(4);
        assert!(gemm.site.is_plain_linear());
        assert_eq!(gemm.validate(), Ok(()));
        assert_eq!((gemm.site.ldx(4), gemm.site.ldw(), gemm.site.ldo()), (3072, 3072, 1024));
        assert!(!Site { beta: Scalar::One, ..gemm.site }.is_plain_linear());
        assert!(!Site { trans: Trans::W, ..gemm.site }.is_plain_linear());
    }

    #[test]
    fn the_worst_aligned_decides() {
        assert_eq!(Alignment::of([0x1000, 0x2010, 32]), Alignment::B16);
        assert_eq!(Alignment::of([0x1000, 0x2018]), Alignment::B8);
        assert_eq!(Alignment::of([0x1000, 0x2014]), Alignment::B4);
        assert_eq!(Alignment::of([0x1002, 0x2000]), Alignment::B1);
        assert_eq!(Alignment::of([0x1001]), Alignment::B1);
    }

    #[test]
    fn impossible_sizes_are_named() {
        let zero = Site::linear(8, 8, DType::F32).at(0).validate().unwrap_err();
        assert_eq!(zero.to_string(), "M is 0; it must be between 1 and 2147483647");
        let site = Site { ld: Leading { w: 4, ..Leading::default() }, ..Site::linear(8, 8, DType::F32) };
        assert!(matches!(site.at(1).validate(), Err(Invalid::Leading { name: "w", value: 4, row: 8 })));
    }
}
