/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon.FusedMatMul and tenon.Elementwise against the operators that they stand for, one by one on the same kernels:
 * f32 and f64 bit for bit, halves within one rounding per operator; and what shape rules refuse.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops_test.h"
#include "runtime/ops/arith/chain.h"
#include "runtime/shape/infer.h"

enum { MAX_IN = 16, MAX_OUT = 8 };

typedef struct bench {
  tni_arena *arena;
  tn_error err;
} bench;

static uint32_t next(uint32_t *s) { return *s = *s * 1664525u + 1013904223u; }
static uint32_t below(uint32_t *s, uint32_t n) { return (next(s) >> 8) % n; }

/* A tensor at an odd address where dtype allows unaligned data. */
static tni_tensor *tensor(bench *b, uint32_t dtype, uint32_t rank, const int64_t *dims, uint32_t seed) {
  tni_tensor *t = TNI_NEW(b->arena, tni_tensor);
  *t = (tni_tensor){.dtype = dtype, .rank = rank};
  for (uint32_t d = 0; d < rank; d++) t->dims[d] = dims[d];
  const int64_t n = tni_knumel(t);
  CU_ASSERT_EQUAL_FATAL(tni_dtype_bytes(dtype, n, &t->bytes), TN_OK);
  t->data = (char *)tni_arena_alloc(b->arena, (size_t)t->bytes + 9, 8) + 1;
  for (int64_t i = 0; i < n; i++) {
    float f;
    ht_fill(&f, 1, seed + 77u * (uint32_t)i);
    f = f * 2 + (f < 0 ? -0.25f : 0.25f); /* away from 0: it may be a divisor */
    if (dtype == TN_DT_F64) {
      const double v = (double)f * 1.000000119;
      memcpy((char *)t->data + i * 8, &v, 8);
    } else {
      tni_store_f32(dtype, t->data, i, 1, &f);
    }
  }
  return t;
}

/* A node outside of any graph's tables: what tni_ops_eval takes. */
static tni_node *node(bench *b, tni_graph *g, const char *domain, const char *type, int64_t version, uint32_t n_in,
                      uint32_t n_out, const tni_raw_attr *raw, uint32_t n_raw) {
  tn_id in[MAX_IN * 3], out[MAX_OUT], id;
  for (uint32_t i = 0; i < n_in; i++) in[i] = tni_graph_add_value(g, "", TN_VALUE_INPUT, TN_DT_F32);
  for (uint32_t i = 0; i < n_out; i++) out[i] = tni_graph_add_value(g, "", TN_VALUE_ACT, TN_DT_F32);
  tn_status st = tni_graph_add_node(g, "n", domain, type, version, in, n_in, out, n_out, raw, n_raw, &id, &b->err);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  return tni_graph_node(g, id);
}

static tni_raw_attr ints(const char *name, const int64_t *v, uint32_t n) {
  tni_raw_attr r = {.name = name, .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INTS, .n = n}};
  r.a.u.ints = v;
  return r;
}
static tni_raw_attr one_int(const char *name, int64_t v) {
  tni_raw_attr r = {.name = name, .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1}};
  r.a.u.i = v;
  return r;
}
static tni_raw_attr floats(const char *name, const float *v, uint32_t n) {
  tni_raw_attr r = {.name = name, .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_FLOATS, .n = n}};
  r.a.u.floats = v;
  return r;
}

/* Evaluates one node; *out has room for its outputs. */
static tn_status eval(bench *b, tn_run *run, const char *domain, const char *type, int64_t version,
                      const tni_tensor *const *in, uint32_t n_in, tni_tensor *out, uint32_t n_out,
                      const tni_raw_attr *raw, uint32_t n_raw) {
  tni_graph *g = NULL;
  CU_ASSERT_EQUAL_FATAL(tni_graph_create(NULL, "t", &g, &b->err), TN_OK);
  const tni_node *n = node(b, g, domain, type, version, n_in, n_out, raw, n_raw);
  tn_status st = tni_ops_eval(run, n, in, n_in, out, n_out, b->arena, &b->err);
  tni_graph_destroy(g);
  return st;
}

static const uint32_t unary_ops[] = {TN_OP_NEG, TN_OP_RELU, TN_OP_SIGMOID, TN_OP_TANH, TN_OP_GELU, TN_OP_SWISH};
static const uint32_t binary_ops[] = {TN_OP_ADD, TN_OP_SUB, TN_OP_MUL, TN_OP_DIV};

/* A random chain behind n_in registers; the first n_lead of them, and what is made of them, may stand first. */
static void random_chain(uint32_t *s, uint32_t n_in, uint32_t n_lead, uint32_t n_ops, int64_t *ops, float *values) {
  for (uint32_t i = 0; i < n_ops; i++) {
    const uint32_t lead = below(s, n_lead + i), a = lead < n_lead ? lead : n_in + (lead - n_lead);
    const bool two = below(s, 2);
    uint32_t op = (two ? binary_ops : unary_ops)[below(s, two ? 4 : 6)];
    uint32_t b = below(s, n_in + i);
    values[i] = 0;
    if (op == TN_OP_SWISH) values[i] = 1.702f;
    if (op == TN_OP_GELU) values[i] = (float)below(s, 2);
    const bool swap = two && below(s, 2);
    ops[i * 3] = op;
    ops[i * 3 + 1] = swap ? b : a;
    ops[i * 3 + 2] = !two ? -1 : (int64_t)(swap ? a : b);
  }
}

/* reg[n_in ..] of the instructions, by the operators themselves. */
static void one_by_one(bench *b, tn_run *run, uint32_t n_in, uint32_t n_ops, const int64_t *ops, const float *values,
                       const tni_tensor **reg) {
  for (uint32_t i = 0; i < n_ops; i++) {
    const tni_op *op = tni_op_by_id((uint32_t)ops[i * 3]);
    const tni_tensor *in[2] = {reg[ops[i * 3 + 1]], ops[i * 3 + 2] < 0 ? NULL : reg[ops[i * 3 + 2]]};
    tni_raw_attr raw[1] = {{.name = "alpha", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_FLOAT, .n = 1}}};
    uint32_t n_raw = 0;
    if (op->id == TN_OP_SWISH) {
      raw[0].a.u.f = (double)values[i];
      n_raw = 1;
    }
    if (op->id == TN_OP_GELU && values[i] != 0) {
      raw[0] = (tni_raw_attr){.name = "approximate", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_STRING, .n = 4}};
      raw[0].a.u.s = "tanh";
      n_raw = 1;
    }
    tni_tensor *out = TNI_NEW(b->arena, tni_tensor);
    CU_ASSERT_EQUAL_FATAL(eval(b, run, "", op->name, 24, in, in[1] ? 2 : 1, out, 1, raw, n_raw), TN_OK);
    reg[n_in + i] = out;
  }
}

static bool same_bits(const tni_tensor *a, const tni_tensor *b) {
  if (a->dtype != b->dtype || a->rank != b->rank || a->bytes != b->bytes) return false;
  for (uint32_t d = 0; d < a->rank; d++)
    if (a->dims[d] != b->dims[d]) return false;
  if (!a->bytes || memcmp(a->data, b->data, (size_t)a->bytes) == 0) return true;
  for (int64_t i = 0; i < tni_knumel(a); i++) { /* NaN is NaN */
    const double x = tni_get_f64(a, i), y = tni_get_f64(b, i);
    if (x != y && !(x != x && y != y)) return false;
  }
  return true;
}

static const uint32_t exact[] = {TN_DT_F32, TN_DT_F64};

/* --- Elementwise --- */

static void any_chain(bench *b, uint32_t seed, tn_run *run) {
  const uint32_t dtype = exact[seed % 2];
  static const int64_t full[][4] = {{2, 3, 5, 7}, {1, 4, 1, 300}, {3, 1, 1, 1}, {1, 2, 600, 1}, {2, 0, 3, 4}};
  const uint32_t most = seed % 5 ? 8 : TN_CHAIN_MAX_OPS; /* long chains have short pieces */
  uint32_t s = seed * 2654435761u + 1, n_in = 1 + below(&s, 5), n_ops = 1 + below(&s, most), n_out = 1 + below(&s, 2);
  const int64_t *dims = full[below(&s, 5)];
  int64_t ops[3 * TN_CHAIN_MAX_OPS], results[2];
  float values[TN_CHAIN_MAX_OPS];
  const tni_tensor *in[MAX_IN], *reg[MAX_IN + TN_CHAIN_MAX_OPS];
  for (uint32_t i = 0; i < n_in; i++) {
    int64_t d[4];
    const uint32_t cut = i ? below(&s, 5) : 0; /* leading dims that the input does not have */
    for (uint32_t k = 0; k < 4; k++) d[k] = i && below(&s, 3) == 0 ? 1 : dims[k];
    in[i] = tensor(b, dtype, 4 - cut, d + cut, seed + i * 1000);
    reg[i] = in[i];
  }
  random_chain(&s, n_in, n_in, n_ops, ops, values);
  /* The last result must have the whole shape: joined with input 0, which does. */
  ops[(n_ops - 1) * 3] = TN_OP_ADD;
  ops[(n_ops - 1) * 3 + 2] = 0;
  values[n_ops - 1] = 0;
  results[0] = n_in + n_ops - 1;
  results[1] = 0;
  const tni_raw_attr raw[] = {ints("ops", ops, n_ops * 3), floats("floats", values, n_ops),
                              ints("results", results, n_out)};
  tni_tensor out[2];
  one_by_one(b, NULL, n_in, n_ops, ops, values, reg);
  CU_ASSERT_EQUAL_FATAL(eval(b, run, "tenon", "Elementwise", 1, in, n_in, out, n_out, raw, 3), TN_OK);
  for (uint32_t o = 0; o < n_out; o++) {
    if (!same_bits(&out[o], reg[results[o]])) printf("\n    seed %u, output %u", seed, o);
    CU_ASSERT_TRUE(same_bits(&out[o], reg[results[o]]));
  }
}

/* --- FusedMatMul --- */

/* A random node: attributes, operands and the widths of registers (0: an operand of no width of its own). */
typedef struct product {
  int64_t ops[3 * TN_CHAIN_MAX_OPS], parts[3 * 6], results[MAX_OUT], width[TNI_CHAIN_REGS], trans;
  float values[TN_CHAIN_MAX_OPS];
  const tni_tensor *in[MAX_IN];
  uint32_t n_weights, n_parts, n_extra, n_ops, n_out, n_in;
} product;

static void random_operands(bench *b, uint32_t *s, uint32_t dtype, product *p) {
  static const int64_t leads[][3] = {{1, 1, 1}, {1, 1, 7}, {2, 3, 5}, {1, 1, 130}, {3, 1, 1}, {2, 0, 3}};
  static const int64_t ks[] = {1, 16, 33, 300}, widths[] = {1, 20, 64, 70, 300};
  const int64_t *lead = leads[below(s, 6)], K = ks[below(s, 4)];
  const uint32_t rank = 2 + below(s, 3);
  const int64_t w2[2] = {widths[below(s, 5)], widths[below(s, 5)]};
  int64_t xd[4] = {lead[0], lead[1], lead[2], K};
  if (rank == 3) xd[1] = lead[0] * lead[1];
  if (rank == 2) xd[2] = lead[0] * lead[1] * lead[2];
  p->trans = below(s, 2);
  p->n_weights = 1 + below(s, 3);
  p->in[p->n_in++] = tensor(b, dtype, rank, xd + 4 - rank, next(s));
  for (uint32_t w = 0; w < p->n_weights; w++) {
    int64_t n = 0;
    for (uint32_t k = 1 + below(s, 2); k > 0; k--) { /* one part or two of this weight, with a gap */
      const int64_t width = w2[below(s, 2)];
      p->width[p->n_parts] = width;
      p->parts[p->n_parts * 3] = w;
      p->parts[p->n_parts * 3 + 1] = n + 1;
      p->parts[p->n_parts * 3 + 2] = width;
      p->n_parts++;
      n += width + 1;
    }
    const int64_t wd[2] = {p->trans ? n : K, p->trans ? K : n};
    p->in[p->n_in++] = tensor(b, dtype, 2, wd, next(s));
  }
  p->n_extra = below(s, 5);
  for (uint32_t e = 0; e < p->n_extra; e++) {
    const uint32_t kind = below(s, 3), er = kind == 2 ? rank : kind == 1 ? 1 : below(s, rank + 1);
    const int64_t width = w2[below(s, 2)];
    int64_t d[4] = {1, 1, 1, 1};
    if (kind == 1) d[0] = width;
    if (kind == 2) memcpy(d, xd + 4 - rank, rank * sizeof *d);
    if (kind == 2) d[rank - 1] = width;
    p->width[p->n_parts + e] = kind ? width : 0;
    p->in[p->n_in++] = tensor(b, dtype, er, d, next(s));
  }
}

/* Instructions whose operands have one width, at least one of them a product or made from one. */
static void random_instructions(uint32_t *s, product *p, uint32_t most) {
  const uint32_t first = p->n_parts + p->n_extra, want = below(s, most + 1);
  while (p->n_ops < want) {
    const uint32_t lead = below(s, p->n_parts + p->n_ops), a = lead < p->n_parts ? lead : lead - p->n_parts + first;
    uint32_t b = below(s, first + p->n_ops);
    const bool two = below(s, 3) > 0 && (!p->width[b] || p->width[b] == p->width[a]);
    const uint32_t op = (two ? binary_ops : unary_ops)[below(s, two ? 4 : 6)];
    const bool swap = two && below(s, 2);
    int64_t *to = &p->ops[3 * p->n_ops];
    to[0] = op;
    to[1] = swap ? b : a;
    to[2] = !two ? -1 : (int64_t)(swap ? a : b);
    p->values[p->n_ops] = op == TN_OP_SWISH ? 1.5f : op == TN_OP_GELU ? (float)below(s, 2) : 0;
    p->width[first + p->n_ops] = p->width[a];
    p->n_ops++;
  }
  p->n_out = 1 + below(s, 3);
  for (uint32_t o = 0; o < p->n_out; o++) {
    const uint32_t lead = below(s, p->n_parts + p->n_ops);
    p->results[o] = p->n_ops && o == 0 ? first + p->n_ops - 1 : lead < p->n_parts ? lead : lead - p->n_parts + first;
  }
}

static tn_status run_product(bench *b, tn_run *run, const product *p, const tni_tensor *const *in, tni_tensor *out) {
  const tni_raw_attr raw[] = {ints("ops", p->ops, p->n_ops * 3),     floats("floats", p->values, p->n_ops),
                              ints("results", p->results, p->n_out), one_int("n_weights", p->n_weights),
                              one_int("trans_b", p->trans),          ints("parts", p->parts, p->n_parts * 3)};
  return eval(b, run, "tenon", "FusedMatMul", 1, in, p->n_in, out, p->n_out, raw, 6);
}

/* Columns [first, first + n) of x w, by MatMul of the copied columns. */
static const tni_tensor *columns(bench *b, const product *p, uint32_t part) {
  const tni_tensor *w = p->in[1 + p->parts[part * 3]];
  const int64_t first = p->parts[part * 3 + 1], n = p->parts[part * 3 + 2], K = w->dims[p->trans];
  const int64_t d[2] = {K, n};
  const uint32_t size = tni_elem_size(w->dtype);
  tni_tensor *cols = tensor(b, w->dtype, 2, d, 0), *out = TNI_NEW(b->arena, tni_tensor);
  for (int64_t k = 0; k < K; k++)
    for (int64_t c = 0; c < n; c++)
      memcpy((char *)cols->data + (k * n + c) * size,
             (char *)w->data + (p->trans ? (first + c) * K + k : k * w->dims[1] + first + c) * size, size);
  const tni_tensor *in[2] = {p->in[0], cols};
  CU_ASSERT_EQUAL_FATAL(eval(b, NULL, "", "MatMul", 13, in, 2, out, 1, NULL, 0), TN_OK);
  return out;
}

static void product_case(bench *b, uint32_t seed, tn_run *run) {
  uint32_t s = seed * 2654435761u + 7;
  product p = {.n_in = 0};
  tni_tensor out[MAX_OUT];
  const tni_tensor *reg[TNI_CHAIN_REGS];
  random_operands(b, &s, exact[seed % 2], &p);
  random_instructions(&s, &p, seed % 5 ? 7 : TN_CHAIN_MAX_OPS);
  for (uint32_t i = 0; i < p.n_parts; i++) reg[i] = columns(b, &p, i);
  for (uint32_t e = 0; e < p.n_extra; e++) reg[p.n_parts + e] = p.in[1 + p.n_weights + e];
  one_by_one(b, NULL, p.n_parts + p.n_extra, p.n_ops, p.ops, p.values, reg);
  tn_status st = run_product(b, run, &p, p.in, out);
  if (st) printf("\n    seed %u: %s", seed, b->err.message);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  for (uint32_t o = 0; o < p.n_out; o++) {
    const bool same = same_bits(&out[o], reg[p.results[o]]);
    if (!same) printf("\n    seed %u, output %u", seed, o);
    CU_ASSERT_TRUE(same);
  }
}

static void each_seed(uint32_t n, void (*fn)(bench *, uint32_t, tn_run *)) {
  tni_pool *pool = tni_pool_create(3);
  tni_pool_run run;
  bench b;
  tni_error_init(&b.err);
  tni_pool_run_init(&run, pool, NULL);
  for (uint32_t seed = 0; seed < n; seed++) {
    b.arena = tni_arena_create();
    fn(&b, seed, seed % 3 ? &run.run : NULL);
    tni_arena_destroy(b.arena);
  }
  tni_pool_destroy(pool);
}

static void test_elementwise(void) { each_seed(300, any_chain); }
static void test_products(void) { each_seed(300, product_case); }

/* Halves: the node of the widened operands, each output rounded once. */
static void half_case(bench *b, uint32_t seed, tn_run *run) {
  uint32_t s = seed * 2654435761u + 9;
  product p = {.n_in = 0};
  const uint32_t dtype = seed % 2 ? TN_DT_F16 : TN_DT_BF16;
  tni_tensor out[MAX_OUT], wide[MAX_OUT];
  const tni_tensor *in[MAX_IN];
  random_operands(b, &s, dtype, &p);
  random_instructions(&s, &p, 7);
  for (uint32_t i = 0; i < p.n_in; i++) {
    tni_tensor *t = tensor(b, TN_DT_F32, p.in[i]->rank, p.in[i]->dims, 0);
    float *aligned = (float *)tni_arena_alloc(b->arena, (size_t)t->bytes + 1, 4);
    tni_load_f32(dtype, p.in[i]->data, 0, tni_knumel(t), aligned);
    memcpy(t->data, aligned, (size_t)t->bytes);
    in[i] = t;
  }
  CU_ASSERT_EQUAL_FATAL(run_product(b, run, &p, p.in, out), TN_OK);
  CU_ASSERT_EQUAL_FATAL(run_product(b, run, &p, in, wide), TN_OK);
  for (uint32_t o = 0; o < p.n_out; o++) {
    tni_tensor *want = tensor(b, dtype, wide[o].rank, wide[o].dims, 0);
    tni_store_f32(dtype, want->data, 0, tni_knumel(want), (const float *)wide[o].data);
    CU_ASSERT_TRUE(same_bits(&out[o], want));
  }
}

static void test_halves(void) { each_seed(60, half_case); }

/* Against MatMul and Add, which round the product to the half first: at most one rounding of the product and one of
 * each result apart. */
static void test_half_bound(void) {
  static const uint32_t halves[] = {TN_DT_F16, TN_DT_BF16};
  static const double unit[] = {0x1p-11, 0x1p-8};
  bench b = {.arena = tni_arena_create()};
  tni_error_init(&b.err);
  for (uint32_t h = 0; h < 2; h++) {
    const int64_t xd[2] = {9, 65}, wd[2] = {65, 70}, bd[1] = {70};
    product p = {.ops = {TN_OP_ADD, 0, 1}, .parts = {0, 0, 70}, .results = {2}};
    p.n_weights = p.n_parts = p.n_extra = p.n_ops = p.n_out = 1;
    p.in[p.n_in++] = tensor(&b, halves[h], 2, xd, 1);
    p.in[p.n_in++] = tensor(&b, halves[h], 2, wd, 2);
    p.in[p.n_in++] = tensor(&b, halves[h], 1, bd, 3);
    const tni_tensor *reg[3] = {columns(&b, &p, 0), p.in[2]};
    tni_tensor out;
    int beyond = 0, differ = 0;
    one_by_one(&b, NULL, 2, 1, p.ops, p.values, reg);
    CU_ASSERT_EQUAL_FATAL(run_product(&b, NULL, &p, p.in, &out), TN_OK);
    for (int64_t i = 0; i < tni_knumel(&out); i++) {
      const double got = tni_get_f64(&out, i), want = tni_get_f64(reg[2], i), mid = tni_get_f64(reg[0], i);
      const double bound = unit[h] * (1 + 4 * unit[h]) * (fabs(mid) + fabs(got) + fabs(want));
      beyond += !(fabs(got - want) <= bound);
      differ += got != want;
    }
    CU_ASSERT_EQUAL(beyond, 0);
    CU_ASSERT(differ > 0); /* the wide register is wide */
  }
  tni_arena_destroy(b.arena);
}

/* --- what is refused --- */

typedef struct refusal {
  int64_t ops[6], parts[6], results[1];
  uint32_t n_ops, n_parts, n_floats;
  int64_t n_weights;
  int64_t extra[2]; /* rank 2 if [1] is not 0 */
  const char *says;
} refusal;

static void test_refusals(void) {
  static const refusal cases[] = {
      {{TN_OP_ADD, 0, 1}, {0, 0, 4}, {2}, 3, 3, 1, 1, {4}, NULL},
      {{TN_OP_ADD, 0, 1}, {0, 0, 4}, {2}, 3, 3, 0, 1, {4}, "floats"},
      {{TN_OP_ADD, 0, 1}, {0, 0, 4}, {2}, 2, 3, 1, 1, {4}, "triples"},
      {{TN_OP_POW, 0, 1}, {0, 0, 4}, {2}, 3, 3, 1, 1, {4}, "operator"},
      {{-1, 0, 1}, {0, 0, 4}, {2}, 3, 3, 1, 1, {4}, "operator"},
      {{TN_OP_ADD, 0, 2}, {0, 0, 4}, {2}, 3, 3, 1, 1, {4}, "not written yet"},
      {{TN_OP_ADD, 0, -1}, {0, 0, 4}, {2}, 3, 3, 1, 1, {4}, "not written yet"},
      {{TN_OP_TANH, 0, 0}, {0, 0, 4}, {2}, 3, 3, 1, 1, {4}, "second one"},
      {{TN_OP_TANH, 1, -1}, {0, 0, 4}, {0}, 3, 3, 1, 1, {4}, "no product"},
      {{TN_OP_ADD, 0, 1}, {0, 0, 4}, {3}, 3, 3, 1, 1, {4}, "no register"},
      {{TN_OP_ADD, 0, 1}, {0, 0, 4}, {1}, 3, 3, 1, 1, {4}, "is an input"},
      {{TN_OP_ADD, 0, 1}, {1, 0, 4}, {2}, 3, 3, 1, 1, {4}, "not there"},
      {{TN_OP_ADD, 0, 1}, {0, 0, 0}, {2}, 3, 3, 1, 1, {4}, "absurd"},
      {{TN_OP_ADD, 0, 1}, {0, INT64_MAX, 4}, {2}, 3, 3, 1, 1, {4}, "absurd"},
      {{TN_OP_ADD, 0, 1}, {0, 3, 4}, {2}, 3, 3, 1, 1, {4}, "outside the weight"},
      {{TN_OP_ADD, 0, 1}, {0, 0, 4}, {2}, 3, 0, 1, 1, {4}, "parts"},
      {{TN_OP_ADD, 0, 1}, {0, 0, 4}, {2}, 3, 3, 1, 0, {4}, "n_weights"},
      {{TN_OP_ADD, 0, 1}, {0, 0, 4}, {2}, 3, 3, 1, 3, {4}, "n_weights"},
      {{TN_OP_ADD, 0, 1}, {0, 0, 4}, {2}, 3, 3, 1, 1, {3}, "does not fit"},
      {{TN_OP_ADD, 0, 1}, {0, 0, 4}, {2}, 3, 3, 1, 1, {5, 4}, "does not fit"},
      {{TN_OP_ADD, 0, 1}, {0, 0, 4, 0, 0, 3}, {3}, 3, 6, 1, 1, {4}, "different widths"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const refusal *c = &cases[i];
    const int64_t xd[2] = {2, 3}, wd[2] = {3, 6};
    bench b = {.arena = tni_arena_create()};
    tni_error_init(&b.err);
    const tni_tensor *in[3] = {tensor(&b, TN_DT_F32, 2, xd, 1), tensor(&b, TN_DT_F32, 2, wd, 2),
                               tensor(&b, TN_DT_F32, c->extra[1] ? 2 : 1, c->extra, 3)};
    const float value[1] = {0};
    const tni_raw_attr raw[] = {ints("ops", c->ops, c->n_ops), floats("floats", value, c->n_floats),
                                ints("results", c->results, 1), one_int("n_weights", c->n_weights),
                                ints("parts", c->parts, c->n_parts)};
    tni_tensor out;
    tn_status st = eval(&b, NULL, "tenon", "FusedMatMul", 1, in, 3, &out, 1, raw, 5);
    CU_ASSERT_EQUAL(st, c->says ? TN_E_INVALID : TN_OK);
    if (c->says && !strstr(b.err.message, c->says)) {
      printf("\n    case %zu says: %s", i, b.err.message);
      CU_FAIL("the reason");
    }
    tni_arena_destroy(b.arena);
  }
}

bool ht_add_fused(void) {
  CU_pSuite s = CU_add_suite("fused operators", NULL, NULL);
  return s && CU_add_test(s, "a chain is its operators", test_elementwise) &&
         CU_add_test(s, "products and chains are their operators", test_products) &&
         CU_add_test(s, "halves stay wide", test_halves) && CU_add_test(s, "halves, bound", test_half_bound) &&
         CU_add_test(s, "refusals", test_refusals);
}
