/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/npu-int8-sim/attend.h"

#include <math.h>

#include "plugins/common/base/base.h"
#include "plugins/npu-int8-sim/program.h"

enum { Q, K, V, VALID, Y, MASK };

/* --- claims ------------------------------------------------------------------------------------------------------ */

typedef struct attention_reader {
  const tni_npu_device *d;
  const tn_graph *g;
  const tn_node *n;
  tni_npu_attention *o;
  uint32_t *reason;
  const char **text;
} attention_reader;

static bool refuse_attention(const attention_reader *r, uint32_t reason, const char *text) {
  *r->reason = reason;
  *r->text = text;
  return false;
}

static const tn_value *attention_input(const attention_reader *r, uint32_t i) {
  return i < r->n->n_in ? tni_cm_value(r->g, r->n->in[i]) : NULL;
}

static int64_t int_attr(const attention_reader *r, uint32_t i, int64_t dflt) {
  const tn_attr *a = i < r->n->n_attr ? r->n->attr[i] : NULL;
  return a && a->type == TN_ATTR_INT ? a->u.i : dflt;
}

static double float_attr(const attention_reader *r, uint32_t i) {
  const tn_attr *a = i < r->n->n_attr ? r->n->attr[i] : NULL;
  return a && a->type == TN_ATTR_FLOAT ? a->u.f : 0;
}

/* Heads and their size: [batch, heads, rows, size], or [batch, rows, heads * size]. */
static bool heads_of(const attention_reader *r, const tn_value *v, int64_t said, int64_t *heads, int64_t *size) {
  int64_t all;
  if (v->rank == 4)
    return tni_cm_const(r->d->host, r->g, v->dims[1], heads) && tni_cm_const(r->d->host, r->g, v->dims[3], size) &&
           *heads > 0 && *size > 0;
  if (v->rank != 3 || said < 1 || !tni_cm_const(r->d->host, r->g, v->dims[2], &all) || all < said || all % said)
    return false;
  *heads = said;
  *size = all / said;
  return true;
}

static bool read_operands(const attention_reader *r) {
  const tn_value *q = attention_input(r, 0), *k = attention_input(r, 1), *v = attention_input(r, 2),
                 *valid = attention_input(r, 6);
  const tn_value *y = r->n->n_out ? tni_cm_value(r->g, r->n->out[0]) : NULL;
  if (!q || !k || !v || !y || !valid || k->kind != TN_VALUE_STATE || v->kind != TN_VALUE_STATE || !k->state)
    return refuse_attention(r, TN_WHY_FLOAT, "attention without caches stays on the CPU");
  if (q->dtype != TN_DT_F32 || k->dtype != TN_DT_F32 || v->dtype != TN_DT_F32 || y->dtype != TN_DT_F32)
    return refuse_attention(r, TN_WHY_DTYPE, "only float32 attention");
  if (valid->dtype != TN_DT_I64 || valid->kind != TN_VALUE_STEP)
    return refuse_attention(r, TN_WHY_DTYPE, "lengths that are no int64 of the step");
  for (uint32_t i = 4; i < r->n->n_in; i++)
    if (i != 6 && attention_input(r, i))
      return refuse_attention(r, TN_WHY_ATTR, "attention with past inputs, sinks or slopes");
  for (uint32_t i = 1; i < r->n->n_out; i++)
    if (r->n->out[i] != TN_NONE) return refuse_attention(r, TN_WHY_ATTR, "attention with more than one output");
  if (k->state->flags & TN_STATE_CIRCULAR) return refuse_attention(r, TN_WHY_ATTR, "a circular cache");
  r->o->q = r->n->in[0];
  r->o->k = r->n->in[1];
  r->o->v = r->n->in[2];
  r->o->valid = r->n->in[6];
  r->o->y = r->n->out[0];
  r->o->mask = attention_input(r, 3) ? r->n->in[3] : TN_NONE;
  r->o->q_rank = q->rank;
  r->o->batch = q->rank ? q->dims[0] : TN_NONE;
  r->o->keys = k->state->axis < k->rank ? k->dims[k->state->axis] : TN_NONE;
  return true;
}

/* Of each key, the same for all queries and heads or not: [.., 1 or heads, 1 or rows, keys], ranks aligned at the end.
 */
static bool read_mask(const attention_reader *r, tn_expr rows) {
  const tn_value *m = attention_input(r, 3);
  const tn_expr want[3] = {r->o->batch, TN_NONE, rows};
  if (!m) return true;
  if (m->dtype != TN_DT_BOOL || m->kind == TN_VALUE_CONST)
    return refuse_attention(r, TN_WHY_DTYPE, "a mask that is not bool");
  if (m->rank < 1 || m->rank > 4 || m->dims[m->rank - 1] != r->o->keys)
    return refuse_attention(r, TN_WHY_SHAPE, "a mask that has no entry for each key");
  for (uint32_t i = 1; i < m->rank; i++) {
    const tn_expr e = m->dims[m->rank - 1 - i];
    int64_t n;
    if (tni_cm_const(r->d->host, r->g, e, &n) && (n == 1 || (i == 2 && n == r->o->a.heads))) continue;
    if (i == 2 || e != want[3 - i])
      return refuse_attention(r, TN_WHY_SHAPE, "a mask that does not fit queries and heads");
  }
  return true;
}

static bool read_shape(const attention_reader *r) {
  const tn_value *q = attention_input(r, 0), *k = attention_input(r, 1), *v = attention_input(r, 2),
                 *y = tni_cm_value(r->g, r->n->out[0]);
  const int64_t q_heads = int_attr(r, TN_ATTENTION_Q_NUM_HEADS, 0),
                kv_heads = int_attr(r, TN_ATTENTION_KV_NUM_HEADS, 0);
  npusim_attention *a = &r->o->a;
  int64_t v_heads, k_size;
  if (!heads_of(r, q, q_heads, &a->heads, &a->size) || !heads_of(r, k, kv_heads, &a->kv_heads, &k_size) ||
      !heads_of(r, v, kv_heads, &v_heads, &a->v_size) || v_heads != a->kv_heads || k_size != a->size ||
      a->heads % a->kv_heads || y->rank != q->rank || a->size > 1024 || a->v_size > 1024)
    return refuse_attention(r, TN_WHY_SHAPE, "heads that are not known, or over 1024");
  if (int_attr(r, TN_ATTENTION_LEFT_WINDOW, -1) >= 0 || int_attr(r, TN_ATTENTION_RIGHT_WINDOW, -1) >= 0 ||
      float_attr(r, TN_ATTENTION_SOFTCAP) != 0)
    return refuse_attention(r, TN_WHY_ATTR, "attention with a window or a soft cap");
  a->causal = int_attr(r, TN_ATTENTION_IS_CAUSAL, 0) != 0;
  a->scale = (float)float_attr(r, TN_ATTENTION_SCALE);
  if (a->scale == 0) a->scale = (float)(1 / sqrt((double)a->size));
  a->M = r->d->set.chunk;
  const tn_expr rows = q->dims[q->rank == 4 ? 2 : 1];
  int64_t known;
  if (rows == TN_NONE || r->o->batch == TN_NONE || r->o->keys == TN_NONE)
    return refuse_attention(r, TN_WHY_SHAPE, "a dim that nobody knows");
  r->o->n_rows = !tni_cm_const(r->d->host, r->g, rows, &known);
  if (!r->o->n_rows && known != a->M) return refuse_attention(r, TN_WHY_SHAPE, "queries that are no chunk");
  r->o->rows = (tn_constraint){.lhs = rows, .rel = TN_REL_EQ, .rhs = a->M};
  return read_mask(r, rows);
}

bool tni_npu_attention_read(const tni_npu_device *d, const tn_graph *g, tn_id node, tni_npu_attention *out,
                            uint32_t *reason, const char **text) {
  *out = (tni_npu_attention){.node = node};
  const attention_reader r = {d, g, g->nodes[node], out, reason, text};
  if (!d->set.profile->float_attention) return refuse_attention(&r, TN_WHY_FLOAT, "this device has no float attention");
  if (g->phase != TN_PHASE_PREFILL)
    return refuse_attention(&r, TN_WHY_OPTION, "static shapes: this device takes the prefill phase only");
  return read_operands(&r) && read_shape(&r);
}

int64_t tni_npu_attention_ns(const tni_npu_device *d, const tni_npu_attention *o, int64_t T) {
  const npusim_attention *a = &o->a;
  return npusim_attention_ns(d->set.profile, a->M, T, a->heads * a->size, a->kv_heads * a->size, a->heads);
}

tn_status tni_npu_attention_states(const tn_graph *g, const tn_id *values, uint32_t n, const tn_claim_sink *sink) {
  static const tn_layout layouts[] = {{.h = TN_HDR(tn_layout), .dtype = TN_DT_F32, .rank = 4, .order = {0, 1, 2, 3}},
                                      {.h = TN_HDR(tn_layout), .dtype = TN_DT_F32, .rank = 4, .order = {0, 2, 1, 3}}};
  static const tn_layout *const list[] = {&layouts[0], &layouts[1]};
  for (uint32_t i = 0; sink->state && i < n; i++) {
    tn_id root = values[i]; /* the cache as the run finds it */
    while (g->values[root]->producer != TN_NONE) root = g->nodes[g->values[root]->producer]->in[0];
    tn_status st = sink->state(sink->ctx, root, list, 2);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

/* --- tasks ------------------------------------------------------------------------------------------------------- */

static tn_status dims_of(const tn_program *p, const tni_npu_attention *o, const tn_dims *dims, int64_t *batch,
                         int64_t *keys) {
  tn_status st = tni_cm_product(p->device->host, &p->graph, &o->batch, 1, dims, batch);
  return st == TN_OK ? tni_cm_product(p->device->host, &p->graph, &o->keys, 1, dims, keys) : st;
}

tn_status tni_npu_attend_measure(const tn_program *p, const tni_npu_task *t, const tn_dims *dims, tn_measure *out) {
  const tni_npu_attention *o = t->att;
  const npusim_attention *a = &o->a;
  int64_t batch, T;
  tn_status st = dims_of(p, o, dims, &batch, &T);
  if (st != TN_OK) return st;
  if (batch < 0 || batch > INT32_MAX || T > INT32_MAX) return TN_E_LIMIT;
  const double m = (double)batch * (double)a->M;
  out->scratch_bytes = 0;
  out->scratch_align = 64;
  out->cost_ns = (double)batch * (double)tni_npu_attention_ns(p->device, o, T);
  out->macs = m * (double)T * (double)(a->heads * (a->size + a->v_size));
  out->moved_bytes = 4 * (m * (double)(a->heads * (a->size + a->v_size)) +
                          (double)batch * (double)T * (double)(a->kv_heads * (a->size + a->v_size)));
  out->driver_bytes = 8 * (uint64_t)(T + a->v_size);
  if (out->slot_bytes && p->slots[o->slot[Y]]->kind == TN_SLOT_TEMP)
    out->slot_bytes[o->slot[Y]] = (uint64_t)batch * (uint64_t)a->M * (uint64_t)(a->heads * a->v_size) * sizeof(float);
  return TN_OK;
}

/* One for each number of keys, kept as long as a plan uses it. */
struct tni_npu_attends {
  struct tni_npu_attends *next;
  npusim_graph *graph;
  npusim_attention a;
  uint32_t users, reserved;
};

static bool same_attention(const npusim_attention *a, const npusim_attention *b) {
  return a->M == b->M && a->T == b->T && a->heads == b->heads && a->kv_heads == b->kv_heads && a->size == b->size &&
         a->v_size == b->v_size && a->causal == b->causal && !(a->scale < b->scale) && !(a->scale > b->scale);
}

static tn_status add_graph(tn_program *p, const tni_npu_task *t, const npusim_attention *a,
                           struct tni_npu_attends **out, tn_error *err) {
  const tn_host *h = p->device->host;
  struct tni_npu_attends *s = h->alloc(h->ctx, sizeof *s, 16, TN_TAG_PLUGIN);
  if (!s) return tni_cm_fail(err, TN_E_NO_MEMORY, t->pub.name, "out of memory");
  *s = (struct tni_npu_attends){.next = p->attends, .a = *a};
  const int rc = npusim_prepare_attention(p->device->sim, a, &s->graph);
  if (rc != NPUSIM_OK) {
    h->free(h->ctx, s);
    return tni_npu_fail(err, rc, t->pub.name, "attention cannot be prepared");
  }
  *out = p->attends = s;
  return TN_OK;
}

tn_status tni_npu_attend_bind(tn_program *p, const tni_npu_task *t, const tn_dims *dims, tn_plan *plan, tn_error *err) {
  npusim_attention a = t->att->a;
  tn_status st = dims_of(p, t->att, dims, &plan->M, &a.T);
  if (st != TN_OK) return tni_cm_fail(err, st, t->pub.name, "dims that do not fit this attention");
  struct tni_npu_attends *s = p->attends;
  while (s && !same_attention(&s->a, &a)) s = s->next;
  if (!s) st = add_graph(p, t, &a, &s, err);
  if (st != TN_OK) return st;
  s->users++;
  plan->attention = s->graph;
  plan->keys = a.T;
  return TN_OK;
}

void tni_npu_attend_unbind(tn_plan *plan) {
  const tn_host *h = plan->program->device->host;
  struct tni_npu_attends **at = &plan->program->attends;
  while (*at && (*at)->graph != plan->attention) at = &(*at)->next;
  if (!*at || --(*at)->users) return;
  struct tni_npu_attends *gone = *at;
  *at = gone->next;
  npusim_graph_free(gone->graph);
  h->free(h->ctx, gone);
}

/* Rows, heads and sequences of a use, in elements. */
static bool operand_strides(const tni_npu_attention *o, uint32_t use, const tn_view *v, int64_t *row, int64_t *head,
                            int64_t *batch) {
  const int64_t size = use == Y ? o->a.v_size : o->a.size, rows = o->a.M;
  if (use == Q || use == Y) {
    *row = o->q_rank == 4 ? size : o->a.heads * size;
    *head = o->q_rank == 4 ? rows * size : size;
    *batch = rows * o->a.heads * size;
    return true;
  }
  /* A cache of three dims is seen as [batch, rows, heads, size]; the last is dense. */
  const bool flat = v->rank == 4 && v->dims[1] != o->a.kv_heads;
  if (v->rank != 4 || !v->strides || v->dtype != TN_DT_F32 || v->strides[3] != 1) return false;
  *row = v->strides[flat ? 1 : 2];
  *head = v->strides[flat ? 2 : 1];
  *batch = v->strides[0];
  return v->dims[flat ? 2 : 1] == o->a.kv_heads;
}

static tn_status attach_mask(const tn_plan *plan, const tn_view *v, struct tni_npu_place *to, tn_error *err) {
  const npusim_attention *a = &plan->task->att->a;
  const int64_t want[3] = {plan->M, a->heads, a->M};
  int64_t *const stride[3] = {&to->batch, &to->head, &to->row};
  int64_t step = plan->keys;
  bool fits = v->rank >= 1 && v->rank <= 4 && v->dims && v->dims[v->rank - 1] == plan->keys;
  to->batch = to->head = to->row = 0;
  for (uint32_t i = 1; fits && i < v->rank; i++) {
    const int64_t n = v->dims[v->rank - 1 - i];
    fits = n == 1 || n == want[3 - i];
    *stride[3 - i] = n == 1 ? 0 : step;
    step *= n;
  }
  if (fits && v->bytes >= (uint64_t)step) return TN_OK;
  return tni_cm_fail(err, TN_E_INVALID, plan->task->pub.name, "a mask that does not fit queries, heads and keys");
}

tn_status tni_npu_attend_attach(const tn_plan *plan, uint32_t use, const tn_view *v, struct tni_npu_place *to,
                                tn_error *err) {
  const tni_npu_attention *o = plan->task->att;
  const uint64_t queries = (uint64_t)plan->M * (uint64_t)(o->a.M * o->a.heads) * sizeof(float);
  const uint64_t wanted = use == Q       ? queries * (uint64_t)o->a.size
                          : use == Y     ? queries * (uint64_t)o->a.v_size
                          : use == VALID ? (uint64_t)plan->M * sizeof(int64_t)
                                         : 0;
  if (use == MASK) return attach_mask(plan, v, to, err);
  if (v->bytes < wanted)
    return tni_cm_fail(err, TN_E_INVALID, plan->task->pub.name, "an operand has %llu bytes, %llu are needed",
                       (unsigned long long)v->bytes, (unsigned long long)wanted);
  if (use != VALID && !operand_strides(o, use, v, &to->row, &to->head, &to->batch))
    return tni_cm_fail(err, TN_E_INVALID, plan->task->pub.name, "a cache that does not lie as agreed");
  return TN_OK;
}

/* The device's addresses are aligned, and a layout promises that of the first sequence alone: others count from it. */
static npusim_rows rows_at(const struct tni_npu_place *p, int64_t b) {
  return (npusim_rows){.handle = p->handle, .at = p->at, .row = p->row, .head = p->head, .first = b * p->batch};
}

int tni_npu_attend_run(const tn_item *it, int (*stop)(void *arg), void *arg, npusim_times *t) {
  const struct tni_npu_place *p = it->args->place;
  const bool masked = it->plan->task->att->mask != TN_NONE;
  npusim_times one = *t;
  for (int64_t b = 0; b < it->plan->M; b++) {
    const npusim_attention_io io = {.q = rows_at(&p[Q], b),
                                    .k = rows_at(&p[K], b),
                                    .v = rows_at(&p[V], b),
                                    .y = rows_at(&p[Y], b),
                                    .valid = p[VALID].handle,
                                    .valid_at = p[VALID].at + (uint64_t)b * sizeof(int64_t),
                                    .mask = masked ? p[MASK].handle : 0,
                                    .mask_at = masked ? p[MASK].at + (uint64_t)(b * p[MASK].batch) : 0,
                                    .mask_row = masked ? p[MASK].row : 0,
                                    .mask_head = masked ? p[MASK].head : 0};
    const int rc = npusim_attend(it->plan->attention, &io, it->ready, stop, arg, &one);
    if (rc != NPUSIM_OK) return rc;
    if (b == 0) t->start = one.start;
    t->end = one.end;
    t->bytes += one.bytes;
  }
  return NPUSIM_OK;
}
