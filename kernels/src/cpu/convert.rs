//! f16 and bf16 to f32 and back, a slice at a time. Widening is exact; narrowing rounds to nearest, ties to even.

use std::ffi::c_void;
use std::slice;

use half::f16;
use half::slice::HalfFloatSliceExt;
use tgemm_db::DType;

use super::linear::Shared;
use super::threads::Team;

/// Elements that one thread converts at a time: enough to be worth waking it for.
pub(crate) const BLOCK_ELEMENTS: usize = 1 << 16;

/// Reads `to.len()` elements of type `dtype` at `from` as f32.
///
/// # Safety
/// `from` holds that many elements of `dtype` (f32, f16 or bf16), aligned to one of them, apart from `to`.
pub(crate) unsafe fn widen(dtype: DType, from: *const c_void, to: &mut [f32]) {
    let len = to.len();
    match dtype {
        // SAFETY: the contract; `f16` is a transparent u16.
        DType::F16 => unsafe { slice::from_raw_parts(from.cast::<f16>(), len) }.convert_to_f32_slice(to),
        DType::Bf16 => {
            // SAFETY: the contract.
            let from = unsafe { slice::from_raw_parts(from.cast::<u16>(), len) };
            // A bf16 is the upper half of an f32; a plain shift vectorises and keeps every NaN.
            for (to, from) in to.iter_mut().zip(from) {
                *to = f32::from_bits(u32::from(*from) << 16);
            }
        }
        // SAFETY: the contract.
        _ => unsafe { std::ptr::copy_nonoverlapping(from.cast::<f32>(), to.as_mut_ptr(), len) },
    }
}

/// Writes `from` as elements of type `dtype` at `to`.
///
/// # Safety
/// `to` has room for that many elements of `dtype` (f32, f16 or bf16), aligned to one of them, apart from `from`.
pub(crate) unsafe fn narrow(dtype: DType, from: &[f32], to: *mut c_void) {
    let len = from.len();
    match dtype {
        // SAFETY: the contract; `f16` is a transparent u16.
        DType::F16 => unsafe { slice::from_raw_parts_mut(to.cast::<f16>(), len) }.convert_from_f32_slice(from),
        DType::Bf16 => {
            // SAFETY: the contract.
            let to = unsafe { slice::from_raw_parts_mut(to.cast::<u16>(), len) };
            for (to, from) in to.iter_mut().zip(from) {
                *to = bf16_bits(*from);
            }
        }
        // SAFETY: the contract.
        _ => unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.cast::<f32>(), len) },
    }
}

/// Rounds to nearest even without a branch, so that the loop around it vectorises: half of the last kept place, less
/// one where that place is even, carries into it exactly when it should. NaNs keep their upper half, made quiet.
fn bf16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let nan = (bits >> 16) | 0x40;
    (if value.is_nan() { nan } else { rounded }) as u16
}

/// [`widen`] for whole matrices, on all threads of `team`.
///
/// # Safety
/// As [`widen`], for `len` elements; `to` has room for as many f32, aligned, that nobody else uses.
pub(crate) unsafe fn widen_all(team: &Team, dtype: DType, from: *const c_void, to: *mut c_void, len: usize) {
    let size = super::linear::size_of_element(dtype);
    // SAFETY: the contract, and the ranges below do not meet.
    let shared = unsafe { Shared::new((from, to)) };
    team.for_ranges(len, BLOCK_ELEMENTS, |range| {
        let (from, to) = shared.get();
        // SAFETY: ranges are within `len`; the rest is the contract.
        unsafe {
            let to = slice::from_raw_parts_mut(to.cast::<f32>().add(range.start), range.len());
            widen(dtype, from.byte_add(range.start * size), to);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    /// All 16-bit codes there and back: exact, and the same as the `half` crate's scalar conversions.
    #[test]
    fn every_code_round_trips() {
        let codes: Vec<u16> = (0..=u16::MAX).collect();
        for dtype in [DType::F16, DType::Bf16] {
            let scalar = |code: u16| match dtype {
                DType::F16 => f16::from_bits(code).to_f32(),
                _ => bf16::from_bits(code).to_f32(),
            };
            for team in [Team::caller(), Team::of(2).unwrap()] {
                let mut wide = vec![0f32; codes.len()];
                let mut back = vec![0u16; codes.len()];
                // SAFETY: both vectors hold `codes.len()` elements.
                unsafe {
                    widen_all(&team, dtype, codes.as_ptr().cast(), wide.as_mut_ptr().cast(), codes.len());
                    narrow(dtype, &wide, back.as_mut_ptr().cast());
                }
                for (&code, (&wide, &back)) in codes.iter().zip(wide.iter().zip(&back)) {
                    let want = scalar(code);
                    assert!(wide == want || (wide.is_nan() && want.is_nan()), "{dtype} {code:04x}");
                    assert!(back == code || wide.is_nan(), "{dtype} {code:04x} came back as {back:04x}");
                }
            }
        }
    }

    /// Values between two codes, ties included, round as the `half` crate's scalar conversion rounds them.
    #[test]
    fn narrowing_rounds_to_nearest_even() {
        let values: Vec<f32> = (0..1u32 << 16)
            .map(|i| f32::from_bits(i.wrapping_mul(0x9e37_79b1)))
            .chain((0..1 << 12).map(|i| f32::from_bits(0x3f80_8000 + (i << 15))))
            .chain([f32::MAX, f32::INFINITY, f32::NEG_INFINITY, 65504.0, 65519.9, 65520.0, 1e-8, -0.0])
            .collect();
        for dtype in [DType::F16, DType::Bf16] {
            let mut narrowed = vec![0u16; values.len()];
            // SAFETY: as many elements in both.
            unsafe { narrow(dtype, &values, narrowed.as_mut_ptr().cast()) };
            for (&value, &code) in values.iter().zip(&narrowed) {
                let (want, is_nan) = match dtype {
                    DType::F16 => (f16::from_f32(value).to_bits(), f16::from_bits(code).is_nan()),
                    _ => (bf16::from_f32(value).to_bits(), bf16::from_bits(code).is_nan()),
                };
                assert!(code == want || (value.is_nan() && is_nan), "{dtype} {value:e}: {code:04x}, not {want:04x}");
            }
        }
    }
}
