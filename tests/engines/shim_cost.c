/* What a call costs the host with the shim at work and paused, in turn, on one GPU.
 *
 *     gcc -O2 shim_cost.c -I$CUDA/include -L$CUDA/lib64 -lcublas -lcublasLt -lcudart -ldl -o shim_cost
 *     TGEMM_TUNE=1 TGEMM_UNTUNED=/tmp/u LD_PRELOAD=libtgemm_shim.so ./shim_cost
 *
 * Prints, for cublasGemmEx and cublasLtMatmul, the medians of nanoseconds a call (paused, at work) and of their paired
 * differences with the quartiles of those. cublasGemmEx twice: with factors on the stack, as PyTorch has them, and as
 * constants of the program.
 */
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SIZE = 16, CALLS = 400, BLOCKS = 400 };

static cublasHandle_t blas;
static cublasLtHandle_t lt;
static cublasLtMatmulDesc_t desc;
static cublasLtMatrixLayout_t layout;
static cublasLtMatmulHeuristicResult_t found;
static void *a, *b, *c, *workspace;
static const float alpha = 1, beta = 0;
static const size_t workspace_bytes = 1 << 20;

static void must(int status, const char *what) {
    if (status != 0) {
        fprintf(stderr, "%s returned %d\n", what, status);
        exit(1);
    }
}

static void gemm_ex_with(const float *one, const float *zero) {
    must(cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, SIZE, SIZE, SIZE, one, a, CUDA_R_16BF, SIZE, b, CUDA_R_16BF, SIZE,
                      zero, c, CUDA_R_16BF, SIZE, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT), "cublasGemmEx");
}

static void gemm_ex(void) {
    float one = 1, zero = 0;
    gemm_ex_with(&one, &zero);
}

static void gemm_ex_constants(void) {
    gemm_ex_with(&alpha, &beta);
}

static void lt_matmul(void) {
    must(cublasLtMatmul(lt, desc, &alpha, a, layout, b, layout, &beta, c, layout, c, layout, &found.algo, workspace,
                        workspace_bytes, 0), "cublasLtMatmul");
}

static double block_ns(void (*call)(void)) {
    struct timespec from, to;
    must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < CALLS; i++) {
        call();
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / CALLS;
}

static int by_value(const void *x, const void *y) {
    double d = *(const double *)x - *(const double *)y;
    return d < 0 ? -1 : d > 0;
}

static void compare(const char *name, void (*call)(void), int (*pause_shim)(int)) {
    static double off[BLOCKS], on[BLOCKS], difference[BLOCKS];
    for (int i = 0; i < 20; i++) {
        block_ns(call);
    }
    for (int i = 0; i < BLOCKS; i++) {
        for (int turn = 0; turn < 2; turn++) {
            int is_off = (i + turn) % 2;
            pause_shim(is_off);
            *(is_off ? &off[i] : &on[i]) = block_ns(call);
        }
        difference[i] = on[i] - off[i];
    }
    qsort(off, BLOCKS, sizeof *off, by_value);
    qsort(on, BLOCKS, sizeof *on, by_value);
    qsort(difference, BLOCKS, sizeof *difference, by_value);
    printf("%s: paused %.0f ns, at work %.0f ns, difference %.0f ns (quartiles %.0f to %.0f)\n", name, off[BLOCKS / 2],
           on[BLOCKS / 2], difference[BLOCKS / 2], difference[BLOCKS / 4], difference[BLOCKS * 3 / 4]);
}

int main(void) {
    int (*pause_shim)(int) = (int (*)(int))dlsym(RTLD_DEFAULT, "tgemm_shim_pause");
    cublasLtMatmulPreference_t preference;
    cublasOperation_t transposed = CUBLAS_OP_T;
    int count = 0;
    if (pause_shim == NULL) {
        fprintf(stderr, "no shim in this process\n");
        return 1;
    }
    must(cudaMalloc(&a, 4096) || cudaMalloc(&b, 4096) || cudaMalloc(&c, 4096) || cudaMalloc(&workspace, workspace_bytes), "cudaMalloc");
    must(cublasCreate(&blas), "cublasCreate");
    must(cublasLtCreate(&lt), "cublasLtCreate");
    must(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    must(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed), "transa");
    must(cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, SIZE, SIZE, SIZE), "cublasLtMatrixLayoutCreate");
    must(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    must(cublasLtMatmulAlgoGetHeuristic(lt, desc, layout, layout, layout, layout, preference, 1, &found, &count), "heuristic");
    compare("cublasGemmEx", gemm_ex, pause_shim);
    compare("cublasGemmEx, constants", gemm_ex_constants, pause_shim);
    compare("cublasLtMatmul", lt_matmul, pause_shim);
    return 0;
}
