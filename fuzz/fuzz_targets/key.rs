//! The text key of a problem.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tgemm_db::Problem;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(problem) = String::from_utf8_lossy(bytes).parse::<Problem>() {
        tgemm_fuzz::check_key(&problem);
    }
});
