//! The program's own constants: memory of the host that nothing changes while it runs.
//!
//! Only the main program counts: a library may be unloaded, and its addresses may come to mean something else.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Segments that are kept. Linkers make up to three that are not writable: headers, code, constants.
const SEGMENTS: usize = 4;

static IS_KNOWN: AtomicBool = AtomicBool::new(false);
static STARTS: [AtomicUsize; SEGMENTS] = [const { AtomicUsize::new(0) }; SEGMENTS];
static ENDS: [AtomicUsize; SEGMENTS] = [const { AtomicUsize::new(0) }; SEGMENTS];

/// Does `address` lie in a part of the main program that cannot be written to? Out of the way of calls that need not ask.
#[inline(never)]
pub fn is_constant(address: usize) -> bool {
    if !IS_KNOWN.load(Ordering::Acquire) {
        find();
    }
    STARTS.iter().zip(&ENDS).any(|(start, end)| {
        let (start, end) = (start.load(Ordering::Relaxed), end.load(Ordering::Relaxed));
        (start..end).contains(&address)
    })
}

/// Several threads may be here at once: all of them write the same.
#[cold]
fn find() {
    let mut segments: Vec<Range<usize>> = Vec::new();
    // SAFETY: the callback has the type that the loader calls, and `segments` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(of_the_first), (&raw mut segments).cast()) };
    for ((start, end), segment) in STARTS.iter().zip(&ENDS).zip(segments) {
        start.store(segment.start, Ordering::Relaxed);
        end.store(segment.end, Ordering::Relaxed);
    }
    IS_KNOWN.store(true, Ordering::Release);
}

/// Notes the segments of the first object, which is the main program, and ends the walk.
unsafe extern "C" fn of_the_first(info: *mut libc::dl_phdr_info, _: usize, to: *mut c_void) -> i32 {
    // SAFETY: the loader passes a valid record, and `to` is what `find` gave it.
    let (info, segments) = unsafe { (&*info, &mut *to.cast::<Vec<Range<usize>>>()) };
    if info.dlpi_phdr.is_null() {
        return 1;
    }
    // SAFETY: the record says how many headers there are.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    for header in headers {
        if header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0 {
            let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            segments.push(start..start.saturating_add(header.p_memsz as usize));
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_be_written_is_constant() {
        static CONSTANT: [f32; 4] = [1.0, 2.0, 3.0, 4.0];
        static WRITABLE: AtomicUsize = AtomicUsize::new(1);
        let local = 1.0f32;
        let boxed = Box::new(1.0f32);
        assert!(is_constant(std::ptr::from_ref(std::hint::black_box(&CONSTANT[2])) as usize));
        assert!(is_constant(only_what_cannot_be_written_is_constant as fn() as usize), "code");
        assert!(!is_constant(&raw const WRITABLE as usize));
        assert!(!is_constant(&raw const local as usize));
        assert!(!is_constant(&raw const *boxed as usize));
        assert!(!is_constant(libc::malloc as *const () as usize), "a library's");
        assert!(!is_constant(0));
    }
}
