/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads that a Reshape and a Transpose split off an activation.
 */
#include <string.h>

#include "runtime/passes/build/build.h"
#include "runtime/passes/decoder/heads.h"

static tn_expr split_dim(const tni_graph *g, tn_id v, uint32_t d) { return g->values[v]->pub.dims[d]; }

static bool is_perm(const tni_node *n, int64_t a, int64_t b, int64_t c, int64_t d) {
  const int64_t want[4] = {a, b, c, d};
  int64_t perm[TN_MAX_RANK];
  return tni_match_perm(n, 4, perm) && memcmp(perm, want, sizeof want) == 0;
}

/* z [batch, length, heads, size] is Reshape(x [batch, length, heads * size]). */
static const tni_node *splits_last(tni_graph *g, tn_id z, tn_id *x) {
  const tni_node *n = tni_match_node(g, z, TN_OP_RESHAPE);
  *x = n ? n->pub.in[0] : TN_NONE;
  if (!n || !tni_match_rank(g, *x, 3) || split_dim(g, *x, 0) != split_dim(g, z, 0) ||
      split_dim(g, *x, 1) != split_dim(g, z, 1))
    return NULL;
  return split_dim(g, *x, 2) == tni_ex_mul(g->exprs, split_dim(g, z, 2), split_dim(g, z, 3)) ? n : NULL;
}

bool tni_head_split_find(tni_graph *g, tn_id v, tni_head_split *s) {
  *s = (tni_head_split){.flat = TN_NONE, .by_length = TN_NONE};
  if (!tni_match_rank(g, v, 4) || !tni_ex_is_const(g->exprs, split_dim(g, v, 1), &s->heads) ||
      !tni_ex_is_const(g->exprs, split_dim(g, v, 3), &s->size) || s->heads < 1 || s->size < 1)
    return false;
  const tni_node *t = tni_match_node(g, v, TN_OP_TRANSPOSE), *r;
  if (t && is_perm(t, 0, 2, 1, 3) && tni_match_rank(g, t->pub.in[0], 4)) {
    s->by_length = t->pub.in[0];
    s->reshape = splits_last(g, s->by_length, &s->flat);
    if (!s->reshape) s->flat = TN_NONE;
    return true;
  }
  /* one head: an axis more is all there is to it */
  if (s->heads != 1) return false;
  if (!(r = tni_match_node(g, v, TN_OP_RESHAPE))) r = tni_match_node(g, v, TN_OP_UNSQUEEZE);
  if (!r || !tni_match_rank(g, r->pub.in[0], 3)) return false;
  for (uint32_t d = 0; d < 3; d++)
    if (split_dim(g, r->pub.in[0], d) != split_dim(g, v, d ? d + 1 : 0)) return false;
  s->reshape = r;
  s->flat = r->pub.in[0];
  return true;
}

tn_id tni_heads_reshape(tni_graph *g, tn_id x, const int64_t *shape, uint32_t rank, const tn_expr *dims,
                        tn_error *err) {
  const int64_t n = rank;
  tni_build_node b = {.type = "Reshape", .version = 14, .in = {x}, .n_in = 2};
  b.in[1] = tni_build_const(g, TN_DT_I64, 1, &n, shape); /* 0: the dim that x has there */
  return b.in[1] == TN_NONE ? TN_NONE : tni_build_op(g, &b, g->values[x]->pub.dtype, rank, dims, err);
}

tn_id tni_heads_flatten(tni_graph *g, const tni_head_split *s, tn_error *err) {
  if (s->flat != TN_NONE) return s->flat;
  const tn_expr *d = g->values[s->by_length]->pub.dims;
  const int64_t shape[3] = {0, 0, s->heads * s->size};
  const tn_expr dims[3] = {d[0], d[1], tni_ex_mul(g->exprs, d[2], d[3])};
  return tni_heads_reshape(g, s->by_length, shape, 3, dims, err);
}
