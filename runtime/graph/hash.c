/* SPDX-License-Identifier: Apache-2.0 */
#include <sha2.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/priv.h"
#include "runtime/graph/quantized.h"

/* Larger constants count by dtype and dims only: weights have hashes of their own. */
enum { CONTENT_BYTES = 4096 };

typedef struct hasher {
  SHA2_CTX sha;
  size_t n;
  uint8_t held[1024]; /* not yet in sha */
} hasher;

static void hash_held(hasher *h) {
  if (h->n) SHA256Update(&h->sha, h->held, h->n);
  h->n = 0;
}

static void hash_put(hasher *h, const void *p, size_t n) {
  if (n > sizeof h->held - h->n) hash_held(h);
  if (n > sizeof h->held) {
    SHA256Update(&h->sha, p, n);
  } else if (n) {
    memcpy(h->held + h->n, p, n);
    h->n += n;
  }
}

/* Hashes are in files (calibration.yaml): what is put, and how, stays as it is. */
static void put_u64(hasher *h, uint64_t v) {
  uint8_t b[8];
  for (int i = 0; i < 8; i++) b[i] = (uint8_t)(v >> 8 * i);
  hash_put(h, b, sizeof b);
}

static void put_string(hasher *h, const char *s) {
  size_t n = s ? strlen(s) : 0;
  put_u64(h, n);
  hash_put(h, s, n);
}

static void put_ids(hasher *h, const tn_id *ids, uint32_t n) {
  put_u64(h, n);
  for (uint32_t i = 0; i < n; i++) put_u64(h, ids[i]);
}

/* The text of a dim names symbols, so that equal ids of two tables need not be equal numbers. */
static tn_status put_expr(hasher *h, const tni_graph *g, tn_expr e) {
  char buf[256], *text = buf;
  if (e == TNI_EXPR_NONE) {
    put_string(h, "?");
    return TN_OK;
  }
  size_t n = tni_ex_print(g->exprs, e, buf, sizeof buf);
  if (n >= sizeof buf) {
    text = malloc(n + 1);
    if (!text) return TN_E_NO_MEMORY;
    tni_ex_print(g->exprs, e, text, n + 1);
  }
  put_string(h, text);
  if (text != buf) free(text);
  return TN_OK;
}

static void put_tensor(hasher *h, const tni_tensor *t) {
  put_u64(h, t->dtype);
  put_u64(h, t->rank);
  for (uint32_t i = 0; i < t->rank; i++) put_u64(h, (uint64_t)t->dims[i]);
  const tni_quantized *q = t->quantized;
  if (q) { /* after all that others have, whose hashes are in files */
    put_u64(h, q->bits);
    put_u64(h, (uint64_t)q->block);
  }
  if (q && q->levels) {
    const tni_quantized_levels *l = q->levels;
    put_u64(h, l->n_steps);
    hash_put(h, l->value, sizeof *l->value * l->n * l->vec);
    hash_put(h, l->steps, sizeof *l->steps * l->n_steps);
  }
  if (!q && t->dtype != TN_DT_STRING && t->bytes <= CONTENT_BYTES) hash_put(h, t->data, t->bytes);
}

static tn_status put_graph(hasher *h, const tni_graph *g);

static tn_status put_attr(hasher *h, const tn_attr *a) {
  uint64_t bits;
  put_u64(h, a->type);
  put_u64(h, a->n);
  switch (a->type) {
    case TN_ATTR_INT:
      put_u64(h, (uint64_t)a->u.i);
      break;
    case TN_ATTR_FLOAT:
      memcpy(&bits, &a->u.f, sizeof bits);
      put_u64(h, bits);
      break;
    case TN_ATTR_STRING:
      hash_put(h, a->u.s, a->n);
      break;
    case TN_ATTR_INTS:
      hash_put(h, a->u.ints, a->n * sizeof *a->u.ints);
      break;
    case TN_ATTR_FLOATS:
      hash_put(h, a->u.floats, a->n * sizeof *a->u.floats);
      break;
    case TN_ATTR_STRINGS:
      for (uint64_t i = 0; i < a->n; i++) put_string(h, a->u.strings[i]);
      break;
    case TN_ATTR_TENSOR:
      if (a->u.p) put_tensor(h, a->u.p);
      break;
    case TN_ATTR_GRAPH:
      return a->u.p ? put_graph(h, a->u.p) : TN_OK;
    default:
      break;
  }
  return TN_OK;
}

static tn_status put_node(hasher *h, const tni_node *n) {
  put_u64(h, n->pub.op);
  if (!n->op) {
    put_string(h, n->pub.domain);
    put_string(h, n->type);
    put_u64(h, (uint64_t)n->version);
  }
  put_ids(h, n->pub.in, n->pub.n_in);
  put_ids(h, n->pub.out, n->pub.n_out);
  uint32_t total = n->op ? n->pub.n_attr : n->n_raw;
  put_u64(h, total);
  for (uint32_t i = 0; i < total; i++) {
    if (!n->op) put_string(h, n->raw[i].name);
    tn_status st = put_attr(h, n->op ? n->pub.attr[i] : &n->raw[i].a);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

static tn_status put_value(hasher *h, const tni_graph *g, const tni_value *v) {
  put_u64(h, v->pub.kind);
  put_u64(h, v->pub.dtype);
  put_u64(h, v->pub.rank);
  put_u64(h, v->captured);
  for (uint32_t i = 0; v->pub.rank != TNI_RANK_UNKNOWN && i < v->pub.rank; i++) {
    tn_status st = put_expr(h, g, v->pub.dims[i]);
    if (st != TN_OK) return st;
  }
  if (v->tensor && (!g->max_read || v->tensor->bytes <= g->max_read)) put_tensor(h, v->tensor);
  if (v->pub.state) {
    put_u64(h, (uint64_t)v->pub.state->capacity);
    put_u64(h, (uint64_t)v->pub.state->flags << 32 | v->pub.state->axis);
    put_ids(h, (const tn_id[]){v->pub.state->pos, v->pub.state->valid}, 2);
  }
  return TN_OK;
}

static tn_status put_graph(hasher *h, const tni_graph *g) {
  tn_status st = TN_OK;
  put_ids(h, g->inputs, g->n_inputs);
  put_ids(h, g->outputs, g->n_outputs);
  put_u64(h, g->n_values);
  for (tn_id i = 0; st == TN_OK && i < g->n_values; i++) st = put_value(h, g, g->values[i]);
  put_u64(h, g->n_nodes);
  for (tn_id i = 0; st == TN_OK && i < g->n_nodes; i++) st = put_node(h, g->nodes[i]);
  return st;
}

tn_status tni_graph_hash(const tni_graph *g, uint32_t phase, uint8_t hash[32]) {
  hasher h = {.n = 0};
  SHA256Init(&h.sha);
  put_u64(&h, phase);
  tn_status st = put_graph(&h, g);
  hash_held(&h);
  SHA256Final(hash, &h.sha);
  return st;
}
