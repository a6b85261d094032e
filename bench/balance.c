/* SPDX-License-Identifier: Apache-2.0
 *
 * balance [THREADS [ROUNDS]]: how far a fork-join over the pool is from ideal when one thread runs at half speed.
 *
 * Work is a chain of dependent products, which takes the same time whatever the other thread of a core does; the slow
 * thread computes each piece twice. Ideal is the time of one thread alone, measured in the same round, over the sum of
 * the speeds: 1 each, 0.5 for the slow one. Forks follow each other as a step's do, about 10 ms of them at a time.
 * Printed: median and 90th percentile over the rounds of time / ideal, for total work and pieces of one fork.
 */
#include <stdio.h>
#include <stdlib.h>

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

int main(int argc, char **argv) {
  static const int64_t us[] = {50, 200, 1000, 5000}, pieces[] = {4, 8, 16, 32, 64, 256, 1024};
  const int threads = argc > 1 ? atoi(argv[1]) : 2, rounds = argc > 2 ? atoi(argv[2]) : 15;
  if (threads < 2 || rounds < 1 || rounds > MAX_ROUNDS) {
    fprintf(stderr, "usage: balance [THREADS (2 or more) [ROUNDS (1 to %d)]]\n", MAX_ROUNDS);
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
