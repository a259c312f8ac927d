//! What must happen when the host process forks or exits.
//!
//! `WRITING` is held during every append, by all recorders of the process. The fork handlers take it before the fork and
//! give it back on both sides, so a child never inherits a half-done append; what else the child must do (forget the
//! parent's counts, leave the parent's file) it does at its next record, when it sees that `FORKS` has grown.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

use crate::quiet::without_signal;

static WRITING: Mutex<()> = Mutex::new(());
static FORKS: AtomicU64 = AtomicU64::new(0);
static HELD: Held = Held(UnsafeCell::new(None));
static IN_CHILD: OnceLock<fn()> = OnceLock::new();

/// The lock's guard between the handler before a fork and the one after it.
struct Held(UnsafeCell<Option<MutexGuard<'static, ()>>>);

// SAFETY: the cell is touched only by whoever holds `WRITING`: `before` after taking it, `release` before letting go.
unsafe impl Sync for Held {}

/// How many forks lie between this process and the first one that recorded.
#[inline]
pub fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// The right to append; also what a fork waits for.
pub(crate) fn writing() -> MutexGuard<'static, ()> {
    // The lock guards no data of its own, so a panic elsewhere leaves nothing broken behind it.
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn before_fork() {
    let guard = writing();
    // SAFETY: this thread holds `WRITING`, see `Held`.
    unsafe { *HELD.0.get() = Some(guard) };
}

fn release() {
    // SAFETY: the forking thread still holds `WRITING` from `before_fork`; the guard leaves the cell before it unlocks.
    let guard = unsafe { (*HELD.0.get()).take() };
    drop(guard);
}

extern "C" fn after_fork_in_parent() {
    release();
}

extern "C" fn after_fork_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    release();
    if let Some(hook) = IN_CHILD.get() {
        hook();
    }
}

/// Runs `hook` in every child from now on, before the fork returns there; the first one that is given stays. It may only store
/// to atomics.
pub fn on_fork(hook: fn()) {
    watch_forks();
    let _ = IN_CHILD.set(hook);
}

/// Installs the fork handlers, once a process. Without them (no memory) recording works, and forked children may count
/// the parent's last calls again. Called by a library while it is loaded, it comes before every thread and every fork.
pub fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers only take and release a lock and add to an atomic, which is allowed in a forked child.
        unsafe {
            libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child));
        }
    });
}

/// Runs `body` while no fork can happen: what it makes once, no child inherits half made and waits for. It may neither fork
/// nor record, nor call this again.
pub fn without_forks<T>(body: impl FnOnce() -> T) -> T {
    watch_forks();
    let _writing = writing();
    body()
}

/// Runs `hook` at a normal exit of the process.
pub(crate) fn at_exit(hook: extern "C" fn()) {
    // SAFETY: the hook is a plain function of this library, which stays loaded as long as its handlers are registered.
    unsafe {
        libc::atexit(hook);
    }
}

/// One line on stderr by one write: without std's lock on stderr, which a fork may have left locked, without the panic of
/// `eprintln!` where stderr is closed, and without ending the host where nobody reads it any more.
pub fn warn(message: &str) {
    let line = format!("tgemm: {message}\n");
    // SAFETY: pointer and length are of one live string. A failed write has nowhere left to be reported.
    without_signal(libc::SIGPIPE, || unsafe {
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
    });
}
