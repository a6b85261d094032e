/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel objects over memory, and their submission.
 */
#include <string.h>
#include <time.h>

#include "plugins/common/base/base.h"
#include "plugins/common/opencl/clprog.h"

static uint32_t size_of(uint32_t type) {
  return type == TN_DT_I64 ? 8 : type == TN_DT_F16 ? 2 : type == TN_DT_U8 || type == TN_DT_BOOL ? 1 : 4;
}

static tni_cl_device *device_of(const tn_args *a) { return a->plan->program->device; }

/* --- arguments --------------------------------------------------------------------------------------------------- */

/* Strides of a cache: [batch, rows, heads, size] for a 3-D value, the value's own axes for a 4-D one. */
typedef struct cache_strides {
  int64_t b, s, h, rows;
} cache_strides;

static tn_status cache_of(const tn_args *a, uint32_t use, uint32_t rank, uint32_t type, cache_strides *out,
                          tn_error *err) {
  const tn_view *v = &a->views[use];
  const int64_t *s = a->strides[use];
  const bool flat = rank == 3;
  if (v->rank != 4 || s[3] != 1)
    return tni_cm_fail(err, TN_E_INVALID, a->plan->task->pub.name,
                       "a cache whose view is not [batch, rows, heads, size]");
  if (v->dtype != type)
    return tni_cm_fail(err, TN_E_INVALID, a->plan->task->pub.name, "a cache of dtype %u where %u was agreed", v->dtype,
                       type);
  *out = (cache_strides){s[0], flat ? s[1] : s[2], flat ? s[2] : s[1], 0};
  const int64_t unit = (int64_t)size_of(type) * out->s;
  out->rows = unit > 0 ? (int64_t)v->bytes / unit : 0;
  if (out->b > INT32_MAX || out->s > INT32_MAX || out->h > INT32_MAX)
    return tni_cm_fail(err, TN_E_LIMIT, a->plan->task->pub.name, "a cache with strides over 2^31");
  return TN_OK;
}

/* Rows that a cache has room for: what lies between two batches (or heads), or all of it. */
static int64_t room_of(const cache_strides *c, int64_t H) {
  int64_t between = c->h > c->s ? c->h : c->b;
  if (c->h < c->s && c->b == 0) between = 0;
  (void)H;
  return between > 0 && c->s > 0 ? between / c->s : c->rows;
}

static tn_status patch_states(const tn_args *a, tni_cl_launch *l, tn_error *err) {
  for (uint32_t i = 0; i < 2; i++) {
    cache_strides c = {0};
    if (l->state_use[i] == TN_NONE) continue;
    const bool append = l->shape.kind == TNI_CLK_APPEND;
    tn_status st = cache_of(a, l->state_use[i], l->label, l->shape.types[append ? 2 : 1 + i], &c, err);
    if (st != TN_OK) return st;
    int32_t *n = l->shape.ints + (append ? 7 : i ? 13 : 10);
    n[0] = (int32_t)c.b;
    n[1] = (int32_t)c.s;
    n[2] = (int32_t)c.h;
    if (append) n[3] = (int32_t)(room_of(&c, l->shape.ints[2]) < INT32_MAX ? room_of(&c, l->shape.ints[2]) : INT32_MAX);
  }
  return TN_OK;
}

/* Memory of one operand. */
static tn_status resolve_use(const tn_args *a, const tni_cl_launch *l, uint32_t i, tni_cl_bound *out, tn_error *err) {
  const tni_cl_place *p = &l->operands[i];
  const char *name = a->plan->task->pub.name;
  const bool product = l->shape.kind == TNI_CLK_GEMV || l->shape.kind == TNI_CLK_GEMM;
  const bool units = product && (i == 1 || i == 2);
  if (p->kind == TNI_CLP_META || p->kind == TNI_CLP_NONE) {
    *out = (tni_cl_bound){.mem = a->meta, .offset = p->kind == TNI_CLP_META ? (uint32_t)(p->at / 4) : 0};
    return TN_OK;
  }
  const uint32_t use = p->kind == TNI_CLP_ARENA ? a->plan->task->arena_use : p->index;
  const tn_view *v = &a->views[use];
  if (!v->buffer) return tni_cm_fail(err, TN_E_INVALID, name, "use %u has no buffer of this device", use);
  const tni_cl_buffer *b = (const tni_cl_buffer *)v->buffer;
  const uint64_t at = v->offset + p->at, unit = units ? 128 : size_of(l->shape.types[i]);
  if (at % unit || at / unit > UINT32_MAX || at > b->pub.bytes)
    return tni_cm_fail(err, TN_E_INVALID, name, "use %u begins at byte %llu, which its kernel cannot reach", use,
                       (unsigned long long)at);
  *out = (tni_cl_bound){.mem = b->mem, .offset = (uint32_t)(at / unit)};
  if (product && i == 1 && l->program->variant->flags) out->mem = b->image;
  return TN_OK;
}

static tn_status set_launch(tn_args *a, uint32_t i, tn_error *err) {
  tni_cl_launch *l = &a->launches[i];
  tni_cl_bound bound[TNI_CL_MAX_OPERANDS];
  tn_status st = patch_states(a, l, err);
  for (uint32_t k = 0; st == TN_OK && k < l->shape.n_operands; k++) st = resolve_use(a, l, k, &bound[k], err);
  if (st != TN_OK) return st;
  cl_int code = CL_SUCCESS;
  const tni_cl_api *api = &device_of(a)->api;
  if (l->shape.kind == TNI_CLK_EW) {
    cl_uint at = 0;
    for (uint32_t k = 0; code == CL_SUCCESS && k < l->shape.n_operands; k++) {
      code = api->SetKernelArg(a->kernels[i], at++, sizeof(cl_mem), &bound[k].mem);
      if (code == CL_SUCCESS) code = api->SetKernelArg(a->kernels[i], at++, sizeof(cl_uint), &bound[k].offset);
    }
  } else {
    code = tni_cl_set_args(api, a->kernels[i], &l->shape, bound);
  }
  return code == CL_SUCCESS ? TN_OK : tni_cl_fail(err, code, l->program->name, "clSetKernelArg");
}

static void keep_view(tn_args *a, uint32_t i, const tn_view *v) {
  tni_cm_take(&a->views[i], sizeof a->views[i], v);
  a->views[i].dims = a->views[i].strides = NULL;
  memset(a->strides[i], 0, sizeof a->strides[i]);
  for (uint32_t k = 0; v->strides && k < v->rank && k < 4; k++) a->strides[i][k] = v->strides[k];
}

static tn_status make_objects(tn_args *a, tn_error *err) {
  const tn_plan *p = a->plan;
  const tni_cl_device *d = device_of(a);
  cl_int code = CL_SUCCESS;
  const int32_t none = 0;
  const size_t bytes = p->n_meta ? p->n_meta * sizeof *p->meta : sizeof none;
  a->meta = d->api.CreateBuffer(d->context.context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, bytes,
                                p->n_meta ? (void *)p->meta : (void *)&none, &code);
  if (!a->meta) return tni_cl_fail(err, code, d->vendor->name, "clCreateBuffer");
  for (uint32_t i = 0; i < p->n_launches; i++) {
    a->kernels[i] = d->api.CreateKernel(a->launches[i].program->program, a->launches[i].program->name, &code);
    if (!a->kernels[i]) return tni_cl_fail(err, code, a->launches[i].program->name, "clCreateKernel");
  }
  return TN_OK;
}

tn_status tni_cl_args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  tni_cl_device *d = plan->program->device;
  const uint32_t n_uses = plan->task->pub.n_uses;
  if (n != n_uses + 1) return tni_cm_fail(err, TN_E_INVALID, plan->task->pub.name, "%u views for %u uses", n, n_uses);
  tni_cm_mem mem = {.host = d->host};
  tn_args *a = tni_cm_new(&mem, 1, sizeof *a);
  if (!a) return tni_cm_fail(err, TN_E_NO_MEMORY, d->vendor->name, "out of memory");
  a->plan = plan;
  a->views = tni_cm_new(&mem, n, sizeof *a->views);
  a->strides = tni_cm_new(&mem, n, sizeof *a->strides);
  a->kernels = tni_cm_new(&mem, plan->n_launches + 1, sizeof *a->kernels);
  a->launches = tni_cm_new(&mem, plan->n_launches + 1, sizeof *a->launches);
  a->mem = mem;
  tn_status st = TN_E_NO_MEMORY;
  if (a->views && a->strides && a->kernels && a->launches) {
    for (uint32_t i = 0; i < n; i++) keep_view(a, i, uses[i]);
    if (plan->n_launches) memcpy(a->launches, plan->launches, plan->n_launches * sizeof *a->launches);
    st = make_objects(a, err);
  }
  for (uint32_t i = 0; st == TN_OK && i < plan->n_launches; i++) st = set_launch(a, i, err);
  if (st == TN_OK)
    *out = a;
  else
    tni_cl_args_free(a);
  return st;
}

static bool same_view(const tn_args *a, uint32_t i, const tn_view *v) {
  const tn_view *o = &a->views[i];
  if (o->buffer != v->buffer || o->offset != v->offset || o->dtype != v->dtype || o->bytes != v->bytes) return false;
  for (uint32_t k = 0; v->strides && k < v->rank && k < 4; k++)
    if (a->strides[i][k] != v->strides[k]) return false;
  return true;
}

static bool reads_use(const tn_args *a, const tni_cl_launch *l, uint32_t use) {
  for (uint32_t i = 0; i < l->shape.n_operands; i++) {
    if (l->operands[i].kind == TNI_CLP_USE && l->operands[i].index == use) return true;
    if (l->operands[i].kind == TNI_CLP_ARENA && a->plan->task->arena_use == use) return true;
  }
  return false;
}

tn_status tni_cl_args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  if (use > a->plan->task->pub.n_uses) return tni_cm_fail(err, TN_E_INVALID, a->plan->task->pub.name, "no use %u", use);
  if (same_view(a, use, view)) return TN_OK;
  keep_view(a, use, view);
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < a->plan->n_launches; i++)
    if (reads_use(a, &a->launches[i], use)) st = set_launch(a, i, err);
  return st;
}

void tni_cl_args_free(tn_args *a) {
  if (!a) return;
  const tni_cl_device *d = device_of(a);
  for (uint32_t i = 0; a->kernels && i < a->plan->n_launches; i++)
    if (a->kernels[i]) d->api.ReleaseKernel(a->kernels[i]);
  if (a->meta) d->api.ReleaseMemObject(a->meta);
  tni_cm_mem mem = a->mem;
  tni_cm_free(&mem);
}

/* --- submission -------------------------------------------------------------------------------------------------- */

static tni_cl_flight *take_flight(tni_cl_device *d) {
  for (uint32_t i = 0; i < TNI_CL_FLIGHTS; i++) {
    uint32_t is_free = 0;
    if (__atomic_compare_exchange_n(&d->flights[i].busy, &is_free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      return &d->flights[i];
  }
  return NULL;
}

/* The ticket may be gone once done has it. The flight is free last: whoever closes the device waits for that. */
static void land_flight(tni_cl_flight *f, cl_int code) {
  const tn_host *host = f->device->host;
  tn_ticket *ticket = f->ticket;
  tn_times times = {
      .h = TN_HDR(tn_times), .queued = f->queued, .start = f->queued, .end = host->now(host->ctx), .bytes = f->bytes};
  tn_error err = {.h = TN_HDR(tn_error), .node = TN_NONE, .task = TN_NONE};
  tn_status st = TN_OK;
  if (code < 0) {
    tni_cl_fail(&err, code, f->device->info.name, "a submitted step");
    st = err.code = TN_E_DEVICE_LOST;
  }
  host->done(ticket, st, &times, code < 0 ? &err : NULL);
  __atomic_store_n(&f->busy, 0, __ATOMIC_RELEASE);
}

static void CL_CALLBACK on_event(cl_event event, cl_int status, void *user) {
  (void)event;
  land_flight(user, status);
}

static cl_int enqueue_plan(tni_cl_device *d, const tn_item *it, uint32_t *since_flush) {
  const tn_args *a = it->args;
  cl_int code = CL_SUCCESS;
  for (uint32_t i = 0; code == CL_SUCCESS && i < a->plan->n_launches; i++) {
    const tni_cl_launch *l = &a->launches[i];
    code = d->api.EnqueueNDRangeKernel(d->context.queue, a->kernels[i], 3, NULL, l->global,
                                       l->local[0] ? l->local : NULL, 0, NULL, NULL);
    if (code == CL_SUCCESS && d->set.flush_every && ++*since_flush >= (uint32_t)d->set.flush_every) {
      code = d->api.Flush(d->context.queue);
      *since_flush = 0;
    }
  }
  return code;
}

static cl_int enqueue_copy(tni_cl_device *d, const tn_item *it) {
  const tni_cl_buffer *src = (const tni_cl_buffer *)it->src->buffer, *dst = (const tni_cl_buffer *)it->dst->buffer;
  const size_t n = it->src->bytes;
  if (n != it->dst->bytes || (!src && !it->src->ptr) || (!dst && !it->dst->ptr)) return CL_INVALID_VALUE;
  if (src && dst)
    return d->api.EnqueueCopyBuffer(d->context.queue, src->mem, dst->mem, it->src->offset, it->dst->offset, n, 0, NULL,
                                    NULL);
  if (dst)
    return d->api.EnqueueWriteBuffer(d->context.queue, dst->mem, CL_FALSE, it->dst->offset, n, it->src->ptr, 0, NULL,
                                     NULL);
  if (src)
    return d->api.EnqueueReadBuffer(d->context.queue, src->mem, CL_FALSE, it->src->offset, n, it->dst->ptr, 0, NULL,
                                    NULL);
  memmove(it->dst->ptr, it->src->ptr, n);
  return CL_SUCCESS;
}

/* One item and the marker after it. */
static cl_int enqueue_launch(tni_cl_device *d, const tn_item *it, tni_cl_flight *f, uint32_t *since_flush) {
  cl_event event = NULL;
  cl_int code = it->plan ? enqueue_plan(d, it, since_flush) : enqueue_copy(d, it);
  if (code == CL_SUCCESS) code = d->api.EnqueueMarkerWithWaitList(d->context.queue, 0, NULL, &event);
  if (code != CL_SUCCESS) return code;
  if (d->set.wait) {
    code = d->api.WaitForEvents(1, &event);
    d->api.ReleaseEvent(event);
    if (code == CL_SUCCESS) land_flight(f, code);
    return code;
  }
  code = d->api.SetEventCallback(event, CL_COMPLETE, on_event, f);
  d->api.ReleaseEvent(event);
  return code;
}

tn_status tni_cl_submit(tn_device *dev, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run,
                        tn_error *err) {
  tni_cl_device *d = (tni_cl_device *)dev;
  uint32_t since_flush = 0;
  (void)run;
  if (engine != 1) return tni_cm_fail(err, TN_E_INVALID, d->vendor->name, "there is no engine %u", engine);
  for (uint32_t i = 0; i < n; i++) {
    tni_cl_flight *f = take_flight(d);
    if (!f && i == 0) return tni_cm_fail(err, TN_E_LIMIT, d->vendor->name, "too many items in flight");
    while (!f) { /* what was taken has to be completed: wait for the oldest */
      d->api.Finish(d->context.queue);
      f = take_flight(d);
    }
    f->device = d;
    f->ticket = items[i]->ticket;
    f->queued = d->host->now(d->host->ctx);
    f->bytes = items[i]->plan ? (uint64_t)items[i]->plan->moved : items[i]->src->bytes;
    cl_int code = enqueue_launch(d, items[i], f, &since_flush);
    if (code == CL_SUCCESS) continue;
    if (i == 0) {
      __atomic_store_n(&f->busy, 0, __ATOMIC_RELEASE);
      return tni_cl_fail(err, code, d->info.name, "submitting a step");
    }
    land_flight(f, code);
  }
  d->api.Flush(d->context.queue);
  return TN_OK;
}

void tni_cl_wait_flights(tni_cl_device *d) {
  const struct timespec ms = {.tv_nsec = 1000000};
  d->api.Finish(d->context.queue);
  for (uint32_t i = 0; i < TNI_CL_FLIGHTS; i++)
    for (uint32_t k = 0; k < 5000 && __atomic_load_n(&d->flights[i].busy, __ATOMIC_ACQUIRE); k++) nanosleep(&ms, NULL);
}
