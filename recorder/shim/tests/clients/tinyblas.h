/* What tinyblas.c defines, as cblas.h and Fortran's callers declare it. */
#ifndef TINYBLAS_H
#define TINYBLAS_H

enum { ROWS = 101, COLUMNS = 102, PLAIN = 111, TURNED = 112 };

void cblas_sgemm(int layout, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                 int ldb, float beta, float *c, int ldc);
void cblas_dgemm(int layout, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                 const double *b, int ldb, double beta, double *c, int ldc);
void sgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k, const float *alpha, const float *a,
            const int *lda, const float *b, const int *ldb, const float *beta, float *c, const int *ldc);

#endif
