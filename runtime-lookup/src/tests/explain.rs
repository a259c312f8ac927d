//! What people read.

use tgemm_db::{Constraints, DType, Numerics, Problem, Site};

use super::{build, choice, device, here};
use crate::Database;

fn problem(m: u32) -> Problem {
    Site::linear(1024, 3072, DType::Bf16).at(m).into()
}

#[test]
fn an_exact_hit_names_what_runs() {
    let database = Database::from_choices([choice(problem(4))], &here());
    assert_eq!(
        database.explain(&problem(4), &Constraints::default()).to_string(),
        "4x1024x3072 bf16 on gfx942/304: exact\n  exact   M=4: hipblaslt Cijk, 12.500 us"
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
         exact   M=9: hipblaslt Cijk may not run: its arithmetic is partial16, exact is asked for\n  \
         padded  M=16: hipblaslt Cijk, 12.500 us"
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
         exact   M=300: not tuned\n  \
         padded  M=320: not tuned\n  \
         padded  M=512: not tuned\n  \
         nearest tuned M here: 384\n  \
         not for here: M=300 tuned on gfx942/80, this is gfx942/304: compute units was 80 when tuned, is 304 here\n  \
         not for here: M=320 hipblaslt Cijk: hipblaslt version was 2.0 when tuned, is 1.0 here\n  \
         not for here: M=320 rocblas Cijk: rocblas was rocblas 5.0 when tuned, is absent here"
    );
    let other: Problem = Site::linear(7, 7, DType::F32).at(1).into();
    let text = database.explain(&other, &Constraints::default()).to_string();
    assert!(text.ends_with("this site was never tuned here"), "{text}");
}
