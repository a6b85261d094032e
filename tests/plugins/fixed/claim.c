/* SPDX-License-Identifier: Apache-2.0
 *
 * What it takes: the built-in device's answers, of some operators, and only for runs of 1 and 16 rows (ok_long, long_run: of
 * 256 too).
 */
#include <stdio.h>
#include <string.h>

#include "fixed.h"

enum { ONE = 1, MANY = 16, LONG = 256 };
static const int64_t lengths[] = {ONE, MANY, LONG};
static const tn_value_set sets[] = {{.v = lengths, .n = 2}}, long_sets[] = {{.v = lengths, .n = 3}};

typedef struct filter {
  const fixed_device *d;
  const tn_graph *g;
  const tn_claim_sink *sink;
} filter;

static bool is_ours(uint32_t op) {
  static const uint32_t ours[] = {TN_OP_ADD,
                                  TN_OP_SUB,
                                  TN_OP_MUL,
                                  TN_OP_GELU,
                                  TN_OP_SWISH,
                                  TN_OP_SOFTMAX,
                                  TN_OP_MATMUL,
                                  TN_OP_FUSED_MATMUL,
                                  TN_OP_ATTENTION,
                                  TN_OP_ELEMENTWISE,
                                  TN_OP_TENSOR_SCATTER,
                                  TN_OP_RMS_NORMALIZATION,
                                  TN_OP_LAYER_NORMALIZATION};
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
    if (ours[i] == op) return true;
  return false;
}

/* The value whose rows are those of the run. */
const tn_value *fixed_rows_of(const tn_graph *g, const tn_node *n) {
  const tn_id v = n->op == TN_OP_TENSOR_SCATTER ? n->in[1] : n->out[0];
  return v == TN_NONE ? NULL : g->values[v];
}

static bool is_float(const tn_graph *g, const tn_node *n) {
  for (uint32_t i = 0; i < n->n_in; i++)
    if (n->in[i] != TN_NONE && g->values[n->in[i]]->dtype != TN_DT_F32 && n->op != TN_OP_ATTENTION &&
        n->op != TN_OP_TENSOR_SCATTER)
      return false;
  return true;
}

/* NULL: taken; k->rel 0: whatever the run is. */
static const char *refusal(const filter *f, const tn_node *n, tn_constraint *k, uint32_t *reason) {
  *reason = TN_WHY_OP;
  const bool apart = f->d->wrong == FIXED_ok_apart || f->d->wrong == FIXED_apart_softcap; /* others append */
  const bool kept = f->d->wrong == FIXED_ok_kept || f->d->wrong == FIXED_kept_scale; /* attends over caches alone */
  if (kept && n->op == TN_OP_ATTENTION && f->g->values[n->in[1]]->kind != TN_VALUE_STATE) return "fixed attends over caches";
  if (!is_ours(n->op) || (apart && n->op == TN_OP_TENSOR_SCATTER)) return "fixed does not compute it";
  *reason = TN_WHY_DTYPE;
  if (!is_float(f->g, n)) return "fixed computes in float32";
  const tn_value *v = fixed_rows_of(f->g, n);
  int64_t lo, hi;
  *reason = TN_WHY_SHAPE;
  if (!v || v->rank < 2 || v->rank > 4) return "fixed computes matrices, of up to four dims";
  const tn_expr rows = v->dims[v->rank - 2];
  if (f->d->host->range(f->g, rows, &lo, &hi) != TN_OK) return "the rows are not known";
  if (lo == hi && lo != ONE && lo != MANY) return "fixed runs 1 or 16 rows";
  if (lo == hi) return NULL;
  *k = (tn_constraint){.lhs = rows, .rel = TN_REL_IN};
  const bool one_length = f->d->old && !(f->d->wrong == FIXED_older && f->g->phase == TN_PHASE_DECODE);
  if (one_length || f->d->wrong == FIXED_ok_private)
    *k = (tn_constraint){.lhs = rows, .rel = TN_REL_EQ, .rhs = f->g->phase == TN_PHASE_DECODE ? ONE : MANY};
  return NULL;
}

static tn_status on_node(void *ctx, tn_id node, const tn_claim *c) {
  const filter *f = ctx;
  tn_claim mine = *c;
  tn_constraint rows = {0};
  uint32_t reason;
  const char *why = c->verdict == TN_YES ? refusal(f, f->g->nodes[node], &rows, &reason) : NULL;
  if (why) {
    mine = (tn_claim){.h = TN_HDR(tn_claim), .verdict = TN_NO, .reason = reason};
    snprintf(mine.text, sizeof mine.text, "%s", why);
  } else if (rows.rel) {
    mine.constraints = &rows;
    mine.n_constraints = 1;
    mine.sets = f->d->wrong == FIXED_ok_long || f->d->wrong == FIXED_long_run ? long_sets : sets;
    mine.n_sets = rows.rel == TN_REL_IN;
  }
  const tn_node *n = f->g->nodes[node];
  if (!why && n->op == TN_OP_MATMUL && fixed_packs(f->d, f->g, n->in[1])) mine.format = f->d->format;
  return f->sink->node(f->sink->ctx, node, &mine);
}

static tn_status say_layouts(const fixed_device *d, const tn_claim_sink *sink, tn_id v) {
  static const tn_layout floats = {.h = TN_HDR(tn_layout), .dtype = TN_DT_F32, .rank = 4, .order = {0, 1, 2, 3}},
                         codes = {.h = TN_HDR(tn_layout), .dtype = TN_DT_I8, .rank = 4, .order = {0, 1, 2, 3}};
  const bool codes_first =
      d->wrong == FIXED_ok_codes || (d->wrong >= FIXED_int8_scale && d->wrong <= FIXED_int8_window);
  const tn_layout *list[] = {codes_first ? &codes : &floats, codes_first ? &floats : &codes};
  return sink->state(sink->ctx, v, list, 2);
}

tn_status fixed_claim(tn_device *pub, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err) {
  const fixed_device *d = (const fixed_device *)pub;
  filter f = {d, g, sink};
  const tn_claim_sink mine = {.h = TN_HDR(tn_claim_sink), .ctx = &f, .node = on_node};
  tn_status st = d->inner->claim(d->inner, g, at, &mine, err);
  for (tn_id v = 0; st == TN_OK && v < g->n_values; v++)
    if (g->values[v]->kind == TN_VALUE_STATE && g->values[v]->producer == TN_NONE) st = say_layouts(d, sink, v);
  return st;
}
