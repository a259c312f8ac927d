use proptest::prelude::*;
use tgemm_db::{Problem, Site};

use super::*;

fn row(m: u32, n: u32, k: u32, dtype: DType) -> Recorded {
    Recorded::bare(Problem::Gemm(Site::linear(n, k, dtype).at(m)))
}

fn keeps(expr: &str, row: &Recorded) -> bool {
    Filter::parse(expr).unwrap_or_else(|error| panic!("{expr}: {error}")).matches(row)
}

#[test]
fn numbers_compare() {
    let row = Recorded { count: 7, ..row(4, 1280, 8192, DType::Bf16) };
    for yes in [
        "m = 4",
        "m == 4",
        "M != 5",
        "m<5",
        "m <= 4",
        "m > 3",
        "m >= 4",
        "n = 1_280",
        "count > 6 and batch = 1",
        "k == 8192",
    ] {
        assert!(keeps(yes, &row), "{yes}");
    }
    for no in ["m = 5", "m != 4", "m < 4", "m <= 3", "m > 4", "m >= 5", "count = 0", "n = 18446744073709551615"] {
        assert!(!keeps(no, &row), "{no}");
    }
}

#[test]
fn words_compare_by_meaning() {
    let plain = row(4, 1280, 8192, DType::Bf16);
    let gemm = *plain.problem.gemm().unwrap();
    let biased = Recorded {
        problem: Problem::Gemm(gemm.site.with_bias(DType::F32).with_out(DType::F32).at(4)),
        captured: true,
        via: Via::Linear,
        ..plain.clone()
    };
    for both in
        ["dtype == bf16", "dtype = torch.bfloat16", "dtype = 'BF16'", "w in (f16, bf16)", "compute = f32", "act = none"]
    {
        assert!(keeps(both, &plain) && keeps(both, &biased), "{both}");
    }
    for biased_only in
        ["bias", "bias = true", "bias != false", "bias == f32", "bias != none", "captured", "via = linear", "out = f32"]
    {
        assert!(!keeps(biased_only, &plain) && keeps(biased_only, &biased), "{biased_only}");
    }
    for plain_only in ["not bias", "bias = none", "bias == false", "via = ''", "!captured", "bias not in (f32, f16)"] {
        assert!(keeps(plain_only, &plain) && !keeps(plain_only, &biased), "{plain_only}");
    }
}

#[test]
fn not_binds_tighter_than_and_than_or() {
    let row = row(4, 8, 16, DType::F32);
    assert!(keeps("m = 4 or n = 0 and k = 0", &row));
    assert!(!keeps("(m = 4 or n = 0) and k = 0", &row));
    assert!(keeps("not m = 5 and n = 8", &row));
    assert!(!keeps("not (m = 5 or n = 8)", &row));
    assert!(keeps("! m = 4 || n = 8 && ! k in (1, 2, 3)", &row));
    assert!(keeps("NOT m IN (5,6) AND n NOT IN (9)", &row));
}

#[test]
fn errors_point_at_the_place() {
    let error = |expr: &str| Filter::parse(expr).unwrap_err();
    assert_eq!(error("m <= 8 and dtyp = bf16").column, 12);
    let shown = error("m <= 8 and m < bf16").to_string();
    assert_eq!(
        shown,
        "column 16: 'm' cannot be 'bf16': it is a whole number\n  m <= 8 and m < bf16\n                 ^"
    );
    let reason = |expr: &str| error(expr).reason.to_string();
    assert_eq!(reason(""), "expected a field, 'not' or '(', found the end");
    assert_eq!(reason("m"), "expected a comparison with 'm', found the end");
    assert_eq!(reason("m 4"), "expected a comparison with 'm', found '4'");
    assert_eq!(reason("4 = m"), "expected a field, 'not' or '(', found '4'");
    assert_eq!(reason("m = "), "expected a value for 'm', found the end");
    assert_eq!(reason("m = 4 n = 5"), "expected 'and', 'or' or the end, found 'n'");
    assert_eq!(reason("(m = 4"), "expected ')', found the end");
    assert_eq!(reason("m in 4"), "expected '(', found '4'");
    assert_eq!(reason("m in (4 5)"), "expected ',' or ')', found '5'");
    assert_eq!(reason("m = 1.5"), "'1.5' is not a whole number below 2^64");
    assert_eq!(reason("m = 18446744073709551616"), "'18446744073709551616' is not a whole number below 2^64");
    assert_eq!(reason("m = -1"), "'-' does not belong here");
    assert_eq!(reason("via = 'x"), "this quotation mark is never closed");
    assert_eq!(reason("dtype < f32"), "'dtype' has no order; compare it with ==, != or in");
    assert!(reason("dtype = bf17").starts_with("'dtype' cannot be 'bf17': unknown element type"));
    assert!(reason("library = onednn").starts_with("'library' is not a field (known: m, n, k, batch"));
    assert_eq!(error("m = 1 and ü").column, 11);
}

#[test]
fn limits_hold() {
    let nested = |depth: usize| format!("{}m = 1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Filter::parse(&nested(DEPTH_MAX)).is_ok());
    assert_eq!(Filter::parse(&nested(DEPTH_MAX + 1)).unwrap_err().reason, Reason::TooDeep);
    assert_eq!(Filter::parse(&"!".repeat(EXPR_BYTES_MAX)).unwrap_err().reason, Reason::TooDeep);
    let long = " ".repeat(EXPR_BYTES_MAX + 1);
    assert_eq!(Filter::parse(&long).unwrap_err().reason, Reason::TooLong { bytes: EXPR_BYTES_MAX + 1 });
    // A chain is not nesting.
    assert!(Filter::parse(&["m=1"; 500].join(" or ")).is_ok());
    let shown = Filter::parse(&format!("{} nonsense", ["m=1"; 300].join(" or "))).unwrap_err().to_string();
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let word = "z".repeat(2000);
    for text in
        [word.clone(), format!("dtype = {word}"), format!("m = {word}"), format!("m {word}"), format!("m = 9{word}")]
    {
        assert!(Filter::parse(&text).unwrap_err().to_string().len() < 600);
    }
}

#[test]
fn every_field_has_one_meaning() {
    for (name, field) in FIELDS {
        assert_eq!(Field::named(name), Some(*field));
        assert_eq!(Field::named(field.name()), Some(*field));
    }
}

/// Pieces that a random expression is glued from, so that some parse and most nearly do.
const PIECES: &[&str] = &[
    "m", "n", "dtype", "bias", "via", "(", ")", ",", "!", "not", "and", "&&", "or", "||", "in", "=", "==", "!=", "<",
    "<=", ">=", "4", "1_0", "bf16", "'f32'", "true", "none", "\"", "é", ".", "x.",
];

fn comparison() -> impl Strategy<Value = String> {
    let number = (
        prop::sample::select(&["m", "n", "k", "count"][..]),
        prop::sample::select(&["=", "!=", "<", "<=", ">", ">="][..]),
        0u32..6,
    );
    let word = (prop::sample::select(&["dtype", "out"][..]), prop::sample::select(&["f32", "bf16"][..]));
    prop_oneof![
        number.prop_map(|(field, op, value)| format!("{field} {op} {value}")),
        word.prop_map(|(field, value)| format!("{field} in ({value})")),
        Just("bias".to_owned()),
    ]
}

proptest! {
    #[test]
    fn any_text_is_an_error_or_an_expression(text in "\\PC{0,80}") {
        if let Err(error) = Filter::parse(&text) {
            prop_assert!(error.column <= text.chars().count() + 1);
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn any_pieces_are_an_error_or_an_expression(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..12)) {
        if let Ok(filter) = Filter::parse(&pieces.join(" ")) {
            filter.matches(&row(4, 8, 16, DType::F32));
        }
    }

    /// De Morgan's laws and the meaning of `and`, on rows that straddle the values compared with.
    #[test]
    fn connectives_are_boolean(a in comparison(), b in comparison(), sizes in (1u32..6, 1u32..6, 1u32..6), count in 0u64..6) {
        let row = Recorded { count, ..row(sizes.0, sizes.1, sizes.2, DType::F32) };
        let (a_holds, b_holds) = (keeps(&a, &row), keeps(&b, &row));
        prop_assert_eq!(keeps(&format!("{a} and {b}"), &row), a_holds && b_holds);
        prop_assert_eq!(keeps(&format!("{a} or {b}"), &row), a_holds || b_holds);
        prop_assert_eq!(keeps(&format!("not ({a} and {b})"), &row), keeps(&format!("!{a} || !{b}"), &row));
        prop_assert_eq!(keeps(&format!("not ({a} or {b})"), &row), keeps(&format!("!{a} && !{b}"), &row));
    }
}
