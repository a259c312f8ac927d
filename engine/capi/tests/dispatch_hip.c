/* An engine in C on a HIP device that it has opened itself: dispatch_hip TABLE MODE. Prints what ran. Numbers and types as in
 * hip_runtime_api.h of ROCm 7. */

#include "checks.h"

typedef void *Handle;

int hipMalloc(void **place, size_t bytes);
int hipMemsetAsync(void *to, int byte, size_t bytes, Handle stream);
int hipStreamCreateWithFlags(Handle *stream, unsigned flags);
int hipStreamSynchronize(Handle stream);
int hipStreamBeginCapture(Handle stream, int mode);
int hipStreamEndCapture(Handle stream, Handle *graph);
int hipGraphInstantiate(Handle *exec, Handle graph, Handle *node, char *log, size_t log_bytes);
int hipGraphLaunch(Handle exec, Handle stream);

enum { M = 4, N = 96, K = 64, NON_BLOCKING = 1, GLOBAL = 0 };

static uint16_t *x, *w, *out;
static TgemmDispatch *dispatch;
static TgemmPlan *plan;
static Handle stream, other;

#define HIP(call) check((call) == 0, #call, __FILE__, __LINE__)

static float number(uint16_t bf16) {
  uint32_t bits = (uint32_t)bf16 << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Sums of 1 and -1 are whole in bf16. */
static void prepare(void) {
  HIP(hipMalloc((void **)&x, 2 * M * K));
  HIP(hipMalloc((void **)&w, 2 * N * K));
  HIP(hipMalloc((void **)&out, 2 * M * N));
  for (int at = 0; at < M * K; at++)
    x[at] = at % 3 ? 0x3f80 : 0xbf80;
  for (int at = 0; at < N * K; at++)
    w[at] = at % 5 ? 0x3f80 : 0xbf80;
  HIP(hipStreamCreateWithFlags(&stream, NON_BLOCKING));
  HIP(hipStreamCreateWithFlags(&other, NON_BLOCKING));
}

/* Is the product there? It is not any more then. */
static void check_product(void) {
  HIP(hipStreamSynchronize(stream));
  for (int row = 0; row < M; row++)
    for (int column = 0; column < N; column++) {
      float sum = 0;
      for (int at = 0; at < K; at++)
        sum += number(x[row * K + at]) * number(w[column * K + at]);
      CHECK(number(out[row * N + column]) == sum);
    }
  HIP(hipMemsetAsync(out, 0xff, 2 * M * N, stream));
}

static TgemmStatus run(uint32_t m, Handle into) {
  TgemmOperands io;
  memset(&io, 0, sizeof io);
  io.size = sizeof io, io.x = x, io.w = w, io.out = out;
  return tgemm_plan_run(plan, m, &io, into);
}

static void captured(void) {
  Handle graph, exec;
  OK(tgemm_plan_warm(plan, M, w, stream));
  HIP(hipStreamBeginCapture(stream, GLOBAL));
  OK(run(M, stream));
  CHECK(run(3, stream) == TGEMM_STATUS_NOT_WARM); /* nobody warmed M = 3 */
  OK(tgemm_plan_warm(plan, M, w, other));         /* allocates: not for this capture, and harms it no more */
  HIP(hipStreamEndCapture(stream, &graph));
  HIP(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
  for (int replay = 0; replay < 2; replay++) {
    HIP(hipGraphLaunch(exec, stream));
    check_product();
  }
}

int main(int count, char **arguments) {
  if (count != 3)
    return 2;
  const char *table = arguments[1];
  TgemmBackend *backend;
  TgemmDatabase *database;
  TgemmProblem problem;
  TgemmCounters counters;
  char text[2048];
  prepare();
  memset(&problem, 0, sizeof problem);
  problem.size = sizeof problem, problem.n = N, problem.k = K, problem.x = TGEMM_DTYPE_BF16;
  CHECK(tgemm_backend_open(TGEMM_PLATFORM_HIP, 63, &backend) == TGEMM_STATUS_VALUE);
  OK(tgemm_backend_open(TGEMM_PLATFORM_HIP, -1, &backend));
  OK(tgemm_database_open_for(backend, &table, 1, NULL, &database));
  OK(tgemm_dispatch_open(backend, database, NULL, &dispatch));
  OK(tgemm_plan_open(dispatch, &problem, &plan));
  if (strcmp(arguments[2], "captured") == 0)
    captured();
  else
    for (int call = 0; call < 3; call++) {
      OK(run(M, stream));
      check_product();
    }
  counters.size = sizeof counters;
  OK(tgemm_dispatch_counters(dispatch, &counters));
  OK(tgemm_dispatch_report(dispatch, text, sizeof text, NULL));
  printf("exact %d missed %d fallen back %d\n%s\n", (int)counters.exact, (int)counters.missed, (int)counters.fallen_back, text);
  tgemm_plan_close(plan);
  tgemm_dispatch_close(dispatch);
  tgemm_database_close(database);
  tgemm_backend_close(backend);
  return 0;
}
