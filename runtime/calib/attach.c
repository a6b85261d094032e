/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/calib/calib.h"

/* A weight that the file names. */
typedef struct named {
  const tn_stats *stats; /* of all activations that meet it */
  uint32_t entry;        /* TN_NONE: of several */
} named;

typedef struct attacher {
  const tni_calib *c;
  tni_graph *g;
  tni_arena *arena;
  tni_map *by_name, *by_weight; /* to entries; to weights[] */
  named *weights;
  uint32_t n_weights;
  tn_error *err;
} attacher;

static float mean_of(float a, uint64_t rows_a, float b, uint64_t rows_b) {
  const double n = (double)rows_a + (double)rows_b;
  return n > 0 ? (float)(((double)a * (double)rows_a + (double)b * (double)rows_b) / n) : a;
}

static const tn_stats *unite_stats(const attacher *a, const tn_stats *x, const tn_stats *y) {
  tn_stats *s = TNI_NEW(a->arena, tn_stats);
  float *over = TNI_NEW_ARRAY(a->arena, float, x->n), *mean = TNI_NEW_ARRAY(a->arena, float, x->n),
        *square = TNI_NEW_ARRAY(a->arena, float, x->n);
  if (!s || !over || !mean || !square) return NULL;
  for (uint32_t k = 0; k < x->n; k++) {
    over[k] = x->ch_over[k] + y->ch_over[k];
    mean[k] = mean_of(x->ch_mean[k], x->rows, y->ch_mean[k], y->rows);
    square[k] = mean_of(x->ch_weight[k], x->rows, y->ch_weight[k], y->rows);
  }
  *s = (tn_stats){.h = TN_HDR(tn_stats),
                  .absmax = x->absmax > y->absmax ? x->absmax : y->absmax,
                  .p999 = x->p999 > y->p999 ? x->p999 : y->p999,
                  .n = x->n,
                  .ch_over = over,
                  .ch_mean = mean,
                  .ch_weight = square,
                  .rows = x->rows + y->rows};
  return s;
}

static bool index_weight(attacher *a, uint32_t entry, const char *name) {
  const tn_stats *e = &a->c->entries[entry].stats;
  uint64_t at;
  if (!tni_map_get_str(a->by_weight, name, &at)) {
    a->weights[a->n_weights] = (named){e, entry};
    return tni_map_put_str(a->by_weight, name, a->n_weights++);
  }
  named *w = &a->weights[at];
  if (w->entry == entry || w->stats->n != e->n) return true;
  w->entry = TN_NONE;
  w->stats = unite_stats(a, w->stats, e);
  return w->stats != NULL;
}

static bool index_entries(attacher *a) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < a->c->n_entries; i++) n += a->c->entries[i].n_weights;
  a->weights = TNI_NEW_ARRAY(a->arena, named, n + 1);
  if (!a->weights) return false;
  for (uint32_t i = 0; i < a->c->n_entries; i++) {
    const tni_calib_entry *e = &a->c->entries[i];
    if (!tni_map_put_str(a->by_name, e->name, i)) return false;
    for (uint32_t k = 0; k < e->n_weights; k++)
      if (!index_weight(a, i, e->weights[k])) return false;
  }
  return true;
}

/* Names of values that passes made are numbers, and mean something else with other passes. */
static bool look_up(const attacher *a, const tni_map *m, tn_id v, uint64_t *at) {
  const tni_value *val = tni_graph_value(a->g, v);
  return val->pub.origin != TN_NONE && tni_map_get_str(m, val->pub.name, at);
}

static const named *find_weight(const attacher *a, tn_id v) {
  uint64_t at;
  return look_up(a, a->by_weight, v, &at) ? &a->weights[at] : NULL;
}

/* By a weight that no other activation meets: constants keep their names. Else by the activation's own name. */
static const tn_stats *find_stats(const attacher *a, const tni_product *p) {
  uint64_t at;
  for (uint32_t i = 0; i < p->n_weights; i++) {
    const named *w = find_weight(a, p->weights[i]);
    if (w && w->entry != TN_NONE) return w->stats;
  }
  return look_up(a, a->by_name, p->x, &at) ? &a->c->entries[at].stats : NULL;
}

/* A tn_weight was made by the view for this graph, which is ours to change. */
static void set_weight(const attacher *a, tn_id v, const tn_stats *s) {
  const named *w = find_weight(a, v);
  tn_weight *data = (tn_weight *)(uintptr_t)tni_graph_value(a->g, v)->pub.data;
  if (data) data->x = w ? w->stats : s;
}

static tn_status attach_product(attacher *a, const tni_product *p, bool *found) {
  const tn_stats *s = find_stats(a, p);
  tni_value *x = tni_graph_value(a->g, p->x);
  *found = s != NULL;
  if (!s) return TN_OK;
  if (s->n != p->K)
    return tni_fail(a->err, TN_E_INVALID, a->c->file,
                    "calibration file '%s' has %u channels for activation '%s', the model has %lld", a->c->file, s->n,
                    x->pub.name, (long long)p->K);
  x->pub.stats = s;
  for (uint32_t i = 0; i < p->n_weights; i++) set_weight(a, p->weights[i], s);
  return TN_OK;
}

static tn_status attach_all(attacher *a, uint32_t *products, uint32_t *found) {
  tni_product p;
  tn_status st = TN_OK;
  for (tn_id i = 0; i < a->g->n_values; i++) a->g->values[i]->pub.stats = NULL;
  for (tn_id i = 0; st == TN_OK && i < a->g->n_nodes; i++) {
    bool yes = false;
    if (!tni_calib_product(a->g, i, &p)) continue;
    st = attach_product(a, &p, &yes);
    ++*products;
    *found += yes;
  }
  return st;
}

tn_status tni_calib_attach(const tni_calib *c, tni_graph *g, tni_arena *arena, uint32_t *products, uint32_t *found,
                           tn_error *err) {
  attacher a = {.c = c, .g = g, .arena = arena, .by_name = tni_map_create(), .by_weight = tni_map_create(), .err = err};
  uint32_t n = 0, m = 0;
  tn_status st = a.by_name && a.by_weight && index_entries(&a) ? TN_OK : tni_fail_memory(err, c->file);
  if (st == TN_OK) st = attach_all(&a, &n, &m);
  tni_map_destroy(a.by_name);
  tni_map_destroy(a.by_weight);
  if (products) *products = n;
  if (found) *found = m;
  return st;
}
