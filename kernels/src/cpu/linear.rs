//! The problems that CPU libraries here take: plain linear layers `out[M,N] = x[M,K] · w[N,K]ᵀ + bias[N]` over f32, f16
//! and bf16, with their sizes as memory sizes.

use tgemm_db::problem::Activation;
use tgemm_db::{DType, Problem};

use super::memory::ALIGN_BYTES;
use crate::{Error, Launch, Operands};

/// A plain linear layer at one M. Every matrix of it fits the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Linear {
    /// Rows of `x` and `out`.
    pub m: usize,
    /// Rows of `w`, columns of `out`.
    pub n: usize,
    /// Columns of `x` and `w`.
    pub k: usize,
    /// Element type of `x` and `w`: f32, f16 or bf16.
    pub x: DType,
    /// Element type of `out`: f32, f16 or bf16.
    pub out: DType,
    /// Element type of the bias, if there is one: f32, f16 or bf16.
    pub bias: Option<DType>,
}

impl Linear {
    /// Reads `problem`, or says why it is not a plain linear layer over these types.
    pub fn of(problem: &Problem) -> Result<Linear, Error> {
        let gemm = crate::gemm_of(problem)?;
        let site = &gemm.site;
        gemm.validate().map_err(|invalid| Error::unsupported(invalid.to_string()))?;
        if !site.is_plain_linear() || site.activation != Activation::None {
            return Err(Error::unsupported("not a packed, unbatched, unscaled linear layer without activation"));
        }
        for (name, dtype) in [("x", site.x), ("out", site.out), ("bias", site.bias.unwrap_or(DType::F32))] {
            if !matches!(dtype, DType::F32 | DType::F16 | DType::Bf16) {
                return Err(Error::unsupported(format!("{name} is {dtype}, not f32, f16 or bf16")));
            }
        }
        let [m, n, k] = [gemm.m, site.n, site.k].map(|extent| extent as usize);
        for (name, rows, columns) in [("x", m, k), ("w", n, k), ("out", m, n)] {
            // 4 bytes an element, since each may be held as f32.
            if rows
                .checked_mul(columns)
                .and_then(|elements| elements.checked_mul(4))
                .is_none_or(|b| b > isize::MAX as usize)
            {
                return Err(Error::unsupported(format!("{name} of {rows}x{columns} does not fit the address space")));
            }
        }
        Ok(Linear { m, n, k, x: site.x, out: site.out, bias: site.bias })
    }

    /// Checks what can be checked of a launch's pointers: there, aligned to their elements, workspace large enough,
    /// alpha 1 and beta 0 as the problem says. Nothing has been started when this fails.
    pub fn check(&self, io: &Operands, packed: bool, workspace_bytes: usize) -> Result<(), Launch> {
        let refuse = |why: String| Err(Launch::NotEnqueued(Error::Unsupported(why)));
        let w_align = if packed { 1 } else { size_of_element(self.x) };
        let mut pointers = vec![
            ("x", io.x, size_of_element(self.x)),
            ("w", io.w, w_align),
            ("out", io.out.cast_const(), size_of_element(self.out)),
        ];
        if let Some(bias) = self.bias {
            pointers.push(("bias", io.bias, size_of_element(bias)));
        }
        if workspace_bytes > 0 {
            pointers.push(("workspace", io.workspace.cast_const(), ALIGN_BYTES));
        }
        for (name, pointer, align) in pointers {
            if pointer.is_null() || !pointer.addr().is_multiple_of(align) {
                return refuse(format!("{name} is at {pointer:p}; it must be set and a multiple of {align}"));
            }
        }
        if io.workspace_bytes < workspace_bytes {
            return refuse(format!("the workspace has {} bytes, {workspace_bytes} are needed", io.workspace_bytes));
        }
        if io.alpha != 1.0 || io.beta != 0.0 {
            return refuse(format!("alpha {} and beta {} are not the problem's 1 and 0", io.alpha, io.beta));
        }
        Ok(())
    }
}

/// Bytes of one element of a type that [`Linear`] admits.
pub(crate) fn size_of_element(dtype: DType) -> usize {
    if dtype == DType::F32 { 4 } else { 2 }
}

/// `bytes` rounded up so that what follows starts at a cache line.
pub(crate) fn line_up(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN_BYTES)
}

/// Pointers that all threads of one launch use: a launch's contract makes them valid until it has finished, whichever
/// thread reads or writes.
#[derive(Clone, Copy)]
pub(crate) struct Shared<T>(T);

// SAFETY: made by `Shared::new` only, whose caller promises that other threads may use what it holds.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T: Copy> Shared<T> {
    /// Shares `pointers`.
    ///
    /// # Safety
    /// What they point to may be used by other threads for as long as this is used, and no two of them write the same.
    pub unsafe fn new(pointers: T) -> Shared<T> {
        Shared(pointers)
    }

    /// What is shared.
    pub fn get(&self) -> T {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::c_void;
    use tgemm_db::problem::{Alignment, Batch, Leading, ScaleMode, Site, Trans};

    #[test]
    fn plain_layers_of_three_types_are_read() {
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            let site = Site::linear(33, 65, dtype).with_bias(DType::F32).with_out(DType::F32);
            let linear = Linear::of(&site.at(3).into()).unwrap();
            assert_eq!((linear.m, linear.n, linear.k, linear.x), (3, 33, 65, dtype));
            assert_eq!((linear.out, linear.bias), (DType::F32, Some(DType::F32)));
        }
    }

    #[test]
    fn anything_else_is_refused_with_its_reason() {
        let site = Site::linear(8, 8, DType::F32);
        let refused = [
            site.at(0),
            Site { activation: Activation::Silu, ..site }.at(1),
            Site { trans: Trans::W, ..site }.at(1),
            Site { ld: Leading { out: 9, ..Leading::default() }, ..site }.at(1),
            Site { batch: Batch { count: 2, ..Batch::default() }, ..site }.at(1),
            Site { scale: ScaleMode::Tensor, ..site }.at(1),
            Site { w: DType::F16, ..site }.at(1),
            site.with_out(DType::I32).at(1),
            site.with_bias(DType::F64).at(1),
            Site::linear(8, 8, DType::I8).at(1),
            Site::linear(i32::MAX as u32, i32::MAX as u32, DType::F16).at(1),
        ];
        for gemm in refused {
            assert!(matches!(Linear::of(&gemm.into()), Err(Error::Unsupported(why)) if !why.is_empty()), "{gemm:?}");
        }
        assert!(Linear::of(&Site { align: Alignment::B4, ..site }.at(1).into()).is_ok());
    }

    #[test]
    fn launches_with_bad_pointers_start_nothing() {
        let linear = Linear::of(&Site::linear(2, 2, DType::F32).with_bias(DType::F16).at(1).into()).unwrap();
        let mut memory = [0u128; 64];
        let start: *mut c_void = memory.as_mut_ptr().cast();
        let start = start.wrapping_byte_add(start.align_offset(ALIGN_BYTES));
        let good = Operands {
            x: start,
            w: start,
            bias: start,
            out: start,
            workspace: start,
            workspace_bytes: 64,
            ..Operands::default()
        };
        assert_eq!(linear.check(&good, false, 64), Ok(()));
        let odd = start.wrapping_byte_add(2);
        let bad = [
            Operands { x: std::ptr::null(), ..good },
            Operands { w: odd, ..good },
            Operands { out: odd, ..good },
            Operands { bias: odd.wrapping_byte_add(1), ..good },
            Operands { workspace: odd, ..good },
            Operands { workspace_bytes: 63, ..good },
            Operands { alpha: 2.0, ..good },
            Operands { beta: 1.0, ..good },
        ];
        for io in bad {
            assert!(matches!(linear.check(&io, false, 64), Err(Launch::NotEnqueued(_))), "{io:?}");
        }
        assert_eq!(linear.check(&Operands { w: odd, ..good }, true, 64), Ok(()));
    }
}
