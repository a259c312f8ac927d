//! The inner loops: several rows of weights times all tokens, a vector of K at a time, for each instruction set.

use std::ffi::c_void;
use std::ops::Range;

use half::{bf16, f16};
use tgemm_db::DType;

use crate::cpu::linear::Linear;

/// Tokens whose sums fit the registers beside the weights.
pub(super) const TOKENS_MAX: usize = 8;

/// The instruction set that the loops are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// 16 lanes (AVX-512F).
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// 8 lanes (AVX2, FMA, F16C).
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// What every processor runs; the compiler may still use its vectors.
    Portable,
}

impl Kernel {
    /// Every kernel that this processor runs, widest first.
    pub fn all() -> Vec<Kernel> {
        let mut kernels = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let avx2 = has!("avx2") && has!("fma") && has!("f16c");
            if avx2 && has!("avx512f") {
                kernels.push(Kernel::Avx512);
            }
            if avx2 {
                kernels.push(Kernel::Avx2);
            }
        }
        kernels.push(Kernel::Portable);
        kernels
    }

    /// The first of [`Kernel::all`].
    pub fn widest() -> Kernel {
        Kernel::all()[0]
    }

    /// Its name in solutions.
    pub fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => "avx2",
            Kernel::Portable => "portable",
        }
    }

    /// Columns `rows` of `out[M,N] = x[M,K] · w[N,K]ᵀ`.
    ///
    /// # Safety
    /// This processor runs the kernel ([`Kernel::all`]); M is 1 to [`TOKENS_MAX`]; `x` holds M x K f32, `w` N x K
    /// elements of `linear.x`, `out` has room for M x N f32 of which nobody else uses these columns.
    pub unsafe fn run(self, linear: &Linear, rows: Range<usize>, x: *const f32, w: *const c_void, out: *mut f32) {
        // SAFETY: the contract.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx512 => x86::avx512(linear, rows, x, w, out),
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx2 => x86::avx2(linear, rows, x, w, out),
                Kernel::Portable => dispatch::<Portable>(linear, rows, x, w, out),
            }
        }
    }
}

/// A vector of f32 of one instruction set.
///
/// # Safety of its methods
/// The processor has the instruction set, and the pointer holds [`Lanes::COUNT`] elements.
trait Lanes: Copy {
    const COUNT: usize;
    fn zero() -> Self;
    unsafe fn load_f32(from: *const f32) -> Self;
    unsafe fn load_f16(from: *const u16) -> Self;
    unsafe fn load_bf16(from: *const u16) -> Self;
    /// `self + a * b`.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
    /// The sum of all lanes.
    unsafe fn sum(self) -> f32;
}

/// An element type of weights.
trait Weight: Copy {
    /// # Safety
    /// As [`Lanes`].
    unsafe fn load<L: Lanes>(from: *const Self) -> L;
    fn value(self) -> f32;
}

impl Weight for f32 {
    #[inline(always)]
    unsafe fn load<L: Lanes>(from: *const f32) -> L {
        // SAFETY: the contract.
        unsafe { L::load_f32(from) }
    }
    #[inline(always)]
    fn value(self) -> f32 {
        self
    }
}

impl Weight for f16 {
    #[inline(always)]
    unsafe fn load<L: Lanes>(from: *const f16) -> L {
        // SAFETY: the contract; `f16` is a transparent u16.
        unsafe { L::load_f16(from.cast()) }
    }
    #[inline(always)]
    fn value(self) -> f32 {
        self.to_f32()
    }
}

impl Weight for bf16 {
    #[inline(always)]
    unsafe fn load<L: Lanes>(from: *const bf16) -> L {
        // SAFETY: the contract; `bf16` is a transparent u16.
        unsafe { L::load_bf16(from.cast()) }
    }
    #[inline(always)]
    fn value(self) -> f32 {
        self.to_f32()
    }
}

/// # Safety
/// As [`Kernel::run`].
#[inline(always)]
unsafe fn dispatch<L: Lanes>(linear: &Linear, rows: Range<usize>, x: *const f32, w: *const c_void, out: *mut f32) {
    // SAFETY: the contract.
    unsafe {
        match linear.x {
            DType::F16 => tokens::<L, f16>(linear, rows, x, w.cast(), out),
            DType::Bf16 => tokens::<L, bf16>(linear, rows, x, w.cast(), out),
            _ => tokens::<L, f32>(linear, rows, x, w.cast(), out),
        }
    }
}

/// # Safety
/// As [`Kernel::run`].
#[inline(always)]
unsafe fn tokens<L: Lanes, W: Weight>(linear: &Linear, rows: Range<usize>, x: *const f32, w: *const W, out: *mut f32) {
    // As many rows at a time as leave the sums of all tokens in registers: x is then loaded once for all of them.
    // SAFETY: the contract.
    unsafe {
        match linear.m {
            1 => all_rows::<L, W, 1, 4>(linear, rows, x, w, out),
            2 => all_rows::<L, W, 2, 4>(linear, rows, x, w, out),
            3 => all_rows::<L, W, 3, 2>(linear, rows, x, w, out),
            4 => all_rows::<L, W, 4, 2>(linear, rows, x, w, out),
            5 => all_rows::<L, W, 5, 2>(linear, rows, x, w, out),
            6 => all_rows::<L, W, 6, 2>(linear, rows, x, w, out),
            7 => all_rows::<L, W, 7, 2>(linear, rows, x, w, out),
            _ => all_rows::<L, W, 8, 2>(linear, rows, x, w, out),
        }
    }
}

/// # Safety
/// As [`Kernel::run`], for M tokens.
#[inline(always)]
unsafe fn all_rows<L: Lanes, W: Weight, const M: usize, const ROWS: usize>(
    linear: &Linear,
    rows: Range<usize>,
    x: *const f32,
    w: *const W,
    out: *mut f32,
) {
    let (n, k) = (linear.n, linear.k);
    let mut row = rows.start;
    // SAFETY: `row` and the rows with it stay below `rows.end`, which is at most N; M tokens of x.
    unsafe {
        while row + ROWS <= rows.end {
            some_rows::<L, W, M, ROWS>(k, n, x, w.add(row * k), out.add(row));
            row += ROWS;
        }
        for row in row..rows.end {
            some_rows::<L, W, M, 1>(k, n, x, w.add(row * k), out.add(row));
        }
    }
}

/// `ROWS` neighbouring columns of the output, for all M tokens.
///
/// # Safety
/// `x` holds M x K f32, `w` ROWS x K elements; `out` has ROWS f32 in each of M rows of `n`.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "r and m index sums, weights and memory alike")]
unsafe fn some_rows<L: Lanes, W: Weight, const M: usize, const ROWS: usize>(
    k: usize,
    n: usize,
    x: *const f32,
    w: *const W,
    out: *mut f32,
) {
    let mut sums = [[L::zero(); M]; ROWS];
    let whole = k - k % L::COUNT;
    // SAFETY: `at + COUNT` is at most K within every row of x and w, and the rest is the contract.
    unsafe {
        for at in (0..whole).step_by(L::COUNT) {
            let mut weights = [L::zero(); ROWS];
            for r in 0..ROWS {
                weights[r] = W::load::<L>(w.add(r * k + at));
            }
            for m in 0..M {
                let activations = L::load_f32(x.add(m * k + at));
                for r in 0..ROWS {
                    sums[r][m] = sums[r][m].add_product(weights[r], activations);
                }
            }
        }
        for r in 0..ROWS {
            for m in 0..M {
                let mut sum = sums[r][m].sum();
                for at in whole..k {
                    sum += (*w.add(r * k + at)).value() * *x.add(m * k + at);
                }
                *out.add(m * n + r) = sum;
            }
        }
    }
}

/// Eight lanes without any particular instruction set.
#[derive(Clone, Copy)]
struct Portable([f32; 8]);

impl Lanes for Portable {
    const COUNT: usize = 8;
    #[inline(always)]
    fn zero() -> Portable {
        Portable([0.0; 8])
    }
    #[inline(always)]
    unsafe fn load_f32(from: *const f32) -> Portable {
        // SAFETY: the contract.
        Portable(unsafe { from.cast::<[f32; 8]>().read() })
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Portable {
        // SAFETY: the contract.
        Portable(unsafe { from.cast::<[u16; 8]>().read() }.map(|bits| f16::from_bits(bits).to_f32()))
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> Portable {
        // SAFETY: the contract.
        Portable(unsafe { from.cast::<[u16; 8]>().read() }.map(|bits| f32::from_bits(u32::from(bits) << 16)))
    }
    #[inline(always)]
    unsafe fn add_product(mut self, a: Portable, b: Portable) -> Portable {
        for (sum, (a, b)) in self.0.iter_mut().zip(a.0.iter().zip(&b.0)) {
            *sum += a * b;
        }
        self
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        self.0.iter().sum()
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::*;

    /// # Safety
    /// As [`Kernel::run`], on a processor with these instruction sets.
    #[target_feature(enable = "avx512f,avx2,fma,f16c")]
    pub unsafe fn avx512(linear: &Linear, rows: Range<usize>, x: *const f32, w: *const c_void, out: *mut f32) {
        // SAFETY: the contract.
        unsafe { dispatch::<__m512>(linear, rows, x, w, out) }
    }

    /// # Safety
    /// As [`Kernel::run`], on a processor with these instruction sets.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub unsafe fn avx2(linear: &Linear, rows: Range<usize>, x: *const f32, w: *const c_void, out: *mut f32) {
        // SAFETY: the contract.
        unsafe { dispatch::<__m256>(linear, rows, x, w, out) }
    }

    impl Lanes for __m512 {
        const COUNT: usize = 16;
        #[inline(always)]
        fn zero() -> __m512 {
            // SAFETY: all bits zero is 16 times 0.0.
            unsafe { std::mem::zeroed() }
        }
        #[inline(always)]
        unsafe fn load_f32(from: *const f32) -> __m512 {
            // SAFETY: the contract.
            unsafe { _mm512_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn load_f16(from: *const u16) -> __m512 {
            // SAFETY: the contract.
            unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
        }
        #[inline(always)]
        unsafe fn load_bf16(from: *const u16) -> __m512 {
            // SAFETY: the contract.
            unsafe {
                let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
            }
        }
        #[inline(always)]
        unsafe fn add_product(self, a: __m512, b: __m512) -> __m512 {
            // SAFETY: the contract.
            unsafe { _mm512_fmadd_ps(a, b, self) }
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            // SAFETY: the contract.
            unsafe { _mm512_reduce_add_ps(self) }
        }
    }

    impl Lanes for __m256 {
        const COUNT: usize = 8;
        #[inline(always)]
        fn zero() -> __m256 {
            // SAFETY: all bits zero is 8 times 0.0.
            unsafe { std::mem::zeroed() }
        }
        #[inline(always)]
        unsafe fn load_f32(from: *const f32) -> __m256 {
            // SAFETY: the contract.
            unsafe { _mm256_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn load_f16(from: *const u16) -> __m256 {
            // SAFETY: the contract.
            unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
        }
        #[inline(always)]
        unsafe fn load_bf16(from: *const u16) -> __m256 {
            // SAFETY: the contract.
            unsafe {
                let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
            }
        }
        #[inline(always)]
        unsafe fn add_product(self, a: __m256, b: __m256) -> __m256 {
            // SAFETY: the contract.
            unsafe { _mm256_fmadd_ps(a, b, self) }
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            // SAFETY: eight f32, as eight f32.
            unsafe { std::mem::transmute::<__m256, [f32; 8]>(self) }.iter().sum()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::linear::size_of_element;
    use tgemm_db::Site;

    /// Small integers: every product and sum is exact, so all kernels must agree to the bit with plain arithmetic.
    #[test]
    fn every_kernel_gives_exact_sums() {
        let number = |i: usize| ((i * 7919 + 13) % 17) as f32 - 8.0;
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            for (n, k) in [(1, 1), (5, 7), (9, 16), (7, 33), (11, 100)] {
                let values: Vec<f32> = (0..n * k).map(number).collect();
                let mut weights = vec![0u32; (n * k).div_ceil(4 / size_of_element(dtype))];
                // SAFETY: room for N x K elements of this size.
                unsafe { crate::cpu::convert::narrow(dtype, &values, weights.as_mut_ptr().cast()) };
                for m in 1..=TOKENS_MAX {
                    let x: Vec<f32> = (0..m * k).map(|i| number(i + 5)).collect();
                    let linear = Linear::of(&Site::linear(n as u32, k as u32, dtype).at(m as u32).into()).unwrap();
                    for kernel in Kernel::all() {
                        let mut out = vec![f32::NAN; m * n];
                        let first = n / 2;
                        for rows in [0..first, first..n] {
                            // SAFETY: all three hold what the problem says.
                            unsafe { kernel.run(&linear, rows, x.as_ptr(), weights.as_ptr().cast(), out.as_mut_ptr()) };
                        }
                        for (at, got) in out.iter().enumerate() {
                            let (x, w) = (&x[at / n * k..][..k], &values[at % n * k..][..k]);
                            let want: f32 = x.iter().zip(w).map(|(x, w)| x * w).sum();
                            assert_eq!(*got, want, "{} {dtype} M={m} N={n} K={k} at {at}", kernel.name());
                        }
                    }
                }
            }
        }
    }
}
