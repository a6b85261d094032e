/* SPDX-License-Identifier: Apache-2.0
 *
 * One answer per node; groups for siblings (largest first, since a host may take the first that fits), then for each
 * Transpose with its product.
 */
#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/common/cpu/cost.h"
#include "plugins/common/cpu/integer.h"
#include "plugins/common/cpu/match.h"

typedef struct claimer {
  const tni_clt_device *d;
  const tn_graph *g;
  const tn_dims *at;
  const tn_claim_sink *sink;
  tni_clt_match *match; /* [n_nodes] */
  tn_id *members;       /* [2 * n_nodes], of the group being made */
} claimer;

/* 0 where dims are not given or do not suffice. */
static double rows_at(const claimer *c, const tn_value *x) {
  int64_t m;
  if (!c->at || x->rank < 1) return 0;
  return tni_cm_product(c->d->host, c->g, x->dims, x->rank - 1, c->at, &m) == TN_OK ? (double)m : 0;
}

/* p: keeps what the offer points to. */
static tni_cm_offer packed_offer(const claimer *c, const tni_clt_match *m, const tni_clt_grid *grid, int64_t N,
                                 tni_clt_packing *p) {
  tni_clt_geometry geo = {0};
  *p = tni_clt_packing_of(c->d, grid);
  tni_cm_offer o = {.format = p->listed, .params = p->params, .n_params = p->f->n_params};
  if (tni_clt_geometry_of(c->d, grid, N, m->K, &geo) != TN_OK) return o;
  double rows = rows_at(c, c->g->values[m->x]);
  o.weight_bytes = geo.bytes;
  o.macs = rows * (double)N * (double)m->K;
  if (rows > 0) o.cost_ns = tni_clt_cost_packed(rows, (double)N, (double)m->K, (double)geo.bytes);
  return o;
}

static tni_cm_offer float_offer(const claimer *c, const tni_clt_match *m) {
  tni_cm_offer o = {0};
  const tn_value *x = c->g->values[m->x], *y = c->g->values[m->y];
  int64_t out, k;
  if (!c->at || tni_cm_product(c->d->host, c->g, y->dims, y->rank, c->at, &out) != TN_OK) return o;
  if (tni_cm_product(c->d->host, c->g, &x->dims[x->rank - 1], 1, c->at, &k) != TN_OK) return o;
  o.macs = (double)out * (double)k;
  o.cost_ns = tni_clt_cost_float(o.macs);
  return o;
}

/* The product that swallows this Transpose, or NULL. */
static const tni_clt_match *swallowing_match(const claimer *c, tn_id node) {
  const tn_node *n = c->g->nodes[node];
  if (n->op != TN_OP_TRANSPOSE || n->n_out < 1) return NULL;
  const tn_value *v = tni_cm_value(c->g, n->out[0]);
  if (!v || v->n_uses != 1 || v->uses[0] >= c->g->n_nodes) return NULL;
  const tni_clt_match *m = &c->match[v->uses[0]];
  return m->kind == TNI_CLT_PACKED && m->transpose == node ? m : NULL;
}

static tn_status answer_node(const claimer *c, tn_id node) {
  const tni_clt_match *m = &c->match[node];
  tni_cm_offer none = {0}, o;
  tni_clt_packing p;
  if (m->kind == TNI_CLT_PACKED) {
    o = packed_offer(c, m, &m->grid, m->N, &p);
    return tni_cm_accept(c->sink, node, m->transpose == TN_NONE ? TN_YES : TN_GROUP_ONLY, &o);
  }
  if (m->kind == TNI_CLT_FUSED) {
    o = packed_offer(c, m, &m->grid, m->N, &p);
    return tni_cm_accept(c->sink, node, TN_YES, &o);
  }
  if (m->kind == TNI_CLT_INTEGER) {
    o = tni_clt_integer_offer(m->N, m->K, m->offset);
    const double rows = rows_at(c, c->g->values[m->x]);
    o.macs = rows * (double)m->N * (double)m->K;
    if (rows > 0) o.cost_ns = tni_clt_cost_packed(rows, (double)m->N, (double)m->K, (double)o.weight_bytes);
    return tni_cm_accept(c->sink, node, TN_YES, &o);
  }
  if (m->kind == TNI_CLT_FLOAT) {
    o = float_offer(c, m);
    return tni_cm_accept(c->sink, node, TN_YES, &o);
  }
  if (swallowing_match(c, node)) return tni_cm_accept(c->sink, node, TN_GROUP_ONLY, &none);
  return tni_cm_refuse(c->sink, node, m->reason, m->text);
}

/* The group of siblings whose first member is `node`, if it is the first and not alone. */
static tn_status claim_siblings(const claimer *c, tn_id node) {
  const tni_clt_match *m = &c->match[node];
  const tn_value *x = c->g->values[m->x];
  uint32_t n = 0, products = 0;
  int64_t N = 0;
  tn_id last = TN_NONE;
  tni_clt_grid grid = m->grid;
  tni_clt_packing p;
  for (uint32_t i = 0; i < x->n_uses; i++) {
    tn_id user = x->uses[i];
    if (user >= c->g->n_nodes || user == last || !tni_clt_siblings(m, &c->match[user])) continue;
    if (user < node) return TN_OK;
    last = user;
    if (N > TNI_CLT_MAX_DIM - c->match[user].N) break;
    tni_clt_grid_join(&grid, &c->match[user].grid);
    N += c->match[user].N;
    if (c->match[user].transpose != TN_NONE) c->members[n++] = c->match[user].transpose;
    c->members[n++] = user;
    products++;
  }
  if (products < 2) return TN_OK;
  tni_cm_offer o = packed_offer(c, m, &grid, N, &p);
  return tni_cm_group(c->sink, c->members, n, &o);
}

static tn_status claim_transpose(const claimer *c, tn_id node) {
  const tni_clt_match *m = &c->match[node];
  if (m->transpose == TN_NONE) return TN_OK;
  tn_id pair[2] = {m->transpose, node};
  tni_clt_packing p;
  tni_cm_offer o = packed_offer(c, m, &m->grid, m->N, &p);
  return tni_cm_group(c->sink, pair, 2, &o);
}

static tn_status claim_all(claimer *c) {
  tn_status st = TN_OK;
  uint32_t n = c->g->n_nodes;
  for (tn_id i = 0; i < n; i++) tni_clt_match_node(c->d, c->g, i, &c->match[i], NULL);
  for (tn_id i = 0; st == TN_OK && i < n; i++) st = answer_node(c, i);
  for (tn_id i = 0; st == TN_OK && i < n; i++)
    if (c->match[i].kind == TNI_CLT_PACKED) st = claim_siblings(c, i);
  for (tn_id i = 0; st == TN_OK && i < n; i++)
    if (c->match[i].kind == TNI_CLT_PACKED) st = claim_transpose(c, i);
  return st;
}

tn_status tni_clt_claim(tn_device *dev, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink,
                        tn_error *err) {
  const tni_clt_device *d = (const tni_clt_device *)dev;
  tni_cm_mem mem = {.host = d->host};
  claimer c = {.d = d, .g = g, .at = at, .sink = sink};
  c.match = tni_cm_new(&mem, g->n_nodes, sizeof *c.match);
  c.members = tni_cm_new(&mem, (size_t)g->n_nodes * 2, sizeof *c.members);
  tn_status st =
      c.match && c.members ? claim_all(&c) : tni_cm_fail(err, TN_E_NO_MEMORY, d->backend->name, "out of memory");
  tni_cm_free(&mem);
  return st;
}
