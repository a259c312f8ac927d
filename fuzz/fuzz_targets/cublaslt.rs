//! cuBLASLt's logs.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| tgemm_fuzz::check_below("cublaslt.log", &[], bytes));
