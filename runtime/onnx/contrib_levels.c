/* SPDX-License-Identifier: Apache-2.0
 *
 * ai.tenon.MatMulLevels: a product with a matrix whose weights are levels of a table. It becomes MatMul of a constant
 * that lies quantized (runtime/graph/quantized.h). docs/operators-contrib.md is its definition.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/onnx/contrib.h"

enum { MOST_VEC = 8, MOST_CODES = 256 };
enum { IN_CODES = 1, IN_SCALES, IN_LEVELS, IN_STEPS, IN_INDEX, IN_COUNT };

/* Operand i as a constant of this dtype (0: of a scale's) and of n elements, -1: of any number. NULL: it fails. */
static const tni_tensor *stored(tni_emit *e, uint32_t i, const char *what, uint32_t dtype, int64_t n) {
  const tni_tensor *t = tni_em_const(e, tni_em_in(e, i));
  int64_t count;
  if (e->st) return NULL;
  if (!t || !t->data)
    tni_em_fail(e, TN_E_UNSUPPORTED, "%s is no constant", what);
  else if (dtype ? t->dtype != dtype : t->dtype != TN_DT_F32 && t->dtype != TN_DT_F16 && t->dtype != TN_DT_BF16)
    tni_em_fail(e, TN_E_INVALID, "%s is %s", what, tni_dtype_name(t->dtype));
  else if (tni_dims_count(t->dims, t->rank, &count) != TN_OK || (n >= 0 && count != n))
    tni_em_fail(e, TN_E_INVALID, "%s has not the %" PRId64 " elements that it needs", what, n);
  return e->st ? NULL : t;
}

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
  const tni_tensor *t = stored(e, IN_LEVELS, "levels", TN_DT_F32, -1);
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

static void take_steps(tni_emit *e, const tni_quantized *q, tni_quantized_levels *l) {
  if (e->st || tni_em_in(e, IN_STEPS) == TN_NONE) return;
  const tni_tensor *t = stored(e, IN_STEPS, "steps", TN_DT_F32, -1);
  if (!t) return;
  if (t->rank != 1 || t->dims[0] < 1 || t->dims[0] > INT64_C(1) << l->index_bits) {
    tni_em_fail(e, TN_E_INVALID, "steps are not a list of at most 2^index_bits");
    return;
  }
  l->n_steps = (uint32_t)t->dims[0];
  l->steps = own_floats(e, t, "steps");
  l->index_row_bytes = (q->blocks * l->index_bits + 7) / 8;
  t = stored(e, IN_INDEX, "index", TN_DT_U8, q->N * l->index_row_bytes);
  if (t) l->index = t->data;
}

static bool take_levels(tni_emit *e, tni_quantized *q, tni_quantized_levels *l) {
  if (q->N < 1 || q->K < 1 || q->block < 1) tni_em_fail(e, TN_E_INVALID, "a matrix without elements");
  if (e->st) return false;
  q->blocks = (q->K - 1) / q->block + 1;
  take_table(e, q, l);
  const tni_tensor *t = e->st ? NULL : stored(e, IN_CODES, "codes", TN_DT_U8, q->N * q->row_bytes);
  if (t) q->codes = t->data;
  take_steps(e, q, l);
  t = e->st ? NULL : stored(e, IN_SCALES, "scales", 0, l->n_steps ? q->N : q->N * q->blocks);
  if (t) q->scales = t->data;
  if (t) q->scale_dtype = t->dtype;
  if (e->st) return false;
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
