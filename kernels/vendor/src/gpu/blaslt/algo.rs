//! An algorithm: bytes that only their library understands, and only the very build that wrote them.

use std::ffi::c_void;

use super::product::Product;
use super::{BlasLt, CallError, Dialect};
use crate::gpu::numbers;

/// `cublasLtMatmulAlgo_t` is eight 64-bit words; `hipblasLtMatmulAlgo_t` is three.
const WORDS: usize = 8;

/// An algorithm as its library keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Algo {
    words: [u64; WORDS],
}

impl Algo {
    /// All zeros.
    pub const ZERO: Algo = Algo { words: [0; WORDS] };

    /// Its size in `dialect`, bytes: `sizeof` of the structs above.
    pub fn bytes_len(dialect: Dialect) -> usize {
        dialect.pick(24, 64)
    }

    /// Its bytes, at most 64.
    pub fn bytes(&self, dialect: Dialect) -> Vec<u8> {
        let all = self.words.iter().flat_map(|word| word.to_ne_bytes());
        all.take(Algo::bytes_len(dialect)).collect()
    }

    /// From bytes that [`Algo::bytes`] gave; `None` if there are not as many as it has.
    pub fn from_bytes(dialect: Dialect, bytes: &[u8]) -> Option<Algo> {
        if bytes.len() != Algo::bytes_len(dialect) {
            return None;
        }
        let mut algo = Algo::ZERO;
        for (word, piece) in algo.words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(piece.try_into().ok()?);
        }
        Some(algo)
    }

    /// For calls that read it.
    pub fn as_ptr(&self) -> *const c_void {
        self.words.as_ptr().cast()
    }

    /// For calls that write it.
    pub fn as_mut_ptr(&mut self) -> *mut c_void {
        self.words.as_mut_ptr().cast()
    }

    /// The first 32 bits: hipBLASLt's solution index.
    pub(super) fn first(&self) -> i32 {
        let bytes = self.words[0].to_ne_bytes();
        i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    /// Replaces the first 32 bits.
    pub(super) fn set_first(&mut self, value: i32) {
        let mut bytes = self.words[0].to_ne_bytes();
        bytes[..4].copy_from_slice(&value.to_ne_bytes());
        self.words[0] = u64::from_ne_bytes(bytes);
    }
}

/// An algorithm that the library offers for a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// The algorithm.
    pub algo: Algo,
    /// Workspace that it needs.
    pub workspace_bytes: usize,
    /// How many waves of blocks it takes; 0 if the library does not say.
    pub waves: f32,
}

/// Where the fields of one result of the heuristic lie: `hipblasLtMatmulHeuristicResult_t` (56 bytes) and
/// `cublasLtMatmulHeuristicResult_t` (96 bytes).
struct ResultLayout {
    bytes: usize,
    workspace_at: usize,
    state_at: usize,
    waves_at: usize,
}

const HIP_RESULT: ResultLayout = ResultLayout { bytes: 56, workspace_at: 24, state_at: 32, waves_at: 36 };
const CUDA_RESULT: ResultLayout = ResultLayout { bytes: 96, workspace_at: 64, state_at: 72, waves_at: 76 };

/// Bytes of one result and of its algorithm, for whoever judges them.
pub fn result_layout(dialect: Dialect) -> (usize, usize, usize, usize) {
    let layout = dialect.pick(&HIP_RESULT, &CUDA_RESULT);
    (layout.bytes, layout.workspace_at, layout.state_at, layout.waves_at)
}

/// One result; `None` if its state is not success.
fn read_result(dialect: Dialect, bytes: &[u8]) -> Option<Offer> {
    let layout = dialect.pick(&HIP_RESULT, &CUDA_RESULT);
    let at = |from: usize, len: usize| bytes.get(from..from + len);
    let state = i32::from_ne_bytes(at(layout.state_at, 4)?.try_into().ok()?);
    let workspace = usize::from_ne_bytes(at(layout.workspace_at, 8)?.try_into().ok()?);
    let waves = f32::from_ne_bytes(at(layout.waves_at, 4)?.try_into().ok()?);
    let algo = Algo::from_bytes(dialect, at(0, Algo::bytes_len(dialect))?)?;
    (state == 0).then_some(Offer { algo, workspace_bytes: workspace, waves })
}

/// What a list of algorithms may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preference {
    /// Most workspace.
    pub workspace_bytes_max: u64,
    /// cuBLASLt: how partial sums may be added (1 in place, 2 in the compute type, 4 in the output's type; 0 none at all);
    /// `None` allows all.
    pub reductions: Option<u32>,
    /// What all pointers are multiples of, bytes.
    pub align_bytes: u32,
}

/// Most entries of one list. hipBLASLt's lists have some thousands.
pub const OFFERS_MAX: usize = 1 << 16;

impl BlasLt {
    /// The library's list for `product`, at most `count` entries; those that it marks as failing are left out.
    pub fn offers(&self, product: &Product, preference: &Preference, count: usize) -> Result<Vec<Offer>, CallError> {
        let count = count.clamp(1, OFFERS_MAX);
        let size = self.dialect.pick(&HIP_RESULT, &CUDA_RESULT).bytes;
        // Words, so that every result is aligned as the library expects.
        let mut results = vec![0u64; count * size / 8];
        let mut returned = 0;
        let owned = self.preference(preference)?;
        let (desc, [a, b, c, d]) = product.handles();
        // SAFETY: all handles are alive and `results` has room for `count` results.
        let listed = unsafe {
            self.table.heuristic(
                self.handle,
                desc,
                a,
                b,
                c,
                d,
                owned,
                count as i32,
                results.as_mut_ptr().cast(),
                &raw mut returned,
            )
        };
        // SAFETY: the preference is ours and used no more.
        let _ = unsafe { self.table.preference_destroy(owned) };
        match listed {
            // There is none.
            Err(CallError::Status { status, .. }) if status == numbers::not_supported(self.dialect) => {
                return Ok(Vec::new());
            }
            other => other?,
        }
        let bytes: Vec<u8> = results.iter().flat_map(|word| word.to_ne_bytes()).collect();
        // A library may say that it found more than there was room for.
        let returned = usize::try_from(returned).unwrap_or(0).min(count);
        Ok(bytes.chunks_exact(size).take(returned).filter_map(|result| read_result(self.dialect, result)).collect())
    }

    fn preference(&self, wanted: &Preference) -> Result<super::Handle, CallError> {
        let n = self.numbers();
        let mut preference = std::ptr::null_mut();
        // SAFETY: one handle is written.
        unsafe { self.table.preference_create(&raw mut preference) }?;
        let set = |attribute: i32, value: *const c_void, bytes: usize| {
            // SAFETY: the preference is alive and `value` points to `bytes` bytes of the attribute's type.
            unsafe { self.table.preference_set(preference, attribute, value, bytes) }
        };
        let mut done = set(n.pref_max_workspace_bytes, (&raw const wanted.workspace_bytes_max).cast(), 8);
        if let (Some(mask), Dialect::Cuda) = (&wanted.reductions, self.dialect) {
            done = done.and_then(|()| set(n.pref_reduction_scheme_mask, (&raw const *mask).cast(), 4));
        }
        if self.dialect == Dialect::Cuda {
            for operand in 0..4 {
                let attribute = n.pref_min_alignment_a_bytes + operand;
                done = done.and_then(|()| set(attribute, (&raw const wanted.align_bytes).cast(), 4));
            }
        }
        if let Err(error) = done {
            // SAFETY: the preference is ours and used no more.
            let _ = unsafe { self.table.preference_destroy(preference) };
            return Err(error);
        }
        Ok(preference)
    }

    /// Does `algo` fit `product`? The workspace that it needs, if the library can say.
    pub fn check(&self, product: &Product, algo: &Algo) -> Result<Offer, CallError> {
        match self.dialect {
            Dialect::Cuda => self.check_cuda(product, algo),
            Dialect::Hip => self.check_hip(product, algo),
        }
    }

    fn check_cuda(&self, product: &Product, algo: &Algo) -> Result<Offer, CallError> {
        let mut result = [0u64; CUDA_RESULT.bytes / 8];
        let (desc, [a, b, c, d]) = product.handles();
        // SAFETY: all handles are alive, the algorithm has its 64 bytes, the result its 96.
        unsafe { self.table.algo_check(self.handle, desc, a, b, c, d, algo.as_ptr(), result.as_mut_ptr().cast()) }?;
        let bytes: Vec<u8> = result.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let status = numbers::not_supported(self.dialect);
        let rejected = CallError::Status { call: "cublasLtMatmulAlgoCheck", status };
        // The check fills in everything but the algorithm.
        let offer = read_result(self.dialect, &bytes).ok_or(rejected)?;
        Ok(Offer { algo: *algo, ..offer })
    }

    fn check_hip(&self, product: &Product, algo: &Algo) -> Result<Offer, CallError> {
        let (mut checked, mut workspace) = (*algo, 0usize);
        let (desc, [a, b, c, d]) = product.handles();
        let (alpha, beta) = (1.0f32, product.beta_of_class());
        // SAFETY: all handles are alive, the factors are of the scale type (f32), the algorithm has its 24 bytes.
        unsafe {
            self.table.is_supported(
                self.handle,
                desc,
                (&raw const alpha).cast(),
                a,
                b,
                (&raw const beta).cast(),
                c,
                d,
                checked.as_mut_ptr(),
                &raw mut workspace,
            )
        }?;
        Ok(Offer { algo: checked, workspace_bytes: workspace, waves: 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip_and_the_first_word_is_the_index() {
        for dialect in Dialect::ALL {
            let bytes: Vec<u8> = (0..Algo::bytes_len(dialect) as u8).collect();
            let mut algo = Algo::from_bytes(dialect, &bytes).unwrap();
            assert_eq!(algo.bytes(dialect), bytes);
            algo.set_first(-7);
            assert_eq!((algo.first(), &algo.bytes(dialect)[4..]), (-7, &bytes[4..]));
            assert_eq!(Algo::from_bytes(dialect, &bytes[1..]), None);
        }
    }

    #[test]
    fn results_are_read_at_their_offsets() {
        for dialect in Dialect::ALL {
            let layout = dialect.pick(&HIP_RESULT, &CUDA_RESULT);
            let mut bytes = vec![0u8; layout.bytes];
            bytes[0] = 9;
            bytes[layout.workspace_at..][..8].copy_from_slice(&4096usize.to_ne_bytes());
            bytes[layout.waves_at..][..4].copy_from_slice(&0.5f32.to_ne_bytes());
            let offer = read_result(dialect, &bytes).unwrap();
            assert_eq!((offer.algo.first(), offer.workspace_bytes, offer.waves), (9, 4096, 0.5));
            bytes[layout.state_at] = 7;
            assert_eq!(read_result(dialect, &bytes), None);
        }
    }
}
