//! TunableOp's results and untuned files.

#![no_main]

use libfuzzer_sys::fuzz_target;

const HEADS: &[&str] = &[
    "Validator,PT_VERSION,2.9.1\nValidator,GCN_ARCH_NAME,gfx942:sramecc+:xnack-\n\
     Validator,HIPBLASLT_VERSION,100201-5b515cf1bc\nValidator,ROCBLAS_VERSION,5.2.0.5b515cf1bc",
    "GemmTunableOp_Half_TN,tn_4_4_4_ld_4_4_4",
];

fuzz_target!(|bytes: &[u8]| tgemm_fuzz::check_below("tunableop_results0.csv", HEADS, bytes));
