/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/graphq.h"

enum { MAX_SYMBOLS = 256, PROBES = 4, BASES = 6 };
static const int64_t far_away = 4099; /* a prime, for symbols without a useful upper bound */

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

/* Value of symbol s at base b: low, high, or something between that differs from symbol to symbol. */
static int64_t base_value(const tn_symbol *s, uint32_t index, uint32_t b) {
  int64_t lo = s->lo > 0 ? s->lo : 0, hi = s->hi < lo ? lo : s->hi;
  int64_t cap = hi - lo > far_away ? lo + far_away : hi;
  switch (b) {
    case 0:
      return lo;
    case 1:
      return cap;
    case 2:
      return hi;
    case 3:
      return lo + (int64_t)(((uint64_t)index * 37 + 11) % (uint64_t)(cap - lo + 1));
    case 4:
      return index % 2 ? lo : cap;
    default:
      return index % 2 ? cap : lo;
  }
}

static int64_t probe_value(const tn_symbol *s, uint32_t p) {
  int64_t lo = s->lo > 0 ? s->lo : 0, hi = s->hi < lo ? lo : s->hi;
  int64_t cap = hi - lo > far_away ? lo + far_away : hi;
  switch (p) {
    case 0:
      return lo;
    case 1:
      return lo < hi ? lo + 1 : lo;
    case 2:
      return cap;
    default:
      return hi;
  }
}

static uint64_t depends(const tn_host *host, const tn_graph *g, tn_expr e) {
  int64_t v[MAX_SYMBOLS], at, moved;
  uint64_t mask = 0;
  uint32_t evaluated = 0;
  tn_dims dims = {.h = TN_HDR(tn_dims), .v = v, .n = g->n_symbols};
  for (uint32_t b = 0; b < BASES; b++) {
    for (uint32_t i = 0; i < g->n_symbols; i++) v[i] = base_value(g->symbols[i], i, b);
    if (host->eval(g, e, &dims, &at) != TN_OK) continue;
    evaluated++;
    for (uint32_t i = 0; i < g->n_symbols; i++) {
      int64_t keep = v[i];
      for (uint32_t p = 0; p < PROBES; p++) {
        v[i] = probe_value(g->symbols[i], p);
        if (host->eval(g, e, &dims, &moved) == TN_OK && moved != at) mask |= UINT64_C(1) << (i < 63 ? i : 63);
      }
      v[i] = keep;
    }
  }
  return evaluated ? mask : UINT64_MAX;
}

uint64_t tni_cm_symbols(const tn_host *host, const tn_graph *g, const tn_expr *e, uint32_t n) {
  uint64_t mask = 0;
  int64_t v;
  for (uint32_t i = 0; i < n; i++) {
    if (tni_cm_const(host, g, e[i], &v)) continue;
    if (e[i] == TN_NONE || g->n_symbols > MAX_SYMBOLS) return UINT64_MAX;
    mask |= depends(host, g, e[i]);
  }
  return mask;
}

const tn_value *tni_cm_value(const tn_graph *g, tn_id v) { return v < g->n_values ? g->values[v] : NULL; }
