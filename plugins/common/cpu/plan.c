/* SPDX-License-Identifier: Apache-2.0
 *
 * measure, set, bind, args: from dims and memory to something that run only has to walk through.
 */
#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/common/cpu/cost.h"
#include "plugins/common/cpu/integer.h"
#include "plugins/common/cpu/match.h"
#include "plugins/common/cpu/program.h"

static bool mul_bytes(uint64_t a, uint64_t b, uint64_t *out) { return !__builtin_mul_overflow(a, b, out); }

static int64_t most_rows(const tni_clt_geometry *g) {
  const int64_t most = TNI_CLT_UNIT_BYTES / g->K_padded / TNI_CLT_STEP_ROWS * TNI_CLT_STEP_ROWS;
  return most < TNI_CLT_LEAST_ROWS ? TNI_CLT_LEAST_ROWS : most > TNI_CLT_MOST_ROWS ? TNI_CLT_MOST_ROWS : most;
}

int64_t tni_clt_unit_rows(const tni_clt_geometry *g, int64_t M) {
  const int64_t most = most_rows(g), parts = M ? (M + most - 1) / most : 1, rows = (M + parts - 1) / parts;
  return (rows + TNI_CLT_STEP_ROWS - 1) / TNI_CLT_STEP_ROWS * TNI_CLT_STEP_ROWS;
}

/* Floats that a worker's tiles take, no fewer for more rows: of one row several units, else the most rows of two. Where
 * products begin within 16 columns of the joined matrix, one more unit or, for each product, two blocks as they come.
 */
static uint64_t tile_floats(const tni_clt_geometry *g, int64_t M) {
  const int64_t most = most_rows(g);
  return (uint64_t)(M == 1 ? TNI_CLT_RUN_UNITS + 1 : 2 * (M < most ? M : most)) * TNI_CLT_ROWS;
}

/* The kernel of a packed task for M rows; NULL where the backend is offline. */
static const tni_clt_kernel *kernel_of(const tn_program *p, uint32_t op, const tni_clt_geometry *g, int64_t M) {
  const tni_clt_settings *s = &p->device->set;
  return tni_clt_select(p->device->backend->kernels, op, g->format, (uint32_t)g->group, s->features, M);
}

/* For two row blocks at once, by the instructions that one takes too; NULL where there is none. */
static const tni_clt_kernel *kernel_of_two(const tn_program *p, const tni_clt_geometry *g, int64_t M) {
  const tni_clt_kernel *one = kernel_of(p, TNI_CLT_GEMM, g, M), *two = kernel_of(p, TNI_CLT_GEMM2, g, M);
  return one && two && one->features == two->features ? two : NULL;
}

/* Scratch of a packed task for M rows; TN_E_LIMIT on overflow. */
static tn_status packed_room(const tn_program *p, const tni_clt_task *t, int64_t M, tni_clt_room *out) {
  const tni_clt_geometry *g = &t->geo;
  const tni_clt_kernel *quant = kernel_of(p, TNI_CLT_QUANT, g, M);
  tni_clt_act_room act = tni_clt_act_room_of(quant ? quant->layout : 0, (size_t)g->K_padded, (size_t)g->group);
  if (M < 0) return TN_E_LIMIT;
  uint64_t strides = ((uint64_t)M + act.rows - 1) / act.rows, q, scale, zero, rows = 0;
  if (!mul_bytes(strides, act.q_stride, &q) || !mul_bytes(strides, act.s_stride * 4, &scale) ||
      !mul_bytes(strides, act.z_stride * 4, &zero) ||
      (p->device->set.by_row && !mul_bytes((uint64_t)M, sizeof(float), &rows)))
    return TN_E_LIMIT;
  if (q > INT64_MAX / 4 || scale > INT64_MAX / 4 || zero > INT64_MAX / 4 || rows > INT64_MAX / 8) return TN_E_LIMIT;
  scale = (scale + 63) & ~UINT64_C(63);
  zero = (zero + 63) & ~UINT64_C(63);
  rows = (rows + 63) & ~UINT64_C(63);
  uint64_t tile = tile_floats(g, M), tiles = t->n_tiles;
  if (M > 1) tiles += 2 * t->n_split;
  uint64_t worker = M ? tiles * tile * sizeof(float) : 0;
  *out = (tni_clt_room){.bytes = q + scale + zero + rows + worker * p->device->host->max_workers,
                        .act = act,
                        .scale_at = q,
                        .zero_at = q + scale,
                        .rows_at = q + scale + zero,
                        .tiles_at = q + scale + zero + rows,
                        .worker_bytes = worker,
                        .tile_floats = tile};
  return TN_OK;
}

static tn_status eval_dims(const tn_program *p, const tni_clt_dims *d, const tn_dims *dims, int64_t *out) {
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < d->rank; i++)
    st = tni_cm_product(p->device->host, &p->graph, d->e + i, 1, dims, &out[i]);
  return st;
}

/* Steps of one operand along the batch dims of the result, which align at the end. */
static bool batch_steps(const int64_t *dims, uint32_t n_batch, int64_t matrix, tni_clt_batch *b, int64_t *step) {
  for (uint32_t i = 0; i < b->rank; i++) step[i] = 0;
  for (uint32_t i = n_batch; i-- > 0;) {
    uint32_t at = b->rank - n_batch + i;
    if (dims[i] != 1 && dims[i] != b->dims[at]) return false;
    if (dims[i] != 1) step[at] = matrix;
    if (__builtin_mul_overflow(matrix, dims[i], &matrix)) return false;
  }
  return true;
}

static bool batch_dims(const int64_t *x, uint32_t nx, const int64_t *w, uint32_t nw, tni_clt_batch *b) {
  b->rank = nx > nw ? nx : nw;
  b->count = 1;
  for (uint32_t i = 0; i < b->rank; i++) {
    int64_t dx = i + nx >= b->rank ? x[i + nx - b->rank] : 1, dw = i + nw >= b->rank ? w[i + nw - b->rank] : 1;
    b->dims[i] = dx == 1 ? dw : dx;
    if (__builtin_mul_overflow(b->count, b->dims[i], &b->count)) return false;
  }
  return true;
}

/* A right operand without batch is one product with all rows. */
static void merge_rows(tni_clt_batch *b) {
  for (uint32_t i = 0; i < b->rank; i++)
    if (b->w_step[i] || (b->dims[i] != 1 && b->x_step[i] == 0)) return;
  b->M *= b->count;
  b->count = 1;
  b->rank = 0;
}

/* Dims of a float task. TN_E_INVALID where they do not fit each other. */
static tn_status measure_batch(const tn_program *p, const tni_clt_task *t, const tn_dims *dims, tni_clt_batch *out) {
  int64_t x[TN_MAX_RANK], w[TN_MAX_RANK], total, unused;
  tn_status st = eval_dims(p, &t->x, dims, x);
  if (st == TN_OK) st = eval_dims(p, &t->w, dims, w);
  if (st != TN_OK) return st;
  if (t->trans_b) {
    int64_t k = w[1];
    w[1] = w[0];
    w[0] = k;
  }
  uint32_t rx = t->x.rank, rw = t->w.rank, nx = rx > 2 ? rx - 2 : 0, nw = rw > 2 ? rw - 2 : 0;
  tni_clt_batch b = {.M = rx > 1 ? x[rx - 2] : 1, .K = x[rx - 1], .N = rw > 1 ? w[rw - 1] : 1};
  if (b.K != (rw > 1 ? w[rw - 2] : w[0])) return TN_E_INVALID;
  if (__builtin_mul_overflow(b.M, b.K, &total) || __builtin_mul_overflow(b.K, b.N, &unused) || unused > INT64_MAX / 8)
    return TN_E_LIMIT;
  if (!batch_dims(x, nx, w, nw, &b)) return TN_E_LIMIT;
  if (!batch_steps(x, nx, total, &b, b.x_step) || !batch_steps(w, nw, unused, &b, b.w_step)) return TN_E_INVALID;
  if (__builtin_mul_overflow(b.M, b.N, &total) || __builtin_mul_overflow(total, b.count, &total) ||
      total > INT64_MAX / 8)
    return TN_E_LIMIT;
  merge_rows(&b);
  *out = b;
  return TN_OK;
}

/* [K,N] floats where w has to be turned; batch_of has seen that the count does not overflow. */
static uint64_t float_scratch(const tni_clt_task *t, const tni_clt_batch *b) {
  return t->trans_b ? (uint64_t)(b->K * b->N) * sizeof(float) : 0;
}

static tn_status rows_of(const tn_program *p, const tni_clt_task *t, const tn_dims *dims, int64_t *M) {
  tn_status st = tni_cm_product(p->device->host, &p->graph, t->x.e, t->x.rank - 1, dims, M);
  int64_t bytes;
  if (st == TN_OK && (__builtin_mul_overflow(*M, t->geo.N, &bytes) || bytes > INT64_MAX / 8 ||
                      __builtin_mul_overflow(*M, t->geo.K, &bytes) || bytes > INT64_MAX / 8))
    st = TN_E_LIMIT;
  return st;
}

/* Bytes of the TEMP slots that a task uses. */
static tn_status measure_slots(const tn_program *p, const tn_task *t, const tn_dims *dims, uint64_t *slot_bytes) {
  for (uint32_t i = 0; i < t->n_uses; i++) {
    const tni_clt_slot *s = tni_clt_slot_of(p, t->uses[i].slot);
    int64_t n;
    if (s->pub.kind != TN_SLOT_TEMP) continue;
    tn_status st = tni_cm_product(p->device->host, &p->graph, s->dims.e, s->dims.rank, dims, &n);
    if (st != TN_OK) return st;
    if (n > INT64_MAX / 4) return TN_E_LIMIT;
    slot_bytes[t->uses[i].slot] = (uint64_t)n * sizeof(float);
  }
  return TN_OK;
}

static tn_status measure_packed(const tn_program *p, const tni_clt_task *t, const tn_dims *dims, tn_measure *r) {
  int64_t M;
  tn_status st = rows_of(p, t, dims, &M);
  tni_clt_room room;
  if (st == TN_OK) st = packed_room(p, t, M, &room);
  if (st != TN_OK) return st;
  r->scratch_bytes = room.bytes;
  double m = (double)M, n = (double)t->geo.N, k = (double)t->geo.K;
  r->macs = m * n * k;
  r->moved_bytes = (double)t->geo.bytes + 4 * m * (n + k);
  r->cost_ns = tni_clt_cost_packed(m, n, k, (double)t->geo.bytes);
  return TN_OK;
}

static tn_status measure_integer(const tn_program *p, const tni_clt_task *t, const tn_dims *dims, tn_measure *r) {
  int64_t M;
  const tn_status st = rows_of(p, t, dims, &M);
  if (st != TN_OK) return st;
  const double m = (double)M, n = (double)t->geo.N, k = (double)t->geo.K;
  r->scratch_bytes = tni_clt_integer_scratch(t, M);
  r->macs = m * n * k;
  r->moved_bytes = (double)t->geo.bytes + m * (4 * n + k);
  r->cost_ns = tni_clt_cost_packed(m, n, k, (double)t->geo.bytes);
  return TN_OK;
}

static tn_status measure_float(const tn_program *p, const tni_clt_task *t, const tn_dims *dims, tn_measure *r) {
  tni_clt_batch b;
  tn_status st = measure_batch(p, t, dims, &b);
  if (st != TN_OK) return st;
  double m = (double)b.M, n = (double)b.N, k = (double)b.K, count = (double)b.count;
  r->scratch_bytes = float_scratch(t, &b);
  r->macs = count * m * n * k;
  r->moved_bytes = 4 * count * (m * k + k * n + m * n);
  r->cost_ns = tni_clt_cost_float(r->macs);
  return TN_OK;
}

tn_status tni_clt_measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  if (task >= p->info.n_tasks || out->h.size < TN_UPTO(tn_measure, reserved)) return TN_E_INVALID;
  const tni_clt_task *t = p->tasks[task];
  tn_measure r = {.h = out->h, .slot_bytes = out->slot_bytes, .scratch_align = 64};
  tn_status st = t->kind == TNI_CLT_PACKED    ? measure_packed(p, t, dims, &r)
                 : t->kind == TNI_CLT_INTEGER ? measure_integer(p, t, dims, &r)
                                              : measure_float(p, t, dims, &r);
  if (st == TN_OK && r.slot_bytes) st = measure_slots(p, &t->pub, dims, r.slot_bytes);
  if (st == TN_OK) tni_cm_give(out, &r, sizeof r);
  return st;
}

tn_status tni_clt_set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  if (slot >= p->info.n_slots)
    return tni_cm_fail(err, TN_E_INVALID, p->device->backend->name, "there is no slot %u", slot);
  tni_clt_slot *s = tni_clt_slot_of(p, slot);
  const char *name = s->pub.name;
  if (s->pub.kind != TN_SLOT_WEIGHT) return tni_cm_fail(err, TN_E_INVALID, name, "slot %u takes no weights", slot);
  if (!view || !view->ptr) return tni_cm_fail(err, TN_E_INVALID, name, "weights must be in memory");
  const tn_need *need = p->needs[s->pub.need];
  if (need->format) {
    if (!blob || blob->format != need->format || blob->n_params != need->n_params ||
        (need->n_params &&
         (!blob->params || memcmp(blob->params, need->params, need->n_params * sizeof *need->params))))
      return tni_cm_fail(err, TN_E_INVALID, name, "the blob is not %s with the same params", need->format->name);
    if ((uintptr_t)view->ptr % 64) return tni_cm_fail(err, TN_E_INVALID, name, "the blob is not 64-byte aligned");
    for (uint32_t i = 0; i < p->info.n_tasks; i++) {
      const tni_clt_task *t = p->tasks[i];
      if (t->kind == TNI_CLT_FLOAT || t->pub.uses[t->w_use].slot != slot) continue;
      if (blob->N != t->geo.N || blob->K != t->geo.K || blob->bytes < t->geo.bytes)
        return tni_cm_fail(err, TN_E_INVALID, name, "the blob is [%lld,%lld], not [%lld,%lld]", (long long)blob->N,
                           (long long)blob->K, (long long)t->geo.N, (long long)t->geo.K);
    }
  }
  s->ptr = view->ptr;
  s->bytes = view->bytes;
  return TN_OK;
}

static const tni_clt_kernel *any_kernel(const tn_program *p, uint32_t op, int64_t M) {
  return tni_clt_select(p->device->backend->kernels, op, TNI_CLT_ANY, 0, p->device->set.features, M);
}

/* A GEMM that says so takes fewer rows than others: all of them over one pass. */
static bool is_for_few(const tni_clt_kernel *gemm) { return gemm->min_m > 1 && gemm->min_m <= TNI_CLT_GEMV_ROWS; }

static tn_status bind_packed(tn_plan *plan, const tn_dims *dims) {
  const tn_program *p = plan->program;
  const tni_clt_task *t = plan->task;
  tn_status st = rows_of(p, t, dims, &plan->M);
  if (st == TN_OK) st = packed_room(p, t, plan->M, &plan->room);
  if (st == TN_OK) plan->scratch_bytes = plan->room.bytes;
  if (st == TN_OK) plan->unit_rows = tni_clt_unit_rows(&t->geo, plan->M);
  const tni_clt_kernel *quant = kernel_of(p, TNI_CLT_QUANT, &t->geo, plan->M),
                       *gemv = kernel_of(p, TNI_CLT_GEMV, &t->geo, plan->M);
  plan->quant = (tni_clt_quant_fn)quant->fn;
  plan->gemv = (tni_clt_gemv_fn)gemv->fn;
  const tni_clt_kernel *gemm = kernel_of(p, TNI_CLT_GEMM, &t->geo, plan->M);
  plan->gemm = (tni_clt_gemm_fn)gemm->fn;
  plan->row_by_row = plan->M <= TNI_CLT_GEMV_ROWS && quant->layout == gemv->layout && !is_for_few(gemm);
  const tni_clt_kernel *two = plan->row_by_row ? NULL : kernel_of_two(p, &t->geo, plan->M);
  plan->gemm2 = two ? (tni_clt_gemm2_fn)two->fn : NULL;
  plan->chain = ((tni_clt_chain_fn)any_kernel(p, TNI_CLT_CHAIN, 0)->fn)();
  return st;
}

static tn_status bind_integer(tn_plan *plan, const tn_dims *dims) {
  const tn_status st = rows_of(plan->program, plan->task, dims, &plan->M);
  if (st == TN_OK) plan->scratch_bytes = tni_clt_integer_scratch(plan->task, plan->M);
  plan->bytes = (tni_clt_bytes_fn)any_kernel(plan->program, TNI_CLT_BYTES, plan->M)->fn;
  return st;
}

static tn_status bind_float(tn_plan *plan, const tn_dims *dims) {
  tn_status st = measure_batch(plan->program, plan->task, dims, &plan->batch);
  if (st == TN_OK) plan->scratch_bytes = float_scratch(plan->task, &plan->batch);
  plan->matmul = (tni_clt_matmul_fn)any_kernel(plan->program, TNI_CLT_MATMUL, plan->batch.M)->fn;
  return st;
}

tn_status tni_clt_bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  const tn_host *h = p->device->host;
  if (task >= p->info.n_tasks)
    return tni_cm_fail(err, TN_E_INVALID, p->device->backend->name, "there is no task %u", task);
  if (!p->device->backend->kernels)
    return tni_cm_fail(err, TN_E_UNAVAILABLE, p->tasks[task]->pub.name, "%s cannot run here: it is an offline device",
                       p->device->backend->name);
  tn_plan *plan = tni_cm_plan_new(h, sizeof *plan, p->tasks[task]->pub.name, err);
  if (!plan) return TN_E_NO_MEMORY;
  plan->program = p;
  plan->task = p->tasks[task];
  tn_status st = plan->task->kind == TNI_CLT_PACKED    ? bind_packed(plan, dims)
                 : plan->task->kind == TNI_CLT_INTEGER ? bind_integer(plan, dims)
                                                       : bind_float(plan, dims);
  if (st != TN_OK) {
    h->free(h->ctx, plan);
    return tni_cm_fail(err, st, p->tasks[task]->pub.name, "dims that do not fit this product");
  }
  *out = plan;
  return TN_OK;
}

void tni_clt_unbind(tn_plan *plan) {
  if (!plan) return;
  const tn_host *h = plan->program->device->host;
  h->free(h->ctx, plan);
}

static uint64_t bytes_of_packed_use(const tn_plan *plan, uint32_t use) {
  const tni_clt_task *t = plan->task;
  uint64_t rows = (uint64_t)plan->M, most = use == 0 ? rows * (uint64_t)t->geo.K : 0;
  for (uint32_t k = 0; k < t->n_strips; k++) {
    const tni_clt_strip *s = t->strips[k];
    uint64_t columns = (uint64_t)s->N;
    for (uint32_t i = 0; i < s->prog.n_stores; i++)
      if (s->store[i] == use && rows * columns > most) most = rows * columns;
    for (uint32_t i = 0; i < s->prog.n_loads; i++) {
      uint32_t kind = s->load[i].kind;
      uint64_t n = kind == TNI_CM_WHOLE ? rows * columns : kind == TNI_CM_ROW ? columns : 1;
      if (kind != TNI_CM_NUMBER && s->load[i].use == use && n > most) most = n;
    }
  }
  return most * sizeof(float);
}

/* Bytes that a use must have; 0 where it may be empty or is a constant, checked by set(). */
static uint64_t bytes_of_use(const tn_plan *plan, uint32_t use) {
  const tni_clt_task *t = plan->task;
  const tni_clt_batch *b = &plan->batch;
  const tni_clt_affine *a = &t->affine;
  if (use == t->pub.n_uses) return plan->scratch_bytes;
  if (t->kind == TNI_CLT_PACKED) return bytes_of_packed_use(plan, use);
  if (t->kind == TNI_CLT_INTEGER) return tni_clt_integer_bytes(plan, use);
  if (a->y_use == use) return (uint64_t)(b->M * b->N * b->count) * sizeof(float);
  return a->bias_use == use ? (uint64_t)(a->bias_scalar ? 1 : a->N) * sizeof(float) : 0;
}

static tn_status attach_view(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  const tn_plan *plan = a->plan;
  const tn_task *t = &plan->task->pub;
  void *ptr = view ? view->ptr : NULL;
  uint64_t bytes = view ? view->bytes : 0, wanted = bytes_of_use(plan, use);
  const tni_clt_slot *s = use < t->n_uses ? tni_clt_slot_of(plan->program, t->uses[use].slot) : NULL;
  if (s && s->pub.kind == TN_SLOT_WEIGHT) {
    if (s->ptr) ptr = (void *)(uintptr_t)s->ptr;
    if (!ptr) return tni_cm_fail(err, TN_E_INVALID, t->name, "weights of '%s' are not set", s->pub.name);
  } else if (wanted && (!ptr || bytes < wanted)) {
    return tni_cm_too_small(err, t->name, s ? s->pub.name : "scratch", bytes, wanted);
  }
  uintptr_t align = !s || (s->pub.kind == TN_SLOT_WEIGHT && s->pub.value == TN_NONE) ? 64 : 1;
  if (wanted && (uintptr_t)ptr % align)
    return tni_cm_fail(err, TN_E_INVALID, t->name, "'%s' is not aligned", s ? s->pub.name : "scratch");
  a->ptr[use] = ptr;
  return TN_OK;
}

tn_status tni_clt_args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  const tn_host *h = plan->program->device->host;
  tn_args *a;
  void *room;
  tn_status st = tni_cm_args_new(h, &plan->task->pub, n, sizeof *a + n * sizeof *a->ptr, &room, err);
  if (st != TN_OK) return st;
  a = room;
  a->plan = plan;
  a->n = n;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) st = attach_view(a, i, uses[i], err);
  if (st != TN_OK)
    h->free(h->ctx, a);
  else
    *out = a;
  return st;
}

tn_status tni_clt_args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  if (use >= a->n) return tni_cm_fail(err, TN_E_INVALID, a->plan->task->pub.name, "there is no use %u", use);
  return attach_view(a, use, view, err);
}

void tni_clt_args_free(tn_args *a) {
  if (!a) return;
  const tn_host *h = a->plan->program->device->host;
  h->free(h->ctx, a);
}
