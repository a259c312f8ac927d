//! The C interface, called as a caller may who gets everything wrong but the life of handles. Best with AddressSanitizer.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| tgemm_fuzz::capi::run(bytes));
