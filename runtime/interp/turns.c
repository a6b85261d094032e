/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns of Loop and Scan. What a turn gives to a stacked output is kept until the end, when its place is known.
 */
#include "runtime/interp/turns.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"

const tni_graph *tni_body_of(const tni_node *n, const char *name) {
  const tn_attr *a = tni_attr(&n->pub, name);
  return a ? a->u.p : NULL;
}

static void stack_free(tni_stack *s, uint32_t n) {
  for (uint32_t i = 0; s && i < n; i++) {
    for (uint32_t k = 0; k < s[i].n; k++) tni_cell_drop(s[i].turn[k]);
    free(s[i].turn);
  }
  free(s);
}

/* Takes c over, also when it fails. */
static tn_status push_cell(const tni_interp *ip, const tni_node *n, tni_stack *s, tni_cell *c) {
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

void tni_turns_blocks(const tni_tensor *t, uint32_t axis, size_t *bytes, int64_t *outer) {
  *outer = 1;
  *bytes = tni_dtype_bits(t->dtype) / 8;
  for (uint32_t d = 0; d < axis; d++) *outer *= t->dims[d];
  for (uint32_t d = axis; d < t->rank; d++) *bytes *= (size_t)t->dims[d];
}

tn_status tni_turns_size(const tni_interp *ip, const tni_node *n, tni_tensor *t) {
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

tn_status tni_join(const tni_interp *ip, const tni_node *n, tni_cell *const *parts, uint32_t count,
                   const tni_tensor *none, int64_t at, bool backwards, tni_cell **out) {
  const tni_tensor one = count ? parts[0]->t : *none;
  const int64_t rank = (int64_t)one.rank + 1;
  if (rank > TN_MAX_RANK || at < -rank || at >= rank)
    return tni_fail(ip->err, TN_E_INVALID, n->pub.name, "output axis %lld of a tensor of rank %lld", (long long)at,
                    (long long)rank);
  const uint32_t axis = (uint32_t)(at < 0 ? at + rank : at);
  tni_tensor t = {.dtype = one.dtype, .rank = one.rank + 1};
  for (uint32_t d = 0; d < t.rank; d++) t.dims[d] = d < axis ? one.dims[d] : d == axis ? count : one.dims[d - 1];
  tn_status st = tni_turns_size(ip, n, &t);
  if (st == TN_OK && !(*out = tni_cell_new(&t))) st = tni_fail_memory(ip->err, n->pub.name);
  size_t bytes;
  int64_t outer;
  tni_poll poll = {ip->run, TNI_POLL};
  tni_turns_blocks(&one, axis, &bytes, &outer);
  for (uint32_t k = 0; st == TN_OK && k < count; k++) {
    const uint32_t to = backwards ? count - 1 - k : k;
    if (parts[k]->form != TNI_FORM_TENSOR || !same_shape(&one, &parts[k]->t))
      return tni_fail(ip->err, TN_E_INVALID, n->pub.name, "a stacked output has another shape in turn %u", k);
    for (int64_t b = 0; b < outer && bytes; b++) {
      if (tni_poll_stop(&poll, (int64_t)(bytes / 4) + 4)) return tni_interp_stop(ip, n->pub.name);
      memcpy((char *)(*out)->t.data + ((size_t)b * count + to) * bytes,
             (const char *)parts[k]->t.data + (size_t)b * bytes, bytes);
    }
  }
  return st;
}

tn_status tni_turns_join(const tni_turns *t, uint32_t i, int64_t axis, bool backwards, tni_cell **out) {
  const tni_stack *s = &t->stacks[i];
  tni_tensor none = {.dtype = TN_DT_UNDEFINED};
  tn_status st = s->n ? TN_OK : shape_of_none(t->ip, t->n, t->body, t->first + t->n_carried + i, &none);
  return st == TN_OK ? tni_join(t->ip, t->n, s->turn, s->n, &none, axis, backwards, out) : st;
}

tn_status tni_turns_start(tni_turns *t, uint32_t first_in) {
  t->args = calloc(t->body->n_inputs + 1, sizeof *t->args);
  t->res = calloc(t->body->n_outputs + 1, sizeof *t->res);
  t->stacks = calloc(t->n_stacked + 1, sizeof *t->stacks);
  if (!t->args || !t->res || !t->stacks) return tni_fail_memory(t->ip->err, t->n->pub.name);
  t->carried = t->args + first_in;
  return TN_OK;
}

void tni_turns_end(tni_turns *t) {
  for (uint32_t i = 0; t->args && i < t->body->n_inputs; i++) tni_cell_drop(t->args[i]);
  for (uint32_t i = 0; t->res && i < t->body->n_outputs; i++) tni_cell_drop(t->res[i]);
  stack_free(t->stacks, t->n_stacked);
  free(t->args);
  free(t->res);
}

tn_status tni_turn(tni_turns *t) {
  tn_status st = t->ip->graph(t->ip, t->body, t->f, t->args, t->body->n_inputs, t->res);
  if (st != TN_OK) return st;
  for (uint32_t i = 0; i < t->n_carried; i++) {
    tni_cell_drop(t->carried[i]);
    t->carried[i] = t->res[t->first + i];
    t->res[t->first + i] = NULL;
  }
  for (uint32_t i = 0; st == TN_OK && i < t->n_stacked; i++) {
    tni_cell **c = &t->res[t->first + t->n_carried + i];
    st = push_cell(t->ip, t->n, &t->stacks[i], *c);
    *c = NULL;
  }
  return st;
}

void tni_turns_give(tni_turns *t, tni_cell **out) {
  for (uint32_t i = 0; i < t->n_carried; i++) {
    out[i] = t->carried[i];
    t->carried[i] = NULL;
  }
}
