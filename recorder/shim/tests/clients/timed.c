/* What a call costs that does nothing: timed ROUNDS CALLS prints the least nanoseconds a call. */
#include "tinyblas.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

int main(int count, char **arguments) {
    static float a[16] __attribute__((aligned(64))), b[16] __attribute__((aligned(64))),
        c[16] __attribute__((aligned(64)));
    int rounds = count > 1 ? atoi(arguments[1]) : 1, calls = count > 2 ? atoi(arguments[2]) : 1;
    double least = 1e18;
    for (int round = 0; round < rounds; round++) {
        double began = now_ns();
        for (int i = 0; i < calls; i++)
            cblas_sgemm(ROWS, PLAIN, TURNED, 4, 4, 4, 1, a, 4, b, 4, 0, c, 4);
        double each = (now_ns() - began) / calls;
        least = each < least ? each : least;
    }
    printf("%.3f\n", least);
    return 0;
}
