/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/base/base.h"
#include "plugins/common/opencl/clprog.h"

typedef struct lowering {
  tni_cm_build c;
  tni_cl_device *d;
  const tn_graph *g;
  tn_program *p;
} lowering;

/* --- values ------------------------------------------------------------------------------------------------------ */

static void note_value(lowering *l, tn_id id) {
  const tn_value *v = tni_cm_value(l->g, id);
  if (!v || l->p->values[id].used) return;
  l->p->values[id] = (tni_cl_value){.dims = tni_cm_copy(&l->c, v->dims, v->rank, sizeof *v->dims),
                                    .rank = v->rank,
                                    .kind = v->kind,
                                    .dtype = v->dtype,
                                    .store = v->dtype,
                                    .root = id,
                                    .slot = TN_NONE,
                                    .first = UINT32_MAX,
                                    .heads = v->state ? v->state->heads : 0,
                                    .used = true};
}

static bool match_all(lowering *l, tn_error *err) {
  for (uint32_t i = 0; i < l->c.s->n_nodes; i++) {
    tni_cl_op *o = &l->p->ops[i];
    uint32_t reason;
    const char *text;
    if (!tni_cl_match(l->d, l->g, l->c.s->nodes[i], o, &reason, &text)) {
      tni_cm_fail(err, TN_E_INVALID, o->name, "this node was not claimed: %s", text);
      return false;
    }
    for (uint32_t k = 0; k < o->n_in; k++)
      if (!tni_cl_is_weight(o, k)) note_value(l, o->in[k]);
    for (uint32_t k = 0; k < o->n_out; k++) note_value(l, o->out[k]);
  }
  return true;
}

static bool is_half_source(const tni_cl_op *o) {
  return o->what == TNI_CLO_GATHER || o->what == TNI_CLO_NORM || o->what == TNI_CLO_PRODUCT ||
         o->what == TNI_CLO_ATTN || o->what == TNI_CLO_ROTARY;
}

/* Types in memory, and whose memory a value shares. */
static void place_values(lowering *l) {
  for (uint32_t i = 0; i < l->p->n_ops; i++) {
    tni_cl_op *o = &l->p->ops[i];
    bool half = is_half_source(o);
    for (uint32_t k = 0; k < o->n_in; k++) {
      if (o->in[k] == TN_NONE || tni_cl_is_weight(o, k)) continue;
      const tni_cl_value *v = &l->p->values[o->in[k]];
      half = half || (v->slot == TN_NONE && v->store == TN_DT_F16);
    }
    for (uint32_t k = 0; k < o->n_out; k++) {
      if (o->out[k] == TN_NONE) continue;
      tni_cl_value *y = &l->p->values[o->out[k]];
      if (y->slot == TN_NONE && half && y->dtype == TN_DT_F32) y->store = TN_DT_F16;
    }
    if (o->what == TNI_CLO_ALIAS && l->p->values[o->out[0]].slot == TN_NONE) {
      tni_cl_value *y = &l->p->values[o->out[0]];
      y->root = l->p->values[o->in[0]].root;
      y->store = l->p->values[y->root].store;
    }
    if (o->what == TNI_CLO_ALIAS || o->what == TNI_CLO_MATMUL || o->what == TNI_CLO_GATHER || o->what == TNI_CLO_NORM)
      for (uint32_t k = 0; k < o->n_in; k++)
        if (o->in[k] != TN_NONE) l->p->values[o->in[k]].dense = true;
  }
}

static void touch_slot(lowering *l, tn_id id, uint32_t op) {
  if (id == TN_NONE) return;
  tni_cl_value *v = &l->p->values[l->p->values[id].root];
  if (op < v->first) v->first = op;
  if (op > v->last) v->last = op;
}

static void note_lifetimes(lowering *l) {
  for (uint32_t i = 0; i < l->p->n_ops; i++) {
    const tni_cl_op *o = &l->p->ops[i];
    for (uint32_t k = 0; k < o->n_in; k++)
      if (!tni_cl_is_weight(o, k)) touch_slot(l, o->in[k], i);
    for (uint32_t k = 0; k < o->n_out; k++) touch_slot(l, o->out[k], i);
  }
}

/* --- slots ------------------------------------------------------------------------------------------------------- */

static tn_id add_need(lowering *l, const tn_format *format, const tn_id *values, uint32_t n, bool kn) {
  const tn_need need = {.format = format, .residency = TN_RESIDENCY_DEVICE, .flags = format && kn ? TN_NEED_KN : 0};
  return tni_cm_add_need(&l->c, &need, values, n, l->d->params, format ? 1 : 0);
}

static tn_id add_slot(lowering *l, uint32_t kind, tn_id value, tn_id need, const char *name) {
  const tn_slot s = {.kind = kind, .engines = 2, .align = 128, .value = value, .need = need};
  return tni_cm_add_slot(&l->c, &s, sizeof s, "", name);
}

/* Slots of what comes from or goes to outside. */
static void slot_of_value(lowering *l, tn_id id) {
  tni_cl_value *v = &l->p->values[id];
  const tn_value *gv = l->g->values[id];
  if (v->slot != TN_NONE) return;
  const tn_id need = v->kind == TN_VALUE_CONST ? add_need(l, NULL, &id, 1, false) : TN_NONE;
  v->slot = add_slot(l, tni_cm_kind_read(gv), id, need, gv->name);
}

static void make_slots(lowering *l) {
  bool *produced = tni_cm_get(&l->c, l->p->n_values, sizeof *produced);
  for (uint32_t i = 0; !l->c.no_memory && i < l->p->n_ops; i++) {
    tni_cl_op *o = &l->p->ops[i];
    for (uint32_t k = 0; k < o->n_in && !l->c.no_memory; k++)
      if (o->in[k] != TN_NONE && !tni_cl_is_weight(o, k) && !produced[o->in[k]]) slot_of_value(l, o->in[k]);
    for (uint32_t k = 0; k < o->n_out && !l->c.no_memory; k++) {
      if (o->out[k] == TN_NONE) continue;
      tni_cl_value *y = &l->p->values[o->out[k]];
      produced[o->out[k]] = true;
      if (o->what == TNI_CLO_APPEND)
        y->slot = l->p->values[o->in[0]].slot;
      else if (l->d->set.split || tni_cm_kind_written(&l->c, o->out[k]) == TN_SLOT_OUTPUT)
        y->slot = add_slot(l, tni_cm_kind_written(&l->c, o->out[k]), o->out[k], TN_NONE, l->g->values[o->out[k]]->name);
    }
    if (o->what != TNI_CLO_PRODUCT || l->c.no_memory) continue;
    o->need = add_need(l, o->format, o->in + 1, o->n_weights, o->kn);
    o->blob_slot = add_slot(l, TN_SLOT_WEIGHT, TN_NONE, o->need, o->name);
  }
}

/* What the caches' memory has: agreed layouts, or the graph's dtype. Whoever appends may be another device. */
static void state_types(lowering *l) {
  for (uint32_t i = 0; i < l->c.s->n_states; i++) {
    const tn_layout *y = l->c.s->layouts ? l->c.s->layouts[i] : NULL;
    if (!y || !y->dtype) continue;
    for (tn_id v = 0; v < l->p->n_values; v++)
      if (l->p->values[v].used && l->p->values[v].kind == TN_VALUE_STATE &&
          tni_cm_state_root(l->g, v) == l->c.s->states[i])
        l->p->values[v].store = y->dtype;
  }
}

/* --- tasks ------------------------------------------------------------------------------------------------------- */

typedef struct use_list {
  tn_use *uses;
  uint32_t n;
} use_list;

static void add_use(use_list *u, uint32_t slot, uint32_t access) {
  if (slot == TN_NONE) return;
  for (uint32_t i = 0; i < u->n; i++)
    if (u->uses[i].slot == slot) {
      u->uses[i].access |= access;
      return;
    }
  u->uses[u->n++] = (tn_use){slot, access};
}

static void add_uses(lowering *l, use_list *u, const tni_cl_op *o) {
  for (uint32_t k = 0; k < o->n_in; k++)
    if (o->in[k] != TN_NONE && !tni_cl_is_weight(o, k))
      add_use(u, l->p->values[l->p->values[o->in[k]].root].slot,
              o->what == TNI_CLO_APPEND && k == 0 ? TN_APPEND : TN_READ);
  if (o->what == TNI_CLO_PRODUCT) add_use(u, o->blob_slot, TN_READ);
  for (uint32_t k = 0; k < o->n_out; k++)
    if (o->out[k] != TN_NONE && o->what != TNI_CLO_APPEND) add_use(u, l->p->values[o->out[k]].slot, TN_WRITE);
}

static uint64_t symbols_of(lowering *l, const tni_cl_op *o) {
  uint64_t mask = 0;
  for (uint32_t k = 0; k < o->n_in; k++) {
    if (o->in[k] == TN_NONE || tni_cl_is_weight(o, k)) continue;
    const tni_cl_value *v = &l->p->values[o->in[k]];
    mask |= tni_cm_symbols(l->d->host, l->g, v->dims, v->rank);
  }
  for (uint32_t k = 0; k < o->n_out; k++)
    if (o->out[k] != TN_NONE)
      mask |= tni_cm_symbols(l->d->host, l->g, l->p->values[o->out[k]].dims, l->p->values[o->out[k]].rank);
  return mask;
}

/* Tasks that wrote a slot that this one touches. */
static void add_deps(lowering *l, tni_cl_task *t) {
  tn_id *deps = tni_cm_get(&l->c, l->p->info.n_tasks, sizeof *deps);
  for (uint32_t i = 0; deps && i < l->p->info.n_tasks; i++) {
    const tn_task *before = &l->p->tasks[i]->pub;
    bool meets = false;
    for (uint32_t a = 0; a < before->n_uses; a++)
      for (uint32_t b = 0; b < t->pub.n_uses; b++)
        meets =
            meets || (before->uses[a].slot == t->pub.uses[b].slot && (before->uses[a].access & (TN_WRITE | TN_APPEND)));
    if (meets) deps[t->pub.n_deps++] = i;
  }
  t->pub.deps = deps;
}

static void make_task(lowering *l, uint32_t first, uint32_t n, const char *name) {
  tni_cl_task *t = tni_cm_get(&l->c, 1, sizeof *t);
  use_list u = {.uses = tni_cm_get(&l->c, l->p->info.n_slots + 1, sizeof *u.uses)};
  tn_id *nodes = tni_cm_get(&l->c, n, sizeof *nodes);
  const char *text = tni_cm_text(&l->p->mem, "", name);
  if (l->c.no_memory || !text) {
    l->c.no_memory = true;
    return;
  }
  uint64_t symbols = 0;
  for (uint32_t i = 0; i < n; i++) {
    add_uses(l, &u, &l->p->ops[first + i]);
    symbols |= symbols_of(l, &l->p->ops[first + i]);
    nodes[i] = l->p->ops[first + i].node;
  }
  t->arena_use = u.n;
  uint32_t slot = add_slot(l, TN_SLOT_TEMP, TN_NONE, TN_NONE, "arena");
  add_use(&u, slot, TN_WRITE);
  t->first_op = first;
  t->n_ops = n;
  t->pub = (tn_task){.h = TN_HDR(tn_task),
                     .name = text,
                     .engine = 1,
                     .symbols = symbols,
                     .uses = u.uses,
                     .nodes = nodes,
                     .n_uses = u.n,
                     .n_nodes = n};
  add_deps(l, t);
  l->p->tasks[l->p->info.n_tasks++] = t;
}

static void make_tasks(lowering *l) {
  if (!l->d->set.split) {
    make_task(l, 0, l->p->n_ops, l->p->n_ops == 1 ? l->p->ops[0].name : "decoder");
    return;
  }
  for (uint32_t i = 0; i < l->p->n_ops && !l->c.no_memory; i++) make_task(l, i, 1, l->p->ops[i].name);
}

/* --- all --------------------------------------------------------------------------------------------------------- */

static bool reserve_lists(lowering *l) {
  const uint32_t n = l->c.s->n_nodes;
  size_t slots = 2 * (size_t)n + 8;
  for (uint32_t i = 0; i < n; i++) {
    const tn_node *node = l->g->nodes[l->c.s->nodes[i]];
    slots += (size_t)node->n_in + node->n_out;
  }
  if (!tni_cm_build_begin(&l->c, &l->p->mem, l->c.s, &l->p->info, slots)) return false;
  l->p->n_values = l->g->n_values;
  l->p->n_ops = n;
  l->p->ops = tni_cm_get(&l->c, n, sizeof *l->p->ops);
  l->p->values = tni_cm_get(&l->c, l->p->n_values, sizeof *l->p->values);
  l->p->slots = l->c.slots;
  l->p->needs = l->c.needs;
  l->p->tasks = tni_cm_get(&l->c, n, sizeof *l->p->tasks);
  l->p->has_image = tni_cm_get(&l->c, slots, sizeof *l->p->has_image);
  return !l->c.no_memory;
}

static void keep_ids(lowering *l) {
  for (uint32_t i = 0; i < l->p->n_ops && !l->c.no_memory; i++) {
    tni_cl_op *o = &l->p->ops[i];
    const uint32_t n_in = o->n_in > 1 + o->n_weights ? o->n_in : 1 + o->n_weights;
    o->in = tni_cm_copy(&l->c, o->in, n_in, sizeof *o->in);
    o->out = tni_cm_copy(&l->c, o->out, o->n_out, sizeof *o->out);
    o->name = tni_cm_text(&l->p->mem, "", o->name);
    l->c.no_memory = l->c.no_memory || !o->name;
  }
}

static tn_status lower_all(lowering *l, tn_error *err) {
  if (!reserve_lists(l)) return TN_E_NO_MEMORY;
  if (!match_all(l, err)) return l->c.no_memory ? TN_E_NO_MEMORY : TN_E_INVALID;
  if (!l->c.no_memory) make_slots(l);
  if (!l->c.no_memory) place_values(l);
  if (!l->c.no_memory) state_types(l);
  if (!l->c.no_memory) note_lifetimes(l);
  if (!l->c.no_memory) keep_ids(l);
  if (!l->c.no_memory) make_tasks(l);
  return l->c.no_memory ? TN_E_NO_MEMORY : TN_OK;
}

tn_status tni_cl_lower(tn_device *dev, const tn_subgraph *s, tn_program **out, tn_error *err) {
  tni_cl_device *d = (tni_cl_device *)dev;
  tni_cm_mem mem = {.host = d->host};
  tn_program *p = tni_cm_new(&mem, 1, sizeof *p);
  if (!p) return tni_cm_fail(err, TN_E_NO_MEMORY, d->vendor->name, "out of memory");
  p->mem = mem;
  p->device = d;
  tni_cm_graph_head(&p->graph, s->graph);
  lowering l = {.c.s = s, .d = d, .g = s->graph, .p = p};
  tn_status st = lower_all(&l, err);
  if (st != TN_OK) {
    tni_cl_release(p);
    return st == TN_E_NO_MEMORY ? tni_cm_fail(err, st, d->vendor->name, "out of memory") : st;
  }
  tni_cm_info_lists(&p->info, p->needs, p->slots, p->tasks);
  *out = p;
  return TN_OK;
}

const tn_program_info *tni_cl_info_of(const tn_program *p) { return &p->info; }

void tni_cl_release(tn_program *p) {
  if (!p) return;
  tni_cm_mem mem = p->mem;
  tni_cm_free(&mem);
}

/* A blob of another matrix, a torn one, or one of another format. */
static tn_status check_blob(const tn_program *p, tn_id slot, const tn_blob *blob, tn_error *err) {
  for (uint32_t i = 0; i < p->n_ops; i++) {
    const tni_cl_op *o = &p->ops[i];
    if (o->what != TNI_CLO_PRODUCT || o->blob_slot != slot) continue;
    if (!blob || blob->format != o->format)
      return tni_cm_fail(err, TN_E_INVALID, o->name, "the blob is not %s", o->format->name);
    if (blob->N != o->N || blob->K != o->K || blob->bytes < o->geo.bytes)
      return tni_cm_fail(err, TN_E_INVALID, o->name, "the blob is [%lld,%lld] in %llu bytes, not [%lld,%lld] in %llu",
                         (long long)blob->N, (long long)blob->K, (unsigned long long)blob->bytes, (long long)o->N,
                         (long long)o->K, (unsigned long long)o->geo.bytes);
  }
  return TN_OK;
}

/* A blob gets its image once; whoever else uses the buffer finds it there. */
tn_status tni_cl_set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  tni_cl_device *d = p->device;
  if (slot >= p->info.n_slots || !view || !view->buffer)
    return tni_cm_fail(err, TN_E_INVALID, d->vendor->name, "slot %u needs a buffer of this device", slot);
  if (p->info.slots[slot]->kind == TN_SLOT_WEIGHT) {
    tn_status st = check_blob(p, slot, blob, err);
    if (st != TN_OK) return st;
  }
  if (!blob || !d->vendor->images || !d->set.images || !(d->kernels.features & TNI_CLF_IMAGES)) return TN_OK;
  tni_cl_buffer *b = (tni_cl_buffer *)view->buffer;
  tni_e0m_geometry g;
  if (tni_e0m_geometry_of(blob->format->bits, blob->N, blob->K, &g) != TN_OK || g.n_parts != 1 || view->offset) return TN_OK;
  const int64_t rows = tni_e0m_rows(g.bits, g.K);
  if (!(d->kernels.features & TNI_CLF_IMAGE2D_BUF) ||
      !tni_cl_image_fits(&d->info, TNI_CLV_W_IMAGE2D, 0, g.bytes, g.Np, rows))
    return TN_OK;
  cl_int code = CL_SUCCESS;
  if (!b->image) b->image = tni_cl_weight_image(&d->context, b->mem, b->pub.bytes, TNI_CLV_W_IMAGE2D, g.Np, rows, &code);
  p->has_image[slot] = b->image != NULL;
  return TN_OK;
}
