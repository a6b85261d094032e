/* SPDX-License-Identifier: Apache-2.0
 *
 * One worker process of the runner: descriptor 3 is its report, 1 and 2 are one pipe for what people may read. It has a
 * process group of its own.
 */
#ifndef TENON_CONFORM_RUN_CHILD_H
#define TENON_CONFORM_RUN_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A growing text. Beyond `most` bytes the first half is dropped. */
typedef struct tni_cf_text {
  char *s;
  size_t n, cap, most;
} tni_cf_text;

typedef struct tni_cf_child {
  pid_t pid; /* 0: none */
  int report_fd, output_fd;
  tni_cf_text report, output;
  double started, deadline; /* seconds of the monotonic clock */
  bool late;
  double killed; /* when it is killed, once it is late: until then it may say what it was doing */
  int status;    /* of waitpid */
} tni_cf_child;

double tni_cf_clock(void);
/* argv as for execv, NULL at the end. 0, or errno. */
int tni_cf_child_start(tni_cf_child *c, const char *const *argv, double limit_s);
/* Takes what is there, kills it when it is late. True once it has ended; then all it said has been read. */
bool tni_cf_child_poll(tni_cf_child *c);
void tni_cf_child_kill(tni_cf_child *c);
void tni_cf_child_finish(tni_cf_child *c);
/* "ended by SIGSEGV (Segmentation fault)"; false where it ended with status 0 in time. */
bool tni_cf_child_end(const tni_cf_child *c, char *text, size_t n);

#endif
