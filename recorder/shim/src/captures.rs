//! Which problems are in which graph, so that a replay counts as the calls that it repeats.
//!
//! A capture collects the calls made on its streams, under the number that the runtime gives it; where it ends, they belong to
//! the graph; where that is instantiated, to the executable; and each launch of it counts them. Calls of a graph that is
//! launched into another capture belong to that one as well.
//!
//! Of each call it is also known which came before it, and how many nodes of the graph lie between the two: what stands
//! around a product has its effect on the time that it takes. The first call of a graph follows the last of the graph that was
//! launched before. Where a capture has several streams, this is the order in which calls were made.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use tgemm_db::Follows;
use tgemm_recorder::counters::Counter;
use tgemm_recorder::{Asked, Entry, Recorder};

use crate::state::{self, Shim};
use crate::stream::Capture;

/// Most graphs, and most executables, that are known at once; what is made beyond is not counted.
const GRAPHS_MAX: usize = 1 << 16;

/// The calls of a graph.
#[derive(Clone, Default)]
struct Calls {
    /// The first: what it follows is known where the graph is launched.
    first: Option<&'static Entry>,
    /// All others, by what they follow, each with how often it is in there.
    others: Vec<(&'static Entry, u64)>,
    /// The last, and how many nodes the graph had after it.
    last: Option<(&'static Entry, Option<u32>)>,
}

/// Nodes of a graph before something was put into it, and after.
#[derive(Clone, Copy, Default)]
struct Nodes {
    before: Option<u32>,
    after: Option<u32>,
}

impl Nodes {
    fn around(capture: &Capture) -> Nodes {
        Nodes { before: capture.nodes, after: capture.nodes_now() }
    }
}

/// The entry for calls of `entry` that follow those of `last`.
fn follower(
    recorder: &'static Recorder,
    entry: &'static Entry,
    last: &'static Entry,
    nodes_between: Option<u32>,
) -> &'static Entry {
    let follows = Some(Follows { problem: last.asked().problem, nodes_between });
    // Without room for one more they are counted as calls of which nothing else is known.
    recorder.entry(&Asked { follows, ..*entry.asked() }).unwrap_or(entry)
}

impl Calls {
    fn push(&mut self, recorder: &'static Recorder, entry: &'static Entry, nodes: Nodes) {
        match self.last {
            None => self.first = Some(entry),
            Some((last, then)) => {
                let between = nodes.before.zip(then).and_then(|(now, then)| now.checked_sub(then));
                self.add(follower(recorder, entry, last, between), 1);
            }
        }
        self.last = Some((entry, nodes.after));
    }

    /// Puts the calls of a graph in that became part of this one.
    fn append(&mut self, recorder: &'static Recorder, inner: &Calls, nodes: Nodes) {
        let (Some(first), Some((last, _))) = (inner.first, inner.last) else { return };
        self.push(recorder, first, nodes);
        inner.others.iter().for_each(|(entry, times)| self.add(entry, *times));
        self.last = Some((last, nodes.after));
    }

    fn add(&mut self, entry: &'static Entry, times: u64) {
        match self.others.iter_mut().find(|(have, _)| std::ptr::eq(*have, entry)) {
            Some((_, count)) => *count += times,
            None => self.others.push((entry, times)),
        }
    }
}

#[derive(Default)]
struct Known {
    /// By their numbers.
    captures: HashMap<u64, Calls>,
    graphs: HashMap<usize, Arc<Calls>>,
    executables: HashMap<usize, Arc<Calls>>,
    /// The last call of the graph that was launched last.
    last: Option<&'static Entry>,
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

fn with<T>(act: impl FnOnce(&mut Known) -> T) -> T {
    act(KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// Is a capture under way anywhere in the process? One load.
#[inline]
pub fn any() -> bool {
    state::captures().load(Ordering::Relaxed) != 0
}

/// A capture has begun.
pub fn began() {
    state::captures().fetch_add(1, Ordering::Relaxed);
}

/// Notes a call that goes into a capture.
pub fn note(recorder: &'static Recorder, capture: Capture, entry: &'static Entry) {
    let nodes = Nodes::around(&capture);
    with(|known| {
        if known.captures.len() < GRAPHS_MAX || known.captures.contains_key(&capture.id) {
            known.captures.entry(capture.id).or_default().push(recorder, entry, nodes);
        }
    });
}

/// A capture has ended in `graph`, or in nothing.
pub fn ended(capture: Option<Capture>, graph: Option<usize>) {
    let _ = state::captures().fetch_update(Ordering::Relaxed, Ordering::Relaxed, |active| active.checked_sub(1));
    with(|known| {
        let calls = capture.and_then(|capture| known.captures.remove(&capture.id)).unwrap_or_default();
        if let Some(graph) = graph {
            // A number may have been another graph's before.
            known.graphs.remove(&graph);
            if calls.first.is_some() && known.graphs.len() < GRAPHS_MAX {
                known.graphs.insert(graph, Arc::new(calls));
            }
        }
    });
}

/// `executable` was made of `graph`, or brought up to it.
pub fn instantiated(executable: usize, graph: usize) {
    with(|known| match known.graphs.get(&graph).cloned() {
        Some(calls) if known.executables.len() < GRAPHS_MAX => {
            known.executables.insert(executable, calls);
        }
        _ => {
            known.executables.remove(&executable);
        }
    });
}

/// `copy` was made of `graph`.
pub fn copied(copy: usize, graph: usize) {
    with(|known| match known.graphs.get(&graph).cloned() {
        Some(calls) if known.graphs.len() < GRAPHS_MAX => {
            known.graphs.insert(copy, calls);
        }
        _ => {
            known.graphs.remove(&copy);
        }
    });
}

/// `child` was put into `graph`.
pub fn nested(recorder: &'static Recorder, graph: usize, child: usize) {
    with(|known| {
        let Some(inner) = known.graphs.get(&child).cloned() else { return };
        if known.graphs.len() < GRAPHS_MAX {
            let outer = Arc::make_mut(known.graphs.entry(graph).or_default());
            outer.append(recorder, &inner, Nodes::default());
        }
    });
}

/// `graph` is no more.
pub fn graph_gone(graph: usize) {
    with(|known| known.graphs.remove(&graph));
}

/// `executable` is no more.
pub fn executable_gone(executable: usize) {
    with(|known| known.executables.remove(&executable));
}

/// `executable` was launched: into `capture`, or to run.
pub fn launched(shim: &Shim, executable: usize, capture: Option<Capture>) {
    let recorder = shim.recorder;
    let Some(calls) = with(|known| known.executables.get(&executable).cloned()) else { return };
    let (Some(first), Some((last, _))) = (calls.first, calls.last) else { return };
    match capture {
        None => {
            shim.counters.add(Counter::Replayed, 1);
            let before = with(|known| known.last.replace(last));
            recorder.add(before.map_or(first, |before| follower(recorder, first, before, None)), 1, true);
            calls.others.iter().for_each(|(entry, times)| recorder.add(entry, *times, true));
        }
        Some(capture) => {
            let nodes = Nodes::around(&capture);
            with(|known| known.captures.entry(capture.id).or_default().append(recorder, &calls, nodes));
        }
    }
}
