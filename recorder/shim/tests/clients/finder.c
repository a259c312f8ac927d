/* Finds its BLAS by name at run time, as ctypes does: finder LIBRARY. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments) {
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void (*gemm)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int) =
        library ? (void (*)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *,
                            int))dlsym(library, "cblas_sgemm")
                : NULL;
    if (!gemm)
        return 1;
    float a[16] = {1, 2, 3, 4}, b[16] = {4, 3, 2, 1}, c[16] = {0};
    for (int i = 0; i < 9; i++)
        gemm(101, 111, 112, 4, 4, 4, 1, a, 4, b, 4, 0, c, 4);
    printf("%g\n", c[0]);
    return 6;
}
