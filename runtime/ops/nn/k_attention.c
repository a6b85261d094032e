/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention (23, 24, 25) and tenon.Attention: softmax(scale * q k^T, capped, plus slopes, plus mask) v with the softmax
 * taken along blocks of keys, so that no matrix of scores exists.
 *
 * Order (f32; halves are widened first, and int8 multiplied by its scale, those of K and V block by block, whatever Q
 * is): a score is the sum over even d of (q * scale) * k plus that over odd d, each in ascending d. Here and with the
 * values a product is added with one rounding. Keys go in blocks of KEYS from key 0 on (from the window's first block
 * where there is one): m = largest score so far, l = l * exp(m_old - m) + sum of exp(s - m) in the order of hot.h,
 * o = o * exp(m_old - m) + the block's sum in ascending key of p * v. Every PART keys that begins anew, and what the
 * parts gave is joined in ascending order in the same way: l = l * exp(m_l - m) + l' * exp(m' - m), o likewise;
 * y = o / l. Neither threads, tiles, instruction set nor the number of queries change it. Parts are computed at once by
 * several workers where there are too few tiles for all of them, as in decoding; how many at a time depends on the
 * workers alone, so that the scratch does not depend on any length.
 *
 * Where K and V are both bfloat16 they are multiplied as such: q * scale, rounded to f32, and p (not its sum) are
 * rounded to bfloat16, and the sums over d and over a block's keys take two at a time, the second before the first
 * (hot.h). A processor with an instruction for it reads half the bytes and multiplies twice as many in a cycle.
 * aarch64's rounds these sums its own way (tni_hot.odd_b16).
 *
 * Where K and V are both quantized (rows of few bits are unpacked to int8, block by block), or both float16, and the
 * processor multiplies these (kept.h: aarch64), queries and probabilities are rounded as well and the sums are
 * kept.h's. There, and by BFMMLA, the instruction set changes bits.
 *
 * A sink is what was summed up before the first part: m = sink, l = 1. A slope is added as f32(slope * f32(j - i)).
 *
 * A masked key has probability 0 whatever its score is, also where that is inf or NaN. A query without any key gives a
 * row of zeros (the standard's rule; also what a Softmax with NaN replaced by 0 gives).
 *
 * Keys are counted by position, also where the cache is a ring that holds the last of them: the bits are those of a
 * cache that holds all. The window must not reach further back than the ring holds; blocks may, rows that are outside
 * of it are masked.
 *
 * The queries of one group of heads share a tile: each row of K and V is read once per tile for all heads that use it.
 */
#include <math.h>
#include <stdio.h>

#include "runtime/ops/kernel/kernel.h"
#include "runtime/ops/nn/attention_block.h"

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

/* --- one tile --- */

static int64_t query_at(const attention *a, const operand *x, const tile *t, int64_t r) {
  const int64_t row = t->row0 + r;
  return t->b * x->batch + (t->kv * a->group + row % a->group) * x->head + row / a->group * x->row;
}

/* Eight at a time, as a->kept wants them. */
static void load_kept_queries(const attention *a, const tile *t, const space *w) {
  float *x = w->rows;
  for (int64_t r = 0; r < t->rows; r++) {
    float *at = w->q + r / FEW * FEW * a->size;
    if (r % FEW == 0) memset(at, 0, (size_t)(FEW * a->size) * sizeof *at);
    tni_load_f32(a->dtype, a->q.data, query_at(a, &a->q, t, r), a->size, x);
    for (int64_t i = 0; i < a->size; i++) x[i] = x[i] * a->scale;
    a->kept->query(at, r % FEW, x, a->size);
  }
}

/* Scaled, and as those who multiply want them: see tni_dots8_at, or even elements before odd ones. */
static void load_queries(const attention *a, const tile *t, const space *w) {
  const bool few = few_rows(t);
  const int64_t even = even_elements(a);
  float *x = w->rows;
  if (a->kept) {
    load_kept_queries(a, t, w);
    return;
  }
  if (few) memset(w->q, 0, (size_t)(2 * FEW * even) * sizeof *w->q);
  for (int64_t r = 0; r < t->rows; r++) {
    tni_load_f32(a->dtype, a->q.data, query_at(a, &a->q, t, r), a->size, x);
    if (!a->b16) {
      for (int64_t i = 0; i < a->size; i++)
        w->q[few ? tni_dots8_at(t->rows, r, i) : r * a->size + i % 2 * even + i / 2] = x[i] * a->scale;
      continue;
    }
    for (int64_t i = 0; i < a->size; i++) x[i] = x[i] * a->scale;
    if (a->size % 2) x[a->size] = 0;
    a->hot->to_b16(few ? x : w->q + r * even, x, 2 * even);
    for (int64_t i = 0; few && i < even; i++) w->q[tni_words8_at(a->hot, r, i)] = x[i];
  }
}

static void clear_sums(const attention *a, const tile *t, const sums *to) {
  const int64_t rows = few_rows(t) || a->kept ? (t->rows + FEW - 1) / FEW * FEW : t->rows;
  for (int64_t r = 0; r < rows; r++) {
    to->m[r] = -INFINITY;
    to->l[r] = 0;
  }
  memset(to->o, 0, (size_t)(rows * a->v_cols) * sizeof(float));
}

/* Nothing but the sinks, if there are any. */
static void begin_with(const attention *a, const tile *t, const sums *to) {
  clear_sums(a, t, to);
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

/* Keys of part i into `to`. */
static void one_part(const attention *a, tile *t, const space *w, int64_t i, sums to) {
  const int64_t begin = i * PART, end = t->last < begin + PART ? t->last : begin + PART;
  t->to = to;
  clear_sums(a, t, &to);
  for (int64_t key = begin > t->first / KEYS * KEYS ? begin : t->first / KEYS * KEYS; key < end; key += KEYS) {
    const int64_t n = end - key < KEYS ? end - key : KEYS;
    tni_attention_block(a, t, w, key, n);
  }
}

/* Adds what the next part gave. A row that saw nothing before, or sees nothing now, keeps its bits. */
static void join_part_sums(const attention *a, const tile *t, const sums *all, const sums *part) {
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
  tni_attention_limits(a, &t);
  return t;
}

/* Asks memory for a block that no other block asked for. Inlined by force: a function of nothing but prefetches counts
 * as one without effect. */
static inline __attribute__((always_inline)) void ask(const attention *a, const operand *now, const tile *t,
                                                      int64_t key, int64_t size) {
  const int64_t bytes = kept_bytes(a);
  if (tni_elem_size(now->dtype) != bytes || a->past_k.data || !few_rows(t) || now->row != kept_pitch(a, size) ||
      now->ring)
    return;
  const char *p = (const char *)now->data + (t->b * now->batch + t->kv * now->head + key * now->row) * bytes;
  for (int64_t i = 0; i < KEYS * now->row * bytes / 64; i++) __builtin_prefetch(p + i * 64, 0, 2);
}

/* Whole tiles, one after the other. */
static void attention_tiles(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  attention *a = arg;
  const space w = space_of(a, worker);
  for (int64_t u = begin; u < end; u++) {
    tile t = tile_of(a, u);
    ask(a, &a->k, &t, t.first / KEYS * KEYS, a->size);
    ask(a, &a->v, &t, t.first / KEYS * KEYS, a->v_size);
    load_queries(a, &t, &w);
    begin_with(a, &t, &w.total);
    for (int64_t i = t.first / PART; i * PART < t.last && !tni_run_cancelled(a->run); i++) {
      one_part(a, &t, &w, i, w.slots[0]);
      join_part_sums(a, &t, &w.total, &w.slots[0]);
    }
    if (tni_run_cancelled(a->run)) return;
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

static void wave_parts(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const wave *x = arg;
  attention *a = x->a;
  const space w = space_of(a, worker);
  tile t = {0};
  for (int64_t i = begin; i < end && !tni_run_cancelled(a->run); i++) {
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

static void split_tiles(attention *a, int64_t n_tiles, int64_t parts) {
  const int64_t all = n_tiles * parts, room = (int64_t)a->run->n_workers * SLOTS;
  const sums total = space_of(a, 0).total; /* nobody else uses it here */
  for (wave x = {a, 0, parts}; x.first < all && !tni_run_cancelled(a->run); x.first += room) {
    const int64_t n = all - x.first < room ? all - x.first : room;
    a->run->parallel_for(a->run, n, PIECE, wave_parts, &x);
    if (tni_run_cancelled(a->run)) return;
    for (int64_t i = 0; i < n; i++) {
      const tile t = tile_of(a, (x.first + i) / parts);
      const sums part = slot_of(a, i);
      if ((x.first + i) % parts == 0) begin_with(a, &t, &total);
      join_part_sums(a, &t, &total, &part);
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
  if (t->rank == 4) return (operand){t->data, st[0], st[1], st[2], t->dtype, st[TNI_ST_RING]};
  const int64_t head = st[TNI_ST_HEADS] == heads ? st[TNI_ST_HEAD] : t->dims[2] / heads;
  return (operand){t->data, st[0], head, st[1], t->dtype, st[TNI_ST_RING]};
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

static const tni_tensor *attention_input_at(const tni_kargs *k, uint32_t i) { return i < k->n_in ? k->in[i] : NULL; }
static tni_tensor *attention_output_at(const tni_kargs *k, uint32_t i) { return i < k->n_out ? k->out[i] : NULL; }

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
  const tni_tensor *pk = attention_input_at(k, 4), *pv = attention_input_at(k, 5);
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

/* Numbers of heads and head sizes; what is wrong, or NULL. K and V may have four axes where Q has three. */
static const char *read_shapes(attention *a, const tn_node *node, const tni_tensor *const *x) {
  const uint32_t rank = x[0]->rank, kv_rank = x[1]->rank;
  const bool differ = node->op == TN_OP_TENON_ATTENTION && rank == 3 && kv_rank == 4;
  if ((rank != 3 && rank != 4) || (kv_rank != rank && !differ) || x[2]->rank != kv_rank)
    return "Q, K and V need 3 or 4 dimensions";
  a->heads = rank == 4 ? x[0]->dims[1] : tni_at_i(node, TNI_A_Q_NUM_HEADS, 0);
  a->kv_heads = kv_rank == 4 ? x[1]->dims[1] : tni_at_i(node, TNI_A_KV_NUM_HEADS, 0);
  if ((rank == 3 && a->heads <= 0) || (kv_rank == 3 && a->kv_heads <= 0))
    return "3 dimensions need q_num_heads and kv_num_heads";
  if (a->kv_heads <= 0 ? a->heads != 0 : a->heads % a->kv_heads != 0) return "the heads of K do not divide those of Q";
  const int64_t h[3] = {a->heads, a->kv_heads, a->kv_heads};
  for (int i = 0; i < 3; i++)
    if (x[i]->rank == 3 && x[i]->dims[2] % h[i]) return "the last dimension is no multiple of the heads";
  if (kv_rank == 4 && x[2]->dims[1] != a->kv_heads) return "K and V differ in their heads";
  a->group = a->kv_heads ? a->heads / a->kv_heads : 0;
  a->batch = x[0]->dims[0];
  a->length = x[0]->dims[rank - 2];
  a->keys = x[1]->dims[kv_rank - 2];
  a->size = rank == 4 ? x[0]->dims[3] : x[0]->dims[2] / a->heads;
  a->v_size = kv_rank == 4 ? x[2]->dims[3] : x[2]->dims[2] / a->kv_heads;
  const int64_t k_size = kv_rank == 4 ? x[1]->dims[3] : x[1]->dims[2] / a->kv_heads;
  if (x[1]->dims[0] != a->batch || x[2]->dims[0] != a->batch) return "the batches differ";
  if (x[2]->dims[kv_rank - 2] != a->keys) return "K and V differ in length";
  return k_size == a->size ? NULL : "the head sizes of Q and K differ";
}

/* No window and one beyond every length are the same. */
static int64_t attention_window(const tn_node *node, uint32_t name) {
  const int64_t n = tni_at_i(node, name, -1);
  return n < 0 || n > INT32_MAX ? -1 : n;
}

static void read_attributes(attention *a, const tn_node *node) {
  const tn_attr *scale = tni_at(node, TNI_A_SCALE);
  a->scale = scale && scale->n ? (float)scale->u.f : 1.f / sqrtf((float)a->size);
  a->cap = (float)tni_at_f(node, TNI_A_SOFTCAP, 0);
  a->causal = tni_at_i(node, TNI_A_IS_CAUSAL, 0) != 0;
  a->left = attention_window(node, TNI_A_LEFT_WINDOW_SIZE);
  a->right = attention_window(node, TNI_A_RIGHT_WINDOW_SIZE);
}

/* A quantized row has one scale: it must be what a head reads. */
static bool rows_are_heads(const attention *a, const tni_kargs *k) {
  for (uint32_t i = 1; i < 3; i++)
    if (tni_kv_quantized(k->in[i]->dtype) && k->in[i]->rank == 3 && k->in_strides[i][TNI_ST_HEADS] != a->kv_heads)
      return false;
  return true;
}

static const tni_kept *kept_of(const attention *a, uint32_t k, uint32_t v) {
  const bool codes = tni_kv_quantized(k) && tni_kv_quantized(v);
  if (!codes && (k != TN_DT_F16 || v != TN_DT_F16)) return NULL;
  if (a->size % TNI_KEPT_UNIT || a->v_size % TNI_KEPT_UNIT) return NULL;
  if (a->size == 0 || a->size > TNI_KEPT_MOST) return NULL;
  return tni_hot_kept(codes ? TNI_KEPT_I8 : TNI_KEPT_F16);
}

static tn_status prepare_attention(attention *a, const tni_kargs *k) {
  const tni_tensor *const *x = k->in;
  a->dtype = x[0]->dtype;
  for (uint32_t i = 0; i < 3; i++) {
    const bool cached = i && k->in_strides && k->in_strides[i];
    if (x[i]->dtype != TN_DT_F32 && x[i]->dtype != TN_DT_F64 && !tni_is_half(x[i]->dtype) &&
        !(cached && tni_kv_dtype(x[i]->dtype)))
      return tni_kdtype(k, x[i]->dtype);
  }
  for (uint32_t i = 1; i < 3; i++)
    if (attention_output_at(k, i) && attention_output_at(k, i)->dtype != x[i]->dtype)
      return tni_kdtype(k, attention_output_at(k, i)->dtype);
  const char *wrong = read_shapes(a, k->node, x);
  if (!wrong && attention_input_at(k, 6) &&
      (attention_input_at(k, 6)->rank != 1 || attention_input_at(k, 6)->dims[0] != a->batch))
    wrong = "nonpad_kv_seqlen needs one element per batch";
  a->nonpad = attention_input_at(k, 6);
  if (!wrong && !read_past(a, k)) wrong = "past_key and past_value do not fit";
  if (!wrong && !read_mask(a, attention_input_at(k, 3))) wrong = "attn_mask does not broadcast";
  a->sinks = attention_input_at(k, TN_ATTENTION_SINKS);
  a->slopes = attention_input_at(k, TN_ATTENTION_SLOPES);
  if (!wrong && !read_per_head(a, a->sinks)) wrong = "sinks need one element per head";
  if (!wrong && !read_per_head(a, a->slopes)) wrong = "slopes need one element per head";
  if (!wrong && !worker_floats(a->size, a->v_size, &a->worker_floats)) wrong = "the head size is out of range";
  if (!wrong && !rows_are_heads(a, k)) wrong = "a quantized cache whose rows are not one head's";
  if (wrong) return tni_kfail(k, TN_E_INVALID, "Attention: %s", wrong);
  read_attributes(a, k->node);
  a->v_cols = round16(a->v_size);
  a->q = input_of(k, 0, a->heads);
  a->b16 = x[1]->dtype == TN_DT_BF16 && x[2]->dtype == TN_DT_BF16;
  a->kept = kept_of(a, x[1]->dtype, x[2]->dtype);
  a->k = input_of(k, 1, a->kv_heads);
  a->v = input_of(k, 2, a->kv_heads);
  a->y = output_of(k->out[0], a->heads);
  a->tiles = (a->group * a->length + ROWS - 1) / ROWS;
  return TN_OK;
}

tn_status tni_k_attention(const tni_kargs *k) {
  attention a = {.hot = tni_hot_get(), .scratch = k->scratch, .run = k->run};
  const tn_status st = prepare_attention(&a, k);
  if (st) return st;
  append_all(&a, k->run, &a.past_k, &a.k, attention_output_at(k, 1));
  append_all(&a, k->run, &a.past_v, &a.v, attention_output_at(k, 2));
  const tn_status scored = attention_output_at(k, 3) ? tni_attention_scores(k, &a, attention_output_at(k, 3)) : TN_OK;
  if (scored || !tni_knumel(k->out[0])) return scored;
  if (a.dtype == TN_DT_F64 || tni_at_i(k->node, TNI_A_SOFTMAX_PRECISION, 0) == TN_DT_F64)
    return tni_attention_double(k, &a);
  const int64_t rows = a.group * a.length < ROWS ? a.group * a.length : ROWS, n = a.batch * a.kv_heads * a.tiles;
  const int64_t parts = (a.keys + PART - 1) / PART, per_key = rows * (a.size + a.v_size + 8);
  if (parts > 1 && n < 2 * (int64_t)k->run->n_workers && k->run->n_workers > 1)
    split_tiles(&a, n, parts);
  else
    tni_kfor_polled(k->run, n, (a.keys + 1) * per_key / 16 + 1, attention_tiles, &a);
  return TN_OK;
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

bool tni_attention_accepts(const tn_value *const *in, uint32_t n_in, char *why, size_t n) {
  for (uint32_t i = 1; i < n_in && i <= TN_ATTENTION_SLOPES; i++) {
    if (!in[i] || (i == 3 && in[i]->dtype == TN_DT_BOOL) || (i == 6 && in[i]->dtype == TN_DT_I64)) continue;
    if (i != 6 && in[0] && in[i]->dtype == in[0]->dtype) continue;
    snprintf(why, n, "Attention: no host kernel for input %u of %s", i, tni_dtype_name(in[i]->dtype));
    return false;
  }
  return true;
}
