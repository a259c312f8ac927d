/* What a product costs the host through tgemm_plan_run and by bare calls of cuBLAS and cuBLASLt, on one NVIDIA GPU.
 *
 *     cc -O2 dispatch_cost.c -I../../engine/capi/include -I$CUDA/include -L$TGEMM -ltgemm -L$CUDA/lib64 \
 *         -lcublas -lcublasLt -lcudart -Wl,-rpath,$TGEMM -Wl,-rpath,$CUDA/lib64 -o dispatch_cost
 *     ./dispatch_cost ../../configs/tuned/sm_90-132-h200.csv
 *
 * Blocks of each way go round in turn; the stream is idle before each, and a block has fewer calls than a launch queue has
 * places. Prints the medians of nanoseconds a call, and of the differences within a round (to the bare call of the library
 * that runs; its quartiles in brackets). "hit": a stored choice ran; "miss": the baseline, as nothing was stored; "fallen":
 * the baseline although something was stored, for which the report at the end has the reason.
 */
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tgemm.h>
#include <time.h>

enum { CALLS = 150, ROUNDS = 200, WARM_ROUNDS = 10, WORKSPACE_BYTES = 32 << 20, ELEMENTS_MAX = 4096 * 4096 };

typedef struct {
    int m, n, k;
} Shape;

static const Shape shapes[] = {
    {1, 1024, 2048}, {1, 4096, 1024}, {16, 4096, 1024}, /* stored for cuBLASLt */
    {16, 1024, 2048},                                   /* stored for cuBLAS */
    {1, 1024, 4096}, {16, 1024, 4096},                  /* not stored */
};

enum { EX, LT, OURS, WAYS };

static cublasHandle_t blas;
static cublasLtHandle_t lt;
static cudaStream_t stream;
static void *x, *w, *out, *workspace;
static const float alpha = 1, beta = 0;

/* Of the shape at hand. */
static Shape at;
static cublasLtMatmulDesc_t desc;
static cublasLtMatrixLayout_t layout_w, layout_x, layout_out;
static cublasLtMatmulHeuristicResult_t found;
static TgemmPlan *plan;
static TgemmOperands io;

static void must(int status, const char *what) {
    if (status != 0) {
        fprintf(stderr, "%s returned %d: %s\n", what, status, tgemm_last_error());
        exit(1);
    }
}
#define MUST(call) must((int)(call), #call)

/* Row-major out[m,n] = x[m,k] * transpose(w[n,k]) is column-major out = transpose(w) * x. */
static void gemm_ex(void) {
    MUST(cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, at.n, at.m, at.k, &alpha, w, CUDA_R_16BF, at.k, x, CUDA_R_16BF, at.k,
                      &beta, out, CUDA_R_16BF, at.n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

static void lt_matmul(void) {
    MUST(cublasLtMatmul(lt, desc, &alpha, w, layout_w, x, layout_x, &beta, out, layout_out, out, layout_out, &found.algo,
                        workspace, WORKSPACE_BYTES, stream));
}

static void ours(void) {
    MUST(tgemm_plan_run(plan, (uint32_t)at.m, &io, stream));
}

static void (*const ways[WAYS])(void) = {gemm_ex, lt_matmul, ours};

static void describe(void) {
    cublasLtMatmulPreference_t preference;
    cublasOperation_t transposed = CUBLAS_OP_T;
    size_t room = WORKSPACE_BYTES;
    int count = 0;
    MUST(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    MUST(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
    MUST(cublasLtMatrixLayoutCreate(&layout_w, CUDA_R_16BF, at.k, at.n, at.k));
    MUST(cublasLtMatrixLayoutCreate(&layout_x, CUDA_R_16BF, at.k, at.m, at.k));
    MUST(cublasLtMatrixLayoutCreate(&layout_out, CUDA_R_16BF, at.n, at.m, at.n));
    MUST(cublasLtMatmulPreferenceCreate(&preference));
    MUST(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room));
    MUST(cublasLtMatmulAlgoGetHeuristic(lt, desc, layout_w, layout_x, layout_out, layout_out, preference, 1, &found, &count));
    must(count == 1 ? 0 : 1, "cublasLtMatmulAlgoGetHeuristic: the number of algorithms");
    MUST(cublasLtMatmulPreferenceDestroy(preference));
}

static void forget(void) {
    MUST(cublasLtMatrixLayoutDestroy(layout_w));
    MUST(cublasLtMatrixLayoutDestroy(layout_x));
    MUST(cublasLtMatrixLayoutDestroy(layout_out));
    MUST(cublasLtMatmulDescDestroy(desc));
    tgemm_plan_close(plan);
}

static double block_ns(void (*call)(void)) {
    struct timespec from, to;
    MUST(cudaStreamSynchronize(stream));
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < CALLS; i++)
        call();
    clock_gettime(CLOCK_MONOTONIC, &to);
    MUST(cudaStreamSynchronize(stream));
    return ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / CALLS;
}

static int by_value(const void *one, const void *other) {
    double d = *(const double *)one - *(const double *)other;
    return d < 0 ? -1 : d > 0;
}

static double quartile(double *values, int which) {
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS * which / 4];
}

/* Do both bare calls and ours compute the same, but for rounding? Inputs are small whole numbers, so they must. */
static void compare(void) {
    size_t bytes = 2 * (size_t)at.m * at.n;
    unsigned char *want = malloc(bytes), *have = malloc(bytes);
    for (int way = 0; way < WAYS; way++) {
        MUST(cudaMemsetAsync(out, 0xff, bytes, stream));
        ways[way]();
        MUST(cudaMemcpyAsync(way == 0 ? want : have, out, bytes, cudaMemcpyDeviceToHost, stream));
        MUST(cudaStreamSynchronize(stream));
        if (way > 0)
            must(memcmp(want, have, bytes), "comparison of outputs");
    }
    free(want);
    free(have);
}

static void measure(TgemmDispatch *dispatch) {
    static double times[WAYS][ROUNDS], over_ex[ROUNDS], over_lt[ROUNDS];
    TgemmCounters before, after;
    TgemmProblem problem;
    memset(&problem, 0, sizeof problem);
    problem.size = sizeof problem, problem.n = (uint32_t)at.n, problem.k = (uint32_t)at.k;
    problem.x = TGEMM_DTYPE_BF16;
    before.size = after.size = sizeof before;
    MUST(tgemm_plan_open(dispatch, &problem, &plan));
    MUST(tgemm_plan_warm(plan, (uint32_t)at.m, w, stream));
    describe();
    MUST(tgemm_dispatch_counters(dispatch, &before));
    compare();
    for (int round = -WARM_ROUNDS; round < ROUNDS; round++)
        for (int turn = 0; turn < WAYS; turn++) {
            int way = (round + WARM_ROUNDS + turn) % WAYS; /* each way is first as often as the others */
            double ns = block_ns(ways[way]);
            if (round >= 0)
                times[way][round] = ns;
        }
    MUST(tgemm_dispatch_counters(dispatch, &after));
    for (int round = 0; round < ROUNDS; round++) {
        over_ex[round] = times[OURS][round] - times[EX][round];
        over_lt[round] = times[OURS][round] - times[LT][round];
    }
    const char *kind = after.exact > before.exact ? "hit" : after.missed > before.missed ? "miss" : "fallen";
    printf("%4d %5d %5d %-6s %8.0f %8.0f %8.0f  %+7.0f [%+.0f %+.0f]  %+7.0f [%+.0f %+.0f]\n", at.m, at.n, at.k, kind,
           quartile(times[EX], 2), quartile(times[LT], 2), quartile(times[OURS], 2), quartile(over_ex, 2),
           quartile(over_ex, 1), quartile(over_ex, 3), quartile(over_lt, 2), quartile(over_lt, 1), quartile(over_lt, 3));
    forget();
}

static void fill(void *place) {
    unsigned short *numbers = malloc(2 * (size_t)ELEMENTS_MAX);
    for (int i = 0; i < ELEMENTS_MAX; i++)
        numbers[i] = i % 67 == 0 ? 0x3f80 : i % 71 == 0 ? 0xbf80 : 0; /* 1, -1, 0 in bf16 */
    MUST(cudaMemcpy(place, numbers, 2 * (size_t)ELEMENTS_MAX, cudaMemcpyHostToDevice));
    free(numbers);
}

int main(int count, char **arguments) {
    TgemmBackend *backend;
    TgemmDatabase *database;
    TgemmDispatch *dispatch;
    TgemmOptions options;
    static char text[1 << 16];
    if (count != 2) {
        fprintf(stderr, "usage: %s tuned.csv\n", arguments[0]);
        return 2;
    }
    MUST(cudaMalloc(&x, 2 * (size_t)ELEMENTS_MAX));
    MUST(cudaMalloc(&w, 2 * (size_t)ELEMENTS_MAX));
    MUST(cudaMalloc(&out, 2 * (size_t)ELEMENTS_MAX));
    MUST(cudaMalloc(&workspace, WORKSPACE_BYTES));
    fill(x);
    fill(w);
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cublasCreate(&blas));
    MUST(cublasLtCreate(&lt));
    MUST(cublasSetStream(blas, stream));
    MUST(cublasSetWorkspace(blas, workspace, WORKSPACE_BYTES));

    memset(&options, 0, sizeof options);
    options.size = sizeof options, options.levels = TGEMM_LEVEL_EXACT;
    MUST(tgemm_backend_open(TGEMM_PLATFORM_CUDA, -1, &backend));
    MUST(tgemm_database_open_for(backend, (const char *const *)&arguments[1], 1, &options, &database));
    MUST(tgemm_dispatch_open(backend, database, NULL, &dispatch));
    MUST(tgemm_backend_report(backend, text, sizeof text, NULL));
    printf("%s\n", text);
    MUST(tgemm_database_report(database, text, sizeof text, NULL));
    printf("%s\n\n", text);

    memset(&io, 0, sizeof io);
    io.size = sizeof io, io.x = x, io.w = w, io.out = out;
    printf("%4s %5s %5s %-6s %8s %8s %8s  %22s  %22s\n", "M", "N", "K", "", "GemmEx", "LtMatmul", "tgemm", "tgemm - GemmEx",
           "tgemm - LtMatmul");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        at = shapes[i];
        measure(dispatch);
    }
    MUST(tgemm_dispatch_report(dispatch, text, sizeof text, NULL));
    printf("\n%s\n", text);
    tgemm_dispatch_close(dispatch);
    tgemm_database_close(database);
    tgemm_backend_close(backend);
    return 0;
}
