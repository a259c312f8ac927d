/* An engine in C that runs products on the host's processors through tgemm. Compiles as C99 and as C++11. */

#include "checks.h"

#include <pthread.h>

enum { N = 48, K = 32, M_MAX = 8, RUNS = 50 };

static float w[N * K], x[M_MAX * K], other_w[N * K];

static TgemmProblem layer(void) {
  SIZED(TgemmProblem, problem);
  problem.n = N, problem.k = K, problem.x = TGEMM_DTYPE_F32;
  return problem;
}

static TgemmOperands operands(float *out) {
  SIZED(TgemmOperands, io);
  io.x = x, io.w = w, io.out = out;
  return io;
}

/* Small whole numbers: every order of summation gives the same. */
static void fill(void) {
  for (int at = 0; at < N * K; at++)
    w[at] = other_w[at] = (float)(at % 7 - 3);
  for (int at = 0; at < M_MAX * K; at++)
    x[at] = (float)(at % 5 - 2);
}

/* Is out = alpha * x * transpose(w) + beta * old everywhere? */
static int is_product(const float *out, int m, float alpha, float beta, float old) {
  for (int row = 0; row < m; row++)
    for (int column = 0; column < N; column++) {
      float sum = 0;
      for (int at = 0; at < K; at++)
        sum += x[row * K + at] * w[column * K + at];
      if (out[row * N + column] != alpha * sum + beta * old)
        return 0;
    }
  return 1;
}

static TgemmCounters counted(const TgemmDispatch *dispatch) {
  SIZED(TgemmCounters, counters);
  OK(tgemm_dispatch_counters(dispatch, &counters));
  return counters;
}

static void backends(void) {
  TgemmBackend *backend = NULL;
  FAILS(VALUE, "platform is 0", tgemm_backend_open(0, 0, &backend));
  FAILS(VALUE, "ordinal is 1", tgemm_backend_open(TGEMM_PLATFORM_CPU, 1, &backend));
  FAILS(VALUE, "ordinal is -2", tgemm_backend_open(TGEMM_PLATFORM_HIP, -2, &backend));
  FAILS(NULL, "backend is NULL", tgemm_backend_open(TGEMM_PLATFORM_CPU, 0, NULL));
  TgemmDatabase *database = NULL;
  char text[8];
  FAILS(NULL, "backend is NULL", tgemm_backend_report(NULL, text, sizeof text, NULL));
  FAILS(NULL, "backend is NULL", tgemm_database_open_for(NULL, NULL, 0, NULL, &database));
  CHECK(database == NULL);
  CHECK(backend == NULL);
  tgemm_backend_close(NULL);
}

static void products(TgemmDispatch *dispatch, int is_tuned) {
  TgemmProblem problem = layer();
  TgemmPlan *plan;
  float out[M_MAX * N];
  TgemmOperands io = operands(out);
  OK(tgemm_plan_open(dispatch, &problem, &plan));
  OK(tgemm_plan_warm(plan, 4, w, NULL));
  CHECK(counted(dispatch).exact == 0 && counted(dispatch).missed == 0);
  for (int run = 0; run < 3; run++) {
    memset(out, 0xff, sizeof out);
    OK(tgemm_plan_run(plan, 4, &io, NULL));
    CHECK(is_product(out, 4, 1, 0, 0));
  }
  OK(tgemm_plan_run(plan, 5, &io, NULL)); /* nothing is tuned for it */
  CHECK(is_product(out, 5, 1, 0, 0));
  TgemmCounters counters = counted(dispatch);
  CHECK(counters.exact == (is_tuned ? 3 : 0) && counters.missed == (is_tuned ? 1 : 4) && counters.fallen_back == 0);

  char text[2048];
  OK(tgemm_dispatch_report(dispatch, text, sizeof text, NULL));
  CHECK(strstr(text, is_tuned ? "exact, 3 by choice, 0 by baseline: onednn" : "default, 0 by choice, 3 by baseline"));

  FAILS(VALUE, "M is 0", tgemm_plan_run(plan, 0, &io, NULL));
  FAILS(VALUE, "M is 0", tgemm_plan_warm(plan, 0, w, NULL));
  FAILS(NULL, "w is NULL", tgemm_plan_warm(plan, 4, NULL, NULL));
  FAILS(NULL, "plan is NULL", tgemm_plan_warm(NULL, 4, w, NULL));
  FAILS(NULL, "plan is NULL", tgemm_plan_run(NULL, 4, &io, NULL));
  FAILS(NULL, "TgemmOperands is NULL", tgemm_plan_run(plan, 4, NULL, NULL));
  io.x = NULL;
  FAILS(NULL, "TgemmOperands.x", tgemm_plan_run(plan, 4, &io, NULL));
  io.x = x, io.size = 8;
  FAILS(SIZE, "sizeof(TgemmOperands)", tgemm_plan_run(plan, 4, &io, NULL));
  io.size = offsetof(TgemmOperands, bias); /* a caller that knows no more than the matrices */
  OK(tgemm_plan_run(plan, 4, &io, NULL));
  tgemm_plan_close(plan);

  problem.bias = TGEMM_DTYPE_F32;
  io = operands(out);
  OK(tgemm_plan_open(dispatch, &problem, &plan));
  FAILS(NULL, "TgemmOperands.bias", tgemm_plan_run(plan, 4, &io, NULL));
  tgemm_plan_close(plan);
  problem = layer(), problem.k = 0;
  TgemmPlan *none = plan;
  FAILS(VALUE, "K is 0", tgemm_plan_open(dispatch, &problem, &none));
  CHECK(none == NULL);
  FAILS(NULL, "dispatch is NULL", tgemm_plan_open(NULL, &problem, &none));
  FAILS(NULL, "TgemmProblem is NULL", tgemm_plan_open(dispatch, NULL, &none));
  FAILS(NULL, "TgemmCounters is NULL", tgemm_dispatch_counters(dispatch, NULL));
  tgemm_plan_close(NULL);
}

/* Factors count where the problem has no word for them, and nowhere else. */
static void factors(TgemmDispatch *dispatch) {
  TgemmProblem problem = layer();
  TgemmPlan *plan;
  float out[M_MAX * N];
  TgemmOperands io = operands(out);
  io.alpha = 3, io.beta = 5;
  OK(tgemm_plan_open(dispatch, &problem, &plan));
  OK(tgemm_plan_run(plan, 2, &io, NULL));
  CHECK(is_product(out, 2, 1, 0, 0));
  tgemm_plan_close(plan);
}

/* Packed weights are for those who allow them, and of one matrix. */
static void packing(TgemmBackend *backend, TgemmDatabase *database) {
  TgemmConstraints *constraints;
  TgemmDispatch *dispatch;
  TgemmPlan *plan;
  TgemmProblem problem = layer();
  float out[M_MAX * N];
  TgemmOperands io = operands(out);
  SIZED(TgemmLimits, limits);
  SIZED(TgemmDispatchOptions, options);
  limits.weight_forms = TGEMM_WEIGHT_FORM_PLAIN | TGEMM_WEIGHT_FORM_PREPACKED;
  OK(tgemm_constraints_open(&limits, &constraints));
  for (int may_pack = 0; may_pack < 2; may_pack++) {
    options.constraints = may_pack ? constraints : NULL;
    OK(tgemm_dispatch_open(backend, database, &options, &dispatch));
    OK(tgemm_plan_open(dispatch, &problem, &plan));
    OK(tgemm_plan_run(plan, 8, &io, NULL));
    CHECK(is_product(out, 8, 1, 0, 0));
    CHECK(counted(dispatch).exact == (uint64_t)may_pack && (counted(dispatch).packed_bytes > 0) == may_pack);
    io.w = other_w;
    if (may_pack)
      FAILS(VALUE, "one plan a weight matrix", tgemm_plan_run(plan, 8, &io, NULL));
    else
      OK(tgemm_plan_run(plan, 8, &io, NULL));
    io.w = w;
    tgemm_dispatch_close(dispatch); /* the plan goes on */
    OK(tgemm_plan_run(plan, 8, &io, NULL));
    tgemm_plan_close(plan);
  }
  tgemm_constraints_close(constraints);
}

static void *run_often(void *plan) {
  float *out = (float *)malloc(sizeof(float) * M_MAX * N);
  TgemmOperands io = operands(out);
  for (int run = 0; run < RUNS; run++) {
    uint32_t m = (uint32_t)(run % M_MAX + 1);
    if (tgemm_plan_run((TgemmPlan *)plan, m, &io, NULL) != TGEMM_STATUS_OK || !is_product(out, (int)m, 1, 0, 0)) {
      free(out);
      return plan;
    }
  }
  free(out);
  return NULL;
}

/* Two threads with one plan. */
static void threads(TgemmDispatch *dispatch) {
  TgemmProblem problem = layer();
  TgemmPlan *plan;
  pthread_t all[2];
  OK(tgemm_plan_open(dispatch, &problem, &plan));
  for (int at = 0; at < 2; at++)
    CHECK(pthread_create(&all[at], NULL, run_often, plan) == 0);
  for (int at = 0; at < 2; at++) {
    void *failed = plan;
    CHECK(pthread_join(all[at], &failed) == 0 && failed == NULL);
  }
  tgemm_plan_close(plan);
}

int main(int count, char **arguments) {
  if (count != 3)
    return 2;
  const char *table = arguments[1];
  int is_tuned = strcmp(arguments[2], "tuned") == 0;
  TgemmBackend *backend;
  TgemmDatabase *database, *nothing;
  TgemmDispatch *dispatch = NULL;
  char text[4096];
  size_t rows;
  SIZED(TgemmOptions, options);
  SIZED(TgemmDispatchOptions, how);
  fill();
  backends();

  OK(tgemm_backend_open(TGEMM_PLATFORM_CPU, -1, &backend));
  OK(tgemm_backend_report(backend, text, sizeof text, NULL));
  CHECK(strstr(text, "onednn ") != NULL);
  options.levels = TGEMM_LEVEL_EXACT;
  OK(tgemm_database_open_for(backend, &table, 1, &options, &database));
  OK(tgemm_database_open_for(backend, NULL, 0, NULL, &nothing));
  OK(tgemm_database_rows(database, &rows));
  CHECK(rows == (is_tuned ? 2 : 0));
  TgemmDatabase *none = nothing;
  FAILS(NULL, "paths is NULL", tgemm_database_open_for(backend, NULL, 1, NULL, &none));
  CHECK(none == NULL);

  FAILS(NULL, "backend is NULL", tgemm_dispatch_open(NULL, database, NULL, &dispatch));
  FAILS(NULL, "database is NULL", tgemm_dispatch_open(backend, NULL, NULL, &dispatch));
  FAILS(NULL, "dispatch is NULL", tgemm_dispatch_open(backend, database, NULL, NULL));
  how.baseline = "\xff";
  FAILS(UTF8, "TgemmDispatchOptions.baseline", tgemm_dispatch_open(backend, database, &how, &dispatch));
  how.size = 3;
  FAILS(SIZE, "sizeof(TgemmDispatchOptions)", tgemm_dispatch_open(backend, database, &how, &dispatch));
  CHECK(dispatch == NULL);

  OK(tgemm_dispatch_open(backend, database, NULL, &dispatch));
  products(dispatch, is_tuned);
  factors(dispatch);
  threads(dispatch);
  if (is_tuned)
    packing(backend, database);
  tgemm_backend_close(backend);
  tgemm_database_close(database);
  tgemm_database_close(nothing);
  CHECK(counted(dispatch).packed_bytes == 0); /* it holds what it needs */
  tgemm_dispatch_close(dispatch);
  tgemm_dispatch_close(NULL);
  printf("%d checks\n", checks);
  return 0;
}
