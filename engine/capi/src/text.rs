//! Texts in and out: checked, and in the caller's memory or for as long as a handle lives.

use std::borrow::Cow;
use std::ffi::{CStr, c_char};
use std::ptr;

use crate::status::{Failure, TgemmStatus};

/// A text that belongs to a handle: UTF-8, `bytes` long, without a NUL at its end. Print it with "%.*s". `data` is never
/// NULL.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TgemmText {
    /// The first byte.
    pub data: *const c_char,
    /// How many there are.
    pub bytes: usize,
}

impl TgemmText {
    pub(crate) fn of(text: &str) -> TgemmText {
        TgemmText { data: text.as_ptr().cast(), bytes: text.len() }
    }
}

/// A caller's text.
///
/// # Safety
///
/// `pointer` is NULL or a NUL-terminated string that outlives `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Failure> {
    // SAFETY: as promised by the caller.
    unsafe { optional_text(pointer, what) }?.ok_or_else(|| Failure::null(what))
}

/// A caller's text, or `None` for NULL.
///
/// # Safety
///
/// As for [`text`].
pub(crate) unsafe fn optional_text<'a>(pointer: *const c_char, what: &str) -> Result<Option<&'a str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: not NULL, so a NUL-terminated string.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    text.map(Some).map_err(|error| Failure::new(TgemmStatus::Utf8, format!("{what} is not UTF-8: {error}")))
}

/// A caller's array; NULL is one of no elements.
///
/// # Safety
///
/// `pointer` is NULL or points to `count` elements that outlive `'a`.
pub(crate) unsafe fn array<'a, T>(pointer: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Failure::null(what));
    }
    if !pointer.is_aligned() || count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Failure::value(format!("{what}: {count} elements at {pointer:p} cannot be")));
    }
    // SAFETY: neither NULL nor unaligned nor too many, and as promised by the caller.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// A caller's memory for a text.
#[derive(Clone, Copy)]
pub(crate) struct Buffer {
    data: *mut c_char,
    bytes: usize,
    needed: *mut usize,
}

impl Buffer {
    /// # Safety
    ///
    /// `data` is NULL or has `bytes` bytes to write to; `needed` is NULL or can be written to.
    pub(crate) unsafe fn new(data: *mut c_char, bytes: usize, needed: *mut usize) -> Result<Buffer, Failure> {
        if data.is_null() && needed.is_null() {
            return Err(Failure::null("both buffer and needed"));
        }
        Ok(Buffer { data, bytes, needed })
    }

    /// Writes `text` with a NUL behind it; where there is no room for all of it, an empty text. A NUL within it, which a
    /// table may have brought in, would end it for C.
    pub(crate) fn put(self, text: &str) -> Result<(), Failure> {
        let text = &*match text.contains('\0') {
            true => Cow::Owned(text.replace('\0', "?")),
            false => Cow::Borrowed(text),
        };
        let wants = text.len() + 1;
        if !self.needed.is_null() {
            // SAFETY: not NULL, so it can be written to (`Buffer::new`).
            unsafe { self.needed.write_unaligned(wants) };
        }
        if self.data.is_null() {
            return Ok(());
        }
        let fits = wants <= self.bytes;
        let put = if fits { text } else { "" };
        if self.bytes > 0 {
            // SAFETY: `put` and its NUL fit into `bytes`, which `data` has (`Buffer::new`).
            unsafe {
                ptr::copy(put.as_ptr(), self.data.cast::<u8>(), put.len());
                self.data.add(put.len()).write(0);
            }
        }
        match fits {
            true => Ok(()),
            false => {
                let text = format!("the buffer has {} bytes, the text takes {wants}", self.bytes);
                Err(Failure::new(TgemmStatus::Buffer, text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(bytes: usize, text: &str) -> (Result<(), TgemmStatus>, [u8; 6], usize) {
        let (mut data, mut needed) = (*b"zzzzzz", 0);
        // SAFETY: `bytes` is at most 6.
        let buffer = unsafe { Buffer::new(data.as_mut_ptr().cast(), bytes, &mut needed) }.unwrap();
        (buffer.put(text).map_err(|failure| failure.status), data, needed)
    }

    #[test]
    fn a_text_is_written_whole_or_not_at_all() {
        assert_eq!(put(4, "abc"), (Ok(()), *b"abc\0zz", 4));
        assert_eq!(put(3, "abc"), (Err(TgemmStatus::Buffer), *b"\0zzzzz", 4));
        assert_eq!(put(0, "abc"), (Err(TgemmStatus::Buffer), *b"zzzzzz", 4));
        assert_eq!(put(1, ""), (Ok(()), *b"\0zzzzz", 1));
        assert_eq!(put(6, "a\0c"), (Ok(()), *b"a?c\0zz", 4));
        let mut needed = 0;
        // SAFETY: NULL is no buffer, and only its size is asked for.
        unsafe { Buffer::new(ptr::null_mut(), 0, &mut needed) }.unwrap().put("abc").unwrap();
        assert_eq!(needed, 4);
        // SAFETY: NULL twice is refused.
        assert!(unsafe { Buffer::new(ptr::null_mut(), 9, ptr::null_mut()) }.is_err());
    }

    #[test]
    fn texts_and_arrays_are_checked() {
        let status = |failed: Failure| failed.status;
        // SAFETY: NULL or literals; what has too many elements is not looked at.
        unsafe {
            assert_eq!(text(c"\xc3\xa9".as_ptr(), "t"), Ok("é"));
            assert_eq!(text(c"\xc3".as_ptr(), "t").map_err(status), Err(TgemmStatus::Utf8));
            assert_eq!(text(ptr::null(), "t").map_err(status), Err(TgemmStatus::Null));
            assert_eq!(array::<u64>(ptr::null(), 0, "a"), Ok(&[][..]));
            assert_eq!(array::<u64>(ptr::null(), 1, "a").map_err(status), Err(TgemmStatus::Null));
            assert_eq!(array(&7u64, 1, "a"), Ok(&[7][..]));
            assert_eq!(array(&7u64, usize::MAX / 2, "a").map_err(status), Err(TgemmStatus::Value));
        }
    }
}
