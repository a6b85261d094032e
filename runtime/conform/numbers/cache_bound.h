/* SPDX-License-Identifier: Apache-2.0
 *
 * What graph.h (tn_layout) lets who attends over a cache of short elements round, beside what sums in float32 do.
 * Private to the room.
 */
#ifndef TENON_CONFORM_NUMBERS_CACHE_BOUND_H
#define TENON_CONFORM_NUMBERS_CACHE_BOUND_H

#include <stdint.h>

/* One query over the keys [0, n) of a head: score = cap(scale * q k) + added, cap(x) = cap * tanh(x / cap) or, of 0, x.
 */
typedef struct tni_cn_attended {
  uint32_t dtype; /* TN_DT_*, of the cache */
  int64_t n, size;
  const float *q, *k, *v; /* [size], [n, size] as they are kept, [n, size] */
  const double *added;    /* [n]; -INFINITY: nobody sees it */
  double scale, cap;
} tni_cn_attended;

/* Adds to bound[size] of the result. w: room for 2 n. */
void tni_cn_attended_bound(const tni_cn_attended *t, double *w, float *bound);

#endif
