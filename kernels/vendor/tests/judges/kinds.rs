//! A C type as far as a call depends on it: width and sign of a number; what a pointer leads to, and whether it is written.
//!
//! `i32`, `u32`, `i64`, `u64`, `f32`, `char`; `any` for what only its library looks into; `*T` for a pointer through which
//! is written, `&T` for one through which is read only.

use tgemm_vendor::gpu::{Dialect, blaslt, cublas, nvml, rocblas, rtc, runtime};

/// The kind of a type that Rust wrote: in our tables, or as the compiler names a type of a binding.
///
/// `enums` are the types, by their last name, that are 32-bit numbers.
pub fn kind(text: &str, enums: &[String]) -> String {
    let text = text.trim();
    for (prefix, mark) in [("*mut ", '*'), ("*const ", '&')] {
        if let Some(pointee) = text.strip_prefix(prefix) {
            return format!("{mark}{}", kind(pointee, enums));
        }
    }
    let name = text.rsplit("::").next().unwrap();
    match name {
        "i32" | "c_int" => "i32",
        "u32" | "c_uint" => "u32",
        "u8" => "u8",
        "i64" | "c_longlong" => "i64",
        "u64" | "usize" | "c_ulonglong" => "u64",
        "f32" | "c_float" => "f32",
        "c_char" | "i8" => "char",
        "Handle" => "*any",
        _ if enums.iter().any(|known| known == name) => "i32",
        _ => "any",
    }
    .into()
}

/// The symbols of the tables in `dialect` with the kinds of their arguments.
pub fn ours(dialect: Dialect) -> Vec<(&'static str, Vec<String>)> {
    let tables = [
        runtime::Table::SYMBOLS,
        blaslt::Table::SYMBOLS,
        cublas::Table::SYMBOLS,
        rocblas::Table::SYMBOLS,
        rtc::Table::SYMBOLS,
        nvml::Table::SYMBOLS,
    ];
    let of = |(hip, cuda, types): &(&'static str, &'static str, &[&str])| {
        (dialect.pick(*hip, *cuda), types.iter().map(|text| kind(text, &[])).collect())
    };
    tables.into_iter().flatten().map(of).filter(|(symbol, _)| !symbol.is_empty()).collect()
}

#[test]
fn pointers_keep_what_they_lead_to() {
    let enums = ["status_t".to_owned()];
    for (text, expected) in [
        ("*mut Handle", "**any"),
        ("*const *const c_char", "&&char"),
        ("*mut usize", "*u64"),
        ("*mut some::status_t", "*i32"),
        ("some::status_t", "i32"),
        ("*const some::thing_t", "&any"),
    ] {
        assert_eq!(kind(text, &enums), expected, "{text}");
    }
}
