/* An engine in C: everything that tgemm.h has, and every way to hold it wrongly. Compiles as C99 and as C++11. */

#include "checks.h"

static const char *const key = "gemm,m=4,n=64,k=64,x=bf16,w=bf16,out=bf16,compute=f32";
static const char *const moe =
    "moe,m=1,experts=8,topk=2,model_dim=4096,inter_dim=14336,x=bf16,q_x=-,q_w=-,quant=none,block=0x0,act=silu,gated=1,stage1=0";
static const char *table, *broken, *folder;

static int is(TgemmText text, const char *want) {
  return text.bytes == strlen(want) && memcmp(text.data, want, text.bytes) == 0;
}

static char *in_folder(char *to, size_t bytes, const char *name) {
  snprintf(to, bytes, "%s/%s", folder, name);
  return to;
}

static TgemmProblem layer(uint32_t m) {
  SIZED(TgemmProblem, problem);
  problem.m = m, problem.n = 64, problem.k = 64, problem.x = TGEMM_DTYPE_BF16;
  return problem;
}

static TgemmDevice device_of(const TgemmBuild *builds, size_t count) {
  SIZED(TgemmDevice, device);
  device.vendor = TGEMM_VENDOR_AMD, device.arch = "gfx942", device.compute_units = 304, device.memory_gib = 192;
  device.builds = builds, device.build_count = count;
  return device;
}

static TgemmDatabase *opened(const TgemmOptions *options) {
  TgemmBuild builds[2] = {{"rocblas", NULL, NULL}, {"hipblaslt", "1.0", "abc"}};
  TgemmDevice device = device_of(builds, 2);
  TgemmDatabase *database;
  OK(tgemm_database_open(&table, 1, &device, options, &database));
  return database;
}

static void versions(const char *want) {
  CHECK(strcmp(tgemm_version(), want) == 0);
  CHECK(tgemm_abi_version() == TGEMM_ABI_VERSION);
  CHECK(strcmp(tgemm_last_error(), "") == 0);
}

static void problems(void) {
  SIZED(TgemmProblem, problem);
  char text[256];
  size_t needed = 0;
  OK(tgemm_problem_from_key(key, &problem));
  CHECK(problem.m == 4 && problem.n == 64 && problem.x == TGEMM_DTYPE_BF16 && problem.bias == TGEMM_DTYPE_NONE);
  OK(tgemm_problem_key(&problem, text, sizeof text, &needed));
  CHECK(strcmp(text, key) == 0 && needed == strlen(key) + 1);

  OK(tgemm_problem_init(&problem));
  CHECK(problem.size == sizeof problem && problem.m == 0 && problem.trans == TGEMM_TRANS_LINEAR);
  problem = layer(4);
  problem.ldx = 64, problem.out_of_place = 1; /* neither says anything */
  OK(tgemm_problem_key(&problem, text, sizeof text, NULL));
  CHECK(strcmp(text, key) == 0);

  FAILS(BUFFER, "the text takes", tgemm_problem_key(&problem, text, 8, &needed));
  CHECK(text[0] == 0 && needed == strlen(key) + 1);
  OK(tgemm_problem_key(&problem, NULL, 0, &needed));
  FAILS(NULL, "both buffer and needed", tgemm_problem_key(&problem, NULL, 0, NULL));
  FAILS(NULL, "TgemmProblem is NULL", tgemm_problem_key(NULL, text, sizeof text, NULL));
  FAILS(NULL, "TgemmProblem is NULL", tgemm_problem_init(NULL));
  FAILS(NULL, "key is NULL", tgemm_problem_from_key(NULL, &problem));
  FAILS(KEY, "known operations", tgemm_problem_from_key("conv,m=1", &problem));
  FAILS(KEY, "M is 0", tgemm_problem_from_key("gemm,m=0,n=1,k=1,x=f32,w=f32,out=f32,compute=f32", &problem));
  FAILS(UNSUPPORTED, "is a GEMM", tgemm_problem_from_key(moe, &problem));
  FAILS(UTF8, "not UTF-8", tgemm_problem_from_key("gemm,\xff", &problem));

  problem = layer(0);
  FAILS(VALUE, "M is 0", tgemm_problem_key(&problem, text, sizeof text, NULL));
  problem = layer(4), problem.x = 0;
  FAILS(VALUE, "TgemmProblem.x", tgemm_problem_key(&problem, text, sizeof text, NULL));
  problem = layer(4), problem.activation = 99;
  FAILS(VALUE, "activation 99", tgemm_problem_key(&problem, text, sizeof text, NULL));
  problem = layer(4), problem.ldw = 3;
  FAILS(VALUE, "leading dimension of w", tgemm_problem_key(&problem, text, sizeof text, NULL));
  problem = layer(4), problem.size = 0;
  FAILS(SIZE, "sizeof(TgemmProblem)", tgemm_problem_key(&problem, text, sizeof text, NULL));
}

/* A program of another version of the header. */
static void sizes(void) {
  struct {
    TgemmProblem problem;
    uint64_t later;
  } newer;
  char text[256];
  memset(&newer, 0, sizeof newer);
  newer.problem = layer(4), newer.problem.size = sizeof newer;
  OK(tgemm_problem_key(&newer.problem, text, sizeof text, NULL));
  CHECK(strcmp(text, key) == 0);
  newer.later = 1;
  FAILS(SIZE, "this library knows", tgemm_problem_key(&newer.problem, text, sizeof text, NULL));

  TgemmProblem older = layer(4);
  older.size = offsetof(TgemmProblem, w);
  memset(&older.w, 0xee, sizeof older - older.size); /* what such a program does not have is not looked at */
  OK(tgemm_problem_key(&older, text, sizeof text, NULL));
  CHECK(strcmp(text, key) == 0);
}

static void opening(void) {
  TgemmDevice device = device_of(NULL, 0);
  TgemmDatabase *database = NULL;
  char text[512];
  size_t rows = 9;
  const char *paths[] = {table, "no such file.csv", broken};
  SIZED(TgemmOptions, options);

  OK(tgemm_database_open(paths, 3, &device, NULL, &database)); /* the rest serves */
  OK(tgemm_database_report(database, text, sizeof text, NULL));
  CHECK(strstr(text, "no such file.csv") != NULL && strstr(text, "of other builds") != NULL);
  OK(tgemm_database_rows(database, &rows));
  CHECK(rows == 0); /* its only library is not among the builds */
  tgemm_database_close(database);

  options.strict = 1;
  FAILS(IO, "no such file.csv", tgemm_database_open(paths, 3, &device, &options, &database));
  CHECK(database == NULL);
  FAILS(IO, broken, tgemm_database_open(&paths[2], 1, &device, &options, &database));
  OK(tgemm_database_open(NULL, 0, &device, &options, &database));
  tgemm_database_close(database);
  options.levels = 64;
  FAILS(VALUE, "TgemmOptions.levels", tgemm_database_open(paths, 1, &device, &options, &database));
  options.levels = 0, options.misses_max = UINT32_MAX;
  FAILS(VALUE, "TgemmOptions.misses_max", tgemm_database_open(paths, 1, &device, &options, &database));

  FAILS(NULL, "paths is NULL", tgemm_database_open(NULL, 1, &device, NULL, &database));
  FAILS(NULL, "TgemmDevice is NULL", tgemm_database_open(paths, 1, NULL, NULL, &database));
  FAILS(NULL, "database is NULL", tgemm_database_open(paths, 1, &device, NULL, NULL));
  paths[0] = NULL;
  FAILS(NULL, "a path is NULL", tgemm_database_open(paths, 1, &device, NULL, &database));
  paths[0] = "\xc3(";
  FAILS(UTF8, "a path is not UTF-8", tgemm_database_open(paths, 1, &device, NULL, &database));
  device.arch = NULL;
  FAILS(NULL, "TgemmDevice.arch", tgemm_database_open(&table, 1, &device, NULL, &database));
  device.arch = "";
  FAILS(VALUE, "TgemmDevice.arch", tgemm_database_open(&table, 1, &device, NULL, &database));
  device = device_of(NULL, 1);
  FAILS(NULL, "TgemmDevice.builds", tgemm_database_open(&table, 1, &device, NULL, &database));
  device.build_count = 0, device.vendor = 0;
  FAILS(VALUE, "TgemmDevice.vendor", tgemm_database_open(&table, 1, &device, NULL, &database));
  device.vendor = 7;
  FAILS(VALUE, "vendor 7", tgemm_database_open(&table, 1, &device, NULL, &database));
  device.size = 3;
  FAILS(SIZE, "sizeof(TgemmDevice)", tgemm_database_open(&table, 1, &device, NULL, &database));
  FAILS(NULL, "database is NULL", tgemm_database_report(NULL, text, sizeof text, NULL));
  FAILS(NULL, "database is NULL", tgemm_database_rows(NULL, &rows));
  FAILS(NULL, "database is NULL", tgemm_database_reload(NULL, NULL));
  FAILS(NULL, "database is NULL", tgemm_database_trim(NULL));
  tgemm_database_close(NULL);
}

static void looking_up(void) {
  SIZED(TgemmOptions, options);
  options.misses_max = 16;
  TgemmDatabase *database = opened(&options);
  TgemmProblem problem = layer(4);
  SIZED(TgemmHit, hit);

  OK(tgemm_lookup(database, &problem, NULL, &hit));
  CHECK(hit.kind == TGEMM_KIND_EXACT && hit.tuned_m == 4 && hit.tuned_n == 64 && hit.tuned_k == 64);
  CHECK(is(hit.library, "hipblaslt") && is(hit.version, "1.0") && is(hit.revision, "abc"));
  CHECK(is(hit.name, "Cijk_Alik_Bljk") && is(hit.params, "split_k=4;wave=2"));
  CHECK(hit.index == -123456789012 && hit.workspace_bytes == 4096 && hit.size == sizeof hit);
  CHECK(hit.time_us == 12.5 && hit.ratio == 0.5 && hit.ratio_low == 0.25 && hit.ratio_high == 0.75);
  CHECK(hit.weight_form == TGEMM_WEIGHT_FORM_PLAIN && hit.numerics == TGEMM_NUMERICS_EXACT);
  CHECK(hit.deterministic == TGEMM_KNOWN_YES && hit.graph_safe == TGEMM_KNOWN_UNKNOWN);
  CHECK(hit.verdict == TGEMM_VERDICT_FASTER && hit.is_baseline == 0);

  problem = layer(9);
  OK(tgemm_lookup(database, &problem, NULL, &hit));
  CHECK(hit.kind == TGEMM_KIND_PADDED && hit.tuned_m == 16 && is(hit.params, ""));
  problem.n = 65;
  OK(tgemm_lookup(database, &problem, NULL, &hit));
  CHECK(hit.kind == TGEMM_KIND_DEFAULT && hit.tuned_m == 0 && hit.time_us == 0 && is(hit.library, ""));

  TgemmConstraints *constraints;
  SIZED(TgemmLimits, limits);
  limits.has_workspace_max = 1, limits.workspace_bytes_max = 100;
  OK(tgemm_constraints_open(&limits, &constraints));
  problem = layer(4);
  OK(tgemm_lookup(database, &problem, constraints, &hit));
  CHECK(hit.kind == TGEMM_KIND_DEFAULT);

  char text[1024], small[16];
  size_t needed;
  OK(tgemm_explain(database, &problem, constraints, text, sizeof text, &needed));
  CHECK(strstr(text, "needs 4096 bytes of workspace, 100 are allowed") != NULL && needed == strlen(text) + 1);
  FAILS(BUFFER, "buffer has 16 bytes", tgemm_explain(database, &problem, NULL, small, sizeof small, &needed));
  FAILS(NULL, "database is NULL", tgemm_explain(NULL, &problem, NULL, text, sizeof text, &needed));
  tgemm_constraints_close(constraints);

  TgemmSite *site;
  problem = layer(0);
  OK(tgemm_site_open(database, &problem, &site));
  OK(tgemm_site_lookup(site, 16, NULL, &hit));
  CHECK(hit.kind == TGEMM_KIND_EXACT && hit.tuned_m == 16);
  FAILS(VALUE, "M is 0", tgemm_site_lookup(site, 0, NULL, &hit));
  FAILS(NULL, "site is NULL", tgemm_site_lookup(NULL, 1, NULL, &hit));
  FAILS(NULL, "TgemmHit is NULL", tgemm_site_lookup(site, 1, NULL, NULL));
  TgemmSite *none = site;
  FAILS(NULL, "database is NULL", tgemm_site_open(NULL, &problem, &none));
  CHECK(none == NULL);
  FAILS(NULL, "site is NULL", tgemm_site_open(database, &problem, NULL));
  problem.k = 0;
  FAILS(VALUE, "K is 0", tgemm_site_open(database, &problem, &none));

  SIZED(TgemmTally, tally);
  OK(tgemm_tally(database, &tally));
  CHECK(tally.exact == 2 && tally.padded == 1 && tally.missed == 2 && tally.untold == 0 && tally.interval == 0);
  FAILS(NULL, "TgemmTally is NULL", tgemm_tally(database, NULL));
  FAILS(NULL, "database is NULL", tgemm_tally(NULL, &tally));
  OK(tgemm_tally_write(database, in_folder(text, sizeof text, "misses.csv")));
  FAILS(IO, "nowhere", tgemm_tally_write(database, in_folder(text, sizeof text, "nowhere/misses.csv")));

  uint32_t changed = 1;
  OK(tgemm_database_reload(database, &changed));
  CHECK(changed == 0);
  OK(tgemm_database_trim(database));
  hit.size = 4;
  problem = layer(4);
  FAILS(SIZE, "sizeof(TgemmHit)", tgemm_lookup(database, &problem, NULL, &hit));
  FAILS(NULL, "database is NULL", tgemm_lookup(NULL, &problem, NULL, &hit));
  FAILS(NULL, "TgemmProblem is NULL", tgemm_lookup(database, NULL, NULL, &hit));

  tgemm_database_close(database); /* the site holds what it needs */
  hit.size = sizeof hit;
  OK(tgemm_site_lookup(site, 4, NULL, &hit));
  CHECK(is(hit.name, "Cijk_Alik_Bljk"));
  tgemm_site_close(site);
  tgemm_site_close(NULL);
}

/* Only what was tuned answers, if that is all that is asked for. */
static void levels(void) {
  SIZED(TgemmOptions, options);
  options.levels = TGEMM_LEVEL_EXACT;
  TgemmDatabase *database = opened(&options);
  SIZED(TgemmHit, hit);
  TgemmProblem problem = layer(9);
  OK(tgemm_lookup(database, &problem, NULL, &hit));
  CHECK(hit.kind == TGEMM_KIND_DEFAULT);
  problem = layer(16);
  OK(tgemm_lookup(database, &problem, NULL, &hit));
  CHECK(hit.kind == TGEMM_KIND_EXACT);
  tgemm_database_close(database);
}

static void constraining(void) {
  TgemmConstraints *constraints = NULL;
  const char *names[] = {"hipblaslt", NULL};
  SIZED(TgemmLimits, limits);
  OK(tgemm_constraints_open(NULL, &constraints));
  tgemm_constraints_close(constraints);
  limits.libraries = names, limits.library_count = 2;
  FAILS(NULL, "a name in TgemmLimits.libraries", tgemm_constraints_open(&limits, &constraints));
  CHECK(constraints == NULL);
  limits.library_count = 1, limits.weight_forms = 16;
  FAILS(VALUE, "weight_forms", tgemm_constraints_open(&limits, &constraints));
  limits.weight_forms = TGEMM_WEIGHT_FORM_PLAIN | TGEMM_WEIGHT_FORM_PREPACKED, limits.numerics = 3;
  FAILS(VALUE, "numerics class 3", tgemm_constraints_open(&limits, &constraints));
  limits.numerics = 0, limits.size = 1;
  FAILS(SIZE, "sizeof(TgemmLimits)", tgemm_constraints_open(&limits, &constraints));
  FAILS(NULL, "constraints is NULL", tgemm_constraints_open(NULL, NULL));
  tgemm_constraints_close(NULL);
}

static void recording(void) {
  char path[512];
  TgemmRecorder *recorder = NULL;
  TgemmProblem problem = layer(4);
  SIZED(TgemmCall, call);
  call.via = TGEMM_VIA_LT_MATMUL, call.calls = 5, call.captured = 1;
  call.has_workspace_max = 1, call.workspace_bytes_max = 1 << 20;

  OK(tgemm_recorder_open(in_folder(path, sizeof path, "untuned.csv"), &recorder));
  OK(tgemm_record(recorder, &problem, NULL));
  OK(tgemm_record(recorder, &problem, NULL));
  OK(tgemm_record(recorder, &problem, &call));
  OK(tgemm_recorder_flush(recorder));
  call.via = 7;
  FAILS(VALUE, "via 7", tgemm_record(recorder, &problem, &call));
  call.via = 0, call.captured = 2;
  FAILS(VALUE, "TgemmCall.captured", tgemm_record(recorder, &problem, &call));
  call.captured = 0, call.reserved = 1;
  FAILS(VALUE, "TgemmCall.reserved", tgemm_record(recorder, &problem, &call));
  call.size = 5;
  FAILS(SIZE, "sizeof(TgemmCall)", tgemm_record(recorder, &problem, &call));
  FAILS(NULL, "recorder is NULL", tgemm_record(NULL, &problem, NULL));
  FAILS(NULL, "TgemmProblem is NULL", tgemm_record(recorder, NULL, NULL));
  FAILS(NULL, "recorder is NULL", tgemm_recorder_flush(NULL));
  tgemm_recorder_close(recorder);

  /* A place that cannot be written to fails no call. The file "broken" is no folder. */
  snprintf(path, sizeof path, "%s/untuned.csv", broken);
  OK(tgemm_recorder_open(path, &recorder));
  OK(tgemm_record(recorder, &problem, NULL));
  FAILS(IO, "they are kept", tgemm_recorder_flush(recorder));
  tgemm_recorder_close(recorder);
  FAILS(VALUE, "path is empty", tgemm_recorder_open("", &recorder));
  FAILS(NULL, "path is NULL", tgemm_recorder_open(NULL, &recorder));
  FAILS(NULL, "recorder is NULL", tgemm_recorder_open(path, NULL));
  tgemm_recorder_close(NULL);
}

/* TGEMM_DB names the table, if it is set. */
static void environment(int is_set) {
  TgemmBuild build = {"hipblaslt", "1.0", "abc"};
  TgemmDevice device = device_of(&build, 1);
  TgemmDatabase *database;
  size_t rows;
  SIZED(TgemmOptions, options);
  for (options.use_environment = 0; options.use_environment < 2; options.use_environment++) {
    OK(tgemm_database_open(NULL, 0, &device, &options, &database));
    OK(tgemm_database_rows(database, &rows));
    CHECK(rows == (is_set && options.use_environment ? 2 : 0));
    tgemm_database_close(database);
  }
  FAILS(VALUE, "use_environment is 2", tgemm_database_open(NULL, 0, &device, &options, &database));
}

/* Is a recorder of the process wanted, and does it go on after a close that it ignores? */
static void global(int is_on) {
  TgemmRecorder *recorder = tgemm_recorder_global();
  CHECK((recorder != NULL) == is_on && tgemm_recorder_global() == recorder);
  if (is_on) {
    TgemmProblem problem = layer(77);
    tgemm_recorder_close(recorder);
    for (int call = 0; call < 3; call++)
      OK(tgemm_record(recorder, &problem, NULL)); /* written at the exit */
  }
}

int main(int count, char **arguments) {
  if (count != 6)
    return 2;
  folder = arguments[1], table = arguments[2], broken = arguments[3];
  versions(arguments[4]);
  problems();
  sizes();
  opening();
  constraining();
  looking_up();
  levels();
  recording();
  environment(strcmp(arguments[5], "on") == 0);
  global(strcmp(arguments[5], "on") == 0);
  printf("%d checks\n", checks);
  return 0;
}
