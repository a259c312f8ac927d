//! The OpenMP runtime that a library uses (libgomp, libiomp5, libomp): how many threads the next parallel region gets.

use std::ffi::{c_int, c_void};

use crate::load::Loaded;
use crate::table::MissingSymbol;

/// The thread count of one OpenMP runtime.
///
/// The count belongs to the calling thread (OpenMP's `nthreads-var`), so setting it disturbs no other thread.
#[derive(Clone, Copy)]
pub struct OpenMp {
    set_threads: unsafe extern "C" fn(c_int),
    threads: unsafe extern "C" fn() -> c_int,
}

impl OpenMp {
    /// The runtime whose functions `library` calls.
    pub fn of(library: &'static Loaded) -> Result<OpenMp, MissingSymbol> {
        let find = |symbol| library.address_as_bound(symbol).ok_or(MissingSymbol { symbol });
        let (set, get) = (find("omp_set_num_threads")?, find("omp_get_max_threads")?);
        // SAFETY: OpenMP's C interface: `void omp_set_num_threads(int)`.
        let set_threads = unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn(c_int)>(set) };
        // SAFETY: OpenMP's C interface: `int omp_get_max_threads(void)`.
        let threads = unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn() -> c_int>(get) };
        Ok(OpenMp { set_threads, threads })
    }

    /// Threads that this thread's next parallel region gets.
    pub fn threads(&self) -> u32 {
        // SAFETY: takes nothing, reads this thread's count.
        let threads = unsafe { (self.threads)() };
        u32::try_from(threads).unwrap_or(1).max(1)
    }

    /// Runs `work` with `threads` threads a parallel region, then puts back what this thread had: the count may be the
    /// host's own.
    pub fn with_threads<T>(&self, threads: u32, work: impl FnOnce() -> T) -> T {
        let before = self.threads();
        if before == threads {
            return work();
        }
        self.set(threads);
        let _restore = Restore { openmp: self, threads: before };
        work()
    }

    fn set(&self, threads: u32) {
        let threads = c_int::try_from(threads).unwrap_or(c_int::MAX).max(1);
        // SAFETY: any positive count is allowed.
        unsafe { (self.set_threads)(threads) }
    }
}

/// Puts a thread count back, on unwinding too.
struct Restore<'a> {
    openmp: &'a OpenMp,
    threads: u32,
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        self.openmp.set(self.threads);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{self, Candidate};

    #[test]
    fn the_count_holds_inside_and_is_put_back_even_by_a_panic() {
        let candidates = Candidate::sonames(&["libgomp.so.1", "libomp.so.5"]);
        // SAFETY: an OpenMP runtime's initialisers read environment variables.
        let opened = unsafe { load::open("openmp", &candidates, |lib| OpenMp::of(lib).map_err(|e| e.to_string())) };
        let openmp = match opened {
            Ok(openmp) => openmp,
            Err(absent) => return println!("skipped: {absent}"),
        };
        let before = openmp.threads();
        assert_eq!(openmp.with_threads(before + 2, || openmp.threads()), before + 2);
        assert_eq!(openmp.threads(), before);
        let caught = std::panic::catch_unwind(|| openmp.with_threads(before + 1, || panic!("scripted")));
        assert!(caught.is_err());
        assert_eq!(openmp.threads(), before);
    }
}
