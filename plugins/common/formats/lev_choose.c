/* SPDX-License-Identifier: Apache-2.0
 *
 * Four choices at a time, a choice a lane. A lane keeps the first of its equals, and the lanes' best is that with the
 * least code: what one loop over all codes would find.
 */
#include <math.h>
#include <string.h>

#include "plugins/common/formats/lev_choose.h"

typedef tni_lev_v4 v4;
typedef int32_t v4i __attribute__((vector_size(16)));

void tni_lev_choice_of(const tni_lev_kind *k, tni_lev_choice *out) {
  memset(out, 0, sizeof *out);
  out->kind = k;
  for (int i = 0; i < TNI_LEV_LEVELS; i++) out->level[i / 4][i % 4] = out->across[i % 4][i / 4] = (float)k->level[i];
  for (uint32_t c = 0; k->shared && c < tni_lev_codes(k); c++)
    for (uint32_t j = 0; j < 4; j++) out->by_code[j][c / 4][c % 4] = (float)k->level[tni_lev_entry(k, c, j)];
}

static inline v4 splat(float x) { return (v4){x, x, x, x}; }
static inline v4i splat_i(int32_t x) { return (v4i){x, x, x, x}; }
/* Squared errors of one weight, in units of the scale. */
static inline v4 errors(float x, v4 level) {
  const v4 d = splat(x) - level;
  return d * d;
}
static inline v4i pick_i(v4i from, v4i yes, v4i no) { return (from & yes) | (~from & no); }
static inline v4 pick(v4i from, v4 yes, v4 no) { return (v4)pick_i(from, (v4i)yes, (v4i)no); }

typedef struct best4 {
  v4 error;
  v4i at;
} best4;
static inline best4 none(void) { return (best4){splat(INFINITY), splat_i(0)}; }
static inline void take(best4 *b, v4 error, v4i at) {
  const v4i better = (v4i)(error < b->error);
  b->error = pick(better, error, b->error);
  b->at = pick_i(better, at, b->at);
}
/* The lane with the least error; of equals the one with the least `at`. */
static inline int least(const best4 *b) {
  int l = 0;
  for (int i = 1; i < 4; i++)
    if (b->error[i] < b->error[l] || (b->error[i] == b->error[l] && b->at[i] < b->at[l])) l = i;
  return l;
}

static inline float choose_one(const tni_lev_choice *c, const float *x, uint8_t *code) {
  best4 b = none();
  for (int i = 0; i < 4; i++) take(&b, errors(x[0], c->level[i]), (v4i){0, 1, 2, 3} + 4 * i);
  const int l = least(&b);
  *code = (uint8_t)b.at[l];
  return b.error[l];
}

/* Of a pair: a lane for both top bits, and the best low ones under them. */
static inline float choose_pair(const tni_lev_choice *c, const float *x, uint8_t *code) {
  best4 low[2] = {none(), none()};
  for (int j = 0; j < 2; j++)
    for (int i = 0; i < 4; i++) take(&low[j], errors(x[j], c->across[i]), splat_i(i));
  /* lanes are the top bit of a weight and twice that of its other: those of the second change places */
  const best4 first = low[0], second = {(v4){low[1].error[0], low[1].error[2], low[1].error[1], low[1].error[3]},
                                        (v4i){low[1].at[0], low[1].at[2], low[1].at[1], low[1].at[3]}};
  const best4 b = {first.error + second.error, {0, 1, 2, 3}};
  const int l = least(&b);
  *code = (uint8_t)(first.at[l] | (l & 1) << 2 | (second.at[l] | (l >> 1) << 2) << 3);
  return b.error[l];
}

/* Of a ring of four: a lane for each first code, the best way round. */
static inline float choose_ring(const tni_lev_choice *c, const float *x, uint8_t *code) {
  v4 cost[4];
  v4i from[2][4];
  for (int i = 0; i < 4; i++) cost[i] = errors(x[0], c->level[i]);
  for (int j = 1; j < 3; j++) {
    v4 next[4];
    for (int i = 0; i < 4; i++) {
      const v4 e = errors(x[j], c->level[i]);
      best4 b = {cost[0] + splat(e[0]), splat_i(0)};
      for (int k = 1; k < 4; k++) take(&b, cost[k] + splat(e[k]), splat_i(k));
      next[i] = b.error;
      from[j - 1][i] = b.at;
    }
    memcpy(cost, next, sizeof cost);
  }
  best4 b = none();
  for (int i = 0; i < 4; i++) take(&b, cost[i] + errors(x[3], c->across[i]), splat_i(i));
  int l = 0;
  for (int i = 1; i < 4; i++)
    if (b.error[i] < b.error[l]) l = i;
  const int last = b.at[l], two = from[1][last][l], one = from[0][two][l];
  *code = (uint8_t)(l | one << 2 | two << 4 | last << 6);
  return b.error[l];
}

/* Of a quad that shares bits: every code. */
static inline float choose_shared(const tni_lev_choice *c, const float *x, uint8_t *code) {
  best4 b = none();
  for (int i = 0; i < 16; i++) {
    const v4 sum = errors(x[0], c->by_code[0][i]) + errors(x[1], c->by_code[1][i]) + errors(x[2], c->by_code[2][i]) +
                   errors(x[3], c->by_code[3][i]);
    take(&b, sum, (v4i){0, 1, 2, 3} + 4 * i);
  }
  const int l = least(&b);
  *code = (uint8_t)b.at[l];
  return b.error[l];
}

#define EACH_CODE(choose)                                                  \
  for (uint32_t i = 0; i < n; i += vec, codes++) {                         \
    float x[4] = {0};                                                      \
    for (uint32_t j = 0; j < vec && i + j < n; j++) x[j] = w[i + j] * inv; \
    error += choose(c, x, codes);                                          \
  }

float tni_lev_choose(const tni_lev_choice *c, const float *w, uint32_t n, float scale, uint8_t *codes) {
  const float inv = scale > 0 ? 1 / scale : 0;
  const uint32_t vec = c->kind->vec;
  float error = 0;
  if (c->kind->shared)
    EACH_CODE(choose_shared)
  else if (vec == 1)
    EACH_CODE(choose_one)
  else if (vec == 2)
    EACH_CODE(choose_pair)
  else
    EACH_CODE(choose_ring)
  return error * scale * scale;
}
