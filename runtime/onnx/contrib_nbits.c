/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of 2 to 8 bits in blocks: MatMulNBits and MatMulLevels of ai.tenon become MatMul, GatherBlockQuantized
 * Gather, of a constant that lies quantized (runtime/graph/quantized.h). accuracy_level is advice to kernels that
 * quantize activations; here each plugin's format says what it does.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/onnx/contrib.h"

enum { MAX_DIM = INT32_MAX };

static bool is_scale(uint32_t dtype) { return dtype == TN_DT_F32 || dtype == TN_DT_F16 || dtype == TN_DT_BF16; }

/* v as a constant of n elements (-1: of any number) whose dtype is `dtype` (0: a scale's), or NULL. */
static const tni_tensor *stored_tensor(tni_emit *e, tn_id v, const char *what, uint32_t dtype, int64_t n) {
  const tni_tensor *t = tni_em_const(e, v);
  int64_t count;
  if (!t || !t->data) {
    tni_em_fail(e, TN_E_UNSUPPORTED, "%s is no constant", what);
  } else if (dtype ? t->dtype != dtype : !is_scale(t->dtype)) {
    tni_em_fail(e, TN_E_INVALID, "%s is %s", what, tni_dtype_name(t->dtype));
  } else if (tni_dims_count(t->dims, t->rank, &count) != TN_OK || (n >= 0 && count != n)) {
    tni_em_fail(e, TN_E_INVALID, "%s has not the %" PRId64 " elements that it needs", what, n);
  } else {
    return t;
  }
  return NULL;
}

/* Where v's bytes lie, as a piece of q. */
static void set_from(const tni_emit *e, tni_quantized *q, int piece, tn_id v) {
  q->from[piece] = tni_graph_value(e->g, v)->origin;
}

/* bits, N, K and block are in q: the rest of its geometry. */
static bool set_geometry(tni_emit *e, tni_quantized *q) {
  if (q->bits < 2 || q->bits > 8 || q->N < 1 || q->K < 1 || q->block < 1 || q->N > MAX_DIM || q->K > MAX_DIM ||
      q->block > MAX_DIM || q->block * q->bits % 8) {
    tni_em_fail(e, TN_E_INVALID, "[%" PRId64 ", %" PRId64 "] of %u bits in blocks of %" PRId64, q->N, q->K, q->bits,
                q->block);
    return false;
  }
  q->blocks = (q->K + q->block - 1) / q->block;
  q->row_bytes = q->blocks * (q->block * q->bits / 8);
  q->zero_row_bytes = (q->blocks * q->bits + 7) / 8;
  return true;
}

static void take_scales(tni_emit *e, tn_id v, tni_quantized *q) {
  const tni_tensor *t = stored_tensor(e, v, "scales", 0, q->N * q->blocks);
  if (!t) return;
  q->scales = t->data;
  q->scale_dtype = t->dtype;
  set_from(e, q, TNI_QUANTIZED_SCALES, v);
}

/* Zeros are codes where they are stored as `codes`, else values like the scales. */
static void take_zeros(tni_emit *e, tn_id v, uint32_t codes, int64_t count, tni_quantized *q) {
  if (v == TN_NONE || e->st) return;
  const bool values = tni_em_dtype(e, v) == q->scale_dtype;
  const tni_tensor *t = values ? stored_tensor(e, v, "zero_points", q->scale_dtype, q->N * q->blocks)
                               : stored_tensor(e, v, "zero_points", codes, count);
  if (!t) return;
  q->zero_kind = values ? TNI_ZERO_VALUES : TNI_ZERO_CODES;
  q->zeros = t->data;
  set_from(e, q, TNI_QUANTIZED_ZEROS, v);
}

static bool take_nbits(tni_emit *e, tni_quantized *q, tn_id codes, tn_id scales, tn_id zeros) {
  if (e->st || !set_geometry(e, q)) return false;
  const tni_tensor *t = stored_tensor(e, codes, "weights", TN_DT_U8, q->N * q->row_bytes);
  if (t) q->codes = t->data;
  if (t) set_from(e, q, TNI_QUANTIZED_CODES, codes);
  take_scales(e, scales, q);
  take_zeros(e, zeros, TN_DT_U8, q->N * q->zero_row_bytes, q);
  return e->st == TN_OK;
}

tn_id tni_contrib_quantized(tni_emit *e, tni_quantized *q, tn_id codes, tn_id scales, tn_id zeros) {
  return take_nbits(e, q, codes, scales, zeros) ? tni_em_quantized(e, q, q->scale_dtype) : TN_NONE;
}

/* --- MatMulNBits --- */

/* Position i of the new order holds element order[i]: those of block 0, of block 1, ... Fails where a block of the new
 * order would hold elements of two groups. */
static bool order_of_groups(tni_emit *e, const tni_tensor *groups, const tni_quantized *q, int64_t *order) {
  int64_t n = 0;
  int32_t *of = TNI_NEW_ARRAY(e->c->scratch, int32_t, (size_t)q->K);
  int64_t *at = TNI_NEW_ARRAY(e->c->scratch, int64_t, (size_t)q->blocks + 1);
  if (!of || !at) {
    e->st = tni_fail_memory(e->c->err, e->c->file);
    return false;
  }
  memcpy(of, groups->data, (size_t)q->K * sizeof *of);
  for (int64_t k = 0; k < q->K; k++) {
    if (of[k] < 0 || of[k] >= q->blocks) {
      tni_em_fail(e, TN_E_INVALID, "g_idx names group %d of %" PRId64, of[k], q->blocks);
      return false;
    }
    at[of[k] + 1]++;
  }
  for (int64_t b = 0; b < q->blocks; b++) {
    const int64_t full = b + 1 < q->blocks ? q->block : q->K - b * q->block;
    if (at[b + 1] != full) {
      tni_em_fail(e, TN_E_UNSUPPORTED, "g_idx gives group %" PRId64 " %" PRId64 " elements instead of %" PRId64, b,
                  at[b + 1], full);
      return false;
    }
    at[b + 1] += at[b];
  }
  for (int64_t k = 0; k < q->K; k++) order[at[of[k]]++] = k;
  for (int64_t k = 0; k < q->K; k++) n += order[k] != k;
  return n > 0;
}

/* Codes in the order that makes groups of neighbours; the operand is reordered alike. */
static tn_id regroup_rows(tni_emit *e, tn_id x, tni_quantized *q) {
  const tni_tensor *groups = stored_tensor(e, tni_em_in(e, 4), "g_idx", TN_DT_I32, q->K);
  int64_t *order = groups ? TNI_NEW_ARRAY(e->c->scratch, int64_t, (size_t)q->K) : NULL;
  size_t bytes;
  if (!order || !order_of_groups(e, groups, q, order)) return x;
  uint8_t *codes = NULL;
  if (tni_mul_size((size_t)q->N, (size_t)q->row_bytes, &bytes)) codes = TNI_NEW_ARRAY(e->g->arena, uint8_t, bytes);
  if (!codes) {
    e->st = tni_fail_memory(e->c->err, e->c->file);
    return x;
  }
  for (int64_t n = 0; n < q->N; n++)
    for (int64_t k = 0; k < q->K; k++) {
      const uint32_t code = tni_quantized_code(q->codes + n * q->row_bytes, order[k], q->bits);
      tni_quantized_put(codes + n * q->row_bytes, k, q->bits, code);
    }
  q->codes = codes;
  q->from[TNI_QUANTIZED_CODES] = (tni_origin){0};
  tni_em_node gather = {.type = "Gather", .n_in = 2, .in = {x, tni_em_vector(e, order, (size_t)q->K)}, .n_attr = 1};
  gather.attr[0] = tni_raw_int("axis", -1);
  return tni_em_node_add(e, &gather);
}

/* operands: A [.., K], B [N, blocks, block * bits / 8], scales, zero_points, g_idx, bias. */
void tni_contrib_matmul_nbits(tni_emit *e) {
  static const char *const names[] = {"K", "N", "bits", "block_size", "accuracy_level", "weight_prepacked", NULL};
  if (!tni_em_knows(e, 6, 1, names)) return;
  const int64_t bits = tni_em_int(e, "bits", 4);
  tni_quantized q = {.bits = bits > 0 && bits <= 8 ? (uint32_t)bits : 0, .transposed = true};
  q.N = tni_em_int(e, "N", 0);
  q.K = tni_em_int(e, "K", 0);
  q.block = tni_em_int(e, "block_size", 0);
  if (tni_em_int(e, "weight_prepacked", 0)) tni_em_fail(e, TN_E_UNSUPPORTED, "weights in the order of one device");
  if (e->st || !take_nbits(e, &q, tni_em_in(e, 1), tni_em_in(e, 2), tni_em_in(e, 3))) return;
  const tn_id x = tni_em_in(e, 4) == TN_NONE ? tni_em_in(e, 0) : regroup_rows(e, tni_em_in(e, 0), &q);
  tni_em_give(e, 0, tni_em_add(e, tni_em_2(e, "MatMul", x, tni_em_quantized(e, &q, q.scale_dtype)), tni_em_in(e, 5)));
}

/* --- MatMulLevels --- */

enum { MOST_VEC = 8, MOST_CODES = 256 };
enum { IN_CODES = 1, IN_SCALES, IN_LEVELS, IN_STEPS, IN_INDEX, IN_COUNT };

/* Floats of t in the graph's arena, where they are aligned; all finite. */
static const float *own_floats(tni_emit *e, const tni_tensor *t, const char *what) {
  const float *f = tni_arena_memdup(e->g->arena, t->data, (size_t)t->bytes, _Alignof(float));
  if (!f) {
    e->st = tni_fail_memory(e->c->err, e->c->file);
    return NULL;
  }
  for (size_t i = 0; i < (size_t)t->bytes / sizeof *f; i++)
    if (!isfinite(f[i])) tni_em_fail(e, TN_E_INVALID, "%s has an element that is not finite", what);
  return f;
}

/* All of n codes of `bits` in each of N rows are below `below`. */
static void check_codes(tni_emit *e, const uint8_t *rows, int64_t N, int64_t row_bytes, int64_t n, uint32_t bits,
                        uint32_t below, const char *what) {
  if (e->st || below >= 1u << bits) return;
  for (int64_t r = 0; r < N; r++)
    for (int64_t i = 0; i < n; i++) {
      const uint32_t c = tni_quantized_code(rows + r * row_bytes, i, bits);
      if (c < below) continue;
      tni_em_fail(e, TN_E_INVALID, "%s has a code of %u, which is none of %u", what, c, below);
      return;
    }
}

static void take_table(tni_emit *e, tni_quantized *q, tni_quantized_levels *l) {
  const tni_tensor *t = stored_tensor(e, tni_em_in(e, IN_LEVELS), "levels", TN_DT_F32, -1);
  if (!t) return;
  if (t->rank != 2 || t->dims[0] < 2 || t->dims[0] > MOST_CODES || t->dims[1] < 1 || t->dims[1] > MOST_VEC ||
      t->dims[0] > INT64_C(1) << q->bits || q->block % t->dims[1]) {
    tni_em_fail(e, TN_E_INVALID, "levels are not [codes, weights of a code] of at most [2^bits, %d], blocks whole",
                MOST_VEC);
    return;
  }
  l->n = (uint32_t)t->dims[0];
  l->vec = (uint32_t)t->dims[1];
  l->value = own_floats(e, t, "levels");
  q->row_bytes = ((q->K + l->vec - 1) / l->vec * q->bits + 7) / 8;
}

static void take_steps(tni_emit *e, tni_quantized *q, tni_quantized_levels *l) {
  if (e->st || tni_em_in(e, IN_STEPS) == TN_NONE) return;
  const tni_tensor *t = stored_tensor(e, tni_em_in(e, IN_STEPS), "steps", TN_DT_F32, -1);
  if (!t) return;
  if (t->rank != 1 || t->dims[0] < 1 || t->dims[0] > INT64_C(1) << l->index_bits) {
    tni_em_fail(e, TN_E_INVALID, "steps are not a list of at most 2^index_bits");
    return;
  }
  l->n_steps = (uint32_t)t->dims[0];
  l->steps = own_floats(e, t, "steps");
  l->index_row_bytes = (q->blocks * l->index_bits + 7) / 8;
  t = stored_tensor(e, tni_em_in(e, IN_INDEX), "index", TN_DT_U8, q->N * l->index_row_bytes);
  if (!t) return;
  l->index = t->data;
  set_from(e, q, TNI_QUANTIZED_INDEX, tni_em_in(e, IN_INDEX));
}

static bool take_levels(tni_emit *e, tni_quantized *q, tni_quantized_levels *l) {
  if (q->N < 1 || q->K < 1 || q->block < 1) tni_em_fail(e, TN_E_INVALID, "a matrix without elements");
  if (e->st) return false;
  q->blocks = (q->K - 1) / q->block + 1;
  take_table(e, q, l);
  const tni_tensor *t = e->st ? NULL : stored_tensor(e, tni_em_in(e, IN_CODES), "codes", TN_DT_U8, q->N * q->row_bytes);
  if (t) q->codes = t->data;
  take_steps(e, q, l);
  t = e->st ? NULL : stored_tensor(e, tni_em_in(e, IN_SCALES), "scales", 0, l->n_steps ? q->N : q->N * q->blocks);
  if (t) q->scales = t->data;
  if (t) q->scale_dtype = t->dtype;
  if (e->st) return false;
  set_from(e, q, TNI_QUANTIZED_CODES, tni_em_in(e, IN_CODES));
  set_from(e, q, TNI_QUANTIZED_SCALES, tni_em_in(e, IN_SCALES));
  check_codes(e, q->codes, q->N, q->row_bytes, (q->K + l->vec - 1) / l->vec, q->bits, l->n, "codes");
  if (l->n_steps) check_codes(e, l->index, q->N, l->index_row_bytes, q->blocks, l->index_bits, l->n_steps, "index");
  return e->st == TN_OK;
}

void tni_contrib_matmul_levels(tni_emit *e) {
  static const char *const names[] = {"K", "N", "bits", "block_size", "index_bits", NULL};
  if (!tni_em_knows(e, IN_COUNT, 1, names)) return;
  tni_quantized q = {.transposed = true, .zero_kind = TNI_ZERO_NONE};
  q.bits = (uint32_t)tni_em_int(e, "bits", 4);
  q.N = tni_em_int(e, "N", 0);
  q.K = tni_em_int(e, "K", 0);
  q.block = tni_em_int(e, "block_size", 0);
  tni_quantized_levels l = {.index_bits = (uint32_t)tni_em_int(e, "index_bits", 4)};
  if (!take_levels(e, &q, &l)) return;
  q.levels = tni_arena_memdup(e->g->arena, &l, sizeof l, _Alignof(tni_quantized_levels));
  if (!q.levels) {
    e->st = tni_fail_memory(e->c->err, e->c->file);
    return;
  }
  const uint32_t dtype = tni_em_float_dtype(e, 1);
  tni_em_give(e, 0, tni_em_2(e, "MatMul", tni_em_in(e, 0), tni_em_quantized(e, &q, dtype)));
}

/* --- GatherBlockQuantized --- */

/* v as a constant matrix. GenAI's builder shares a head's codes [V, blocks, bytes] through a Reshape: the same bytes.
 */
static const tni_tensor *table_codes(const tni_emit *e, tn_id v, tni_tensor *reshaped, tn_id *stored) {
  const tni_tensor *t = tni_em_const(e, v), *to;
  int64_t count, all;
  *stored = v;
  if (t) return t->data && t->rank == 2 ? t : NULL;
  const tni_value *x = tni_graph_value(e->g, v);
  const tni_node *n = x ? tni_graph_node(e->g, x->pub.producer) : NULL;
  if (!n || n->pub.op != TN_OP_RESHAPE || n->pub.n_in != 2) return NULL;
  t = tni_em_const(e, n->pub.in[0]);
  to = tni_em_const(e, n->pub.in[1]);
  if (!t || !t->data || !to || !to->data || to->dtype != TN_DT_I64 || to->bytes != 2 * sizeof(int64_t)) return NULL;
  *stored = n->pub.in[0];
  *reshaped = *t;
  reshaped->rank = 2;
  memcpy(reshaped->dims, to->data, 2 * sizeof(int64_t));
  if (tni_dims_count(t->dims, t->rank, &all) != TN_OK || tni_dims_count(reshaped->dims, 2, &count) != TN_OK)
    return NULL;
  return count == all ? reshaped : NULL;
}

/* operands: data [V, K] (uint8: bits of 8 per element), indices, scales [V, blocks], zero_points. */
void tni_contrib_gather_blocks(tni_emit *e) {
  static const char *const names[] = {"bits", "block_size", "gather_axis", "quantize_axis", NULL};
  if (!tni_em_knows(e, 4, 1, names)) return;
  tni_tensor reshaped;
  tn_id stored;
  const tni_tensor *data = table_codes(e, tni_em_in(e, 0), &reshaped, &stored);
  if (!data) {
    tni_em_fail(e, TN_E_UNSUPPORTED, "data is no constant matrix");
    return;
  }
  const bool packed = data->dtype == TN_DT_U8, is_signed = data->dtype == TN_DT_I4;
  if (!packed && !is_signed && data->dtype != TN_DT_U4) {
    tni_em_fail(e, TN_E_UNSUPPORTED, "data of %s", tni_dtype_name(data->dtype));
    return;
  }
  const int64_t bits = packed ? tni_em_int(e, "bits", 4) : 4, axis = tni_em_int(e, "quantize_axis", 1);
  tni_quantized q = {.bits = bits > 0 && bits <= 8 ? (uint32_t)bits : 0};
  if (packed && (!q.bits || 8 % q.bits)) {
    tni_em_fail(e, TN_E_UNSUPPORTED, "bytes that hold no whole number of codes of %" PRId64 " bits", bits);
    return;
  }
  q.N = data->dims[0];
  q.K = packed ? data->dims[1] * (8 / q.bits) : data->dims[1];
  q.block = tni_em_int(e, "block_size", 128);
  q.flip = is_signed ? 8 : 0;
  q.zero_kind = packed || is_signed ? TNI_ZERO_MIDDLE : TNI_ZERO_NONE;
  if (tni_em_int(e, "gather_axis", 0) != 0 || (axis != 1 && axis != -1))
    tni_em_fail(e, TN_E_UNSUPPORTED, "rows that are not those of axis 0, or blocks that are not along the last axis");
  if (e->st || !set_geometry(e, &q)) return;
  if (q.K * q.bits % 8) {
    tni_em_fail(e, TN_E_UNSUPPORTED, "rows of %" PRId64 " elements, which do not end at a byte", q.K);
    return;
  }
  q.row_bytes = q.K * q.bits / 8; /* the last block is as long as it is */
  q.codes = data->data;
  set_from(e, &q, TNI_QUANTIZED_CODES, stored);
  take_scales(e, tni_em_in(e, 2), &q);
  if (!packed && q.blocks % 2 && tni_em_in(e, 3) != TN_NONE)
    tni_em_fail(e, TN_E_UNSUPPORTED, "zero points of which a row does not end at a byte");
  take_zeros(e, tni_em_in(e, 3), data->dtype, packed ? q.N * q.zero_row_bytes : q.N * q.blocks, &q);
  if (e->st) return;
  tni_em_give(e, 0, tni_em_2(e, "Gather", tni_em_quantized(e, &q, q.scale_dtype), tni_em_in(e, 1)));
}
