/* What a host holds: signals, descriptors, limits. */
#define _GNU_SOURCE
#include "host.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static volatile sig_atomic_t seen[65];
static sigjmp_buf back;

static volatile uintptr_t nowhere = 8;

static void note(int number) { seen[number]++; }

static void recover(int number) {
    seen[number]++;
    siglongjmp(back, 1);
}

static void show_signals(void) {
    /* SIGSEGV, SIGTERM, SIGXFSZ, SIGPIPE, SIGFPE, SIGCHLD, SIGUSR1 */
    int numbers[] = {11, 15, 25, 13, 8, 17, 10};
    sigset_t blocked, pending;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    sigpending(&pending);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction now;
        sigaction(numbers[i], NULL, &now);
        const char *kind = now.sa_handler == note ? "note" : now.sa_handler == recover ? "recover" : now.sa_handler == SIG_DFL ? "default" : "other";
        printf("%d: %s %x blocked %d pending %d seen %d\n", numbers[i], kind, (unsigned)now.sa_flags,
               sigismember(&blocked, numbers[i]), sigismember(&pending, numbers[i]), seen[numbers[i]]);
    }
    stack_t stack;
    sigaltstack(NULL, &stack);
    printf("stack %d %zu\n", stack.ss_flags, stack.ss_size);
}

static void handle(int number, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_flags = flags};
    action.sa_handler = handler;
    sigaction(number, &action, NULL);
}

/* host handlers: its own handlers, on a stack of its own, before and after calls. */
int handlers(int count, char **arguments) {
    (void)count, (void)arguments;
    stack_t stack = {.ss_size = 1 << 16};
    stack.ss_sp = malloc(stack.ss_size);
    sigaltstack(&stack, NULL);
    handle(SIGSEGV, recover, SA_ONSTACK | SA_NODEFER);
    handle(SIGTERM, note, SA_RESTART);
    handle(SIGXFSZ, note, 0);
    show_signals();
    products(1, 9);
    show_signals();
    raise(SIGTERM);
    if (sigsetjmp(back, 1) == 0)
        *(volatile int *)nowhere = 1;
    products(2, 2);
    /* No file may grow from here on, ours least of all: that is no signal of the host's doing. */
    struct rlimit none = {.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &none);
    for (int m = 30; m < 40; m++)
        product(m);
    none.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &none);
    show_signals();
    return 15;
}

/* host descriptors: calls while no file can be opened. */
int descriptors(int count, char **arguments) {
    (void)count, (void)arguments;
    struct rlimit few = {.rlim_cur = 32, .rlim_max = 32};
    setrlimit(RLIMIT_NOFILE, &few);
    int last = -1, now;
    while ((now = open("/dev/null", O_RDONLY)) >= 0)
        last = now;
    printf("%d %s\n", last, strerror(errno));
    products(1, 9);
    product(5);
    printf("%g %d\n", product(2), open("/dev/null", O_RDONLY));
    for (int i = 3; i <= last; i++)
        close(i);
    printf("%g\n", product(3));
    return 16;
}

/* host closes FILE: closes what it does not know, as daemons do, and opens a file of its own. */
int closes(int count, char **arguments) {
    if (count < 1)
        return 1;
    products(1, 3);
    for (int i = 3; i < 64; i++)
        close(i);
    int own = open(arguments[0], O_RDWR | O_CREAT | O_TRUNC, 0600);
    /* And some more, whatever number was closed. */
    for (int i = 0; i < 8; i++)
        if (dup(own) < 0)
            return 1;
    products(40, 1);
    products(1, 40);
    if (write(own, "mine", 4) != 4)
        return 1;
    struct stat what;
    fstat(own, &what);
    printf("%d %ld\n", own, (long)what.st_size);
    fflush(stdout);
    if (fork() == 0) {
        products(41, 1);
        printf("child %d\n", write(own, "", 0) == 0);
        exit(0);
    }
    usleep(200000);
    printf("still open %d\n", fcntl(own, F_GETFD) >= 0);
    return 17;
}

/* host limited BYTES: files may not be longer, as on a full disk; then they may. */
int limited(int count, char **arguments) {
    struct rlimit few = {.rlim_cur = count > 0 ? (rlim_t)atoi(arguments[0]) : 0, .rlim_max = RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &few);
    for (int m = 1; m <= 100; m++)
        product(m);
    few.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &few);
    printf("%g\n", product(2));
    return 18;
}

/* host silent: its streams are closed, and it opens files by the lowest numbers; what those hold is its exit code. */
int silent(int count, char **arguments) {
    if (count < 1)
        return 1;
    for (int i = 0; i < 3; i++)
        close(i);
    products(1, 3);
    int own = open(arguments[0], O_RDWR | O_CREAT | O_TRUNC, 0600);
    products(2, 3);
    for (int m = 50; m < 60; m++)
        product(m);
    struct stat what;
    fstat(own, &what);
    int rest = open("/dev/null", O_RDONLY);
    return own == 0 && what.st_size == 0 && rest == 1 ? 19 : 1;
}
