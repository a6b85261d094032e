/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention (23, 24, 25) and tenon.Attention: softmax(scale * q k^T, capped, plus slopes, plus mask) v with the softmax
 * taken along blocks of keys, so that no matrix of scores exists.
 *
 * Order (f32; halves are widened first, those of K and V block by block, whatever Q is): a score is one sum in
 * ascending d of (q * scale) * k. Keys go in blocks of KEYS from key 0 on (from the window's first block where there is
 * one): m = largest score so far, l = l * exp(m_old - m) + sum of exp(s - m) in the order of hot.h, o = o * exp(m_old -
 * m) + the block's sum in ascending key of p * v. Every PART keys that begins anew, and what the parts gave is joined
 * in ascending order in the same way: l = l * exp(m_l
 * - m) + l' * exp(m' - m), o likewise; y = o / l. Neither threads, tiles, instruction set nor the number of queries
 * change it. Parts are computed at once by several workers where there are too few tiles for all of them, as in
 * decoding; how many at a time depends on the workers alone, so that the scratch does not depend on any length.
 *
 * A sink is what was summed up before the first part: m = sink, l = 1. A slope is added as f32(slope * f32(j - i)).
 *
 * A masked key has probability 0 whatever its score is, also where that is inf or NaN. A query without any key gives a
 * row of zeros (the standard's rule; also what a Softmax with NaN replaced by 0 gives).
 *
 * The queries of one group of heads share a tile: each row of K and V is read once per tile for all heads that use it.
 */
#include <math.h>
#include <stdio.h>

#include "runtime/host/attention.h"
#include "runtime/host/hot.h"

enum {
  ROWS = 48,  /* queries of one tile, over all heads of the group; a multiple of TNI_MR */
  FEW = 8,    /* rows that dots8 takes */
  KEYS = 64,  /* keys of one block */
  PART = 256, /* keys that are summed up apart from the others; a multiple of KEYS */
  PIECE = 4,  /* parts in a row for one worker, so that what follows a block is mostly its own next block */
  SLOTS = 8,  /* parts that each worker has memory for, besides its own */
  GEMV_ROWS = 4,
  GEMV_COLS = 512
};

/* Element strides of a 3D or 4D operand. */
typedef struct operand {
  const void *data;
  int64_t batch, head, row;
  uint32_t dtype; /* keys and values may be kept as other floats than those of Q */
} operand;

typedef struct attention {
  operand q, k, v, y, past_k, past_v;
  const tni_tensor *mask, *nonpad, *sinks, *slopes;
  int64_t mask_batch, mask_head, mask_row, mask_keys;
  int64_t batch, heads, kv_heads, group, length, keys, past, size, v_size, v_cols;
  int64_t tiles, left, right; /* windows: -1 is none */
  bool causal;
  float scale, cap;
  uint32_t dtype;
  const tni_hot *hot;
  float *scratch;
  uint64_t worker_floats;
  tn_run *run;
  int32_t stopped; /* atomic */
} attention;

/* What some of the keys gave: largest scores, sums of probabilities and of values, by row of the tile. */
typedef struct sums {
  float *m, *l, *o;
} sums;

/* One worker's memory. */
typedef struct space {
  float *q, *k, *v, *s, *rows;
  sums total, slots[SLOTS];
} space;

typedef struct tile {
  int64_t b, kv, row0, rows;                         /* rows [row0, row0 + rows) of group * length: position-major */
  int64_t at[ROWS], lo[ROWS], hi[ROWS], first, last; /* positions; keys that are seen */
  float decay[ROWS];
  sums to; /* where the blocks are added up */
} tile;

static int64_t round16(int64_t n) { return (n + TNI_NR - 1) / TNI_NR * TNI_NR; }

/* false: out of range. */
static bool worker_floats(int64_t size, int64_t v_size, uint64_t *n) {
  const int64_t limit = INT64_C(1) << 24;
  if (size < 0 || v_size < 0 || size > limit || v_size > limit) return false;
  const uint64_t d = (uint64_t)size, dv = (uint64_t)round16(v_size), wide = d > dv ? d : dv;
  const uint64_t sum = ROWS * d + KEYS * d + KEYS * dv + ROWS * KEYS + (SLOTS + 1) * ROWS * (dv + 2) + KEYS * wide;
  *n = (sum + TNI_NR - 1) / TNI_NR * TNI_NR;
  return true;
}

static space space_of(const attention *a, uint32_t worker) {
  float *p = a->scratch + a->worker_floats * worker;
  space s = {.q = p};
  s.s = s.q + ROWS * a->size;
  s.k = s.s + ROWS * KEYS;
  s.v = s.k + KEYS * a->size;
  s.rows = s.v + KEYS * a->v_cols;
  p = s.rows + KEYS * (a->size > a->v_cols ? a->size : a->v_cols);
  for (int i = 0; i <= SLOTS; i++, p += ROWS * (a->v_cols + 2))
    *(i ? &s.slots[i - 1] : &s.total) = (sums){.m = p, .l = p + ROWS, .o = p + 2 * ROWS};
  return s;
}

/* --- which keys a query sees, apart from the mask --- */

static void limits(const attention *a, tile *t) {
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

/* --- one block --- */

/* Rows [key, key + n) of K or V as f32; *ld their distance. They are gathered where they are halves or lie on both
 * sides of the past's end. */
static const f32u *block_rows(const attention *a, const operand *past, const operand *now, const tile *t, int64_t key,
                              int64_t n, int64_t size, float *rows, int64_t *ld) {
  const int64_t before = past->data ? a->past : 0;
  const int64_t at_past = t->b * past->batch + t->kv * past->head, at_now = t->b * now->batch + t->kv * now->head;
  if (now->dtype == TN_DT_F32 && key >= before) {
    *ld = now->row;
    return (const f32u *)now->data + at_now + (key - before) * now->row;
  }
  if (past->dtype == TN_DT_F32 && key + n <= before) {
    *ld = past->row;
    return (const f32u *)past->data + at_past + key * past->row;
  }
  for (int64_t i = 0; i < n; i++) {
    if (key + i < before)
      tni_load_f32(past->dtype, past->data, at_past + (key + i) * past->row, size, rows + i * size);
    else
      tni_load_f32(now->dtype, now->data, at_now + (key + i - before) * now->row, size, rows + i * size);
  }
  *ld = size;
  return rows;
}

/* Rows of one micro tile, so that none is left with few: of 8 rows 4 and 4, not 6 and 2. */
static int64_t even_step(int64_t rows) {
  const int64_t n = (rows + TNI_MR - 1) / TNI_MR;
  return (rows + n - 1) / n;
}

/* Too few to pay for packing what they meet once; a single row has ways of its own. */
static bool few_rows(const tile *t) { return t->rows > 1 && t->rows <= FEW; }

/* Scores by key, [KEYS, FEW], and as the others have them, by row. */
static float *by_key(const space *w) { return w->s + FEW * KEYS; }
static const float *transposed_queries(const attention *a, const space *w) { return w->q + FEW * a->size; }

static void few_scores(const attention *a, const tile *t, const space *w, const f32u *k, int64_t ld, int64_t n) {
  float *s = by_key(w), rows[FEW * TNI_NR];
  a->hot->dots8(n, a->size, transposed_queries(a, w), k, ld, s, NULL);
  for (int64_t p = 0; p < n; p += TNI_NR) {
    a->hot->pack_t(rows, s + p * FEW, FEW, n - p < TNI_NR ? n - p : TNI_NR, FEW);
    for (int64_t r = 0; r < t->rows; r++) memcpy(w->s + r * KEYS + p, rows + r * TNI_NR, TNI_NR * sizeof *rows);
  }
}

static void scores(const attention *a, const tile *t, const space *w, int64_t key, int64_t n) {
  const int64_t step = even_step(t->rows);
  int64_t ld;
  const f32u *k = block_rows(a, &a->past_k, &a->k, t, key, n, a->size, w->rows, &ld);
  if (few_rows(t)) {
    few_scores(a, t, w, k, ld, n);
    return;
  }
  for (int64_t p = 0; p < n; p += TNI_NR) {
    a->hot->pack_t(w->k, k + p * ld, ld, n - p < TNI_NR ? n - p : TNI_NR, a->size);
    for (int64_t r = 0; r < t->rows; r += step)
      a->hot->gemm((int)(t->rows - r < step ? t->rows - r : step), a->size, w->q + r * a->size, a->size, w->k, TNI_NR,
                   w->s + r * KEYS + p, KEYS, 1);
  }
}

static void cap_row(const attention *a, float *s, int64_t n) {
  for (int64_t i = 0; i < n; i++) s[i] = s[i] / a->cap;
  a->hot->tanh(s, s, n);
  for (int64_t i = 0; i < n; i++) s[i] = s[i] * a->cap;
}

static float of_head(const attention *a, const tni_tensor *t, int64_t h) {
  float f;
  tni_load_f32(a->dtype, t->data, h, 1, &f);
  return f;
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
static void advance(const attention *a, tile *t, const space *w, int64_t n) {
  for (int64_t r = 0; r < t->rows; r++) {
    const float top = a->hot->max(w->s + r * KEYS, n), old = t->to.m[r];
    t->to.m[r] = top > old || top != top ? top : old;
    t->decay[r] = old == t->to.m[r] ? 0 : old - t->to.m[r];
    if (isinf(t->to.m[r]) && t->to.m[r] > 0) t->decay[r] = NAN; /* inf - inf */
  }
  a->hot->exp(t->decay, t->decay, t->rows);
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

static void add_values(const attention *a, const tile *t, const space *w, int64_t key, int64_t n) {
  const int64_t step = even_step(t->rows);
  int64_t ld;
  const f32u *v = block_rows(a, &a->past_v, &a->v, t, key, n, a->v_size, w->rows, &ld);
  if (t->rows <= GEMV_ROWS) { /* nothing to reuse: V is read where it lies */
    for (int64_t r = 0; r < t->rows; r++)
      for (int64_t c = 0; c < a->v_size; c += GEMV_COLS)
        a->hot->gemv(n, w->s + r * KEYS, v + c, ld, a->v_size - c < GEMV_COLS ? a->v_size - c : GEMV_COLS,
                     t->to.o + r * a->v_cols + c, 0);
    return;
  }
  for (int64_t c = 0; c < a->v_size; c += TNI_NR) {
    const int64_t cols = a->v_size - c < TNI_NR ? a->v_size - c : TNI_NR;
    const bool packed = cols < TNI_NR || !few_rows(t);
    for (int64_t j = 0; packed && j < n; j++) {
      float *d = w->v + j * TNI_NR;
      memcpy(d, v + j * ld + c, (size_t)cols * sizeof *d);
      for (int64_t i = cols; i < TNI_NR; i++) d[i] = 0;
    }
    for (int64_t r = 0; r < t->rows; r += step)
      a->hot->gemm((int)(t->rows - r < step ? t->rows - r : step), n, w->s + r * KEYS, KEYS, packed ? w->v : v + c,
                   packed ? TNI_NR : ld, t->to.o + r * a->v_cols + c, a->v_cols, 0);
  }
}

/* --- one block for few rows that see all of it, with nothing added to the scores: the same sums --- */

static bool sees_all(const attention *a, const tile *t, int64_t key, int64_t n) {
  if (!few_rows(t) || a->cap > 0 || a->slopes || a->v_size % TNI_NR) return false;
  for (int64_t r = 0; r < t->rows; r++)
    if (t->lo[r] > key || t->hi[r] < key + n) return false;
  return !a->mask || nothing_masked(a, t, key, n);
}

/* What memory is asked for meanwhile: the block that follows, where it lies in one piece. */
static const void *following(const f32u *rows, const f32u *gathered, int64_t ld, int64_t size) {
  return rows == gathered || ld != size ? NULL : rows + KEYS * ld;
}

/* false: nothing is done. */
static bool few_block(const attention *a, const tile *t, const space *w, int64_t key, int64_t n) {
  const int64_t whole = (n + TNI_NR - 1) / TNI_NR * TNI_NR;
  float *s = by_key(w), *max = t->to.m, *sum = t->to.l, decay[FEW];
  int64_t ld;
  if (!sees_all(a, t, key, n)) return false;
  const f32u *rows = block_rows(a, &a->past_k, &a->k, t, key, n, a->size, w->rows, &ld);
  a->hot->dots8(n, a->size, transposed_queries(a, w), rows, ld, s, following(rows, w->rows, ld, a->size));
  for (int64_t i = n * FEW; i < whole * FEW; i++) s[i] = -INFINITY;
  if (!a->hot->softmax8(whole, s, max, sum, decay)) return false;
  rows = block_rows(a, &a->past_v, &a->v, t, key, n, a->v_size, w->rows, &ld);
  const char *next = following(rows, w->rows, ld, a->v_size);
  for (int64_t c = 0; c < a->v_size; c += TNI_NR)
    a->hot->values8(n, s, rows + c, ld, decay, t->to.o + c, a->v_cols,
                    next ? next + c * n * (int64_t)sizeof(float) : NULL);
  return true;
}

/* --- one tile --- */

static int64_t query_at(const attention *a, const operand *x, const tile *t, int64_t r) {
  const int64_t row = t->row0 + r;
  return t->b * x->batch + (t->kv * a->group + row % a->group) * x->head + row / a->group * x->row;
}

static void load_queries(const attention *a, const tile *t, const space *w) {
  for (int64_t r = 0; r < t->rows; r++) {
    float *q = w->q + r * a->size;
    tni_load_f32(a->dtype, a->q.data, query_at(a, &a->q, t, r), a->size, q);
    for (int64_t i = 0; i < a->size; i++) q[i] = q[i] * a->scale;
  }
  if (!few_rows(t)) return;
  float *turned = w->q + FEW * a->size;
  for (int64_t i = 0; i < a->size; i++)
    for (int64_t r = 0; r < FEW; r++) turned[i * FEW + r] = r < t->rows ? w->q[r * a->size + i] : 0;
}

static void clear(const attention *a, const tile *t, const sums *to) {
  const int64_t rows = few_rows(t) ? FEW : t->rows;
  for (int64_t r = 0; r < rows; r++) {
    to->m[r] = -INFINITY;
    to->l[r] = 0;
  }
  memset(to->o, 0, (size_t)(rows * a->v_cols) * sizeof(float));
}

/* Nothing but the sinks, if there are any. */
static void begin_with(const attention *a, const tile *t, const sums *to) {
  clear(a, t, to);
  for (int64_t r = 0; a->sinks && r < t->rows; r++) {
    to->m[r] = of_head(a, a->sinks, t->kv * a->group + (t->row0 + r) % a->group);
    to->l[r] = to->m[r] == -INFINITY ? 0.f : 1.f;
  }
}

static void store_results(const attention *a, const tile *t, const sums *all) {
  for (int64_t r = 0; r < t->rows; r++) {
    float *o = all->o + r * a->v_cols;
    const float l = all->m[r] == -INFINITY ? 1.f : all->l[r];
    for (int64_t i = 0; i < a->v_size; i++) o[i] = o[i] / l;
    tni_store_f32(a->dtype, (void *)(uintptr_t)a->y.data, query_at(a, &a->y, t, r), a->v_size, o);
  }
}

static bool stop(attention *a) {
  if (__atomic_load_n(&a->stopped, __ATOMIC_RELAXED)) return true;
  if (!a->run->cancelled || !a->run->cancelled(a->run)) return false;
  __atomic_store_n(&a->stopped, 1, __ATOMIC_RELAXED);
  return true;
}

/* Keys of part i into `to`. */
static void one_part(const attention *a, tile *t, const space *w, int64_t i, sums to) {
  const int64_t begin = i * PART, end = t->last < begin + PART ? t->last : begin + PART;
  t->to = to;
  clear(a, t, &to);
  for (int64_t key = begin > t->first / KEYS * KEYS ? begin : t->first / KEYS * KEYS; key < end; key += KEYS) {
    const int64_t n = end - key < KEYS ? end - key : KEYS;
    if (few_block(a, t, w, key, n)) continue;
    scores(a, t, w, key, n);
    bias_rows(a, t, w, key, n);
    advance(a, t, w, n);
    add_values(a, t, w, key, n);
  }
}

/* Adds what the next part gave. A row that saw nothing before, or sees nothing now, keeps its bits. */
static void join(const attention *a, const tile *t, const sums *all, const sums *part) {
  float scale[2 * ROWS], *now = scale + t->rows;
  for (int64_t r = 0; r < t->rows; r++) {
    const float old = all->m[r], new = part->m[r], m = new > old || new != new ? new : old;
    scale[r] = old - m; /* NaN where both are inf: so are the sums */
    now[r] = new - m;
  }
  a->hot->exp(scale, scale, 2 * t->rows);
  for (int64_t r = 0; r < t->rows; r++) {
    float *restrict o = all->o + r * a->v_cols;
    const float *restrict p = part->o + r * a->v_cols, old = all->m[r], new = part->m[r], s0 = scale[r], s1 = now[r];
    if (new == -INFINITY) continue;
    all->m[r] = new > old || new != new ? new : old;
    if (old == -INFINITY) {
      all->l[r] = part->l[r];
      memcpy(o, p, (size_t)a->v_cols * sizeof *o);
      continue;
    }
    all->l[r] = all->l[r] * s0 + part->l[r] * s1;
    for (int64_t i = 0; i < a->v_cols; i++) o[i] = o[i] * s0 + p[i] * s1;
  }
}

static tile tile_of(const attention *a, int64_t u) {
  tile t = {.b = u / a->tiles / a->kv_heads, .kv = u / a->tiles % a->kv_heads, .row0 = u % a->tiles * ROWS};
  const int64_t all = a->group * a->length;
  t.rows = all - t.row0 < ROWS ? all - t.row0 : ROWS;
  limits(a, &t);
  return t;
}

/* Whole tiles, one after the other. */
static void tiles(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  attention *a = arg;
  const space w = space_of(a, worker);
  for (int64_t u = begin; u < end; u++) {
    tile t = tile_of(a, u);
    load_queries(a, &t, &w);
    begin_with(a, &t, &w.total);
    for (int64_t i = t.first / PART; i * PART < t.last && !stop(a); i++) {
      one_part(a, &t, &w, i, w.slots[0]);
      join(a, &t, &w.total, &w.slots[0]);
    }
    if (stop(a)) return;
    store_results(a, &t, &w.total);
  }
}

/* --- parts at once --- */

/* Parts [first, + n) of all tiles' parts, tile by tile; part i of a wave goes to the i-th slot of all workers'. */
typedef struct wave {
  attention *a;
  int64_t first, parts;
} wave;

static sums slot_of(const attention *a, int64_t i) { return space_of(a, (uint32_t)(i / SLOTS)).slots[i % SLOTS]; }

/* Asks memory for a block that no other block asked for. Inlined by force: a function of nothing but prefetches counts
 * as one without effect. */
static inline __attribute__((always_inline)) void ask(const attention *a, const operand *now, const tile *t,
                                                      int64_t key, int64_t size) {
  if (now->dtype != TN_DT_F32 || a->past_k.data || !few_rows(t) || now->row != size) return;
  const char *p = (const char *)now->data + (t->b * now->batch + t->kv * now->head + key * size) * 4;
  for (int64_t i = 0; i < KEYS * size / 16; i++) __builtin_prefetch(p + i * 64, 0, 2);
}

static void wave_parts(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const wave *x = arg;
  attention *a = x->a;
  const space w = space_of(a, worker);
  tile t = {0};
  for (int64_t i = begin; i < end && !stop(a); i++) {
    const int64_t part = (x->first + i) % x->parts;
    if (i == begin || part == 0) {
      t = tile_of(a, (x->first + i) / x->parts);
      ask(a, &a->k, &t, part * PART, a->size);
      ask(a, &a->v, &t, part * PART, a->v_size);
      load_queries(a, &t, &w);
    }
    one_part(a, &t, &w, part, slot_of(a, i));
  }
}

static void split(attention *a, int64_t n_tiles, int64_t parts) {
  const int64_t all = n_tiles * parts, room = (int64_t)a->run->n_workers * SLOTS;
  const sums total = space_of(a, 0).total; /* nobody else uses it here */
  for (wave x = {a, 0, parts}; x.first < all && !stop(a); x.first += room) {
    const int64_t n = all - x.first < room ? all - x.first : room;
    a->run->parallel_for(a->run, n, PIECE, wave_parts, &x);
    if (stop(a)) return;
    for (int64_t i = 0; i < n; i++) {
      const tile t = tile_of(a, (x.first + i) / parts);
      const sums part = slot_of(a, i);
      if ((x.first + i) % parts == 0) begin_with(a, &t, &total);
      join(a, &t, &total, &part);
      if ((x.first + i) % parts == parts - 1) store_results(a, &t, &total);
    }
  }
}

/* --- present = past, then new --- */

typedef struct append {
  const operand *past, *now;
  tni_tensor *out; /* [batch, kv_heads, keys, size] */
  int64_t before;
  uint32_t bytes;
} append;

static void append_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const append *p = arg;
  const int64_t *d = p->out->dims;
  (void)worker;
  for (int64_t u = begin; u < end; u++) {
    const int64_t key = u % d[2], h = u / d[2] % d[1], b = u / d[2] / d[1];
    const operand *from = key < p->before ? p->past : p->now;
    const int64_t at = b * from->batch + h * from->head + (key < p->before ? key : key - p->before) * from->row;
    memcpy((char *)p->out->data + u * d[3] * p->bytes, (const char *)from->data + at * p->bytes,
           (size_t)(d[3] * p->bytes));
  }
}

static void append_all(const attention *a, tn_run *run, const operand *past, const operand *now, tni_tensor *out) {
  append p = {past, now, out, a->past, tni_elem_size(now->dtype)};
  if (out && tni_knumel(out)) tni_kfor(run, out->dims[0] * out->dims[1] * out->dims[2], out->dims[3], append_rows, &p);
}

/* --- operands --- */

/* st: element strides. */
static operand operand_of(const tni_tensor *t, const int64_t *st, int64_t heads) {
  if (t->rank == 4) return (operand){t->data, st[0], st[1], st[2], t->dtype};
  return (operand){t->data, st[0], st[TNI_ST_HEADS] == heads ? st[TNI_ST_HEAD] : t->dims[2] / heads, st[1], t->dtype};
}

static operand input_of(const tni_kargs *k, uint32_t i, int64_t heads) {
  int64_t st[TN_MAX_RANK];
  tni_kin_strides(k, i, st);
  return operand_of(k->in[i], st, heads);
}

static operand output_of(const tni_tensor *t, int64_t heads) {
  int64_t st[TN_MAX_RANK] = {0};
  tni_kstrides(t, st);
  return operand_of(t, st, heads);
}

static const tni_tensor *input(const tni_kargs *k, uint32_t i) { return i < k->n_in ? k->in[i] : NULL; }
static tni_tensor *output(const tni_kargs *k, uint32_t i) { return i < k->n_out ? k->out[i] : NULL; }

/* The mask against [batch, heads, length, keys], ranks aligned at their ends; its last axis may be shorter. */
static bool read_mask(attention *a, const tni_tensor *m) {
  const int64_t want[3] = {a->batch, a->heads, a->length};
  int64_t *const strides[3] = {&a->mask_batch, &a->mask_head, &a->mask_row};
  if (!m) return true;
  if (m->rank < 1 || m->rank > 4 || m->dims[m->rank - 1] > a->keys) return false;
  int64_t stride = a->mask_keys = m->dims[m->rank - 1];
  for (uint32_t i = 1; i < m->rank; i++) {
    const int64_t n = m->dims[m->rank - 1 - i];
    if (n != 1 && n != want[3 - i]) return false;
    *strides[3 - i] = n == 1 ? 0 : stride;
    stride *= n;
  }
  a->mask = m;
  return true;
}

/* One element per head, or none. */
static bool read_per_head(const attention *a, const tni_tensor *x) {
  return !x || (x->rank == 1 && x->dims[0] == a->heads && x->dtype == a->dtype);
}

static bool read_past(attention *a, const tni_kargs *k) {
  const tni_tensor *pk = input(k, 4), *pv = input(k, 5);
  if (!pk && !pv) return true;
  if (!pk || !pv || a->nonpad || pk->rank != 4 || pv->rank != 4) return false;
  for (int d = 0; d < 3; d++)
    if (pk->dims[d] != pv->dims[d]) return false;
  if (pk->dtype != k->in[1]->dtype || pv->dtype != k->in[2]->dtype) return false;
  if (pk->dims[0] != a->batch || pk->dims[1] != a->kv_heads || pk->dims[3] != a->size || pv->dims[3] != a->v_size)
    return false;
  a->past = pk->dims[2];
  a->keys += a->past;
  a->past_k = input_of(k, 4, 1);
  a->past_v = input_of(k, 5, 1);
  return true;
}

/* Numbers of heads and head sizes; what is wrong, or NULL. */
static const char *read_shapes(attention *a, const tn_node *node, const tni_tensor *const *x) {
  const uint32_t rank = x[0]->rank;
  if ((rank != 3 && rank != 4) || x[1]->rank != rank || x[2]->rank != rank) return "Q, K and V need 3 or 4 dimensions";
  a->heads = rank == 4 ? x[0]->dims[1] : tni_attr_i(node, "q_num_heads", 0);
  a->kv_heads = rank == 4 ? x[1]->dims[1] : tni_attr_i(node, "kv_num_heads", 0);
  if (rank == 3 && (a->heads <= 0 || a->kv_heads <= 0)) return "3 dimensions need q_num_heads and kv_num_heads";
  if (a->kv_heads <= 0 ? a->heads != 0 : a->heads % a->kv_heads != 0) return "the heads of K do not divide those of Q";
  const int64_t h[3] = {a->heads, a->kv_heads, a->kv_heads};
  for (int i = 0; i < 3; i++)
    if (rank == 3 && x[i]->dims[2] % h[i]) return "the last dimension is no multiple of the heads";
  if (rank == 4 && x[2]->dims[1] != a->kv_heads) return "K and V differ in their heads";
  a->group = a->kv_heads ? a->heads / a->kv_heads : 0;
  a->batch = x[0]->dims[0];
  a->length = x[0]->dims[rank - 2];
  a->keys = x[1]->dims[rank - 2];
  a->size = rank == 4 ? x[0]->dims[3] : x[0]->dims[2] / a->heads;
  a->v_size = rank == 4 ? x[2]->dims[3] : x[2]->dims[2] / a->kv_heads;
  const int64_t k_size = rank == 4 ? x[1]->dims[3] : x[1]->dims[2] / a->kv_heads;
  if (x[1]->dims[0] != a->batch || x[2]->dims[0] != a->batch) return "the batches differ";
  if (x[2]->dims[rank - 2] != a->keys) return "K and V differ in length";
  return k_size == a->size ? NULL : "the head sizes of Q and K differ";
}

/* No window and one beyond every length are the same. */
static int64_t window(const tn_node *node, const char *name) {
  const int64_t n = tni_attr_i(node, name, -1);
  return n < 0 || n > INT32_MAX ? -1 : n;
}

static void read_attributes(attention *a, const tn_node *node) {
  const tn_attr *scale = tni_attr(node, "scale");
  a->scale = scale && scale->n ? (float)scale->u.f : 1.f / sqrtf((float)a->size);
  a->cap = (float)tni_attr_f(node, "softcap", 0);
  a->causal = tni_attr_i(node, "is_causal", 0) != 0;
  a->left = window(node, "left_window_size");
  a->right = window(node, "right_window_size");
}

static tn_status prepare(attention *a, const tni_kargs *k) {
  const tni_tensor *const *x = k->in;
  a->dtype = x[0]->dtype;
  for (int i = 0; i < 3; i++)
    if (x[i]->dtype != TN_DT_F32 && !tni_is_half(x[i]->dtype)) return tni_kdtype(k, x[i]->dtype);
  for (uint32_t i = 1; i < 3; i++)
    if (output(k, i) && output(k, i)->dtype != x[i]->dtype) return tni_kdtype(k, output(k, i)->dtype);
  if (output(k, 3)) return tni_kfail(k, TN_E_UNSUPPORTED, "Attention: the matrix of scores is never made");
  const char *wrong = read_shapes(a, k->node, x);
  if (!wrong && input(k, 6) && (input(k, 6)->rank != 1 || input(k, 6)->dims[0] != a->batch))
    wrong = "nonpad_kv_seqlen needs one element per batch";
  a->nonpad = input(k, 6);
  if (!wrong && !read_past(a, k)) wrong = "past_key and past_value do not fit";
  if (!wrong && !read_mask(a, input(k, 3))) wrong = "attn_mask does not broadcast";
  a->sinks = input(k, TN_ATTENTION_SINKS);
  a->slopes = input(k, TN_ATTENTION_SLOPES);
  if (!wrong && !read_per_head(a, a->sinks)) wrong = "sinks need one element per head";
  if (!wrong && !read_per_head(a, a->slopes)) wrong = "slopes need one element per head";
  if (!wrong && !worker_floats(a->size, a->v_size, &a->worker_floats)) wrong = "the head size is out of range";
  if (wrong) return tni_kfail(k, TN_E_INVALID, "Attention: %s", wrong);
  read_attributes(a, k->node);
  a->v_cols = round16(a->v_size);
  a->q = input_of(k, 0, a->heads);
  a->k = input_of(k, 1, a->kv_heads);
  a->v = input_of(k, 2, a->kv_heads);
  a->y = output_of(k->out[0], a->heads);
  a->tiles = (a->group * a->length + ROWS - 1) / ROWS;
  return TN_OK;
}

tn_status tni_k_attention(const tni_kargs *k) {
  attention a = {.hot = tni_hot_get(), .scratch = k->scratch, .run = k->run};
  const tn_status st = prepare(&a, k);
  if (st) return st;
  append_all(&a, k->run, &a.past_k, &a.k, output(k, 1));
  append_all(&a, k->run, &a.past_v, &a.v, output(k, 2));
  if (!tni_knumel(k->out[0])) return TN_OK;
  const int64_t rows = a.group * a.length < ROWS ? a.group * a.length : ROWS, n = a.batch * a.kv_heads * a.tiles;
  const int64_t parts = (a.keys + PART - 1) / PART, per_key = rows * (a.size + a.v_size + 8);
  if (parts > 1 && n < 2 * (int64_t)k->run->n_workers && k->run->n_workers > 1)
    split(&a, n, parts);
  else
    tni_kfor(k->run, n, (a.keys + 1) * per_key / 16 + 1, tiles, &a);
  return a.stopped ? tni_kfail(k, TN_E_CANCELLED, "stopped") : TN_OK;
}

uint64_t tni_attention_scratch(const tn_node *node, const tni_tensor *const *in, uint32_t n_in, uint32_t n_workers) {
  attention a = {0};
  uint64_t n, bytes;
  if (n_in < 3 || !in[1] || !in[2]) return UINT64_MAX;
  if (read_shapes(&a, node, in)) return 0; /* the kernel says why */
  if (!worker_floats(a.size, a.v_size, &n)) return UINT64_MAX;
  if (__builtin_mul_overflow(n * sizeof(float), (uint64_t)(n_workers ? n_workers : 1), &bytes)) return UINT64_MAX;
  return bytes;
}

bool tni_attention_accepts(const tn_node *node, const tn_value *const *in, uint32_t n_in, char *why, size_t n) {
  const int64_t precision =
      node->n_attr > TN_ATTENTION_SOFTMAX_PRECISION ? node->attr[TN_ATTENTION_SOFTMAX_PRECISION]->u.i : 0;
  for (uint32_t i = 1; i < n_in && i <= TN_ATTENTION_SLOPES; i++) {
    if (!in[i] || (i == 3 && in[i]->dtype == TN_DT_BOOL) || (i == 6 && in[i]->dtype == TN_DT_I64)) continue;
    if (i != 6 && in[0] && in[i]->dtype == in[0]->dtype) continue;
    snprintf(why, n, "Attention: no host kernel for input %u of %s", i, tni_dtype_name(in[i]->dtype));
    return false;
  }
  if (node->n_out > 3 && node->out[3] != TN_NONE) {
    snprintf(why, n, "Attention: qk_matmul_output is never made (no matrix of scores)");
    return false;
  }
  if (precision == TN_DT_F64) snprintf(why, n, "Attention: softmax_precision float64");
  return precision != TN_DT_F64;
}
