//! The program's own constants: memory of the host that nothing changes while it runs.
//!
//! Only the main program counts: a library may be unloaded, and its addresses may come to mean something else.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The least that can be mapped apart.
const PAGE_BYTES: usize = 4096;

/// Where such memory begins and ends; nothing lies between while nobody has looked, and where there is none. Linkers put headers,
/// code and constants behind each other, and what can be written to behind them.
static START: AtomicUsize = AtomicUsize::new(usize::MAX);
static END: AtomicUsize = AtomicUsize::new(UNSOUGHT);

/// The end while nobody has looked.
const UNSOUGHT: usize = 1;

/// Does `address` lie in a part of the main program that cannot be written to? `false` while nobody has looked where
/// that is.
#[inline(always)]
pub fn is_constant(address: usize) -> bool {
    // One that sees the end sees the start too.
    let end = END.load(Ordering::Acquire);
    (START.load(Ordering::Relaxed)..end).contains(&address)
}

/// As [`is_constant`], and looks where that is at the first time. Several threads may be here at once: all of them write the
/// same.
pub fn is_found_constant(address: usize) -> bool {
    if END.load(Ordering::Acquire) == UNSOUGHT {
        find();
    }
    is_constant(address)
}

fn find() {
    let mut segments: Vec<(Range<usize>, bool)> = Vec::new();
    // SAFETY: the callback has the type that the loader calls, and `segments` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(of_the_first), (&raw mut segments).cast()) };
    // In the order in which they lie in memory, by the ELF specification.
    let mut known: Option<Range<usize>> = None;
    for (segment, is_constant) in segments {
        match &mut known {
            None if is_constant => known = Some(segment),
            None => {}
            // No page lies between them: it would not be the program's.
            Some(known) if is_constant && segment.start / PAGE_BYTES <= known.end.div_ceil(PAGE_BYTES) => {
                known.end = segment.end
            }
            Some(_) => break,
        }
    }
    let known = known.unwrap_or_default();
    START.store(known.start, Ordering::Relaxed);
    END.store(known.end, Ordering::Release);
}

/// Notes the segments of the first object, which is the main program, and ends the walk.
unsafe extern "C" fn of_the_first(info: *mut libc::dl_phdr_info, _: usize, to: *mut c_void) -> i32 {
    // SAFETY: the loader passes a valid record, and `to` is what `find` gave it.
    let (info, segments) = unsafe { (&*info, &mut *to.cast::<Vec<(Range<usize>, bool)>>()) };
    if info.dlpi_phdr.is_null() {
        return 1;
    }
    // SAFETY: the record says how many headers there are.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    for header in headers {
        if header.p_type == libc::PT_LOAD {
            let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            let segment = start..start.saturating_add(header.p_memsz as usize);
            segments.push((segment, header.p_flags & libc::PF_W == 0));
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
        assert!(is_found_constant(std::ptr::from_ref(std::hint::black_box(&CONSTANT[2])) as usize));
        assert!(is_constant(only_what_cannot_be_written_is_constant as fn() as usize), "code");
        assert!(!is_constant(&raw const WRITABLE as usize));
        assert!(!is_constant(&raw const local as usize));
        assert!(!is_constant(&raw const *boxed as usize));
        assert!(!is_constant(libc::malloc as *const () as usize), "a library's");
        assert!(!is_constant(0));
    }
}
