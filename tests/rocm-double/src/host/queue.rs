//! Streams, events, capture and graphs.

use std::cell::Cell;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use super::{Host, ILLEGAL_STATE, INVALID_HANDLE, INVALID_VALUE, Work};
use crate::abi::Answer;
use crate::trace::How;

/// `hipErrorStreamCaptureUnsupported`, `…Invalidated`, `…Implicit`, `hipErrorCapturedEvent`, `…WrongThread`.
const CAPTURE_UNSUPPORTED: i32 = 900;
const CAPTURE_INVALIDATED: i32 = 901;
const CAPTURE_IMPLICIT: i32 = 906;
const CAPTURED_EVENT: i32 = 907;
const CAPTURE_WRONG_THREAD: i32 = 908;
/// `hipErrorGraphExecUpdateFailure`.
const EXEC_UPDATE_FAILED: i32 = 910;
/// `hipErrorNotReady`.
const NOT_READY: i32 = 600;

/// `hipStreamCaptureMode`: global 0, thread-local 1, relaxed 2.
const MODE_GLOBAL: i32 = 0;
const MODE_RELAXED: i32 = 2;

thread_local! {
    /// What captures keep this thread from: everything that could wait or allocate, unless it asked to be let.
    static THREAD_MODE: Cell<i32> = const { Cell::new(MODE_GLOBAL) };
}

/// Sets this thread's mode; the old one, or `None` if there is no such mode.
pub fn exchange_thread_mode(mode: i32) -> Option<i32> {
    (MODE_GLOBAL..=MODE_RELAXED).contains(&mode).then(|| THREAD_MODE.replace(mode))
}

/// `hipEventDisableTiming`.
const EVENT_DISABLE_TIMING: u32 = 2;

/// A queue.
#[derive(Debug, Default)]
pub struct Stream {
    pub clock_us: f64,
    pub is_hung: bool,
    non_blocking: bool,
    capture: Option<Capture>,
}

#[derive(Debug)]
struct Capture {
    mode: i32,
    /// None other of this process has it.
    id: u64,
    thread: ThreadId,
    nodes: Vec<Work>,
    is_valid: bool,
}

/// A point in a queue.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    is_timed: bool,
    is_captured: bool,
    recorded: Option<Recorded>,
}

#[derive(Clone, Copy, Debug)]
struct Recorded {
    stream: usize,
    at_us: f64,
    is_behind_hang: bool,
}

/// The default stream has three names: null, `hipStreamLegacy`, `hipStreamPerThread`.
fn named(stream: usize) -> usize {
    if stream <= 2 { 0 } else { stream }
}

impl Host {
    pub fn stream_create(&mut self, flags: u32) -> Result<usize, i32> {
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        let handle = self.handle();
        self.streams.insert(handle, Stream { non_blocking: flags == 1, ..Stream::default() });
        Ok(handle)
    }

    pub fn stream_destroy(&mut self, stream: usize) -> Answer {
        match named(stream) {
            0 => Err(INVALID_HANDLE),
            stream => self.streams.remove(&stream).map(|_| ()).ok_or(INVALID_HANDLE),
        }
    }

    pub(super) fn stream(&mut self, stream: usize) -> Result<&mut Stream, i32> {
        self.streams.get_mut(&named(stream)).ok_or(INVALID_HANDLE)
    }

    /// 0 no, 1 yes, 2 yes but spoilt.
    pub fn capture_status(&mut self, stream: usize) -> Result<i32, i32> {
        Ok(self.stream(stream)?.capture.as_ref().map_or(0, |capture| if capture.is_valid { 1 } else { 2 }))
    }

    /// As above, and the number of the capture.
    pub fn capture_info(&mut self, stream: usize) -> Result<(i32, Option<u64>), i32> {
        let id = self.stream(stream)?.capture.as_ref().map(|capture| capture.id);
        Ok((self.capture_status(stream)?, id))
    }

    /// Nodes of a graph, or of the capture that the stream of that name is in: handles are never both.
    pub fn node_count(&self, graph: usize) -> Result<usize, i32> {
        let captured = self.streams.get(&named(graph)).and_then(|stream| stream.capture.as_ref());
        let nodes =
            captured.map(|capture| capture.nodes.len()).or_else(|| self.graphs.get(&graph).map(|all| all.len()));
        nodes.ok_or(INVALID_VALUE)
    }

    /// Spoils the capture of a stream.
    pub(super) fn spoil(&mut self, stream: usize) {
        if let Ok(Stream { capture: Some(capture), .. }) = self.stream(stream) {
            capture.is_valid = false;
        }
    }

    /// Is a call allowed that could wait for the device or allocate? While a stream is captured it is not, and spoils the
    /// capture: in global mode whoever calls, in thread-local mode if the capturing thread does; a relaxed thread may.
    pub fn may_block(&mut self) -> Answer {
        self.alive()?;
        if THREAD_MODE.get() == MODE_RELAXED {
            return Ok(());
        }
        let here = thread::current().id();
        let mut answer = Ok(());
        for capture in self.streams.values_mut().filter_map(|stream| stream.capture.as_mut()) {
            if capture.mode == MODE_GLOBAL || (capture.mode != MODE_RELAXED && capture.thread == here) {
                capture.is_valid = false;
                answer = Err(CAPTURE_UNSUPPORTED);
            }
        }
        answer
    }

    /// As above for calls that use the default stream, which blocking streams wait for.
    pub fn may_use_default_stream(&mut self) -> Answer {
        self.alive()?;
        let blocking = |stream: &&mut Stream| stream.capture.is_some() && !stream.non_blocking;
        if let Some(capture) = self.streams.values_mut().find(blocking).and_then(|stream| stream.capture.as_mut()) {
            capture.is_valid = false;
            return Err(CAPTURE_IMPLICIT);
        }
        self.may_block()
    }

    /// Waits for a stream; for ever if it hangs.
    pub fn synchronize(&mut self, stream: usize) -> Answer {
        self.alive()?;
        if self.stream(stream)?.capture.is_some() {
            self.spoil(stream);
            return Err(CAPTURE_UNSUPPORTED);
        }
        self.may_block()?;
        if self.stream(stream)?.is_hung {
            hang();
        }
        Ok(())
    }

    /// Waits for all streams.
    pub fn synchronize_all(&mut self) -> Answer {
        self.may_use_default_stream()?;
        if self.streams.values().any(|stream| stream.is_hung) {
            hang();
        }
        Ok(())
    }

    pub fn event_create(&mut self, flags: u32) -> usize {
        let handle = self.handle();
        let is_timed = flags & EVENT_DISABLE_TIMING == 0;
        self.events.insert(handle, Event { is_timed, is_captured: false, recorded: None });
        handle
    }

    pub fn event_destroy(&mut self, event: usize) -> Answer {
        self.events.remove(&event).map(|_| ()).ok_or(INVALID_HANDLE)
    }

    pub fn event_record(&mut self, event: usize, stream: usize) -> Answer {
        self.alive()?;
        let on = self.stream(stream)?;
        let is_captured = on.capture.is_some();
        let recorded = (!is_captured).then_some(Recorded {
            stream: named(stream),
            at_us: on.clock_us,
            is_behind_hang: on.is_hung,
        });
        let event = self.events.get_mut(&event).ok_or(INVALID_HANDLE)?;
        (event.is_captured, event.recorded) = (is_captured, recorded);
        Ok(())
    }

    pub fn event_synchronize(&mut self, event: usize) -> Answer {
        self.alive()?;
        let event = *self.events.get(&event).ok_or(INVALID_HANDLE)?;
        match event.recorded {
            _ if event.is_captured => Err(CAPTURED_EVENT),
            Some(recorded) => {
                self.may_block()?;
                if recorded.is_behind_hang && self.stream(recorded.stream).is_ok_and(|stream| stream.is_hung) {
                    hang();
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// 600 while a hang is before it.
    pub fn event_query(&self, event: usize) -> Answer {
        self.alive()?;
        let event = self.events.get(&event).ok_or(INVALID_HANDLE)?;
        match event.recorded {
            _ if event.is_captured => Err(CAPTURED_EVENT),
            Some(recorded) if recorded.is_behind_hang => Err(NOT_READY),
            _ => Ok(()),
        }
    }

    /// Milliseconds.
    pub fn elapsed_ms(&self, start: usize, end: usize) -> Result<f32, i32> {
        self.alive()?;
        let timed = |event: usize| {
            let event = self.events.get(&event).filter(|event| event.is_timed && !event.is_captured);
            event.and_then(|event| event.recorded).ok_or(INVALID_HANDLE)
        };
        let (start, end) = (timed(start)?, timed(end)?);
        if start.is_behind_hang || end.is_behind_hang {
            return Err(NOT_READY);
        }
        Ok(((end.at_us - start.at_us) / 1e3) as f32)
    }

    pub fn capture_begin(&mut self, stream: usize, mode: i32) -> Answer {
        self.alive()?;
        if !(0..=2).contains(&mode) {
            return Err(INVALID_VALUE);
        }
        if named(stream) == 0 {
            return Err(CAPTURE_UNSUPPORTED);
        }
        let id = self.captures + 1;
        let on = self.stream(stream)?;
        if on.capture.is_some() {
            return Err(ILLEGAL_STATE);
        }
        on.capture = Some(Capture { mode, id, thread: thread::current().id(), nodes: Vec::new(), is_valid: true });
        self.captures = id;
        Ok(())
    }

    /// The graph. The capture is over whatever the answer, save on the wrong thread.
    pub fn capture_end(&mut self, stream: usize) -> Result<usize, i32> {
        let on = self.stream(stream)?;
        let Some(capture) = on.capture.take() else { return Err(ILLEGAL_STATE) };
        if capture.mode != MODE_RELAXED && capture.thread != thread::current().id() {
            on.capture = Some(capture);
            return Err(CAPTURE_WRONG_THREAD);
        }
        if !capture.is_valid {
            return Err(CAPTURE_INVALIDATED);
        }
        let handle = self.handle();
        self.graphs.insert(handle, Arc::new(capture.nodes));
        Ok(handle)
    }

    pub fn graph_instantiate(&mut self, graph: usize) -> Result<usize, i32> {
        self.alive()?;
        let nodes = self.graphs.get(&graph).cloned().ok_or(INVALID_VALUE)?;
        let handle = self.handle();
        self.execs.insert(handle, nodes);
        Ok(handle)
    }

    pub fn graph_clone(&mut self, graph: usize) -> Result<usize, i32> {
        let nodes = self.graphs.get(&graph).cloned().ok_or(INVALID_VALUE)?;
        let handle = self.handle();
        self.graphs.insert(handle, nodes);
        Ok(handle)
    }

    /// Puts all of `child` behind what `graph` holds; a handle of it.
    pub fn graph_nest(&mut self, graph: usize, child: usize) -> Result<usize, i32> {
        let inner = self.graphs.get(&child).cloned().ok_or(INVALID_VALUE)?;
        let outer = self.graphs.get_mut(&graph).ok_or(INVALID_VALUE)?;
        Arc::make_mut(outer).extend_from_slice(&inner);
        Ok(self.handle())
    }

    /// Brings an executable up to `graph`. A graph of another number of nodes does not fit.
    pub fn exec_update(&mut self, exec: usize, graph: usize) -> Answer {
        let nodes = self.graphs.get(&graph).cloned().ok_or(INVALID_VALUE)?;
        let have = self.execs.get_mut(&exec).ok_or(INVALID_VALUE)?;
        if have.len() != nodes.len() {
            return Err(EXEC_UPDATE_FAILED);
        }
        *have = nodes;
        Ok(())
    }

    pub fn graph_destroy(&mut self, graph: usize) -> Answer {
        self.graphs.remove(&graph).map(|_| ()).ok_or(INVALID_VALUE)
    }

    pub fn exec_destroy(&mut self, exec: usize) -> Answer {
        self.execs.remove(&exec).map(|_| ()).ok_or(INVALID_VALUE)
    }

    /// Runs all nodes, in the order in which they were captured.
    pub fn graph_launch(&mut self, exec: usize, stream: usize) -> Answer {
        self.alive()?;
        let nodes = self.execs.get(&exec).cloned().ok_or(INVALID_VALUE)?;
        let gap_us = self.replay_gap_us;
        self.stream(stream)?;
        if self.note(stream, &nodes)? {
            return Ok(());
        }
        self.stream(stream)?.clock_us += gap_us;
        for node in nodes.iter() {
            self.run(stream, node, How::Replayed);
        }
        Ok(())
    }

    /// If the stream is captured, the work becomes nodes of its graph.
    fn note(&mut self, stream: usize, work: &[Work]) -> Result<bool, i32> {
        match &mut self.stream(stream)?.capture {
            None => Ok(false),
            Some(capture) if !capture.is_valid => Err(CAPTURE_INVALIDATED),
            Some(capture) => {
                capture.nodes.extend_from_slice(work);
                Ok(true)
            }
        }
    }

    /// Runs `work`, or makes it a node.
    pub fn enqueue(&mut self, stream: usize, work: &Work) -> Answer {
        self.alive()?;
        if self.note(stream, std::slice::from_ref(work))? {
            self.traced(stream, work, How::Captured, 0.0);
        } else {
            let gap_us = self.launch_gap_us;
            self.stream(stream)?.clock_us += gap_us;
            self.run(stream, work, How::Eager);
        }
        Ok(())
    }
}

/// Never returns, holding the state as a hung driver would; only a signal ends it.
fn hang() -> ! {
    loop {
        thread::park();
    }
}
