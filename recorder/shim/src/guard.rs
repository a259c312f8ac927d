//! One call of the host is one call here: what a vendor library calls by itself while it works is part of its work.

use crate::thread::of_this_thread;

/// This thread is inside of a hooked call, until this is dropped.
pub struct Inside(());

/// Marks this thread as inside; `None` if it is already.
#[inline]
pub fn enter() -> Option<Inside> {
    if of_this_thread().inside.replace(true) { None } else { Some(Inside(())) }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        of_this_thread().inside.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_outermost_call_enters() {
        let outer = enter();
        assert!(outer.is_some());
        assert!(enter().is_none());
        assert!(enter().is_none(), "a refused one does not open the door");
        drop(outer);
        assert!(enter().is_some());
        std::thread::spawn(|| assert!(enter().is_some())).join().unwrap();
    }
}
