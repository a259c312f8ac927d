/* The modes of host.c, and what they share. A mode gives the program's exit code. */
#ifndef HOST_H
#define HOST_H

/* One product of M rows; an element of it. */
float product(int m);
/* Several, of which nothing is wanted. */
void products(int m, int times);

int threads(int count, char **arguments);
int at_exit(int count, char **arguments);
int thread_ends(int count, char **arguments);
int late(int count, char **arguments);
int forks(int count, char **arguments);
int fork_ends(int count, char **arguments);
int busy_forks(int count, char **arguments);
int starts(int count, char **arguments);
int execs(int count, char **arguments);
int handlers(int count, char **arguments);
int descriptors(int count, char **arguments);
int closes(int count, char **arguments);
int limited(int count, char **arguments);
int silent(int count, char **arguments);

#endif
