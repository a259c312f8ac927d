//! Writes that raise no signal in the host: a broken pipe and a file-size limit are ours to bear.

use std::mem::MaybeUninit;

/// Runs `write` so that `signal`, which a failed write raises in the thread that made it, reaches no handler and ends nothing.
///
/// The thread's mask is as before afterwards. A signal that was pending already, or that others send, is not taken away.
pub(crate) fn without_signal<T>(signal: libc::c_int, write: impl FnOnce() -> T) -> T {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the sets are places to write; `sigemptyset` fills the first one whole.
    let (set, is_blocked) = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        let mut set = set.assume_init();
        libc::sigaddset(&raw mut set, signal);
        (set, libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, before.as_mut_ptr()) == 0)
    };
    let was_pending = is_pending(signal);
    let result = write();
    if is_blocked {
        let no_time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the sets are whole: the mask of before was written where blocking succeeded.
        unsafe {
            if !was_pending && is_pending(signal) {
                libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const no_time);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        }
    }
    result
}

fn is_pending(signal: libc::c_int) -> bool {
    let mut pending = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is written where the call succeeds, and read only then.
    unsafe { libc::sigpending(pending.as_mut_ptr()) == 0 && libc::sigismember(pending.as_ptr(), signal) == 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_pipe_raises_nothing_and_the_mask_is_as_before() {
        let mask = || {
            let mut now = MaybeUninit::<libc::sigset_t>::uninit();
            // SAFETY: a place to write; the mask stays as it is.
            unsafe {
                libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), now.as_mut_ptr());
                libc::sigismember(now.as_ptr(), libc::SIGPIPE)
            }
        };
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        // The test's process ignores the signal, so one of its threads is made to die of it.
        // SAFETY: the default action, for as long as the write takes.
        let ignored = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let written = without_signal(libc::SIGPIPE, || std::io::Write::write(&mut &writer, b"x"));
        // SAFETY: what was there before.
        unsafe { libc::signal(libc::SIGPIPE, ignored) };
        assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
        assert_eq!((mask(), is_pending(libc::SIGPIPE)), (0, false));
    }
}
