//! The raw pointers of one launch, and the memory behind them.

use std::ffi::c_void;
use std::fmt;

use crate::Error;

/// The operands of one launch, by raw pointers into device memory: what tuner, dispatch, C ABI and shim share.
///
/// What each points to (sizes, types, strides) is said by the problem; what a problem does not have is null.
///
/// # Batches
/// Each pointer is that of the first product; `x`, `w` and `out` of product `b` lie `b` times their stride (in elements)
/// further, and `c` as `out` does. A stride of 0 means that all products read one matrix; outputs never share memory. The bias
/// and the scales of tensors are the same for all products.
///
/// # Scales
/// Products are multiplied with the factor of `x` times the factor of `w`: with the scale itself, not its inverse. Both are
/// contiguous arrays of the problem's scale type (f32 everywhere so far), with `B = ceil(K / 128)`:
///
/// | mode | `x_scale` | `w_scale` |
/// |---|---|---|
/// | tensor | `[1]` | `[1]` |
/// | token_channel | `[M]`, by token | `[N]`, by out feature |
/// | block128 | `[B][M]`: token `m` and block `b` of K at `b * M + m` | `[ceil(N / 128)][B4]`: block `n` of N and `b` of K at `n * B4 + b` |
///
/// `B4` is `B` rounded up to a multiple of 4; what lies in the padding is not used. These are the layouts that cuBLASLt documents
/// for its scalar, outer-vector, 1x128 and 128x128 modes (column-major there, where `w` is A and `x` is B). Engines that keep
/// the block factors of `x` by token, `[M][B]`, have to transpose them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// Activations `x`.
    pub x: *const c_void,
    /// Weights: plain, or [`Packed::as_ptr`] for a solution that packs.
    pub w: *const c_void,
    /// Bias of N elements, or null.
    pub bias: *const c_void,
    /// Scales of `x` in the layout above, or null.
    pub x_scale: *const c_void,
    /// Scales of `w` in the layout above, or null.
    pub w_scale: *const c_void,
    /// The old output where beta is not zero and the product is not in place; else null.
    pub c: *const c_void,
    /// The output.
    pub out: *mut c_void,
    /// Scratch memory.
    pub workspace: *mut c_void,
    /// Size of the scratch memory.
    pub workspace_bytes: usize,
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of the old output.
    pub beta: f32,
}

impl Default for Operands {
    /// All null, alpha 1, beta 0.
    fn default() -> Operands {
        Operands {
            x: std::ptr::null(),
            w: std::ptr::null(),
            bias: std::ptr::null(),
            x_scale: std::ptr::null(),
            w_scale: std::ptr::null(),
            c: std::ptr::null(),
            out: std::ptr::null_mut(),
            workspace: std::ptr::null_mut(),
            workspace_bytes: 0,
            alpha: 1.0,
            beta: 0.0,
        }
    }
}

/// A queue of the device, as its runtime's raw handle; null is the default queue, and the only one of a CPU.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Stream(pub *mut c_void);

impl Stream {
    /// The default queue.
    pub const DEFAULT: Stream = Stream(std::ptr::null_mut());
}

/// Weights in a solution's own form. The pointer stays valid, and the memory unchanged, while this lives.
pub trait PackedForm: Send + Sync {
    /// What goes into [`Operands::w`].
    fn as_ptr(&self) -> *const c_void;
    /// Memory it holds.
    fn bytes(&self) -> usize;
    /// Another copy in other memory; `None` if there is no memory for it.
    fn duplicate(&self) -> Option<Packed>;
}

/// Packed weights.
pub type Packed = Box<dyn PackedForm>;

/// Frees a buffer's memory: (pointer, bytes).
type Release = Box<dyn FnOnce(*mut c_void, usize) + Send>;

/// Device memory that frees itself.
pub struct Buffer {
    ptr: *mut c_void,
    bytes: usize,
    release: Option<Release>,
}

// SAFETY: a buffer is plain memory owned by one holder; `release` is Send.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Takes over `bytes` bytes at `ptr`; `release` gives them back.
    ///
    /// # Safety
    /// The memory is valid and nobody else's until `release` is called on it, on whichever thread that is.
    pub unsafe fn from_raw(ptr: *mut c_void, bytes: usize, release: Release) -> Buffer {
        Buffer { ptr, bytes, release: Some(release) }
    }

    /// Its start.
    pub fn as_ptr(&self) -> *const c_void {
        self.ptr
    }

    /// Its start, to write to.
    pub fn as_mut_ptr(&mut self) -> *mut c_void {
        self.ptr
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Does `offset..offset + len` lie within it? An error that names `call` if not.
    pub(crate) fn check_range(&self, call: &str, offset: usize, len: usize) -> Result<(), Error> {
        match offset.checked_add(len) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => {
                let reason = format!("{len} bytes at {offset} of a buffer of {}", self.bytes);
                Err(Error::Failed { call: call.to_owned(), reason })
            }
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release(self.ptr, self.bytes);
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.bytes)
    }
}
