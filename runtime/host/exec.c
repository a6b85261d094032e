/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs at concrete dims: measure, set, bind, args, run.
 */
#include "runtime/host/device.h"
#include "runtime/ops/kernel/kernel.h"
#include "runtime/ops/recurrent/recurrent.h"

/* The node's operands at dims. in and out have the node's counts. */
static tn_status fill_headers(const tn_program *p, const tni_htask *t, const tn_dims *dims, tni_tensor *in,
                              tni_tensor *out, tn_error *err) {
  const tn_host *host = p->dev->host;
  tn_status s = TN_OK;
  for (uint32_t i = 0; i < t->node->n_in && !s; i++)
    if (t->in[i].value != TN_NONE) s = tni_hdev_header(host, &p->graph, t->in[i].of, dims, &in[i], err);
  for (uint32_t i = 0; i < t->node->n_out && !s; i++)
    if (t->out[i].value != TN_NONE) s = tni_hdev_header(host, &p->graph, t->out[i].of, dims, &out[i], err);
  return s;
}

/* The slot of a constant operand, or TN_NONE. */
static tn_id weight_slot(const tn_program *p, const tni_htask *t, uint32_t i) {
  if (t->dynamic || i >= t->node->n_in || t->in[i].value == TN_NONE || t->in[i].use == TNI_NO_USE) return TN_NONE;
  const tn_id slot = t->pub.uses[t->in[i].use].slot;
  return p->slots[slot].kind == TN_SLOT_WEIGHT ? slot : TN_NONE;
}

/* Bytes that the task keeps of its constant weights, laid out as its kernel wants them. */
static uint64_t prepared_bytes(const tn_program *p, const tni_htask *t, const tni_tensor *const *in, uint32_t n_in) {
  const uint32_t op = t->node->op;
  if (op != TN_OP_RNN && op != TN_OP_GRU && op != TN_OP_LSTM) return 0;
  if (weight_slot(p, t, 1) == TN_NONE || weight_slot(p, t, 2) == TN_NONE) return 0;
  return tni_recurrent_prepared(t->node, in, n_in);
}

/* Scratch asks for pointers; only the first three inputs and the first output, which lies after the inputs, decide. */
static uint64_t scratch_of(const tn_program *p, const tni_htask *t, const tni_tensor *in, uint64_t *prepared) {
  const tni_tensor *out = t->node->n_out && t->out[0].value != TN_NONE ? in + t->node->n_in : NULL;
  const tni_tensor *ptr[3] = {NULL, NULL, NULL};
  const uint32_t n = t->node->n_in < 3 ? t->node->n_in : 3;
  for (uint32_t i = 0; i < n; i++) ptr[i] = t->in[i].value == TN_NONE ? NULL : &in[i];
  *prepared = prepared_bytes(p, t, ptr, n);
  return tni_ops_scratch(t->node, ptr, n, out, p->dev->host->max_workers) - *prepared;
}

tn_status tni_hdev_measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *m) {
  if (task >= p->info.n_tasks) return TN_E_INVALID;
  const tni_htask *t = &p->tasks[task];
  tni_hpool tmp = {.host = p->dev->host};
  tni_tensor *in = tni_hpool_array(&tmp, (size_t)t->node->n_in + t->node->n_out, sizeof *in);
  tni_tensor *out = in ? in + t->node->n_in : NULL;
  tn_status s = in ? fill_headers(p, t, dims, in, out, NULL) : TN_E_NO_MEMORY;
  double bytes = 0;
  for (uint32_t i = 0; !s && i < t->node->n_in + (uint32_t)t->node->n_out; i++) {
    const tni_hoperand *o = i < t->node->n_in ? &t->in[i] : &t->out[i - t->node->n_in];
    if (o->use == TNI_NO_USE || (t->pub.uses[o->use].access & TN_APPEND)) continue;
    const uint32_t slot = t->pub.uses[o->use].slot;
    bytes += (double)in[i].bytes;
    if (p->slots[slot].kind == TN_SLOT_TEMP && m->slot_bytes) m->slot_bytes[slot] = in[i].bytes;
  }
  if (!s) {
    m->scratch_bytes = scratch_of(p, t, in, &m->driver_bytes);
    m->scratch_align = 64;
    m->moved_bytes = bytes;
    m->macs = tni_hdev_macs(t->node, in, t->node->n_in, out);
    m->cost_ns = 1000 + 0.1 * bytes + 0.06 * m->macs;
  }
  tni_hpool_free(&tmp);
  return s;
}

/* Once both weights of a recurrent node are there. slot: the one that came. */
static tn_status prepare_weight(tn_program *p, tni_htask *t, tn_id slot, tn_error *err) {
  const tn_id at[3] = {TN_NONE, weight_slot(p, t, 1), weight_slot(p, t, 2)};
  if (slot != at[1] && slot != at[2]) return TN_OK;
  const tni_tensor *in[3] = {NULL, at[1] == TN_NONE ? NULL : &p->weights[at[1]],
                             at[2] == TN_NONE ? NULL : &p->weights[at[2]]};
  const uint64_t bytes = in[1] && in[2] ? prepared_bytes(p, t, in, 3) : 0;
  if (!bytes || !in[1]->data || !in[2]->data) return TN_OK;
  if (!t->prepared && bytes <= SIZE_MAX / 2) t->prepared = tni_hpool_array(&p->pool, 1, (size_t)bytes);
  if (!t->prepared) return tni_fail_memory(err, t->pub.name);
  tni_poll poll = {NULL, TNI_POLL};
  tni_recurrent_prepare(in[1], in[2], t->prepared, &poll);
  return TN_OK;
}

tn_status tni_hdev_set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  tni_error_begin(err);
  (void)blob; /* no need has a format */
  if (slot >= p->info.n_slots || p->slots[slot].kind != TN_SLOT_WEIGHT)
    return tni_fail(err, TN_E_INVALID, "host", "slot %u takes no constant", slot);
  tni_tensor t;
  tn_status s = tni_hdev_header(p->dev->host, &p->graph, p->values[slot], NULL, &t, err);
  if (s) return s;
  const tni_tensor *own = p->constants[slot];
  t.quantized = own ? own->quantized : NULL;
  t.rows = own ? own->rows : NULL;
  if (!view || (t.bytes && ((!view->ptr && !t.quantized && !t.rows) || view->bytes < t.bytes)))
    return tni_fail(err, TN_E_INVALID, p->slots[slot].name, "the view has %llu bytes, the constant %llu",
                    (unsigned long long)(view ? view->bytes : 0), (unsigned long long)t.bytes);
  t.data = view->ptr;
  p->weights[slot] = t;
  for (uint32_t i = 0; !s && i < p->info.n_tasks; i++) s = prepare_weight(p, &p->tasks[i], slot, err);
  return s;
}

tn_status tni_hdev_bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  tni_error_begin(err);
  if (task >= p->info.n_tasks) return tni_fail(err, TN_E_INVALID, "host", "no task %u", task);
  const tni_htask *t = &p->tasks[task];
  const tn_host *host = p->dev->host;
  const size_t n = (size_t)t->node->n_in + t->node->n_out;
  uint64_t prepared;
  tn_plan *plan = host->alloc(host->ctx, sizeof *plan + n * sizeof(tni_tensor), 16, TN_TAG_PLUGIN);
  if (!plan) return tni_fail_memory(err, t->pub.name);
  memset(plan, 0, sizeof *plan + n * sizeof(tni_tensor));
  plan->program = p;
  plan->task = t;
  plan->in = (tni_tensor *)(plan + 1);
  plan->out = plan->in + t->node->n_in;
  tn_status s = fill_headers(p, t, dims, plan->in, plan->out, err);
  if (s) {
    host->free(host->ctx, plan);
    return s;
  }
  plan->scratch_bytes = scratch_of(p, t, plan->in, &prepared);
  if (prepared && !t->prepared) {
    host->free(host->ctx, plan);
    return tni_fail(err, TN_E_INVALID, t->pub.name, "its weights are not set");
  }
  *out = plan;
  return TN_OK;
}

void tni_hdev_unbind(tn_plan *plan) {
  if (plan) plan->program->dev->host->free(plan->program->dev->host->ctx, plan);
}

/* Points operand o at the view (or at what set() gave). */
static tn_status attach_tensor(const tn_plan *plan, const tni_hoperand *o, const tn_view *view, tni_tensor *t,
                               tn_error *err) {
  const tn_program *p = plan->program;
  const uint32_t slot = plan->task->pub.uses[o->use].slot;
  void *ptr = view ? view->ptr : NULL;
  uint64_t bytes = view ? view->bytes : 0;
  if (p->slots[slot].kind == TN_SLOT_WEIGHT) {
    ptr = p->weights[slot].data;
    bytes = p->weights[slot].bytes;
    t->quantized = p->weights[slot].quantized;
    t->rows = p->weights[slot].rows;
  }
  if (t->bytes && ((!ptr && !t->quantized && !t->rows) || bytes < t->bytes))
    return tni_fail(err, TN_E_INVALID, p->slots[slot].name, "the view has %llu bytes, the value takes %llu",
                    (unsigned long long)bytes, (unsigned long long)t->bytes);
  t->data = ptr || t->bytes ? ptr : p->slots; /* no elements have an address too: kernels add offsets to it */
  return TN_OK;
}

static bool is_state(const tn_plan *plan, const tni_hoperand *o) {
  if (o->use == TNI_NO_USE) return false;
  return plan->program->slots[plan->task->pub.uses[o->use].slot].kind == TN_SLOT_STATE;
}

/* The sequence's axis where rows wrap around, else TN_NONE. */
static uint32_t ring_axis(const tn_args *a, uint32_t i) {
  const tni_htask *t = a->plan->task;
  const tn_state *s = (i < t->node->n_in ? &t->in[i] : &t->out[i - t->node->n_in])->of->state;
  return s && s->flags & TN_STATE_CIRCULAR ? s->axis : TN_NONE;
}

/* The dims that the view's strides belong to: the value's, or those with heads apart; of a ring as many rows as there
 * are. */
static bool state_dims(const tni_tensor *t, const tn_view *view, uint32_t ring, int64_t dims[4]) {
  if (!view || !view->strides || !t->rank || t->rank > 4) return false;
  memcpy(dims, t->dims, t->rank * sizeof *dims);
  if (ring != TN_NONE && (ring >= t->rank || !view->dims || ring >= view->rank || view->dims[ring] < 1)) return false;
  if (ring != TN_NONE) dims[ring] = view->dims[ring];
  if (view->rank == t->rank) return view->strides[t->rank - 1] == 1;
  if (t->rank != 3 || view->rank != 4 || !view->dims || view->strides[3] != 1) return false;
  dims[2] = view->dims[2];
  dims[3] = view->dims[3];
  int64_t all;
  return dims[2] > 0 && dims[3] >= 0 && !__builtin_mul_overflow(dims[2], dims[3], &all) && all == t->dims[2];
}

/* The session may keep the caches of a float value as another float, or quantized. */
static bool take_dtype(tni_tensor *t, const tn_view *view) {
  int64_t count;
  if (!view || view->dtype == t->dtype) return true;
  if (!tni_kv_dtype(t->dtype) || !tni_kv_dtype(view->dtype)) return false;
  t->dtype = view->dtype;
  return tni_dims_count(t->dims, t->rank, &count) == TN_OK && tni_dtype_bytes(t->dtype, count, &t->bytes) == TN_OK;
}

/* Elements from the beginning of a cache's view to the end of its last row. false: absurd strides. */
static bool state_extent(const tni_tensor *t, const tn_view *view, const int64_t dims[4], uint64_t *end) {
  const int64_t size = dims[view->rank - 1];
  *end = 0;
  for (uint32_t d = 0; d + 1 < view->rank; d++) {
    uint64_t far;
    if (dims[d] < 1) continue; /* there is nothing */
    if (view->strides[d] < 0 || __builtin_mul_overflow((uint64_t)(dims[d] - 1), (uint64_t)view->strides[d], &far) ||
        __builtin_add_overflow(*end, far, end))
      return false;
  }
  return !__builtin_add_overflow(*end, (uint64_t)tni_kv_pitch(t->dtype, size), end);
}

/* Element strides of a cache: they say how far its last row lies. */
static tn_status attach_state(tn_args *a, uint32_t i, const tn_view *view, tn_error *err) {
  tni_tensor *t = &a->t[i];
  const char *name = a->plan->task->pub.name;
  const uint32_t ring = ring_axis(a, i);
  uint64_t end = 0;
  int64_t dims[4];
  if (!take_dtype(t, view))
    return tni_fail(err, TN_E_UNSUPPORTED, name, "a cache of %s kept as %s: the host has no kernel for it",
                    tni_dtype_name(t->dtype), tni_dtype_name(view->dtype));
  if (!state_dims(t, view, ring, dims) || !state_extent(t, view, dims, &end))
    return tni_fail(err, TN_E_INVALID, name, "the view of a cache has no strides for it");
  if (t->bytes && (!view->ptr || end > view->bytes / tni_elem_size(t->dtype)))
    return tni_fail(err, TN_E_INVALID, name, "the cache ends at element %llu, its view at byte %llu",
                    (unsigned long long)end, (unsigned long long)view->bytes);
  t->data = view->ptr;
  memset(a->strides[i], 0, sizeof a->strides[i]);
  memcpy(a->strides[i], view->strides, t->rank * sizeof(int64_t));
  if (ring != TN_NONE) a->strides[i][TNI_ST_RING] = dims[ring];
  if (view->rank > t->rank) {
    a->strides[i][2] = 1;
    a->strides[i][TNI_ST_HEAD] = view->strides[2];
    a->strides[i][TNI_ST_HEADS] = dims[2];
  }
  a->operand_strides[i] = a->strides[i];
  return TN_OK;
}

static tn_status attach_operand(tn_args *a, uint32_t i, const tn_view *view, tn_error *err) {
  const tni_htask *t = a->plan->task;
  const tni_hoperand *o = i < t->node->n_in ? &t->in[i] : &t->out[i - t->node->n_in];
  return is_state(a->plan, o) ? attach_state(a, i, view, err) : attach_tensor(a->plan, o, view, &a->t[i], err);
}

static tn_status attach_use(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  const tni_htask *t = a->plan->task;
  tn_status s = TN_OK;
  if (use == t->pub.n_uses) {
    if (a->plan->scratch_bytes && (!view || !view->ptr || view->bytes < a->plan->scratch_bytes))
      return tni_fail(err, TN_E_INVALID, t->pub.name, "the scratch is too small");
    a->scratch = view ? view->ptr : NULL;
  }
  for (uint32_t i = 0; i < t->node->n_in && !s; i++)
    if (t->in[i].use == use) s = attach_operand(a, i, view, err);
  for (uint32_t i = 0; i < t->node->n_out && !s; i++)
    if (t->out[i].use == use) s = attach_operand(a, t->node->n_in + i, view, err);
  return s;
}

static bool has_state(const tn_plan *plan) {
  const tni_htask *t = plan->task;
  for (uint32_t i = 0; i < t->pub.n_uses; i++)
    if (plan->program->slots[t->pub.uses[i].slot].kind == TN_SLOT_STATE) return true;
  return false;
}

tn_status tni_hdev_args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  tni_error_begin(err);
  const tni_htask *t = plan->task;
  const tn_host *host = plan->program->dev->host;
  const size_t count = (size_t)t->node->n_in + t->node->n_out;
  if (n != t->pub.n_uses + 1) return tni_fail(err, TN_E_INVALID, t->pub.name, "%u views for %u uses", n, t->pub.n_uses);
  const size_t strides = has_state(plan) ? sizeof(int64_t[TN_MAX_RANK]) + sizeof(void *) : 0;
  const size_t bytes = sizeof(tn_args) + count * (sizeof(tni_tensor) + sizeof(void *) + strides);
  tn_args *a = host->alloc(host->ctx, bytes, 16, TN_TAG_PLUGIN);
  if (!a) return tni_fail_memory(err, t->pub.name);
  memset(a, 0, bytes);
  a->plan = plan;
  a->t = (tni_tensor *)(a + 1);
  a->in = (const tni_tensor **)(a->t + count);
  a->out = (tni_tensor **)(a->in + t->node->n_in);
  if (strides) {
    a->strides = (int64_t(*)[TN_MAX_RANK])(a->out + t->node->n_out);
    a->operand_strides = (const int64_t **)(a->strides + count);
  }
  memcpy(a->t, plan->in, count * sizeof(tni_tensor));
  for (uint32_t i = 0; i < t->node->n_in; i++) a->in[i] = t->in[i].value == TN_NONE ? NULL : &a->t[i];
  for (uint32_t i = 0; i < t->node->n_out; i++)
    a->out[i] = t->out[i].value == TN_NONE ? NULL : &a->t[t->node->n_in + i];
  tn_status s = TN_OK;
  for (uint32_t u = 0; u < n && !s; u++) s = attach_use(a, u, uses[u], err);
  if (s)
    host->free(host->ctx, a);
  else
    *out = a;
  return s;
}

tn_status tni_hdev_args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  tni_error_begin(err);
  if (use > a->plan->task->pub.n_uses) return tni_fail(err, TN_E_INVALID, a->plan->task->pub.name, "no use %u", use);
  return attach_use(a, use, view, err);
}

void tni_hdev_args_free(tn_args *a) {
  if (a) a->plan->program->dev->host->free(a->plan->program->dev->host->ctx, a);
}

tn_status tni_hdev_run(const tn_plan *plan, tn_args *a, tn_run *run, tn_error *err) {
  const tni_htask *t = plan->task;
  const int64_t *const *in_strides = a->operand_strides, *const *out_strides = in_strides;
  if (out_strides) out_strides += t->node->n_in;
  if (!in_strides && tni_ops_is_empty((const tni_tensor *const *)a->out, t->node->n_out)) return TN_OK;
  tni_error_begin(err);
  tni_krun under;
  const tni_kargs k = {.node = t->node,
                       .skips_zeros = t->skips_zeros,
                       .in = a->in,
                       .out = a->out,
                       .n_in = t->node->n_in,
                       .n_out = t->node->n_out,
                       .scratch = a->scratch,
                       .run = tni_krun_begin(&under, run),
                       .err = err,
                       .in_strides = in_strides,
                       .out_strides = out_strides};
  tn_status s = t->bounded    ? tni_conv_bounded(&k, &t->bounds)
                : t->prepared ? tni_recurrent_run(&k, t->prepared)
                              : t->kernel(&k);
  s = tni_krun_end(&under, &k, s);
  if (s && err && err->node == TN_NONE) err->node = t->pub.nodes[0];
  return s;
}
