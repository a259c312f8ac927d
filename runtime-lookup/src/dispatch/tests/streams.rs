//! Streams, threads, workspaces and captures.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tgemm_kernels::{Operands, Stream};

use super::toy::{Calls, Fault, Host, MARK, W, build, choice, host, host_with, run, run_on, site, solution, tuned};
use crate::dispatch::*;

fn stream(number: usize) -> Stream {
    Stream(std::ptr::without_provenance_mut(number))
}

/// The prepacked choice at each of `ms`.
fn packing(ms: &[u32], host: &Arc<Host>) -> TunedGemm {
    let rows: Vec<_> = ms.iter().map(|m| choice(*m, host, solution(&build("a"), 1))).collect();
    tuned(host, Database::from_choices(rows, &host.environment))
}

fn warm(plan: &mut Plan, m: u32, on: Stream) -> Result<(), DispatchError> {
    // SAFETY: the weights are as the site says and outlive the plan.
    unsafe { plan.warm(m, W.as_ptr().cast(), on) }
}

fn scratch(calls: &Calls) -> Vec<usize> {
    std::mem::take(&mut *calls.scratch.lock().unwrap())
}

#[test]
fn a_stream_has_one_workspace_that_only_grows_and_is_never_freed() {
    let (host, calls) = host(Fault::None);
    let gemm = packing(&[1, 2], &host);
    let mut plans = [gemm.plan(site()), gemm.plan(site())];
    for (plan, m, on) in [(0, 1, 8), (1, 1, 8), (0, 2, 8), (1, 1, 8), (1, 2, 8), (0, 1, 16)] {
        assert_eq!(run_on(&mut plans[plan], m, &W, stream(on)), Ok(MARK));
    }
    let used = scratch(&calls);
    assert_eq!(used[0], used[1], "plans share it");
    assert_ne!(used[2], used[0], "M = 2 takes more");
    assert_eq!(used[3], used[0], "a plan goes on with what it has: what was outgrown is still there");
    assert_eq!(used[4], used[2]);
    assert!(used[5] != used[2] && used[5] != used[0], "another stream's is its own");
    assert_eq!(host.allocated.load(Ordering::Relaxed), 3);
    assert_eq!(gemm.workspace_bytes(), 64 + 128 + 64);
}

#[test]
fn a_callers_workspace_is_used_where_it_is_large_enough() {
    let (host, calls) = host(Fault::None);
    let gemm = packing(&[1, 2], &host);
    let mut plan = gemm.plan(site());
    let mut mine = [0u64; 8];
    for (m, is_mine) in [(1, true), (2, false)] {
        let (x, mut out) = ([1.0f32; 4], [0.0f32; 6]);
        let io = Operands {
            x: x.as_ptr().cast(),
            w: W.as_ptr().cast(),
            out: out.as_mut_ptr().cast(),
            workspace: mine.as_mut_ptr().cast(),
            workspace_bytes: 64,
            ..Operands::default()
        };
        // SAFETY: all arrays are as large as the site at `m` says.
        unsafe { plan.run(m, &io, stream(8)) }.unwrap();
        assert_eq!(scratch(&calls) == [mine.as_ptr().addr()], is_mine);
    }
}

#[test]
fn what_was_warmed_is_captured_without_an_allocation() {
    let (host, calls) = host(Fault::None);
    let gemm = packing(&[1, 2], &host);
    let mut plan = gemm.plan(site());
    for m in [1, 2, 7] {
        warm(&mut plan, m, stream(8)).unwrap();
    }
    assert_eq!(calls.launched.load(Ordering::Relaxed), 0);
    // The toy's memory panics under a capture.
    host.is_captured.store(true, Ordering::Relaxed);
    for (m, off) in [(1, MARK), (7, 0.0), (2, MARK)] {
        assert_eq!(run_on(&mut plan, m, &W, stream(8)), Ok(off), "M = {m}");
    }
}

#[test]
fn what_would_have_to_be_made_under_a_capture_is_refused() {
    let (host, calls) = host(Fault::None);
    let gemm = packing(&[1, 2], &host);
    let (mut plan, mut unpacked) = (gemm.plan(site()), gemm.plan(site()));
    warm(&mut plan, 1, stream(8)).unwrap();
    warm(&mut plan, 2, stream(9)).unwrap();
    host.is_captured.store(true, Ordering::Relaxed);
    let prepared = calls.prepared.load(Ordering::Relaxed);
    let lacks = |plan: &mut Plan, m, on| match run_on(plan, m, &W, stream(on)) {
        Err(DispatchError::NotWarm { lacks, problem }) => {
            assert_eq!(problem.m(), m);
            lacks
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(lacks(&mut plan, 3, 8), "it was not looked up");
    assert_eq!(lacks(&mut plan, 2, 8), "its stream's workspace is too small");
    assert_eq!(lacks(&mut unpacked, 1, 8), "its weights are not packed");
    assert!(matches!(warm(&mut plan, 4, stream(8)), Err(DispatchError::NotWarm { .. })));
    assert_eq!(calls.prepared.load(Ordering::Relaxed), prepared, "nothing was made ready");
    assert_eq!(calls.launched.load(Ordering::Relaxed), 0);
    host.is_captured.store(false, Ordering::Relaxed);
    for m in [3, 2] {
        assert_eq!(run_on(&mut plan, m, &W, stream(8)).map(drop), Ok(()), "none of it is remembered");
    }
    assert_eq!(run(&mut unpacked, 1, &W), Ok(MARK));
}

#[test]
fn a_refusal_under_a_capture_finds_no_baseline_unless_it_is_ready() {
    let (host, _) = host(Fault::NotEnqueued);
    let gemm = packing(&[1], &host);
    let mut plan = gemm.plan(site());
    warm(&mut plan, 1, stream(8)).unwrap();
    host.is_captured.store(true, Ordering::Relaxed);
    let refused = run_on(&mut plan, 1, &W, stream(8));
    assert!(matches!(refused, Err(DispatchError::NotWarm { lacks: "its baseline is not ready", .. })), "{refused:?}");
    host.is_captured.store(false, Ordering::Relaxed);
    warm(&mut plan, 1, stream(8)).unwrap();
    host.is_captured.store(true, Ordering::Relaxed);
    assert_eq!(run_on(&mut plan, 1, &W, stream(8)), Ok(0.0));
}

#[test]
fn threads_share_what_is_ready_and_never_a_queues_memory() {
    const THREADS: usize = 4;
    let (mut host, calls) = host_with(Fault::None);
    host.by_thread = true;
    let host = Arc::new(host);
    let gemm = packing(&[1], &host);
    let mut travelling = gemm.plan(site());
    assert_eq!(run(&mut travelling, 1, &W), Ok(MARK));
    let here = scratch(&calls)[0];
    let all_there = std::sync::Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let mut plan = gemm.plan(site());
            let all_there = &all_there;
            scope.spawn(move || {
                all_there.wait();
                for _ in 0..50 {
                    assert_eq!(run(&mut plan, 1, &W), Ok(MARK));
                }
                // A thread that has ended may lend its memory: all run until all have.
                all_there.wait();
            });
        }
        scope.spawn(move || assert_eq!(run(&mut travelling, 1, &W), Ok(MARK)));
    });
    let used: BTreeSet<usize> = scratch(&calls).into_iter().collect();
    assert!(used.len() >= THREADS && !used.contains(&here), "{used:?}");
    assert_eq!(calls.prepared.load(Ordering::Relaxed), 1, "once for all of them");
    assert_eq!(gemm.counters().applied.values().sum::<u64>(), 50 * THREADS as u64 + 2);
    assert_eq!(gemm.packed_bytes(), 0, "no plan is left");
}
