//! Structures that grow: the caller says how large its own is, so that old programs meet new libraries and the reverse.

use std::mem::{MaybeUninit, size_of};

use crate::status::{Failure, TgemmStatus};

/// No structure will ever be as large: a `size` beyond it was never set.
const SIZE_MAX: usize = 4096;

/// A structure whose first field is its size as the caller knows it.
///
/// # Safety
///
/// `repr(C)`, `size: usize` first, no padding, and any bytes are a value (integers, floats, raw pointers).
/// [`versioned`] checks all but the last.
pub(crate) unsafe trait Versioned: Copy {
    /// As in the header.
    const NAME: &'static str;
    /// Where each field ends, in order.
    const ENDS: &'static [usize];
    /// How large a caller's must be at least: the fields that have no default.
    const LEAST: usize;
}

/// The size of the field that a getter reads.
pub(crate) const fn size_of_field<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

/// Are there no gaps? `ends` without them are where the next field starts.
pub(crate) const fn is_packed(starts: &[usize], ends: &[usize], size: usize) -> bool {
    let mut at = 0;
    while at < ends.len() {
        let next = if at + 1 < starts.len() { starts[at + 1] } else { size };
        if ends[at] != next {
            return false;
        }
        at += 1;
    }
    starts[0] == 0
}

/// Lists the fields of a structure, all of them and in order; those up to `least` have no default.
macro_rules! versioned {
    ($type:ident, least $least:ident, [$($field:ident),+ $(,)?]) => {
        // SAFETY: the lines below do not compile unless the fields are all there, in order and without gaps.
        unsafe impl $crate::versioned::Versioned for $type {
            const NAME: &'static str = stringify!($type);
            const ENDS: &'static [usize] = &[
                size_of::<usize>(),
                $(std::mem::offset_of!($type, $field)
                    + $crate::versioned::size_of_field::<$type, _>(|value| &value.$field)),+
            ];
            const LEAST: usize = std::mem::offset_of!($type, $least)
                + $crate::versioned::size_of_field::<$type, _>(|value| &value.$least);
        }
        const _: () = {
            const STARTS: &[usize] =
                &[std::mem::offset_of!($type, size), $(std::mem::offset_of!($type, $field)),+];
            assert!($crate::versioned::is_packed(
                STARTS,
                <$type as $crate::versioned::Versioned>::ENDS,
                size_of::<$type>()
            ));
            // A field that the list forgets would never be read.
            const fn _all_fields(value: &$type) {
                let $type { size: _, $($field: _),+ } = value;
            }
        };
    };
}
pub(crate) use versioned;

/// Everything zero, which is the default of every field.
pub(crate) fn zero<T: Versioned>() -> T {
    // SAFETY: any bytes are a value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// The size as the caller knows it, once the pointer and it have been looked at.
///
/// # Safety
///
/// `pointer` is NULL or points to a `size_t`.
unsafe fn size_given<T: Versioned>(pointer: *const T) -> Result<usize, Failure> {
    if pointer.is_null() {
        return Err(Failure::null(T::NAME));
    }
    if !pointer.is_aligned() {
        return Err(Failure::new(TgemmStatus::Size, format!("the pointer to a {} is not aligned", T::NAME)));
    }
    // SAFETY: neither NULL nor unaligned, and the size stands first.
    let size = unsafe { pointer.cast::<usize>().read() };
    if !(T::LEAST..=SIZE_MAX).contains(&size) {
        let text = format!("{}.size is {size}; set it to sizeof({}) before the call", T::NAME, T::NAME);
        return Err(Failure::new(TgemmStatus::Size, text));
    }
    Ok(size)
}

/// How many bytes of a caller's `size` are whole fields of ours.
fn known_bytes<T: Versioned>(size: usize) -> usize {
    match size >= size_of::<T>() {
        true => size_of::<T>(),
        false => T::ENDS.iter().copied().rfind(|end| *end <= size).unwrap_or(0),
    }
}

/// Reads a caller's structure; fields that it does not have are zero.
///
/// # Safety
///
/// `pointer` is NULL or points to as many bytes as the `size_t` there says.
pub(crate) unsafe fn read<T: Versioned>(pointer: *const T) -> Result<T, Failure> {
    // SAFETY: as promised by the caller.
    let size = unsafe { size_given(pointer) }?;
    let mut value = zero::<T>();
    // SAFETY: no more bytes than either side has, and any bytes are a value.
    unsafe {
        let to = (&raw mut value).cast::<u8>();
        to.copy_from_nonoverlapping(pointer.cast::<u8>(), known_bytes::<T>(size));
    }
    for at in size_of::<T>()..size {
        // SAFETY: below the size that the caller gave.
        if unsafe { pointer.cast::<u8>().add(at).read() } != 0 {
            let text = format!("{}: byte {at} is set, and this library knows {} bytes", T::NAME, size_of::<T>());
            return Err(Failure::new(TgemmStatus::Size, text));
        }
    }
    Ok(value)
}

/// Fills a caller's structure, but for its size; what it has beyond ours becomes zero.
///
/// # Safety
///
/// `pointer` is NULL or points to as many writable bytes as the `size_t` there says.
pub(crate) unsafe fn write<T: Versioned>(pointer: *mut T, value: &T) -> Result<(), Failure> {
    // SAFETY: as promised by the caller.
    let size = unsafe { size_given(pointer.cast_const()) }?;
    let (known, head) = (known_bytes::<T>(size), size_of::<usize>());
    // SAFETY: no more bytes than either side has; a value of ours does not overlap with the caller's.
    unsafe {
        let (to, from) = (pointer.cast::<u8>(), std::ptr::from_ref(value).cast::<u8>());
        to.add(head).copy_from_nonoverlapping(from.add(head), known - head);
        to.add(known).write_bytes(0, size - known);
    }
    Ok(())
}

/// [`read`], where NULL means that every field has its default.
///
/// # Safety
///
/// As for [`read`].
pub(crate) unsafe fn read_or_default<T: Versioned>(pointer: *const T) -> Result<T, Failure> {
    match pointer.is_null() {
        true => Ok(zero()),
        // SAFETY: as promised by the caller.
        false => unsafe { read(pointer) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Sample {
        size: usize,
        must: u32,
        may: u32,
        long: u64,
    }
    versioned!(Sample, least must, [must, may, long]);

    /// A caller of a later version.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Later {
        sample: Sample,
        new: u64,
    }

    fn later(size: usize, new: u64) -> Later {
        Later { sample: Sample { size, must: 1, may: 2, long: 3 }, new }
    }

    fn read_as(size: usize, new: u64) -> Result<Sample, Failure> {
        let later = later(size, new);
        // SAFETY: all sizes that are followed lie within it.
        unsafe { read((&raw const later).cast::<Sample>()) }
    }

    #[test]
    fn fields_beyond_the_given_size_are_zero_and_none_is_cut() {
        let expect = |size, must, may, long| Ok(Sample { size, must, may, long });
        assert_eq!(Sample::ENDS, [8, 12, 16, 24]);
        for (size, may, long) in [(12, 0, 0), (15, 0, 0), (16, 2, 0), (23, 2, 0), (24, 2, 3)] {
            assert_eq!(read_as(size, 9), expect(size, 1, may, long));
        }
        for size in [0, 8, 11, 4097, usize::MAX] {
            assert_eq!(read_as(size, 0).unwrap_err().status, TgemmStatus::Size, "{size}");
        }
    }

    #[test]
    fn larger_ones_are_taken_if_they_say_nothing_new() {
        assert_eq!(read_as(32, 0), Ok(Sample { size: 32, must: 1, may: 2, long: 3 }));
        assert_eq!(read_as(32, 1 << 40).unwrap_err().status, TgemmStatus::Size);
        assert_eq!(read_as(24, 1 << 40).map(|sample| sample.long), Ok(3));
    }

    #[test]
    fn no_byte_beyond_the_given_size_is_written() {
        for (size, may, long, new) in [(12, 2, 3, 9), (14, 2, 3, 9), (16, 8, 3, 9), (24, 8, 9, 9), (32, 8, 9, 0)] {
            let mut to = later(size, 9);
            let value = Sample { size: 77, must: 7, may: 8, long: 9 };
            // SAFETY: all sizes lie within it.
            unsafe { write((&raw mut to).cast::<Sample>(), &value) }.unwrap();
            // The two bytes of 14 that are half a field become zero, as is all that we do not know.
            let may = if size == 14 { may & 0xffff_0000 } else { may };
            assert_eq!(to, Later { sample: Sample { size, must: 7, may, long }, new }, "{size}");
        }
    }

    #[test]
    fn null_and_unaligned_pointers_are_refused() {
        let bytes = [0u64; 8];
        let crooked = bytes.as_ptr().cast::<u8>().wrapping_add(1).cast::<Sample>();
        // SAFETY: neither is read from.
        let statuses =
            unsafe { [read(std::ptr::null::<Sample>()), read(crooked)] }.map(|read| read.unwrap_err().status);
        assert_eq!(statuses, [TgemmStatus::Null, TgemmStatus::Size]);
        // SAFETY: NULL is no structure.
        assert_eq!(unsafe { read_or_default::<Sample>(std::ptr::null()) }, Ok(zero()));
    }
}
