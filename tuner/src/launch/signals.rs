//! Signals that are sent to us go on to the program that we wait for.
//!
//! The program runs in our process group, so what the terminal sends (Ctrl-C) it gets from the terminal: sending that on
//! would press the key twice. What another process sends is meant for the program, and is sent on.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::{c_int, c_void, sigaction, siginfo_t};

/// What is sent on.
const SIGNALS: [c_int; 6] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];
const NOBODY: i32 = 0;

/// The program that signals go to.
static HOST: AtomicI32 = AtomicI32::new(NOBODY);
/// The signal that was sent before it was known.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// While it lives, signals are sent on. One at a time in a process.
pub(super) struct Forwarding {
    before: Vec<(c_int, sigaction)>,
}

extern "C" fn forward(signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a filled-in record.
    let is_from_kernel = unsafe { (*info).si_code } > 0; // sigaction(2): of processes SI_USER 0, SI_QUEUE -1, SI_TKILL -6
    if is_from_kernel {
        return;
    }
    let host = HOST.load(Ordering::Relaxed);
    if host == NOBODY {
        EARLY.store(signal, Ordering::Relaxed);
    } else {
        // SAFETY: errno is this thread's own; what was interrupted finds it as it was. kill(2) may be called here.
        unsafe {
            let errno = libc::__errno_location();
            let before = *errno;
            libc::kill(host, signal);
            *errno = before;
        }
    }
}

impl Forwarding {
    /// From now on signals do not end this process. What is ignored stays so, for the program too (nohup).
    pub(super) fn begin() -> Forwarding {
        EARLY.store(0, Ordering::Relaxed);
        let mut before = Vec::new();
        for signal in SIGNALS {
            let mut old = MaybeUninit::<sigaction>::zeroed();
            // SAFETY: `old` has room for the record, and zeros are one. Nothing is changed by this call.
            let old = unsafe {
                let asked = libc::sigaction(signal, ptr::null(), old.as_mut_ptr());
                if asked != 0 {
                    continue;
                }
                old.assume_init()
            };
            if old.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            // SAFETY: zeros are a record with an empty mask; the handler does only what signal-safety(7) allows.
            unsafe {
                let mut new = MaybeUninit::<sigaction>::zeroed().assume_init();
                new.sa_sigaction = forward as *const () as usize;
                new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                if libc::sigaction(signal, &raw const new, ptr::null_mut()) == 0 {
                    before.push((signal, old));
                }
            }
        }
        Forwarding { before }
    }

    /// Sends signals to `host`, the one that came early first.
    pub(super) fn to(&self, host: u32) {
        let host = host as i32;
        HOST.store(host, Ordering::Relaxed);
        let early = EARLY.swap(0, Ordering::Relaxed);
        if early != 0 {
            // SAFETY: a child that has not been waited for keeps its number.
            unsafe { libc::kill(host, early) };
        }
    }

    /// The program is about to lose its number: nothing is sent to it any more.
    pub(super) fn stop(&self) {
        HOST.store(NOBODY, Ordering::Relaxed);
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.stop();
        for (signal, old) in &self.before {
            // SAFETY: puts back a record that the system gave.
            unsafe { libc::sigaction(*signal, &raw const *old, ptr::null_mut()) };
        }
    }
}
