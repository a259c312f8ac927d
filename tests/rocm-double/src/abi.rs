//! The C border: pointers that C callers hand over, and how every exported function answers.

use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::state::{Double, double};

/// What a call answers: nothing, or a status that is not success.
pub type Answer = Result<(), i32>;

/// A place that the caller wants written, or null.
#[derive(Debug)]
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes `value`; false if the place is null.
    pub fn put(&self, value: T) -> bool {
        if self.0.is_null() {
            return false;
        }
        // SAFETY: the C contract of every exported function: a place that is not null can be written.
        unsafe { self.0.write_unaligned(value) };
        true
    }

    /// Writes `value` at the `at`-th of several places.
    pub fn put_at(&self, at: usize, value: T) {
        if !self.0.is_null() {
            // SAFETY: as above; the caller said that there are more than `at` places.
            unsafe { self.0.add(at).write_unaligned(value) };
        }
    }

    /// Is there no place?
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The address, for calls that are passed on.
    pub fn address(&self) -> usize {
        self.0 as usize
    }
}

impl<T: Copy> Out<T> {
    /// What is there now.
    pub fn get(&self) -> Option<T> {
        // SAFETY: the C contract: a place that is not null holds a value.
        (!self.0.is_null()).then(|| unsafe { self.0.read_unaligned() })
    }
}

/// A text of the caller's, or null.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Text(*const c_char);

impl Text {
    /// The text, if there is one.
    pub fn read(self) -> Option<String> {
        // SAFETY: the C contract: a text that is not null ends with a zero.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }

    /// The address, for calls that are passed on.
    pub fn address(self) -> usize {
        self.0 as usize
    }
}

/// Reads a `T` at an address of the caller's; `None` at null.
pub fn read_at<T: Copy>(address: usize) -> Option<T> {
    // SAFETY: the C contract: an address that is not null holds a value of the type that the call documents.
    (address != 0).then(|| unsafe { (address as *const T).read_unaligned() })
}

/// Writes bytes to an address of the caller's, and nothing at null.
pub fn write_bytes(address: usize, bytes: &[u8]) {
    if address != 0 {
        // SAFETY: the C contract: the caller gave room for what the call documents.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    }
}

/// Bytes at an address of the caller's.
pub fn read_bytes(address: usize, count: usize) -> Vec<u8> {
    if address == 0 {
        return Vec::new();
    }
    // SAFETY: the C contract: the caller says that there are `count` bytes.
    unsafe { std::slice::from_raw_parts(address as *const u8, count) }.to_vec()
}

thread_local! {
    static LAST_HIP_ERROR: Cell<i32> = const { Cell::new(0) };
}

/// HIP's last error of this thread, which asking clears.
pub fn take_last_hip_error() -> i32 {
    LAST_HIP_ERROR.replace(0)
}

/// Runs the body of a HIP call: its status is remembered, a panic is `hipErrorUnknown`, a bad script
/// `hipErrorSharedObjectInitFailed`.
pub fn hip_call(body: impl FnOnce(&'static Double) -> Answer) -> i32 {
    let status = answer(999, 303, body);
    if status != 0 {
        LAST_HIP_ERROR.set(status);
    }
    status
}

/// Runs the body of a call: `panicked` is the status of an error of our own, `closed` that of a library that is not usable.
pub fn answer(panicked: i32, closed: i32, body: impl FnOnce(&'static Double) -> Answer) -> i32 {
    // Nothing may unwind into C; what a panic left half-done is the state of a test that fails anyway.
    let outcome = catch_unwind(AssertUnwindSafe(|| match double() {
        Ok(double) => body(double).err().unwrap_or(0),
        Err(_) => closed,
    }));
    outcome.unwrap_or(panicked)
}

/// Declares exported functions that run through [`hip_call`] or [`answer`].
macro_rules! exports {
    ($call:expr; $(fn $name:ident($($arg:ident: $type:ty),* $(,)?) |$double:ident| $body:block)*) => {$(
        #[allow(non_snake_case, reason = "the name is the library's")]
        #[allow(clippy::too_many_arguments, reason = "the list is the library's")]
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) -> i32 {
            $call(|$double| $body)
        }
    )*};
}
pub(crate) use exports;
