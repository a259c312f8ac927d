//! Every level of the ladder, and every constraint at every level.

use tgemm_db::{Choice, Constraints, DType, Numerics, Problem, Site, Verdict, WeightForm};

use super::{build, choice, here};
use crate::{Database, Hit, HitKind, Levels};

fn site() -> Site {
    Site::linear(1024, 3072, DType::Bf16)
}

fn row(m: u32, index: i64, time_us: f64) -> Choice {
    let mut row = Choice { time_us, ..choice(site().at(m).into()) };
    row.solution.index = index;
    row
}

fn answer<'a>(database: &'a Database, problem: &Problem, constraints: &Constraints) -> (HitKind, Option<i64>) {
    let hit: Hit<'a> = database.lookup(problem, constraints);
    let told = database.explain(problem, constraints);
    assert_eq!(told.kind, hit.kind);
    assert_eq!(told.steps.iter().filter(|step| step.answered).count(), usize::from(hit.choice.is_some()), "{told}");
    (hit.kind, hit.choice.map(|choice| choice.solution.index))
}

/// A database that answers `problem` on one level only.
struct Level {
    kind: HitKind,
    problem: Problem,
    rows: fn() -> Vec<Choice>,
    /// How much the problem is larger than where its answer was tuned.
    times: u64,
}

/// One for each level. Where two rows could answer, both are alike.
fn levels() -> Vec<Level> {
    let at = |m: u32| site().at(m).into();
    vec![
        Level { kind: HitKind::Exact, problem: at(20), rows: || vec![row(20, 1, 10.0)], times: 1 },
        Level { kind: HitKind::Padded, problem: at(20), rows: || vec![row(32, 1, 10.0)], times: 1 },
        // AITER's cap leads down: twice the tokens that it was tuned at.
        Level {
            kind: HitKind::Padded,
            problem: Site { n: 8192, ..site() }.at(16_384).into(),
            rows: || vec![Choice { problem: Site { n: 8192, ..site() }.at(8192).into(), ..row(1, 1, 10.0) }],
            times: 2,
        },
        // The lower one is quicker by far.
        Level {
            kind: HitKind::Interval,
            problem: at(20),
            rows: || vec![row(10, 1, 1.0), row(30, 2, 500.0), row(5000, 3, 600.0)],
            times: 2,
        },
        // The upper one is.
        Level {
            kind: HitKind::Interval,
            problem: at(20),
            rows: || vec![row(10, 2, 500.0), row(30, 1, 1.0), row(5000, 3, 600.0)],
            times: 1,
        },
        Level {
            kind: HitKind::Predicted,
            problem: Site { n: 1280, k: 3840, ..site() }.at(20).into(),
            rows: || {
                vec![Choice { problem: Site { k: 1920 * 2, n: 1280 - 256, ..site() }.at(20).into(), ..row(1, 1, 10.0) }]
            },
            times: 2,
        },
    ]
}

#[test]
fn each_level_answers_where_it_is_asked_and_no_better_one_does() {
    for Level { kind, problem, rows, .. } in levels() {
        let any = Constraints::default();
        let database = Database::from_choices(rows(), &here()).with_levels(Levels::ALL);
        assert_eq!(answer(&database, &problem, &any), (kind, Some(1)), "{problem}");
        let without = match kind {
            HitKind::Exact => continue,
            HitKind::Padded => Levels { padded: false, interval: false, ..Levels::ALL },
            HitKind::Interval => Levels { interval: false, ..Levels::ALL },
            _ => Levels::default(),
        };
        let database = database.with_levels(without);
        assert_eq!(answer(&database, &problem, &any), (HitKind::Default, None), "{problem}");
    }
}

#[test]
fn every_constraint_holds_at_every_level() {
    for Level { kind, problem, rows, times } in levels() {
        let with = |change: &dyn Fn(&mut Choice), constraints: &Constraints| {
            let mut rows = rows();
            rows.iter_mut().for_each(change);
            let database = Database::from_choices(rows, &here()).with_levels(Levels::ALL);
            answer(&database, &problem, constraints)
        };
        let any = Constraints::default();
        let cap = |bytes: u64| Constraints { workspace_bytes_max: Some(bytes), ..any.clone() };
        type Change<'a> = &'a dyn Fn(&mut Choice);
        let workspace: Change<'_> = &|row| row.solution.workspace_bytes = 100;
        let cases: [(Change<'_>, Constraints, Constraints); 6] = [
            // A change, the constraints that refuse it, those that take it. Workspace grows with the problem.
            (workspace, cap(if times == 1 { 99 } else { 100 }), cap(100 * 4)),
            (
                &|row| row.solution.numerics = Numerics::Partial16,
                any.clone(),
                Constraints { numerics: Numerics::Partial16, ..any.clone() },
            ),
            (
                &|row| row.solution.deterministic = Some(true),
                Constraints { deterministic: true, ..any.clone() },
                any.clone(),
            ),
            (&|row| row.solution.graph_safe = Some(true), Constraints { graph_safe: true, ..any.clone() }, any.clone()),
            (
                &|_| (),
                Constraints { libraries: Some(["rocblas".into()].into()), ..any.clone() },
                Constraints { libraries: Some(["hipblaslt".into()].into()), ..any.clone() },
            ),
            (
                &|_| (),
                Constraints { weight_forms: [WeightForm::Prepacked].into(), ..any.clone() },
                Constraints { weight_forms: [WeightForm::Plain].into(), ..any.clone() },
            ),
        ];
        for (at, (change, refusing, taking)) in cases.iter().enumerate() {
            // What is known to be deterministic or safe is taken by both, and refused where it is not known.
            let is_promise = refusing.deterministic || refusing.graph_safe;
            let refused: Change<'_> = if is_promise { &|_| () } else { change };
            assert_eq!(with(refused, refusing), (HitKind::Default, None), "{kind} {at}");
            let taking = if is_promise { refusing } else { taking };
            assert_eq!(with(change, taking), (kind, Some(1)), "{kind} {at}");
        }
    }
}

#[test]
fn prepacked_and_unproven_rows_answer_for_their_own_site_only() {
    for Level { kind, problem, rows, .. } in levels() {
        let changes: [fn(&mut Choice); 3] = [
            |row| row.solution.weight_form = WeightForm::Prepacked,
            |row| row.verdict = Verdict::Same,
            |row| row.verdict = Verdict::Unknown,
        ];
        for change in changes {
            let mut rows = rows();
            rows.iter_mut().for_each(change);
            let database = Database::from_choices(rows, &here()).with_levels(Levels::ALL);
            let want = if kind == HitKind::Predicted { (HitKind::Default, None) } else { (kind, Some(1)) };
            assert_eq!(answer(&database, &problem, &Constraints::default()), want);
        }
    }
}

#[test]
fn rows_of_other_builds_answer_at_no_level() {
    for Level { problem, rows, .. } in levels() {
        let mut rows = rows();
        rows.iter_mut().for_each(|row| row.solution.build = build("hipblaslt", "2.0").into());
        let database = Database::from_choices(rows, &here()).with_levels(Levels::ALL);
        assert_eq!(answer(&database, &problem, &Constraints::default()), (HitKind::Default, None));
    }
}

#[test]
fn between_two_ms_the_winner_changes_once() {
    // The weights take 6 of the 7 us; within the span arithmetic begins to count, and what is wasted of it.
    let rows = [row(1, 4, 6.0), row(10, 1, 7.0), row(200, 2, 19.0), row(8000, 3, 700.0)];
    let database = Database::from_choices(rows, &here()).with_levels(Levels::ALL);
    let constraints = Constraints::default();
    let untuned = |m: &u32| crate::ladder::padded(*m, 1024).iter().all(|m| ![10, 200, 8000].contains(m));
    let winners: Vec<i64> = (11..200)
        .filter(untuned)
        .map(|m| {
            let (kind, index) = answer(&database, &site().at(m).into(), &constraints);
            assert_eq!(kind, HitKind::Interval, "M={m}");
            index.unwrap()
        })
        .collect();
    assert_eq!((winners[0], winners[winners.len() - 1]), (1, 2));
    assert!(winners.is_sorted(), "{winners:?}");
}

#[test]
fn without_times_the_upper_neighbour_answers() {
    for (low, high) in [(f64::NAN, f64::NAN), (1.0, f64::NAN), (f64::NAN, 1.0)] {
        let database = Database::from_choices([row(10, 1, low), row(30, 2, high)], &here()).with_levels(Levels::ALL);
        let found = answer(&database, &site().at(20).into(), &Constraints::default());
        assert_eq!(found, (HitKind::Interval, Some(2)));
    }
}

#[test]
fn neighbours_that_differ_do_not_answer_unless_scores_are_asked_for() {
    let rows = |high: i64| [row(10, 1, 1.0), row(300, high, 2.0)];
    let at_100 = |rows, levels| {
        let database = Database::from_choices(rows, &here()).with_levels(levels);
        let problem: Problem = site().at(100).into();
        let found = answer(&database, &problem, &Constraints::default());
        let told = database.explain(&problem, &Constraints::default());
        assert_eq!(told.kind, found.0);
        (found, told.to_string())
    };
    assert_eq!(at_100(rows(1), Levels::default()).0, (HitKind::Interval, Some(1)));
    let (found, told) = at_100(rows(2), Levels::default());
    assert_eq!(found, (HitKind::Default, None));
    assert!(told.contains("the neighbours chose differently"), "{told}");
    let scored = Levels { scored: true, ..Levels::default() };
    assert_eq!(at_100(rows(2), scored).0, (HitKind::Interval, Some(2)));
    assert_eq!(at_100(rows(1), Levels { interval: false, ..scored }).0, (HitKind::Default, None));
}

#[test]
fn outside_the_tuned_span_nothing_is_said() {
    let database = Database::from_choices([row(10, 1, 1.0), row(30, 2, 1.0)], &here());
    for m in [1, 5, 33, 100, 1_000_000] {
        let found = answer(&database, &site().at(m).into(), &Constraints::default());
        assert_eq!(found, (HitKind::Default, None), "M={m}");
    }
}

#[test]
fn a_prediction_is_from_the_nearest_site_that_has_one() {
    let of = |n: u32, m: u32, index: i64| Choice { problem: Site { n, ..site() }.at(m).into(), ..row(1, index, 10.0) };
    let rows = [of(1024, 20, 1), of(1152, 64, 2), of(1152, 10, 3), of(1152, 30, 4)];
    let database = Database::from_choices(rows, &here()).with_levels(Levels::ALL);
    let predicted = |m: u32| answer(&database, &Site { n: 1280, ..site() }.at(m).into(), &Constraints::default());
    // 1152 is nearer: at its own M, between two of them, and where it has nothing the next site is asked.
    assert_eq!(predicted(64), (HitKind::Predicted, Some(2)));
    assert_eq!(predicted(20), (HitKind::Predicted, Some(4)));
    assert_eq!(predicted(100), (HitKind::Default, None));
    let rows = [of(1024, 20, 1), of(1152, 64, 2)];
    let database = Database::from_choices(rows, &here()).with_levels(Levels::ALL);
    let hit = database.lookup(&Site { n: 1280, ..site() }.at(20).into(), &Constraints::default());
    assert_eq!((hit.kind, hit.choice.map(|choice| choice.solution.index)), (HitKind::Predicted, Some(1)));
    assert_eq!(hit.choice.and_then(|choice| choice.problem.gemm()).map(|gemm| gemm.site.n), Some(1024));
}
