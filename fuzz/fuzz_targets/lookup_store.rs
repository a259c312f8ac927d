//! Databases of sweeps as the lookup loads them: damaged, cut, with logs beside them, and with rows that no tune wrote.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| tgemm_fuzz::store::check(bytes));
