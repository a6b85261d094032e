/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "runtime/host/device.h"
#include "runtime/ops/arith/arith.h"

static bool shape_known(const tn_value *v) {
  if (v->rank > TN_MAX_RANK) return false;
  for (uint32_t d = 0; d < v->rank; d++)
    if (v->dims[d] == TNI_EXPR_NONE) return false;
  return true;
}

static void refuse_claim(tn_claim *c, uint32_t why) {
  c->verdict = TN_NO;
  c->reason = why;
}

static const char *type_of(const tn_node *n) { return n->type ? n->type : "?"; }

static void refuse_op(tn_claim *c, const tni_host_device *d, const tn_graph *g, tn_id id, const tni_op *op) {
  const tn_node *n = g->nodes[id];
  refuse_claim(c, TN_WHY_OP);
  if (op) {
    snprintf(c->text, sizeof c->text, "%s: control flow has no host kernel", op->name);
    return;
  }
  snprintf(c->text, sizeof c->text, "no host kernel for %s.%s-%lld", n->domain && n->domain[0] ? n->domain : "ai.onnx",
           type_of(n), (long long)d->core->version(g, id));
}

/* Unknown shapes: what there is of them may be unknown because of data, or because something upstream is. */
static bool shapes_fit(tn_claim *c, const tn_graph *g, const tn_node *n, const tni_op *op) {
  for (uint32_t i = 0; i < n->n_in + (uint32_t)n->n_out; i++) {
    const bool is_out = i >= n->n_in;
    const tn_id id = is_out ? n->out[i - n->n_in] : n->in[i];
    if (id == TN_NONE || shape_known(g->values[id])) continue;
    const tn_value *v = g->values[id];
    if (is_out && v->n_uses == 0 && v->kind != TN_VALUE_OUTPUT && n->n_out > 1) continue;
    refuse_claim(c, TN_WHY_SHAPE);
    snprintf(c->text, sizeof c->text, "%s: shape of %s '%.60s' is not known%s", op->name, is_out ? "output" : "input",
             v->name ? v->name : "", op->flags & TNI_OPF_DATA_DEPENDENT ? " (depends on data)" : "");
    return false;
  }
  return true;
}

static bool dtypes_fit(tn_claim *c, const tn_graph *g, const tn_node *n, const tni_op *op) {
  enum { MANY = 32 };
  const tn_value *in[MANY] = {NULL};
  for (uint32_t at = 0; at < n->n_in || at == 0; at += MANY - 1) {
    const uint32_t rest = n->n_in - at < MANY - 1 ? n->n_in - at : MANY - 1;
    /* From the second piece on, input 0 stays in place: the others are compared with it. */
    const uint32_t lead = at ? 1 : 0;
    for (uint32_t i = 0; i < rest; i++) in[lead + i] = n->in[at + i] == TN_NONE ? NULL : g->values[n->in[at + i]];
    if (!tni_ops_accepts(n, in, lead + rest, c->text, sizeof c->text)) {
      refuse_claim(c, op->flags & TNI_OPF_DATA_DEPENDENT ? TN_WHY_SHAPE : TN_WHY_DTYPE);
      return false;
    }
  }
  return true;
}

/* A guess that orders placements: bytes at memory speed, products at what one core's blocked loop reaches. */
static void claim_cost(tn_claim *c, const tni_host_device *d, const tn_graph *g, const tn_node *n, const tn_dims *at) {
  tni_tensor in[2] = {{0}}, out = {0}, t;
  double bytes = 0;
  for (uint32_t i = 0; i < n->n_in + (uint32_t)n->n_out; i++) {
    const tn_id id = i < n->n_in ? n->in[i] : n->out[i - n->n_in];
    if (id == TN_NONE) continue;
    const bool is_const = g->values[id]->kind == TN_VALUE_CONST;
    if ((!at && !is_const) || tni_hdev_header(d->host, g, g->values[id], at, &t, NULL)) continue;
    bytes += (double)t.bytes;
    if (is_const && i < n->n_in) c->weight_bytes += t.bytes;
    if (i < 2 && i < n->n_in) in[i] = t;
    if (i == n->n_in) out = t;
  }
  if (!at) return;
  c->macs = tni_hdev_macs(n, in, n->n_in < 2 ? n->n_in : 2, &out);
  c->cost_ns = 1000 + 0.1 * bytes + 0.06 * c->macs;
}

static bool lacks_kernel(const tn_node *n) {
  const tni_op *op = n->op == TN_OP_UNKNOWN ? NULL : tni_op_by_id(n->op);
  return !op || (!(op->flags & TNI_OPF_CONTROL) && !tni_ops_kernel(op));
}

/* Shapes come when the node runs, and so do most dtypes' checks (runtime/interp/interp.c). */
static bool is_dynamic(tn_claim *c, const tni_host_device *d, const tn_graph *g, tn_id id, const tni_op *op) {
  if (!d->core->is_dynamic(g, id)) return false;
  const tn_node *n = g->nodes[id], *bad = d->core->find(g, id, lacks_kernel);
  bool typed = !(op->flags & TNI_OPF_CONTROL);
  for (uint32_t i = 0; i < n->n_in && typed; i++)
    typed = n->in[i] == TN_NONE || g->values[n->in[i]]->dtype != TN_DT_UNDEFINED;
  if (bad) {
    refuse_claim(c, TN_WHY_OP);
    snprintf(c->text, sizeof c->text, "%s: no host kernel for %s '%.60s' in its subgraph", op->name,
             type_of(bad), bad->name);
  } else if (typed) {
    (void)dtypes_fit(c, g, n, op);
  }
  return true;
}

static void judge_node(tn_claim *c, const tni_host_device *d, const tn_graph *g, tn_id id, const tn_dims *at) {
  const tn_node *n = g->nodes[id];
  const tni_op *op = n->op == TN_OP_UNKNOWN ? NULL : tni_op_by_id(n->op);
  c->verdict = TN_YES;
  if (op && is_dynamic(c, d, g, id, op)) return;
  if (op && (op->flags & TNI_OPF_DATA_DEPENDENT)) { /* nobody marked it: it cannot be planned */
    refuse_claim(c, TN_WHY_SHAPE);
    snprintf(c->text, sizeof c->text, "%s: the output's shape depends on data", op->name);
  } else if (!tni_ops_kernel(op))
    refuse_op(c, d, g, id, op);
  else if (d->no_matmul && (n->op == TN_OP_MATMUL || n->op == TN_OP_GEMM || n->op == TN_OP_FUSED_MATMUL)) {
    refuse_claim(c, TN_WHY_OPTION);
    snprintf(c->text, sizeof c->text, "%s: the option no_matmul is set", op->name);
  } else if (dtypes_fit(c, g, n, op) && shapes_fit(c, g, n, op))
    claim_cost(c, d, g, n, at);
}

tn_status tni_hdev_claim(tn_device *dev, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink,
                         tn_error *err) {
  tni_error_begin(err);
  const tni_host_device *d = (const tni_host_device *)dev;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    tn_claim c = {.h = TN_HDR(tn_claim)};
    judge_node(&c, d, g, i, at);
    tn_status s = sink->node(sink->ctx, i, &c);
    if (s) return s;
  }
  return TN_OK;
}

tn_status tni_hdev_header(const tn_host *host, const tn_graph *g, const tn_value *v, const tn_dims *dims, tni_tensor *t,
                          tn_error *err) {
  const tn_dims none = {.h = TN_HDR(tn_dims)};
  int64_t n;
  *t = (tni_tensor){.dtype = v->dtype, .rank = v->rank};
  if (v->rank > TN_MAX_RANK) return tni_fail(err, TN_E_INVALID, v->name, "unknown rank");
  for (uint32_t d = 0; d < v->rank; d++)
    if (host->eval(g, v->dims[d], dims ? dims : &none, &t->dims[d]) != TN_OK || t->dims[d] < 0)
      return tni_fail(err, TN_E_INVALID, v->name, "dim %u has no value", d);
  tn_status s = tni_dims_count(t->dims, t->rank, &n);
  if (!s) s = tni_dtype_bytes(t->dtype, n, &t->bytes);
  return s ? tni_fail(err, s, v->name, "the size is out of range") : TN_OK;
}

double tni_hdev_macs(const tn_node *n, const tni_tensor *in, uint32_t n_in, const tni_tensor *out) {
  if (n->op == TN_OP_FUSED_MATMUL && n_in) return tni_fused_macs(n, &in[0]);
  if (n->op == TN_OP_CONV && n_in > 1 && in[1].rank && in[1].dims[0])
    return (double)tni_knumel(out) * (double)tni_dim_product(&in[1], 1, in[1].rank);
  if ((n->op != TN_OP_MATMUL && n->op != TN_OP_GEMM) || n_in < 2 || !in[0].rank) return 0;
  const bool ta = n->op == TN_OP_GEMM && tni_at_i(n, TNI_A_TRANSA, 0) && in[0].rank == 2;
  return (double)tni_knumel(out) * (double)in[0].dims[ta ? 0 : in[0].rank - 1];
}
