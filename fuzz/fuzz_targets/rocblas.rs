//! rocBLAS' logs and override files.

#![no_main]

use libfuzzer_sys::fuzz_target;

const HEADS: &[&str] = &[
    "transA,transB,M,N,batch_count,K,alpha,beta,lda,ldb,ldc,input_type,output_type,compute_type,solution_index",
    "./rocblas-bench -f gemm_ex --transposeA T --transposeB N -m 4 -n 4 -k 4 --alpha 1 --a_type f16_r --lda 4 \
     --b_type f16_r --ldb 4 --beta 0 --c_type f16_r --ldc 4 --d_type f16_r --ldd 4 --compute_type f32_r",
    "- {'rocblas_function': 'gemm_ex', 'transA': 'N', 'transB': 'N', 'call_count': 37}",
];

fuzz_target!(|bytes: &[u8]| {
    let name = if bytes.first().is_some_and(|byte| byte % 2 == 1) { "rocblas.log" } else { "override.csv" };
    tgemm_fuzz::check_below(name, HEADS, bytes);
});
