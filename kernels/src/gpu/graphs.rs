//! Launches captured into graphs, kept while they are needed, and how a block of them is timed.
//!
//! A graph goes once or several times round all turns of an arm, so that replaying it goes on where it ended: no replay
//! finds weights in the cache that another rotation would not. All arms of a block are enqueued before the first has
//! finished, so that the device never idles between them and its clock stays up.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use tgemm_vendor::gpu::{CallError, Handle, Runtime};

use super::between::{Spacer, Spacing};
use super::failed;
use crate::{Arm, Error, Launch, Operands, Stream, Turn};

/// Launches of a graph, where a sample has as many: the gap between two replays (1 to 2 us on an H200) is spread over them.
const LAUNCHES_MIN: usize = 64;

/// Most launches that all graphs together hold, and most graphs: each launch takes some kilobytes of device memory.
const LAUNCHES_KEPT_MAX: usize = 1 << 16;
const GRAPHS_KEPT_MAX: usize = 1024;

/// What makes two captured arms the same: solutions, operands and what comes before each, and how many launches.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    turns: u64,
    launches: usize,
}

struct Kept {
    exec: Handle,
    launches: usize,
    used: u64,
}

/// The graphs of one stream.
#[derive(Default)]
pub(super) struct Graphs {
    kept: HashMap<Key, Kept>,
    /// What stands between launches, without the launches.
    alone: Option<(Vec<Spacing>, Handle)>,
    launches: usize,
    clock: u64,
}

// SAFETY: graph handles may be used from any thread, one at a time.
unsafe impl Send for Graphs {}

/// An arm ready to be timed.
enum Ready {
    /// A graph and how often it is replayed.
    Graph(Handle, usize),
    /// It cannot be captured: one launch after the other.
    Eager,
}

/// Launches of one graph of an arm that goes round so many turns and is to make `calls` launches: whole rounds.
fn launches_of(turns: usize, calls: usize) -> usize {
    let wanted = calls.min(LAUNCHES_MIN.max(turns));
    wanted.div_ceil(turns) * turns
}

/// What `all` repeats from its beginning to its end.
fn period_of<T: PartialEq>(all: &[T]) -> &[T] {
    let repeats = |len: &usize| all.len().is_multiple_of(*len) && all.iter().skip(*len).zip(all).all(|(a, b)| a == b);
    &all[..(1..all.len()).find(repeats).unwrap_or(all.len())]
}

fn hash_of<'a>(turns: impl Iterator<Item = (usize, &'a Operands, Spacing)>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (id, io, before) in turns {
        (id, before).hash(&mut hasher);
        let pointers =
            [io.x, io.w, io.bias, io.x_scale, io.w_scale, io.c, io.out.cast_const(), io.workspace.cast_const()];
        pointers.map(|pointer| pointer as usize).hash(&mut hasher);
        (io.workspace_bytes, io.alpha.to_bits(), io.beta.to_bits()).hash(&mut hasher);
    }
    hasher.finish()
}

fn refused(launch: Launch) -> Error {
    match launch {
        Launch::NotEnqueued(error) | Launch::MayHaveRun(error) => error,
    }
}

/// Where graphs are made and run.
#[derive(Clone, Copy)]
pub(super) struct On<'d> {
    pub(super) runtime: &'d Runtime,
    /// A stream of this runtime's current device, used by nobody else.
    pub(super) stream: Handle,
    /// What stands between launches, where there is something to be had.
    pub(super) spacer: Option<&'d Spacer>,
}

impl On<'_> {
    /// Captures what `enqueue` enqueues; the outer error is the device's, the inner one says that it cannot be captured.
    fn capture(self, enqueue: impl FnOnce() -> Result<(), String>) -> Result<Result<Handle, String>, Error> {
        let On { runtime, stream, .. } = self;
        // SAFETY: the stream is ours.
        unsafe { runtime.begin_capture(stream) }.map_err(failed)?;
        let enqueued = enqueue();
        // SAFETY: a capture is under way; it must be ended whatever happened.
        let ended = unsafe { runtime.end_capture(stream) };
        Ok(match (enqueued, ended) {
            (Ok(()), Ok(exec)) => Ok(exec),
            (Ok(()), Err(error)) => Err(error.to_string()),
            (Err(refusal), ended) => {
                if let Ok(exec) = ended {
                    self.destroy(exec);
                }
                Err(refusal)
            }
        })
    }

    /// Captures `launches` launches of `arm`, with what comes before each turn.
    ///
    /// # Safety
    /// As [`crate::Context::time`].
    unsafe fn capture_arm(
        self,
        arm: &Arm<'_>,
        launches: usize,
        before: &[Spacing],
    ) -> Result<Result<Handle, String>, Error> {
        self.capture(|| {
            let turns = arm.turns.iter().zip(before).cycle();
            turns.take(launches).try_for_each(|(turn, before)| {
                self.enqueue_before(*before)?;
                // SAFETY: the contract of this method.
                unsafe { turn.launch(Stream(self.stream)) }.map_err(|launch| refused(launch).to_string())
            })
        })
    }

    /// What comes before each turn of `arm`.
    fn spacings(self, arm: &Arm<'_>) -> Result<Vec<Spacing>, Error> {
        let spacing = |turn: &Turn<'_>| {
            self.spacer.map_or(Ok(Spacing::default()), |spacer| spacer.spacing(self.runtime, turn.before))
        };
        arm.turns.iter().map(spacing).collect()
    }

    fn enqueue_before(self, spacing: Spacing) -> Result<(), String> {
        let Some(spacer) = self.spacer else { return Ok(()) };
        // SAFETY: the stream is of the device that the kernels were made on.
        unsafe { spacer.launch(self.runtime, self.stream, spacing) }.map_err(|error| error.to_string())
    }

    /// Frees a graph that is used no more; a replay under way keeps what it needs.
    fn destroy(self, exec: Handle) {
        // SAFETY: the graph is ours.
        let _ = unsafe { self.runtime.table().exec_destroy(exec) };
    }
}

/// Can `arm` be captured?
///
/// # Safety
/// As [`crate::Context::time`].
pub(super) unsafe fn is_capturable(runtime: &Runtime, stream: Handle, arm: &Arm<'_>) -> Result<bool, Error> {
    let on = On { runtime, stream, spacer: None };
    // SAFETY: the contract of this function.
    let captured = unsafe { on.capture_arm(arm, 1, &[Spacing::default()]) }?;
    let Ok(exec) = captured else { return Ok(false) };
    // SAFETY: the graph is ours; its launch has the operands that the caller vouches for.
    let ran = unsafe {
        let ran = runtime.table().graph_launch(exec, stream);
        ran.and(runtime.table().stream_synchronize(stream))
    };
    on.destroy(exec);
    ran.map_err(failed)?;
    Ok(true)
}

impl Graphs {
    /// # Safety
    /// As [`crate::Context::time`].
    unsafe fn ready(&mut self, on: On<'_>, arm: &Arm<'_>) -> Result<Ready, Error> {
        let (turns, calls) = (arm.turns.len(), arm.calls as usize);
        if turns == 0 || calls == 0 {
            return Err(Error::Failed { call: "time".into(), reason: "an arm without operands or calls".into() });
        }
        let launches = launches_of(turns, calls);
        let before = on.spacings(arm)?;
        let hash = hash_of(arm.turns.iter().zip(&before).map(|(turn, before)| (turn.id, &turn.io, *before)));
        let key = Key { turns: hash, launches };
        self.clock += 1;
        let exec = match self.kept.get_mut(&key) {
            Some(kept) => {
                kept.used = self.clock;
                kept.exec
            }
            None => {
                // SAFETY: the contract of this method.
                match unsafe { on.capture_arm(arm, launches, &before) }? {
                    Ok(exec) => {
                        self.keep(on, key, exec);
                        exec
                    }
                    Err(_) => return Ok(Ready::Eager),
                }
            }
        };
        Ok(Ready::Graph(exec, calls.div_ceil(launches)))
    }

    /// A graph of nothing but what stands between launches, and of how many; `None` where nothing does.
    fn ready_between(&mut self, on: On<'_>, block: &[Arm<'_>]) -> Result<Option<(Handle, usize)>, Error> {
        let Some(arm) = block.first() else { return Ok(None) };
        let all = on.spacings(arm)?;
        if all.iter().all(|spacing| spacing.kernels == 0) {
            return Ok(None);
        }
        let spacings = period_of(&all);
        let launches = launches_of(spacings.len(), LAUNCHES_MIN);
        if let Some((_, exec)) = self.alone.take_if(|(known, _)| known != spacings) {
            on.destroy(exec);
        }
        if let Some((_, exec)) = &self.alone {
            return Ok(Some((*exec, launches)));
        }
        let mut turns = spacings.iter().cycle().take(launches);
        let captured = on.capture(|| turns.try_for_each(|spacing| on.enqueue_before(*spacing)))?;
        let exec = captured.map_err(|reason| Error::Failed { call: "capture what stands between".into(), reason })?;
        self.alone = Some((spacings.to_vec(), exec));
        Ok(Some((exec, launches)))
    }

    fn keep(&mut self, on: On<'_>, key: Key, exec: Handle) {
        // The newest are those of the block in hand: a block never has so many that they would push each other out.
        while self.kept.len() >= GRAPHS_KEPT_MAX || self.launches + key.launches > LAUNCHES_KEPT_MAX {
            let Some(oldest) = self.kept.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| *key) else { break };
            self.forget(on, oldest);
        }
        self.launches += key.launches;
        self.kept.insert(key, Kept { exec, launches: key.launches, used: self.clock });
    }

    fn forget(&mut self, on: On<'_>, key: Key) {
        if let Some(kept) = self.kept.remove(&key) {
            self.launches -= kept.launches;
            on.destroy(kept.exec);
        }
    }

    /// Frees every graph.
    pub(super) fn clear(&mut self, on: On<'_>) {
        let keys: Vec<Key> = self.kept.keys().copied().collect();
        keys.into_iter().for_each(|key| self.forget(on, key));
        if let Some((_, exec)) = self.alone.take() {
            on.destroy(exec);
        }
    }

    /// Times each arm of `block`: mean microseconds a call. What comes before turns is the same in all of them.
    ///
    /// # Safety
    /// As [`crate::Context::time`]; `events` are events of this runtime, two more than there are arms.
    pub(super) unsafe fn time(&mut self, on: On<'_>, events: &[Handle], block: &[Arm<'_>]) -> Result<Vec<f64>, Error> {
        let mut ready = Vec::with_capacity(block.len());
        for arm in block {
            // SAFETY: the contract of this method.
            ready.push(unsafe { self.ready(on, arm) }?);
        }
        let between = self.ready_between(on, block)?;
        let (Some(first), Some(arm)) = (ready.first(), block.first()) else { return Ok(Vec::new()) };
        // Untimed: wakes the device, and leaves the cache as every later arm finds it.
        // SAFETY: the contract of this method.
        unsafe { run(on, first, arm) }?;
        let table = on.runtime.table();
        let record = |event: Handle| {
            // SAFETY: event and stream are this context's own.
            unsafe { table.event_record(event, on.stream) }.map_err(failed)
        };
        record(events[0])?;
        let mut launched = Vec::with_capacity(block.len());
        for ((ready, arm), event) in ready.iter().zip(block).zip(&events[1..]) {
            // SAFETY: the contract of this method.
            launched.push(unsafe { run(on, ready, arm) }?);
            record(*event)?;
        }
        if let Some((exec, _)) = between {
            // SAFETY: the graph is kept; it has no operands but its own.
            unsafe { table.graph_launch(exec, on.stream) }.map_err(failed)?;
            record(events[block.len() + 1])?;
        }
        // SAFETY: the stream is this context's own.
        unsafe { table.stream_synchronize(on.stream) }.map_err(failed)?;
        let elapsed_us = |pair: &[Handle]| {
            let mut ms = 0f32;
            // SAFETY: both events were recorded, and the stream has passed them.
            unsafe { table.event_elapsed(&raw mut ms, pair[0], pair[1]) }.map_err(failed)?;
            Ok::<_, Error>(f64::from(ms) * 1e3)
        };
        let between_us = match between {
            Some((_, launches)) => elapsed_us(&events[block.len()..])? / launches as f64,
            None => 0.0,
        };
        let mut times_us = Vec::with_capacity(block.len());
        for ((pair, count), ready) in events.windows(2).zip(launched).zip(&ready) {
            let each_us = elapsed_us(pair)? / count as f64;
            times_us.push(match ready {
                Ready::Graph(..) => each_us - between_us,
                Ready::Eager => each_us,
            });
        }
        if between.is_some() && times_us.iter().any(|us| *us <= 0.0) {
            return Err(Error::Disturbed("launches took no longer than what stands between them".into()));
        }
        Ok(times_us)
    }
}

/// Enqueues an arm; how many launches that were.
///
/// # Safety
/// As [`crate::Context::time`].
unsafe fn run(on: On<'_>, ready: &Ready, arm: &Arm<'_>) -> Result<usize, Error> {
    match ready {
        Ready::Graph(exec, replays) => {
            for _ in 0..*replays {
                // SAFETY: the graph is kept; its launches have the operands that the caller vouches for.
                unsafe { on.runtime.table().graph_launch(*exec, on.stream) }.map_err(failed)?;
            }
            let launches = launches_of(arm.turns.len(), arm.calls as usize);
            Ok(launches * replays)
        }
        Ready::Eager => {
            let calls = arm.calls as usize;
            for at in 0..calls {
                let turn = &arm.turns[(arm.start + at) % arm.turns.len()];
                // SAFETY: the contract of this function.
                unsafe { turn.launch(Stream(on.stream)) }.map_err(refused)?;
            }
            Ok(calls)
        }
    }
}

/// Frees `events`.
pub(super) fn destroy_events(runtime: &Runtime, events: &[Handle]) {
    for event in events {
        // SAFETY: the event is ours and used no more.
        let _: Result<(), CallError> = unsafe { runtime.table().event_destroy(*event) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_go_round_whole_rotations() {
        assert_eq!(launches_of(1, 1), 1);
        assert_eq!(launches_of(3, 1), 3);
        assert_eq!(launches_of(3, 2000), 66);
        assert_eq!(launches_of(360, 2000), 360);
        assert_eq!(launches_of(48, 2000), 96);
        assert_eq!(launches_of(1, 10), 10);
        for turns in 1..200 {
            for calls in [1, 5, 64, 500] {
                let launches = launches_of(turns, calls);
                assert!(launches.is_multiple_of(turns) && launches >= calls.min(LAUNCHES_MIN), "{turns} {calls}");
                assert!(launches < calls.min(LAUNCHES_MIN.max(turns)) + turns);
            }
        }
    }

    #[test]
    fn other_operands_are_another_graph() {
        let io = Operands::default();
        let other = Operands { workspace_bytes: 1, ..io };
        let after = |turns: &[(usize, Operands)], before| hash_of(turns.iter().map(|(id, io)| (*id, io, before)));
        let hash = |turns: &[(usize, Operands)]| after(turns, Spacing::default());
        assert_eq!(hash(&[(1, io), (1, io)]), hash(&[(1, io), (1, io)]));
        assert_ne!(hash(&[(1, io), (1, io)]), hash(&[(1, io), (1, other)]));
        assert_ne!(hash(&[(1, io)]), hash(&[(1, io), (1, io)]));
        assert_ne!(hash(&[(1, io), (2, io)]), hash(&[(2, io), (1, io)]));
        assert_ne!(hash(&[(1, io)]), after(&[(1, io)], Spacing { kernels: 1, walk: None }));
    }

    #[test]
    fn what_repeats_is_looked_at_once() {
        assert_eq!(period_of(&[1, 1, 1, 1]), [1]);
        assert_eq!(period_of(&[1, 2, 1, 2]), [1, 2]);
        assert_eq!(period_of(&[1, 2, 1]), [1, 2, 1]);
        assert_eq!(period_of(&[1, 2, 1, 1, 2, 2]), [1, 2, 1, 1, 2, 2]);
        assert_eq!(period_of::<u8>(&[]), [0u8; 0]);
    }
}
