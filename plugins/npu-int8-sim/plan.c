/* SPDX-License-Identifier: Apache-2.0
 *
 * measure, set, bind: from dims and weights to a plan.
 */
#include <math.h>
#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/npu-int8-sim/program.h"

/* --- sizes ------------------------------------------------------------------------------------------------------ */

static bool grow_room(uint64_t *sum, uint64_t a, uint64_t b, uint64_t unit) {
  uint64_t n;
  if (__builtin_mul_overflow(a, b, &n) || n > INT64_MAX / 4) return false;
  n = (n + unit - 1) / unit * unit;
  return !__builtin_add_overflow(*sum, n, sum) && *sum <= INT64_MAX / 4;
}

static tn_status block_room(const tni_npu_block *b, int64_t M, uint32_t workers, tni_npu_room *out) {
  const uint64_t k = (uint64_t)tni_npu_input(b)->K;
  tni_npu_room r = {.words = (k + 63) / 64, .tile_floats = TNI_NPU_TILE_ROWS * TNI_NPU_TILE_COLUMNS};
  const uint64_t m = (uint64_t)M, K = (k + TNI_NPU_TILE - 1) / TNI_NPU_TILE * TNI_NPU_TILE;
  if (M < 0 || !grow_room(&r.xq, m, K, TNI_NPU_ALIGN) || !grow_room(&r.marks, m, 4, 64)) return TN_E_LIMIT;
  r.bitmap_at = r.marks;
  if (!grow_room(&r.marks, m * 8, r.words, 64)) return TN_E_LIMIT;
  uint64_t pitch = 0;
  for (uint32_t i = 0; i < b->l.n_weights; i++) {
    const uint64_t n = tni_w8r_pitch(b->l.N[i]);
    r.acc_at[i] = r.acc;
    if (n > pitch) pitch = n;
    if (m && !grow_room(&r.acc, 1, npusim_output_bytes(M, b->l.N[i]), TNI_NPU_ALIGN)) return TN_E_LIMIT;
  }
  if (!grow_room(&r.sum, m * 8, (uint64_t)b->N, 64) || !grow_room(&r.shadow_bytes, 8, r.words, 64) ||
      !grow_room(&r.shadow_bytes, TNI_NPU_BATCH, pitch, 64))
    return TN_E_LIMIT;
  if (!grow_room(&r.merge_bytes, workers, b->n_tiles * r.tile_floats * sizeof(float), 64)) return TN_E_LIMIT;
  *out = r;
  return TN_OK;
}

static tn_status rows_of(const tn_program *p, const tni_npu_block *b, const tn_dims *dims, int64_t *M) {
  return tni_cm_product(p->device->host, &p->graph, b->x_dims, b->x_rank, dims, M);
}

/* What a CPU task moves and multiplies, as the clock's two constants want it. */
static void cpu_cost(const tni_npu_task *t, double m, tn_measure *r) {
  const tni_npu_block *b = t->b;
  const double k = (double)b->l.K, n = (double)b->N;
  if (t->kind == TNI_NPU_QUANTIZE) r->moved_bytes = 5 * m * k;
  if (t->kind == TNI_NPU_SHADOW) {
    r->macs = m * b->outliers * n;
    r->moved_bytes = 8 * m * n + b->outliers * n;
  }
  if (t->kind == TNI_NPU_MERGE) r->moved_bytes = (b->l.shadow ? 16 : 8) * m * n;
}

static void fill_cost(const tn_program *p, const tni_npu_task *t, double m, tn_measure *r) {
  const tni_npu_block *b = t->b;
  if (t->kind == TNI_NPU_PRODUCT) {
    npusim_shape shape[NPUSIM_MAX_GEMMS];
    const uint32_t n = tni_npu_shapes(b, p->device->set.chunk, shape);
    double weights = 0;
    for (uint32_t i = 0; i < n; i++) weights += (double)shape[i].N * (double)shape[i].K;
    r->cost_ns = ceil(m / (double)p->device->set.chunk) * (double)npusim_graph_ns(p->device->set.profile, shape, n);
    r->macs = m * weights;
    r->moved_bytes = weights + m * (double)tni_npu_input(b)->K + 4 * m * (double)b->N;
    r->driver_bytes = (uint64_t)(TNI_NPU_TILE + 1) * (uint64_t)(b->l.K + TNI_NPU_TILE) * sizeof(int16_t);
    if (b->gate) /* between the products, in memory of the device's own */
      r->driver_bytes += (uint64_t)p->device->set.chunk * (uint64_t)(4 * b->gate->N + b->l.K);
    return;
  }
  cpu_cost(t, m, r);
  r->cost_ns = (double)npusim_cpu_ns(p->device->set.profile, r->macs, r->moved_bytes);
  for (uint32_t i = 0; t->kind == TNI_NPU_SHADOW && i < b->l.n_weights; i++)
    r->driver_bytes += tni_npu_rows_bytes(b, i);
}

static uint64_t temp_bytes(const tn_program *p, const tni_npu_block *b, const tni_npu_room *room, int64_t M,
                           tn_id slot) {
  if (slot == b->xq) return room->xq;
  if (slot == b->marks) return room->marks;
  if (slot == b->acc) return room->acc;
  if (slot == b->sum) return room->sum;
  for (uint32_t i = 0; i < p->n_attentions; i++)
    if (p->attentions[i]->slot[4] == slot)
      return (uint64_t)M * (uint64_t)(p->attentions[i]->a.heads * p->attentions[i]->a.v_size) * sizeof(float);
  /* A value between two blocks: the merge's strip that writes it knows its width. */
  for (uint32_t i = 0; i < p->n_blocks; i++)
    for (uint32_t k = 0; k < p->blocks[i]->n_strips; k++) {
      const tni_npu_strip *s = p->blocks[i]->strips[k];
      for (uint32_t o = 0; o < s->prog.n_stores; o++)
        if (s->slot[o] == slot) return (uint64_t)M * (uint64_t)s->N * sizeof(float);
    }
  return 0;
}

tn_status tni_npu_measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  if (task >= p->info.n_tasks || out->h.size < TN_UPTO(tn_measure, reserved)) return TN_E_INVALID;
  const tni_npu_task *t = p->tasks[task];
  tn_measure r = {.h = out->h, .slot_bytes = out->slot_bytes, .scratch_align = 64};
  tni_npu_room room;
  int64_t M;
  if (t->att) return tni_npu_attend_measure(p, t, dims, out);
  tn_status st = rows_of(p, t->b, dims, &M);
  if (st == TN_OK) st = block_room(t->b, M, p->device->host->max_workers, &room);
  if (st != TN_OK) return st;
  if (t->kind == TNI_NPU_SHADOW) r.scratch_bytes = room.shadow_bytes;
  if (t->kind == TNI_NPU_MERGE) r.scratch_bytes = room.merge_bytes;
  fill_cost(p, t, (double)M, &r);
  for (uint32_t i = 0; r.slot_bytes && i < t->pub.n_uses; i++) {
    const tn_id slot = t->pub.uses[i].slot;
    if (p->slots[slot]->kind == TN_SLOT_TEMP) r.slot_bytes[slot] = temp_bytes(p, t->b, &room, M, slot);
  }
  tni_cm_give(out, &r, sizeof r);
  return TN_OK;
}

/* --- weights ---------------------------------------------------------------------------------------------------- */

static tn_status check_blob(const tn_program *p, tn_id slot, const tni_npu_block *b, uint32_t w, const tn_blob *blob,
                            tn_error *err) {
  const tn_need *need = p->needs[p->slots[slot]->need];
  const uint64_t bytes = need->format == &tni_w8a8_format ? tni_w8a8_codes(b->l.N[w], b->l.K) + TNI_W8_TRAILER
                                                          : tni_w8r_codes(b->l.N[w], b->l.K) + TNI_W8R_TRAILER;
  if (!blob || blob->format != need->format)
    return tni_cm_fail(err, TN_E_INVALID, p->slots[slot]->name, "the blob is not %s", need->format->name);
  if (blob->N != b->l.N[w] || blob->K != b->l.K || blob->bytes < bytes)
    return tni_cm_fail(err, TN_E_INVALID, p->slots[slot]->name, "the blob is [%lld,%lld], not [%lld,%lld]",
                       (long long)blob->N, (long long)blob->K, (long long)b->l.N[w], (long long)b->l.K);
  return TN_OK;
}

static tn_status set_device(const tn_program *p, tn_id slot, tni_npu_block *b, uint32_t w, const tn_view *view,
                            const tn_blob *blob, tn_error *err) {
  const char *name = p->slots[slot]->name;
  if (!view || !view->buffer || view->buffer->device != &p->device->pub)
    return tni_cm_fail(err, TN_E_INVALID, name, "weights must be in memory of the device");
  if (view->offset % TNI_NPU_ALIGN || view->bytes < blob->bytes || view->offset > view->buffer->bytes ||
      view->bytes > view->buffer->bytes - view->offset)
    return tni_cm_fail(err, TN_E_INVALID, name, "weights do not lie in their buffer, or not at a multiple of %d",
                       TNI_NPU_ALIGN);
  if (tni_w8_scale(blob, &b->w_scale[w]) != TN_OK)
    return tni_cm_fail(err, TN_E_CORRUPT, name, "the packed weights have no scale");
  npusim_graph_free(b->graph); /* of other weights */
  b->graph = NULL;
  b->w_handle[w] = ((const tni_npu_buffer *)view->buffer)->handle;
  b->w_at[w] = view->offset;
  return TN_OK;
}

static tn_status set_weight(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  for (uint32_t i = 0; i < p->n_blocks; i++) {
    tni_npu_block *b = p->blocks[i];
    for (uint32_t w = 0; w < b->l.n_weights; w++) {
      const bool rows = b->l.shadow && b->rows[w] == slot;
      if (!rows && b->w[w] != slot) continue;
      tn_status st = check_blob(p, slot, b, w, blob, err);
      if (st != TN_OK) return st;
      return rows ? tni_npu_rows_set(p, b, w, blob, err) : set_device(p, slot, b, w, view, blob, err);
    }
  }
  return tni_cm_fail(err, TN_E_INTERNAL, p->slots[slot]->name, "a weight that belongs to nothing");
}

tn_status tni_npu_set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  if (slot >= p->info.n_slots) return tni_cm_fail(err, TN_E_INVALID, TNI_NPU_NAME, "there is no slot %u", slot);
  const tn_slot *s = p->slots[slot];
  if (s->kind != TN_SLOT_WEIGHT) return tni_cm_fail(err, TN_E_INVALID, s->name, "slot %u takes no weights", slot);
  if (p->needs[s->need]->format) return set_weight(p, slot, view, blob, err);
  if (!view || !view->ptr) return tni_cm_fail(err, TN_E_INVALID, s->name, "a constant must be in memory");
  p->raw[slot] = view->ptr;
  return TN_OK;
}

/* --- plans ------------------------------------------------------------------------------------------------------ */

static tn_status bind_product(const tn_program *p, const tni_npu_task *t, const tn_dims *dims, tn_plan *plan,
                              tn_error *err) {
  tn_status st = rows_of(p, t->b, dims, &plan->M);
  if (st != TN_OK) return tni_cm_fail(err, st, t->pub.name, "dims that do not fit this product");
  if (plan->M == 0 || plan->M % p->device->set.chunk)
    return tni_cm_fail(err, TN_E_UNSUPPORTED, t->pub.name, "%lld rows: shapes are static, there must be %lld",
                       (long long)plan->M, (long long)p->device->set.chunk);
  st = block_room(t->b, plan->M, p->device->host->max_workers, &plan->room);
  if (st != TN_OK) return tni_cm_fail(err, st, t->pub.name, "too large");
  return t->kind == TNI_NPU_PRODUCT ? tni_npu_prepare(p, t, err) : st;
}

tn_status tni_npu_bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  const tn_host *h = p->device->host;
  if (task >= p->info.n_tasks) return tni_cm_fail(err, TN_E_INVALID, TNI_NPU_NAME, "there is no task %u", task);
  const tni_npu_task *t = p->tasks[task];
  tn_plan *plan = tni_cm_plan_new(h, sizeof *plan, t->pub.name, err);
  if (!plan) return TN_E_NO_MEMORY;
  plan->program = p;
  plan->task = t;
  tn_status st = t->att ? tni_npu_attend_bind(p, t, dims, plan, err) : bind_product(p, t, dims, plan, err);
  if (st != TN_OK) {
    h->free(h->ctx, plan);
    return st;
  }
  *out = plan;
  return TN_OK;
}

void tni_npu_unbind(tn_plan *plan) {
  if (!plan) return;
  const tn_host *h = plan->program->device->host;
  if (plan->attention) tni_npu_attend_unbind(plan);
  h->free(h->ctx, plan);
}
