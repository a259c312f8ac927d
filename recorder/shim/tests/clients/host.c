/* Hosts that do what hosts do: host MODE [ARGUMENT...]. All print what they computed, so that it can be compared. */
#define _GNU_SOURCE
#include "host.h"
#include "tinyblas.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

float product(int m) {
    float a[64], b[64], c[64];
    for (int i = 0; i < 64; i++)
        a[i] = b[i] = 0.5f * (i % 5), c[i] = 0;
    /* Not on the stack: threads that end have little of it. */
    static __thread float wide_a[4 * 4096], wide_c[4 * 4096];
    if (m > 16) {
        cblas_sgemm(ROWS, PLAIN, TURNED, m, 4, 4, 1, wide_a, 4, b, 4, 0, wide_c, 4);
        return wide_c[0];
    }
    cblas_sgemm(ROWS, PLAIN, TURNED, m, 4, 4, 1, a, 4, b, 4, 0, c, 4);
    return c[1];
}

void products(int m, int times) {
    while (times-- > 0)
        product(m);
}

/* host calls M TIMES [M TIMES]... */
static int calls(int count, char **arguments) {
    for (int i = 0; i + 1 < count; i += 2) {
        products(atoi(arguments[i]), atoi(arguments[i + 1]));
        printf("%d: %g\n", atoi(arguments[i]), product(atoi(arguments[i])));
    }
    return 3;
}

/* host progress: a problem more with each call, each told when its call has returned, until it is killed. */
static int progress(int count, char **arguments) {
    (void)count, (void)arguments;
    for (uint32_t m = 1;; m = m % 4000 + 1) {
        product((int)m);
        if (write(1, &m, sizeof m) != sizeof m)
            return 1;
    }
}

static const struct {
    const char *name;
    int (*run)(int count, char **arguments);
} MODES[] = {
    {"calls", calls},           {"progress", progress},   {"threads", threads},     {"at_exit", at_exit},
    {"thread_ends", thread_ends}, {"late", late},         {"forks", forks},         {"fork_ends", fork_ends},
    {"busy_forks", busy_forks}, {"starts", starts},       {"execs", execs},         {"handlers", handlers},
    {"descriptors", descriptors}, {"closes", closes},     {"limited", limited},     {"silent", silent},
};

int main(int count, char **arguments) {
    for (size_t i = 0; count > 1 && i < sizeof MODES / sizeof *MODES; i++)
        if (strcmp(arguments[1], MODES[i].name) == 0)
            return MODES[i].run(count - 2, arguments + 2);
    fprintf(stderr, "no such mode\n");
    return 99;
}
