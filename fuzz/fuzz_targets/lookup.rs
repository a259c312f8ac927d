//! Tables as the lookup loads them, whole and cut, and what it answers from them.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tgemm_db::format::{aiter, tuned};

static HEADERS: LazyLock<[String; 2]> =
    LazyLock::new(|| [tuned::to_text([]).trim_end().to_owned(), aiter::COLUMNS.join(",")]);

fuzz_target!(|bytes: &[u8]| {
    tgemm_fuzz::lookup::check_table(bytes);
    let Some((&first, rest)) = bytes.split_first() else { return };
    // A header that the fuzzer need not find by itself.
    if let Some(header) = HEADERS.get(usize::from(first) % 8) {
        tgemm_fuzz::lookup::check_table(&[header.as_bytes(), b"\n", rest].concat());
    }
});
