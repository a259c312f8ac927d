//! hipBLASLt's logs, tuning and override files.

#![no_main]

use libfuzzer_sys::fuzz_target;

const HEADS: &[&str] = &[
    "Git Version: 5b515cf1bc",
    "hipblaslt-bench --api_method c -m 4 -n 4 -k 4 --lda 4 --ldb 4 --ldc 4 --ldd 4 --transA T --transB N \
     --a_type bf16_r --b_type bf16_r --c_type bf16_r --d_type bf16_r --compute_type f32_r",
];

fuzz_target!(|bytes: &[u8]| {
    let name = if bytes.first().is_some_and(|byte| byte % 2 == 1) { "hipblaslt.log" } else { "tuning.csv" };
    tgemm_fuzz::check_below(name, HEADS, bytes);
});
