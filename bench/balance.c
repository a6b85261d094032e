/* SPDX-License-Identifier: Apache-2.0
 *
 * balance [THREADS [ROUNDS]]: how far a fork-join over the pool is from ideal when one thread runs at half speed.
 * balance SPEED:SPEED... [ROUNDS]: the same with a thread for each speed, the caller's first, such as 1:1:0.5:0.3.
 *
 * Work is a chain of dependent products, which takes the same time whatever the other thread of a core does; the slow
 * thread computes each piece twice. Ideal is the time of one thread alone, measured in the same round, over the sum of
 * the speeds: 1 each, 0.5 for the slow one. Forks follow each other as a step's do, about 10 ms of them at a time.
 * Printed: median and 90th percentile over the rounds of time / ideal, for total work and pieces of one fork.
 *
 * With speeds a piece is a sleep of so long, which needs no processor: there may be more threads than there are of
 * those. Each sleep ends at a time that follows from the one before, so that what the system adds does not add up. Also
 * printed: how long all others waited for the last thread, in pieces of the last.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "runtime/base/clock.h"
#include "runtime/base/pool.h"

enum { MAX_ROUNDS = 1000 };
#define NOBODY UINT32_MAX

typedef struct work {
  int64_t steps; /* of the chain, per piece */
  uint32_t slow; /* the worker at half speed, or NOBODY */
} work;

static void chain(int64_t steps) {
  uint64_t x = (uint64_t)steps;
  for (int64_t i = 0; i < steps; i++) {
    x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
    __asm__ volatile("" : "+r"(x));
  }
}

static void body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const work *w = arg;
  for (int64_t i = begin; i < end; i++) chain(worker == w->slow ? 2 * w->steps : w->steps);
}

static int64_t time_forks(tni_pool *p, int64_t pieces, work *w, int n) {
  const int64_t start = tni_now_ns();
  for (int i = 0; i < n; i++) tni_pool_for(p, pieces, 1, body, w);
  return tni_now_ns() - start;
}

static double one_round(tni_pool *p, int64_t pieces, work *w, int n) {
  work alone = {.steps = w->steps, .slow = NOBODY};
  const double speed = tni_pool_workers(p) - (w->slow == NOBODY ? 0 : 0.5);
  time_forks(p, pieces, w, 1); /* the workers are awake */
  const int64_t together = time_forks(p, pieces, w, n), serial = time_forks(NULL, pieces, &alone, n);
  return (double)together * speed / (double)serial;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print_cell(tni_pool *p, int64_t total_steps, int64_t pieces, uint32_t slow, int forks, int rounds) {
  static double ratio[MAX_ROUNDS];
  work w = {.steps = total_steps / pieces, .slow = slow};
  for (int r = 0; r < rounds; r++) ratio[r] = one_round(p, pieces, &w, forks);
  qsort(ratio, (size_t)rounds, sizeof *ratio, by_value);
  printf(" %.2f (%.2f) |", ratio[rounds / 2], ratio[rounds * 9 / 10]);
}

/* The fastest of some, so that other programs do not count. */
static double steps_per_us(void) {
  enum { STEPS = 1000000 };
  int64_t best = INT64_MAX;
  for (int i = 0; i < 10; i++) {
    const int64_t start = tni_now_ns();
    chain(STEPS);
    const int64_t ns = tni_now_ns() - start;
    if (ns < best) best = ns;
  }
  return STEPS * 1e3 / (double)best;
}

enum { MAX_CORES = 16 };

typedef struct cores {
  uint32_t n;
  double speed[MAX_CORES];
  int64_t piece_ns;       /* of a core at full speed */
  int64_t end[MAX_CORES]; /* of its last piece in this fork; 0: it had none */
} cores;

static void throttled(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  cores *c = arg;
  if (!c->end[worker]) c->end[worker] = tni_now_ns();
  c->end[worker] += (int64_t)((double)((end - begin) * c->piece_ns) / c->speed[worker]);
  const struct timespec until = {c->end[worker] / 1000000000, c->end[worker] % 1000000000};
  (void)prctl(PR_SET_TIMERSLACK, 1);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) continue;
}

static double wait_for_last(const cores *c, int64_t start) {
  uint32_t last = 0;
  int64_t before = start;
  for (uint32_t i = 1; i < c->n; i++)
    if (c->end[i] > c->end[last]) last = i;
  for (uint32_t i = 0; i < c->n; i++)
    if (i != last && c->end[i] > before) before = c->end[i];
  return (double)(c->end[last] - before) * c->speed[last] / (double)c->piece_ns;
}

static void print_cores(tni_pool *p, cores *c, int64_t fork_ns, int64_t pieces, int rounds, bool printed) {
  static double ratio[MAX_ROUNDS], wait[MAX_ROUNDS];
  double speed = 0;
  for (uint32_t i = 0; i < c->n; i++) speed += c->speed[i];
  c->piece_ns = (int64_t)((double)fork_ns * speed / (double)pieces);
  for (int r = 0; r < rounds; r++) {
    const int64_t start = tni_now_ns();
    for (uint32_t i = 0; i < c->n; i++) c->end[i] = 0;
    tni_pool_for(p, pieces, 1, throttled, c);
    ratio[r] = (double)(tni_now_ns() - start) / (double)fork_ns;
    wait[r] = wait_for_last(c, start);
  }
  if (!printed) return;
  qsort(ratio, (size_t)rounds, sizeof *ratio, by_value);
  qsort(wait, (size_t)rounds, sizeof *wait, by_value);
  printf("| %d | %d | %.2f (%.2f) | %.1f (%.1f) |\n", (int)(fork_ns / 1000), (int)pieces, ratio[rounds / 2],
         ratio[rounds * 9 / 10], wait[rounds / 2], wait[rounds * 9 / 10]);
  fflush(stdout);
}

static int by_speeds(const char *text, int rounds) {
  enum { FORK_NS = 40000000, LEARNT = 40 }; /* forks in which the pool learns */
  static const int64_t pieces[] = {4, 8, 16, 32, 64, 256, 1024};
  cores c = {.n = 0};
  char *end = NULL;
  for (const char *at = text; c.n < MAX_CORES && (c.speed[c.n] = strtod(at, &end)) > 0 && end != at; at = end + 1) {
    c.n++;
    if (*end != ':') break;
  }
  if (c.n < 2 || *end || rounds < 1 || rounds > MAX_ROUNDS) return 2;
  tni_pool *p = tni_pool_create(c.n);
  if (!p || tni_pool_workers(p) != c.n) return 1;
  printf("cores %s, %d rounds; median (90th percentile)\n\n", text, rounds);
  printf(
      "| ideal time of a fork, us | pieces | time / ideal | wait for the last, in its pieces |\n|---|---|---|---|\n");
  print_cores(p, &c, FORK_NS, 64, LEARNT, false);
  for (size_t n = 0; n < sizeof pieces / sizeof *pieces; n++) print_cores(p, &c, FORK_NS, pieces[n], rounds, true);
  tni_pool_destroy(p);
  return 0;
}

int main(int argc, char **argv) {
  static const int64_t us[] = {50, 200, 1000, 5000}, pieces[] = {4, 8, 16, 32, 64, 256, 1024};
  const int threads = argc > 1 ? atoi(argv[1]) : 2, rounds = argc > 2 ? atoi(argv[2]) : 15;
  const int failed = argc > 1 && strchr(argv[1], ':') ? by_speeds(argv[1], rounds) : -1;
  if (failed == 0 || failed == 1) return failed;
  if (failed == 2 || threads < 2 || rounds < 1 || rounds > MAX_ROUNDS) {
    fprintf(stderr, "usage: balance [THREADS (2 or more) or SPEED:SPEED... [ROUNDS (1 to %d)]]\n", MAX_ROUNDS);
    return 2;
  }
  tni_pool *p = tni_pool_create((uint32_t)threads);
  if (!p || tni_pool_workers(p) != (uint32_t)threads) {
    fprintf(stderr, "balance: no memory or threads\n");
    return 1;
  }
  const double rate = steps_per_us();
  printf("%d threads, %d rounds; time / ideal, median (90th percentile)\n\n", threads, rounds);
  printf("| work of a fork, us | pieces | none slow | a worker slow | the caller slow |\n|---|---|---|---|---|\n");
  for (size_t u = 0; u < sizeof us / sizeof *us; u++)
    for (size_t n = 0; n < sizeof pieces / sizeof *pieces; n++) {
      const int forks = (int)(10000 / us[u]);
      const int64_t steps = (int64_t)((double)us[u] * rate);
      printf("| %d | %d |", (int)us[u], (int)pieces[n]);
      print_cell(p, steps, pieces[n], NOBODY, forks, rounds);
      print_cell(p, steps, pieces[n], 1, forks, rounds);
      print_cell(p, steps, pieces[n], 0, forks, rounds);
      printf("\n");
      fflush(stdout);
    }
  tni_pool_destroy(p);
  return 0;
}
