//! What people read.

use tgemm_db::{Constraints, DType, Numerics, Problem, Site, WeightForm};

use super::{build, choice, device, here};
use crate::{Database, HitKind, Levels};

fn problem(m: u32) -> Problem {
    Site::linear(1024, 3072, DType::Bf16).at(m).into()
}

#[test]
fn an_exact_hit_names_what_runs() {
    let database = Database::from_choices([choice(problem(4))], &here());
    assert_eq!(
        database.explain(&problem(4), &Constraints::default()).to_string(),
        "4x1024x3072 bf16 on gfx942/304: exact\n  exact     M=4: hipblaslt Cijk, 12.500 us"
    );
}

#[test]
fn a_borrowed_row_says_why_the_better_ones_did_not_answer() {
    let mut loose = choice(problem(9));
    loose.solution.numerics = Numerics::Partial16;
    let database = Database::from_choices([loose, choice(problem(16))], &here());
    assert_eq!(
        database.explain(&problem(9), &Constraints::default()).to_string(),
        "9x1024x3072 bf16 on gfx942/304: padded, tuned at M=16\n  \
         exact     M=9: hipblaslt Cijk may not run: its arithmetic is partial16, exact is asked for\n  \
         padded    M=16: hipblaslt Cijk, 12.500 us"
    );
}

#[test]
fn no_hit_names_the_nearest_m_and_the_rows_of_other_places() {
    let mut elsewhere = choice(problem(300));
    elsewhere.device = device("gfx942", 80).into();
    let mut newer = choice(problem(320));
    newer.solution.build = build("hipblaslt", "2.0").into();
    let mut absent = choice(problem(320));
    absent.solution.build = build("rocblas", "5.0").into();
    let database = Database::from_choices([elsewhere, newer, absent, choice(problem(384))], &here());
    assert_eq!((database.len(), database.refused()), (1, 3));
    assert_eq!(
        database.explain(&problem(300), &Constraints::default()).to_string(),
        "300x1024x3072 bf16 on gfx942/304: default\n  \
         exact     M=300: not tuned\n  \
         padded    M=320: not tuned\n  \
         padded    M=512: not tuned\n  \
         interval  M=300 is below all that were tuned, from 384 on\n  \
         predicted not asked for\n  \
         nearest tuned M here: 384\n  \
         not for here: M=300 tuned on gfx942/80, this is gfx942/304: compute units was 80 when tuned, is 304 here\n  \
         not for here: M=320 hipblaslt Cijk: hipblaslt version was 2.0 when tuned, is 1.0 here\n  \
         not for here: M=320 rocblas Cijk: rocblas was rocblas 5.0 when tuned, is absent here"
    );
    let other: Problem = Site::linear(7, 7, DType::F32).at(1).into();
    let text = database.explain(&other, &Constraints::default()).to_string();
    assert!(text.ends_with("this site was never tuned here"), "{text}");
}

/// Each line but the first.
fn lines(database: &Database, problem: &Problem, constraints: &Constraints) -> Vec<String> {
    database.explain(problem, constraints).to_string().lines().skip(1).map(|line| line.trim().to_owned()).collect()
}

#[test]
fn between_two_tuned_ms_both_sides_are_told_with_their_scores() {
    let (mut low, mut high) = (choice(problem(20)), choice(problem(400)));
    (low.solution.index, low.time_us) = (1, 10.0);
    (high.solution.index, high.time_us) = (2, 20.0);
    let database = Database::from_choices([low, high], &here()).with_levels(Levels::ALL);
    let constraints = Constraints::default();
    let told = database.explain(&problem(300), &constraints);
    assert_eq!((told.kind, told.tuned_m), (HitKind::Interval, Some(400)));
    let told = lines(&database, &problem(300), &constraints);
    assert_eq!(told[..3], ["exact     M=300: not tuned", "padded    M=320: not tuned", "padded    M=512: not tuned"]);
    assert!(told[3].starts_with("interval  M=20: hipblaslt Cijk, thought to take "), "{}", told[3]);
    assert!(told[4].starts_with("interval  M=400: hipblaslt Cijk, thought to take "), "{}", told[4]);
    assert_eq!(told.len(), 5);
    let capped = Constraints { weight_forms: [WeightForm::Prepacked].into(), ..constraints };
    assert_eq!(lines(&database, &problem(300), &capped)[3], "interval  none of the nearest 8 rows below may run");
    let only = database.with_levels(Levels::EXACT);
    assert_eq!(
        lines(&only, &problem(300), &Constraints::default()),
        [
            "exact     M=300: not tuned",
            "padded    not asked for",
            "interval  not asked for",
            "predicted not asked for",
            "nearest tuned M here: 400"
        ]
    );
}

#[test]
fn a_prediction_names_the_site_it_is_from_and_what_stands_against_it() {
    let site = |n: u32, k: u32| Site::linear(n, k, DType::Bf16);
    let database = Database::from_choices([choice(site(1024, 3072).at(4).into())], &here()).with_levels(Levels::ALL);
    let told = |site: Site, m: u32, constraints: &Constraints| {
        let problem = site.at(m).into();
        let kind = database.explain(&problem, constraints).kind;
        assert_eq!(kind, database.lookup(&problem, constraints).kind);
        (kind, lines(&database, &problem, constraints)[2..].to_vec())
    };
    let any = Constraints::default();
    let (kind, lines) = told(site(1152, 3072), 4, &any);
    assert_eq!(kind, HitKind::Predicted);
    assert_eq!(lines, ["predicted M=4: 1024x3072: hipblaslt Cijk, 12.500 us"]);
    let never = "this site was never tuned here";
    let (_, lines) = told(site(1152, 3072), 5, &any);
    assert_eq!(lines, ["predicted 1024x3072: M=5 is above all that were tuned, up to 4", never]);
    let (_, lines) = told(site(2048, 3072), 4, &any);
    assert_eq!(
        lines[0],
        "predicted none of the 1 tuned sites of these types is within half an octave in N and K and as divisible"
    );
    let (_, lines) = told(Site::linear(1024, 3072, DType::F16), 4, &any);
    assert_eq!(lines[0], "predicted no site of these types was tuned here");
    let (_, lines) = told(site(1152, 3072), 4, &Constraints { deterministic: true, ..any });
    assert_eq!(lines[0], "predicted M=4: 1024x3072: hipblaslt Cijk may not run: not known to be deterministic");
}
