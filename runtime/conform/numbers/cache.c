/* SPDX-License-Identifier: Apache-2.0
 *
 * KV caches: appending and attending, step by step over one memory, in every layout that the plugin accepts. After each
 * step the whole memory of a cache must be what it was with this step's rows in their places, byte for byte; attention
 * must be the host's over the rows that are valid.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/numbers/cache_bound.h"
#include "runtime/conform/numbers/op.h"
#include "runtime/ops/kernel/kernel.h"

enum {
  FIRST = 3, /* where the second sequence begins */
  BATCH = 2,
  HEADS = 2,
  QUERIES = 4,
  SIZE = 16, /* of a head, where the case names no other */
  BUCKET = 64,
  POSITIONS = 192,
  MAX_LAYOUTS = 16,
  WINDOW = 12,
  RING = 32
};
static const double SCALE = 0.11f, CAP = 2;
enum { FLAT = 1, WINDOWED = 2, APPEND_ONLY = 4, SCALED = 8, CAPPED = 16, MASKED = 32, ADDED = 64, ALL_KEYS = 128 };

typedef struct cache_job {
  const char *name;
  uint32_t flags;
  bool ring;
  uint32_t only; /* dtype of layouts; 0: floats */
  int size;      /* of a head; 0: SIZE */
} cache_job;

typedef struct cache_case {
  tni_cf *cf;
  tni_cf_host *h;
  const cache_job *j;
  bool others; /* who appends is another device: here the kit */
  tni_cn_graph b;
  tni_cf_drive d;
  tn_layout layout;
  int64_t rows; /* of the context, in the run's dims */
  tn_id q, mask, x[2], y, pos, valid, in[2], out[2], attend;
  float *shadow[2];  /* [BATCH][HEADS][POSITIONS][SIZE]: what the cache holds, as read back */
  uint8_t *bytes[2]; /* what the memory holds */
  uint64_t n_bytes;
  int64_t at[BATCH]; /* rows so far */
  int64_t runs, elements;
  double worst;
  char text[96];
} cache_case;

static int size_of(const cache_case *c) { return c->j->size ? c->j->size : SIZE; }

/* --- the graph ---------------------------------------------------------------------------------------------------- */

static tn_id shaped_value(cache_case *c, const char *name, uint32_t kind, int heads, const char *length) {
  char dims[64];
  if (c->j->flags & FLAT)
    snprintf(dims, sizeof dims, "%d,%s,%d", BATCH, length, heads * size_of(c));
  else
    snprintf(dims, sizeof dims, "%d,%d,%s,%d", BATCH, heads, length, size_of(c));
  return tni_cn_value(&c->b, name, kind, TN_DT_F32, dims);
}

static tni_raw_attr attr_num(const char *name, int64_t v) {
  return (tni_raw_attr){.name = name, .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1, .u.i = v}};
}

static tni_raw_attr attr_real(const char *name, double v) {
  return (tni_raw_attr){.name = name, .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_FLOAT, .n = 1, .u.f = v}};
}

static bool cache_appends(cache_case *c) {
  static const char *const names[2][3] = {{"k", "k in", "k out"}, {"v", "v in", "v out"}};
  const uint32_t axis = c->j->flags & FLAT ? 1 : 2;
  const tn_state state = {.h = TN_HDR(tn_state),
                          .axis = axis,
                          .flags = c->j->ring ? TN_STATE_CIRCULAR : 0,
                          .pos = c->pos,
                          .valid = c->valid,
                          .heads = c->j->flags & FLAT ? HEADS : 0};
  for (int i = 0; i < 2; i++) {
    c->x[i] = c->b.in[c->b.n_in++] = shaped_value(c, names[i][0], TN_VALUE_INPUT, HEADS, "S");
    c->in[i] = shaped_value(c, names[i][1], TN_VALUE_STATE, HEADS, "S+T");
    c->out[i] = c->others ? c->in[i] : shaped_value(c, names[i][2], TN_VALUE_STATE, HEADS, "S+T");
    if (!tni_cn_append(&c->b, &state, c->in[i], c->x[i], c->out[i])) return false;
  }
  return true;
}

static bool case_attends(cache_case *c) {
  const uint32_t flags = c->j->flags;
  const tn_id in[7] = {c->q, c->out[0], c->out[1], c->mask, TN_NONE, TN_NONE, c->valid};
  tni_raw_attr a[6] = {attr_num("is_causal", !(flags & ALL_KEYS))};
  uint32_t n = 1;
  if (flags & FLAT) a[n++] = attr_num("q_num_heads", QUERIES), a[n++] = attr_num("kv_num_heads", HEADS);
  if (flags & WINDOWED) a[n++] = attr_num("left_window_size", WINDOW);
  if (flags & SCALED) a[n++] = attr_real("scale", SCALE);
  if (flags & CAPPED) a[n++] = attr_real("softcap", CAP);
  c->y = c->b.out[c->b.n_out++] = tni_cn_value(&c->b, "y", TN_VALUE_ACT, TN_DT_UNDEFINED, "?");
  return tni_cn_node(&c->b, "", "Attention", 24, in, 7, &c->y, 1, a, n);
}

/* For each position of the context, the same for all heads and rows: what is padding in a batch, say. */
static tn_id mask_input(cache_case *c) {
  char dims[32];
  snprintf(dims, sizeof dims, "%d,1,1,S+T", BATCH);
  const uint32_t dtype = c->j->flags & ADDED ? TN_DT_F32 : TN_DT_BOOL;
  return c->b.in[c->b.n_in++] = tni_cn_value(&c->b, "mask", TN_VALUE_INPUT, dtype, dims);
}

static bool cache_build(cache_case *c) {
  char dims[16];
  snprintf(dims, sizeof dims, "%d", BATCH);
  if (!tni_cn_begin(&c->b, TN_DT_F32)) return false;
  c->pos = c->b.g->step_pos = tni_cn_value(&c->b, "pos", TN_VALUE_STEP, TN_DT_I64, dims);
  c->valid = c->b.g->step_valid = tni_cn_value(&c->b, "valid", TN_VALUE_STEP, TN_DT_I64, dims);
  const bool lone = c->j->flags & APPEND_ONLY;
  if (!lone) c->q = c->b.in[c->b.n_in++] = shaped_value(c, "q", TN_VALUE_INPUT, QUERIES, "S");
  c->mask = c->j->flags & MASKED ? mask_input(c) : TN_NONE;
  if (!cache_appends(c) || (!lone && !case_attends(c)) || !tni_cn_end(&c->b)) return false;
  c->attend = c->b.node;
  tni_cn_pad(&c->b);
  for (tn_id i = 0; i < c->b.g->n_nodes; i++)
    if (c->b.g->nodes[i]->pub.op == TN_OP_ATTENTION) c->attend = c->b.node = i;
  return true;
}

/* --- layouts -------------------------------------------------------------------------------------------------------
 */

/* What the plugin accepts for the first cache; the host's device takes any. */
static uint32_t case_layouts(cache_case *c, tn_layout *out) {
  static const uint8_t orders[][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}};
  static const uint32_t dtypes[] = {TN_DT_F32, TN_DT_F16, TN_DT_BF16, TN_DT_I8};
  const tn_value *v = &tni_graph_value(c->b.g, c->in[0])->pub;
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->d.claims.n_states; i++)
    for (uint32_t k = 0; c->d.claims.states[i].value == c->in[0] && k < c->d.claims.states[i].n && n < MAX_LAYOUTS; k++)
      out[n++] = c->d.claims.states[i].layouts[k];
  if (n) return n;
  out[n++] = tni_state_layout(v);
  for (size_t d = 0; c->d.h->dev.is_host && d < 4; d++)
    for (size_t o = 0; o < 2 && n < MAX_LAYOUTS; o++) {
      out[n] = (tn_layout){.h = TN_HDR(tn_layout),
                           .dtype = dtypes[d],
                           .rank = 4,
                           .inner_align = 1 + 7 * (d == 1),
                           .pitch_align = 1,
                           .flags = TN_LAYOUT_CIRCULAR};
      memcpy(out[n++].order, orders[o], 4);
    }
  return n;
}

static void use_layout(cache_case *c, const tn_layout *l) {
  tni_cluster *cl = &c->d.part.clusters[0];
  tn_layout *all = TNI_NEW_ARRAY(c->d.arena, tn_layout, cl->n_states + 1);
  c->layout = *l;
  if (!c->j->ring) c->layout.flags = 0;
  for (uint32_t i = 0; all && i < cl->n_states; i++) all[i] = c->layout;
  cl->layouts = all;
  tni_layout_print(&c->layout, c->text, sizeof c->text);
}

/* --- memory --------------------------------------------------------------------------------------------------------
 */

static const tn_view *view_of(const cache_case *c, const tni_cf_inst *i, int k) {
  return &i->slot[tni_cf_drive_slot(&c->d, c->in[k])].view;
}

static uint64_t view_element(const tn_view *v, uint32_t axis, int64_t b, int64_t h, int64_t p) {
  return (uint64_t)(b * v->strides[0] + p * v->strides[axis] + h * v->strides[3 - axis]) * tni_elem_size(v->dtype);
}

/* Rows [from, to) of every head into the copy of the memory and the shadow. x: [BATCH, HEADS, S, SIZE], or flat. */
static void expect_append(cache_case *c, const tn_view *v, int k, const float *x, int64_t S) {
  const bool flat = c->j->flags & FLAT;
  const uint32_t axis = flat ? 1 : 2;
  const int size = size_of(c);
  for (int64_t b = 0; b < BATCH; b++)
    for (int64_t h = 0; h < HEADS; h++)
      for (int64_t s = 0; s < S; s++) {
        const int64_t p = c->at[b] + s;
        const float *row = x + (flat ? ((b * S + s) * HEADS + h) : ((b * HEADS + h) * S + s)) * size;
        uint8_t *at = c->bytes[k] + view_element(v, axis, b, h, c->j->ring ? p % RING : p);
        tni_kv_store(v->dtype, at, TN_DT_F32, row, 1, size);
        tni_kv_load(v->dtype, at, TN_DT_F32, c->shadow[k] + ((b * HEADS + h) * POSITIONS + p) * size, 1, size);
      }
}

/* Old numbers, finite; what lies between rows and heads is NaN. */
static bool first_content(cache_case *c, const tni_cf_inst *i, tni_cf_rng *r) {
  const tn_view *v = view_of(c, i, 0);
  const uint32_t axis = c->j->flags & FLAT ? 1 : 2;
  const int size = size_of(c);
  float row[SIZE];
  c->n_bytes = v->bytes;
  for (int k = 0; k < 2; k++) {
    c->bytes[k] = malloc(v->bytes + 1);
    c->shadow[k] = calloc((size_t)BATCH * HEADS * POSITIONS * size, sizeof(float));
    if (!c->bytes[k] || !c->shadow[k]) return false;
    memset(c->bytes[k], 0xff, v->bytes);
    for (int64_t b = 0; b < BATCH; b++)
      for (int64_t h = 0; h < HEADS; h++)
        for (int64_t p = 0; p < v->dims[axis]; p++) {
          for (int e = 0; e < size; e++) row[e] = 50 + (float)tni_cf_rng_normal(r);
          uint8_t *at = c->bytes[k] + view_element(v, axis, b, h, p);
          tni_kv_store(v->dtype, at, TN_DT_F32, row, 1, size);
          if (p < c->at[b])
            tni_kv_load(v->dtype, at, TN_DT_F32, c->shadow[k] + ((b * HEADS + h) * POSITIONS + p) * size, 1, size);
        }
  }
  return true;
}

static bool put_bytes(cache_case *c, tni_cf_inst *i) {
  for (int k = 0; k < 2; k++)
    if (!tni_cf_inst_write(i, c->in[k], c->bytes[k], c->n_bytes)) return false;
  return true;
}

/* --- one step -------------------------------------------------------------------------------------------------------
 */

static bool cache_wrong(cache_case *c, int64_t S, const char *what) {
  tni_cf_fail(c->cf, "%s, %s, rows %lld to %lld and %lld to %lld: %s", c->j->name, c->text, (long long)c->at[0],
              (long long)(c->at[0] + S), (long long)c->at[1], (long long)(c->at[1] + S), what);
  return false;
}

static float *random_rows(cache_case *c, tn_id v, tni_cf_inst *i, tni_arena *a, tni_cf_rng *r, tni_tensor *t) {
  *t = tni_cn_tensor(&c->b, v, i->sym, a);
  for (int64_t k = 0; t->data && k < tni_cn_count(t); k++)
    ((float *)t->data)[k] = (float)tni_cf_rng_normal(r) * (k % 37 ? 1 : 5);
  return t->data && tni_cf_inst_write(i, v, t->data, t->bytes) ? t->data : NULL;
}

/* Two positions of three are seen, the first in any case; or each has a number of its own. */
static bool random_mask(cache_case *c, tni_cf_inst *i, tni_arena *a, tni_cf_rng *r, tni_tensor *t) {
  if (c->mask == TN_NONE) return true;
  *t = tni_cn_tensor(&c->b, c->mask, i->sym, a);
  const int64_t rows = t->dims[3];
  for (int64_t k = 0; t->data && k < tni_cn_count(t); k++) {
    const uint64_t bits = tni_cf_rng_next(r);
    if (c->j->flags & ADDED)
      ((float *)t->data)[k] = k % rows && bits % 5 == 0 ? -1e4f : 2 * (float)tni_cf_rng_normal(r);
    else
      ((uint8_t *)t->data)[k] = k % rows == 0 || bits % 3;
  }
  return t->data && tni_cf_inst_write(i, c->mask, t->data, t->bytes);
}

/* What of the mask belongs to the first T positions. */
static tni_tensor mask_cut(const tni_tensor *t, int64_t T, tni_arena *a) {
  const uint64_t size = tni_elem_size(t->dtype), row = (uint64_t)T * size;
  tni_tensor m = *t;
  m.dims[3] = T;
  m.bytes = BATCH * row;
  m.data = tni_arena_alloc(a, m.bytes + 64, 64);
  for (int b = 0; m.data && b < BATCH; b++)
    memcpy((uint8_t *)m.data + (uint64_t)b * row, (const uint8_t *)t->data + (uint64_t)b * (uint64_t)t->dims[3] * size,
           row);
  return m;
}

/* Keys and values [.., positions, ..] as the graph has them, from the shadow. */
static tni_tensor shadow_dense(const cache_case *c, int k, int64_t T, tni_arena *a) {
  const bool flat = c->j->flags & FLAT;
  const int64_t size = size_of(c);
  tni_tensor t = {.dtype = TN_DT_F32, .rank = flat ? 3 : 4, .bytes = (uint64_t)BATCH * HEADS * (uint64_t)(T * size) * 4};
  const int64_t dims[2][4] = {{BATCH, HEADS, T, size}, {BATCH, T, HEADS * size, 0}};
  memcpy(t.dims, dims[flat], sizeof dims[0]);
  float *x = t.data = tni_arena_alloc(a, t.bytes + 64, 64);
  for (int64_t b = 0; x && b < BATCH; b++)
    for (int64_t h = 0; h < HEADS; h++)
      for (int64_t p = 0; p < T; p++)
        memcpy(x + (flat ? (b * T + p) * HEADS + h : (b * HEADS + h) * T + p) * size,
               c->shadow[k] + ((b * HEADS + h) * POSITIONS + p) * size, (size_t)size * sizeof(float));
  return t;
}

/* What is added to the scores of query row s of sequence b: nobody sees what is hidden, or before the window. */
static void added_of(const cache_case *c, const tni_tensor *mask, int64_t b, int64_t s, int64_t n, double *added) {
  const int64_t at = c->at[b] + s;
  for (int64_t p = 0; p < n; p++) {
    added[p] = 0;
    if (c->j->flags & WINDOWED && p < at - WINDOW) added[p] = -INFINITY;
    if (!mask->data) continue;
    const int64_t m = b * mask->dims[3] + p;
    if (c->j->flags & ADDED)
      added[p] = (double)((const float *)mask->data)[m];
    else if (!((const uint8_t *)mask->data)[m])
      added[p] = -INFINITY;
  }
}

/* Beside rows of short elements a device may round queries and probabilities too (graph.h, tn_layout). */
static bool allow_rounding(const cache_case *c, const tni_tensor *q, const tni_tensor *mask, int64_t S, tni_arena *a,
                           float *bound) {
  const bool flat = c->j->flags & FLAT;
  const int64_t size = size_of(c);
  double *w = tni_arena_array(a, 3 * POSITIONS, sizeof *w, 64);
  tni_cn_attended t = {.dtype = c->layout.dtype,
                       .size = size,
                       .added = w + 2 * POSITIONS,
                       .scale = c->j->flags & SCALED ? SCALE : 1 / sqrt((double)size),
                       .cap = c->j->flags & CAPPED ? CAP : 0};
  for (int64_t r = 0; w && r < BATCH * QUERIES * S; r++) {
    const int64_t b = r / QUERIES / S, h = r / S % QUERIES, s = r % S,
                  kv = (b * HEADS + h / (QUERIES / HEADS)) * POSITIONS * size;
    const int64_t at = (flat ? (b * S + s) * QUERIES + h : r) * size;
    t.n = c->at[b] + (c->j->flags & ALL_KEYS ? S : s + 1);
    t.q = (const float *)q->data + at;
    t.k = c->shadow[0] + kv;
    t.v = c->shadow[1] + kv;
    added_of(c, mask, b, s, t.n, w + 2 * POSITIONS);
    tni_cn_attended_bound(&t, w, bound + at);
  }
  return w != NULL;
}

static bool check_attention(cache_case *c, tni_cf_inst *i, const tni_tensor *q, const tni_tensor *mask, int64_t S,
                            tni_arena *a) {
  static const tni_cn_row row = {.op = "Attention", .judge = TNI_CN_ATTEND, .c = 24};
  const tni_node *n = tni_graph_node(c->b.g, c->attend);
  int64_t ends[BATCH], T = 0;
  for (int b = 0; b < BATCH; b++) {
    ends[b] = c->at[b] + S;
    T = ends[b] > T ? ends[b] : T;
  }
  const tni_tensor k = shadow_dense(c, 0, T, a), v = shadow_dense(c, 1, T, a),
                   valid = {.dtype = TN_DT_I64, .rank = 1, .dims = {BATCH}, .data = ends, .bytes = sizeof ends};
  const tni_tensor *in[7] = {q, &k, &v, NULL, NULL, NULL, &valid};
  tni_tensor want[4], seen;
  if (mask->data) seen = mask_cut(mask, T, a), in[3] = &seen;
  tn_error err;
  tni_error_init(&err);
  if (tni_ops_eval(NULL, n, in, 7, want, n->pub.n_out, a, &err) != TN_OK) return cache_wrong(c, S, err.message);
  const int64_t count = tni_cn_count(&want[0]);
  float *got = tni_arena_alloc(a, want[0].bytes + 64, 64), *bound = tni_arena_array(a, (size_t)count + 1, 4, 64);
  if (!got || !bound || !tni_cf_inst_read(i, c->y, got, want[0].bytes)) return cache_wrong(c, S, i->why);
  if (!tni_cn_op_bound(&row, &c->b, in, &want[0], 0, a, bound)) return cache_wrong(c, S, "no bound");
  if (c->layout.dtype != TN_DT_F32 && !allow_rounding(c, q, mask, S, a, bound)) return cache_wrong(c, S, "no memory");
  const tni_cn_found f = tni_cn_compare(got, want[0].data, bound, count);
  c->elements += count;
  if (isfinite(f.worst) && f.worst > c->worst) c->worst = f.worst;
  if (!f.bad) return true;
  char text[200];
  snprintf(text, sizeof text, "attention is off at %lld of %lld, first [%lld]: %.9g instead of %.9g (allowed %.3g)",
           (long long)f.bad, (long long)count, (long long)f.first, f.got, f.want, f.bound);
  return cache_wrong(c, S, text);
}

static bool check_memory(cache_case *c, tni_cf_inst *i, int64_t S, tni_arena *a) {
  for (int k = 0; k < 2; k++) {
    uint8_t *got = tni_arena_alloc(a, c->n_bytes + 1, 64);
    if (!got || !tni_cf_inst_read(i, c->in[k], got, c->n_bytes)) return cache_wrong(c, S, i->why);
    if (!memcmp(got, c->bytes[k], c->n_bytes)) continue;
    uint64_t at = 0;
    char text[128];
    while (got[at] == c->bytes[k][at]) at++;
    snprintf(text, sizeof text, "the memory of the %s is not what appending makes of it, from byte %llu of %llu on",
             k ? "values" : "keys", (unsigned long long)at, (unsigned long long)c->n_bytes);
    return cache_wrong(c, S, text);
  }
  return true;
}

static bool cache_step(cache_case *c, tni_cf_inst *i, tni_cf_rng *r) {
  const int64_t S = i->sym[0];
  tni_arena *a = tni_arena_create();
  tni_tensor q = {0}, mask = {0}, x[2];
  int64_t pos[BATCH], valid[BATCH];
  for (int b = 0; b < BATCH; b++) {
    pos[b] = c->at[b];
    valid[b] = c->at[b] + S;
  }
  bool ok = a && tni_cf_inst_write(i, c->pos, pos, sizeof pos) && tni_cf_inst_write(i, c->valid, valid, sizeof valid);
  for (int k = 0; ok && k < 2; k++) {
    const float *rows = random_rows(c, c->x[k], i, a, r, &x[k]);
    ok = rows != NULL;
    if (ok) expect_append(c, view_of(c, i, k), k, rows, S);
  }
  const bool lone = c->j->flags & APPEND_ONLY;
  ok = ok && (!c->others || put_bytes(c, i)) && (lone || random_rows(c, c->q, i, a, r, &q)) && random_mask(c, i, a, r, &mask);
  if (!ok || tni_cf_inst_run(i, 0xff, (uint32_t)(c->runs % TNI_CF_SPLITS)) != TN_OK || !tni_cf_inst_guards(i)) {
    tni_arena_destroy(a);
    return cache_wrong(c, S, i->why);
  }
  c->runs++;
  ok = check_memory(c, i, S, a) && (lone || check_attention(c, i, &q, &mask, S, a));
  for (int b = 0; b < BATCH; b++) c->at[b] += S;
  tni_arena_destroy(a);
  return ok;
}

/* --- cases ----------------------------------------------------------------------------------------------------------
 */

static int64_t ctx_rows(const cache_case *c) {
  const int64_t bucket = c->d.claims.bucket > 1 ? c->d.claims.bucket : 1;
  return (BUCKET + bucket - 1) / bucket * bucket;
}

/* Of the whole context, for runs of so many positions, or (0) of few. */
static int64_t context_for(const cache_case *c, int64_t run) {
  const int64_t bucket = ctx_rows(c);
  int64_t rows = c->j->ring ? bucket * 2 : bucket;
  while (rows < 3 * run + FIRST && rows + bucket <= POSITIONS) rows += bucket;
  return rows;
}

/* NULL, or why runs of so many positions find no place. */
static const char *too_long(const cache_case *c, int64_t run) {
  const bool lone = c->j->flags & APPEND_ONLY;
  if (run + FIRST > context_for(c, run)) return "its runs are longer than the context of this case";
  if (c->j->ring && !lone && run + WINDOW > RING + 1) return "its runs are longer than the ring of this case has room for";
  return NULL;
}

/* The longest run that the claim allows and that finds a place; 0: the claim fixes none, or none finds one. */
static int64_t fixed_run(const cache_case *c) {
  int64_t run = 0;
  for (uint32_t i = 0; i < c->d.lengths.n; i++)
    if (!too_long(c, c->d.lengths.v[i])) run = c->d.lengths.v[i];
  return run;
}

/* Prompts and single positions in turn over one memory: each kind of step has one plan, bound once, whatever the
 * position. Sequences of a batch may stand at different positions. */
static void steps_choose(cache_case *c, tni_cf_rng *r) {
  static const int64_t plain[] = {5, 1, 1, 5, 1, 5, 1, 1, 1, 5}, around[] = {1, RING + 9, 1, RING + 9},
                       ring[] = {5, 1, 5, 5, 5, 1, 5, 5, 1, 5, 5, 1, 1, 5, 5};
  /* Nobody attends: a step may be longer than the ring (graph.h, tn_state). */
  const bool longer = c->j->ring && c->j->flags & APPEND_ONLY;
  const int64_t *S = longer ? around : c->j->ring ? ring : plain, many = longer ? RING + 9 : 5;
  const size_t n = longer       ? sizeof around / sizeof *around
                   : c->j->ring ? sizeof ring / sizeof *ring
                                : sizeof plain / sizeof *plain;
  const int64_t run = fixed_run(c), rows = context_for(c, run);
  const tni_cf_room room = {.rows = c->j->ring ? RING : rows + 9, .gap = 3};
  tni_cf_inst i[2];
  bool made[2] = {false}, ok = true;
  for (int k = 0; k < 2; k++) {
    const int64_t n_rows = run && !k ? run : tni_cf_drive_rows(&c->d, k ? 1 : many);
    int64_t sym[TNI_CF_MAX_SYMBOLS] = {n_rows, rows - n_rows};
    ok = ok && (made[k] = tni_cf_inst_make(&i[k], &c->d, sym, room), made[k] || cache_wrong(c, sym[0], i[k].why));
  }
  if (ok) ok = first_content(c, &i[0], r);
  for (size_t k = 0; ok && k < n; k++) {
    tni_cf_inst *at = &i[S[k] == 1];
    if (c->at[0] + at->sym[0] > rows || c->at[1] + at->sym[0] > rows) break;
    ok = (put_bytes(c, at) || cache_wrong(c, S[k], at->why)) && cache_step(c, at, r);
  }
  for (int k = 0; k < 2; k++) {
    tni_cf_inst_finish(&i[k]);
    free(c->bytes[k]);
    free(c->shadow[k]);
    c->bytes[k] = NULL;
    c->shadow[k] = NULL;
  }
}

/* A plan serves all dims that differ only in symbols which its task does not name: what measure says may not differ there. */
static void symbols_named(cache_case *c) {
  const int64_t rows = ctx_rows(c), S = tni_cf_drive_rows(&c->d, 1), v[TNI_CF_MAX_SYMBOLS] = {S, 2 * rows - S};
  char text[400];
  for (tn_id t = 0; t < c->d.info->n_tasks && c->d.view.n_symbols <= TNI_CF_MAX_SYMBOLS; t++)
    if (!tni_cf_drive_named(&c->d, t, v, 1, 4 * rows - S, text, sizeof text))
      tni_cf_fail(c->cf, "%s, %s: %s", c->j->name, c->text, text);
}

static bool layout_wanted(const cache_job *j, const tn_layout *l) {
  if (j->ring && !(l->flags & TN_LAYOUT_CIRCULAR)) return false;
  return (l->dtype == TN_DT_I8) == (j->only == TN_DT_I8);
}

/* false: refused, reason. */
static bool open_cache(cache_case *c, uint32_t phase, char *reason, size_t n) {
  c->d = (tni_cf_drive){.flip = UINT64_MAX};
  if (!tni_cf_drive_claim(&c->d, c->h, c->b.g, phase)) return cache_wrong(c, 0, c->d.why);
  const char *why = !c->d.all_taken ? c->d.refusal ? c->d.refusal->text : "claimed in parts"
                    : c->d.chunk && !fixed_run(c) ? too_long(c, c->d.lengths.v[0])
                                                  : NULL;
  if (why) snprintf(reason, n, "%s", why);
  return !why;
}

/* What a case has asked so far. */
typedef struct cache_tally {
  char reason[160];
  uint32_t asked; /* layouts */
  bool fixed;     /* of a claim that fixes the positions of a run */
  bool taken;     /* it is, with other layouts at least */
  int64_t runs, elements;
  double worst;
} cache_tally;

/* Layout number k of those that are accepted in this phase; false: there are no more. */
static bool ask_layout(tni_cf *cf, tni_cf_host *h, const cache_job *j, uint32_t phase, bool others, uint32_t k,
                       cache_tally *t) {
  tn_layout l[MAX_LAYOUTS];
  cache_case c = {.cf = cf, .h = h, .j = j, .others = others, .at = {0, FIRST}, .text = ""};
  char reason[sizeof t->reason] = "no layout of this kind is accepted";
  tni_cf_rng r = tni_cf_rng_of(cf, k + 1);
  uint32_t n = 0;
  const bool built = cache_build(&c);
  if (!built) cache_wrong(&c, 0, c.b.err.message);
  const bool opened = built && open_cache(&c, phase, reason, sizeof reason);
  if (opened || !t->taken) memcpy(t->reason, reason, sizeof reason);
  t->taken = t->taken || opened;
  if (opened) {
    n = case_layouts(&c, l);
    if (layout_wanted(j, &l[k])) {
      t->asked++;
      t->fixed = c.d.chunk != 0;
      use_layout(&c, &l[k]);
      if (tni_cf_drive_lower(&c.d)) {
        symbols_named(&c);
        steps_choose(&c, &r);
      } else {
        cache_wrong(&c, 0, c.d.why);
      }
    }
  }
  t->runs += c.runs;
  t->elements += c.elements;
  t->worst = fmax(t->worst, c.worst);
  if (c.d.h) tni_cf_drive_finish(&c.d);
  if (c.b.g) tni_cn_destroy(&c.b);
  return k + 1 < n;
}

/* In the first phase in which it is taken; of a device that fixes the length of a run, in each. */
static void ask_phases(tni_cf *cf, tni_cf_host *h, const cache_job *j, bool others, cache_tally *t) {
  static const uint32_t phases[] = {TN_PHASE_DECODE, TN_PHASE_PREFILL, TN_PHASE_ANY};
  for (size_t p = 0; p < sizeof phases / sizeof *phases && (!t->asked || t->fixed) && cf->verdict == TNI_CF_PASS; p++)
    for (uint32_t k = 0; ask_layout(cf, h, j, phases[p], others, k, t); k++) continue;
}

/* Who does not append may attend over what others append. */
static void cache_ask(tni_cf *cf, const void *arg) {
  const cache_job *j = arg;
  tni_cf_host h;
  cache_tally t = {.reason = ""};
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  ask_phases(cf, &h, j, false, &t);
  if (!t.asked && !(j->flags & APPEND_ONLY)) ask_phases(cf, &h, j, true, &t);
  tni_cf_host_close(cf, &h);
  if (!t.asked)
    tni_cf_skip(cf, "%s", t.reason);
  else
    tni_cf_note(cf, "%u layouts, %lld steps, %lld elements of attention, largest error %.3g of its bound", t.asked,
                (long long)t.runs, (long long)t.elements, t.worst);
}

/* What a decoder block needs: attention, over caches or over keys and values that are activations. */
static void attention_required(tni_cf *cf, const void *arg) {
  static const uint32_t phases[] = {TN_PHASE_DECODE, TN_PHASE_PREFILL, TN_PHASE_ANY};
  const tni_cf_listing *l = cf->listing;
  char reason[160] = "";
  tni_cf_host h;
  bool taken = false;
  for (uint32_t i = 0; i < l->n_claimed; i++)
    taken = taken || (!strcmp(l->claimed[i].graph, "attention") && l->claimed[i].verdict != TN_NO);
  if (taken || !tni_cf_host_open(cf, &h, NULL)) return;
  for (size_t p = 0; p < sizeof phases / sizeof *phases && !taken; p++) {
    cache_case c = {.cf = cf, .h = &h, .j = arg, .text = ""};
    if (!cache_build(&c))
      cache_wrong(&c, 0, c.b.err.message);
    else
      taken = open_cache(&c, phases[p], reason, sizeof reason);
    if (c.d.h) tni_cf_drive_finish(&c.d);
    if (c.b.g) tni_cn_destroy(&c.b);
  }
  tni_cf_host_close(cf, &h);
  if (!taken) tni_cf_fail(cf, "attention is refused in every phase, over caches too: %s", reason);
}

void tni_cn_cache_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  static const cache_job jobs[] = {{"append", APPEND_ONLY, false, 0, 0},
                                   {"append-flat", APPEND_ONLY | FLAT, false, 0, 0},
                                   {"attention", 0, false, 0, 0},
                                   {"attention-flat", FLAT, false, 0, 0},
                                   {"window", WINDOWED, false, 0, 0},
                                   {"ring", WINDOWED, true, 0, 0},
                                   {"append-ring", APPEND_ONLY, true, 0, 0},
                                   {"scale", SCALED, false, 0, 0},
                                   {"softcap", CAPPED, false, 0, 0},
                                   {"mask", MASKED, false, 0, 0},
                                   {"mask-added", MASKED | ADDED, false, 0, 0},
                                   {"softcap-mask", CAPPED | MASKED | ADDED, false, 0, 0},
                                   {"all-keys", ALL_KEYS, false, 0, 0},
                                   {"size", 0, false, 0, 10},
                                   {"int8", 0, false, TN_DT_I8, 0},
                                   {"int8-ring", WINDOWED, true, TN_DT_I8, 0},
                                   {"int8-flat", FLAT, false, TN_DT_I8, 0},
                                   {"int8-window", WINDOWED, false, TN_DT_I8, 0},
                                   {"int8-scale", SCALED, false, TN_DT_I8, 0},
                                   {"int8-softcap", CAPPED, false, TN_DT_I8, 0},
                                   {"int8-mask", MASKED, false, TN_DT_I8, 0},
                                   {"int8-mask-added", MASKED | ADDED, false, TN_DT_I8, 0},
                                   {"int8-softcap-mask", CAPPED | MASKED | ADDED, false, TN_DT_I8, 0},
                                   {"int8-all-keys", ALL_KEYS, false, TN_DT_I8, 0},
                                   {"int8-size", 0, false, TN_DT_I8, 10}};
  char name[64];
  (void)l;
  for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
    snprintf(name, sizeof name, "numbers/cache/%s", jobs[i].name);
    add(ctx, &(tni_cf_case){
                 .name = name, .levels = TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, .run = cache_ask, .arg = &jobs[i]});
  }
  add(ctx, &(tni_cf_case){"levels/llm/attention", TNI_CF_LEVEL_LLM, TNI_CF_REQUIRED, attention_required, &jobs[2], 0});
}
