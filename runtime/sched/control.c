/* SPDX-License-Identifier: Apache-2.0
 *
 * If, Loop and Scan as ONNX 25 defines them. What a turn gives to a stacked output is kept until the end, when its
 * place is known.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/sched/interp.h"

/* A Loop that turns this often is taken for one that does not end. */
#define TURNS_MAX (INT64_C(1) << 31)

/* Results of all turns for one stacked output. */
typedef struct stack {
  tni_cell **turn;
  uint32_t n, cap;
} stack;

static void stack_free(stack *s, uint32_t n) {
  for (uint32_t i = 0; s && i < n; i++) {
    for (uint32_t k = 0; k < s[i].n; k++) tni_cell_drop(s[i].turn[k]);
    free(s[i].turn);
  }
  free(s);
}

/* Takes c over, also when it fails. */
static tn_status push(const tni_interp *ip, const tni_node *n, stack *s, tni_cell *c) {
  if (s->n == s->cap) {
    const uint32_t cap = s->cap ? s->cap * 2 : 16;
    tni_cell **grown = cap > s->cap ? realloc(s->turn, cap * sizeof *grown) : NULL;
    if (!grown) {
      tni_cell_drop(c);
      return tni_fail_memory(ip->err, n->pub.name);
    }
    s->turn = grown;
    s->cap = cap;
  }
  s->turn[s->n++] = c;
  return TN_OK;
}

static bool same_shape(const tni_tensor *a, const tni_tensor *b) {
  return a->dtype == b->dtype && a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

/* Bytes of t's elements behind one index of the axes before `axis`, and how many such indices there are. */
static void blocks(const tni_tensor *t, uint32_t axis, size_t *bytes, int64_t *outer) {
  *outer = 1;
  *bytes = tni_dtype_bits(t->dtype) / 8;
  for (uint32_t d = 0; d < axis; d++) *outer *= t->dims[d];
  for (uint32_t d = axis; d < t->rank; d++) *bytes *= (size_t)t->dims[d];
}

static tn_status size_of(const tni_interp *ip, const tni_node *n, tni_tensor *t) {
  int64_t count;
  if (tni_dtype_bits(t->dtype) % 8 || tni_dtype_bits(t->dtype) == 0)
    return tni_fail(ip->err, TN_E_UNSUPPORTED, n->pub.name, "stacking elements of %s", tni_dtype_name(t->dtype));
  tn_status st = tni_dims_count(t->dims, t->rank, &count);
  if (st == TN_OK) st = tni_dtype_bytes(t->dtype, count, &t->bytes);
  return st == TN_OK ? st : tni_fail(ip->err, TN_E_LIMIT, n->pub.name, "a stacked output is too large");
}

/* What a stacked output would be of no turns: declared or inferred dims of the body's output, 0 where unknown. */
static tn_status shape_of_none(const tni_interp *ip, const tni_node *n, const tni_graph *body, uint32_t o,
                               tni_tensor *t) {
  const tni_value *v = tni_graph_value(body, body->outputs[o]);
  const bool known = v->pub.rank != TNI_RANK_UNKNOWN;
  const uint32_t rank = known ? v->pub.rank : v->hint_rank;
  const tn_expr *dims = known ? v->pub.dims : v->hint_dims;
  *t = (tni_tensor){.dtype = v->pub.dtype};
  if (rank >= TN_MAX_RANK || t->dtype == TN_DT_UNDEFINED)
    return tni_fail(ip->err, TN_E_UNSUPPORTED, n->pub.name,
                    "no turn is made, and the body does not say what shape its output '%s' has", v->pub.name);
  t->rank = rank;
  for (uint32_t d = 0; d < rank; d++)
    if (dims[d] == TNI_EXPR_NONE || !tni_ex_is_const(body->exprs, dims[d], &t->dims[d]) || t->dims[d] < 0)
      t->dims[d] = 0;
  return TN_OK;
}

/* Joins the turns along a new axis; backwards: the first turn comes last. */
static tn_status join(const tni_interp *ip, const tni_node *n, const tni_graph *body, uint32_t o, const stack *s,
                      int64_t at, bool backwards, tni_cell **out) {
  tni_tensor one;
  tn_status st = TN_OK;
  if (s->n)
    one = s->turn[0]->t;
  else
    st = shape_of_none(ip, n, body, o, &one);
  if (st != TN_OK) return st;
  const int64_t rank = (int64_t)one.rank + 1;
  if (rank > TN_MAX_RANK || at < -rank || at >= rank)
    return tni_fail(ip->err, TN_E_INVALID, n->pub.name, "output axis %lld of a tensor of rank %lld", (long long)at,
                    (long long)rank);
  const uint32_t axis = (uint32_t)(at < 0 ? at + rank : at);
  tni_tensor t = {.dtype = one.dtype, .rank = one.rank + 1};
  for (uint32_t d = 0; d < t.rank; d++) t.dims[d] = d < axis ? one.dims[d] : d == axis ? s->n : one.dims[d - 1];
  st = size_of(ip, n, &t);
  if (st == TN_OK && !(*out = tni_cell_new(&t))) st = tni_fail_memory(ip->err, n->pub.name);
  size_t bytes;
  int64_t outer;
  blocks(&one, axis, &bytes, &outer);
  for (uint32_t k = 0; st == TN_OK && k < s->n; k++) {
    const uint32_t to = backwards ? s->n - 1 - k : k;
    if (!same_shape(&one, &s->turn[k]->t))
      return tni_fail(ip->err, TN_E_INVALID, n->pub.name, "output %u of the body has another shape in turn %u", o, k);
    for (int64_t b = 0; b < outer && bytes; b++)
      memcpy((char *)(*out)->t.data + ((size_t)b * s->n + to) * bytes,
             (const char *)s->turn[k]->t.data + (size_t)b * bytes, bytes);
  }
  return st;
}

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

static const tni_graph *body_of(const tni_node *n, const char *name) {
  const tn_attr *a = tni_attr(&n->pub, name);
  return a ? a->u.p : NULL;
}

/* --- If --------------------------------------------------------------------------------------------------------- */

static tn_status run_if(tni_interp *ip, tni_frame *f, const tni_node *n, tni_cell *const *in, tni_cell **out) {
  int64_t cond;
  tn_status st = read_scalar(ip, n, n->pub.n_in ? in[0] : NULL, "condition", &cond);
  if (st != TN_OK) return st;
  const tni_graph *g = body_of(n, cond ? "then_branch" : "else_branch");
  if (!g || g->n_outputs != n->pub.n_out)
    return tni_fail(ip->err, TN_E_INVALID, n->pub.name, "the branch has %u outputs, the node %u", g ? g->n_outputs : 0,
                    n->pub.n_out);
  return tni_interp_graph(ip, g, f, NULL, 0, out);
}

/* --- Loop and Scan ---------------------------------------------------------------------------------------------- */

typedef struct turns {
  tni_interp *ip;
  const tni_frame *f;
  const tni_node *n;
  const tni_graph *body;
  uint32_t first, n_carried, n_stacked; /* of the body's outputs: the first carried one, then the stacked ones */
  tni_cell **carried;                   /* into args */
  tni_cell **args, **res;               /* [body inputs], [body outputs] */
  stack *stacks;                        /* [n_stacked] */
} turns;

static tn_status turns_start(turns *t, uint32_t first_in) {
  t->args = calloc(t->body->n_inputs + 1, sizeof *t->args);
  t->res = calloc(t->body->n_outputs + 1, sizeof *t->res);
  t->stacks = calloc(t->n_stacked + 1, sizeof *t->stacks);
  if (!t->args || !t->res || !t->stacks) return tni_fail_memory(t->ip->err, t->n->pub.name);
  t->carried = t->args + first_in;
  return TN_OK;
}

static void turns_end(turns *t) {
  for (uint32_t i = 0; t->args && i < t->body->n_inputs; i++) tni_cell_drop(t->args[i]);
  for (uint32_t i = 0; t->res && i < t->body->n_outputs; i++) tni_cell_drop(t->res[i]);
  stack_free(t->stacks, t->n_stacked);
  free(t->args);
  free(t->res);
}

/* One turn: the body's results become what is carried, and the tops of the stacks. */
static tn_status turn(turns *t) {
  tn_status st = tni_interp_graph(t->ip, t->body, t->f, t->args, t->body->n_inputs, t->res);
  if (st != TN_OK) return st;
  for (uint32_t i = 0; i < t->n_carried; i++) {
    tni_cell_drop(t->carried[i]);
    t->carried[i] = t->res[t->first + i];
    t->res[t->first + i] = NULL;
  }
  for (uint32_t i = 0; st == TN_OK && i < t->n_stacked; i++) {
    tni_cell **c = &t->res[t->first + t->n_carried + i];
    st = push(t->ip, t->n, &t->stacks[i], *c);
    *c = NULL;
  }
  return st;
}

static void give_carried(turns *t, tni_cell **out) {
  for (uint32_t i = 0; i < t->n_carried; i++) {
    out[i] = t->carried[i];
    t->carried[i] = NULL;
  }
}

static tn_status loop_turns(turns *t, int64_t trips, int64_t go) {
  tn_status st = TN_OK;
  for (int64_t i = 0; st == TN_OK && go && (trips < 0 || i < trips); i++) {
    if (i == TURNS_MAX) return tni_fail(t->ip->err, TN_E_LIMIT, t->n->pub.name, "it does not end");
    tni_cell_drop(t->args[0]);
    tni_cell_drop(t->args[1]);
    t->args[0] = scalar_cell(TN_DT_I64, i);
    t->args[1] = scalar_cell(TN_DT_BOOL, 1);
    if (!t->args[0] || !t->args[1]) return tni_fail_memory(t->ip->err, t->n->pub.name);
    st = turn(t);
    if (st == TN_OK) st = read_scalar(t->ip, t->n, t->res[0], "body's condition", &go);
    tni_cell_drop(t->res[0]);
    t->res[0] = NULL;
  }
  return st;
}

/* Inputs M, cond, v...; body (i, cond, v...) -> (cond, v..., stacked...). */
static tn_status run_loop(tni_interp *ip, tni_frame *f, const tni_node *n, tni_cell *const *in, tni_cell **out) {
  const uint32_t n_v = n->pub.n_in < 2 ? 0 : n->pub.n_in - 2u;
  turns t = {.ip = ip, .f = f, .n = n, .body = body_of(n, "body"), .first = 1, .n_carried = n_v};
  int64_t trips = -1, go = 1;
  if (!t.body || t.body->n_inputs != n_v + 2 || t.body->n_outputs != n->pub.n_out + 1u || n->pub.n_out < n_v)
    return tni_fail(ip->err, TN_E_INVALID, n->pub.name, "its body takes %u and gives %u values; %u and %u are due",
                    t.body ? t.body->n_inputs : 0, t.body ? t.body->n_outputs : 0, n_v + 2, n->pub.n_out + 1u);
  t.n_stacked = n->pub.n_out - n_v;
  tn_status st = n->pub.n_in > 0 && in[0] ? read_scalar(ip, n, in[0], "trip count", &trips) : TN_OK;
  if (st == TN_OK && n->pub.n_in > 0 && in[0] && trips < 0) trips = 0;
  if (st == TN_OK && n->pub.n_in > 1 && in[1]) st = read_scalar(ip, n, in[1], "condition", &go);
  if (st == TN_OK) st = turns_start(&t, 2);
  for (uint32_t i = 0; st == TN_OK && i < n_v; i++) {
    if (!in[2 + i]) st = tni_fail(ip->err, TN_E_INVALID, n->pub.name, "input %u is missing", 2 + i);
    if (in[2 + i]) t.carried[i] = tni_cell_hold(in[2 + i]);
  }
  if (st == TN_OK) st = loop_turns(&t, trips, go);
  for (uint32_t i = 0; st == TN_OK && i < t.n_stacked; i++)
    if (n->pub.out[n_v + i] != TN_NONE) st = join(ip, n, t.body, 1 + n_v + i, &t.stacks[i], 0, false, &out[n_v + i]);
  if (st == TN_OK) give_carried(&t, out);
  turns_end(&t);
  return st;
}

/* One slice of c, without the axis. */
static tni_cell *slice(const tni_interp *ip, const tni_node *n, const tni_cell *c, uint32_t axis, int64_t at) {
  tni_tensor t = {.dtype = c->t.dtype, .rank = c->t.rank - 1};
  for (uint32_t d = 0; d < t.rank; d++) t.dims[d] = c->t.dims[d < axis ? d : d + 1];
  if (size_of(ip, n, &t) != TN_OK) return NULL;
  tni_cell *s = tni_cell_new(&t);
  size_t bytes;
  int64_t outer;
  if (!s) {
    tni_fail_memory(ip->err, n->pub.name);
    return NULL;
  }
  blocks(&t, axis, &bytes, &outer);
  for (int64_t b = 0; b < outer && bytes; b++)
    memcpy((char *)s->t.data + (size_t)b * bytes,
           (const char *)c->t.data + ((size_t)b * (size_t)c->t.dims[axis] + (size_t)at) * bytes, bytes);
  return s;
}

static int64_t int_at(const tni_node *n, const char *name, uint32_t i) {
  const int64_t *v;
  return i < tni_attr_ints(&n->pub, name, &v) ? v[i] : 0;
}

/* Axis of every scanned input, and how long they all are. */
static tn_status scan_axes(const turns *t, tni_cell *const *in, uint32_t n_scan, uint32_t *axes, int64_t *length) {
  const tni_node *n = t->n;
  *length = -1;
  for (uint32_t i = 0; i < n_scan; i++) {
    const tni_cell *c = in[t->n_carried + i];
    if (!c) return tni_fail(t->ip->err, TN_E_INVALID, n->pub.name, "input %u is missing", t->n_carried + i);
    const int64_t rank = c->t.rank, a = int_at(n, "scan_input_axes", i);
    if (a < -rank || a >= rank)
      return tni_fail(t->ip->err, TN_E_INVALID, n->pub.name, "scan axis %lld of an input of rank %lld", (long long)a,
                      (long long)rank);
    axes[i] = (uint32_t)(a < 0 ? a + rank : a);
    if (*length >= 0 && c->t.dims[axes[i]] != *length)
      return tni_fail(t->ip->err, TN_E_INVALID, n->pub.name, "its inputs are %lld and %lld long", (long long)*length,
                      (long long)c->t.dims[axes[i]]);
    *length = c->t.dims[axes[i]];
  }
  return TN_OK;
}

static tn_status scan_turns(turns *t, tni_cell *const *in, uint32_t n_scan, const uint32_t *axes, int64_t length) {
  tn_status st = TN_OK;
  for (int64_t k = 0; st == TN_OK && k < length; k++) {
    for (uint32_t i = 0; i < n_scan; i++) {
      tni_cell **arg = &t->args[t->n_carried + i];
      const bool backwards = int_at(t->n, "scan_input_directions", i) != 0;
      tni_cell_drop(*arg);
      *arg = slice(t->ip, t->n, in[t->n_carried + i], axes[i], backwards ? length - 1 - k : k);
      if (!*arg) return t->ip->err->code;
    }
    st = turn(t);
  }
  return st;
}

/* Inputs v..., scanned...; body (v..., slices...) -> (v..., stacked...). */
static tn_status run_scan(tni_interp *ip, tni_frame *f, const tni_node *n, tni_cell *const *in, tni_cell **out) {
  const int64_t m = tni_attr_i(&n->pub, "num_scan_inputs", 0);
  turns t = {.ip = ip, .f = f, .n = n, .body = body_of(n, "body")};
  if (m < 1 || m > n->pub.n_in || !t.body || t.body->n_inputs != n->pub.n_in || t.body->n_outputs != n->pub.n_out ||
      n->pub.n_out < n->pub.n_in - m)
    return tni_fail(ip->err, TN_E_INVALID, n->pub.name, "%u inputs, %lld of them scanned, and %u outputs do not fit it",
                    n->pub.n_in, (long long)m, n->pub.n_out);
  const uint32_t n_scan = (uint32_t)m;
  int64_t length = 0;
  t.n_carried = n->pub.n_in - n_scan;
  t.n_stacked = n->pub.n_out - t.n_carried;
  uint32_t *axes = calloc(n_scan, sizeof *axes);
  tn_status st = axes ? turns_start(&t, 0) : tni_fail_memory(ip->err, n->pub.name);
  if (st == TN_OK) st = scan_axes(&t, in, n_scan, axes, &length);
  for (uint32_t i = 0; st == TN_OK && i < t.n_carried; i++) {
    if (!in[i]) st = tni_fail(ip->err, TN_E_INVALID, n->pub.name, "input %u is missing", i);
    if (in[i]) t.carried[i] = tni_cell_hold(in[i]);
  }
  if (st == TN_OK) st = scan_turns(&t, in, n_scan, axes, length);
  for (uint32_t i = 0; st == TN_OK && i < t.n_stacked; i++) {
    const uint32_t o = t.n_carried + i;
    if (n->pub.out[o] != TN_NONE)
      st = join(ip, n, t.body, o, &t.stacks[i], int_at(n, "scan_output_axes", i),
                int_at(n, "scan_output_directions", i) != 0, &out[o]);
  }
  if (st == TN_OK) give_carried(&t, out);
  turns_end(&t);
  free(axes);
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
  return tni_interp_graph(ip, body, f, args, n->pub.n_in, res);
}

static tn_status run_map(tni_interp *ip, tni_frame *f, const tni_node *n, tni_cell *const *in, tni_cell **out) {
  const tni_graph *body = body_of(n, "body");
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
      return run_scan(ip, f, n, in, out);
    case TN_OP_SEQUENCE_MAP:
      return run_map(ip, f, n, in, out);
    default:
      return tni_fail(ip->err, TN_E_UNSUPPORTED, n->pub.name, "control flow that Tenon does not know");
  }
}
