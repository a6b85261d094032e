/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ops/nn/attention_block.h"

#include <math.h>

#include "runtime/ops/kernel/kernel.h"

static int64_t row_of(const operand *x, int64_t key) { return x->ring ? key % x->ring : key; }

static const char *row_at(const attention *a, const operand *past, const operand *now, const tile *t, int64_t key) {
  const int64_t before = past->data ? a->past : 0;
  const operand *x = key < before ? past : now;
  const int64_t row = key < before ? key : row_of(now, key - before);
  return (const char *)x->data + (t->b * x->batch + t->kv * x->head + row * x->row) * (int64_t)tni_elem_size(x->dtype);
}

/* Rows [key, key + n) of K or V, as floats or as what they are kept as and multiplied; *ld their distance in elements.
 * They are gathered where they are neither (few bits become int8), lie on both sides of the past's or a ring's end, or
 * are no whole words. */
static const void *block_rows(const attention *a, const operand *past, const operand *now, const tile *t, int64_t key,
                              int64_t n, int64_t size, float *rows, int64_t *ld) {
  const int64_t before = past->data ? a->past : 0, words = (size + 1) / 2;
  const operand *x = key < before ? past : now;
  const bool apart = x == past ? key + n > before : x->ring && row_of(x, key - before) + n > x->ring;
  const bool as_kept = a->kept  ? !tni_kv_packed(x->dtype)
                       : a->b16 ? size % 2 == 0 && x->row % 2 == 0
                                : x->dtype == TN_DT_F32;
  if (!apart && as_kept) {
    *ld = x->row;
    return row_at(a, past, now, t, key);
  }
  *ld = a->b16 ? 2 * words : kept_pitch(a, size);
  for (int64_t i = 0; i < n; i++) {
    const char *from = row_at(a, past, now, t, key + i);
    if (a->kept && tni_kv_packed(now->dtype)) {
      tni_kv_unpack(now->dtype, from, (char *)rows + i * *ld, size);
    } else if (a->kept) {
      memcpy((char *)rows + i * *ld * kept_bytes(a), from, (size_t)(*ld * kept_bytes(a)));
    } else if (a->b16) {
      if (words) rows[i * words + words - 1] = 0;
      memcpy(rows + i * words, from, (size_t)size * sizeof(uint16_t));
    } else {
      tni_kv_load(now->dtype, from, TN_DT_F32, rows + i * size, 1, size);
    }
  }
  return rows;
}

/* Rows of one micro tile, so that none is left with few: of 8 rows 4 and 4, not 6 and 2. */
static int64_t even_step(const attention *a, int64_t rows) {
  const int64_t n = (rows + a->hot->mr - 1) / a->hot->mr;
  return (rows + n - 1) / n;
}

/* Scores by key, [KEYS, FEW], and as the others have them, by row. */
static float *by_key(const space *w) { return w->s + FEW * KEYS; }

/* Scores of few rows. k: block_rows(). */
static void few_dots(const attention *a, const tile *t, const space *w, const void *k, int64_t ld, int64_t n,
                     const void *next) {
  if (a->kept)
    a->kept->dots8((int)t->rows, n, a->size, w->q, k, ld * kept_bytes(a), by_key(w), next);
  else if (a->b16)
    a->hot->dots8_b16(n, even_elements(a), w->q, k, ld / 2, by_key(w), next);
  else
    a->hot->dots8((int)t->rows, n, a->size, w->q, k, ld, by_key(w), next);
}

/* Eight rows at a time, as few rows have them. */
static void kept_scores(const attention *a, const tile *t, const space *w, const void *k, int64_t ld, int64_t n) {
  float *s = w->k, rows[FEW * TNI_NR];
  for (int64_t r = 0; r < t->rows; r += FEW) {
    const int64_t many = t->rows - r < FEW ? t->rows - r : FEW;
    a->kept->dots8((int)many, n, a->size, w->q + r * a->size, k, ld * kept_bytes(a), s, NULL);
    for (int64_t p = 0; p < n; p += TNI_NR) {
      a->hot->pack_t(rows, s + p * FEW, FEW, n - p < TNI_NR ? n - p : TNI_NR, FEW);
      for (int64_t i = 0; i < many; i++) memcpy(w->s + (r + i) * KEYS + p, rows + i * TNI_NR, TNI_NR * sizeof *rows);
    }
  }
}

static void few_scores(const attention *a, const tile *t, const space *w, const void *k, int64_t ld, int64_t n) {
  float *s = by_key(w), rows[FEW * TNI_NR];
  few_dots(a, t, w, k, ld, n, NULL);
  for (int64_t p = 0; p < n; p += TNI_NR) {
    a->hot->pack_t(rows, s + p * FEW, FEW, n - p < TNI_NR ? n - p : TNI_NR, FEW);
    for (int64_t r = 0; r < t->rows; r++) memcpy(w->s + r * KEYS + p, rows + r * TNI_NR, TNI_NR * sizeof *rows);
  }
}

static void block_scores(const attention *a, const tile *t, const space *w, int64_t key, int64_t n) {
  const int64_t step = even_step(a, t->rows), even = even_elements(a);
  int64_t ld;
  const f32u *k = block_rows(a, &a->past_k, &a->k, t, key, n, a->size, w->rows, &ld);
  if (a->kept || few_rows(t)) {
    (a->kept ? kept_scores : few_scores)(a, t, w, k, ld, n);
    return;
  }
  const int64_t size = a->b16 ? even : a->size, panel = size * TNI_NR; /* a row's floats, or words */
  if (a->b16) ld /= 2;
  for (int64_t p = 0; p < n; p += 2 * TNI_NR) {
    for (int64_t i = 0; i < 2; i++) {
      const int64_t left = n - p - i * TNI_NR;
      if (left > 0)
        a->hot->pack_t(w->k + i * panel, k + (p + i * TNI_NR) * ld, ld, left < TNI_NR ? left : TNI_NR, size);
    }
    for (int64_t r = 0; r < t->rows; r += step) {
      const int mr = (int)(t->rows - r < step ? t->rows - r : step);
      const float *q = w->q + r * size;
      float *s = w->s + r * KEYS + p;
      if (a->b16) {
        tni_hot_panels(a->hot, true, n - p, mr, size, q, size, w->k, TNI_NR, panel, s, KEYS, 1);
        continue;
      }
      tni_hot_panels(a->hot, false, n - p, mr, even, q, size, w->k, 2 * TNI_NR, panel, s, KEYS, 1);
      tni_hot_panels(a->hot, false, n - p, mr, size - even, q + even, size, w->k + TNI_NR, 2 * TNI_NR, panel, s, KEYS,
                     0);
    }
  }
}

static void cap_row(const attention *a, float *s, int64_t n) {
  for (int64_t i = 0; i < n; i++) s[i] = s[i] / a->cap;
  a->hot->tanh(s, s, n);
  for (int64_t i = 0; i < n; i++) s[i] = s[i] * a->cap;
}

/* Slope times the keys' distances, the first of which is `from`. */
static void slope_row(float slope, int64_t from, int64_t n, float *restrict s) {
  for (int64_t i = 0; i < n; i++) {
    const float far = slope * (float)(from + i);
    s[i] = s[i] + far;
  }
}

/* Bias of keys [key, key + n) for one query added to s; past the mask's own length everything is masked. */
static void mask_row(const attention *a, int64_t at, int64_t key, int64_t n, float *restrict s) {
  const int64_t given = a->mask_keys - key, m = given < 0 ? 0 : given < n ? given : n;
  if (a->mask->dtype == TN_DT_BOOL) {
    const u8u *p = (const u8u *)a->mask->data + at + key;
    for (int64_t i = 0; i < m; i++) s[i] = p[i] ? s[i] : -INFINITY;
  } else {
    float bias[KEYS];
    if (m) tni_load_f32(a->mask->dtype, a->mask->data, at + key, m, bias);
    for (int64_t i = 0; i < m; i++) {
      const float sum = s[i] + bias[i];
      s[i] = bias[i] == -INFINITY ? -INFINITY : sum;
    }
  }
  for (int64_t i = m; i < n; i++) s[i] = -INFINITY;
}

/* One row of the mask for all queries, and nothing masked in this block. */
static bool nothing_masked(const attention *a, const tile *t, int64_t key, int64_t n) {
  return a->mask->dtype == TN_DT_BOOL && !a->mask_head && !a->mask_row && key + n <= a->mask_keys &&
         !memchr((const char *)a->mask->data + t->b * a->mask_batch + key, 0, (size_t)n);
}

static void bias_rows(const attention *a, const tile *t, const space *w, int64_t key, int64_t n) {
  const bool masked = a->mask && !nothing_masked(a, t, key, n);
  for (int64_t r = 0; r < t->rows; r++) {
    float *s = w->s + r * KEYS;
    const int64_t row = t->row0 + r, i = row / a->group, h = t->kv * a->group + row % a->group;
    if (a->cap > 0) cap_row(a, s, n);
    if (a->slopes) slope_row(of_head(a, a->slopes, h), key - t->at[r], n, s);
    if (masked) mask_row(a, t->b * a->mask_batch + h * a->mask_head + i * a->mask_row, key, n, s);
    for (int64_t j = 0; j < n && key + j < t->lo[r]; j++) s[j] = -INFINITY;
    for (int64_t j = t->hi[r] > key ? t->hi[r] - key : 0; j < n; j++) s[j] = -INFINITY;
  }
}

/* Scores become probabilities under the new maximum; what is there already is scaled down to it. */
static void advance_tile(const attention *a, tile *t, const space *w, int64_t n) {
  for (int64_t r = 0; r < t->rows; r++) {
    const float top = a->hot->max(w->s + r * KEYS, n), old = t->to.m[r];
    t->to.m[r] = top > old || top != top ? top : old;
    t->decay[r] = old == t->to.m[r] ? 0 : old - t->to.m[r];
    if (isinf(t->to.m[r]) && t->to.m[r] > 0) t->decay[r] = NAN; /* inf - inf */
  }
  (void)a->hot->exp_sum(t->decay, t->decay, t->rows, 0);
  for (int64_t r = 0; r < t->rows; r++) {
    float *s = w->s + r * KEYS, *o = t->to.o + r * a->v_cols;
    const float d = t->decay[r];
    if (t->to.m[r] == -INFINITY) {
      memset(s, 0, (size_t)n * sizeof *s);
      continue;
    }
    t->to.l[r] = t->to.l[r] * d + a->hot->exp_sum(s, s, n, t->to.m[r]);
    if (d != 1.f)
      for (int64_t i = 0; i < a->v_cols; i++) o[i] = o[i] * d;
  }
}

/* Floats from one row of V to the next up to which a block's rows share few sets of the nearest cache. */
enum { NEAR = 128 };

/* Columns [c, c + width) of V for n keys, zeros after its last; as words of two keys where these are multiplied. */
static void pack_values(const attention *a, const void *rows, int64_t ld, int64_t n, int64_t c, int64_t width,
                        float *to) {
  const int64_t left = a->v_size - c, cols = left < width ? left : width;
  if (cols < width) memset(to, 0, (size_t)(n * width) * sizeof *to);
  if (!a->b16) {
    for (int64_t j = 0; j < n; j++) memcpy(to + j * width, (const f32u *)rows + j * ld + c, (size_t)cols * sizeof *to);
    return;
  }
  const uint16_t none[2 * TNI_NR] = {0};
  const char *v = (const char *)rows + c * (int64_t)sizeof *none, *last = v + (n - 1) * ld * (int64_t)sizeof *none;
  for (; v <= last; v += 2 * ld * (int64_t)sizeof *none, to += width)
    a->hot->zip_b16(to, v, v < last ? v + ld * (int64_t)sizeof *none : (const char *)none, cols);
}

/* Eight rows at a time, as few rows have them; what was there is scaled already. */
static void add_kept_values(const attention *a, const tile *t, const space *w, int64_t key, int64_t n) {
  float *p = w->k, decay[FEW], step[FEW];
  int64_t ld;
  const char *v = block_rows(a, &a->past_v, &a->v, t, key, n, a->v_size, w->rows, &ld);
  const int64_t pitch = ld * kept_bytes(a);
  for (int64_t i = 0; i < FEW; i++) decay[i] = 1;
  for (int64_t r = 0; r < t->rows; r += FEW) {
    const int64_t many = t->rows - r < FEW ? t->rows - r : FEW;
    for (int64_t j = 0; j < n; j++)
      for (int64_t i = 0; i < FEW; i++) p[j * FEW + i] = i < many ? w->s[(r + i) * KEYS + j] : 0;
    a->kept->probs8(p, n, v, pitch, a->v_size, step);
    for (int64_t c = 0; c < a->v_size; c += TNI_NR)
      a->kept->values8((int)many, n, p, step, v + c * kept_bytes(a), pitch, decay, t->to.o + r * a->v_cols + c,
                       a->v_cols, NULL);
  }
}

static void add_values(const attention *a, const tile *t, const space *w, int64_t key, int64_t n) {
  if (a->kept) {
    add_kept_values(a, t, w, key, n);
    return;
  }
  const int64_t step = even_step(a, t->rows), steps = a->b16 ? (n + 1) / 2 : n;
  int64_t ld;
  const f32u *v = block_rows(a, &a->past_v, &a->v, t, key, n, a->v_size, w->rows, &ld);
  const bool copied = a->b16 || (!few_rows(t) && ld > NEAR);
  for (int64_t r = 0; a->b16 && r < t->rows; r++) /* after the last key is the score of a panel's zeros */
    a->hot->to_b16(w->s + r * KEYS, w->s + r * KEYS, 2 * steps);
  for (int64_t c = 0, width; c < a->v_size; c += width) {
    const int64_t left = a->v_size - c;
    width = left < 2 * TNI_NR ? TNI_NR : 2 * TNI_NR;
    const bool packed = copied || left < TNI_NR;
    if (packed) pack_values(a, v, ld, n, c, width, w->v);
    for (int64_t r = 0; r < t->rows; r += step) {
      const int mr = (int)(t->rows - r < step ? t->rows - r : step);
      const float *p = w->s + r * KEYS;
      float *o = t->to.o + r * a->v_cols + c;
      tni_hot_panels(a->hot, a->b16, width, mr, steps, p, KEYS, packed ? w->v : v + c, packed ? width : ld, TNI_NR, o,
                     a->v_cols, 0);
    }
  }
}

/* --- one block for few rows that see all of it, with nothing added to the scores: the same sums --- */

static bool sees_all(const attention *a, const tile *t, int64_t key, int64_t n) {
  if (!few_rows(t) || a->cap > 0 || a->slopes || a->v_size % TNI_NR) return false;
  for (int64_t r = 0; r < t->rows; r++)
    if (t->lo[r] > key || t->hi[r] < key + n) return false;
  return !a->mask || nothing_masked(a, t, key, n);
}

/* What memory is asked for meanwhile: the block that follows, where there is one and it lies in one piece. */
static const char *following_rows(const attention *a, const tile *t, int64_t key, const void *rows,
                                  const void *gathered, int64_t ld, int64_t size) {
  return rows == gathered || ld != kept_pitch(a, size) || key + KEYS >= t->last
             ? NULL
             : (const char *)rows + KEYS * ld * kept_bytes(a);
}

/* false: nothing is done. */
static bool few_block(const attention *a, const tile *t, const space *w, int64_t key, int64_t n) {
  const int64_t whole = (n + TNI_NR - 1) / TNI_NR * TNI_NR, bytes = kept_bytes(a);
  float *s = by_key(w), *max = t->to.m, *sum = t->to.l, decay[FEW], step[FEW];
  int64_t ld;
  if (!sees_all(a, t, key, n)) return false;
  const char *rows = block_rows(a, &a->past_k, &a->k, t, key, n, a->size, w->rows, &ld);
  few_dots(a, t, w, rows, ld, n, following_rows(a, t, key, rows, w->rows, ld, a->size));
  for (int64_t i = n * FEW; i < whole * FEW; i++) s[i] = -INFINITY;
  if (!a->hot->softmax8(whole, s, max, sum, decay)) return false;
  rows = block_rows(a, &a->past_v, &a->v, t, key, n, a->v_size, w->rows, &ld);
  const char *next = following_rows(a, t, key, rows, w->rows, ld, a->v_size);
  if (a->kept) a->kept->probs8(s, n, rows, ld * bytes, a->v_size, step);
  if (a->b16) a->hot->words8_b16(s, n + n % 2); /* zeros after the last */
  for (int64_t c = 0; c < a->v_size; c += TNI_NR) {
    const char *then = next ? next + c * n * bytes : NULL;
    if (a->kept)
      a->kept->values8((int)t->rows, n, s, step, rows + c * bytes, ld * bytes, decay, t->to.o + c, a->v_cols, then);
    else
      (a->b16 ? a->hot->values8_b16 : a->hot->values8)((int)t->rows, n, s, rows + c * bytes, ld, decay, t->to.o + c,
                                                       a->v_cols, then);
  }
  return true;
}

void tni_attention_block(const attention *a, tile *t, const space *w, int64_t key, int64_t n) {
  if (few_block(a, t, w, key, n)) return;
  block_scores(a, t, w, key, n);
  bias_rows(a, t, w, key, n);
  advance_tile(a, t, w, n);
  add_values(a, t, w, key, n);
}

void tni_attention_limits(const attention *a, tile *t) {
  int64_t end = a->keys, offset = a->past;
  if (a->nonpad) {
    const int64_t n = tni_get_i64(a->nonpad, t->b);
    end = n < 0 ? 0 : n < end ? n : end;
    offset = end - a->length;
  }
  t->first = a->keys;
  t->last = 0;
  for (int64_t r = 0; r < t->rows; r++) {
    const int64_t at = (t->row0 + r) / a->group + offset;
    int64_t lo = 0, hi = end;
    if (a->causal && hi > at + 1) hi = at + 1;
    if (a->right >= 0 && hi - 1 - a->right > at) hi = at + a->right + 1;
    if (a->left >= 0 && at - a->left > lo) lo = at - a->left;
    t->at[r] = at;
    t->lo[r] = lo;
    t->hi[r] = hi;
    if (lo >= hi) continue;
    if (lo < t->first) t->first = lo;
    if (hi > t->last) t->last = hi;
  }
}
