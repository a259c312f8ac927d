//! Where a prepared solution is launched: a device of this process, whoever opened it.

use tgemm_db::Environment;

use crate::{Buffer, Error, Library, Stream};

/// A device and its libraries, as much of them as launching takes.
pub trait Backend: Send + Sync {
    /// Device, builds, driver and variables.
    fn environment(&self) -> &Environment;

    /// Every library that could be opened.
    fn libraries(&self) -> &[Box<dyn Library>];

    /// Device memory, aligned to 64 bytes or better, contents undefined.
    fn alloc(&self, bytes: usize) -> Result<Buffer, Error>;

    /// Waits until everything enqueued has finished.
    fn synchronize(&self) -> Result<(), Error>;

    /// Is `stream` being captured into a graph? Nothing may be allocated for it then. Also where its runtime will not say.
    fn is_capturing(&self, stream: Stream) -> bool {
        let _ = stream;
        false
    }

    /// The queue that a launch into `stream` from this thread joins.
    fn queue(&self, stream: Stream) -> Queue {
        Queue::of(stream)
    }
}

/// What runs one launch after the other: launches into one queue may share their scratch memory.
///
/// A stream's handle does not say it alone: a CPU's launches run on their own threads, and GPU runtimes have one handle that
/// stands for a stream of each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    stream: usize,
    thread: usize,
}

impl Queue {
    /// A stream that is the same from every thread.
    pub fn of(stream: Stream) -> Queue {
        Queue { stream: stream.0.addr(), thread: 0 }
    }

    /// This thread itself, whose launches are over when they return: a thread that starts later may be taken for one that has
    /// ended, whose memory it then goes on with.
    pub fn of_this_thread() -> Queue {
        thread_local!(static PLACE: u8 = const { 0 });
        Queue { stream: 0, thread: PLACE.with(|place| std::ptr::from_ref(place).addr()) }
    }

    /// A stream of this thread alone, whose launches may outlive it: no later thread is taken for this one.
    pub fn of_this_threads(stream: Stream) -> Queue {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed));
        Queue { stream: stream.0.addr(), thread: NUMBER.with(|number| *number) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_a_stream_but_not_their_own() {
        let stream = Stream(std::ptr::without_provenance_mut(2));
        let all = || (Queue::of(Stream(std::ptr::without_provenance_mut(2))), Queue::of_this_thread());
        let here = (Queue::of(stream), Queue::of_this_thread(), Queue::of_this_threads(stream));
        assert_eq!(here, (Queue::of(stream), Queue::of_this_thread(), Queue::of_this_threads(stream)));
        let there = std::thread::spawn(move || {
            (all().0, all().1, Queue::of_this_threads(Stream(std::ptr::without_provenance_mut(2))))
        });
        let there = there.join().unwrap();
        assert_eq!(here.0, there.0);
        assert_ne!(here.1, there.1);
        assert_ne!(here.2, there.2);
        assert_ne!(here.2, Queue::of_this_threads(Stream(std::ptr::without_provenance_mut(3))));
    }
}
