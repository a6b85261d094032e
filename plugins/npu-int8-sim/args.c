/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments: memory for each use of a bound task, checked once.
 */
#include <time.h>

#include "plugins/common/base/base.h"
#include "plugins/npu-int8-sim/program.h"

static uint64_t operand_bytes(const tni_npu_strip *s, uint32_t kind, int64_t M) {
  const uint64_t columns = (uint64_t)s->N;
  return sizeof(float) * (kind == TNI_CM_WHOLE ? (uint64_t)M * columns : kind == TNI_CM_ROW ? columns : 1);
}

/* Bytes that a use must have. */
static uint64_t bytes_of_use(const tn_plan *plan, uint32_t use) {
  const tni_npu_block *b = plan->task->b;
  const tni_npu_room *r = &plan->room;
  const tn_task *t = &plan->task->pub;
  if (plan->task->att) return 0; /* as attaching finds it */
  if (use == t->n_uses)
    return plan->task->kind == TNI_NPU_SHADOW  ? r->shadow_bytes
           : plan->task->kind == TNI_NPU_MERGE ? r->merge_bytes
                                               : 0;
  const tn_id slot = t->uses[use].slot;
  uint64_t most = slot == b->x       ? (uint64_t)plan->M * (uint64_t)tni_npu_input(b)->K * sizeof(float)
                  : slot == b->xq    ? r->xq
                  : slot == b->marks ? r->marks
                  : slot == b->acc   ? r->acc
                  : slot == b->sum   ? r->sum
                                     : 0;
  for (uint32_t k = 0; plan->task->kind == TNI_NPU_MERGE && k < b->n_strips; k++) {
    const tni_npu_strip *s = b->strips[k];
    for (uint32_t i = 0; i < s->prog.n_loads; i++)
      if (s->load[i].use == use && operand_bytes(s, s->load[i].kind, plan->M) > most)
        most = operand_bytes(s, s->load[i].kind, plan->M);
    for (uint32_t i = 0; i < s->prog.n_stores; i++)
      if (s->store[i] == use) most = operand_bytes(s, TNI_CM_WHOLE, plan->M);
  }
  return most;
}

/* The device takes a handle and an offset: a pointer says nothing to it. */
static tn_status attach_device(const tn_plan *plan, const tn_slot *s, uint32_t use, const tn_view *v,
                               struct tni_npu_place *to, tn_error *err) {
  const char *name = plan->task->pub.name;
  if (!v || !v->buffer || v->buffer->device != &plan->program->device->pub)
    return tni_cm_fail(err, TN_E_INVALID, name, "'%s' is not in memory of the device", s->name);
  if (v->offset % TNI_NPU_ALIGN)
    return tni_cm_fail(err, TN_E_INVALID, name, "'%s' does not lie at a multiple of %d", s->name, TNI_NPU_ALIGN);
  to->handle = ((const tni_npu_buffer *)v->buffer)->handle;
  to->at = v->offset;
  return plan->task->att ? tni_npu_attend_attach(plan, use, v, to, err) : TN_OK;
}

static tn_status attach_place(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  const tn_plan *plan = a->plan;
  const tn_task *t = &plan->task->pub;
  const tn_slot *s = use < t->n_uses ? plan->program->slots[t->uses[use].slot] : NULL;
  const uint64_t wanted = bytes_of_use(plan, use);
  struct tni_npu_place *to = &a->place[use];
  if (s && s->kind == TN_SLOT_WEIGHT) { /* came with set() */
    to->ptr = (uint8_t *)(uintptr_t)plan->program->raw[t->uses[use].slot];
    if (plan->program->needs[s->need]->format || to->ptr) return TN_OK;
    return tni_cm_fail(err, TN_E_INVALID, t->name, "constant '%s' is not set", s->name);
  }
  if (wanted && (!view || view->bytes < wanted))
    return tni_cm_too_small(err, t->name, s ? s->name : "scratch", view ? view->bytes : 0, wanted);
  if (s && t->engine) return attach_device(plan, s, use, view, to, err);
  if (wanted && !view->ptr)
    return tni_cm_fail(err, TN_E_INVALID, t->name, "'%s' has no address on the CPU", s ? s->name : "scratch");
  to->ptr = view ? view->ptr : NULL;
  if (wanted && (uintptr_t)to->ptr % (!s || (s->kind == TN_SLOT_TEMP && s->value == TN_NONE) ? 64 : 4))
    return tni_cm_fail(err, TN_E_INVALID, t->name, "'%s' is not aligned", s ? s->name : "scratch");
  return TN_OK;
}

tn_status tni_npu_args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  const tn_host *h = plan->program->device->host;
  tn_args *a;
  void *room;
  tn_status st = tni_cm_args_new(h, &plan->task->pub, n, sizeof *a + n * sizeof *a->place, &room, err);
  if (st != TN_OK) return st;
  a = room;
  a->plan = plan;
  a->n = n;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) st = attach_place(a, i, uses[i], err);
  if (st != TN_OK)
    h->free(h->ctx, a);
  else
    *out = a;
  return st;
}

tn_status tni_npu_args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  if (use >= a->n) return tni_cm_fail(err, TN_E_INVALID, a->plan->task->pub.name, "there is no use %u", use);
  return attach_place(a, use, view, err);
}

/* A host that has given an item up lets go of its arguments while the engine is still at it, or at one before it. */
void tni_npu_args_free(tn_args *a) {
  const struct timespec moment = {.tv_nsec = 100000};
  if (!a) return;
  while (__atomic_load_n(&a->in_use, __ATOMIC_ACQUIRE)) nanosleep(&moment, NULL);
  const tn_host *h = a->plan->program->device->host;
  h->free(h->ctx, a);
}

const struct tni_npu_place *tni_npu_place_of(const tn_args *a, tn_id slot) {
  const tn_task *t = &a->plan->task->pub;
  for (uint32_t i = 0; i < t->n_uses; i++)
    if (t->uses[i].slot == slot) return &a->place[i];
  return NULL;
}

uint8_t *tni_npu_scratch(const tn_args *a) { return a->place[a->n - 1].ptr; }
