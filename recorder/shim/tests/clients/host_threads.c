/* Threads: many at once, at the end of the program, and at their own end. */
#define _GNU_SOURCE
#include "host.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int calls_each;

static void *work(void *number) {
    int own = 100 + (int)(long)number;
    for (int i = 0; i < calls_each; i++) {
        product(1);
        product(own);
        product(1000 + i % 50);
    }
    return NULL;
}

/* host threads THREADS CALLS */
int threads(int count, char **arguments) {
    pthread_t all[64];
    int size = count > 1 ? atoi(arguments[0]) : 0;
    calls_each = count > 1 ? atoi(arguments[1]) : 0;
    for (long i = 0; i < size; i++)
        if (pthread_create(&all[i], NULL, work, (void *)i))
            return 1;
    for (int i = 0; i < size; i++)
        pthread_join(all[i], NULL);
    printf("%g\n", product(2));
    return 4;
}

static void *for_ever(void *number) {
    for (int i = 0;; i++)
        product(10 + (int)(long)number * 100 + i % 100);
    return NULL;
}

/* host at_exit: the program ends while threads call. */
int at_exit(int count, char **arguments) {
    (void)count, (void)arguments;
    pthread_t thread;
    for (long i = 0; i < 4; i++)
        if (pthread_create(&thread, NULL, for_ever, (void *)i))
            return 1;
    products(1, 50);
    usleep(20000);
    printf("%g\n", product(2));
    return 5;
}

static pthread_key_t first, second;

static void call_at_end(void *m) {
    products((int)(long)m, 3);
    /* Once more, after all others of this thread have run. */
    if ((long)m == 7)
        pthread_setspecific(second, (void *)8l);
}

static void *end_with_a_call(void *call) {
    pthread_setspecific(first, (void *)7l);
    if (call)
        product(6);
    return NULL;
}

/* host thread_ends: destructors of a thread's own values call; half of the threads have not called before. */
int thread_ends(int count, char **arguments) {
    (void)count, (void)arguments;
    pthread_key_create(&first, call_at_end);
    pthread_key_create(&second, call_at_end);
    for (long i = 0; i < 20; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, end_with_a_call, (void *)(i % 2)))
            return 1;
        pthread_join(thread, NULL);
    }
    printf("%g\n", product(2));
    return 6;
}

static int is_late;

static void call_late(void) { product(21); }

__attribute__((destructor)) static void call_later(void) {
    if (is_late)
        product(22);
}

/* host late: calls in a handler of the exit, and after those. */
int late(int count, char **arguments) {
    (void)count, (void)arguments;
    is_late = 1;
    atexit(call_late);
    product(20);
    atexit(call_late);
    printf("%g\n", product(2));
    return 7;
}
