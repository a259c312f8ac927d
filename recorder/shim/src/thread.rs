//! What is kept for each thread, at one place: [`of_this_thread`] says where.
//!
//! A library's thread-local variables are had by a call of the dynamic linker, `__tls_get_addr`, whose code and tables are far
//! away by the next call of the host. One that is loaded with the program may have them at a fixed distance from the thread's
//! own pointer instead (the "initial-exec" model of the ELF TLS specification): two instructions. Stable Rust has no word for
//! that, so on x86-64 the variable is one of the assembler.

use std::cell::Cell;

use tgemm_recorder::counters::Share;

use crate::cache::Table;

/// What is kept for a thread. All zeros is how it begins; without a destructor, so that it can be had while the thread is ending.
#[repr(C)]
pub struct OfThread {
    /// Is it inside of a hooked call?
    pub inside: Cell<bool>,
    /// Where it counts what it has seen, once it has a place.
    pub seen: Cell<Option<Share<'static>>>,
    /// The calls that it made.
    pub calls: Table,
}

const _: () = assert!(align_of::<OfThread>() == 64 && !std::mem::needs_drop::<OfThread>());
// The null of a reference is what says that there is none: so it is with zeros.
const _: () = assert!(size_of::<Option<Share<'static>>>() == size_of::<usize>());

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
mod place {
    use super::OfThread;

    std::arch::global_asm!(
        ".section .tbss.tgemm_shim_of_thread,\"awT\",@nobits",
        ".hidden tgemm_shim_of_thread",
        ".globl tgemm_shim_of_thread",
        ".type tgemm_shim_of_thread,@object",
        ".size tgemm_shim_of_thread,{bytes}",
        ".balign 64",
        "tgemm_shim_of_thread:",
        ".zero {bytes}",
        ".text",
        bytes = const size_of::<OfThread>(),
    );

    #[inline(always)]
    pub fn of_this_thread() -> *const OfThread {
        let place;
        // SAFETY: the linker or the loader fills in how far the variable is from the thread's pointer, which is at `fs:0`
        // (System V ABI, TLS variant II). Nothing is written, and what is read stays the same while the thread runs.
        unsafe {
            std::arch::asm!(
                "mov {place}, qword ptr [rip + tgemm_shim_of_thread@GOTTPOFF]",
                "add {place}, qword ptr fs:[0]",
                place = out(reg) place,
                options(pure, nomem, nostack),
            );
        }
        place
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
mod place {
    use super::{Cell, OfThread, Table};

    thread_local! {
        static OF_THREAD: OfThread = const {
            OfThread { inside: Cell::new(false), seen: Cell::new(None), calls: Table::new() }
        };
    }

    pub fn of_this_thread() -> *const OfThread {
        OF_THREAD.with(std::ptr::from_ref)
    }
}

/// What is kept for the calling thread.
#[inline(always)]
pub fn of_this_thread() -> &'static OfThread {
    // SAFETY: it is there as long as the thread, which is the only one that can have the reference: it may not be sent.
    // All zeros is a value of the type, or the compiler has made one.
    unsafe { &*place::of_this_thread() }
}

impl OfThread {
    /// A number that no other living thread has.
    #[inline(always)]
    pub fn mark(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own() {
        let own = of_this_thread();
        assert!(std::ptr::eq(own, of_this_thread()));
        assert!((std::ptr::from_ref(own) as usize).is_multiple_of(align_of::<OfThread>()));
        own.inside.set(true);
        let other = std::thread::spawn(|| {
            let other = of_this_thread();
            assert!(!other.inside.get(), "it begins outside");
            other.inside.set(true);
            std::ptr::from_ref(other) as usize
        });
        assert_ne!(other.join().unwrap(), std::ptr::from_ref(own) as usize);
        assert!(own.inside.replace(false));
    }
}
