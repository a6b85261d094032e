/* SPDX-License-Identifier: Apache-2.0
 *
 * grown: what the skeleton of `tenon new-plugin` became after an afternoon, a backend on the CPU. It has what acme lacks:
 * operators with attributes, chains behind products, groups of weights, scratch, the host's pool (engine 0). */
#include <math.h>
#include <tenon/attrs.h>

#define PLUGIN_NAME "grown"
#define PLUGIN_VERSION "0.1.0"
#include "skeleton.h"
#include "format.h"
#include "program.h"

static const tn_format *const formats[] = {&g4};
static void set_up(backend *p) {
  p->pub.formats = formats;
  p->pub.n_formats = 1;
  p->caps.dtypes = UINT64_C(1) << TN_DT_F32;
}
static tn_status ask_driver(backend *p, uint32_t *n, tn_error *err) {
  *n = 0;
  if (!TN_HAS(p->host, tn_host, symbols)) return fail(err, TN_E_INCOMPATIBLE, "grown needs a host with eval, range and symbols");
  (void)p, (void)err;
  *n = 1;
  return TN_OK;
}

/* ---- claims ---- */

static int is_product(const tn_node *n) {
  return n->op == TN_OP_MATMUL || n->op == TN_OP_GEMM || n->op == TN_OP_FUSED_MATMUL;
}
static uint32_t n_weights(const tn_node *n) {
  return n->op == TN_OP_FUSED_MATMUL ? (uint32_t)n->attr[TN_FUSED_N_WEIGHTS]->u.i : 1;
}
static int is_kn(const tn_node *n) {
  return n->op == TN_OP_MATMUL || !n->attr[n->op == TN_OP_GEMM ? TN_GEMM_TRANS_B : TN_FUSED_TRANS_B]->u.i;
}
static const tn_value *input(const tn_graph *g, const tn_node *n, uint32_t i) {
  return i < n->n_in && n->in[i] != TN_NONE ? g->values[n->in[i]] : NULL;
}

static uint32_t refuse_product(const tn_graph *g, const tn_node *n, const char **text) {
  *text = "a weight is no constant float32 matrix";
  for (uint32_t i = 1; i <= n_weights(n); i++) {
    const tn_value *w = input(g, n, i);
    if (!w || w->kind != TN_VALUE_CONST || w->rank != 2) return TN_WHY_NOT_CONST;
  }
  *text = "products of matrices only";
  return input(g, n, 0)->rank < 2 ? TN_WHY_SHAPE : TN_WHY_NONE;
}

static uint32_t refusal(const tn_graph *g, const tn_node *n, const char **text) {
  *text = "grown does not know this operator";
  const int norm = n->op == TN_OP_RMS_NORMALIZATION || n->op == TN_OP_LAYER_NORMALIZATION;
  if (!is_product(n) && !norm && n->op != TN_OP_SOFTMAX && n->op != TN_OP_LEAKY_RELU && n->op != TN_OP_ELU &&
      n->op != TN_OP_HARD_SIGMOID && n->op != TN_OP_ADD && n->op != TN_OP_MUL && n->op != TN_OP_TRANSPOSE)
    return TN_WHY_OP;
  *text = "grown computes in float32";
  for (uint32_t i = 0; i < n->n_in; i++)
    if (input(g, n, i) && input(g, n, i)->dtype != TN_DT_F32) return TN_WHY_DTYPE;
  *text = "an input is missing, or too many dims";
  for (uint32_t i = 0; i < n->n_in; i++)
    if (!input(g, n, i) || input(g, n, i)->rank > TN_MAX_RANK) return TN_WHY_SHAPE;
  const tn_value *x = input(g, n, 0);
  if (is_product(n)) return refuse_product(g, n, text);
  *text = "norms over the last axis only, with a scale of its length";
  const int64_t axis = norm ? n->attr[TN_AT_RMS_NORMALIZATION_AXIS]->u.i : 0;
  if (norm && (n->n_out > 1 || !x->rank || (axis != -1 && axis != (int64_t)x->rank - 1))) return TN_WHY_ATTR;
  for (uint32_t i = 1; norm && i < n->n_in; i++)
    if (input(g, n, i)->rank != 1 || g->values[n->in[i]]->dims[0] != x->dims[x->rank - 1]) return TN_WHY_SHAPE;
  *text = "no softmax of older models, nor of a number";
  if (n->op == TN_OP_SOFTMAX && (n->attr[TN_SOFTMAX_COERCE_2D]->u.i || !x->rank)) return TN_WHY_ATTR;
  return TN_WHY_NONE;
}

static tn_status claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err) {
  tn_status st = TN_OK;
  (void)d, (void)at, (void)err;
  for (tn_id i = 0; st == TN_OK && i < g->n_nodes; i++) {
    const char *text = "";
    tn_claim c = {.h = TN_HDR(tn_claim), .verdict = TN_YES};
    c.reason = refusal(g, g->nodes[i], &text);
    if (c.reason != TN_WHY_NONE) {
      c.verdict = TN_NO;
      snprintf(c.text, sizeof c.text, "%s", text);
    } else if (is_product(g->nodes[i]))
      c.format = &g4;
    st = sink->node(sink->ctx, i, &c);
  }
  return st;
}
#include "lower.h"
#include "kernels.h"
#include "plan.h"

TN_PLUGIN(grown, entry)
