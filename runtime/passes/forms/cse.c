/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/passes/forms/forms.h"

enum { MAX_CONST_BYTES = 64 << 10 };
enum { KEY_CONST = 1, KEY_STEP = 2, KEY_NODE = 3 };

/* What makes two things the same, as bytes. */
typedef struct cse_key {
  unsigned char *p;
  size_t n, cap;
  bool failed; /* without memory */
} cse_key;

static void put_key(cse_key *k, const void *p, size_t n) {
  size_t need;
  if (k->failed || !tni_add_size(k->n, n, &need) || need > SIZE_MAX / 2) {
    k->failed = true;
    return;
  }
  if (need > k->cap) {
    unsigned char *grown = realloc(k->p, need * 2);
    if (!grown) {
      k->failed = true;
      return;
    }
    k->p = grown;
    k->cap = need * 2;
  }
  if (n) memcpy(k->p + k->n, p, n);
  k->n = need;
}

static void put_u64(cse_key *k, uint64_t v) { put_key(k, &v, sizeof v); }

static void put_tensor(cse_key *k, const tni_tensor *t) {
  put_u64(k, t->dtype);
  put_u64(k, t->rank);
  put_key(k, t->dims, t->rank * sizeof *t->dims);
  put_u64(k, t->bytes);
  if (t->bytes <= MAX_CONST_BYTES && t->data) {
    put_key(k, t->data, (size_t)t->bytes);
  } else {
    put_key(k, &t->data, sizeof t->data);
    put_key(k, &t->quantized, sizeof t->quantized);
  }
}

/* false: a value that is not compared. */
static bool value_key(const tni_graph *g, const tni_value *v, cse_key *k) {
  k->n = 0;
  if (v->is_output || !v->pub.n_uses || v->pub.rank > TN_MAX_RANK) return false;
  if (v->pub.kind == TN_VALUE_CONST) {
    if (!v->tensor || v->tensor->dtype == TN_DT_STRING || v->tensor->bytes > MAX_CONST_BYTES) return false;
    put_u64(k, KEY_CONST);
    put_tensor(k, v->tensor);
    return true;
  }
  if (v->pub.kind != TN_VALUE_STEP || !v->elems || g->outer) return false;
  put_u64(k, KEY_STEP);
  put_u64(k, v->pub.dtype);
  put_u64(k, v->pub.rank);
  put_key(k, v->pub.dims, v->pub.rank * sizeof *v->pub.dims);
  put_u64(k, v->n_elems);
  put_key(k, v->elems, v->n_elems * sizeof *v->elems);
  return true;
}

static bool put_attr(cse_key *k, const tn_attr *a) {
  put_u64(k, a->type);
  put_u64(k, a->n);
  put_u64(k, a->u.p != NULL);
  switch (a->type) {
    case TN_ATTR_INT:
      put_key(k, &a->u.i, sizeof a->u.i);
      return true;
    case TN_ATTR_FLOAT:
      put_key(k, &a->u.f, sizeof a->u.f);
      return true;
    case TN_ATTR_STRING:
      if (a->u.s) put_key(k, a->u.s, (size_t)a->n);
      return true;
    case TN_ATTR_INTS:
      if (a->u.ints) put_key(k, a->u.ints, (size_t)a->n * sizeof *a->u.ints);
      return true;
    case TN_ATTR_FLOATS:
      if (a->u.floats) put_key(k, a->u.floats, (size_t)a->n * sizeof *a->u.floats);
      return true;
    case TN_ATTR_TENSOR:
      if (a->u.p) put_tensor(k, a->u.p);
      return true;
    case TN_ATTR_NONE:
      return true;
    default:
      return false;
  }
}

/* Random numbers without a seed: the node's name is the seed, so another node draws others. */
static bool draws_by_name(const tni_node *n) {
  const tn_attr *seed = tni_attr(&n->pub, "seed");
  switch (n->pub.op) {
    case TN_OP_RANDOM_NORMAL:
    case TN_OP_RANDOM_NORMAL_LIKE:
    case TN_OP_RANDOM_UNIFORM:
    case TN_OP_RANDOM_UNIFORM_LIKE:
    case TN_OP_MULTINOMIAL:
    case TN_OP_BERNOULLI:
      return !seed || !seed->n;
    default:
      return false;
  }
}

static bool node_key(const tni_node *n, cse_key *k) {
  k->n = 0;
  if (n->dead || !n->op || (n->op->flags & TNI_OPF_CONTROL) || draws_by_name(n)) return false;
  put_u64(k, KEY_NODE);
  put_u64(k, n->op->row);
  put_u64(k, n->pub.n_in);
  put_key(k, n->pub.in, n->pub.n_in * sizeof *n->pub.in);
  put_u64(k, n->pub.n_out);
  for (uint32_t o = 0; o < n->pub.n_out; o++) put_u64(k, n->pub.out[o] != TN_NONE);
  for (uint32_t i = 0; i < n->pub.n_attr; i++) {
    if (!put_attr(k, n->pub.attr[i])) return false;
  }
  return true;
}

/* The first one with this key into *first; TN_NONE if this is it. */
static tn_status look_up(tni_map *seen, const cse_key *k, tn_id id, tn_id *first) {
  uint64_t at;
  *first = TN_NONE;
  if (k->failed) return TN_E_NO_MEMORY;
  if (tni_map_get(seen, k->p, k->n, &at)) {
    *first = (tn_id)at;
    return TN_OK;
  }
  return tni_map_put(seen, k->p, k->n, id) ? TN_OK : TN_E_NO_MEMORY;
}

/* A pass under way. */
typedef struct cse {
  tni_graph *g;
  tni_map *seen;
  cse_key key;
  tni_replacing to;
  uint32_t fired;
} cse;

static tn_status merge_values(cse *c) {
  for (tn_id i = 0; i < c->g->n_values; i++) {
    tn_id first;
    if (!value_key(c->g, c->g->values[i], &c->key)) continue;
    tn_status st = look_up(c->seen, &c->key, i, &first);
    if (st == TN_OK && first != TN_NONE) st = tni_replacing_add(c->g, &c->to, i, first);
    if (st != TN_OK) return st;
    c->fired += first != TN_NONE;
  }
  return TN_OK;
}

/* Where a result is a graph output and so is its twin, both stay. */
static tn_status merge_node(cse *c, const tni_node *first, tni_node *n) {
  bool all = true;
  for (uint32_t o = 0; o < n->pub.n_out; o++) {
    if (n->pub.out[o] == TN_NONE) continue;
    tn_status st = tni_replacing_add(c->g, &c->to, n->pub.out[o], first->pub.out[o]);
    if (st != TN_OK && st != TN_E_UNSUPPORTED) return st;
    all = all && st == TN_OK;
  }
  n->dead = all;
  c->fired += all;
  return TN_OK;
}

static tn_status merge_nodes(cse *c) {
  for (tn_id i = 0; i < c->g->n_nodes; i++) {
    tn_id first;
    tni_node *n = c->g->nodes[i];
    tni_replacing_node(&c->to, n);
    if (!node_key(n, &c->key)) continue;
    tn_status st = look_up(c->seen, &c->key, i, &first);
    if (st == TN_OK && first != TN_NONE) st = merge_node(c, c->g->nodes[first], n);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

tn_status tni_pass_cse(tni_graph *g, uint32_t *n, tn_error *err) {
  cse c = {.g = g, .seen = tni_map_create()};
  tn_status st = tni_replacing_init(&c.to, g) && c.seen ? merge_values(&c) : TN_E_NO_MEMORY;
  if (st == TN_OK) st = merge_nodes(&c);
  tni_map_destroy(c.seen);
  free(c.key.p);
  if (st == TN_OK)
    st = tni_replacing_finish(g, &c.to, err);
  else
    (void)tni_fail(err, st, g->name, "cse: %s", tni_status_name(st));
  tni_replacing_free(&c.to);
  if (st == TN_OK) *n = c.fired;
  return st;
}
