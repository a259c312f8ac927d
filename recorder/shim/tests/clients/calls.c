/* Products of every kind, with all that they compute written out. */
#include "tinyblas.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float *a, *b, *c;
static double *da, *db, *dc;

static void show(const char *what, const void *at, size_t bytes) {
    unsigned long long hash = 1469598103934665603ull;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)at)[i]) * 1099511628211ull;
    printf("%s %016llx\n", what, hash);
    memset(c, 0, 4 * 65536);
}

static void rows(const char *what, int times, int ta, int tb, int m, int n, int k, int lda, int ldb, int ldc) {
    for (int i = 0; i < times; i++)
        cblas_sgemm(ROWS, ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, ldc);
    show(what, c, 4 * 65536);
}

int main(void) {
    a = aligned_alloc(64, 4 * 65536), b = aligned_alloc(64, 4 * 65536), c = aligned_alloc(64, 4 * 65536);
    da = aligned_alloc(64, 8 * 65536), db = aligned_alloc(64, 8 * 65536), dc = aligned_alloc(64, 8 * 65536);
    for (int i = 0; i < 65536; i++) {
        a[i] = 0.37f * (i % 29) - 3, b[i] = 0.11f * (i % 37) - 2, c[i] = 0;
        da[i] = 0.37 * (i % 29) - 3, db[i] = 0.11 * (i % 37) - 2, dc[i] = 0;
    }
    rows("plain", 3, PLAIN, PLAIN, 4, 96, 64, 64, 96, 96);
    rows("linear", 5, PLAIN, TURNED, 4, 96, 64, 64, 64, 96);
    rows("x turned", 1, TURNED, PLAIN, 4, 96, 64, 4, 96, 96);
    rows("both turned", 2, TURNED, TURNED, 4, 96, 64, 4, 64, 96);
    rows("one token", 4, PLAIN, TURNED, 1, 96, 64, 64, 64, 96);
    rows("long rows", 1, PLAIN, TURNED, 4, 96, 64, 80, 72, 112);
    rows("no tokens", 2, PLAIN, TURNED, 0, 96, 64, 64, 64, 96);
    rows("no outputs", 2, PLAIN, TURNED, 4, 0, 64, 64, 64, 96);
    rows("no inputs", 2, PLAIN, TURNED, 4, 96, 0, 64, 64, 96);

    for (int i = 0; i < 2; i++)
        cblas_sgemm(COLUMNS, TURNED, PLAIN, 96, 4, 64, 1, a, 64, b, 64, 0, c, 96);
    show("the linear one in columns", c, 4 * 65536);
    cblas_sgemm(ROWS, PLAIN, TURNED, 4, 96, 64, 2, a, 64, b, 64, 0.5, c, 96);
    show("factors", c, 4 * 65536);
    cblas_sgemm(ROWS, PLAIN, TURNED, 4, 96, 64, 1, a, 64, b, 64, 1, c, 96);
    show("added", c, 4 * 65536);
    cblas_sgemm(ROWS, PLAIN, TURNED, 4, 96, 64, 1, a + 1, 64, b, 64, 0, c, 96);
    show("odd address", c, 4 * 65536);

    int m = 48, n = 8, k = 32;
    float one = 1, zero = 0;
    for (int i = 0; i < 2; i++)
        sgemm_("T", "N", &m, &n, &k, &one, a, &k, b, &k, &zero, c, &m);
    show("fortran", c, 4 * 65536);
    for (int i = 0; i < 2; i++)
        cblas_dgemm(ROWS, PLAIN, TURNED, 3, 40, 24, 1, da, 24, db, 24, 0, dc, 40);
    show("double", dc, 8 * 65536);
    return 0;
}
