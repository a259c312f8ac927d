//! The bench from end to end, on scripted devices; and on a context that looks at what it is asked to time.

use super::*;
use crate::measure::noting::{Noted, Noting, Place};
use crate::scripted::ScriptedContext;
use tgemm_db::outcome::OutcomeKind;
use tgemm_db::problem::{Alignment, Batch, Leading, Scalar, Trans};
use tgemm_db::{DType, Outcome, Site};

fn problem() -> Problem {
    Site::linear(24, 32, DType::Bf16).with_bias(DType::Bf16).at(3).into()
}

fn context(solutions: &str) -> ScriptedContext {
    ScriptedContext::from_json(&format!("{{\"solutions\": [{solutions}]}}")).unwrap()
}

/// The solution called `name`, made ready.
fn prepared(context: &dyn Context, problem: &Problem, name: &str) -> Result<Box<dyn Prepared>, Error> {
    let library = &context.libraries()[0];
    let all = library.candidates(problem, crate::Effort::Full, &crate::Ask::default()).unwrap();
    library.prepare(problem, all.iter().find(|solution| solution.name == name).unwrap())
}

fn load(bench: &mut Bench, context: &dyn Context, name: &str) -> Loaded {
    let prepared = prepared(context, &bench.problem, name).unwrap();
    bench.load(context, prepared).unwrap()
}

/// Verifies the only solution of a script with these behaviours.
fn verify(problem: Problem, behaviours: &str) -> super::super::Verified {
    let script = format!(r#"{{"name": "a", "time_us": 1, "workspace_bytes": 100, "behaviours": [{behaviours}]}}"#);
    let mut context = context(&script);
    let mut bench = Bench::new(&context, &problem, &BenchOptions::default()).unwrap();
    // A larger workspace of another candidate must not hide who writes past its own.
    bench.reserve_workspace(&context, 5000).unwrap();
    let id = load(&mut bench, &context, "a").id;
    bench.verify(&mut context, id, f64::INFINITY).unwrap()
}

fn variants() -> Vec<Problem> {
    let plain = Site::linear(24, 32, DType::F32).with_bias(DType::F32);
    let ld = Leading { x: 40, w: 37, out: 29 };
    let mut sites = vec![plain, Site { ld, ..plain }, Site { ld, trans: Trans::Xw, ..plain }];
    sites.push(Site { beta: Scalar::One, alpha: Scalar::Other, ..plain });
    sites.push(Site { beta: Scalar::Other, in_place: false, ld, ..plain });
    sites.push(Site { align: Alignment::B4, ..plain });
    for dtype in [DType::F16, DType::Bf16] {
        sites.push(Site { align: Alignment::B1, ..Site::linear(7, 9, dtype) });
        sites.push(Site::linear(24, 32, dtype).with_out(DType::F32));
    }
    sites.into_iter().chain(batches()).map(|site| site.at(5).into()).collect()
}

/// Batches of 5 tokens: packed, with gaps, shared, side by side in a row, transposed, over an old output.
fn batches() -> Vec<Site> {
    let plain = Site::linear(24, 32, DType::Bf16).with_bias(DType::F32);
    let packed = Batch { count: 3, stride_x: 160, stride_w: 768, stride_out: 120 };
    let apart = Batch { count: 3, stride_x: 333, stride_w: 1000, stride_out: 777 };
    let ld = Leading { x: 40, w: 37, out: 29 };
    let heads = Leading { x: 3 * 32, w: 0, out: 3 * 24 + 7 };
    let woven = Batch { stride_x: 32, stride_out: 24, ..packed };
    let loose = Batch { stride_x: 33, stride_out: 26, ..apart };
    let far = Leading { x: 3 * 33, w: 0, out: 3 * 26 + 1 };
    let cut_short = Batch { stride_out: 4 * 29 + 25, ..apart };
    vec![
        Site { batch: packed, ..plain },
        Site { batch: Batch { stride_out: 130, ..packed }, ..plain },
        Site { batch: Batch { count: 2, ..apart }, ld, ..plain },
        Site { batch: Batch { stride_x: 0, ..apart }, ld, beta: Scalar::Other, in_place: false, ..plain },
        Site { batch: Batch { stride_w: 0, ..apart }, ld, beta: Scalar::One, alpha: Scalar::Other, ..plain },
        Site { batch: woven, ld: heads, ..plain },
        Site { batch: loose, ld: far, ..plain },
        Site { batch: cut_short, ld, ..plain },
        Site { batch: Batch { stride_x: 33 * 5, ..packed }, trans: Trans::Xw, ..plain },
    ]
}

#[test]
fn right_solutions_are_ok_plain_and_packed_on_every_kind_of_problem() {
    let mut context = context(
        r#"{"name": "plain", "time_us": 1}, {"name": "packed", "time_us": 1, "weight_form": "prepacked", "workspace_bytes": 64}"#,
    );
    for problem in variants() {
        let mut bench = Bench::new(&context, &problem, &BenchOptions { seed: 3, ..BenchOptions::default() }).unwrap();
        for name in ["plain", "packed"] {
            let loaded = load(&mut bench, &context, name);
            let verified = bench.verify(&mut context, loaded.id, f64::INFINITY).unwrap();
            assert_eq!(verified.outcome, Outcome::ok(), "{name} on {problem}");
            let error = verified.error.unwrap();
            assert!(error.max_over_bound < 1.0 && error.checked > 0 && error.share_beyond == 0.0);
            assert!(verified.call_us > 0.0);
            assert_eq!(loaded.pack_us.is_some(), name == "packed");
        }
    }
}

#[test]
fn every_misbehaviour_gets_the_outcome_it_deserves() {
    let cases = [
        (r#"{"kind": "wrong"}"#, OutcomeKind::Wrong, "off by"),
        (r#"{"kind": "wrong", "every": 2}"#, OutcomeKind::Wrong, "right at first, then"),
        (r#"{"kind": "nan"}"#, OutcomeKind::Wrong, "is NaN"),
        (r#"{"kind": "unwritten"}"#, OutcomeKind::Wrong, "was never written"),
        (r#"{"kind": "out_of_bounds"}"#, OutcomeKind::Wrong, "wrote outside its output: 0 bytes before, 1 after"),
        (r#"{"kind": "before_bounds"}"#, OutcomeKind::Wrong, "wrote outside its output: 1 bytes before, 0 after"),
        (r#"{"kind": "over_workspace"}"#, OutcomeKind::Wrong, "wrote outside its workspace of 100: 0 bytes before, 1"),
        (r#"{"kind": "nondeterministic"}"#, OutcomeKind::Nondeterministic, "differ in their bits"),
        (r#"{"kind": "unsupported"}"#, OutcomeKind::Unsupported, "not offered here"),
        (r#"{"kind": "out_of_memory"}"#, OutcomeKind::OutOfMemory, "not to be had"),
        (r#"{"kind": "error"}"#, OutcomeKind::Wrong, "failed while running: scripted failed: status 7"),
        (r#"{"kind": "error", "every": 2}"#, OutcomeKind::Wrong, "status 7"),
        (r#"{"kind": "wrong", "when": "measure"}"#, OutcomeKind::Ok, ""),
    ];
    for problem in variants() {
        for (behaviour, kind, words) in &cases {
            let verified = verify(problem, behaviour);
            assert_eq!(verified.outcome.kind, *kind, "{behaviour} on {problem}: {}", verified.outcome.detail);
            // Over an old output there is no prefill; the stale value is off.
            let site = &problem.gemm().unwrap().site;
            let stale = words.contains("never written") && site.in_place && site.beta != Scalar::Zero;
            let words = if stale { "off by" } else { words };
            assert!(verified.outcome.detail.contains(words), "{behaviour}: {}", verified.outcome.detail);
        }
    }
}

/// What is found in `problem` by a device that is read, and by one that looks itself.
fn both_routes(problem: Problem, behaviours: &str) -> [super::super::Verified; 2] {
    [false, true].map(|surveys| {
        let solution =
            format!(r#"{{"name": "a", "time_us": 1, "workspace_bytes": 100, "behaviours": [{behaviours}]}}"#);
        let script = format!(r#"{{"surveys": {surveys}, "solutions": [{solution}]}}"#);
        let mut context = ScriptedContext::from_json(&script).unwrap();
        let mut bench = Bench::new(&context, &problem, &BenchOptions::default()).unwrap();
        bench.reserve_workspace(&context, 5000).unwrap();
        let id = load(&mut bench, &context, "a").id;
        bench.verify(&mut context, id, f64::INFINITY).unwrap()
    })
}

#[test]
fn faults_in_any_matrix_are_found_where_they_are_on_both_routes() {
    for problem in variants() {
        let site = &problem.gemm().unwrap().site;
        let has_gap = !super::super::layout::Layouts::of(problem.gemm().unwrap()).unwrap().out.is_packed();
        let is_stale = site.in_place && site.beta != Scalar::Zero;
        for matrix in 0..site.batch.count {
            let place = match site.batch.count {
                1 => format!("output [4,{}]", site.n - 1),
                _ => format!("output [{matrix},4,{}]", site.n - 1),
            };
            let after = format!("memory between rows was written to, after {place}");
            let cases = [
                ("wrong", format!("{place} is ")),
                ("nan", format!("{place} is NaN")),
                ("unwritten", if is_stale { format!("{place} is ") } else { format!("{place} was never written") }),
                ("nondeterministic", "two runs on the same operands differ in their bits".to_owned()),
                ("out_of_bounds", "wrote outside its output: 0 bytes before, 1 after".to_owned()),
                ("before_bounds", "wrote outside its output: 1 bytes before, 0 after".to_owned()),
                ("over_workspace", "wrote outside its workspace of 100: 0 bytes before, 1 after".to_owned()),
                ("in_gap", after),
            ];
            for (kind, want) in cases {
                // Heads side by side have their gap behind the last of them only.
                let meets_next = site.batch.stride_out == u64::from(site.n) && matrix + 1 < site.batch.count;
                if kind == "in_gap" && (!has_gap || meets_next) {
                    continue;
                }
                let [read, looked] = both_routes(problem, &format!(r#"{{"kind": "{kind}", "matrix": {matrix}}}"#));
                assert!(
                    read.outcome.detail.starts_with(&want),
                    "{kind} on {problem}: {}, not {want}",
                    read.outcome.detail
                );
                assert_eq!((read.outcome, read.error), (looked.outcome, looked.error), "{kind} on {problem}");
            }
        }
        let [read, looked] = both_routes(problem, "");
        assert_eq!((&read.outcome, read.error), (&Outcome::ok(), looked.error));
        assert_eq!(looked.outcome, Outcome::ok(), "{problem}");
    }
}

#[test]
fn of_several_faults_both_routes_tell_the_first() {
    let packed = Batch { count: 3, stride_x: 160, stride_w: 768, stride_out: 130 };
    let ld = Leading { out: 29, ..Leading::default() };
    let plain = Site { batch: packed, ..Site::linear(24, 32, DType::F16) };
    let apart = Site { batch: Batch { stride_out: 777, ..packed }, ld, ..plain };
    // Without gaps between its rows a matrix is one row to the device.
    for (site, count) in [(plain, 1), (apart, 3)] {
        let gemm = site.at(5);
        let grids = super::super::layout::Layouts::of(&gemm).unwrap().out.grids().unwrap();
        assert_eq!(grids.len(), count, "what a device is asked about");
        for (matrix, kind, words) in [
            (0, "nan", "output [0,4,23] is NaN"),
            (0, "unwritten", "output [0,4,23] was never written"),
            (1, "nan", "after output [0,4,23]"),
            (1, "unwritten", "after output [0,4,23]"),
        ] {
            let faults = format!(
                r#"{{"kind": "unwritten", "matrix": 2}}, {{"kind": "in_gap", "matrix": 0}},
                   {{"kind": "{kind}", "matrix": {matrix}}}"#
            );
            let [read, looked] = both_routes(gemm.into(), &faults);
            assert!(read.outcome.detail.contains(words), "{}", read.outcome.detail);
            assert_eq!(read.outcome, looked.outcome);
        }
    }
}

#[test]
fn an_unwritten_old_output_is_wrong_too() {
    let site = Site { beta: Scalar::One, ..Site::linear(24, 32, DType::F32) };
    let verified = verify(site.at(3).into(), r#"{"kind": "unwritten"}"#);
    assert_eq!(verified.outcome.kind, OutcomeKind::Wrong, "{}", verified.outcome.detail);
}

#[test]
fn figures_come_in_order_and_unknown_candidates_are_named() {
    let mut context = context(r#"{"name": "a", "time_us": 10}, {"name": "b", "time_us": {"1": 20, "3": 30, "4": 50}}"#);
    let mut bench = Bench::new(&context, &problem(), &BenchOptions::default()).unwrap();
    let (a, b) = (load(&mut bench, &context, "a").id, load(&mut bench, &context, "b").id);
    let block = [a, b, b, a].map(|id| BlockEntry { id, calls: 3 });
    for mode in [Mode::Warm, Mode::Rotated] {
        assert_eq!(bench.measure(&mut context, &block, mode).unwrap(), [10.0, 30.0, 30.0, 10.0]);
    }
    bench.drop_candidate(a);
    bench.drop_candidate(77);
    let error = bench.measure(&mut context, &block, Mode::Warm).unwrap_err();
    assert_eq!(error.to_string(), "bench failed: no candidate 0 is loaded");
    assert!(bench.measure(&mut context, &[BlockEntry { id: b, calls: 0 }], Mode::Warm).is_err());
    assert_ne!(load(&mut bench, &context, "a").id, a, "numbers are not used again");
}

const TWO_PACKED: &str = r#"{"name": "plain", "time_us": 1},
    {"name": "p", "time_us": 2, "weight_form": "prepacked", "pack_key": "rows"},
    {"name": "q", "time_us": 3, "weight_form": "prepacked", "pack_key": "rows"}"#;

#[test]
fn packed_forms_are_shared_copied_late_and_freed_with_the_last_user() {
    let mut context = context(TWO_PACKED);
    let problem = problem();
    let set_bytes = OperandSet::bytes_per_copy(&problem).unwrap();
    let options = BenchOptions { rotation_bytes: 5 * set_bytes, ..BenchOptions::default() };
    let mut bench = Bench::new(&context, &problem, &options).unwrap();
    assert_eq!(bench.copies(), 5);
    let (p, q) = (load(&mut bench, &context, "p"), load(&mut bench, &context, "q"));
    assert_eq!(p.pack_us, q.pack_us, "packed once");
    let pack_bytes = 24 * 32 * 4;
    assert_eq!(bench.packs.bytes(), pack_bytes);
    bench.measure(&mut context, &[BlockEntry { id: p.id, calls: 1 }], Mode::Warm).unwrap();
    assert_eq!((bench.packs.bytes(), bench.set.lens()), (pack_bytes, (1, 1)), "one copy will do when warm");
    bench.measure(&mut context, &[BlockEntry { id: p.id, calls: 1 }], Mode::Rotated).unwrap();
    // Packed as f32 the weights are twice as large: three copies pass as many bytes as five sets.
    assert_eq!((bench.packs.bytes(), bench.set.lens()), (3 * pack_bytes, (1, 5)), "nobody took them plain");
    bench.drop_candidate(p.id);
    assert_eq!(bench.packs.bytes(), 3 * pack_bytes);
    bench.drop_candidate(q.id);
    assert_eq!(bench.packs.bytes(), 0);
    drop(bench);
    assert_eq!(context.available_bytes(), 1 << 30, "everything was given back");
}

#[test]
fn short_memory_shortens_the_rotation_for_all_or_refuses_the_candidate() {
    let problem = problem();
    let set_bytes = OperandSet::bytes_per_copy(&problem).unwrap();
    let pack_bytes = 24 * 32 * 4;
    let with = |max: u64| BenchOptions {
        rotation_bytes: 9 * set_bytes,
        memory_bytes_max: Some(max),
        ..BenchOptions::default()
    };
    let entry = |id| [BlockEntry { id, calls: 2 }];
    // Room to plan nine copies, but not for the five packed ones that go with them: fewer for all, as nothing was timed.
    let mut scripted = context(TWO_PACKED);
    let mut bench = Bench::new(&scripted, &problem, &with(9 * 5 * set_bytes)).unwrap();
    assert_eq!(bench.copies(), 9);
    bench.memory_bytes_max = Some(bench.bytes() + 9 * 144 + 3 * pack_bytes);
    let p = load(&mut bench, &scripted, "p").id;
    bench.measure(&mut scripted, &entry(p), Mode::Rotated).unwrap();
    let fewer = bench.copies();
    assert!((3..9).contains(&fewer), "{fewer}");
    assert_eq!(bench.turn(p, 0).unwrap().io.w, bench.turn(p, fewer).unwrap().io.w, "it has come round");
    assert!(bench.operands(p, fewer).is_err() || bench.set.lens().1 > fewer);
    // After that the number stands, and who does not fit is refused.
    let plain = load(&mut bench, &scripted, "plain").id;
    bench.memory_bytes_max = Some(bench.bytes() + 10);
    let refused = bench.measure(&mut scripted, &entry(plain), Mode::Rotated);
    assert!(matches!(refused, Err(Error::OutOfMemory { .. })), "{refused:?}");
    assert_eq!(bench.copies(), fewer);
    // Below what passes the cache once, nothing is timed.
    let mut bench = Bench::new(&scripted, &problem, &with(9 * 5 * set_bytes)).unwrap();
    let p = load(&mut bench, &scripted, "p").id;
    bench.memory_bytes_max = Some(bench.bytes() + pack_bytes);
    let refused = bench.measure(&mut scripted, &entry(p), Mode::Rotated);
    assert!(matches!(refused, Err(Error::OutOfMemory { .. })), "{refused:?}");
    // Not even one set, and a workspace that does not fit.
    assert!(matches!(Bench::new(&scripted, &problem, &with(set_bytes)), Err(Error::OutOfMemory { .. })));
    let wide = context(r#"{"name": "wide", "time_us": 1, "workspace_bytes": 1000000}"#);
    let mut bench = Bench::new(&wide, &problem, &with(99 * set_bytes)).unwrap();
    let prepared = prepared(&wide, &problem, "wide").unwrap();
    assert!(matches!(bench.load(&wide, prepared), Err(Error::OutOfMemory { bytes: 1_000_000, .. })));
}

#[test]
fn fresh_buffers_lie_elsewhere_hold_other_data_and_keep_candidates() {
    let mut context = context(TWO_PACKED);
    let mut bench = Bench::new(&context, &problem(), &BenchOptions::default()).unwrap();
    let ids = ["plain", "p", "q"].map(|name| load(&mut bench, &context, name).id);
    let before = ids.map(|id| bench.operands(id, 0).unwrap());
    let value = bench.reference.cells[0].value;
    bench.refresh(&context, 99).unwrap();
    assert_ne!(bench.reference.cells[0].value, value);
    for (id, before) in ids.into_iter().zip(before) {
        let after = bench.operands(id, 0).unwrap();
        assert!(after.x != before.x && after.out != before.out);
        assert_eq!(bench.verify(&mut context, id, f64::INFINITY).unwrap().outcome, Outcome::ok());
    }
    assert_ne!(bench.operands(ids[0], 0).unwrap().w, before[0].w);
    let block = ids.map(|id| BlockEntry { id, calls: 1 });
    assert_eq!(bench.measure(&mut context, &block, Mode::Rotated).unwrap(), [1.0, 2.0, 3.0]);
}

#[test]
fn arms_go_round_one_rotation_and_start_where_the_last_stopped() {
    let mut context = Noting::new(context(TWO_PACKED));
    let problem = problem();
    let rotation_bytes = 4 * OperandSet::bytes_per_copy(&problem).unwrap();
    let mut bench =
        Bench::new(&context, &problem, &BenchOptions { rotation_bytes, ..BenchOptions::default() }).unwrap();
    let (plain, p) = (load(&mut bench, &context, "plain").id, load(&mut bench, &context, "p").id);
    let block = [BlockEntry { id: plain, calls: 3 }, BlockEntry { id: p, calls: 6 }];
    for _ in 0..3 {
        bench.measure(&mut context, &block, Mode::Rotated).unwrap();
    }
    let mut position = 0;
    for Noted { start, calls, places, .. } in &context.arms {
        assert_eq!((*start, places.len()), (position, 8), "every place of x, and every set twice");
        position = (position + *calls as usize) % 8;
        let distinct =
            |part: fn(&Place) -> usize| places.iter().map(part).collect::<std::collections::BTreeSet<_>>().len();
        let weights = if *calls == 3 { 4 } else { 3 };
        assert_eq!(
            (distinct(|io| io.x), distinct(|io| io.w), distinct(|io| io.out)),
            (8, weights, 4),
            "x has its places, weights and outputs rotate"
        );
    }
    let outs = |arm: usize| context.arms[arm].places.iter().map(|io| io.out).collect::<Vec<_>>();
    assert_eq!(outs(0), outs(1), "arms share their outputs");
}

#[test]
fn pointers_have_the_alignment_of_the_problem_and_no_better() {
    let context = context(TWO_PACKED);
    for (align, bytes) in [(Alignment::B8, 8), (Alignment::B4, 4), (Alignment::B1, 2)] {
        let problem = Site { align, ..Site::linear(24, 32, DType::Bf16) }.at(2).into();
        let mut bench = Bench::new(&context, &problem, &BenchOptions::default()).unwrap();
        let id = load(&mut bench, &context, "plain").id;
        let io = bench.operands(id, 0).unwrap();
        for place in [io.x as usize, io.w as usize, io.out as usize] {
            assert_eq!(place % 64, bytes);
        }
    }
}
