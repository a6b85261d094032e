/* SPDX-License-Identifier: Apache-2.0
 *
 * If, Loop and SequenceMap as ONNX 25 defines them.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/interp/turns.h"

/* A Loop that turns this often is taken for one that does not end. */
#define TURNS_MAX (INT64_C(1) << 31)

static tn_status read_scalar(const tni_interp *ip, const tni_node *n, const tni_cell *c, const char *what, int64_t *v) {
  int64_t count;
  if (!c || tni_dims_count(c->t.dims, c->t.rank, &count) != TN_OK || count != 1 ||
      (c->t.dtype != TN_DT_BOOL && c->t.dtype != TN_DT_I64))
    return tni_fail(ip->err, TN_E_INVALID, n->pub.name, "its %s must be one element", what);
  tni_tensor_to_i64(&c->t, 0, 1, v);
  return TN_OK;
}

static tni_cell *scalar_cell(uint32_t dtype, int64_t v) {
  const tni_tensor t = {.dtype = dtype, .bytes = dtype == TN_DT_BOOL ? 1 : 8};
  tni_cell *c = tni_cell_new(&t);
  if (c && dtype == TN_DT_BOOL)
    *(uint8_t *)c->t.data = v != 0;
  else if (c)
    *(int64_t *)c->t.data = v;
  return c;
}

/* --- If --------------------------------------------------------------------------------------------------------- */

static tn_status run_if(tni_interp *ip, tni_frame *f, const tni_node *n, tni_cell *const *in, tni_cell **out) {
  int64_t cond;
  tn_status st = read_scalar(ip, n, n->pub.n_in ? in[0] : NULL, "condition", &cond);
  if (st != TN_OK) return st;
  const tni_graph *g = tni_body_of(n, cond ? "then_branch" : "else_branch");
  if (!g || g->n_outputs != n->pub.n_out)
    return tni_fail(ip->err, TN_E_INVALID, n->pub.name, "the branch has %u outputs, the node %u", g ? g->n_outputs : 0,
                    n->pub.n_out);
  return ip->graph(ip, g, f, NULL, 0, out);
}

/* --- Loop ------------------------------------------------------------------------------------------------------- */

static tn_status loop_turns(tni_turns *t, int64_t trips, int64_t go) {
  tn_status st = TN_OK;
  for (int64_t i = 0; st == TN_OK && go && (trips < 0 || i < trips); i++) {
    if (i == TURNS_MAX) return tni_fail(t->ip->err, TN_E_LIMIT, t->n->pub.name, "it does not end");
    tni_cell_drop(t->args[0]);
    tni_cell_drop(t->args[1]);
    t->args[0] = scalar_cell(TN_DT_I64, i);
    t->args[1] = scalar_cell(TN_DT_BOOL, 1);
    if (!t->args[0] || !t->args[1]) return tni_fail_memory(t->ip->err, t->n->pub.name);
    st = tni_turn(t);
    if (st == TN_OK) st = read_scalar(t->ip, t->n, t->res[0], "body's condition", &go);
    tni_cell_drop(t->res[0]);
    t->res[0] = NULL;
  }
  return st;
}

/* Inputs M, cond, v...; body (i, cond, v...) -> (cond, v..., stacked...). */
static tn_status run_loop(tni_interp *ip, tni_frame *f, const tni_node *n, tni_cell *const *in, tni_cell **out) {
  const uint32_t n_v = n->pub.n_in < 2 ? 0 : n->pub.n_in - 2u;
  tni_turns t = {.ip = ip, .f = f, .n = n, .body = tni_body_of(n, "body"), .first = 1, .n_carried = n_v};
  int64_t trips = -1, go = 1;
  if (!t.body || t.body->n_inputs != n_v + 2 || t.body->n_outputs != n->pub.n_out + 1u || n->pub.n_out < n_v)
    return tni_fail(ip->err, TN_E_INVALID, n->pub.name, "its body takes %u and gives %u values; %u and %u are due",
                    t.body ? t.body->n_inputs : 0, t.body ? t.body->n_outputs : 0, n_v + 2, n->pub.n_out + 1u);
  t.n_stacked = n->pub.n_out - n_v;
  tn_status st = n->pub.n_in > 0 && in[0] ? read_scalar(ip, n, in[0], "trip count", &trips) : TN_OK;
  if (st == TN_OK && n->pub.n_in > 0 && in[0] && trips < 0) trips = 0;
  if (st == TN_OK && n->pub.n_in > 1 && in[1]) st = read_scalar(ip, n, in[1], "condition", &go);
  if (st == TN_OK) st = tni_turns_start(&t, 2);
  for (uint32_t i = 0; st == TN_OK && i < n_v; i++) {
    if (!in[2 + i]) st = tni_fail(ip->err, TN_E_INVALID, n->pub.name, "input %u is missing", 2 + i);
    if (in[2 + i]) t.carried[i] = tni_cell_hold(in[2 + i]);
  }
  if (st == TN_OK) st = loop_turns(&t, trips, go);
  for (uint32_t i = 0; st == TN_OK && i < t.n_stacked; i++)
    if (n->pub.out[n_v + i] != TN_NONE) st = tni_turns_join(&t, i, 0, false, &out[n_v + i]);
  if (st == TN_OK) tni_turns_give(&t, out);
  tni_turns_end(&t);
  return st;
}

/* --- SequenceMap ------------------------------------------------------------------------------------------------ */

/* One turn per element of the first input; other sequences give the element of that number, tensors stay. */
static tn_status map_turn(tni_interp *ip, tni_frame *f, const tni_node *n, const tni_graph *body, tni_cell *const *in,
                          uint32_t turn, tni_cell **args, tni_cell **res) {
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    if (!in[i]) return tni_fail(ip->err, TN_E_INVALID, n->pub.name, "input %u is missing", i);
    if (in[i]->form == TNI_FORM_SEQUENCE && in[i]->n != in[0]->n)
      return tni_fail(ip->err, TN_E_INVALID, n->pub.name, "sequences of %u and %u elements", in[0]->n, in[i]->n);
    args[i] = in[i]->form == TNI_FORM_SEQUENCE ? in[i]->items[turn] : in[i];
  }
  return ip->graph(ip, body, f, args, n->pub.n_in, res);
}

static tn_status run_map(tni_interp *ip, tni_frame *f, const tni_node *n, tni_cell *const *in, tni_cell **out) {
  const tni_graph *body = tni_body_of(n, "body");
  if (!body || body->n_inputs != n->pub.n_in || body->n_outputs != n->pub.n_out)
    return tni_fail(ip->err, TN_E_INVALID, n->pub.name, "its body takes %u and gives %u values; %u and %u are due",
                    body ? body->n_inputs : 0, body ? body->n_outputs : 0, n->pub.n_in, n->pub.n_out);
  if (!in[0] || in[0]->form != TNI_FORM_SEQUENCE)
    return tni_fail(ip->err, TN_E_INVALID, n->pub.name, "input 0 is no sequence");
  tni_cell **args = calloc((size_t)n->pub.n_in + n->pub.n_out + 1, sizeof *args),
           **res = args + (args ? n->pub.n_in : 0);
  tn_status st = args ? TN_OK : tni_fail_memory(ip->err, n->pub.name);
  for (uint32_t o = 0; st == TN_OK && o < n->pub.n_out; o++)
    if (!(out[o] = tni_cell_group(TNI_FORM_SEQUENCE, in[0]->n))) st = tni_fail_memory(ip->err, n->pub.name);
  for (uint32_t t = 0; st == TN_OK && t < in[0]->n; t++) {
    st = map_turn(ip, f, n, body, in, t, args, res);
    for (uint32_t o = 0; st == TN_OK && o < n->pub.n_out; o++) out[o]->items[t] = res[o];
  }
  free(args);
  return st;
}

tn_status tni_interp_control(tni_interp *ip, tni_frame *f, const tni_node *n, tni_cell *const *in, tni_cell **out) {
  switch (n->pub.op) {
    case TN_OP_IF:
      return run_if(ip, f, n, in, out);
    case TN_OP_LOOP:
      return run_loop(ip, f, n, in, out);
    case TN_OP_SCAN:
      return tni_interp_scan(ip, f, n, in, out);
    case TN_OP_SEQUENCE_MAP:
      return run_map(ip, f, n, in, out);
    default:
      return tni_fail(ip->err, TN_E_UNSUPPORTED, n->pub.name, "control flow that Tenon does not know");
  }
}
