//! Our table of choices.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tgemm_db::format::tuned;

static HEADER: LazyLock<String> = LazyLock::new(|| tuned::to_text([]).trim_end().to_owned());

fuzz_target!(|bytes: &[u8]| tgemm_fuzz::check_below("t.csv", &[HEADER.as_str()], bytes));
