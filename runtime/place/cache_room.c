/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/place/cache_room.h"

#include <stdio.h>
#include <string.h>

#include "runtime/graph/graph.h"
#include "runtime/graph/view.h"
#include "runtime/place/partition.h"

typedef struct room {
  const tni_graph *g;
  const tn_graph *view;
  tni_claims *claims;
  uint32_t device;
  const char *text;
} room;

/* What the device alone would keep cache v as: what is asked for where it takes it. */
static uint32_t kept_as(const room *r, tn_id v, uint32_t kv) {
  const tn_value *x = r->view->values[v];
  tn_layout l = tni_state_layout(x);
  for (uint32_t i = 0; i < r->claims->n_states; i++) {
    const tni_state_claim *said = &r->claims->states[i];
    if (said->device != r->device || said->value != v || !said->n) continue;
    if (!tni_layouts_agree(&said, 1, kv, &l)) (void)tni_layouts_agree(&said, 1, TN_DT_UNDEFINED, &l);
    return l.dtype;
  }
  return kv != TN_DT_UNDEFINED && tni_state_takes(x, kv) ? kv : x->dtype;
}

/* Elements of one position of cache v, of one sequence; 0: not known. */
static int64_t row_elems(const tni_graph *g, tn_id v) {
  const tni_value *x = g->values[v];
  int64_t elems = 1, n;
  for (uint32_t d = 0; d < x->pub.rank; d++)
    if (x->pub.dims[d] != TNI_EXPR_NONE && tni_ex_is_const(g->exprs, x->pub.dims[d], &n) &&
        (n < 0 || !tni_mul_i64(elems, n, &elems)))
      return 0;
  return elems;
}

/* All that read cache v look back a fixed window: it may be a ring, which is small. */
static bool has_window(const tni_graph *g, tn_id out) {
  const tni_value *x = g->values[out];
  for (uint32_t u = 0; u < x->pub.n_uses; u++)
    if (tni_attr_i(&g->nodes[x->pub.uses[u]]->pub, "left_window_size", -1) < 0) return false;
  return x->pub.n_uses > 0;
}

static bool touches(const room *r, const tn_node *n, tn_id cache) {
  for (uint32_t i = 0; i < (uint32_t)n->n_in + n->n_out; i++) {
    const tn_id v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];
    if (v != TN_NONE && r->view->values[v]->kind == TN_VALUE_STATE && tni_state_root(r->view, v) == cache) return true;
  }
  return false;
}

/* Groups of the device that name the node. */
static void drop_groups(const room *r, tn_id node) {
  tni_claims *cl = r->claims;
  uint32_t kept = 0;
  for (uint32_t g = 0; g < cl->n_groups; g++) {
    bool has = false;
    for (uint32_t i = 0; cl->groups[g].device == r->device && i < cl->groups[g].n_nodes; i++)
      has = has || cl->groups[g].nodes[i] == node;
    if (!has) cl->groups[kept++] = cl->groups[g];
  }
  cl->n_groups = kept;
}

static void refuse(const room *r, tn_id cache) {
  for (uint32_t i = 0; i < r->view->n_nodes; i++) {
    tni_claim *c = &r->claims->node[r->device][i];
    if (c->verdict == TN_NO || !touches(r, r->view->nodes[i], cache)) continue;
    *c = (tni_claim){.verdict = TN_NO, .reason = TN_WHY_TOO_BIG, .text = r->text};
    drop_groups(r, i);
  }
}

/* Work on the caches of one device. */
static tn_status fit_device(room *r, const char *name, uint64_t most, const tni_cache_limits *limits, tni_arena *arena,
                            tn_error *err) {
  for (uint32_t s = 0; s < r->g->n_states; s++) {
    const tn_id cache = r->g->states[s].in;
    const int64_t elems = row_elems(r->g, cache);
    const uint32_t dtype = kept_as(r, cache, limits->kv);
    uint64_t row, all;
    char text[320];
    if (!elems || tni_dtype_bytes(dtype, elems, &row) != TN_OK) continue;
    if (limits->rings && has_window(r->g, r->g->states[s].out)) continue;
    if (!__builtin_mul_overflow(row, (uint64_t)limits->positions, &all) && all <= most) continue;
    snprintf(text, sizeof text,
             "a cache of %lld positions in %s is larger than what the device allocates at once, %llu bytes: %llu "
             "positions fit (--max-seq)",
             (long long)limits->positions, tni_dtype_name(dtype), (unsigned long long)most,
             (unsigned long long)(most / row));
    if (!(r->text = tni_arena_strdup(arena, text))) return tni_fail_memory(err, name);
    refuse(r, cache);
  }
  return TN_OK;
}

tn_status tni_cache_room(const tni_graph *g, const tn_graph *view, const tni_dev *devs, uint32_t n_devs,
                         const tni_cache_limits *limits, tni_arena *arena, tni_claims *claims, tn_error *err) {
  tn_status st = TN_OK;
  for (uint32_t d = 0; st == TN_OK && d < n_devs; d++) {
    const uint64_t most = devs[d].device->caps->max_buffer_bytes;
    room r = {.g = g, .view = view, .claims = claims, .device = d};
    if (!devs[d].is_host && most) st = fit_device(&r, devs[d].name, most, limits, arena, err);
  }
  return st;
}
