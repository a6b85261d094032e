/* SPDX-License-Identifier: Apache-2.0
 *
 * Where all are equally fast: a quarter of what is left of the own share is a run, so that most come in long runs and
 * the last alone. What a worker reads is then one stream through memory (workers that take turns in one stream get half
 * the bandwidth of two that have their own). Who has none left takes over the back half of the largest share.
 *
 * A worker with less than the full weight also counts what is left in all. Its run is at most its part of that by
 * weight: the others need as long for the rest. Where its part is less than three quarters of a piece it takes one if
 * the faster ones, of whom each takes whole pieces, need about as long for all that is left, and else none: five pieces
 * are three turns of two workers, in which a third at half speed does one of them. It never moves pieces into its own
 * share, as it may leave without having emptied it: what it leaves has been there since the fork began, so that others
 * see it. The fast ones take until nothing is left.
 */
#include "runtime/base/shares.h"

#include <stdatomic.h>
#include <string.h>

/* Speeds are learnt from each of the first forks, then from one of so many: an odd number, as the forks of a model's
 * layers come in a fixed order, and a rare one: asking takes a microsecond. Forks of fewer pieces a worker say too
 * little. */
enum { LEARN_EVERY = 127, LEARN_FIRST = 64, LEARN_PIECES = 4, TRY_EVERY = 3 };
/* An answer's part of a speed. An answer that is further off counts as this far: one that other programs disturbed is
 * no more than one answer, and it takes many that agree. Workers within EVEN of the fastest count as equal; none counts
 * as slower than LEAST. */
static const float LEARN_PART = 0.125f, LEARN_MOST = 0.4f, EVEN = 0.6f, LEAST = 1.0f / 32;

static uint64_t pack_range(uint64_t begin, uint64_t end) { return end << 32 | begin; }
static uint32_t range_begin(uint64_t r) { return (uint32_t)r; }
static uint32_t range_end(uint64_t r) { return (uint32_t)(r >> 32); }
static uint32_t range_left(uint64_t r) { return range_end(r) - range_begin(r); }

static uint64_t load_range(const tni_share *of) { return atomic_load_explicit(&of->left, memory_order_relaxed); }

static bool swap_range(tni_share *of, uint64_t *seen, uint64_t next) {
  return atomic_compare_exchange_strong_explicit(&of->left, seen, next, memory_order_relaxed, memory_order_relaxed);
}

static void set_weights(tni_shares *s) {
  float most = 0;
  for (uint32_t i = 0; i < s->n; i++) most = s->of[i].speed > most ? s->of[i].speed : most;
  s->weights = 0;
  s->uneven = false;
  for (uint32_t i = 0; i < s->n; i++) {
    tni_share *of = &s->of[i];
    if (of->speed < most * LEAST) of->speed = most * LEAST;
    of->weight = of->speed >= most * EVEN ? TNI_SHARE_FULL : (uint32_t)(of->speed / most * TNI_SHARE_FULL);
    s->weights += of->weight;
    s->uneven |= of->weight < TNI_SHARE_FULL;
  }
}

void tni_shares_init(tni_shares *s, tni_share *of, uint32_t n) {
  *s = (tni_shares){.of = of, .n = n};
  memset(of, 0, n * sizeof *of);
  for (uint32_t i = 0; i < n; i++) of[i].speed = 1;
  set_weights(s);
}

void tni_shares_scale(tni_shares *s, uint32_t i, float times) {
  s->of[i].speed *= times;
  set_weights(s);
}

void tni_shares_begin(tni_shares *s, uint32_t pieces) {
  uint64_t before = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    tni_share *of = &s->of[i];
    const uint64_t after = before + of->weight;
    atomic_store_explicit(&of->left, pack_range(pieces * before / s->weights, pieces * after / s->weights),
                          memory_order_relaxed);
    atomic_store_explicit(&of->rate, 0, memory_order_relaxed);
    before = after;
  }
  s->forks++;
  s->learning = (s->forks <= LEARN_FIRST || s->forks % LEARN_EVERY == 0) && pieces / LEARN_PIECES >= s->n;
  s->trying = s->uneven && s->forks % (LEARN_EVERY * TRY_EVERY) == 0;
}

static tni_share *largest(const tni_shares *s, uint64_t *range) {
  tni_share *from = NULL;
  *range = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    const uint64_t r = load_range(&s->of[i]);
    if (range_left(r) <= range_left(*range)) continue;
    *range = r;
    from = &s->of[i];
  }
  return from;
}

static bool take_own(tni_share *w, uint32_t *first, uint32_t *last) {
  uint64_t r = load_range(w);
  while (range_left(r)) {
    const uint32_t n = range_left(r) / 4;
    *first = range_begin(r);
    *last = *first + (n ? n : 1);
    if (swap_range(w, &r, pack_range(*last, range_end(r)))) return true;
  }
  return false;
}

/* The back half of the largest share becomes w's; false: nothing is left to take. */
static bool take_over(const tni_shares *s, tni_share *w) {
  uint64_t r;
  for (tni_share *from; (from = largest(s, &r));) {
    const uint32_t end = range_end(r), middle = end - (range_left(r) + 1) / 2;
    if (!swap_range(from, &r, pack_range(range_begin(r), middle))) continue;
    atomic_store_explicit(&w->left, pack_range(middle, end), memory_order_relaxed);
    return true;
  }
  return false;
}

/* How many of those that are left w may take at once. */
static uint32_t fair_run(const tni_shares *s, const tni_share *w) {
  uint64_t left = 0;
  for (uint32_t i = 0; i < s->n; i++) left += range_left(load_range(&s->of[i]));
  const uint64_t fair = (left * w->weight + s->weights / 4) / s->weights;
  if (fair) return (uint32_t)fair;
  uint64_t faster = 0;
  for (uint32_t i = 0; i < s->n; i++) faster += s->of[i].weight > w->weight ? s->of[i].weight : 0;
  const uint64_t turns = faster ? (left * TNI_SHARE_FULL + faster - 1) / faster : 0;
  return (4 * turns + 1) * w->weight >= 4 * TNI_SHARE_FULL;
}

/* From the front of its own share, then from the back of the largest. */
static bool take_slowly(const tni_shares *s, tni_share *w, bool must, uint32_t *first, uint32_t *last) {
  for (;;) {
    uint32_t most = fair_run(s, w);
    if (!most && (must || s->trying)) most = 1;
    if (!most) return false;
    uint64_t r = load_range(w);
    tni_share *from = range_left(r) ? w : largest(s, &r);
    if (!from) return false;
    uint32_t n = range_left(r) / 4;
    n = n > most ? most : n ? n : 1;
    *first = from == w ? range_begin(r) : range_end(r) - n;
    *last = *first + n;
    if (swap_range(from, &r, from == w ? pack_range(*last, range_end(r)) : pack_range(range_begin(r), *first)))
      return true;
  }
}

bool tni_shares_take(tni_shares *s, uint32_t i, bool must, uint32_t *first, uint32_t *last) {
  tni_share *w = &s->of[i];
  if (s->uneven && w->weight < TNI_SHARE_FULL) return take_slowly(s, w, must, first, last);
  while (!take_own(w, first, last))
    if (!take_over(s, w)) return false;
  return true;
}

bool tni_shares_rest(const tni_shares *s) {
  uint64_t r;
  return largest(s, &r) != NULL;
}

void tni_shares_done(tni_shares *s, uint32_t i, int64_t done, int64_t ns) {
  atomic_store_explicit(&s->of[i].rate, ns > 0 ? (float)done / (float)ns : 0, memory_order_relaxed);
}

static float within(float x, float most) { return x > most ? most : x < -most ? -most : x; }

/* Rates are of a fork's work, and speeds are beside each other: the sum of those that worked is taken to be the same.
 */
void tni_shares_end(tni_shares *s) {
  float speeds = 0, rates = 0;
  if (!s->learning) return;
  for (uint32_t i = 0; i < s->n; i++) {
    const float rate = atomic_load_explicit(&s->of[i].rate, memory_order_relaxed);
    rates += rate;
    speeds += rate > 0 ? s->of[i].speed : 0;
  }
  for (uint32_t i = 0; i < s->n; i++) {
    tni_share *w = &s->of[i];
    const float rate = atomic_load_explicit(&w->rate, memory_order_relaxed);
    if (rate > 0) w->speed += w->speed * LEARN_PART * within(rate * speeds / rates / w->speed - 1, LEARN_MOST);
  }
  set_weights(s);
}
