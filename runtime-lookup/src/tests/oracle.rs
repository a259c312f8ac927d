//! The lookup against a search through all rows that shares no code with it.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use tgemm_db::choice::Ratio;
use tgemm_db::cost::{self, Roofline};
use tgemm_db::{Choice, Constraints, DType, Environment, Numerics, Problem, Site, Solution, Verdict, WeightForm};

use super::{build, choice, device, here};
use crate::builder::Builder;
use crate::interval::NEIGHBOURS_MAX;
use crate::load::Origin;
use crate::{Hit, HitKind, Levels, ladder};

fn sites() -> impl Strategy<Value = Site> {
    let narrow = Site::linear(64, 128, DType::Bf16);
    select(vec![
        narrow,
        narrow.with_bias(DType::Bf16),
        narrow.with_out(DType::F32),
        Site::linear(8192, 128, DType::Bf16),
    ])
}

/// Token counts that hit, borrow up, and borrow down.
fn ms() -> impl Strategy<Value = u32> {
    select(vec![1u32, 2, 9, 15, 16, 17, 32, 300, 320, 512, 1000, 1024, 8192, 8193, 8320, 16384, 20_000, 20_096])
}

fn rows() -> impl Strategy<Value = (Choice, u32)> {
    let place = (select(vec![("gfx942", 304), ("gfx942", 304), ("gfx942", 80), ("gfx950", 304)]), 0u32..3);
    let builds = select(vec![
        build("hipblaslt", "1.0"),
        build("hipblaslt", "2.0"),
        build("hipblaslt", ""),
        build("asm", ""),
        build("asm", "1"),
    ]);
    let words = (select(WeightForm::ALL), select(Numerics::ALL), 0u64..3, any::<bool>());
    let figures = (select(vec![0.8, 0.9, 1.0]), select(Verdict::ALL), select(vec!["", "2025", "2026"]), 1u32..4);
    (sites(), ms(), place, builds, words, figures, 0i64..3).prop_map(
        |(site, m, ((arch, cu), layer), build, words, (high, verdict, tuned_at, time_us), index)| {
            let mut row = choice(site.at(m).into());
            row.device = device(arch, cu).into();
            row.solution.build = build.into();
            row.solution.index = index;
            row.solution.weight_form = words.0;
            row.solution.numerics = words.1;
            row.solution.workspace_bytes = words.2;
            row.solution.graph_safe = Some(words.3);
            row.ratio = Ratio { estimate: 0.5, low: 0.4, high };
            row.verdict = verdict;
            row.time_us = f64::from(time_us);
            row.tuned_at = tuned_at.into();
            (row, layer)
        },
    )
}

fn constraints() -> impl Strategy<Value = Constraints> {
    let forms = subsequence(WeightForm::ALL.to_vec(), 1..=WeightForm::ALL.len());
    let libraries = proptest::option::of(subsequence(vec!["asm".to_owned(), "hipblaslt".to_owned()], 1..=2));
    (forms, libraries, proptest::option::of(0u64..3), select(Numerics::ALL), any::<bool>()).prop_map(
        |(forms, libraries, workspace_bytes_max, numerics, graph_safe)| Constraints {
            weight_forms: forms.into_iter().collect(),
            libraries: libraries.map(|names| names.into_iter().collect()),
            workspace_bytes_max,
            numerics,
            graph_safe,
            deterministic: false,
        },
    )
}

/// May this row be served at all?
fn serves(row: &Choice, here: &Environment) -> bool {
    let same_device = row.device.arch == here.device.arch && row.device.compute_units == here.device.compute_units;
    let version = &row.solution.build.version;
    same_device && (version.is_empty() || (row.solution.library() == "hipblaslt" && version == "1.0"))
}

/// May this row run at `m` tokens? Workspace grows with them.
fn fits(row: &Choice, m: u32, constraints: &Constraints) -> bool {
    let times = f64::from(m) / f64::from(row.problem.m());
    let mut there = row.clone();
    there.solution.workspace_bytes = (row.solution.workspace_bytes as f64 * times.max(1.0)).ceil() as u64;
    serves(row, &here()) && constraints.refuse_choice(&there).is_none()
}

/// Which of two rows at one M goes first.
fn order((a, layer_a): &(Choice, u32), (b, layer_b): &(Choice, u32)) -> Ordering {
    let blind = |row: &Choice| matches!(row.verdict, Verdict::NoBaseline | Verdict::Unknown);
    // Never compared: behind all that were, and among themselves the time decides after the age.
    let bound = |row: &Choice| if blind(row) { f64::INFINITY } else { row.ratio.high };
    let time = |row: &Choice| if blind(row) { row.time_us } else { 0.0 };
    layer_a
        .cmp(layer_b)
        .then(bound(a).total_cmp(&bound(b)))
        .then(a.tuned_at.trim_end_matches('Z').cmp(b.tuned_at.trim_end_matches('Z')).reverse())
        .then(time(a).total_cmp(&time(b)))
        .then(a.solution.cmp(&b.solution))
}

/// Positions of the answers that are right among `rows`, and how they are found. There are two only where two scores are
/// as good as equal.
fn oracle(
    rows: &[(Choice, u32)],
    problem: &Problem,
    constraints: &Constraints,
    levels: Levels,
) -> Vec<(usize, HitKind)> {
    let gemm = problem.gemm().unwrap();
    let [finer, coarser] = ladder::padded(gemm.m, gemm.site.n);
    let mut served: Vec<usize> = (0..rows.len())
        .filter(|&at| rows[at].0.problem.gemm().unwrap().site == gemm.site && serves(&rows[at].0, &here()))
        .collect();
    served.sort_by(|&a, &b| rows[a].0.problem.m().cmp(&rows[b].0.problem.m()).then(order(&rows[a], &rows[b])));
    let m_of = |at: usize| rows[at].0.problem.m();
    let fit = |at: usize| fits(&rows[at].0, gemm.m, constraints);
    let padded = [(HitKind::Padded, finer), (HitKind::Padded, coarser)];
    let steps = std::iter::once((HitKind::Exact, gemm.m)).chain(padded.into_iter().filter(|_| levels.padded));
    for (kind, m) in steps {
        if let Some(&best) = served.iter().find(|&&at| m_of(at) == m && fit(at)) {
            return vec![(best, kind)];
        }
    }
    if !levels.interval {
        return Vec::new();
    }
    // Below, whole groups of one M are looked at until there were enough rows.
    let (mut low, mut looked) = (None, 0);
    let below: BTreeSet<u32> = served.iter().map(|&at| m_of(at)).filter(|&m| m < gemm.m).collect();
    for m in below.into_iter().rev() {
        let group: Vec<usize> = served.iter().copied().filter(|&at| m_of(at) == m).collect();
        low = low.or(group.iter().copied().find(|&at| fit(at)).filter(|_| looked < NEIGHBOURS_MAX));
        looked += group.len();
    }
    let high = served.iter().copied().filter(|&at| m_of(at) > gemm.m).take(NEIGHBOURS_MAX).find(|&at| fit(at));
    let (Some(low), Some(high)) = (low, high) else { return Vec::new() };
    let named = |at: usize| {
        let Solution { build, index, name, params, weight_form, .. } = &rows[at].0.solution;
        (build.clone(), *index, name.clone(), params.clone(), *weight_form)
    };
    if !levels.scored && named(low) != named(high) {
        return Vec::new();
    }
    // The roofline whose ceilings are the best rates of all rows that are served.
    let timed = || rows.iter().map(|(row, _)| row).filter(|row| serves(row, &here()));
    let best = |rate: fn(&Problem, f64) -> f64| timed().map(|row| rate(&row.problem, row.time_us)).fold(0.0, f64::max);
    let roof = Roofline { gflops_per_s: best(cost::gflops_per_s), gbytes_per_s: best(cost::gbytes_per_s) };
    let floor = |m: u32| roof.time_us(&gemm.site.at(m).into());
    let low_us = rows[low].0.time_us * floor(gemm.m) / floor(m_of(low));
    let high_us = rows[high].0.time_us - floor(m_of(high)) + floor(gemm.m);
    let scale = rows[high].0.time_us + low_us;
    match (low_us - high_us).abs() < 1e-4 * scale {
        true => vec![(low, HitKind::Interval), (high, HitKind::Interval)],
        false => vec![(if low_us < high_us { low } else { high }, HitKind::Interval)],
    }
}

fn levels() -> impl Strategy<Value = Levels> {
    let scored = Levels { scored: true, ..Levels::default() };
    select(vec![Levels::default(), scored, scored, Levels::AITER, Levels::EXACT])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn lookup_equals_a_search_through_all_rows(
        rows in vec(rows(), 0..60),
        queries in vec((sites(), ms(), constraints()), 1..20),
        levels in levels(),
    ) {
        let here = here();
        let mut builder = Builder::new(&here);
        for (row, layer) in &rows {
            builder.push(row.clone(), Origin { layer: *layer, line: 0 });
        }
        let database = builder.finish(Vec::new()).with_levels(levels);
        prop_assert_eq!(database.len() + database.refused(), rows.len());
        for (site, m, constraints) in queries {
            let problem: Problem = site.at(m).into();
            let hit = database.lookup(&problem, &constraints);
            let right = oracle(&rows, &problem, &constraints, levels);
            let mut want = right.iter().map(|&(at, kind)| {
                let choice = &rows[at].0;
                Hit { kind, choice: Some(choice), tuned_m: Some(choice.problem.m()) }
            });
            let is_right = want.any(|want| want == hit) || (right.is_empty() && hit == Hit::DEFAULT);
            prop_assert!(is_right, "{hit:?}\nis none of {right:?}");
            let explanation = database.explain(&problem, &constraints);
            prop_assert_eq!((explanation.kind, explanation.tuned_m), (hit.kind, hit.tuned_m));
            prop_assert_eq!(explanation.steps.iter().any(|step| step.answered), hit.choice.is_some());
        }
    }
}
