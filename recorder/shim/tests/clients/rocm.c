/* Calls of ROCm's libraries, linked as engines link them. Numbers and types as in hipblas.h, hipblaslt.h, rocblas.h and
 * hip_runtime_api.h of ROCm 7. rocm MODE prints what was computed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *Handle;

int hipMalloc(void **place, size_t bytes);
int hipMemsetAsync(void *to, int byte, size_t bytes, Handle stream);
int hipStreamCreateWithFlags(Handle *stream, unsigned flags);
int hipStreamSynchronize(Handle stream);
int hipStreamBeginCapture(Handle stream, int mode);
int hipStreamEndCapture(Handle stream, Handle *graph);
int hipGraphInstantiate(Handle *exec, Handle graph, Handle *node, char *log, size_t log_bytes);
int hipGraphClone(Handle *copy, Handle graph);
int hipGraphAddChildGraphNode(Handle *node, Handle graph, const Handle *needs, size_t needs_len, Handle child);
int hipGraphExecUpdate(Handle exec, Handle graph, Handle *node, int *result);
int hipGraphLaunch(Handle exec, Handle stream);
int hipGraphDestroy(Handle graph);
int hipGraphExecDestroy(Handle exec);
int hipblasCreate(Handle *handle);
int hipblasSetStream(Handle handle, Handle stream);
int hipblasSetPointerMode(Handle handle, int mode);
int hipblasGemmEx(Handle handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int a_type,
                  int lda, const void *b, int b_type, int ldb, const void *beta, void *c, int c_type, int ldc,
                  int compute, int algo);
int hipblasGemmStridedBatchedEx(Handle handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,
                                int a_type, int lda, long long stride_a, const void *b, int b_type, int ldb,
                                long long stride_b, const void *beta, void *c, int c_type, int ldc, long long stride_c,
                                int batch, int compute, int algo);
int hipblasSgemm(Handle handle, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda,
                 const float *b, int ldb, const float *beta, float *c, int ldc);
int rocblas_create_handle(Handle *handle);
int rocblas_set_stream(Handle handle, Handle stream);
int rocblas_gemm_ex(Handle handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int a_type,
                    int lda, const void *b, int b_type, int ldb, const void *beta, const void *c, int c_type, int ldc,
                    void *d, int d_type, int ldd, int compute, int algo, int32_t index, uint32_t flags);
int rocblas_gemm_strided_batched_ex(Handle handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,
                                    int a_type, int lda, long long stride_a, const void *b, int b_type, int ldb,
                                    long long stride_b, const void *beta, const void *c, int c_type, int ldc,
                                    long long stride_c, void *d, int d_type, int ldd, long long stride_d, int batch,
                                    int compute, int algo, int32_t index, uint32_t flags);
int hipblasLtCreate(Handle *handle);
int hipblasLtMatrixLayoutCreate(Handle *layout, int type, uint64_t rows, uint64_t cols, int64_t ld);
int hipblasLtMatrixLayoutSetAttribute(Handle layout, int attribute, const void *from, size_t bytes);
int hipblasLtMatmulDescCreate(Handle *desc, int compute, int scale_type);
int hipblasLtMatmulDescSetAttribute(Handle desc, int attribute, const void *from, size_t bytes);
int hipblasLtMatmul(Handle lt, Handle desc, const void *alpha, const void *a, Handle la, const void *b, Handle lb,
                    const void *beta, const void *c, Handle lc, void *d, Handle ld, const void *algo, void *workspace,
                    size_t workspace_bytes, Handle stream);

enum { N = 111, T = 112, F32 = 0, BF16 = 14, COMPUTE_32F = 2, ROC_F32 = 151, ROC_BF16 = 168, ELEMENTS = 1 << 16 };

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        int status = call;                                                                                             \
        if (status) {                                                                                                  \
            fprintf(stderr, "%s: %d\n", #call, status);                                                                \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static const float one = 1, zero = 0, two = 2;
/* Of 2 bytes each element, or 4. */
static uint16_t *a, *b, *c, *bias;
static float *fa, *fb, *fc;
static char *workspace;
static Handle lt, blas, roc, stream;

static void show(const char *what, const void *at, size_t bytes) {
    unsigned long long hash = 1469598103934665603ull;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)at)[i]) * 1099511628211ull;
    printf("%s %016llx\n", what, hash);
}

static void prepare(void) {
    void **places[] = {(void **)&a, (void **)&b, (void **)&c, (void **)&bias, (void **)&fa, (void **)&fb, (void **)&fc};
    for (int i = 0; i < 7; i++)
        TRY(hipMalloc(places[i], 4 * ELEMENTS));
    TRY(hipMalloc((void **)&workspace, 1 << 20));
    for (int i = 0; i < ELEMENTS; i++) {
        /* 1, 2, 0.5 and the like in bf16. */
        a[i] = 0x3f80 + 0x40 * (i % 3), b[i] = 0x3f80 - 0x80 * (i % 2), c[i] = 0, bias[i] = 0x3f80;
        fa[i] = i % 7 - 3, fb[i] = i % 5 - 2, fc[i] = 0;
    }
    TRY(hipblasCreate(&blas));
    TRY(rocblas_create_handle(&roc));
    TRY(hipblasLtCreate(&lt));
    TRY(hipStreamCreateWithFlags(&stream, 1));
    TRY(hipblasSetStream(blas, stream));
    TRY(rocblas_set_stream(roc, stream));
}

/* x[m,k] times w[n,k] turned, in columns: out is n by m. */
static void gemm_ex(int m, int n, int k, const void *alpha) {
    TRY(hipblasGemmEx(blas, T, N, n, m, k, alpha, b, BF16, k, a, BF16, k, &zero, c, BF16, n, COMPUTE_32F, 160));
}

static void roc_gemm_ex(int m, int n, int k) {
    TRY(rocblas_gemm_ex(roc, T, N, n, m, k, &one, b, ROC_BF16, k, a, ROC_BF16, k, &zero, c, ROC_BF16, n, c, ROC_BF16, n,
                        ROC_F32, 0, 0, 0));
}

static void batches(int times) {
    while (times-- > 0)
        TRY(hipblasGemmStridedBatchedEx(blas, T, N, 32, 4, 16, &one, b, BF16, 16, 512, a, BF16, 16, 64, &zero, c, BF16,
                                        32, 128, 3, COMPUTE_32F, 160));
    TRY(rocblas_gemm_strided_batched_ex(roc, T, N, 32, 4, 16, &one, b, ROC_BF16, 16, 512, a, ROC_BF16, 16, 64, &zero, c,
                                        ROC_BF16, 32, 128, c, ROC_BF16, 32, 128, 3, ROC_F32, 0, 0, 0));
}

/* EPILOGUE: default 1, gelu 32, bias 4, both 36. */
static void matmul(int m, int n, int k, int epilogue, size_t workspace_bytes, int batch) {
    Handle desc, la, lb, lc;
    int turned = T, type = BF16;
    TRY(hipblasLtMatmulDescCreate(&desc, COMPUTE_32F, F32));
    TRY(hipblasLtMatmulDescSetAttribute(desc, 0, &turned, sizeof turned));
    TRY(hipblasLtMatmulDescSetAttribute(desc, 2, &epilogue, sizeof epilogue));
    if (epilogue & 4) {
        TRY(hipblasLtMatmulDescSetAttribute(desc, 3, &bias, sizeof bias));
        TRY(hipblasLtMatmulDescSetAttribute(desc, 4, &type, sizeof type));
    }
    TRY(hipblasLtMatrixLayoutCreate(&la, BF16, k, n, k));
    TRY(hipblasLtMatrixLayoutCreate(&lb, BF16, k, m, k));
    TRY(hipblasLtMatrixLayoutCreate(&lc, BF16, n, m, n));
    if (batch > 1) {
        Handle layouts[] = {la, lb, lc};
        int64_t strides[] = {(int64_t)k * n, (int64_t)k * m, (int64_t)n * m};
        for (int i = 0; i < 3; i++) {
            TRY(hipblasLtMatrixLayoutSetAttribute(layouts[i], 0, &batch, sizeof batch));
            TRY(hipblasLtMatrixLayoutSetAttribute(layouts[i], 1, &strides[i], sizeof strides[i]));
        }
    }
    TRY(hipblasLtMatmul(lt, desc, &one, b, la, a, lb, &zero, c, lc, c, lc, NULL, workspace_bytes ? workspace : NULL,
                        workspace_bytes, stream));
}

static void eager(void) {
    for (int i = 0; i < 3; i++)
        gemm_ex(4, 96, 64, &one);
    gemm_ex(4, 96, 64, &two);
    gemm_ex(0, 96, 64, &one);
    show("hipblasGemmEx", c, 4 * 96 * 2);
    TRY(hipblasSgemm(blas, T, N, 48, 5, 32, &one, fb, 32, fa, 32, &zero, fc, 48));
    show("hipblasSgemm", fc, 5 * 48 * 4);
    for (int i = 0; i < 2; i++)
        roc_gemm_ex(6, 96, 64);
    show("rocblas_gemm_ex", c, 6 * 96 * 2);
    batches(2);
    show("batches", c, 3 * 128 * 2);
    for (int i = 0; i < 5; i++)
        matmul(7, 96, 64, 1, 4096, 1);
    matmul(7, 96, 64, 1, 0, 1);
    show("hipblasLtMatmul", c, 7 * 96 * 2);
    matmul(7, 96, 64, 4, 1 << 20, 1);
    show("bias", c, 7 * 96 * 2);
    matmul(7, 96, 64, 36, 1 << 20, 1);
    show("bias and gelu", c, 7 * 96 * 2);
    matmul(4, 32, 16, 1, 4096, 3);
    show("batched", c, 3 * 128 * 2);
    /* A factor on the device is known to nobody here. */
    static float *factor, *nothing;
    TRY(hipMalloc((void **)&factor, sizeof one));
    TRY(hipMalloc((void **)&nothing, sizeof one));
    *factor = 1, *nothing = 0;
    TRY(hipblasSetPointerMode(blas, 1));
    TRY(hipblasGemmEx(blas, T, N, 96, 9, 64, factor, b, BF16, 64, a, BF16, 64, nothing, c, BF16, 96, COMPUTE_32F, 160));
    TRY(hipblasSetPointerMode(blas, 0));
    show("factor on the device", c, 9 * 96 * 2);
    /* What is refused was not done. */
    printf("refused %d\n", hipblasGemmEx(blas, T, N, 96, 9, 64, &one, b, BF16, 1, a, BF16, 64, &zero, c, BF16, 96,
                                         COMPUTE_32F, 160));
}

/* Nodes of a graph that are no products. */
static void clear(int times) {
    while (times-- > 0)
        TRY(hipMemsetAsync(workspace, 0, 64, stream));
}

static Handle captured(int m) {
    Handle graph;
    TRY(hipStreamBeginCapture(stream, 1));
    clear(1);
    gemm_ex(m, 96, 64, &one);
    gemm_ex(m, 96, 64, &one);
    clear(1);
    roc_gemm_ex(m, 96, 64);
    clear(2);
    matmul(m, 96, 64, 1, 4096, 1);
    TRY(hipStreamEndCapture(stream, &graph));
    return graph;
}

static void launch(Handle exec, int times) {
    while (times-- > 0)
        TRY(hipGraphLaunch(exec, stream));
    TRY(hipStreamSynchronize(stream));
}

static void replay(void) {
    Handle graph = captured(3), exec, never = captured(11), outer, copy, node, other;
    int result;
    TRY(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    launch(exec, 7);
    show("replayed", c, 3 * 96 * 2);
    /* Outside of all graphs again. */
    gemm_ex(3, 96, 64, &one);
    /* The same executable with another graph. */
    other = captured(5);
    TRY(hipGraphExecUpdate(exec, other, &node, &result));
    launch(exec, 2);
    TRY(hipGraphExecDestroy(exec));
    /* A graph in the copy of another one: once 13, once 17. */
    outer = captured(13);
    TRY(hipGraphClone(&copy, outer));
    TRY(hipGraphAddChildGraphNode(&node, copy, NULL, 0, captured(17)));
    TRY(hipGraphInstantiate(&exec, copy, NULL, NULL, 0));
    launch(exec, 4);
    /* A launch that is captured itself. */
    TRY(hipStreamBeginCapture(stream, 1));
    TRY(hipGraphLaunch(exec, stream));
    TRY(hipStreamEndCapture(stream, &outer));
    TRY(hipGraphInstantiate(&other, outer, NULL, NULL, 0));
    launch(other, 3);
    TRY(hipGraphDestroy(never));
    show("nested", c, 17 * 96 * 2);
}

/* A graph that is launched among the calls of a capture. */
static void among(void) {
    Handle exec, graph, outer;
    TRY(hipGraphInstantiate(&exec, captured(5), NULL, NULL, 0));
    TRY(hipStreamBeginCapture(stream, 1));
    gemm_ex(3, 96, 64, &one);
    clear(3);
    TRY(hipGraphLaunch(exec, stream));
    clear(1);
    gemm_ex(7, 96, 64, &one);
    TRY(hipStreamEndCapture(stream, &graph));
    TRY(hipGraphInstantiate(&outer, graph, NULL, NULL, 0));
    launch(outer, 2);
    show("inner", c, 5 * 96 * 2);
    show("outer", c, 7 * 96 * 2);
}

int main(int count, char **arguments) {
    prepare();
    if (count > 1 && strcmp(arguments[1], "replay") == 0)
        replay();
    else if (count > 1 && strcmp(arguments[1], "among") == 0)
        among();
    else
        eager();
    return 0;
}
