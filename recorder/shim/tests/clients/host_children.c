/* Children: forked, started, and the program itself replaced. */
#define _GNU_SOURCE
#include "host.h"
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int ended(pid_t pid) {
    int status;
    if (pid <= 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

/* host forks: children call and end as programs do; one forks again, and one calls nothing. */
int forks(int count, char **arguments) {
    (void)count, (void)arguments;
    products(1, 5);
    pid_t children[4];
    for (int i = 0; i < 4; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            products(1, 3 * i);
            products(10 + i, i);
            if (i == 2) {
                pid_t grandchild = fork();
                if (grandchild == 0) {
                    products(1, 7);
                    exit(9);
                }
                products(1, 1);
                exit(ended(grandchild));
            }
            exit(8);
        }
    }
    products(1, 6);
    for (int i = 0; i < 4; i++)
        printf("%d\n", ended(children[i]));
    return 10;
}

/* host fork_ends: a child that ends without its handlers. */
int fork_ends(int count, char **arguments) {
    (void)count, (void)arguments;
    products(1, 5);
    pid_t child = fork();
    if (child == 0) {
        products(1, 1);
        products(2, 3);
        _exit(11);
    }
    printf("%d\n", ended(child));
    products(1, 2);
    return 12;
}

static volatile int is_over;

static void *busy(void *number) {
    for (int i = 0; !is_over; i++)
        product(100 + (int)(long)number * 1000 + i % 900);
    return NULL;
}

/* host busy_forks: children are made while threads call for the first time and write. */
int busy_forks(int count, char **arguments) {
    (void)count, (void)arguments;
    pthread_t all[4];
    for (long i = 0; i < 4; i++)
        if (pthread_create(&all[i], NULL, busy, (void *)i))
            return 1;
    int good = 0;
    for (int i = 0; i < 40; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            products(2, 3);
            exit(0);
        }
        good += ended(child) == 0;
    }
    is_over = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
    printf("%d\n", good);
    return 13;
}

/* host starts: programs started by vfork and exec, and by posix_spawn, between calls. */
int starts(int count, char **arguments) {
    (void)count, (void)arguments;
    char *same[] = {"host", "calls", "3", "4", NULL};
    products(1, 3);
    for (int i = 0; i < 3; i++) {
        pid_t child = vfork();
        if (child == 0) {
            execv("/proc/self/exe", same);
            _exit(127);
        }
        printf("%d\n", ended(child));
        products(1, 1);
        if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, same, environ))
            return 1;
        printf("%d\n", ended(child));
        products(1, 1);
    }
    return 14;
}

/* host execs: the program is replaced by another one. */
int execs(int count, char **arguments) {
    (void)count, (void)arguments;
    char *next[] = {"host", "calls", "3", "4", NULL};
    products(1, 4);
    execv("/proc/self/exe", next);
    return 127;
}
