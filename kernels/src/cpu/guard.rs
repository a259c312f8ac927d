//! No panic of somebody else's code may cross into the caller: a serving engine would lose a request to a bounds check.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::Error;

/// Runs `call`, and makes a panic inside an [`Error::Failed`] under that name.
///
/// What the closure wrote before a panic is not to be trusted: outputs and workspaces only, which the caller knows.
pub(crate) fn guard<T>(call: &str, body: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        Err(Error::Failed { call: call.to_owned(), reason: format!("panic: {}", text(&*panic)) })
    })
}

fn text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_with_its_message() {
        let error = guard::<()>("sgemm", || panic!("index {} of 2", 3)).unwrap_err();
        assert_eq!(error.to_string(), "sgemm failed: panic: index 3 of 2");
        assert_eq!(guard("sgemm", || Ok(7)), Ok(7));
    }
}
