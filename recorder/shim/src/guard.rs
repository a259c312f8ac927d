//! One call of the host is one call here: what a vendor library calls by itself while it works is part of its work.

use std::cell::Cell;

thread_local! {
    // Without a destructor, so that it can be had while a thread is ending.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// This thread is inside of a hooked call, until this is dropped.
pub struct Inside(());

/// Marks this thread as inside; `None` if it is already.
#[inline]
pub fn enter() -> Option<Inside> {
    INSIDE.with(|inside| if inside.replace(true) { None } else { Some(Inside(())) })
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        INSIDE.with(|inside| inside.set(false));
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
