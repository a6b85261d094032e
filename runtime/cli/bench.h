/* SPDX-License-Identifier: Apache-2.0
 *
 * What `tenon bench` measures, how rates are kept, and peers.
 */
#ifndef TENON_CLI_BENCH_H
#define TENON_CLI_BENCH_H

#include "runtime/cli/cli.h"

/* n tokens of a prompt, or generated, after `depth` positions. */
typedef struct bench_test {
  int n, depth;
  bool decode;
} bench_test;

/* Rates of one test by one program, tokens per second. rate: free it. */
typedef struct bench_row {
  double *rate, least, most;
  size_t n;
  char label[96]; /* what a peer calls its model */
} bench_row;

/* "pp512", "tg128 @ d1900". */
void bench_test_name(const bench_test *t, char *out, size_t room);
bool bench_row_add(bench_row *r, double rate);
double bench_row_median(const bench_row *r);

/* Runs a command in the manner of llama-bench (-p N -n 0 or -p 0 -n N, -d N where there is a depth, -r 1 -o json: a
 * list with an object per test, its samples_ts or avg_ts in tokens per second) once and adds what it measured. 0, or an
 * exit code (reported). */
int bench_peer(cli *c, const char *command, const bench_test *t, bench_row *r);

/* The processor's name, processors, bytes of memory, the kernel's release. */
json_t *bench_machine(void);
/* A line that is written over, on a terminal only; NULL clears it. */
void bench_progress(const char *fmt, ...) TN_PRINTF(1, 2);

#endif
