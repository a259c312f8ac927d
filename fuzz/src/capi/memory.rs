//! A caller's memory, no byte more than the caller says: what is read or written beside it, AddressSanitizer sees.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::c_char;

use crate::feed::Feed;
use crate::scratch::must;

/// What a vector register takes, and what the header asks of a workspace.
const ALIGNMENT: usize = 64;

/// The largest structure that the interface takes.
const SIZE_MAX: usize = 4096;

/// Memory on the heap, exactly as large as asked for, its first byte aligned or one beside that.
#[derive(Debug)]
pub(super) struct Memory {
    start: *mut u8,
    layout: Layout,
    offset: usize,
}

impl Memory {
    fn new(bytes: usize, offset: usize) -> Memory {
        let layout = must(Layout::from_size_align(bytes + offset, ALIGNMENT), "a small size");
        if layout.size() == 0 {
            return Memory { start: std::ptr::without_provenance_mut(ALIGNMENT), layout, offset };
        }
        // SAFETY: its size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        Memory { start, layout, offset }
    }

    /// So many floats, each 1.
    pub(super) fn of_ones(count: usize) -> Memory {
        let mut memory = Memory::new(count * size_of::<f32>(), 0);
        let ones = std::iter::repeat(1f32.to_ne_bytes()).flatten();
        memory.bytes_mut().iter_mut().zip(ones).for_each(|(to, one)| *to = one);
        memory
    }

    /// It as floats.
    pub(super) fn floats(&self) -> impl Iterator<Item = f32> {
        self.bytes().as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes))
    }

    pub(super) fn pointer<T>(&self) -> *mut T {
        // SAFETY: within what was allocated, or at its end.
        unsafe { self.start.add(self.offset) }.cast()
    }

    /// All of it, as it is now.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: allocated so large and initialised; the library is not in a call while this is looked at.
        unsafe { std::slice::from_raw_parts(self.pointer::<u8>(), self.layout.size() - self.offset) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else has it.
        unsafe { std::slice::from_raw_parts_mut(self.pointer::<u8>(), self.layout.size() - self.offset) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            // SAFETY: allocated by `new` with this layout.
            unsafe { dealloc(self.start, self.layout) };
        }
    }
}

/// A structure as callers of all ages have it, whose first field is its size: nearly always right.
pub(super) fn structure<T: Copy>(value: &T, feed: &mut Feed<'_>) -> Memory {
    let known = size_of::<T>();
    let (size, offset) = match feed.below(16) {
        0 => (feed.below(known + 1), 0),
        1 => (known - feed.below(known / 2), 0),
        2 | 3 => (known + feed.below(64), 0),
        4 => (feed.one(&[SIZE_MAX, SIZE_MAX + 1, usize::MAX, usize::MAX / 2, 0, 1, 7, 8, 9]), 0),
        5 => (known, 1),
        _ => (known, 0),
    };
    // What says that it is too large is refused by that alone, so that no more than the size has to be there.
    let there = if size > SIZE_MAX { size_of::<usize>() } else { size.max(size_of::<usize>()) };
    let mut memory = Memory::new(there, offset);
    // SAFETY: a structure of integers and pointers, without gaps.
    let image = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), known) };
    let bytes = memory.bytes_mut();
    for (to, from) in bytes.iter_mut().zip(image) {
        *to = *from;
    }
    bytes[..size_of::<usize>()].copy_from_slice(&size.to_ne_bytes());
    if bytes.len() > known && feed.rarely(4) {
        let at = known + feed.below(bytes.len() - known);
        bytes[at] = feed.byte();
    }
    memory
}

/// A text with its NUL and nothing behind it; `None` is NULL.
pub(super) fn text(known: &[&str], feed: &mut Feed<'_>) -> Option<Memory> {
    let content = match feed.below(16) {
        0 => return None,
        1 => {
            let count = feed.byte().into();
            feed.bytes(count).iter().copied().filter(|&byte| byte != 0).collect()
        }
        2 => vec![feed.byte().max(1); feed.one(&[1, 255, 4096, 100_000])],
        3 => Vec::new(),
        4 => {
            // A right one with one wrong byte.
            let mut bytes = feed.one(known).as_bytes().to_vec();
            let at = feed.below(bytes.len());
            if let Some(byte) = bytes.get_mut(at) {
                *byte = feed.byte().max(1);
            }
            bytes
        }
        _ => feed.one(known).as_bytes().to_vec(),
    };
    let mut memory = Memory::new(content.len() + 1, 0);
    memory.bytes_mut()[..content.len()].copy_from_slice(&content);
    Some(memory)
}

/// Its address, or NULL.
pub(super) fn at(memory: &Option<Memory>) -> *const c_char {
    memory.as_ref().map_or(std::ptr::null(), |memory| memory.pointer::<c_char>().cast_const())
}

/// An array of plain values.
pub(super) fn array<T: Copy>(values: &[T], feed: &mut Feed<'_>) -> Memory {
    let offset = usize::from(feed.rarely(32));
    let mut memory = Memory::new(size_of_val(values), offset);
    // SAFETY: plain values, as large as the memory.
    let image = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
    memory.bytes_mut().copy_from_slice(image);
    memory
}

/// Memory for a text: often too small, or none.
pub(super) struct Room {
    pub(super) data: Option<Memory>,
    pub(super) needed: Option<Memory>,
}

impl Room {
    pub(super) fn new(feed: &mut Feed<'_>) -> Room {
        let bytes = match feed.below(8) {
            0 => None,
            1 => Some(0),
            2 => Some(feed.below(256)),
            3 => Some(1),
            _ => Some(1 << 16),
        };
        let needed = (!feed.rarely(4)).then(|| Memory::new(size_of::<usize>(), usize::from(feed.rarely(8))));
        Room { data: bytes.map(|bytes| Memory::new(bytes, 0)), needed }
    }

    pub(super) fn bytes(&self) -> usize {
        self.data.as_ref().map_or(0, |data| data.bytes().len())
    }

    pub(super) fn data(&self) -> *mut c_char {
        self.data.as_ref().map_or(std::ptr::null_mut(), Memory::pointer)
    }

    pub(super) fn needed(&self) -> *mut usize {
        self.needed.as_ref().map_or(std::ptr::null_mut(), Memory::pointer)
    }

    /// How many bytes the text takes, the NUL included, as the library said.
    pub(super) fn said(&self) -> Option<usize> {
        let bytes = self.needed.as_ref()?.bytes().try_into().ok()?;
        Some(usize::from_ne_bytes(bytes))
    }
}
