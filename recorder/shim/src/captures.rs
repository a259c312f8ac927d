//! Which problems are in which graph, so that a replay counts as the calls that it repeats.
//!
//! A capture collects the calls made on its streams, under the number that the runtime gives it; where it ends, they belong to
//! the graph; where that is instantiated, to the executable; and each launch of it counts them. Calls of a graph that is
//! launched into another capture belong to that one as well.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tgemm_recorder::Entry;
use tgemm_recorder::counters::Counter;

use crate::state::Shim;

/// The number of a capture, as the runtime gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Capture(pub u64);

/// Most graphs, and most executables, that are known at once; what is made beyond is not counted.
const GRAPHS_MAX: usize = 1 << 16;

/// The entries of a graph, each with how often it is in there.
type Calls = Arc<Vec<(&'static Entry, u64)>>;

#[derive(Default)]
struct Known {
    captures: HashMap<Capture, Vec<(&'static Entry, u64)>>,
    graphs: HashMap<usize, Calls>,
    executables: HashMap<usize, Calls>,
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// Captures under way.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);

fn with<T>(act: impl FnOnce(&mut Known) -> T) -> T {
    act(KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

fn add(calls: &mut Vec<(&'static Entry, u64)>, entry: &'static Entry, times: u64) {
    match calls.iter_mut().find(|(have, _)| std::ptr::eq(*have, entry)) {
        Some((_, count)) => *count += times,
        None => calls.push((entry, times)),
    }
}

/// Is a capture under way anywhere in the process? One load.
#[inline]
pub fn any() -> bool {
    ACTIVE.load(Ordering::Relaxed) != 0
}

/// A capture has begun.
pub fn began() {
    ACTIVE.fetch_add(1, Ordering::Relaxed);
}

/// Notes a call that goes into a capture.
pub fn note(capture: Capture, entry: &'static Entry) {
    with(|known| {
        if known.captures.len() < GRAPHS_MAX || known.captures.contains_key(&capture) {
            add(known.captures.entry(capture).or_default(), entry, 1);
        }
    });
}

/// A capture has ended in `graph`, or in nothing.
pub fn ended(capture: Option<Capture>, graph: Option<usize>) {
    let _ = ACTIVE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |active| active.checked_sub(1));
    with(|known| {
        let calls = capture.and_then(|capture| known.captures.remove(&capture)).unwrap_or_default();
        if let Some(graph) = graph {
            // A number may have been another graph's before.
            known.graphs.remove(&graph);
            if !calls.is_empty() && known.graphs.len() < GRAPHS_MAX {
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
pub fn nested(graph: usize, child: usize) {
    with(|known| {
        let Some(inner) = known.graphs.get(&child).cloned() else { return };
        if known.graphs.len() < GRAPHS_MAX {
            let outer = Arc::make_mut(known.graphs.entry(graph).or_default());
            inner.iter().for_each(|(entry, times)| add(outer, entry, *times));
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
    let Some(calls) = with(|known| known.executables.get(&executable).cloned()) else { return };
    match capture {
        None => {
            shim.counters.add(Counter::Replayed, 1);
            calls.iter().for_each(|(entry, times)| shim.recorder.add(entry, *times, true));
        }
        Some(capture) => with(|known| {
            let outer = known.captures.entry(capture).or_default();
            calls.iter().for_each(|(entry, times)| add(outer, entry, *times));
        }),
    }
}
