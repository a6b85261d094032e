/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/process/graph.h"

#include <string.h>

#include "runtime/graph/graph.h"
#include "runtime/graph/view.h"
#include "runtime/plugin/process/exprs.h"
#include "runtime/plugin/process/proto.h"

/* --- statistics and weights -------------------------------------------------------------------------------------- */

static void put_stats(tni_wire *w, const tn_stats *s) {
  tni_w_u32(w, s != NULL);
  if (!s) return;
  tni_w_bytes(w, &s->absmax, sizeof s->absmax);
  tni_w_bytes(w, &s->p999, sizeof s->p999);
  tni_w_u64(w, TN_HAS(s, tn_stats, rows) ? s->rows : 0);
  const float *const ch[3] = {s->ch_over, s->ch_mean, s->ch_weight};
  tni_w_u32(w, s->n);
  for (int i = 0; i < 3; i++) tni_w_array(w, ch[i], ch[i] ? s->n : 0, sizeof(float));
}

static const tn_stats *get_stats(tni_rd *r, tni_arena *a) {
  if (!tni_r_u32(r)) return NULL;
  tn_stats *s = TNI_NEW(a, tn_stats);
  const void *absmax = tni_r_bytes(r, 4), *p999 = tni_r_bytes(r, 4);
  if (!s || !absmax || !p999) {
    r->bad = true;
    return NULL;
  }
  s->h = (tn_hdr)TN_HDR(tn_stats);
  memcpy(&s->absmax, absmax, 4);
  memcpy(&s->p999, p999, 4);
  s->rows = tni_r_u64(r);
  s->n = tni_r_u32(r);
  const float **const ch[3] = {&s->ch_over, &s->ch_mean, &s->ch_weight};
  for (int i = 0; i < 3; i++) {
    uint32_t n;
    const float *v = tni_r_array(r, a, &n, sizeof(float), TNI_WIRE_MAX / 4);
    if (n && n != s->n) r->bad = true;
    *ch[i] = n ? v : NULL;
  }
  return s;
}

enum { MOST_VEC = 16 };

void tni_weight_put(tni_wire *w, const tn_weight *x) {
  const tn_quant *q = TN_HAS(x, tn_weight, quant) ? x->quant : NULL;
  tni_w_i64(w, x->N);
  tni_w_i64(w, x->K);
  tni_w_u32(w, x->dtype);
  tni_w_u32(w, x->flags);
  tni_w_bytes(w, x->hash, sizeof x->hash);
  tni_w_u32(w, q != NULL);
  if (q) {
    const uint32_t v[5] = {q->bits, q->group, q->scheme, q->scale_dtype, q->zero_kind};
    const bool more = TN_HAS(q, tn_quant, levels);
    tni_w_bytes(w, v, sizeof v);
    tni_w_u32(w, more ? q->flags : 0);
    const bool tables = TN_HAS(q, tn_quant, stepped);
    const uint32_t vec = tables && q->vec ? q->vec : 1;
    tni_w_u32(w, vec);
    tni_w_array(w, more ? q->levels : NULL, more && q->levels ? q->n_levels * vec : 0, sizeof *q->levels);
    tni_w_array(w, tables ? q->steps : NULL, tables && q->stepped ? q->n_steps : 0, sizeof *q->steps);
  }
  put_stats(w, x->x);
}

tn_weight *tni_weight_get(tni_rd *r, tni_arena *a, uint32_t id, const tni_weight_readers *readers) {
  tn_weight *x = TNI_NEW(a, tn_weight);
  tn_quant *q = TNI_NEW(a, tn_quant);
  if (!x || !q) {
    r->bad = true;
    return NULL;
  }
  *x = (tn_weight){.h = TN_HDR(tn_weight), .ctx = (void *)(uintptr_t)id, .rows = readers->rows};
  x->N = tni_r_i64(r);
  x->K = tni_r_i64(r);
  x->dtype = tni_r_u32(r);
  x->flags = tni_r_u32(r);
  const void *hash = tni_r_bytes(r, sizeof x->hash);
  if (hash) memcpy(x->hash, hash, sizeof x->hash);
  if (tni_r_u32(r)) {
    *q = (tn_quant){.h = TN_HDR(tn_quant), .ctx = x, .grid = readers->grid};
    q->bits = tni_r_u32(r);
    q->group = tni_r_u32(r);
    q->scheme = tni_r_u32(r);
    q->scale_dtype = tni_r_u32(r);
    q->zero_kind = tni_r_u32(r);
    q->flags = tni_r_u32(r);
    q->vec = tni_r_u32(r);
    if (!q->vec || q->vec > MOST_VEC) r->bad = true, q->vec = 1;
    q->levels = tni_r_array(r, a, &q->n_levels, sizeof *q->levels, 256 * q->vec);
    if (q->n_levels % q->vec) r->bad = true;
    q->n_levels /= q->vec;
    q->steps = tni_r_array(r, a, &q->n_steps, sizeof *q->steps, 256);
    if (q->n_steps) q->stepped = readers->stepped;
    x->quant = q;
  }
  x->x = get_stats(r, a);
  return x;
}

/* --- writing ----------------------------------------------------------------------------------------------------- */

static void put_attr(tni_wire *w, const tn_attr *a) {
  tni_w_str(w, a->name);
  tni_w_u32(w, a->type);
  tni_w_u32(w, a->word);
  tni_w_u64(w, a->n);
  switch (a->type) {
    case TN_ATTR_INT:
      tni_w_i64(w, a->u.i);
      break;
    case TN_ATTR_FLOAT:
      tni_w_f64(w, a->u.f);
      break;
    case TN_ATTR_STRING:
      tni_w_bytes(w, a->u.s, a->n);
      break;
    case TN_ATTR_INTS:
      tni_w_bytes(w, a->u.ints, a->n * sizeof(int64_t));
      break;
    case TN_ATTR_FLOATS:
      tni_w_bytes(w, a->u.floats, a->n * sizeof(float));
      break;
    case TN_ATTR_STRINGS:
      for (uint64_t i = 0; i < a->n; i++) tni_w_str(w, a->u.strings[i]);
      break;
    default: /* tensors and graphs are for the host's own operators */
      break;
  }
}

static void put_node(tni_wire *w, const tn_node *n) {
  tni_w_u32(w, n->op);
  tni_w_array(w, n->in, n->n_in, sizeof *n->in);
  tni_w_array(w, n->out, n->n_out, sizeof *n->out);
  tni_w_str(w, n->name);
  tni_w_str(w, n->domain);
  tni_w_str(w, n->type);
  tni_w_u32(w, n->n_attr);
  for (uint32_t i = 0; i < n->n_attr; i++) put_attr(w, n->attr[i]);
}

static void put_value(tni_wire *w, const tn_value *v) {
  tni_w_u32(w, v->kind);
  tni_w_u32(w, v->dtype);
  tni_w_array(w, v->dims, v->rank, sizeof *v->dims);
  tni_w_array(w, v->uses, v->n_uses, sizeof *v->uses);
  tni_w_u32(w, v->producer);
  tni_w_u32(w, v->origin);
  tni_w_str(w, v->name);
  tni_w_u32(w, v->state != NULL);
  if (v->state) tni_w_bytes(w, v->state, sizeof *v->state);
  tni_w_u32(w, v->data != NULL);
  if (v->data) tni_weight_put(w, v->data);
  put_stats(w, v->stats);
}

void tni_wgraph_put(tni_wire *w, const tn_graph *g) {
  tni_w_u32(w, g->phase);
  tni_w_bytes(w, g->hash, sizeof g->hash);
  tni_exprs_write(g->ctx->exprs, w);
  tni_w_u32(w, g->ctx->padded);
  tni_w_u32(w, g->ctx->step);
  tni_w_u32(w, g->n_symbols);
  for (uint32_t i = 0; i < g->n_symbols; i++) {
    tni_w_str(w, g->symbols[i]->name);
    tni_w_i64(w, g->symbols[i]->lo);
    tni_w_i64(w, g->symbols[i]->hi);
    tni_w_u32(w, g->symbols[i]->flags);
  }
  tni_w_u32(w, g->n_values);
  for (uint32_t i = 0; i < g->n_values; i++) put_value(w, g->values[i]);
  tni_w_u32(w, g->n_nodes);
  for (uint32_t i = 0; i < g->n_nodes; i++) put_node(w, g->nodes[i]);
}

/* --- reading ----------------------------------------------------------------------------------------------------- */

static const void *get_bytes(tni_rd *r, tni_arena *a, uint64_t n, size_t each) {
  const void *p = n <= TNI_WIRE_MAX ? tni_r_bytes(r, (size_t)n * each) : NULL;
  char *copy = p ? tni_arena_alloc(a, (size_t)n * each + 1, 16) : NULL;
  if (!copy) {
    r->bad = true;
    return NULL;
  }
  if (n) memcpy(copy, p, (size_t)n * each);
  return copy;
}

static void get_attr(tni_rd *r, tni_arena *a, tn_attr *out) {
  out->h = (tn_hdr)TN_HDR(tn_attr);
  out->name = tni_r_str(r, a, TNI_ISO_MAX_TEXT);
  out->type = tni_r_u32(r);
  out->word = tni_r_u32(r);
  out->n = tni_r_u64(r);
  switch (out->type) {
    case TN_ATTR_INT:
      out->u.i = tni_r_i64(r);
      break;
    case TN_ATTR_FLOAT:
      out->u.f = tni_r_f64(r);
      break;
    case TN_ATTR_STRING:
      out->u.s = get_bytes(r, a, out->n, 1);
      break;
    case TN_ATTR_INTS:
      out->u.ints = get_bytes(r, a, out->n, sizeof(int64_t));
      break;
    case TN_ATTR_FLOATS:
      out->u.floats = get_bytes(r, a, out->n, sizeof(float));
      break;
    case TN_ATTR_STRINGS: {
      if (out->n > TNI_WIRE_MAX / 4) r->bad = true;
      const char **s = r->bad ? NULL : TNI_NEW_ARRAY(a, const char *, (size_t)out->n + 1);
      for (uint64_t i = 0; s && i < out->n; i++) s[i] = tni_r_str(r, a, TNI_ISO_MAX_TEXT);
      out->u.strings = s;
      break;
    }
    default:
      break;
  }
}

static const tn_node *get_node(tni_rd *r, tni_arena *a) {
  tn_node *n = TNI_NEW(a, tn_node);
  uint32_t in = 0, out = 0;
  if (!n) return NULL;
  n->h = (tn_hdr)TN_HDR(tn_node);
  n->op = tni_r_u32(r);
  n->in = tni_r_array(r, a, &in, sizeof(tn_id), UINT16_MAX);
  n->out = tni_r_array(r, a, &out, sizeof(tn_id), UINT16_MAX);
  n->n_in = (uint16_t)in;
  n->n_out = (uint16_t)out;
  n->name = tni_r_str(r, a, TNI_ISO_MAX_TEXT);
  n->domain = tni_r_str(r, a, TNI_ISO_MAX_TEXT);
  n->type = tni_r_str(r, a, TNI_ISO_MAX_TEXT);
  n->n_attr = tni_r_count(r, 16, TNI_ISO_MAX_OBJECTS);
  const tn_attr **list = TNI_NEW_ARRAY(a, const tn_attr *, (size_t)n->n_attr + 1);
  tn_attr *attr = TNI_NEW_ARRAY(a, tn_attr, (size_t)n->n_attr + 1);
  for (uint32_t i = 0; list && attr && i < n->n_attr; i++) {
    get_attr(r, a, &attr[i]);
    list[i] = &attr[i];
  }
  n->attr = list;
  return list && attr ? n : NULL;
}

static const tn_value *get_value(tni_rd *r, tni_arena *a, uint32_t id, const tni_weight_readers *f) {
  tn_value *v = TNI_NEW(a, tn_value);
  if (!v) return NULL;
  v->h = (tn_hdr)TN_HDR(tn_value);
  v->kind = tni_r_u32(r);
  v->dtype = tni_r_u32(r);
  v->dims = tni_r_array(r, a, &v->rank, sizeof(tn_expr), 64);
  v->uses = tni_r_array(r, a, &v->n_uses, sizeof(tn_id), TNI_ISO_MAX_OBJECTS);
  v->producer = tni_r_u32(r);
  v->origin = tni_r_u32(r);
  v->name = tni_r_str(r, a, TNI_ISO_MAX_TEXT);
  if (tni_r_u32(r)) v->state = get_bytes(r, a, 1, sizeof *v->state);
  if (tni_r_u32(r)) v->data = tni_weight_get(r, a, id | TNI_ISO_VALUE, f);
  v->stats = get_stats(r, a);
  return v;
}

static const tn_symbol *get_symbol(tni_rd *r, tni_arena *a) {
  tn_symbol *s = TNI_NEW(a, tn_symbol);
  if (!s) return NULL;
  s->h = (tn_hdr)TN_HDR(tn_symbol);
  s->name = tni_r_str(r, a, TNI_ISO_MAX_TEXT);
  s->lo = tni_r_i64(r);
  s->hi = tni_r_i64(r);
  s->flags = tni_r_u32(r);
  return s;
}

static tn_status get_tables(tni_rd *r, const tni_weight_readers *f, tni_wgraph_copy *c) {
  tni_arena *a = c->arena;
  tn_graph *g = &c->g;
  g->n_symbols = tni_r_count(r, 24, TNI_ISO_MAX_OBJECTS);
  const tn_symbol **symbols = TNI_NEW_ARRAY(a, const tn_symbol *, (size_t)g->n_symbols + 1);
  for (uint32_t i = 0; symbols && i < g->n_symbols; i++)
    if (!(symbols[i] = get_symbol(r, a))) return TN_E_NO_MEMORY;
  g->n_values = tni_r_count(r, 36, TNI_ISO_MAX_OBJECTS);
  const tn_value **values = TNI_NEW_ARRAY(a, const tn_value *, (size_t)g->n_values + 1);
  for (uint32_t i = 0; values && i < g->n_values; i++)
    if (!(values[i] = get_value(r, a, i, f))) return TN_E_NO_MEMORY;
  g->n_nodes = tni_r_count(r, 24, TNI_ISO_MAX_OBJECTS);
  const tn_node **nodes = TNI_NEW_ARRAY(a, const tn_node *, (size_t)g->n_nodes + 1);
  for (uint32_t i = 0; nodes && i < g->n_nodes; i++)
    if (!(nodes[i] = get_node(r, a))) return TN_E_NO_MEMORY;
  g->symbols = symbols;
  g->values = values;
  g->nodes = nodes;
  return symbols && values && nodes ? TN_OK : TN_E_NO_MEMORY;
}

tn_status tni_wgraph_get(tni_rd *r, const tni_weight_readers *readers, tni_wgraph_copy *c) {
  *c = (tni_wgraph_copy){.arena = tni_arena_create()};
  tn_graph_ctx *ctx = c->arena ? TNI_NEW(c->arena, tn_graph_ctx) : NULL;
  if (!ctx) return TN_E_NO_MEMORY;
  c->g = (tn_graph){.h = TN_HDR(tn_graph), .ctx = ctx, .phase = tni_r_u32(r)};
  const void *hash = tni_r_bytes(r, sizeof c->g.hash);
  if (hash) memcpy(c->g.hash, hash, sizeof c->g.hash);
  if (!(c->exprs = ctx->exprs = tni_exprs_read(r))) return TN_E_CORRUPT;
  ctx->padded = tni_r_u32(r);
  ctx->step = tni_r_u32(r);
  tn_status st = get_tables(r, readers, c);
  return st == TN_OK && !tni_rd_whole(r) ? TN_E_CORRUPT : st;
}

void tni_wgraph_finish(tni_wgraph_copy *c) {
  tni_exprs_destroy(c->exprs);
  tni_arena_destroy(c->arena);
  *c = (tni_wgraph_copy){.arena = NULL};
}
