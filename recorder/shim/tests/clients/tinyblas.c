/* A small BLAS: three loops a product. FACTOR is put to every product, so that two builds can be told apart. CHAINED lets
 * cblas_sgemm call sgemm_ by its name, as the reference library does. IDLE returns at once. */
#include <stddef.h>

#ifndef FACTOR
#define FACTOR 1
#endif

#ifdef IDLE
#define WORK(real) (void)0
#else
#define WORK(real)                                                                                                     \
    for (long row = 0; row < m; row++)                                                                                 \
        for (long col = 0; col < n; col++) {                                                                           \
            real sum = 0;                                                                                              \
            for (long i = 0; i < k; i++)                                                                               \
                sum += a[row * step_a[0] + i * step_a[1]] * b[i * step_b[0] + col * step_b[1]];                        \
            real *to = &c[row * step_c[0] + col * step_c[1]];                                                          \
            *to = FACTOR * alpha * sum + (beta == 0 ? 0 : beta * *to);                                                 \
        }
#endif

/* The distance of rows and of columns of op(X), which is stored row by row or column by column. */
static void steps(long *step, int by_rows, int transposed, long ld) {
    int rows_apart = by_rows != transposed;
    step[0] = rows_apart ? ld : 1;
    step[1] = rows_apart ? 1 : ld;
}

#define GEMM(real, name, fortran)                                                                                      \
    static void name##_loops(int by_rows, int ta, int tb, long m, long n, long k, real alpha, const real *a, long lda, \
                             const real *b, long ldb, real beta, real *c, long ldc) {                                  \
        long step_a[2], step_b[2], step_c[2];                                                                          \
        steps(step_a, by_rows, ta, lda);                                                                               \
        steps(step_b, by_rows, tb, ldb);                                                                               \
        steps(step_c, by_rows, 0, ldc);                                                                                \
        WORK(real);                                                                                                    \
        (void)step_a, (void)step_b, (void)step_c, (void)m, (void)n, (void)k, (void)alpha, (void)a, (void)b, (void)beta, (void)c; \
    }                                                                                                                  \
    void fortran(const char *ta, const char *tb, const int *m, const int *n, const int *k, const real *alpha,          \
                 const real *a, const int *lda, const real *b, const int *ldb, const real *beta, real *c,              \
                 const int *ldc) {                                                                                     \
        name##_loops(0, *ta != 'N', *tb != 'N', *m, *n, *k, *alpha, a, *lda, b, *ldb, *beta, c, *ldc);                 \
    }

GEMM(float, sgemm, sgemm_)
GEMM(double, dgemm, dgemm_)

enum { ROWS = 101, PLAIN = 111 };

void cblas_sgemm(int layout, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                 int ldb, float beta, float *c, int ldc) {
#ifdef CHAINED
    char op_a = ta == PLAIN ? 'N' : 'T', op_b = tb == PLAIN ? 'N' : 'T';
    if (layout == ROWS)
        sgemm_(&op_b, &op_a, &n, &m, &k, &alpha, b, &ldb, a, &lda, &beta, c, &ldc);
    else
        sgemm_(&op_a, &op_b, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
#else
    sgemm_loops(layout == ROWS, ta != PLAIN, tb != PLAIN, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
#endif
}

void cblas_dgemm(int layout, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                 const double *b, int ldb, double beta, double *c, int ldc) {
    dgemm_loops(layout == ROWS, ta != PLAIN, tb != PLAIN, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
