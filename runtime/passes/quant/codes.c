/* SPDX-License-Identifier: Apache-2.0
 *
 * codes:  DequantizeLinear of a constant matrix of 2, 4 or 8 bits that MatMul or Gemm reads as its second operand, or
 * Gather as its table, itself or its Transpose  ->  a constant that lies quantized (runtime/graph/quantized.h).
 *
 * One scale for all, one per row that is an output, or one per block along what is summed. Codes that stand in the
 * other order are moved into ours, as codes. It comes after `qdq`, which makes integer products where activations are
 * quantized too, and before folding makes floats of what is left.
 *
 * Keeps: every bit for scales of f32. Halves: products are not rounded to halves first.
 */
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/graph/graph.h"
#include "runtime/passes/build/build.h"
#include "runtime/passes/quant/quant.h"

enum { TILE = 64 };

/* DequantizeLinear of x [dims 0, dims 1]. */
typedef struct matrix {
  const tni_tensor *x, *scale, *zero; /* zero: NULL without */
  uint32_t bits, axis, dtype;         /* axis of scales, where there are many; dtype of the result */
  bool is_signed, many;
  int64_t block; /* 0: none */
} matrix;

static const tni_tensor *codes_constant(const tni_graph *g, tn_id v) {
  const tni_value *c = tni_match_value(g, v);
  if (!c || c->pub.kind != TN_VALUE_CONST || !c->tensor || !c->tensor->data || c->tensor->quantized) return NULL;
  return g->max_read && c->tensor->bytes > g->max_read ? NULL : c->tensor;
}

static uint32_t bits_of(uint32_t dtype, bool *is_signed) {
  *is_signed = dtype == TN_DT_I2 || dtype == TN_DT_I4 || dtype == TN_DT_I8;
  if (dtype == TN_DT_I2 || dtype == TN_DT_U2) return 2;
  if (dtype == TN_DT_I4 || dtype == TN_DT_U4) return 4;
  return dtype == TN_DT_I8 || dtype == TN_DT_U8 ? 8 : 0;
}

static bool same_dims(const tni_tensor *a, const tni_tensor *b) {
  return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

/* Scales are one, a vector along an axis, or one per block of it. */
static bool read_scales(matrix *m, int64_t axis) {
  const tni_tensor *s = m->scale;
  int64_t count;
  if (s->dtype != TN_DT_F32 && s->dtype != TN_DT_F16 && s->dtype != TN_DT_BF16) return false;
  if (tni_dims_count(s->dims, s->rank, &count) != TN_OK || axis < -2 || axis > 1 || m->block < 0) return false;
  m->axis = (uint32_t)(axis < 0 ? axis + 2 : axis);
  m->many = count != 1 || m->block;
  const int64_t n = m->x->dims[m->axis], other = m->x->dims[!m->axis];
  if (!m->many) return true;
  if (!m->block) return s->rank == 1 && count == n;
  const int64_t blocks = n / m->block + (n % m->block != 0);
  return s->rank == 2 && s->dims[m->axis] == blocks && s->dims[!m->axis] == other;
}

/* As many zeros as scales. */
static bool zeros_fit(const matrix *m) {
  int64_t count;
  if (!m->zero || m->many) return !m->zero || same_dims(m->zero, m->scale);
  return tni_dims_count(m->zero->dims, m->zero->rank, &count) == TN_OK && count == 1;
}

static bool read_matrix(const tni_graph *g, const tni_node *n, matrix *m) {
  m->x = codes_constant(g, n->pub.in[0]);
  m->scale = codes_constant(g, n->pub.in[1]);
  const tn_id zero = tni_match_in(n, 2);
  m->zero = zero == TN_NONE ? NULL : codes_constant(g, zero);
  if (!m->x || !m->scale || (zero != TN_NONE && !m->zero) || m->x->rank != 2) return false;
  m->bits = bits_of(m->x->dtype, &m->is_signed);
  m->block = tni_attr_i(&n->pub, "block_size", 0);
  m->dtype = g->values[n->pub.out[0]]->pub.dtype;
  if (!m->bits || (m->dtype != m->scale->dtype && m->dtype != TN_DT_F32)) return false;
  if (m->x->dims[0] < 1 || m->x->dims[1] < 1 || m->x->dims[0] > INT32_MAX || m->x->dims[1] > INT32_MAX) return false;
  if (m->zero && m->zero->dtype != m->x->dtype) return false;
  return read_scales(m, tni_attr_i(&n->pub, "axis", 1)) && zeros_fit(m);
}

/* [rows][bytes] of zeros on the arena; NULL without memory. */
static uint8_t *room_for_codes(tni_graph *g, int64_t rows, int64_t bytes) {
  size_t all;
  if (!tni_mul_size((size_t)rows, (size_t)bytes, &all)) return NULL;
  uint8_t *p = tni_arena_alloc(g->arena, all ? all : 1, 16);
  if (p) memset(p, 0, all);
  return p;
}

/* Codes as rows [N][row_bytes]; by_row: x is [N, K]. */
static bool take_codes(tni_graph *g, const matrix *m, bool by_row, tni_quantized *q) {
  const uint8_t *x = m->x->data;
  q->row_bytes = (q->K * q->bits + 7) / 8;
  q->codes = x;
  if (by_row && q->K * q->bits % 8 == 0) return true;
  uint8_t *to = room_for_codes(g, q->N, q->row_bytes);
  q->codes = to;
  for (int64_t n0 = 0; to && n0 < q->N; n0 += TILE)
    for (int64_t k0 = 0; k0 < q->K; k0 += TILE)
      for (int64_t n = n0; n < n0 + TILE && n < q->N; n++)
        for (int64_t k = k0; k < k0 + TILE && k < q->K; k++)
          tni_quantized_put(to + n * q->row_bytes, k, q->bits,
                            tni_quantized_code(x, by_row ? n * q->K + k : k * q->N + n, q->bits));
  return to != NULL;
}

/* Where the scale of row n and block b stands. */
static int64_t scale_at(const matrix *m, const tni_quantized *q, bool by_row, int64_t n, int64_t b) {
  if (!m->many) return 0;
  return !m->block ? n : by_row ? n * q->blocks + b : b * q->N + n;
}

static bool take_scales(tni_graph *g, const matrix *m, bool by_row, tni_quantized *q) {
  const size_t size = tni_dtype_bits(m->scale->dtype) / 8;
  q->scale_dtype = m->scale->dtype;
  q->scales = m->scale->data;
  if (m->many && (by_row || !m->block)) return true;
  uint8_t *to = room_for_codes(g, q->N, q->blocks * (int64_t)size);
  q->scales = to;
  for (int64_t n = 0; to && n < q->N; n++)
    for (int64_t b = 0; b < q->blocks; b++)
      memcpy(to + (size_t)(n * q->blocks + b) * size,
             (const uint8_t *)m->scale->data + (size_t)scale_at(m, q, by_row, n, b) * size, size);
  return to != NULL;
}

/* Zeros in the middle everywhere are none that have to be stored. */
static bool take_zeros(tni_graph *g, const matrix *m, bool by_row, tni_quantized *q) {
  const uint32_t middle = 1u << (q->bits - 1);
  bool all_middle = true;
  q->flip = m->is_signed ? (uint8_t)middle : 0;
  q->zero_kind = m->is_signed ? TNI_ZERO_MIDDLE : TNI_ZERO_NONE;
  if (!m->zero) return true;
  q->zero_row_bytes = (q->blocks * q->bits + 7) / 8;
  uint8_t *to = room_for_codes(g, q->N, q->zero_row_bytes);
  for (int64_t n = 0; to && n < q->N; n++)
    for (int64_t b = 0; b < q->blocks; b++) {
      const uint32_t z = tni_quantized_code(m->zero->data, scale_at(m, q, by_row, n, b), q->bits);
      all_middle = all_middle && (z ^ q->flip) == middle;
      tni_quantized_put(to + n * q->zero_row_bytes, b, q->bits, z);
    }
  q->zero_kind = all_middle ? TNI_ZERO_MIDDLE : TNI_ZERO_CODES;
  q->zeros = all_middle ? NULL : to;
  return to != NULL;
}

/* The scales can belong to rows [N] and blocks of K. */
static bool matrix_fits(const matrix *m, bool by_row) {
  const uint32_t rows = by_row ? 0 : 1;
  return !m->many || (m->block ? m->axis != rows : m->axis == rows);
}

/* As a constant [K, N] (kn) or [N, K]. TN_NONE: without memory. */
static tn_id quantized_weight(tni_graph *g, const matrix *m, bool by_row, bool kn) {
  tni_quantized q = {.bits = m->bits, .N = m->x->dims[!by_row], .K = m->x->dims[by_row], .transposed = kn};
  tni_tensor t = {.dtype = m->dtype, .rank = 2, .dims = {kn ? q.K : q.N, kn ? q.N : q.K}};
  int64_t count;
  q.block = m->block && m->block < q.K ? m->block : q.K;
  q.blocks = (q.K + q.block - 1) / q.block;
  if (tni_dims_count(t.dims, 2, &count) != TN_OK || tni_dtype_bytes(t.dtype, count, &t.bytes) != TN_OK ||
      !take_codes(g, m, by_row, &q) || !take_scales(g, m, by_row, &q) || !take_zeros(g, m, by_row, &q))
    return TN_NONE;
  tni_quantized_look(&q);
  t.quantized = tni_arena_memdup(g->arena, &q, sizeof q, _Alignof(tni_quantized));
  const tn_id v = t.quantized ? tni_graph_add_value(g, "", TN_VALUE_CONST, t.dtype) : TN_NONE;
  return v != TN_NONE && tni_value_set_tensor(g, v, &t, NULL) == TN_OK ? v : TN_NONE;
}

/* n reads v as a matrix that may lie quantized, its operand *i, as [K, N] or not. */
static bool reads_codes(const tni_graph *g, const tni_node *n, tn_id v, uint32_t *i, bool *kn) {
  if (n->dead || !n->op || n->n_captures) return false;
  *i = n->pub.op == TN_OP_GATHER ? 0 : 1;
  *kn = n->pub.op == TN_OP_MATMUL || (n->pub.op == TN_OP_GEMM && !tni_attr_i(&n->pub, "transB", 0));
  if (n->pub.op == TN_OP_GATHER && tni_attr_i(&n->pub, "axis", 0) != 0) return false;
  if (n->pub.op != TN_OP_GATHER && n->pub.op != TN_OP_MATMUL && n->pub.op != TN_OP_GEMM) return false;
  return tni_match_in(n, *i) == v && tni_match_in(n, !*i) != v &&
         tni_match_value(g, n->pub.in[!*i])->pub.kind != TN_VALUE_CONST;
}

typedef struct codes_site {
  tni_graph *g;
  matrix m;
  tn_id made[2][2]; /* [by_row][kn] */
  uint32_t fired;
} codes_site;

/* The readers of v, which is the matrix or (turned) its Transpose. */
static tn_status give_weight(codes_site *s, tn_id v, bool turned, tn_error *err) {
  tni_graph *g = s->g;
  const tni_value *x = g->values[v];
  for (uint32_t u = 0; u < x->pub.n_uses; u++) {
    tni_node *n = g->nodes[x->pub.uses[u]];
    int64_t perm[2];
    uint32_t i;
    bool kn;
    if (!turned && !n->dead && n->op && n->pub.op == TN_OP_TRANSPOSE && tni_match_perm(n, 2, perm) && perm[0] == 1) {
      const tn_status st = give_weight(s, n->pub.out[0], true, err);
      if (st != TN_OK) return st;
    }
    if (!reads_codes(g, n, v, &i, &kn) || !matrix_fits(&s->m, kn == turned)) continue;
    tn_id *made = &s->made[kn == turned][kn];
    if (*made == TN_NONE) *made = quantized_weight(g, &s->m, kn == turned, kn);
    if (*made == TN_NONE) return tni_fail_memory(err, n->pub.name);
    const tn_status st = tni_build_swap_input(g, n, i, *made, err);
    if (st != TN_OK) return st;
    s->fired++;
  }
  return TN_OK;
}

tn_status tni_pass_codes(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  uint32_t fired = 0;
  for (uint32_t i = 0; i < n_nodes; i++) {
    const tni_node *dq = g->nodes[i];
    codes_site s = {.g = g, .made = {{TN_NONE, TN_NONE}, {TN_NONE, TN_NONE}}};
    if (dq->dead || !dq->op || dq->pub.op != TN_OP_DEQUANTIZE_LINEAR || !read_matrix(g, dq, &s.m)) continue;
    const tn_status st = give_weight(&s, dq->pub.out[0], false, err);
    if (st != TN_OK) return st;
    fired += s.fired;
  }
  return tni_build_done(g, fired, n, err);
}
