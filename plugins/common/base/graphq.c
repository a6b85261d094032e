/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/base/graphq.h"

bool tni_cm_const(const tn_host *host, const tn_graph *g, tn_expr e, int64_t *v) {
  int64_t lo, hi;
  if (e == TN_NONE || host->range(g, e, &lo, &hi) != TN_OK || lo != hi) return false;
  *v = lo;
  return true;
}

tn_status tni_cm_product(const tn_host *host, const tn_graph *g, const tn_expr *e, uint32_t n, const tn_dims *dims,
                         int64_t *out) {
  int64_t p = 1;
  for (uint32_t i = 0; i < n; i++) {
    int64_t v;
    if (!tni_cm_const(host, g, e[i], &v) && host->eval(g, e[i], dims, &v) != TN_OK) return TN_E_INVALID;
    if (v < 0) return TN_E_INVALID;
    if (__builtin_mul_overflow(p, v, &p)) return TN_E_LIMIT;
  }
  *out = p;
  return TN_OK;
}

uint64_t tni_cm_symbols(const tn_host *host, const tn_graph *g, const tn_expr *e, uint32_t n) {
  uint64_t mask = 0;
  for (uint32_t i = 0; i < n; i++) mask |= e[i] == TN_NONE ? UINT64_MAX : host->symbols(g, e[i]);
  return mask;
}

const tn_value *tni_cm_value(const tn_graph *g, tn_id v) { return v < g->n_values ? g->values[v] : NULL; }

tn_id tni_cm_state_root(const tn_graph *g, tn_id v) {
  const tn_value *x = tni_cm_value(g, v);
  const tn_node *from = x && x->producer < g->n_nodes ? g->nodes[x->producer] : NULL;
  return from && from->n_in && from->in[0] != TN_NONE ? from->in[0] : v;
}
