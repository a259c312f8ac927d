//! What runs, what falls back, and what is counted.

mod streams;
mod toy;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tgemm_db::WeightForm;
use tgemm_kernels::Stream;

use super::*;
use toy::{Fault, MARK, W, build, choice, host, host_with, run, site, solution, tuned};

#[test]
fn a_hit_runs_the_choice_and_packs_once_for_all_m() {
    let (host, calls) = host(Fault::None);
    let chosen = solution(&build("a"), 1);
    let rows = [choice(1, &host, chosen.clone()), choice(4, &host, chosen)];
    let database = Database::from_choices(rows, &host.environment);
    let gemm = tuned(&host, database);
    let mut plan = gemm.plan(site());
    let mut other_layer = gemm.plan(site());
    for _ in 0..3 {
        assert_eq!(run(&mut plan, 1, &W), Ok(MARK));
        assert_eq!(run(&mut plan, 3, &W), Ok(MARK), "M = 3 borrows from M = 4");
        assert_eq!(run(&mut plan, 7, &W), Ok(0.0), "nothing is tuned for M = 7");
        assert_eq!(run(&mut other_layer, 1, &[9.0; 6]), Ok(MARK));
    }
    assert_eq!(calls.packed.load(Ordering::Relaxed), 2, "once a weight matrix");
    assert_eq!(calls.prepared.load(Ordering::Relaxed), 3, "once a problem, shared by layers; M = 1, 3 and 7");
    assert_eq!((plan.packed_bytes(), gemm.packed_bytes()), (24, 48));
    let applied = BTreeMap::from([(HitKind::Exact, 6), (HitKind::Padded, 3)]);
    assert_eq!(gemm.counters(), Counters { applied, missed: 3, fallen_back: BTreeMap::new() });
    let report: Vec<_> = gemm.report().iter().map(|line| (line.problem.m(), line.kind, line.tuned_m)).collect();
    assert_eq!(report, [(1, HitKind::Exact, Some(1)), (3, HitKind::Padded, Some(4)), (7, HitKind::Default, None)]);
    drop(other_layer);
    assert_eq!(gemm.packed_bytes(), 24);
}

#[test]
fn a_plan_is_not_used_with_other_weights_than_it_packed() {
    let (host, _) = host(Fault::None);
    let database = Database::from_choices([choice(1, &host, solution(&build("a"), 1))], &host.environment);
    let gemm = tuned(&host, database);
    let mut plan = gemm.plan(site());
    assert_eq!(run(&mut plan, 1, &W), Ok(MARK));
    let other = W;
    assert!(matches!(run(&mut plan, 1, &other), Err(DispatchError::OtherWeights { .. })));
}

#[test]
fn every_failure_before_a_launch_runs_the_baseline_and_is_remembered() {
    let cases = [
        (Fault::Prepare, "not_prepared"),
        (Fault::OtherName, "other_solution"),
        (Fault::Pack, "not_packed"),
        (Fault::NotEnqueued, "not_started"),
    ];
    for (fault, name) in cases {
        let (host, calls) = host(fault);
        let database = Database::from_choices([choice(1, &host, solution(&build("a"), 1))], &host.environment);
        let gemm = tuned(&host, database);
        let mut plan = gemm.plan(site());
        for _ in 0..5 {
            assert_eq!(run(&mut plan, 1, &W), Ok(0.0), "{name}");
        }
        assert_eq!(gemm.counters().fallen_back, BTreeMap::from([(name, 5)]));
        assert_eq!(calls.launched.load(Ordering::Relaxed), 5, "{name}");
        let line = &gemm.report()[0];
        assert_eq!(line.fallback.as_ref().map(Fallback::name), Some(name));
        assert_eq!(line.solution.as_ref().map(|solution| solution.index), Some(0));
    }
}

#[test]
fn a_launch_that_may_have_run_is_the_callers_to_know() {
    let (host, calls) = host(Fault::MayHaveRun);
    let database = Database::from_choices([choice(1, &host, solution(&build("a"), 1))], &host.environment);
    let gemm = tuned(&host, database);
    let mut plan = gemm.plan(site());
    assert!(matches!(run(&mut plan, 1, &W), Err(DispatchError::MayHaveRun { .. })));
    assert_eq!(calls.launched.load(Ordering::Relaxed), 0, "nothing runs after it");
}

#[test]
fn another_build_in_this_process_falls_back_even_where_the_table_was_admitted() {
    let (host, _) = host(Fault::None);
    let mut elsewhere = host.environment.clone();
    elsewhere.builds = vec![build("b")];
    let database = Database::from_choices([choice(1, &host, solution(&build("b"), 1))], &elsewhere);
    assert_eq!(database.len(), 1);
    let gemm = tuned(&host, database);
    let mut plan = gemm.plan(site());
    assert_eq!(run(&mut plan, 1, &W), Ok(0.0));
    assert_eq!(gemm.counters().fallen_back, BTreeMap::from([("build_differs", 1)]));
    assert_eq!(
        gemm.report()[0].fallback.as_ref().map(ToString::to_string).as_deref(),
        Some("toy revision was b when tuned, is a here")
    );
}

#[test]
fn constraints_hold_and_no_library_is_an_error_with_a_reason() {
    let ((host, _), (mut empty, _)) = (host(Fault::None), host_with(Fault::None));
    empty.libraries.clear();
    let database = Database::from_choices([choice(1, &host, solution(&build("a"), 1))], &host.environment);
    let database = Arc::new(database);
    let plain_only = Constraints { weight_forms: [WeightForm::Plain].into(), ..Constraints::default() };
    let options = DispatchOptions { constraints: plain_only, ..DispatchOptions::default() };
    let gemm = TunedGemm::new(host, Arc::clone(&database), options);
    assert_eq!(run(&mut gemm.plan(site()), 1, &W), Ok(0.0));
    assert_eq!(gemm.counters().missed, 1);

    let gemm = TunedGemm::new(Arc::new(empty), database, DispatchOptions::default());
    let error = run(&mut gemm.plan(site()), 1, &W).unwrap_err();
    assert!(matches!(error, DispatchError::NoBaseline { .. }));
    assert_eq!(gemm.report()[0].fallback, Some(Fallback::LibraryAbsent("toy".into())));
}

#[test]
fn warming_prepares_and_packs_without_running() {
    let (host, calls) = host(Fault::None);
    let database = Database::from_choices([choice(1, &host, solution(&build("a"), 1))], &host.environment);
    let gemm = tuned(&host, database);
    let mut plan = gemm.plan(site());
    // SAFETY: the weights are as the site says and outlive the plan.
    unsafe { plan.warm(1, W.as_ptr().cast(), Stream::DEFAULT) }.unwrap();
    assert_eq!((calls.packed.load(Ordering::Relaxed), calls.launched.load(Ordering::Relaxed)), (1, 0));
    assert_eq!(plan.packed_bytes(), 24);
}

#[test]
fn what_cannot_be_is_refused() {
    let (host, _) = host(Fault::None);
    let gemm = tuned(&host, Database::default());
    let mut plan = gemm.plan(site());
    let error = run_nothing(&mut plan, 0).unwrap_err();
    assert!(matches!(error, DispatchError::Invalid { .. }) && error.to_string().contains("M is 0"), "{error}");
    assert!(matches!(run_nothing(&mut plan, 1 << 31), Err(DispatchError::Invalid { .. })));
}

/// Without operands.
fn run_nothing(plan: &mut Plan, m: u32) -> Result<(), DispatchError> {
    // SAFETY: none is looked at before M.
    unsafe { plan.run(m, &tgemm_kernels::Operands::default(), Stream::DEFAULT) }
}
