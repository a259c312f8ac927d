//! What is saved is what is read, whatever is in it; and saving again replaces.
#![cfg(feature = "sqlite")]

mod store_words;

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use store_words::{begin, choice, device, environment, failed, problem, solution, trial};
use tgemm_db::choice::{Baseline, Ratio};
use tgemm_db::origin::{Origin, Source};
use tgemm_db::outcome::{ErrorFigures, OutcomeKind, Phase, Sample};
use tgemm_db::store::{Store, StoreError, TEXT_BYTES_MAX};
use tgemm_db::{
    Build, Choice, Constraints, Environment, Numerics, Outcome, Params, Recorded, Solution, Trial, Verdict, Via,
    WeightForm,
};

fn fresh() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("t.sqlite")).unwrap();
    (folder, store)
}

/// Any text: quotes, NUL, line ends, other scripts.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,12}",
        any::<String>(),
        select(vec!["", "'", "\"; DROP TABLE trial; --", "a\0b", "a\r\nb", "NULL", "1e999", "🚀", "\u{feff}x"])
            .prop_map(String::from),
    ]
}

/// Any float, the hard ones often. Zero has one sign: SQLite keeps no other, and they are equal.
fn float() -> impl Strategy<Value = f64> {
    let hard = [f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.1];
    prop_oneof![any::<f64>(), select(hard.to_vec()), select(vec![0.0, 1.0, 9_007_199_254_740_993.0, 1e18, 1e19])]
        .prop_map(|value| value + 0.0)
}

/// Absent and not a number are one where a number may be absent.
fn optional_float() -> impl Strategy<Value = Option<f64>> {
    proptest::option::of(float()).prop_map(|value| value.filter(|v| !v.is_nan()))
}

/// What SQLite's integers hold.
fn size() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..10, 0..=i64::MAX as u64, Just(i64::MAX as u64)]
}

fn any_build() -> impl Strategy<Value = Build> {
    (text(), text(), text()).prop_map(|(library, version, revision)| Build { library, version, revision })
}

fn any_solution() -> impl Strategy<Value = Solution> {
    let identity = (any_build(), any::<i64>(), text(), proptest::collection::vec((text(), text()), 0..3));
    let rest = (select(WeightForm::ALL), size(), select(Numerics::ALL), any::<Option<bool>>(), any::<Option<bool>>());
    (identity, rest).prop_map(|((build, index, name, params), rest)| Solution {
        build: build.into(),
        index,
        name: name.into(),
        params: params.iter().fold(Params::new(), |all, (name, value)| all.with(name, value)),
        weight_form: rest.0,
        workspace_bytes: rest.1,
        numerics: rest.2,
        deterministic: rest.3,
        graph_safe: rest.4,
    })
}

fn any_trial() -> impl Strategy<Value = Trial> {
    let sample = (select(Phase::ALL), any::<u32>(), float()).prop_map(|(phase, block, time_us)| Sample {
        phase,
        block,
        time_us,
    });
    let error =
        (float(), float(), float(), size()).prop_map(|(max_over_bound, max_relative, share_beyond, checked)| {
            ErrorFigures { max_over_bound, max_relative, share_beyond, checked }
        });
    let words = (any_solution(), proptest::option::of(text()), select(OutcomeKind::ALL), text(), any::<bool>());
    (words, proptest::option::of(error), optional_float(), proptest::collection::vec(sample, 0..6)).prop_map(
        |((solution, baseline_via, kind, detail, finalist), error, pack_us, samples)| Trial {
            solution,
            baseline_via,
            outcome: Outcome::new(kind, detail),
            finalist,
            error,
            pack_us,
            samples,
        },
    )
}

fn any_choice() -> impl Strategy<Value = Choice> {
    let baseline =
        (text(), any_solution(), float()).prop_map(|(via, solution, time_us)| Baseline { via, solution, time_us });
    let floats = (float(), float(), float(), float(), float(), float(), optional_float());
    (any_solution(), floats, select(Verdict::ALL), proptest::collection::vec(baseline, 0..4), size(), text()).prop_map(
        |(solution, f, verdict, baselines, count, tuned_at)| Choice {
            problem: problem(3),
            device: device().into(),
            solution,
            time_us: f.0,
            ratio: Ratio { estimate: f.1, low: f.2, high: f.3 },
            verdict,
            baselines,
            error_over_bound: f.4,
            err_ratio: f.5,
            pack_us: f.6,
            count,
            tuned_at,
            origin: None,
        },
    )
}

fn any_constraints() -> impl Strategy<Value = Constraints> {
    let libraries = proptest::option::of(proptest::collection::btree_set(text(), 0..3));
    let forms = proptest::collection::btree_set(select(WeightForm::ALL), 0..3);
    (libraries, forms, any::<Option<u64>>(), select(Numerics::ALL), any::<[bool; 2]>()).prop_map(
        |(libraries, weight_forms, workspace_bytes_max, numerics, [deterministic, graph_safe])| Constraints {
            libraries,
            weight_forms,
            workspace_bytes_max,
            numerics,
            deterministic,
            graph_safe,
        },
    )
}

fn any_environment() -> impl Strategy<Value = Environment> {
    let device =
        (text(), any::<u32>(), any::<Option<u32>>(), any::<Option<u32>>(), proptest::option::of(text()), size());
    let builds = proptest::collection::vec(any_build(), 0..4);
    let vars = proptest::collection::btree_map(text(), text(), 0..3);
    (device, builds, text(), vars).prop_map(|(d, mut builds, driver, vars)| {
        builds.sort();
        let mut device = device_of(d.0, d.1);
        (device.memory_gib, device.chip_id, device.partition, device.last_level_cache_bytes) = (d.2, d.3, d.4, d.5);
        Environment { device, builds, driver, vars }
    })
}

fn device_of(arch: String, compute_units: u32) -> tgemm_db::Device {
    tgemm_db::Device { arch, compute_units, ..device() }
}

/// Debug texts are equal where values are, and not-a-number is equal to itself.
fn same(a: &impl std::fmt::Debug, b: &impl std::fmt::Debug) -> Result<(), TestCaseError> {
    prop_assert_eq!(format!("{a:?}"), format!("{b:?}"));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn every_trial_comes_back_as_it_was(trials in proptest::collection::vec(any_trial(), 1..5)) {
        let (_folder, mut store) = fresh();
        let (run, env) = begin(&mut store);
        let mut last: Vec<Trial> = Vec::new();
        for trial in &trials {
            store.save_trial(run, env, &problem(3), trial).unwrap();
            last.retain(|have| have.solution.key() != trial.solution.key());
            last.push(trial.clone());
        }
        store.integrity_check().unwrap();
        same(&store.trials(env, &problem(3)).unwrap(), &last)?;
        prop_assert!(store.trials(env, &problem(4)).unwrap().is_empty());
    }

    #[test]
    fn every_choice_comes_back_as_it_was(
        choice in any_choice(), again in any_choice(), constraints in any_constraints(), environment in any_environment()
    ) {
        let (folder, mut store) = fresh();
        let (run, _) = begin(&mut store);
        let env = store.environment(&environment).unwrap();
        prop_assert_eq!(store.environment(&environment).unwrap(), env);
        for choice in [&choice, &again] {
            prop_assert_eq!(store.has_choice(env, &constraints, &problem(3)).unwrap(), std::ptr::eq(choice, &again));
            let choice = Choice { device: environment.device.clone().into(), ..choice.clone() };
            store.save_choice(run, env, &constraints, &choice).unwrap();
        }
        store.close().unwrap();
        let store = Store::open_read_only(&folder.path().join("t.sqlite")).unwrap();
        let found = store.choices_with_environment().unwrap();
        prop_assert_eq!(found.len(), 1, "the second replaced the first");
        same(&found[0].choice, &Choice { device: environment.device.clone().into(), ..again })?;
        prop_assert_eq!(&*found[0].constraints, &constraints);
        prop_assert_eq!(&*found[0].environment, &environment);
        prop_assert_eq!(found[0].environment_id, env);
        prop_assert!(store.has_choice(env, &constraints, &problem(3)).unwrap());
        prop_assert!(!store.has_choice(env, &constraints, &problem(4)).unwrap());
        store.integrity_check().unwrap();
        let mut served = Vec::new();
        store.each_to_serve(|choice| served.push(choice)).unwrap();
        same(&served, &[Choice { baselines: Vec::new(), origin: None, ..found[0].choice.clone() }])?;
    }
}

#[test]
fn a_later_outcome_of_one_solution_replaces_it_and_others_stay() {
    let (_folder, mut store) = fresh();
    let (run, env) = begin(&mut store);
    for trial in [failed(1, OutcomeKind::Untried), failed(2, OutcomeKind::Crashed), trial(1, 5)] {
        store.save_trial(run, env, &problem(1), &trial).unwrap();
    }
    // What a solution needs and promises is not its identity.
    let mut known = trial(1, 7);
    known.solution.workspace_bytes = 0;
    known.solution.deterministic = Some(false);
    store.save_trial(run, env, &problem(1), &known).unwrap();
    assert_eq!(store.trials(env, &problem(1)).unwrap(), [known, failed(2, OutcomeKind::Crashed)]);
    // Another problem needs another workspace from the same solution.
    store.save_trial(run, env, &problem(2), &trial(1, 1)).unwrap();
    assert_eq!(store.trials(env, &problem(2)).unwrap(), [trial(1, 1)]);
    store.integrity_check().unwrap();
}

#[test]
fn constraints_and_environments_each_have_their_own_choice() {
    let (_folder, mut store) = fresh();
    let (run, env) = begin(&mut store);
    let other = Environment { driver: "6.9".into(), ..environment() };
    let other = store.environment(&other).unwrap();
    assert_ne!(env, other);
    let strict = Constraints { weight_forms: BTreeSet::from([WeightForm::Plain]), ..Constraints::default() };
    for (place, constraints) in [(env, &Constraints::default()), (other, &Constraints::default()), (env, &strict)] {
        assert!(!store.has_choice(place, constraints, &problem(1)).unwrap());
        store.save_choice(run, place, constraints, &choice(1)).unwrap();
        assert!(store.has_choice(place, constraints, &problem(1)).unwrap());
    }
    assert_eq!(store.choices().unwrap(), [choice(1), choice(1), choice(1)]);
}

#[test]
fn many_choices_are_all_or_none() {
    let (_folder, mut store) = fresh();
    let (run, env) = begin(&mut store);
    let mut wrong = choice(3);
    Arc::make_mut(&mut wrong.device).compute_units = 80;
    let all = [choice(1), choice(2), wrong];
    store.save_choices(run, env, &Constraints::default(), &all).unwrap_err();
    assert_eq!(store.choices().unwrap(), []);
    store.save_choices(run, env, &Constraints::default(), &all[..2]).unwrap();
    assert_eq!(store.choices().unwrap(), all[..2]);
}

#[test]
fn the_cache_size_is_no_identity_and_a_known_one_wins() {
    let (_folder, mut store) = fresh();
    let with_cache = |bytes| {
        let mut environment = environment();
        environment.device.last_level_cache_bytes = bytes;
        environment
    };
    let first = store.environment(&with_cache(4 << 20)).unwrap();
    assert_eq!(store.environment(&with_cache(256 << 20)).unwrap(), first);
    assert_eq!(store.environment(&with_cache(0)).unwrap(), first);
    assert_eq!(*store.environments().unwrap()[0].1, with_cache(256 << 20));
    let mut shuffled = with_cache(0);
    shuffled.builds.reverse();
    assert_eq!(store.environment(&shuffled).unwrap(), first, "the order of builds is none either");
}

#[test]
fn reading_a_recording_again_adds_nothing_and_sources_add_up() {
    let (_folder, mut store) = fresh();
    let row = |m, count| Recorded { count, via: Via::LtMatmul, ..Recorded::bare(problem(m)) };
    store.record(&[row(1, 5), row(2, 7), row(1, 1)], "/a.csv").unwrap();
    assert_eq!(store.recorded().unwrap(), [row(1, 6), row(2, 7)]);
    store.record(&[row(1, 5), row(2, 7), row(1, 1)], "/a.csv").unwrap();
    assert_eq!(store.recorded().unwrap(), [row(1, 6), row(2, 7)]);
    let seen = Recorded { captured: true, ..row(2, 3) };
    let capped = Recorded { workspace_bytes_max: Some(1 << 20), library_file: "/lib/x.so".into(), ..row(2, 1) };
    store.record(&[seen, capped.clone(), row(3, 1)], "/b.csv").unwrap();
    let sum = [row(1, 6), Recorded { captured: true, ..row(2, 10) }, capped, row(3, 1)];
    assert_eq!(store.recorded().unwrap(), sum);
    store.record(&[row(1, 5), row(2, 7), row(1, 1), row(1, 4)], "/a.csv").unwrap();
    assert_eq!(store.recorded().unwrap()[0], row(1, 10), "the file has grown");
    // Beyond what SQLite counts: the largest, and sums that stay there.
    let endless = [row(9, u64::MAX), Recorded { workspace_bytes_max: Some(u64::MAX), ..row(9, 2) }];
    store.record(&endless, "/c.csv").unwrap();
    store.record(&[row(9, u64::MAX)], "/d.csv").unwrap();
    let found = store.recorded().unwrap();
    let (endless, capped) = (&found[found.len() - 2], &found[found.len() - 1]);
    assert_eq!((endless.problem, endless.count), (problem(9), i64::MAX as u64 * 2));
    assert_eq!(capped.workspace_bytes_max, Some(i64::MAX as u64));
    store.integrity_check().unwrap();
}

#[test]
fn limits_cut_explanations_and_refuse_names() {
    let (_folder, mut store) = fresh();
    let (run, env) = begin(&mut store);
    let long = "ä".repeat(TEXT_BYTES_MAX);
    let mut wordy = failed(1, OutcomeKind::Crashed);
    wordy.outcome.detail = format!("x{long}");
    store.save_trial(run, env, &problem(1), &wordy).unwrap();
    let detail = store.trials(env, &problem(1)).unwrap().remove(0).outcome.detail;
    assert_eq!(detail.len(), TEXT_BYTES_MAX - 1, "cut between characters");
    let named = Trial { solution: Solution { name: long.into(), ..solution("gemm", 1) }, ..trial(1, 1) };
    let error = store.save_trial(run, env, &problem(1), &named).unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { what: "a solution name", .. }), "{error}");
    assert_eq!(store.trials(env, &problem(1)).unwrap().len(), 1, "the earlier outcome stands");
}

#[test]
fn imported_choices_keep_where_they_came_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.sqlite");
    let origin = |file: &str, line: u64, end: Option<&str>| {
        let cells = [("gfx", "gfx942"), ("us", "12.50"), ("note", "a|b \"c\"\n")];
        let cells = cells.into_iter().chain(end.map(|end| ("", end)));
        let source = Source {
            file: file.into(),
            file_hash: "af13".into(),
            format: "aiter_a8w8_tuned".into(),
            imported_at: "2026-09-01T00:00:00Z".into(),
            columns: cells.clone().map(|(name, _)| name.to_owned()).collect(),
        };
        Some(Arc::new(Origin::new(source.into(), line, cells.map(|(_, cell)| cell))))
    };
    let from = |m: u32, origin| Choice { origin, ..choice(m) };
    let imported = [
        from(1, origin("a.csv", 2, None)),
        from(2, origin("a.csv", 3, Some(""))),
        from(3, origin("b.csv", 0, None)),
        from(4, None),
        from(5, origin("a.csv", 9, None)),
    ];
    let mut store = Store::open(&path).unwrap();
    let (run, env) = begin(&mut store);
    store.save_choices(run, env, &Constraints::default(), &imported).unwrap();
    assert_eq!(store.choices().unwrap(), imported);
    // A sweep that chooses anew takes the row's provenance away with it.
    store.save_choice(run, env, &Constraints::default(), &choice(1)).unwrap();
    assert_eq!(store.choices().unwrap()[0], choice(1));
    store.close().unwrap();
    let files: i64 = rusqlite::Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM imported_file", [], |row| row.get(0))
        .unwrap();
    assert_eq!(files, 3, "one a file and header");
}

#[test]
fn an_import_brings_choices_of_many_devices_at_once() {
    let (_folder, mut store) = fresh();
    let (run, _) = begin(&mut store);
    let on = |m: u32, compute_units: u32| {
        let device = tgemm_db::Device { compute_units, ..device() };
        Choice { device: device.into(), ..choice(m) }
    };
    let choices = [on(1, 304), on(2, 304), on(1, 80), on(3, 256)];
    store.import_choices(run, &Constraints::default(), &choices).unwrap();
    assert_eq!(store.choices().unwrap(), choices);
    let environments = store.environments().unwrap();
    let alone = environments.iter().filter(|(_, environment)| environment.builds.is_empty()).count();
    assert_eq!((alone, environments.len()), (3, 4), "beside the one of the run");
    // The same again changes nothing.
    store.import_choices(run, &Constraints::default(), &choices).unwrap();
    assert_eq!(store.choices().unwrap(), choices);
    // One that cannot be kept brings none of the others.
    let too_long = Choice { tuned_at: "x".repeat(TEXT_BYTES_MAX + 1), ..on(9, 304) };
    store.import_choices(run, &Constraints::default(), &[on(8, 304), too_long]).unwrap_err();
    assert_eq!(store.choices().unwrap().len(), choices.len());
}
