//! Problems as a structure, and as their key.

use std::ffi::c_char;

use tgemm_db::blas::Call;
use tgemm_db::problem::{Batch, Gemm, Leading, Scalar};
use tgemm_db::{Problem, Site};

use crate::status::{Failure, TgemmStatus, guarded};
use crate::text::{Buffer, text};
use crate::versioned::{self, Versioned, versioned, zero};
use crate::words::{self, flag};

/// What is to be computed: `out[M,N] = act(alpha * x[M,K] * transpose(w[N,K]) * scales + bias[N] + beta * c[M,N])`.
///
/// M counts tokens, N out features, K in features; all matrices are row-major. Every field but size, m, n, k and x may stay
/// 0, which means a packed linear layer of one element type. What means nothing is taken as not said: a row length that is
/// its row, the strides of a single product, out_of_place where beta is zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TgemmProblem {
    /// sizeof(TgemmProblem).
    pub size: usize,
    /// Tokens: rows of x and out, 1 to 2147483647.
    pub m: u32,
    /// Out features: columns of out, rows of w.
    pub n: u32,
    /// In features: columns of x and w.
    pub k: u32,
    /// A TgemmDtype: of x.
    pub x: u32,
    /// A TgemmDtype: of w; 0 is that of x.
    pub w: u32,
    /// A TgemmDtype: of out; 0 is I32 for integers, else that of x.
    pub out: u32,
    /// A TgemmCompute.
    pub compute: u32,
    /// A TgemmDtype: of the bias of N elements; 0 is none.
    pub bias: u32,
    /// A TgemmScale.
    pub scale: u32,
    /// A TgemmDtype: of the scales; 0 is F32.
    pub scale_dtype: u32,
    /// A TgemmActivation.
    pub activation: u32,
    /// A TgemmScalar: the factor of the product; 0 is One.
    pub alpha: u32,
    /// A TgemmScalar: the factor of the old output; 0 is Zero.
    pub beta: u32,
    /// 1: the old output (C) is other memory than the new one (D).
    pub out_of_place: u32,
    /// 1: 8-bit products may be summed in fewer than 32 bits.
    pub fast_accumulation: u32,
    /// 1: w is already shuffled for the matrix cores.
    pub preshuffled: u32,
    /// A TgemmTrans.
    pub trans: u32,
    /// A TgemmAlign.
    pub align: u32,
    /// Elements from one row of x as stored to the next; 0 is packed.
    pub ldx: u32,
    /// Elements from one row of w as stored to the next; 0 is packed.
    pub ldw: u32,
    /// Elements from one row of out to the next; 0 is packed.
    pub ldo: u32,
    /// Number of products of a strided batch; 0 is 1.
    pub batch_count: u32,
    /// Elements from one x to the next; 0: all share one.
    pub stride_x: u64,
    /// Elements from one w to the next; 0: all share one.
    pub stride_w: u64,
    /// Elements from one out to the next.
    pub stride_out: u64,
}

versioned!(TgemmProblem, least x, [
    m, n, k, x, w, out, compute, bias, scale, scale_dtype, activation, alpha, beta, out_of_place, fast_accumulation,
    preshuffled, trans, align, ldx, ldw, ldo, batch_count, stride_x, stride_w, stride_out,
]);

impl TgemmProblem {
    /// The GEMM at rest; not validated yet.
    #[inline]
    fn unchecked(&self) -> Result<Gemm, Failure> {
        let Some(x) = words::DTYPES.word(self.x)? else {
            return Err(Failure::value("TgemmProblem.x is 0; it must say the element type of x"));
        };
        let plain = Site::linear(self.n, self.k, x);
        let site = Site {
            w: words::DTYPES.word(self.w)?.unwrap_or(x),
            out: words::DTYPES.word(self.out)?.unwrap_or(plain.out),
            compute: words::COMPUTES.word(self.compute)?.unwrap_or(plain.compute),
            bias: words::DTYPES.word(self.bias)?,
            scale: words::SCALES.word(self.scale)?.unwrap_or(plain.scale),
            scale_dtype: words::DTYPES.word(self.scale_dtype)?.unwrap_or(plain.scale_dtype),
            activation: words::ACTIVATIONS.word(self.activation)?.unwrap_or(plain.activation),
            alpha: words::SCALARS.word(self.alpha)?.unwrap_or(Scalar::One),
            beta: words::SCALARS.word(self.beta)?.unwrap_or(Scalar::Zero),
            in_place: !flag("TgemmProblem.out_of_place", self.out_of_place)?,
            fast_accumulation: flag("TgemmProblem.fast_accumulation", self.fast_accumulation)?,
            preshuffled: flag("TgemmProblem.preshuffled", self.preshuffled)?,
            trans: words::TRANSES.word(self.trans)?.unwrap_or(plain.trans),
            align: words::ALIGNS.word(self.align)?.unwrap_or(plain.align),
            ld: Leading { x: self.ldx, w: self.ldw, out: self.ldo },
            batch: Batch {
                count: self.batch_count.max(1),
                stride_x: self.stride_x,
                stride_w: self.stride_w,
                stride_out: self.stride_out,
            },
            ..plain
        };
        Ok(at_rest(site.at(self.m)))
    }

    /// The problem, checked.
    #[inline]
    pub(crate) fn gemm(&self) -> Result<Gemm, Failure> {
        let gemm = self.unchecked()?;
        valid(&gemm)?;
        Ok(gemm)
    }

    /// The problem less its M, which may be 0.
    pub(crate) fn site(&self) -> Result<Site, Failure> {
        let gemm = self.unchecked()?;
        valid(&Gemm { m: gemm.m.max(1), ..gemm })?;
        Ok(gemm.site)
    }

    /// The same as a structure, every field said.
    fn of(gemm: &Gemm) -> TgemmProblem {
        let Gemm { m, site } = gemm;
        TgemmProblem {
            size: size_of::<TgemmProblem>(),
            m: *m,
            n: site.n,
            k: site.k,
            x: words::DTYPES.code(site.x),
            w: words::DTYPES.code(site.w),
            out: words::DTYPES.code(site.out),
            compute: words::COMPUTES.code(site.compute),
            bias: site.bias.map_or(0, |dtype| words::DTYPES.code(dtype)),
            scale: words::SCALES.code(site.scale),
            scale_dtype: words::DTYPES.code(site.scale_dtype),
            activation: words::ACTIVATIONS.code(site.activation),
            alpha: words::SCALARS.code(site.alpha),
            beta: words::SCALARS.code(site.beta),
            out_of_place: u32::from(!site.in_place),
            fast_accumulation: u32::from(site.fast_accumulation),
            preshuffled: u32::from(site.preshuffled),
            trans: words::TRANSES.code(site.trans),
            align: words::ALIGNS.code(site.align),
            ldx: site.ld.x,
            ldw: site.ld.w,
            ldo: site.ld.out,
            batch_count: site.batch.count,
            stride_x: site.batch.stride_x,
            stride_w: site.batch.stride_w,
            stride_out: site.batch.stride_out,
        }
    }
}

/// With everything that means nothing at rest, as recorders write it: engines pass row lengths whether or not they say
/// anything, and equal problems must be equal.
#[inline]
fn at_rest(gemm: Gemm) -> Gemm {
    match Call::from_gemm(&gemm).at_rest().to_problem() {
        // An argument list of BLAS does not say how weights were shuffled.
        Problem::Gemm(rest) => Gemm { site: Site { preshuffled: gemm.site.preshuffled, ..rest.site }, ..rest },
        _ => gemm,
    }
}

fn valid(gemm: &Gemm) -> Result<(), Failure> {
    gemm.validate().map_err(|invalid| Failure::value(invalid.to_string()))
}

/// A caller's problem.
///
/// # Safety
///
/// As for [`versioned::read`].
#[inline]
pub(crate) unsafe fn given(problem: *const TgemmProblem) -> Result<Problem, Failure> {
    // SAFETY: as promised by the caller.
    Ok(unsafe { versioned::read(problem) }?.gemm()?.into())
}

/// Writes the default of every field, but for size, which the caller has set before. With it, m, n, k and x are all that
/// a plain linear layer needs. A structure that is zero but for its size is as good.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_problem_init(problem: *mut TgemmProblem) -> TgemmStatus {
    // SAFETY: the header's rules of pointers.
    guarded(|| unsafe { versioned::write(problem, &zero()) })
}

/// Reads a key such as "gemm,m=4,n=1024,k=3072,x=bf16,w=bf16,out=bf16,compute=f32" into problem, whose size the caller has
/// set. A key of another operation than a GEMM is right, but no TgemmProblem: TGEMM_STATUS_UNSUPPORTED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_problem_from_key(key: *const c_char, problem: *mut TgemmProblem) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers.
        let key = unsafe { text(key, "key") }?;
        let read: Problem = key.parse().map_err(|error| Failure::new(TgemmStatus::Key, format!("{error}")))?;
        let Problem::Gemm(gemm) = &read else {
            return Err(Failure::new(TgemmStatus::Unsupported, "a TgemmProblem is a GEMM, and this key is none"));
        };
        let problem_read = TgemmProblem::of(gemm);
        // SAFETY: the header's rules of pointers.
        unsafe { fill(problem, &problem_read) }
    })
}

/// Refuses a structure that is too small to say all of `value`, and leaves it as it is: half a problem is another one.
///
/// # Safety
///
/// As for [`versioned::write`].
unsafe fn fill(to: *mut TgemmProblem, value: &TgemmProblem) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::null(TgemmProblem::NAME));
    }
    // SAFETY: as promised by the caller, its size is set.
    let size = unsafe { (&raw const (*to).size).read_unaligned() };
    if (TgemmProblem::LEAST..size_of::<TgemmProblem>()).contains(&size) {
        let mut cut = TgemmProblem { size, ..versioned::zero() };
        // SAFETY: it is larger than it says.
        let got = unsafe {
            versioned::write(&raw mut cut, value)?;
            versioned::read(&raw const cut)?
        };
        if got.gemm()? != value.gemm()? {
            let text = format!("{} of {size} bytes has no field for all of this key", TgemmProblem::NAME);
            return Err(Failure::new(TgemmStatus::Unsupported, text));
        }
    }
    // SAFETY: as promised by the caller.
    unsafe { versioned::write(to, value) }
}

/// Writes the one key of a problem: two problems are equal if and only if their keys are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_problem_key(
    problem: *const TgemmProblem,
    buffer: *mut c_char,
    bytes: usize,
    needed: *mut usize,
) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers.
        let (buffer, problem) = unsafe { (Buffer::new(buffer, bytes, needed)?, given(problem)?) };
        buffer.put(&problem.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgemm_db::DType;
    use tgemm_db::problem::{Activation, Alignment, ScaleMode, Trans};

    fn plain() -> TgemmProblem {
        let size = size_of::<TgemmProblem>();
        TgemmProblem { size, m: 4, n: 1024, k: 3072, x: 4, ..zero() }
    }

    #[test]
    fn zero_means_a_linear_layer() {
        for dtype in DType::all() {
            let problem = TgemmProblem { x: words::DTYPES.code(dtype), ..plain() };
            assert_eq!(problem.gemm(), Ok(Site::linear(1024, 3072, dtype).at(4)));
        }
    }

    #[test]
    fn every_field_goes_there_and_back() {
        let linear = Site::linear(64, 32, DType::Bf16);
        let batch = Batch { count: 3, stride_x: 1, stride_w: 0, stride_out: 9999 };
        let all = [
            linear,
            Site { w: DType::I4, out: DType::F32, compute: tgemm_db::Compute::Tf32, ..linear },
            Site { scale: ScaleMode::Mx, scale_dtype: DType::Ue8m0, activation: Activation::Gelu, ..linear },
            Site { alpha: Scalar::Other, beta: Scalar::One, in_place: false, ..linear.with_bias(DType::F16) },
            Site { fast_accumulation: true, preshuffled: true, trans: Trans::Xw, align: Alignment::B4, ..linear },
            Site { ld: Leading { x: 40, w: 41, out: 70 }, batch, ..linear },
        ];
        for site in all {
            assert_eq!(TgemmProblem::of(&site.at(8)).gemm(), Ok(site.at(8)));
        }
    }

    #[test]
    fn what_means_nothing_is_not_said() {
        let wordy = TgemmProblem { ldx: 3072, ldw: 3072, ldo: 1024, stride_x: 7, out_of_place: 1, ..plain() };
        assert_eq!(wordy.gemm(), plain().gemm());
        assert_eq!(TgemmProblem { m: 0, ..wordy }.site(), plain().site());
        let transposed = TgemmProblem { trans: 1, ldx: 4, preshuffled: 1, ..plain() };
        let gemm = transposed.gemm().unwrap();
        assert_eq!((gemm.site.ld.x, gemm.site.preshuffled), (0, true));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let huge = TgemmProblem { m: u32::MAX, n: u32::MAX, k: u32::MAX, batch_count: u32::MAX, ..plain() };
        for bad in [
            TgemmProblem { m: 0, ..plain() },
            TgemmProblem { n: 0, ..plain() },
            TgemmProblem { k: 1 << 31, ..plain() },
            TgemmProblem { x: 0, ..plain() },
            TgemmProblem { w: 17, ..plain() },
            TgemmProblem { ldw: 5, ..plain() },
            TgemmProblem { preshuffled: 2, ..plain() },
            TgemmProblem { beta: 4, ..plain() },
            huge,
        ] {
            assert_eq!(bad.gemm().unwrap_err().status, TgemmStatus::Value, "{bad:?}");
        }
        assert!(TgemmProblem { n: 0, m: 0, ..plain() }.site().is_err());
    }

    #[test]
    fn a_structure_that_lacks_a_field_takes_only_keys_that_do_not_need_it() {
        let size = TgemmProblem::LEAST;
        let mut small = TgemmProblem { size, ..zero() };
        // SAFETY: the structure is larger than it says.
        let mut read = |key: &std::ffi::CStr| unsafe { tgemm_problem_from_key(key.as_ptr(), &mut small) };
        assert_eq!(read(c"gemm,m=1,n=2,k=3,x=f16,w=f16,out=f16,compute=f32"), TgemmStatus::Ok);
        // A failure writes nothing.
        assert_eq!(read(c"gemm,m=1,n=7,k=9,x=f16,w=f16,out=f32,compute=f32"), TgemmStatus::Unsupported);
        assert_eq!((small.size, small.n, small.k), (size, 2, 3));
    }
}
