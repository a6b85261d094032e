/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes of a value, read back through what moves elements.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/passes/build/build.h"
#include "runtime/passes/decoder/lanes.h"

enum { MAX_COLUMNS = 1 << 20, MAX_DEPTH = 32 };

static const tni_node *lanes_maker(const tni_graph *g, tn_id v) {
  const tni_value *x = tni_match_value(g, v);
  if (!x || x->elems || x->pub.producer >= g->n_nodes) return NULL;
  const tni_node *n = g->nodes[x->pub.producer];
  return n->dead || !n->op ? NULL : n;
}

static bool is_named_const(const tni_graph *g, tn_id v) {
  const tni_value *c = tni_match_value(g, v);
  return c && c->pub.kind == TN_VALUE_CONST && c->tensor && c->tensor->data;
}

bool tni_lanes_is_view(const tni_graph *g, tn_id v) {
  const tni_node *n = lanes_maker(g, v);
  if (!n) return false;
  switch (n->pub.op) {
    case TN_OP_RESHAPE:
    case TN_OP_SQUEEZE:
    case TN_OP_UNSQUEEZE:
    case TN_OP_FLATTEN:
    case TN_OP_TRANSPOSE:
    case TN_OP_SPLIT:
      return true;
    case TN_OP_SLICE:
      return is_named_const(g, tni_match_in(n, 1));
    case TN_OP_GATHER:
      return is_named_const(g, n->pub.in[1]);
    default:
      return false;
  }
}

void tni_lanes_free(tni_lanes *l) {
  free(l->column);
  l->column = NULL;
}

/* --- the root --- */

static bool lanes_root(const tni_graph *g, tn_id v, tni_lanes *l) {
  const tni_value *x = tni_match_value(g, v);
  *l = (tni_lanes){.root = v};
  if (!x || x->pub.rank < 2 || x->pub.rank > 3 || !tni_match_rank(g, v, x->pub.rank)) return false;
  l->rank = x->pub.rank;
  for (uint32_t d = 0; d + 1 < l->rank; d++) {
    int64_t c;
    const bool known = tni_ex_is_const(g->exprs, x->pub.dims[d], &c);
    if (known && c != 1) return false;
    l->dim[d] = known ? 1 : -1 - (int64_t)d;
    l->n_leads += !known;
  }
  if (!tni_ex_is_const(g->exprs, x->pub.dims[l->rank - 1], &l->n) || l->n < 1 || l->n > MAX_COLUMNS) return false;
  l->dim[l->rank - 1] = l->n;
  l->column = calloc((size_t)l->n, sizeof *l->column);
  for (int64_t i = 0; l->column && i < l->n; i++) l->column[i] = (int32_t)i;
  return l->column != NULL;
}

/* --- what views do --- */

/* The dims of v, told apart as those of l were. Leads keep their order, and what lies between them its size. */
static bool lanes_reshape(const tni_graph *g, tni_lanes *l, tn_id v) {
  const tni_value *y = tni_match_value(g, v), *root = g->values[l->root];
  int64_t dim[TN_MAX_RANK], between = 1;
  uint32_t at = 0;
  if (!tni_match_rank(g, v, y->pub.rank)) return false;
  for (uint32_t d = 0; d < y->pub.rank; d++) {
    int64_t c, had = 1;
    if (tni_ex_is_const(g->exprs, y->pub.dims[d], &c)) {
      dim[d] = c;
      if (c < 1 || __builtin_mul_overflow(between, c, &between)) return false;
      continue;
    }
    while (at < l->rank && l->dim[at] >= 0) had *= l->dim[at++];
    if (at == l->rank || had != between || y->pub.dims[d] != root->pub.dims[-1 - l->dim[at]]) return false;
    dim[d] = l->dim[at++];
    between = 1;
  }
  int64_t had = 1;
  for (; at < l->rank; at++) {
    if (l->dim[at] < 0) return false;
    had *= l->dim[at];
  }
  if (had != between) return false;
  memcpy(l->dim, dim, y->pub.rank * sizeof *dim);
  l->rank = y->pub.rank;
  return true;
}

/* Places on the constant axes from `axis` on, that one excluded. */
static int64_t places_after(const tni_lanes *l, uint32_t axis) {
  int64_t n = 1;
  for (uint32_t d = axis + 1; d < l->rank; d++) n *= l->dim[d] < 0 ? 1 : l->dim[d];
  return n;
}

static bool lanes_transpose(tni_lanes *l, const tni_node *n) {
  int64_t perm[TN_MAX_RANK], dim[TN_MAX_RANK], at[TN_MAX_RANK] = {0};
  if (!tni_match_perm(n, l->rank, perm)) return false;
  int32_t *column = calloc((size_t)l->n, sizeof *column);
  if (!column) return false;
  for (uint32_t d = 0; d < l->rank; d++) dim[d] = l->dim[perm[d]];
  for (int64_t i = 0; i < l->n; i++) {
    int64_t from = 0;
    for (uint32_t d = 0; d < l->rank; d++)
      if (dim[d] >= 0) from += at[d] * places_after(l, (uint32_t)perm[d]);
    column[i] = l->column[from];
    for (uint32_t d = l->rank; d-- > 0;) {
      if (dim[d] < 0) continue;
      if (++at[d] < dim[d]) break;
      at[d] = 0;
    }
  }
  free(l->column);
  l->column = column;
  memcpy(l->dim, dim, sizeof dim);
  l->moved = true;
  return true;
}

/* Of a constant axis the places first, first + step, ..: count of them; or those that `pick` lists. */
static bool lanes_take(tni_lanes *l, uint32_t axis, int64_t first, int64_t step, const int64_t *pick, int64_t count) {
  if (axis >= l->rank || l->dim[axis] < 0 || count < 1) return false;
  const int64_t after = places_after(l, axis), size = l->dim[axis], before = l->n / size / after;
  if (before * count * after > MAX_COLUMNS) return false;
  int32_t *column = calloc((size_t)(before * count * after), sizeof *column);
  bool ok = column != NULL;
  for (int64_t b = 0; ok && b < before; b++)
    for (int64_t i = 0; ok && i < count; i++) {
      int64_t from = pick ? pick[i] : first + i * step;
      if (from < 0 && pick) from += size;
      ok = from >= 0 && from < size;
      if (ok)
        memcpy(column + (b * count + i) * after, l->column + (b * size + from) * after, (size_t)after * sizeof *column);
    }
  if (!ok) {
    free(column);
    return false;
  }
  free(l->column);
  l->column = column;
  l->n = before * count * after;
  l->dim[axis] = count;
  l->moved = true;
  return true;
}

static bool one_integer(const tni_graph *g, tn_id v, int64_t absent, int64_t *c) {
  double d;
  *c = absent;
  if (v == TN_NONE) return true;
  if (!tni_match_scalar(g, v, &d)) return false;
  tni_tensor_to_i64(g->values[v]->tensor, 0, 1, c);
  return true;
}

static bool lanes_slice(const tni_graph *g, tni_lanes *l, const tni_node *n) {
  const tni_value *y = g->values[n->pub.out[0]];
  int64_t first, axis, step, count;
  if (!one_integer(g, tni_match_in(n, 1), 0, &first) || !one_integer(g, tni_match_in(n, 3), 0, &axis) ||
      !one_integer(g, tni_match_in(n, 4), 1, &step) || y->pub.rank != l->rank || step < 1)
    return false;
  if (axis < 0) axis += l->rank;
  if (axis < 0 || axis >= l->rank || l->dim[axis] < 0 || y->pub.dims[axis] == TNI_EXPR_NONE ||
      !tni_ex_is_const(g->exprs, y->pub.dims[axis], &count))
    return false;
  if (first < 0) first += l->dim[axis];
  return lanes_take(l, (uint32_t)axis, first < 0 ? 0 : first, step, NULL, count);
}

static bool lanes_split(const tni_graph *g, tni_lanes *l, const tni_node *n, uint32_t out) {
  int64_t first = 0, axis = tni_attr_i(&n->pub, "axis", 0), count = 0;
  if (axis < 0) axis += l->rank;
  if (axis < 0 || axis >= l->rank) return false;
  for (uint32_t o = 0; o <= out; o++) {
    first += count;
    const tni_value *y = tni_match_value(g, n->pub.out[o]);
    if (!y || y->pub.rank != l->rank || y->pub.dims[axis] == TNI_EXPR_NONE ||
        !tni_ex_is_const(g->exprs, y->pub.dims[axis], &count))
      return false;
  }
  return lanes_take(l, (uint32_t)axis, first, 1, NULL, count);
}

static bool lanes_gather(const tni_graph *g, tni_lanes *l, const tni_node *n) {
  enum { MOST = 4096 };
  const tni_tensor *t = g->values[n->pub.in[1]]->tensor;
  int64_t axis = tni_attr_i(&n->pub, "axis", 0), count, pick[MOST];
  if (axis < 0) axis += l->rank;
  if (axis < 0 || axis >= l->rank || t->rank > 1 || (t->dtype != TN_DT_I64 && t->dtype != TN_DT_I32) ||
      tni_dims_count(t->dims, t->rank, &count) != TN_OK || count > MOST)
    return false;
  tni_tensor_to_i64(t, 0, count, pick);
  if (!lanes_take(l, (uint32_t)axis, 0, 1, pick, count)) return false;
  if (t->rank == 1) return true;
  memmove(l->dim + axis, l->dim + axis + 1, (l->rank - (uint32_t)axis - 1) * sizeof *l->dim); /* an axis less */
  l->rank--;
  return true;
}

static bool lanes_apply(const tni_graph *g, tni_lanes *l, const tni_node *n, tn_id v) {
  switch (n->pub.op) {
    case TN_OP_TRANSPOSE:
      return lanes_transpose(l, n);
    case TN_OP_SLICE:
      return lanes_slice(g, l, n);
    case TN_OP_SPLIT:
      return lanes_split(g, l, n, g->values[v]->out_index);
    case TN_OP_GATHER:
      return lanes_gather(g, l, n);
    default:
      return lanes_reshape(g, l, v);
  }
}

static bool read_lanes(const tni_graph *g, tn_id v, tni_lanes *l, uint32_t depth) {
  const tni_node *n = tni_lanes_is_view(g, v) ? lanes_maker(g, v) : NULL;
  if (!n || depth == MAX_DEPTH) return !n && lanes_root(g, v, l);
  const tni_value *x = tni_match_value(g, n->pub.in[0]), *y = tni_match_value(g, v);
  if (!x || y->pub.rank > TN_MAX_RANK) return false;
  /* what only puts batch and length together or apart: the root has them apart */
  if (!read_lanes(g, n->pub.in[0], l, depth + 1)) return lanes_root(g, v, l);
  if (lanes_apply(g, l, n, v)) return true;
  tni_lanes_free(l);
  return lanes_root(g, v, l);
}

bool tni_lanes_read(const tni_graph *g, tn_id v, tni_lanes *l) {
  *l = (tni_lanes){.root = TN_NONE};
  return read_lanes(g, v, l, 0);
}
