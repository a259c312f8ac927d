//! Our table of recorded problems.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tgemm_db::format::untuned;

fuzz_target!(|bytes: &[u8]| tgemm_fuzz::check_below("u.csv", &[untuned::header()], bytes));
