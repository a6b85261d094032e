/* SPDX-License-Identifier: Apache-2.0
 *
 * tables:  rotary tables that an If chooses by a length  ->  one table of both, and an offset to the positions.
 *
 *   cos, sin = If(Greater(e, c)) then cos_a, sin_a else cos_b, sin_b;  y = RotaryEmbedding(x, cos, sin, positions)
 *   ->  y = RotaryEmbedding(x, [cos_b; cos_a], [sin_b; sin_a], positions + offset)
 *
 * offset is the number of rows of b where e > c, else 0. e is an expression of the inputs' dims, so the session writes
 * it and no node computes it (tni_graph.tables: by the length of the whole text where it keeps the caches, so that all
 * keys are turned by one table). So ONNX Runtime GenAI's builder writes LongRoPE, whose angles change past a length. The
 * tables differ in length: after the If no dims are known, nodes are sized as they run, and no cache stays in place.
 *
 * All readers of the If must be such nodes. Keeps: every bit, for positions inside of the table that the If chooses.
 */
#include <string.h>

#include "runtime/passes/build/build.h"
#include "runtime/passes/decoder/decoder.h"

enum { COS = 1, SIN = 2, POSITIONS = 3, OUTPUTS = 2 };

typedef struct tables {
  const tni_node *branch;
  const tni_tensor *small[OUTPUTS], *large[OUTPUTS]; /* else's and then's, of cos and sin as they come */
  tn_expr offset;
} tables;

static const tni_tensor *table_of(const tni_graph *body, uint32_t o) {
  const tni_value *v = tni_match_value(body, body->outputs[o]);
  const bool matrix = v && v->pub.kind == TN_VALUE_CONST && v->tensor && v->tensor->data && v->tensor->rank == 2;
  return matrix && tni_dtype_bits(v->tensor->dtype) % 8 == 0 ? v->tensor : NULL;
}

static const tni_graph *body_of(const tni_node *n, const char *name) {
  const tn_attr *a = tni_attr(&n->pub, name);
  const tni_graph *body = a ? a->u.p : NULL;
  return body && body->n_outputs == OUTPUTS && n->pub.n_out == OUTPUTS ? body : NULL;
}

static bool find_tables(tables *t) {
  const tni_graph *then = body_of(t->branch, "then_branch"), *other = body_of(t->branch, "else_branch");
  for (uint32_t o = 0; then && other && o < OUTPUTS; o++) {
    const tni_tensor *a = t->large[o] = table_of(then, o), *b = t->small[o] = table_of(other, o);
    if (!a || !b || a->dtype != b->dtype || a->dims[1] != b->dims[1]) return false;
    if (a->dims[0] != t->large[0]->dims[0] || b->dims[0] != t->small[0]->dims[0]) return false;
  }
  return then && other;
}

/* rows * (e > c), of whole numbers. */
static bool find_offset(const tni_graph *g, tables *t) {
  tni_exprs *x = g->exprs;
  double c;
  const tni_node *greater = tni_match_node(g, tni_match_in(t->branch, 0), TN_OP_GREATER);
  const tni_value *e = greater ? tni_match_value(g, tni_match_in(greater, 0)) : NULL;
  if (!e || !e->elems || e->n_elems != 1 || !tni_match_scalar(g, tni_match_in(greater, 1), &c) || c < 0 ||
      c > INT32_MAX)
    return false;
  if (c != (double)(int64_t)c || !tni_symbols_given(g, tni_given_symbols(g), e->elems, 1)) return false;
  const tn_expr over = tni_ex_sub(x, e->elems[0], tni_ex_const(x, (int64_t)c));
  const tn_expr yes = tni_ex_min(x, tni_ex_const(x, 1), tni_ex_max(x, tni_ex_const(x, 0), over));
  t->offset = tni_ex_mul(x, yes, tni_ex_const(x, t->small[0]->dims[0]));
  return t->offset != TNI_EXPR_NONE;
}

/* Which of the If's outputs n reads as operand i. */
static uint32_t output_at(const tables *t, const tni_node *n, uint32_t i) {
  uint32_t o = 0;
  while (o < OUTPUTS && tni_match_in(n, i) != t->branch->pub.out[o]) o++;
  return o;
}

static bool is_reader(const tni_graph *g, const tables *t, const tni_node *n) {
  const tni_value *p = tni_match_value(g, tni_match_in(n, POSITIONS));
  if (n->pub.op != TN_OP_ROTARY_EMBEDDING || !p || p->pub.dtype != TN_DT_I64 || p->pub.rank > TN_MAX_RANK) return false;
  return n->n_raw <= 16 && output_at(t, n, COS) < OUTPUTS && output_at(t, n, SIN) < OUTPUTS &&
         output_at(t, n, 0) == OUTPUTS && output_at(t, n, POSITIONS) == OUTPUTS;
}

static bool has_readers_only(const tni_graph *g, const tables *t) {
  for (uint32_t o = 0; o < OUTPUTS; o++) {
    const tni_value *v = tni_match_value(g, t->branch->pub.out[o]);
    if (!v || v->is_output || !v->pub.n_uses) return false;
    for (uint32_t u = 0; u < v->pub.n_uses; u++)
      if (!g->nodes[v->pub.uses[u]]->dead && !is_reader(g, t, g->nodes[v->pub.uses[u]])) return false;
  }
  return true;
}

/* --- rewriting --- */

static tn_id join_tables(tni_graph *g, const tables *t, uint32_t o) {
  const tni_tensor *a = t->large[o], *b = t->small[o];
  const int64_t dims[2] = {b->dims[0] + a->dims[0], b->dims[1]};
  const size_t bytes = (size_t)(a->bytes + b->bytes);
  char *both = tni_arena_alloc(g->arena, bytes ? bytes : 1, 16);
  if (!both) return TN_NONE;
  memcpy(both, b->data, (size_t)b->bytes);
  memcpy(both + b->bytes, a->data, (size_t)a->bytes);
  const tni_tensor joined = {.dtype = a->dtype, .rank = 2, .dims = {dims[0], dims[1]}, .data = both, .bytes = bytes};
  const tn_id v = tni_graph_add_value(g, "", TN_VALUE_CONST, a->dtype);
  return v != TN_NONE && tni_value_set_tensor(g, v, &joined, NULL) == TN_OK ? v : TN_NONE;
}

/* positions + offset, made once for neighbours that have the same. */
static tn_id move_positions(tni_graph *g, tn_id positions, tn_id offset, tn_error *err) {
  const tni_value *p = g->values[positions];
  const tni_build_node add = {.type = "Add", .version = 14, .in = {positions, offset}, .n_in = 2};
  return tni_build_op(g, &add, TN_DT_I64, p->pub.rank, p->pub.dims, err);
}

static tn_status replace_reader(tni_graph *g, tni_node *n, const tn_id joined[2], tn_id positions, tn_error *err) {
  tni_build_node b = {
      .domain = n->pub.domain, .type = n->type, .version = n->version, .n_in = n->pub.n_in, .n_attr = n->n_raw};
  if (n->pub.n_in > TNI_BUILD_INPUTS) return tni_fail(err, TN_E_INTERNAL, n->pub.name, "too many operands");
  memcpy(b.in, n->pub.in, n->pub.n_in * sizeof *b.in);
  if (n->n_raw) memcpy(b.attr, n->raw, n->n_raw * sizeof *b.attr);
  b.in[COS] = joined[0];
  b.in[SIN] = joined[1];
  b.in[POSITIONS] = positions;
  return tni_build_in_place(g, n, &b, err);
}

/* The offset as a value, which the session knows; one that says something else than the first does is none of it. */
static tn_id offset_value(tni_graph *g, const tables *t) {
  if (g->tables != TN_NONE && g->values[g->tables]->elems[0] == t->offset) return g->tables;
  const tn_id v = tni_build_elems(g, &t->offset, 1);
  if (g->tables == TN_NONE) g->tables = v;
  return v;
}

static tn_status rewrite_readers(tni_graph *g, const tables *t, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  const tn_id offset = offset_value(g, t), all[OUTPUTS] = {join_tables(g, t, 0), join_tables(g, t, 1)};
  tn_id from = TN_NONE, to = TN_NONE;
  if (offset == TN_NONE || all[0] == TN_NONE || all[1] == TN_NONE) return tni_fail_memory(err, g->name);
  for (uint32_t i = 0; i < n_nodes; i++) {
    tni_node *n = g->nodes[i];
    if (n->dead || !is_reader(g, t, n)) continue;
    const tn_id joined[2] = {all[output_at(t, n, COS)], all[output_at(t, n, SIN)]};
    if (from != n->pub.in[POSITIONS]) to = move_positions(g, n->pub.in[POSITIONS], offset, err);
    from = n->pub.in[POSITIONS];
    if (to == TN_NONE) return tni_fail_memory(err, n->pub.name);
    const tn_status st = replace_reader(g, n, joined, to, err);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

tn_status tni_pass_tables(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  uint32_t fired = 0;
  for (uint32_t i = 0; !g->outer && i < n_nodes; i++) {
    tables t = {.branch = g->nodes[i]};
    if (t.branch->dead || t.branch->pub.op != TN_OP_IF || !find_tables(&t) || !find_offset(g, &t) ||
        !has_readers_only(g, &t))
      continue;
    const tn_status st = rewrite_readers(g, &t, err);
    if (st != TN_OK) return st;
    fired++;
  }
  return tni_build_done(g, fired, n, err);
}
