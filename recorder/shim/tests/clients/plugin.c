/* A library that a program opens with a scope of its own, as Python opens its extensions. */
#include "tinyblas.h"

float plugin_product(int m) {
    static float a[64 * 64], b[64 * 64], c[64 * 64];
    for (int i = 0; i < 64 * 64; i++)
        a[i] = b[i] = 1;
    cblas_sgemm(ROWS, PLAIN, TURNED, m, 16, 32, 1, a, 32, b, 32, 0, c, 16);
    return c[0];
}

/* Compilers make a jump of this: nothing of this library is on the stack then. */
void plugin_through(int layout, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                    const float *b, int ldb, float beta, float *c, int ldc) {
    cblas_sgemm(layout, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
