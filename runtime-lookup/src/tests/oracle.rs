//! The lookup against a search through all rows that shares no code with it.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use tgemm_db::choice::Ratio;
use tgemm_db::{Choice, Constraints, DType, Environment, Numerics, Problem, Site, Verdict, WeightForm};

use super::{build, choice, device, here};
use crate::database::Builder;
use crate::load::Origin;
use crate::{Hit, HitKind, ladder};

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

/// Position of the answer among `rows`, and how it was found.
fn oracle(rows: &[(Choice, u32)], problem: &Problem, constraints: &Constraints) -> Option<(usize, HitKind, u32)> {
    let gemm = problem.gemm().unwrap();
    let [finer, coarser] = ladder::padded(gemm.m, gemm.site.n);
    let levels = [(HitKind::Exact, gemm.m), (HitKind::Padded, finer), (HitKind::Padded, coarser)];
    for (kind, m) in levels {
        let mut fit: Vec<usize> = (0..rows.len())
            .filter(|&at| rows[at].0.problem == gemm.site.at(m).into())
            .filter(|&at| serves(&rows[at].0, &here()) && constraints.refuse_choice(&rows[at].0).is_none())
            .collect();
        fit.sort_by(|&a, &b| {
            let ((a, layer_a), (b, layer_b)) = (&rows[a], &rows[b]);
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
        });
        if let Some(&best) = fit.first() {
            return Some((best, kind, m));
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn lookup_equals_a_search_through_all_rows(
        rows in vec(rows(), 0..60),
        queries in vec((sites(), ms(), constraints()), 1..20),
    ) {
        let here = here();
        let mut builder = Builder::new(&here);
        for (row, layer) in &rows {
            builder.push(row.clone(), Origin { layer: *layer, line: 0 });
        }
        let database = builder.finish(Vec::new());
        prop_assert_eq!(database.len() + database.refused(), rows.len());
        for (site, m, constraints) in queries {
            let problem: Problem = site.at(m).into();
            let hit = database.lookup(&problem, &constraints);
            let want = match oracle(&rows, &problem, &constraints) {
                Some((at, kind, m)) => Hit { kind, choice: Some(&rows[at].0), tuned_m: Some(m) },
                None => Hit::DEFAULT,
            };
            prop_assert_eq!(hit, want);
            let explanation = database.explain(&problem, &constraints);
            prop_assert_eq!((explanation.kind, explanation.tuned_m), (want.kind, want.tuned_m));
            prop_assert_eq!(explanation.steps.iter().any(|step| step.answered), want.choice.is_some());
        }
    }
}
