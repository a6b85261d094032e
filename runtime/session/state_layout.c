/* SPDX-License-Identifier: Apache-2.0
 *
 * What every cache is kept as: layout, dtype and ring, as devices and profile agree.
 */
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/ops/kernel/kernel.h"
#include "runtime/session/state.h"

static const tni_value *value_of(const tn_model *m, tn_id v) { return tni_graph_value(m->graph, v); }

static bool uses_cache(const tni_exec *x, uint32_t dev, tn_id cache) {
  for (uint32_t c = 0; c < x->part.n_clusters; c++) {
    const tni_cluster *cl = &x->part.clusters[c];
    for (uint32_t i = 0; cl->device == dev && i < cl->n_states; i++)
      if (cl->states[i] == cache) return true;
  }
  return false;
}

/* Who touches a cache with conditions of its own: the placement of single positions leads, in it the profile's order.
 */
typedef struct asked {
  const tni_state_claim *by[2 * TNI_MEM_DEVICES];
  tni_state_claim silent; /* of who says nothing */
  uint32_t n;
} asked;

static tn_status ask_layout(const tn_model *m, const tni_exec *x, tn_id cache, asked *a, tn_error *err) {
  for (uint32_t o = 0; o < m->rt->n_order[x->phase]; o++) {
    const uint32_t dev = m->rt->order[x->phase][o];
    const tni_state_claim *said = &a->silent;
    if (m->rt->devs[dev].is_host || !uses_cache(x, dev, cache)) continue;
    for (uint32_t i = 0; i < x->claims.n_states; i++)
      if (x->claims.states[i].device == dev && x->claims.states[i].value == cache) said = &x->claims.states[i];
    if (a->n == 2 * TNI_MEM_DEVICES) return tni_fail(err, TN_E_LIMIT, m->path, "too many devices share a cache");
    a->by[a->n++] = said;
  }
  return TN_OK;
}

static tn_status layouts_disagree(const tn_model *m, const asked *a, const char *name, tn_error *err) {
  char text[2][64] = {"", ""};
  const char *who[2] = {"", ""};
  for (uint32_t i = 0, k = 0; i < a->n && k < 2; i++) {
    if (k && a->by[i]->device == a->by[0]->device) continue;
    who[k] = a->by[i] == &a->silent ? "a device that asks for nothing" : m->rt->devs[a->by[i]->device].name;
    tni_layout_print(&a->by[i]->layouts[0], text[k++], sizeof text[0]);
  }
  return tni_fail(err, TN_E_UNSUPPORTED, name, "no layout of cache '%s' suits all: '%s' asks for %s, '%s' for %s", name,
                  who[0], text[0], who[1], text[1]);
}

enum { VALID = 6 }; /* the input of Attention that says where keys end */

/* Positions before a query that cache k's readers look back; -1: one of them may look at all. */
static int64_t window_of(const tn_model *m, uint32_t k) {
  const tn_id id = m->graph->states[k].out;
  const tni_value *v = value_of(m, id);
  int64_t most = -1;
  if (v->is_output) return -1;
  for (uint32_t u = 0; u < v->pub.n_uses; u++) {
    const tni_node *n = tni_graph_node(m->graph, v->pub.uses[u]);
    if (n->n_captures || !tni_is_attention(n->pub.op)) return -1;
    if (n->pub.n_in <= VALID || n->pub.in[VALID] != m->graph->step_valid) return -1;
    for (uint32_t i = 0; i < n->pub.n_in; i++)
      if (n->pub.in[i] == id && i != 1 && i != 2) return -1;
    const int64_t left = tni_attr_i(&n->pub, "left_window_size", -1);
    if (left < 0 || left > INT32_MAX) return -1;
    if (left > most) most = left;
  }
  return most;
}

static void mark_ring(const tn_model *m, tn_id v) {
  ((tn_state *)(uintptr_t)value_of(m, v)->pub.state)->flags |= TN_STATE_CIRCULAR;
}

/* What the profile says, or the model where its pasts are halves: then they are computed in float32 and kept as they
 * are. */
static uint32_t kept_as(const tn_model *m, uint32_t k) {
  const uint32_t past = value_of(m, m->graph->states[k].past)->pub.dtype;
  if (m->rt->profile->kv != TN_DT_UNDEFINED) return m->rt->profile->kv;
  return past == TN_DT_F16 || past == TN_DT_BF16 ? past : TN_DT_UNDEFINED;
}

static bool is_kept_as(const tn_layout *l, uint32_t wish) {
  return l->dtype == wish || (wish == TN_DT_I4 && tni_kv_packed(l->dtype));
}

/* What the profile wants wins where all who ask can do it; *kept: it did not. */
static tn_status agree_layout(tn_model *m, uint32_t k, const char **kept, tn_error *err) {
  const tni_gstate *g = &m->graph->states[k];
  const tni_value *v = value_of(m, g->in);
  const uint32_t wish = kept_as(m, k);
  tn_layout plain = tni_state_layout(&v->pub), *l = &m->state_layouts[k];
  asked a = {.silent = {.device = TN_NONE, .layouts = &plain, .n = 1}};
  tn_status st = TN_OK;
  for (uint32_t e = m->n_execs; st == TN_OK && e-- > 0;) st = ask_layout(m, &m->execs[e], g->in, &a, err);
  if (st != TN_OK) return st;
  *l = plain;
  if (!a.n) {
    const uint32_t kept_as_wished = tni_state_kept(m->graph, k, wish);
    if (kept_as_wished != TN_DT_UNDEFINED) l->dtype = kept_as_wished;
    l->flags = TN_LAYOUT_CIRCULAR;
  } else if (!(wish != TN_DT_UNDEFINED && tni_layouts_agree(a.by, a.n, wish, l)) &&
             !tni_layouts_agree(a.by, a.n, TN_DT_UNDEFINED, l)) {
    return layouts_disagree(m, &a, value_of(m, g->past)->pub.name, err);
  }
  if (m->rt->profile->kv != TN_DT_UNDEFINED && !is_kept_as(l, wish)) *kept = value_of(m, g->past)->pub.name;
  m->state_windows[k] = window_of(m, k);
  if (m->state_windows[k] < 0 || !m->rt->profile->kv_ring) l->flags &= ~(uint32_t)TN_LAYOUT_CIRCULAR;
  if (!(l->flags & TN_LAYOUT_CIRCULAR)) return TN_OK;
  mark_ring(m, g->in);
  mark_ring(m, g->out);
  return TN_OK;
}

/* What lowering is told: by cluster. */
static tn_status tell_layout(tn_model *m, tni_cluster *c, tn_error *err) {
  tn_layout *l = TNI_NEW_ARRAY(m->arena, tn_layout, c->n_states + 1);
  if (!l) return tni_fail_memory(err, m->path);
  for (uint32_t i = 0; i < c->n_states; i++)
    for (uint32_t k = 0; k < m->graph->n_states; k++)
      if (m->graph->states[k].in == c->states[i]) l[i] = m->state_layouts[k];
  c->layouts = l;
  return TN_OK;
}

tn_status tni_states_layouts(tn_model *m, tn_error *err) {
  tn_status st = TN_OK;
  const char *kept = NULL;
  m->state_layouts = TNI_NEW_ARRAY(m->arena, tn_layout, m->graph->n_states + 1);
  m->state_windows = TNI_NEW_ARRAY(m->arena, int64_t, m->graph->n_states + 1);
  if (!m->state_layouts || !m->state_windows) return tni_fail_memory(err, m->path);
  for (uint32_t k = 0; st == TN_OK && k < m->graph->n_states; k++) st = agree_layout(m, k, &kept, err);
  if (st == TN_OK && kept)
    tni_log_line(&m->rt->log, TN_LOG_WARN,
                 "the profile wants caches of %s, but not all who touch '%s' take them: it is kept as they agreed",
                 tni_dtype_name(m->rt->profile->kv), kept);
  for (uint32_t e = 0; st == TN_OK && e < m->n_execs; e++)
    for (uint32_t c = 0; st == TN_OK && c < m->execs[e].part.n_clusters; c++)
      st = tell_layout(m, &m->execs[e].part.clusters[c], err);
  return st;
}
