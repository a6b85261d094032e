/* SPDX-License-Identifier: Apache-2.0
 *
 * lanes: heads cut out of one product of q, k and v.
 *
 * Takes what attention, rotary embeddings, norms, Concat and other operators read as [batch, heads, length, size],
 * [batch, length, heads, size] or [batch, length, n], and follows it back through Reshape, Transpose, Slice, Split,
 * Gather by constants and their like to an activation [batch, length, N]: which of its columns are these, and in which
 * order?
 *
 *  - Columns one after the other: a Slice of the activation (the pass `siblings` makes it a part of the product).
 *  - Others, as q, k and v of each head side by side: a product of its own, whose weight (and bias) are these columns.
 *    That is done only where everything that reads the product is such a value, and together they read no column
 *    more often than it was computed. Weights may be dense, or quantized; they are copied once, here.
 *
 * After it stand the one Reshape and Transpose that the pass `heads` looks for.
 *
 * Keeps: every bit. Columns of a product do not depend on each other.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/graph.h"
#include "runtime/passes/build/build.h"
#include "runtime/passes/decoder/decoder.h"
#include "runtime/passes/decoder/lanes.h"

typedef struct pass {
  tni_graph *g;
  tn_id *instead; /* by value that was there at the start: what took its place, or TN_NONE */
  uint8_t *apart; /* by value: 1 its product may come apart, 2 it may not, 0 not asked yet */
  uint32_t n_values, fired;
  tn_error *err;
} pass;

enum { FORM_NONE, FORM_HEADS, FORM_LENGTH, FORM_FLAT };

static uint32_t form_of(const tni_lanes *l) {
  const int64_t *d = l->dim;
  if (l->n_leads == 0 || l->rank < 3 || (d[0] != -1 && d[0] != 1)) return FORM_NONE;
  if (l->rank == 4 && d[1] > 0 && d[2] == -2 && d[3] > 0) return FORM_HEADS;
  if (l->rank == 4 && d[1] == -2 && d[2] > 0 && d[3] > 0) return FORM_LENGTH;
  return l->rank == 3 && d[1] == -2 && d[2] > 0 ? FORM_FLAT : FORM_NONE;
}

static bool is_run(const tni_lanes *l) {
  for (int64_t i = 1; i < l->n; i++)
    if (l->column[i] != l->column[0] + i) return false;
  return true;
}

static int64_t root_width(const tni_graph *g, tn_id root) {
  int64_t n = 0;
  return tni_ex_is_const(g->exprs, tni_match_last_dim(g, root), &n) ? n : 0;
}

/* --- the product after a root --- */

typedef struct product {
  const tni_node *matmul, *add;
  tn_id weight, bias; /* weight: a constant [K, N], or [N, K] after a Transpose */
  bool by_rows;       /* it is [N, K] */
} product;

static bool is_held(const tni_graph *g, tn_id v, uint32_t rank) {
  const tni_value *c = tni_match_value(g, v);
  return c && c->pub.kind == TN_VALUE_CONST && c->tensor && (c->tensor->data || c->tensor->quantized) &&
         c->tensor->rank == rank;
}

static bool find_weight(const tni_graph *g, tn_id v, product *p) {
  int64_t perm[TN_MAX_RANK];
  const tni_node *turn = tni_match_node(g, v, TN_OP_TRANSPOSE);
  p->by_rows = turn != NULL;
  p->weight = turn ? turn->pub.in[0] : v;
  if (turn && (!tni_match_perm(turn, 2, perm) || perm[0] != 1)) return false;
  if (!is_held(g, p->weight, 2)) return false;
  const tni_tensor *t = g->values[p->weight]->tensor;
  if (t->quantized && !t->data) return !t->quantized->levels && t->quantized->transposed == !p->by_rows;
  return tni_dtype_bits(t->dtype) % 8 == 0 && tni_dtype_bits(t->dtype) > 0;
}

static bool find_product(const tni_graph *g, tn_id root, product *p) {
  const int64_t width = root_width(g, root);
  *p = (product){.bias = TN_NONE, .add = tni_match_node(g, root, TN_OP_ADD)};
  p->matmul = tni_match_node(g, root, TN_OP_MATMUL);
  for (uint32_t i = 0; p->add && i < 2 && !p->matmul; i++) {
    p->matmul = tni_match_node(g, p->add->pub.in[i], TN_OP_MATMUL);
    p->bias = p->add->pub.in[!i];
  }
  if (!p->matmul || g->values[p->matmul->pub.out[0]]->pub.rank != 3 || !find_weight(g, p->matmul->pub.in[1], p))
    return false;
  if (root_width(g, p->matmul->pub.out[0]) != width) return false;
  if (!p->add) return true;
  if (tni_match_uses(g, p->matmul->pub.out[0]) != 1 || !is_held(g, p->bias, 1)) return false;
  const tni_tensor *b = g->values[p->bias]->tensor;
  return b->data && b->dims[0] == width && tni_dtype_bits(b->dtype) % 8 == 0;
}

/* Columns that readers of v take, those after further views too; -1: somebody reads it otherwise. */
static int64_t columns_taken(const tni_graph *g, tn_id v, tn_id root, uint32_t depth) {
  const tni_value *x = g->values[v];
  tni_lanes l;
  int64_t all = 0;
  bool leaf = false;
  if (x->is_output || depth > 32) return -1;
  for (uint32_t i = 0; i < x->pub.n_uses; i++) {
    const tni_node *n = g->nodes[x->pub.uses[i]];
    if (n->dead) continue;
    bool view = n->n_captures == 0 && n->pub.in[0] == v && n->pub.n_out > 0 && tni_lanes_is_view(g, n->pub.out[0]);
    for (uint32_t o = 0; view && o < n->pub.n_out; o++) {
      if (n->pub.out[o] == TN_NONE || !tni_match_uses(g, n->pub.out[o])) continue;
      const int64_t more = columns_taken(g, n->pub.out[o], root, depth + 1);
      if (more < 0) return -1;
      all += more;
    }
    leaf = leaf || !view;
    if (!view && n->n_captures) return -1;
  }
  if (!leaf) return all;
  if (!tni_lanes_is_view(g, v) || !tni_lanes_read(g, v, &l)) return -1;
  const bool ok = l.root == root && form_of(&l) != FORM_NONE;
  all += l.n;
  tni_lanes_free(&l);
  return ok ? all : -1;
}

/* --- columns of constants --- */

/* Of constant [rows, N] (by_rows: [N, K]) the columns (rows) that l names. */
static tn_id pick_dense(pass *p, tn_id v, bool by_rows, const tni_lanes *l) {
  const tni_tensor *t = p->g->values[v]->tensor;
  const size_t size = tni_dtype_bits(t->dtype) / 8;
  const bool vector = t->rank == 1;
  const int64_t N = t->dims[by_rows || vector ? 0 : 1], K = vector ? 1 : t->dims[by_rows ? 1 : 0];
  const int64_t dims[2] = {by_rows || vector ? l->n : K, by_rows ? K : l->n};
  char *data = malloc((size_t)(l->n * K) * size + 1);
  if (!data) return TN_NONE;
  for (int64_t i = 0; i < l->n && by_rows; i++)
    memcpy(data + (size_t)(i * K) * size, (const char *)t->data + (size_t)(l->column[i] * K) * size, (size_t)K * size);
  for (int64_t k = 0; k < K && !by_rows; k++)
    for (int64_t i = 0; i < l->n; i++)
      memcpy(data + (size_t)(k * l->n + i) * size, (const char *)t->data + (size_t)(k * N + l->column[i]) * size, size);
  const tn_id made = tni_build_const(p->g, t->dtype, vector ? 1 : 2, dims, data);
  free(data);
  return made;
}

static const uint8_t *pick_rows(pass *p, const uint8_t *from, int64_t row, const tni_lanes *l) {
  if (!from) return NULL;
  uint8_t *to = tni_arena_alloc(p->g->arena, (size_t)(l->n * row) + 1, 16);
  for (int64_t i = 0; to && i < l->n; i++) memcpy(to + i * row, from + l->column[i] * row, (size_t)row);
  return to;
}

static tn_id pick_quantized(pass *p, tn_id v, const tni_lanes *l) {
  tni_graph *g = p->g;
  tni_tensor t = *g->values[v]->tensor;
  tni_quantized *q = TNI_NEW(g->arena, tni_quantized);
  const int64_t scale = tni_dtype_bits(t.quantized->scale_dtype) / 8;
  int64_t count;
  if (!q) return TN_NONE;
  *q = *t.quantized;
  memset(q->from, 0, sizeof q->from); /* picked in memory */
  q->N = l->n;
  q->codes = pick_rows(p, q->codes, q->row_bytes, l);
  q->scales = pick_rows(p, q->scales, q->blocks * scale, l);
  q->zeros = pick_rows(p, q->zeros, q->zero_kind == TNI_ZERO_VALUES ? q->blocks * scale : q->zero_row_bytes, l);
  t.quantized = q;
  t.dims[q->transposed ? 1 : 0] = l->n;
  if (!q->codes || !q->scales || tni_dims_count(t.dims, t.rank, &count) != TN_OK ||
      tni_dtype_bytes(t.dtype, count, &t.bytes) != TN_OK)
    return TN_NONE;
  const tn_id made = tni_graph_add_value(g, "", TN_VALUE_CONST, t.dtype);
  return made != TN_NONE && tni_value_set_tensor(g, made, &t, NULL) == TN_OK ? made : TN_NONE;
}

/* --- writing --- */

static tn_id slice_columns(pass *p, const tni_lanes *l, const tn_expr *dims) {
  tni_graph *g = p->g;
  const int64_t one = 1, at[4] = {l->column[0], l->column[0] + l->n, 2, 1};
  tni_build_node b = {.type = "Slice", .version = 13, .in = {l->root}, .n_in = 5};
  for (uint32_t i = 0; i < 4; i++)
    if ((b.in[1 + i] = tni_build_const(g, TN_DT_I64, 1, &one, &at[i])) == TN_NONE) return TN_NONE;
  return tni_build_op(g, &b, g->values[l->root]->pub.dtype, 3, dims, p->err);
}

static tn_id product_of_columns(pass *p, const product *m, const tni_lanes *l, const tn_expr *dims) {
  tni_graph *g = p->g;
  const uint32_t dtype = g->values[l->root]->pub.dtype;
  const tni_tensor *t = g->values[m->weight]->tensor;
  tni_build_node b = {.type = "MatMul", .version = 13, .in = {m->matmul->pub.in[0]}, .n_in = 2};
  tn_id w = t->quantized && !t->data ? pick_quantized(p, m->weight, l) : pick_dense(p, m->weight, m->by_rows, l);
  if (w != TN_NONE && m->by_rows) {
    static const int64_t perm[2] = {1, 0};
    tni_build_node turn = {.type = "Transpose", .version = 13, .in = {w}, .n_in = 1, .n_attr = 1};
    const tn_expr turned[2] = {g->values[w]->pub.dims[1], g->values[w]->pub.dims[0]};
    turn.attr[0] = tni_raw_ints("perm", perm, 2);
    w = tni_build_op(g, &turn, dtype, 2, turned, p->err);
  }
  if ((b.in[1] = w) == TN_NONE) return TN_NONE;
  const tn_id y = tni_build_op(g, &b, dtype, 3, dims, p->err);
  if (y == TN_NONE || !m->add) return y;
  tni_build_node add = {.type = "Add", .version = 14, .in = {y}, .n_in = 2};
  return (add.in[1] = pick_dense(p, m->bias, false, l)) == TN_NONE ? TN_NONE
                                                                   : tni_build_op(g, &add, dtype, 3, dims, p->err);
}

/* x [batch, length, n] as v looks. */
static tn_id shape_heads(pass *p, tn_id x, tn_id v, uint32_t form) {
  static const int64_t perm[4] = {0, 2, 1, 3};
  tni_graph *g = p->g;
  const tni_value *y = g->values[v];
  int64_t heads, size, len = 4;
  if (form == FORM_FLAT) return x;
  const uint32_t h = form == FORM_HEADS ? 1 : 2;
  if (!tni_ex_is_const(g->exprs, y->pub.dims[h], &heads) || !tni_ex_is_const(g->exprs, y->pub.dims[3], &size))
    return TN_NONE;
  const int64_t shape[4] = {0, 0, heads, size};
  const tn_expr dims[4] = {y->pub.dims[0], y->pub.dims[3 - h], y->pub.dims[h], y->pub.dims[3]};
  tni_build_node b = {.type = "Reshape", .version = 14, .in = {x}, .n_in = 2};
  if ((b.in[1] = tni_build_const(g, TN_DT_I64, 1, &len, shape)) == TN_NONE) return TN_NONE;
  tni_build_node t = {.type = "Transpose", .version = 13, .n_in = 1, .n_attr = 1};
  t.attr[0] = tni_raw_ints("perm", perm, 4);
  t.in[0] = tni_build_op(g, &b, y->pub.dtype, 4, dims, p->err);
  if (t.in[0] == TN_NONE || form == FORM_LENGTH) return t.in[0];
  return tni_build_op(g, &t, y->pub.dtype, 4, y->pub.dims, p->err);
}

/* Asked before the first reader leaves, and remembered. */
static bool may_come_apart(pass *p, tn_id root) {
  if (root >= p->n_values) return false;
  if (!p->apart[root]) {
    const int64_t n = columns_taken(p->g, root, root, 0);
    p->apart[root] = n > 0 && n <= root_width(p->g, root) ? 1 : 2;
  }
  return p->apart[root] == 1;
}

/* What stands in v's place, or TN_NONE: it may stay. */
static tn_status replace_heads(pass *p, tn_id v, tn_id *to) {
  tni_graph *g = p->g;
  tni_lanes l;
  product m;
  tn_id x = TN_NONE;
  *to = TN_NONE;
  if (!tni_lanes_is_view(g, v) || !tni_lanes_read(g, v, &l)) return TN_OK;
  const uint32_t form = form_of(&l);
  const int64_t width = root_width(g, l.root);
  const bool run = is_run(&l), all = run && l.n == width;
  bool go = form != FORM_NONE && !all && g->values[l.root]->pub.rank == 3;
  if (go && !run) go = find_product(g, l.root, &m) && may_come_apart(p, l.root);
  if (go && run) { /* a Slice that is one already */
    const tni_node *n = g->nodes[g->values[v]->pub.producer];
    go = !(form == FORM_FLAT && n->pub.in[0] == l.root && (n->pub.op == TN_OP_SLICE || n->pub.op == TN_OP_SPLIT));
    /* Transpose and Reshape of one */
    tn_id w = v;
    for (uint32_t i = 0; go && i < 2; i++) {
      const tni_node *q = g->nodes[g->values[w]->pub.producer];
      if (q->pub.op != (i ? TN_OP_RESHAPE : TN_OP_TRANSPOSE)) continue;
      w = q->pub.in[0];
    }
    const tni_value *base = g->values[w];
    if (go && w != v && base->pub.rank == 3 && base->pub.producer < g->n_nodes) {
      const tni_node *q = g->nodes[base->pub.producer];
      go = q->dead || q->pub.in[0] != l.root || (q->pub.op != TN_OP_SLICE && q->pub.op != TN_OP_SPLIT);
    }
  }
  if (go) {
    const tni_value *r = g->values[l.root];
    const tn_expr dims[3] = {r->pub.dims[0], r->pub.dims[1], tni_ex_const(g->exprs, l.n)};
    x = run ? slice_columns(p, &l, dims) : product_of_columns(p, &m, &l, dims);
    if (x != TN_NONE) *to = shape_heads(p, x, v, form);
  }
  tni_lanes_free(&l);
  return go && *to == TN_NONE ? tni_fail_memory(p->err, g->name) : TN_OK;
}

static bool takes_heads(const tni_node *n, uint32_t i) {
  switch (n->pub.op) {
    case TN_OP_ATTENTION:
    case TN_OP_TENON_ATTENTION:
      return i < 3;
    case TN_OP_ROTARY_EMBEDDING:
    case TN_OP_RMS_NORMALIZATION:
    case TN_OP_LAYER_NORMALIZATION:
    case TN_OP_TENON_RMS_NORMALIZATION:
    case TN_OP_TENON_LAYER_NORMALIZATION:
      return i == 0;
    case TN_OP_CONCAT:
      return true;
    default:
      return false;
  }
}

/* Reads what lies after views: a Concat only if it is that of a cache. */
static tn_status lanes_node(pass *p, tn_id node) {
  tni_graph *g = p->g;
  for (uint32_t i = 0; i < g->nodes[node]->pub.n_in && i < 8; i++) {
    tni_node *n = g->nodes[node];
    const tn_id v = n->pub.in[i];
    if (n->dead || n->n_captures || n->pub.n_in > TNI_BUILD_INPUTS) return TN_OK;
    if (v == TN_NONE || v >= p->n_values || !takes_heads(n, i)) continue;
    if (p->instead[v] == TN_NONE) {
      const tn_status st = replace_heads(p, v, &p->instead[v]);
      if (st != TN_OK) return st;
      p->fired += p->instead[v] != TN_NONE;
    }
    if (p->instead[v] == TN_NONE) continue;
    const tn_status st = tni_build_swap_input(g, n, i, p->instead[v], p->err);
    if (st != TN_OK) return st;
    node = g->n_nodes - 1; /* the copy */
  }
  return TN_OK;
}

tn_status tni_pass_lanes(tni_graph *g, uint32_t *n, tn_error *err) {
  pass p = {.g = g, .n_values = g->n_values, .err = err};
  const uint32_t n_nodes = g->n_nodes;
  tn_status st = TN_OK;
  p.instead = malloc((p.n_values + 1) * sizeof *p.instead);
  p.apart = calloc(p.n_values + 1, sizeof *p.apart);
  if (!p.instead || !p.apart) st = tni_fail_memory(err, g->name);
  for (uint32_t i = 0; st == TN_OK && i < p.n_values; i++) p.instead[i] = TN_NONE;
  for (uint32_t i = 0; st == TN_OK && i < n_nodes; i++)
    if (!g->nodes[i]->dead && g->nodes[i]->op) st = lanes_node(&p, i);
  free(p.instead);
  free(p.apart);
  return st == TN_OK ? tni_build_done(g, p.fired, n, err) : st;
}
