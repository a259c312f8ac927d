//! From a product to the output: bias added in f32, rounded once to the output's type.

use std::ffi::c_void;

use tgemm_db::DType;

use super::convert::{BLOCK_ELEMENTS, narrow, widen};
use super::linear::{Linear, Shared, line_up, size_of_element};
use super::threads::Team;
use crate::Operands;

/// Columns finished at a time: their bias and their sums stay in the first-level cache.
const COLUMNS: usize = 256;

/// What is left to do once `x · wᵀ` has been computed in `product` elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finish {
    linear: Linear,
    product: DType,
}

impl Finish {
    /// For products of `linear` that come in elements of type `product`.
    pub fn new(linear: Linear, product: DType) -> Finish {
        Finish { linear, product }
    }

    /// Can the product be written to the output itself?
    fn in_place(&self) -> bool {
        self.product == self.linear.out
    }

    /// Scratch memory for the product, whole cache lines; 0 where it is computed in the output.
    pub fn workspace_bytes(&self) -> usize {
        if self.in_place() { 0 } else { line_up(self.linear.m * self.linear.n * size_of_element(self.product)) }
    }

    /// Where the product is to be computed; `workspace` has [`Finish::workspace_bytes`].
    pub fn product_at(&self, io: &Operands, workspace: *mut c_void) -> *mut c_void {
        if self.in_place() { io.out } else { workspace }
    }

    /// Makes the output of the product.
    ///
    /// # Safety
    /// `product` is what [`Finish::product_at`] gave, now holding all M x N elements; `io.bias` and `io.out` hold what
    /// the problem says; nobody else uses them.
    pub unsafe fn run(&self, team: &Team, io: &Operands, product: *const c_void) {
        let Linear { m, n, .. } = self.linear;
        if self.in_place() && self.linear.bias.is_none() {
            return;
        }
        // SAFETY: the contract, and the ranges below do not meet.
        let shared = unsafe { Shared::new((product, io.bias, io.out)) };
        team.for_ranges(m, BLOCK_ELEMENTS.div_ceil(n), |rows| {
            let (product, bias, out) = shared.get();
            for column in (0..n).step_by(COLUMNS) {
                let width = COLUMNS.min(n - column);
                let mut added = [0f32; COLUMNS];
                if let Some(dtype) = self.linear.bias {
                    // SAFETY: the bias has N elements, at least `column + width`.
                    unsafe { widen(dtype, bias.byte_add(column * size_of_element(dtype)), &mut added[..width]) };
                }
                for at in rows.clone().map(|row| row * n + column) {
                    let mut sums = [0f32; COLUMNS];
                    // SAFETY: product and output have M x N elements, at least `at + width`. Where they are the same
                    // memory, they are of the same type, and an element is read before it is written.
                    unsafe {
                        widen(self.product, product.byte_add(at * size_of_element(self.product)), &mut sums[..width]);
                        sums.iter_mut().zip(&added).for_each(|(sum, bias)| *sum += bias);
                        narrow(self.linear.out, &sums[..width], out.byte_add(at * size_of_element(self.linear.out)));
                    }
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;
    use tgemm_db::Site;

    #[test]
    fn bias_is_added_before_the_one_rounding() {
        let (m, n) = (3, 700);
        let site = Site::linear(n, 1, DType::Bf16).with_bias(DType::F32);
        let linear = Linear::of(&site.at(m).into()).unwrap();
        let finish = Finish::new(linear, DType::F32);
        assert_eq!(finish.workspace_bytes(), 3 * 700 * 4 + 48);
        // 1 + 2^-9 would round to 1 in bf16; with a bias of 2^-9 more it must not.
        let product = vec![1f32 + 2f32.powi(-9); (m * n) as usize];
        let bias: Vec<f32> = (0..n).map(|i| if i % 2 == 0 { 2f32.powi(-8) } else { i as f32 }).collect();
        let mut out = vec![bf16::NAN; (m * n) as usize];
        let io = Operands { bias: bias.as_ptr().cast(), out: out.as_mut_ptr().cast(), ..Operands::default() };
        // SAFETY: all three hold what the problem says.
        unsafe { finish.run(&Team::of(2).unwrap(), &io, product.as_ptr().cast()) };
        for (i, value) in out.iter().enumerate() {
            assert_eq!(*value, bf16::from_f32(product[i] + bias[i % n as usize]), "{i}");
        }
    }

    #[test]
    fn a_product_in_the_output_needs_no_memory_and_keeps_its_bits() {
        let linear = Linear::of(&Site::linear(5, 1, DType::F32).at(2).into()).unwrap();
        let finish = Finish::new(linear, DType::F32);
        let mut out = [f32::NAN; 10];
        let io = Operands { out: out.as_mut_ptr().cast(), ..Operands::default() };
        assert_eq!(finish.workspace_bytes(), 0);
        assert_eq!(finish.product_at(&io, std::ptr::null_mut()), io.out);
        // SAFETY: nothing is read or written without a bias.
        unsafe { finish.run(&Team::caller(), &io, io.out) };
        assert!(out.iter().all(|value| value.is_nan()));
    }
}
