/* SPDX-License-Identifier: Apache-2.0
 *
 * Every function of a device, handed on with copies of what is lent for the call.
 */
#include "runtime/conform/observe/layer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- copies ------------------------------------------------------------------------------------------------------ */

static const tn_dims *lend_dims(tni_cf_loan *l, const tn_dims *d) {
  if (!d) return NULL;
  tn_dims *copy = tni_obs_lend_struct(l, d, sizeof *d);
  if (!copy) return d;
  if (d->n) copy->v = tni_cf_loan_copy(l, d->v, d->n * sizeof *d->v);
  return copy;
}

static const tn_view *lend_view(tni_cf_loan *l, const tn_view *v) {
  if (!v) return NULL;
  tn_view *copy = tni_obs_lend_struct(l, v, sizeof *v);
  if (!copy) return v;
  if (v->dims) copy->dims = tni_cf_loan_copy(l, v->dims, v->rank * sizeof *v->dims);
  if (v->strides) copy->strides = tni_cf_loan_copy(l, v->strides, v->rank * sizeof *v->strides);
  return copy;
}

enum { VIEW_BYTES = sizeof(tn_view) + 2 * TN_MAX_RANK * 8 + 96 + TNI_OBS_MORE };

static size_t dims_bytes(const tn_dims *d) { return d ? d->h.size + d->n * sizeof *d->v + 64 + TNI_OBS_MORE : 0; }

/* --- claims and programs ----------------------------------------------------------------------------------------- */

/* Where a claim goes, looked at, with some of the yeses taken back. */
typedef struct refusing {
  layer *y;
  const tn_claim_sink *sink;
  const tn_graph *g;
  uint32_t seed;
  tn_status said; /* the first no of the host's sink */
} refusing;

static tn_status sink_said(refusing *r, tn_status st) {
  if (r->said == TN_OK) r->said = st;
  return st;
}

static tn_status refusing_node(void *ctx, tn_id node, const tn_claim *c) {
  refusing *r = ctx;
  tni_obs_header(r->y, c, "tn_claim", TN_UPTO(tn_claim, text), sizeof *c);
  if (c) tni_obs_reserved(r->y, "tn_claim", c->reserved | c->reserved2 | (TN_HAS(c, tn_claim, reserved3) ? c->reserved3 : 0));
  if (c && !memchr(c->text, 0, sizeof c->text))
    tni_obs_wrong(r->y, "the text of the claim for node %u has no end: it has 120 bytes with the 0 (graph.h)", node);
  for (uint32_t i = 0; c && tni_obs_is_old() && c->constraints && i < c->n_constraints; i++)
    if (c->constraints[i].rel == TN_REL_IN)
      tni_obs_wrong(r->y, "the claim for node %u has a constraint TN_REL_IN, born in 1.1, and the host is of 1.0 (plugin.h, "
                          "rule 8)", node);
  if (!r->seed) return sink_said(r, r->sink->node(r->sink->ctx, node, c));
  const tn_node *n = node < r->g->n_nodes ? r->g->nodes[node] : NULL;
  uint32_t mix = r->seed;
  for (const char *at = n && n->n_out ? r->g->values[n->out[0]]->name : ""; at && *at; at++)
    mix = (mix ^ (uint8_t)*at) * 16777619u;
  /* A fused node of Tenon's own cannot always go to the host. */
  if (!n || n->domain[0] || c->verdict != TN_YES || (mix >> 8) % 3)
    return sink_said(r, r->sink->node(r->sink->ctx, node, c));
  const tn_claim no = {
      .h = TN_HDR(tn_claim), .verdict = TN_NO, .reason = TN_WHY_OPTION, .text = "the kit wants it elsewhere"};
  return sink_said(r, r->sink->node(r->sink->ctx, node, &no));
}
static tn_status refusing_group(void *ctx, const tn_id *nodes, uint32_t n, const tn_claim *c) {
  refusing *r = ctx;
  tni_obs_header(r->y, c, "tn_claim", TN_UPTO(tn_claim, text), sizeof *c);
  return sink_said(r, r->sink->group(r->sink->ctx, nodes, n, c));
}
static tn_status refusing_state(void *ctx, tn_id value, const tn_layout *const *accepted, uint32_t n) {
  refusing *r = ctx;
  for (uint32_t i = 0; i < n && accepted; i++) {
    tni_obs_header(r->y, accepted[i], "tn_layout", sizeof(tn_layout), sizeof(tn_layout));
    tni_obs_reserved(r->y, "tn_layout", accepted[i]->reserved);
  }
  return sink_said(r, r->sink->state(r->sink->ctx, value, accepted, n));
}

static tn_status obs_claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink,
                           tn_error *err) {
  tni_cf_loan l;
  tni_obs_lent_error own;
  refusing r = {layer_of(d), sink, g, layer_of(d)->refuse, TN_OK};
  const tn_claim_sink ours = {
      .h = TN_HDR(tn_claim_sink), .ctx = &r, .node = refusing_node, .group = refusing_group, .state = refusing_state};
  sink = &ours;
  const bool lent = tni_cf_loan_begin(&l, "claim", tni_obs_graph_bytes(g) + sink->h.size + dims_bytes(at));
  const tn_graph *head = lent ? tni_obs_lend_graph(&l, g) : g;
  const tn_claim_sink *s = lent ? tni_obs_lend_struct(&l, sink, sizeof *sink) : sink;
  const char *before = tni_cf_call_begin("claim");
  const tn_status st = layer_of(d)->real->claim(layer_of(d)->real, head, lent ? lend_dims(&l, at) : at, s,
                                              tni_obs_error(&own, err));
  tni_cf_call_over(before);
  /* What the sink said is handed on; why it said so the host knows (tni_claims.fault). */
  if (st != TN_OK && st == r.said && !own.error.message[0])
    snprintf(own.error.message, sizeof own.error.message, "the host's sink said so");
  tni_obs_error_over(layer_of(d), "claim", st, &own, err);
  tni_cf_loan_end(&l);
  return st;
}

static tn_status obs_lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err) {
  tni_cf_loan l;
  const size_t ids = sizeof(tn_id) * (2 * (size_t)s->n_nodes + s->n_inputs + s->n_outputs + s->n_states),
               layouts = s->n_states * (sizeof(tn_layout) + sizeof(void *) + 16 + TNI_OBS_MORE);
  tni_obs_lent_error own;
  tn_subgraph *copy = NULL;
  if (tni_cf_loan_begin(&l, "lower", s->h.size + tni_obs_graph_bytes(s->graph) + ids + layouts))
    copy = tni_obs_lend_struct(&l, s, sizeof *s);
  if (copy) {
    copy->graph = tni_obs_lend_graph(&l, s->graph);
    copy->nodes = tni_cf_loan_copy(&l, s->nodes, s->n_nodes * sizeof(tn_id));
    copy->group_of = tni_cf_loan_copy(&l, s->group_of, s->n_nodes * sizeof(tn_id));
    copy->inputs = tni_cf_loan_copy(&l, s->inputs, s->n_inputs * sizeof(tn_id));
    copy->outputs = tni_cf_loan_copy(&l, s->outputs, s->n_outputs * sizeof(tn_id));
    copy->states = tni_cf_loan_copy(&l, s->states, s->n_states * sizeof(tn_id));
    const tn_layout **list = tni_cf_loan_copy(&l, s->layouts, s->n_states * sizeof *list);
    for (uint32_t i = 0; list && i < s->n_states; i++)
      list[i] = tni_obs_lend_struct(&l, s->layouts[i], sizeof(tn_layout));
    copy->layouts = list;
  }
  const char *before = tni_cf_call_begin("lower");
  *out = NULL;
  const tn_status st = layer_of(d)->real->lower(layer_of(d)->real, copy ? copy : s, out, tni_obs_error(&own, err));
  tni_cf_call_over(before);
  tni_obs_error_over(layer_of(d), "lower", st, &own, err);
  tni_obs_nothing(layer_of(d), "lower", st, out);
  const tn_program_info *f = st == TN_OK && *out ? layer_of(d)->real->info(*out) : NULL;
  if (f) tni_obs_program(layer_of(d), f);
  if (f) tni_obs_order(layer_of(d), s->graph, f);
  if (f) tni_obs_own(layer_of(d), &l, f);
  tni_cf_loan_end(&l);
  return st;
}

static const tn_program_info *obs_info(const tn_program *p) {
  const char *before = tni_cf_call_begin("info");
  const tn_program_info *info = tni_obs_any()->real->info(p);
  tni_cf_call_over(before);
  return info;
}

static void obs_release(tn_program *p) {
  const char *before = tni_cf_call_begin("release");
  tni_obs_any()->real->release(p);
  tni_cf_call_over(before);
}

/* A TEMP or PRIVATE slot of the task: what measure may write. */
static bool is_measured(const tn_program_info *f, tn_id task, uint32_t slot) {
  const tn_task *t = f->tasks[task];
  if (f->slots[slot]->kind != TN_SLOT_TEMP && f->slots[slot]->kind != TN_SLOT_PRIVATE) return false;
  for (uint32_t u = 0; u < t->n_uses; u++)
    if (t->uses[u].slot == slot) return true;
  return false;
}

static const uint64_t UNTOUCHED = UINT64_C(0x5bc0ffee5bc0ffee);

/* The callee fills what it knows: the header is the host's, and what lies after is of another version. */
static void measure_over(layer *y, const tn_measure *m, const tn_hdr *lent, tn_measure *out) {
  const tn_hdr h = out->h;
  const uint8_t *more = (const uint8_t *)(m + 1);
  bool kept = memcmp(&m->h, lent, sizeof h) == 0 && m->slot_bytes == out->slot_bytes;
  for (uint32_t i = 0; kept && i + sizeof *m < m->h.size; i++) kept = more[i] == 0xee;
  if (!kept)
    tni_obs_wrong(y,
                  "measure changes the header, `slot_bytes` or what lies after its tn_measure: fill in its fields one "
                  "by one (plugin.h, rule 4)");
  tni_obs_reserved(y, "tn_measure", m->reserved);
  *out = *m;
  out->h = h;
}

static tn_status obs_measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  layer *y = tni_obs_any();
  const tn_program_info *f = y->real->info(p);
  const uint32_t n = f && out->slot_bytes && task < f->n_tasks ? f->n_slots : 0;
  tni_cf_loan l;
  const bool lent = tni_cf_loan_begin(&l, "measure", dims_bytes(dims) + n * sizeof(uint64_t) + 2 * sizeof *out);
  uint64_t *theirs = out->slot_bytes, *ours = lent && n ? tni_cf_loan_copy(&l, theirs, n * sizeof *ours) : NULL;
  for (uint32_t i = 0; ours && i < n; i++)
    if (!is_measured(f, task, i)) ours[i] = UNTOUCHED;
  if (ours) out->slot_bytes = ours;
  tn_measure *m = lent ? tni_obs_lend_struct(&l, out, sizeof *out) : NULL;
  const tn_hdr head = m ? m->h : out->h;
  const char *before = tni_cf_call_begin("measure");
  const tn_status st = y->real->measure(p, task, lent ? lend_dims(&l, dims) : dims, m ? m : out);
  tni_cf_call_over(before);
  if (m) measure_over(y, m, &head, out);
  out->slot_bytes = theirs;
  for (uint32_t i = 0; ours && i < n; i++) {
    if (is_measured(f, task, i))
      theirs[i] = ours[i];
    else if (ours[i] != UNTOUCHED)
      tni_obs_wrong(y, "measure of task %u writes slot_bytes[%u], which is no TEMP or PRIVATE slot of that task", task,
                    i);
  }
  tni_cf_loan_end(&l);
  return st;
}

/* What set gets lives until release: the view and the blob are the host's own, or copies that stay as long as the case
 * where they are to be of another version. */
static tn_status obs_set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  tni_obs_lent_error own;
  view = tni_obs_keep_struct(view, sizeof *view);
  blob = tni_obs_keep_struct(blob, sizeof *blob);
  const char *before = tni_cf_call_begin("set");
  const tn_status st = tni_obs_any()->real->set(p, slot, view, blob, tni_obs_error(&own, err));
  tni_cf_call_over(before);
  tni_obs_error_over(tni_obs_any(), "set", st, &own, err);
  return st;
}

/* --- plans and args ---------------------------------------------------------------------------------------------- */

static tn_status obs_bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  tni_obs_lent_error own;
  tni_cf_loan l;
  const bool lent = tni_cf_loan_begin(&l, "bind", dims_bytes(dims));
  const char *before = tni_cf_call_begin("bind");
  *out = NULL;
  const tn_status st = tni_obs_any()->real->bind(p, task, lent ? lend_dims(&l, dims) : dims, out, tni_obs_error(&own, err));
  tni_cf_call_over(before);
  tni_obs_error_over(tni_obs_any(), "bind", st, &own, err);
  tni_obs_nothing(tni_obs_any(), "bind", st, out);
  tni_cf_loan_end(&l);
  return st;
}

static void obs_unbind(tn_plan *plan) {
  const char *before = tni_cf_call_begin("unbind");
  tni_obs_any()->real->unbind(plan);
  tni_cf_call_over(before);
}

static tn_status obs_args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  tni_obs_lent_error own;
  tni_cf_loan l;
  const tn_view **list = NULL;
  if (tni_cf_loan_begin(&l, "args", n * (VIEW_BYTES + sizeof *list)))
    list = tni_cf_loan_copy(&l, uses, n * sizeof *list);
  for (uint32_t i = 0; list && i < n; i++) list[i] = lend_view(&l, uses[i]);
  const char *before = tni_cf_call_begin("args");
  *out = NULL;
  const tn_status st = tni_obs_any()->real->args(plan, list ? list : uses, n, out, tni_obs_error(&own, err));
  tni_cf_call_over(before);
  tni_obs_error_over(tni_obs_any(), "args", st, &own, err);
  tni_obs_nothing(tni_obs_any(), "args", st, out);
  tni_cf_loan_end(&l);
  return st;
}

static tn_status obs_args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  tni_obs_lent_error own;
  tni_cf_loan l;
  const bool lent = tni_cf_loan_begin(&l, "args_set", VIEW_BYTES);
  const char *before = tni_cf_call_begin("args_set");
  const tn_status st = tni_obs_any()->real->args_set(a, use, lent ? lend_view(&l, view) : view, tni_obs_error(&own, err));
  tni_cf_call_over(before);
  tni_obs_error_over(tni_obs_any(), "args_set", st, &own, err);
  tni_cf_loan_end(&l);
  return st;
}

static void obs_args_free(tn_args *a) {
  const char *before = tni_cf_call_begin("args_free");
  tni_obs_any()->real->args_free(a);
  tni_cf_call_over(before);
}

/* A pool that is lent, with each part looked at on its thread: the first ones, and then now and then. */
enum { LOOKED_AT = 8, NOW_AND_THEN = 61 };
typedef struct watched_part {
  tn_body body;
  void *arg;
  atomic_uint parts;
} watched_part;

static void watched_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  watched_part *w = arg;
  const unsigned k = atomic_fetch_add(&w->parts, 1);
  tni_cf_body_run(w->body, w->arg, begin, end, worker, k >= LOOKED_AT && k % NOW_AND_THEN);
}

static void watched_for(tn_run *run, int64_t n, int64_t grain, tn_body body, void *arg) {
  tn_run *real = run->ctx;
  real->parallel_for(real, n, grain, watched_body, &(watched_part){.body = body, .arg = arg});
}

static int32_t watched_cancelled(const tn_run *run) {
  const tn_run *real = run->ctx;
  return real->cancelled(real);
}

static tn_run *lend_run(tni_cf_loan *l, tn_run *run) {
  tn_run *copy = run ? tni_obs_lend_struct(l, run, sizeof *run) : NULL;
  if (!copy) return run;
  copy->ctx = run;
  copy->parallel_for = watched_for;
  copy->cancelled = watched_cancelled;
  return copy;
}

static tn_status obs_run(const tn_plan *plan, tn_args *a, tn_run *run, tn_error *err) {
  tni_obs_lent_error own;
  tni_cf_loan l;
  tn_run *copy = tni_cf_loan_begin(&l, "run", run->h.size) ? lend_run(&l, run) : NULL;
  const char *before = tni_cf_call_begin("run");
  const tn_status st = tni_obs_any()->real->run(plan, a, copy ? copy : run, tni_obs_error(&own, err));
  tni_cf_call_over(before);
  tni_obs_error_over(tni_obs_any(), "run", st, &own, err);
  tni_cf_loan_end(&l);
  return st;
}

static size_t fence_bytes(const tn_item *item) {
  const size_t n = tni_obs_is_old() || !TN_HAS(item, tn_item, signal) ? 0 : item->n_waits + 1;
  return n * (sizeof(tn_fence) + sizeof(tn_fence *) + 48 + TNI_OBS_MORE);
}

/* What an item waits for and tells: its fences are lent like the item itself. Their words are the host's. */
static void lend_fences(tni_cf_loan *l, const tn_item *of, tn_item *item) {
  if (tni_obs_is_old() || !TN_HAS(of, tn_item, signal)) return;
  if (of->signal) item->signal = tni_obs_lend_struct(l, of->signal, sizeof *of->signal);
  const tn_fence **list = of->n_waits ? tni_cf_loan_copy(l, of->waits, of->n_waits * sizeof *list) : NULL;
  for (uint32_t i = 0; list && i < of->n_waits; i++)
    list[i] = tni_obs_lend_struct(l, of->waits[i], sizeof *of->waits[i]);
  if (list) item->waits = list;
}

static tn_status obs_submit(tn_device *d, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run,
                            tn_error *err) {
  tni_obs_lent_error own;
  tni_cf_loan l;
  const tn_item **list = NULL;
  tn_run *copy = NULL;
  size_t bytes = (run ? run->h.size : 0) + n * (sizeof(tn_item) + sizeof *list + 32 + TNI_OBS_MORE + 2 * VIEW_BYTES);
  for (uint32_t i = 0; i < n; i++) bytes += fence_bytes(items[i]);
  if (tni_cf_loan_begin(&l, "submit", bytes)) list = tni_cf_loan_copy(&l, items, n * sizeof *list);
  for (uint32_t i = 0; list && i < n; i++) {
    tn_item *item = tni_obs_lend_struct(&l, items[i], TN_UPTO(tn_item, ready));
    item->src = lend_view(&l, item->src);
    item->dst = lend_view(&l, item->dst);
    lend_fences(&l, items[i], item);
    list[i] = item;
  }
  if (list && run) copy = lend_run(&l, run);
  const char *before = tni_cf_call_begin("submit");
  const tn_status st =
      layer_of(d)->real->submit(layer_of(d)->real, engine, list ? list : items, n, copy ? copy : run, tni_obs_error(&own, err));
  tni_cf_call_over(before);
  tni_obs_error_over(layer_of(d), "submit", st, &own, err);
  tni_cf_loan_end(&l);
  return st;
}

static void obs_cancel(tn_device *d, uint32_t engine, tn_ticket *ticket) {
  const char *before = tni_cf_call_begin("cancel");
  layer_of(d)->real->cancel(layer_of(d)->real, engine, ticket);
  tni_cf_call_over(before);
}

static void obs_abandon(tn_device *d) {
  const char *before = tni_cf_call_begin("abandon");
  layer_of(d)->real->abandon(layer_of(d)->real);
  tni_cf_call_over(before);
}

/* --- the layer --------------------------------------------------------------------------------------------------- */

tn_device *tni_cf_observe(tn_device *real) {
  layer *l = calloc(1, sizeof *l);
  if (!l) return NULL;
  l->real = real;
  pthread_mutex_init(&l->lock, NULL);
  l->pub = (tn_device){.h = real->h,
                       .caps = real->caps,
                       .claim = obs_claim,
                       .lower = obs_lower,
                       .info = obs_info,
                       .measure = obs_measure,
                       .set = obs_set,
                       .release = obs_release,
                       .bind = obs_bind,
                       .unbind = obs_unbind,
                       .args = obs_args,
                       .args_set = obs_args_set,
                       .args_free = obs_args_free,
                       .run = obs_run,
                       .submit = real->submit ? obs_submit : NULL,
                       .create = real->create ? tni_obs_create : NULL,
                       .share = real->share ? tni_obs_share : NULL,
                       .destroy = real->destroy ? tni_obs_destroy : NULL,
                       .map = real->map ? tni_obs_map : NULL,
                       .unmap = real->unmap ? tni_obs_unmap : NULL};
  if (TN_HAS(real, tn_device, cancel) && real->cancel) l->pub.cancel = obs_cancel;
  if (TN_HAS(real, tn_device, abandon) && real->abandon) l->pub.abandon = obs_abandon;
  tni_obs_add(l);
  return &l->pub;
}

void tni_cf_observe_refuse(tn_device *d, uint32_t seed) { layer_of(d)->refuse = seed; }

const char *tni_cf_observed(const tn_device *d) {
  const layer *l = (const layer *)(const void *)d;
  return l->wrong[0] ? l->wrong : NULL;
}

void tni_cf_observe_end(tn_device *d) {
  if (!d) return;
  layer *l = layer_of(d);
  tni_obs_remove(l);
  pthread_mutex_destroy(&l->lock);
  free(l);
}
