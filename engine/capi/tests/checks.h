/* What the engines in C here check by: all that they need of tgemm.h and the C library besides. */

#include <tgemm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int checks;

static void check(int holds, const char *what, const char *file, int line) {
  checks++;
  if (!holds) {
    fprintf(stderr, "%s:%d: %s; last error: %s\n", file, line, what, tgemm_last_error());
    exit(1);
  }
}
#define CHECK(what) check((what) != 0, #what, __FILE__, __LINE__)
#define OK(call) check((call) == TGEMM_STATUS_OK, #call, __FILE__, __LINE__)
/* It fails so, and says why in these words. */
#define FAILS(status, words, call) \
  do { \
    check((call) == TGEMM_STATUS_##status, #call, __FILE__, __LINE__); \
    check(strstr(tgemm_last_error(), words) != NULL, #call " says so", __FILE__, __LINE__); \
  } while (0)

/* A structure of which nothing is said but its size. */
#define SIZED(type, name) \
  type name; \
  memset(&name, 0, sizeof name); \
  name.size = sizeof name
