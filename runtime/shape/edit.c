/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/shape/edit.h"

#include "runtime/shape/rules/rules.h"

bool tni_detach_output(tni_graph *g, tni_node *n, uint32_t o) {
  tn_id *out = (tn_id *)n->pub.out; /* the graph's own array, shown const by the ABI's struct */
  if (out[o] != TN_NONE) g->values[out[o]]->pub.producer = TN_NONE;
  out[o] = TN_NONE;
  for (uint32_t i = 0; i < n->pub.n_out; i++) {
    if (out[i] != TN_NONE) return false;
  }
  n->dead = true;
  return true;
}

bool tni_elems_complete(const tni_graph *g, const tni_value *v) {
  int64_t n = 1, d;
  if (!v->elems || v->pub.rank > TN_MAX_RANK || !tni_dtype_is_index(v->pub.dtype)) return false;
  for (uint32_t i = 0; i < v->pub.rank; i++) {
    if (v->pub.dims[i] == TNI_EXPR_NONE || !tni_ex_is_const(g->exprs, v->pub.dims[i], &d)) return false;
    if (d < 0 || d > TNI_MAX_ELEMS) return false;
    n *= d;
    if (n > TNI_MAX_ELEMS) return false;
  }
  if (n != v->n_elems) return false;
  for (uint32_t i = 0; i < v->n_elems; i++) {
    if (v->elems[i] == TNI_EXPR_NONE) return false;
  }
  return true;
}

#define STORE(type, lo, hi)               \
  if (v < (lo) || v > (hi)) return false; \
  ((type *)data)[i] = (type)v;            \
  return true

bool tni_store_index(uint32_t dtype, void *data, uint64_t i, int64_t v) {
  switch (dtype) {
    case TN_DT_BOOL:
      STORE(uint8_t, 0, 1);
    case TN_DT_U8:
      STORE(uint8_t, 0, UINT8_MAX);
    case TN_DT_I8:
      STORE(int8_t, INT8_MIN, INT8_MAX);
    case TN_DT_U16:
      STORE(uint16_t, 0, UINT16_MAX);
    case TN_DT_I16:
      STORE(int16_t, INT16_MIN, INT16_MAX);
    case TN_DT_I32:
      STORE(int32_t, INT32_MIN, INT32_MAX);
    case TN_DT_U32:
      STORE(uint32_t, 0, UINT32_MAX);
    case TN_DT_U64:
      if (v < 0) return false;
      ((uint64_t *)data)[i] = (uint64_t)v;
      return true;
    case TN_DT_I64:
      ((int64_t *)data)[i] = v;
      return true;
    default:
      return false;
  }
}

#undef STORE

bool tni_elems_tensor(const tni_graph *g, const tni_value *v, tni_tensor *out) {
  tni_tensor t = {.dtype = v->pub.dtype, .rank = v->pub.rank};
  int64_t c;
  if (!tni_elems_complete(g, v)) return false;
  for (uint32_t i = 0; i < v->n_elems; i++) {
    if (!tni_ex_is_const(g->exprs, v->elems[i], &c)) return false;
  }
  for (uint32_t d = 0; d < t.rank; d++) {
    if (!tni_ex_is_const(g->exprs, v->pub.dims[d], &t.dims[d])) return false;
  }
  if (tni_dtype_bytes(t.dtype, v->n_elems, &t.bytes) != TN_OK) return false;
  t.data = tni_arena_alloc(g->arena, t.bytes ? t.bytes : 1, 16);
  for (uint32_t i = 0; t.data && i < v->n_elems; i++) {
    if (!tni_ex_is_const(g->exprs, v->elems[i], &c) || !tni_store_index(t.dtype, t.data, i, c)) return false;
  }
  *out = t;
  return t.data != NULL;
}
