//! How a call went: a status, and a text for a person.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a call went. Negative values are failures: nothing was done (but for TGEMM_STATUS_MAY_HAVE_RUN), and
/// tgemm_last_error() says why.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TgemmStatus {
    /// Done.
    Ok = 0,
    /// A pointer that must not be NULL is.
    Null = -1,
    /// A structure's `size` is none that this library knows, or bytes that it does not know are not zero; or a pointer to a
    /// structure is not aligned.
    Size = -2,
    /// A value is out of its range, or values do not go together.
    Value = -3,
    /// A text is not UTF-8.
    Utf8 = -4,
    /// A text is no key of a problem.
    Key = -5,
    /// It is right, and this interface has no way to say it.
    Unsupported = -6,
    /// The caller's buffer is too small; `needed` says how many bytes it takes.
    Buffer = -7,
    /// A file cannot be read or written.
    Io = -8,
    /// There is no more room for it.
    Full = -9,
    /// The device, its runtime or one of its libraries failed; from a run: nothing was started.
    Device = -10,
    /// The stream is being captured into a graph, and something is not ready that tgemm_plan_warm makes ready; nothing was
    /// started.
    NotWarm = -11,
    /// A product was started and failed: its output is not to be trusted, and nothing was run instead.
    MayHaveRun = -12,
    /// A defect of this library; the handles that were passed should be closed.
    Panic = -100,
}

/// Why a call failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: TgemmStatus,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(status: TgemmStatus, text: impl Into<String>) -> Failure {
        Failure { status, text: text.into() }
    }

    pub(crate) fn null(what: &str) -> Failure {
        Failure::new(TgemmStatus::Null, format!("{what} is NULL"))
    }

    pub(crate) fn value(text: impl Into<String>) -> Failure {
        Failure::new(TgemmStatus::Value, text)
    }

    /// Keeps the text for [`tgemm_last_error`].
    fn tell(self) -> TgemmStatus {
        // A thread that ends has no place for it any more.
        let _ = LAST.try_with(|last| {
            let text = CString::new(self.text.replace('\0', "?")).unwrap_or_default();
            if let Ok(mut last) = last.try_borrow_mut() {
                *last = text;
            }
        });
        self.status
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Runs the body of an exported function: nothing unwinds into C, and a failure is kept for [`tgemm_last_error`].
pub(crate) fn guarded(work: impl FnOnce() -> Result<(), Failure>) -> TgemmStatus {
    // What a panic left half done is behind the caller's handle, which the status tells them to close.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => TgemmStatus::Ok,
        Ok(Err(failure)) => failure.tell(),
        Err(payload) => {
            let said = payload.downcast_ref::<&str>().copied();
            let said = said.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text");
            let status = Failure::new(TgemmStatus::Panic, format!("a defect of tgemm: {said}")).tell();
            // Whatever it is, dropping it might panic once more.
            std::mem::forget(payload);
            status
        }
    }
}

/// Why the last call on this thread that failed did so: one text for a person, never NULL, empty if none failed. It is
/// valid until the next call on this thread fails or the thread ends; calls that succeed leave it alone.
#[unsafe(no_mangle)]
pub extern "C" fn tgemm_last_error() -> *const c_char {
    let text = LAST.try_with(|last| last.try_borrow().map(|text| text.as_ptr()).unwrap_or(c"".as_ptr()));
    text.unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn last() -> String {
        // SAFETY: never NULL, and no call fails on this thread before it is copied.
        unsafe { CStr::from_ptr(tgemm_last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn failures_are_kept_by_thread_and_panics_end_here() {
        assert_eq!(last(), "");
        assert_eq!(guarded(|| Err(Failure::value("a\0b"))), TgemmStatus::Value);
        assert_eq!(last(), "a?b");
        assert_eq!(guarded(|| Ok(())), TgemmStatus::Ok);
        assert_eq!(last(), "a?b");
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let at = |place: usize| ["a"][place];
        let literal = guarded(|| panic!("on purpose"));
        let said = last();
        let formatted = guarded(|| Err(Failure::value(at(std::hint::black_box(7)))));
        std::panic::set_hook(hook);
        assert_eq!((literal, formatted), (TgemmStatus::Panic, TgemmStatus::Panic));
        assert_eq!(said, "a defect of tgemm: on purpose");
        assert!(last().contains("out of bounds"), "{}", last());
        assert_eq!(std::thread::spawn(last).join().unwrap(), "");
    }
}
