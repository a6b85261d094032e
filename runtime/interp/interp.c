/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/interp/cells.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/ops/kernel/kernel.h"
#include "runtime/shape/shape.h"

enum { DEPTH_LIMIT = 64 };

static void drop_all(tni_cell **c, uint32_t n) {
  for (uint32_t i = 0; c && i < n; i++) tni_cell_drop(c[i]);
}

/* --- one node --------------------------------------------------------------------------------------------------- */

static tn_status call_op(tni_interp *ip, const tni_node *n, const tni_tensor *const *in, tni_tensor *const *out) {
  if (tni_ops_is_empty((const tni_tensor *const *)out, n->pub.n_out)) return TN_OK;
  const uint64_t bytes = tni_ops_scratch(&n->pub, in, n->pub.n_in, n->pub.n_out ? out[0] : NULL, ip->run->n_workers);
  void *scratch = bytes && bytes < SIZE_MAX - 128 ? aligned_alloc(64, ((size_t)bytes + 63) & ~(size_t)63) : NULL;
  if (bytes && !scratch) return tni_fail_memory(ip->err, n->pub.name);
  const tni_kargs a = {&n->pub, in, out, n->pub.n_in, n->pub.n_out, scratch, ip->run, ip->err, NULL, NULL, false};
  tn_status st = tni_kernel_call(tni_ops_kernel(n->op), &a);
  free(scratch);
  return st;
}

static tn_status run_kernel(tni_interp *ip, const tni_node *n, tni_cell *const *in, tni_cell **out) {
  const uint32_t n_in = n->pub.n_in, n_out = n->pub.n_out;
  for (uint32_t i = 0; i < n_in; i++) {
    if (!in[i] || in[i]->form == TNI_FORM_TENSOR) continue;
    if (n->pub.op != TN_OP_IDENTITY || n_out != 1)
      return tni_fail(ip->err, TN_E_INVALID, n->pub.name, "input %u of %s '%s' is %s", i, n->type, n->pub.name,
                      in[i]->form == TNI_FORM_SEQUENCE ? "a sequence" : "an optional");
    out[0] = tni_cell_hold(in[i]);
    return TN_OK;
  }
  if (!tni_ops_kernel(n->op))
    return tni_fail(ip->err, TN_E_UNSUPPORTED, n->pub.name, "no host kernel for %s '%s'", n->type, n->pub.name);
  const tni_tensor **args = calloc(n_in + n_out + 1, sizeof *args);
  tni_tensor *res = calloc(n_out + 1, sizeof *res), **want = args ? (tni_tensor **)(args + n_in) : NULL;
  tn_status st = args && res ? TN_OK : tni_fail_memory(ip->err, n->pub.name);
  char why[160];
  for (uint32_t i = 0; st == TN_OK && i < n_in; i++) args[i] = in[i] ? &in[i]->t : NULL;
  if (st == TN_OK && !tni_ops_takes(&n->pub, args, n_in, why, sizeof why))
    st = tni_fail(ip->err, TN_E_UNSUPPORTED, n->pub.name, "%s '%s': %s", n->type, n->pub.name, why);
  if (st == TN_OK) st = tni_infer_concrete(n, args, n_in, res, n_out, ip->run, ip->err);
  for (uint32_t o = 0; st == TN_OK && o < n_out; o++) {
    if (n->pub.out[o] == TN_NONE) continue;
    out[o] = tni_cell_new(&res[o]);
    if (!out[o]) st = tni_fail_memory(ip->err, n->pub.name);
    want[o] = out[o] ? &out[o]->t : NULL;
  }
  if (st == TN_OK) st = call_op(ip, n, args, want);
  free(args);
  free(res);
  return st;
}

/* What came out of a subgraph or a sequence, beside what the model says of it: readers are planned for that. */
static tn_status as_said(const tni_interp *ip, const tni_frame *f, const tni_node *n, tni_cell *const *out) {
  for (uint32_t o = 0; o < n->pub.n_out; o++) {
    const tni_value *v = tni_graph_value(f->g, n->pub.out[o]);
    if (!v || !out[o] || (!v->type && v->pub.dtype == TN_DT_UNDEFINED)) continue;
    const bool is_tensor = out[o]->form == TNI_FORM_TENSOR;
    if (is_tensor == !v->type && (!is_tensor || out[o]->t.dtype == v->pub.dtype)) continue;
    return tni_fail(ip->err, TN_E_INVALID, n->pub.name, "'%s' is %s; the model says %s", v->pub.name,
                    is_tensor ? tni_dtype_name(out[o]->t.dtype) : "a sequence or an optional",
                    v->type ? "a sequence or an optional" : tni_dtype_name(v->pub.dtype));
  }
  return TN_OK;
}

static tn_status run_node(tni_interp *ip, tni_frame *f, const tni_node *n, tni_cell **in, tni_cell **out) {
  if (!n->op)
    return tni_fail(ip->err, TN_E_UNSUPPORTED, n->pub.name, "no host kernel for %s '%s'", n->type, n->pub.name);
  for (uint32_t i = 0; i < n->pub.n_in; i++)
    if (n->pub.in[i] != TN_NONE && !(in[i] = tni_interp_read(ip, f, n->pub.in[i]))) return ip->err->code;
  if (!(n->op->flags & TNI_OPF_CONTROL)) return run_kernel(ip, n, in, out);
  if (ip->depth >= DEPTH_LIMIT)
    return tni_fail(ip->err, TN_E_LIMIT, n->pub.name, "control flow is nested deeper than %d", DEPTH_LIMIT);
  const bool control =
      n->pub.op == TN_OP_IF || n->pub.op == TN_OP_LOOP || n->pub.op == TN_OP_SCAN || n->pub.op == TN_OP_SEQUENCE_MAP;
  ip->depth++;
  tn_status st = control ? tni_interp_control(ip, f, n, in, out) : tni_interp_sequence(ip, n, in, out);
  ip->depth--;
  if (st == TN_OK) st = as_said(ip, f, n, out);
  if (st != TN_OK) tni_error_prefix(ip->err, "%s '%s'", n->type, n->pub.name);
  return st;
}

tn_status tni_interp_node(tni_interp *ip, tni_frame *f, const tni_node *n) {
  if (tni_run_cancelled(ip->run)) return tni_interp_stop(ip, n->pub.name);
  ip->graph = tni_interp_graph;
  const uint32_t total = (uint32_t)n->pub.n_in + n->pub.n_out;
  tni_cell **all = calloc(total + 1, sizeof *all), **out = all + (all ? n->pub.n_in : 0);
  if (!all) return tni_fail_memory(ip->err, n->pub.name);
  tn_status st = run_node(ip, f, n, all, out);
  for (uint32_t o = 0; st == TN_OK && o < n->pub.n_out; o++) {
    if (n->pub.out[o] == TN_NONE) continue;
    tni_cell_drop(f->cells[n->pub.out[o]]);
    f->cells[n->pub.out[o]] = out[o];
    out[o] = NULL;
  }
  drop_all(all, total);
  free(all);
  return st;
}

/* --- a graph ---------------------------------------------------------------------------------------------------- */

static tn_id read_at(const tni_node *n, uint32_t i) {
  return i < n->pub.n_in ? n->pub.in[i] : n->captures[i - n->pub.n_in];
}

/* How often each value will be read, outputs once more. */
static void count_reads(const tni_graph *g, uint32_t *left) {
  for (uint32_t i = 0; i < g->n_nodes; i++)
    for (uint32_t k = 0; !g->nodes[i]->dead && k < g->nodes[i]->pub.n_in + g->nodes[i]->n_captures; k++)
      if (read_at(g->nodes[i], k) != TN_NONE) left[read_at(g->nodes[i], k)]++;
  for (uint32_t i = 0; i < g->n_outputs; i++) left[g->outputs[i]]++;
}

static void drop_read(tni_frame *f, const tni_node *n, uint32_t *left) {
  for (uint32_t k = 0; k < n->pub.n_in + n->n_captures; k++) {
    const tn_id v = read_at(n, k);
    if (v == TN_NONE || --left[v]) continue;
    tni_cell_drop(f->cells[v]);
    f->cells[v] = NULL;
  }
  for (uint32_t o = 0; o < n->pub.n_out; o++) {
    const tn_id v = n->pub.out[o];
    if (v == TN_NONE || left[v]) continue;
    tni_cell_drop(f->cells[v]);
    f->cells[v] = NULL;
  }
}

static tn_status run_frame(tni_interp *ip, tni_frame *f, uint32_t *left, tni_cell **out) {
  const tni_graph *g = f->g;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    if (g->nodes[i]->dead) continue;
    tn_status st = tni_interp_node(ip, f, g->nodes[i]);
    if (st != TN_OK) return st;
    drop_read(f, g->nodes[i], left);
  }
  for (uint32_t i = 0; i < g->n_outputs; i++)
    if (!(out[i] = tni_interp_read(ip, f, g->outputs[i]))) return ip->err->code;
  return TN_OK;
}

tn_status tni_interp_graph(tni_interp *ip, const tni_graph *g, const tni_frame *outer, tni_cell *const *in,
                           uint32_t n_in, tni_cell **out) {
  if (n_in != g->n_inputs)
    return tni_fail(ip->err, TN_E_INVALID, g->name, "subgraph '%s' has %u inputs, not %u", g->name, g->n_inputs, n_in);
  if (tni_run_cancelled(ip->run)) return tni_interp_stop(ip, g->name); /* it may have no node */
  tni_frame f = {.g = g, .cells = calloc(g->n_values + 1, sizeof *f.cells), .outer = outer};
  uint32_t *left = calloc(g->n_values + 1, sizeof *left);
  tn_status st = f.cells && left ? TN_OK : tni_fail_memory(ip->err, g->name);
  memset(out, 0, g->n_outputs * sizeof *out);
  if (st == TN_OK) {
    for (uint32_t i = 0; i < n_in; i++) {
      tni_cell_drop(f.cells[g->inputs[i]]); /* a name that stands twice */
      f.cells[g->inputs[i]] = tni_cell_hold(in[i]);
    }
    count_reads(g, left);
    st = run_frame(ip, &f, left, out);
  }
  if (st != TN_OK) {
    drop_all(out, g->n_outputs);
    memset(out, 0, g->n_outputs * sizeof *out);
  }
  drop_all(f.cells, f.cells ? g->n_values : 0);
  free(f.cells);
  free(left);
  return st;
}
