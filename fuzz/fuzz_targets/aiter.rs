//! AITER's GEMM tables, tuned and untuned: the first byte says of which family.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tgemm_db::format::aiter::Family;

fuzz_target!(|bytes: &[u8]| {
    let first = usize::from(bytes.first().copied().unwrap_or(0));
    let family = Family::ALL[(first / 2) % Family::ALL.len()];
    let (tuned, untuned) = (family.tuned_columns().join(","), family.untuned_columns().join(","));
    tgemm_fuzz::check_below(&format!("{}.csv", family.tuned_stem()), &[&tuned, &untuned], bytes);
});
