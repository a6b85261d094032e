/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ops/arith/fft.h"

#include <math.h>

#define PI 3.14159265358979323846

void tni_fft_roots(tni_complex *root, int64_t n, bool inverse, tni_poll *poll) {
  for (int64_t k = 0; k < n && !tni_poll_stop(poll, 8); k++) {
    static const double quarter[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}}; /* exact */
    const double angle = 2 * PI * (double)k / (double)n;
    const bool whole = 4 * k % n == 0;
    const double c = whole ? quarter[4 * k / n][0] : cos(angle), s = whole ? quarter[4 * k / n][1] : sin(angle);
    root[k] = (tni_complex){c, inverse ? s : -s};
  }
}

static int64_t smallest_factor(int64_t n) {
  for (int64_t p = 2; p * p <= n; p++)
    if (n % p == 0) return p;
  return n;
}

static tni_complex times_complex(tni_complex a, tni_complex b) {
  return (tni_complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* One part of a transform of N: n of its samples, `stride` apart; root has N entries, N = n * stride. */
typedef struct fft_part {
  const tni_complex *root;
  int64_t stride;
  tni_complex *room;
  tni_poll *poll;
} fft_part;

enum {
  LONG = 64,   /* factors whose sums are asked about one by one */
  SHORT = 2048 /* a transform of so many is not asked about: it takes some ms where it is a prime, else less */
};

/* Elements [from, to) of the p transforms of m that lie after each other in y, joined to p times as many of one of
 * n = p * m: y[k + q m] = sum over r of root^(r k) part_r[k] * root_p^(r q). asks: after each of these; a constant
 * where this is inlined, so that the loop of short ones has no call in it. */
static inline void join_parts(const fft_part *s, int64_t n, int64_t p, int64_t from, int64_t to, bool asks,
                              tni_complex *y) {
  const int64_t m = n / p, all = n * s->stride;
  for (int64_t k = from; k < to; k++) {
    for (int64_t r = 0; r < p; r++) s->room[r] = times_complex(y[r * m + k], s->root[r * k % n * s->stride]);
    for (int64_t q = 0; q < p; q++) {
      tni_complex sum = s->room[0];
      const int64_t step = q * m * s->stride; /* below all */
      for (int64_t r = 1, at = step; r < p; r++, at = at + step < all ? at + step : at + step - all) {
        const tni_complex t = times_complex(s->room[r], s->root[at]);
        sum.re += t.re;
        sum.im += t.im;
      }
      y[q * m + k] = sum;
      if (asks && tni_poll_stop(s->poll, p)) return;
    }
  }
}

/* As deep as n has prime factors. */
static void transform_part(const fft_part *s, int64_t n, const tni_complex *x, tni_complex *y) {
  if (n == 1) {
    y[0] = x[0];
    return;
  }
  const int64_t p = smallest_factor(n), m = n / p;
  const fft_part inner = {s->root, s->stride * p, s->room, s->poll};
  for (int64_t r = 0; r < p; r++) transform_part(&inner, m, x + r * s->stride, y + r * m);
  join_parts(s, n, p, 0, m, false, y);
}

static void transform_asking(const fft_part *s, int64_t n, const tni_complex *x, tni_complex *y) {
  const int64_t p = smallest_factor(n), m = n / p;
  const fft_part inner = {s->root, s->stride * p, s->room, s->poll};
  if (tni_poll_stop(s->poll, n)) return;
  if (n <= SHORT) {
    transform_part(s, n, x, y);
    return;
  }
  for (int64_t r = 0; r < p; r++) transform_asking(&inner, m, x + r * s->stride, y + r * m);
  for (int64_t k = 0, to; (to = tni_poll_until(s->poll, k, m)) > k; k = to)
    if (p < LONG)
      join_parts(s, n, p, k, to, false, y);
    else
      join_parts(s, n, p, k, to, true, y);
}

void tni_fft(const tni_complex *root, int64_t n, const tni_complex *x, tni_complex *y, tni_complex *room,
             tni_poll *poll) {
  const fft_part s = {root, 1, room, poll};
  if (n > 0) transform_asking(&s, n, x, y);
}
