/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs prepared ahead of time (tenon/offline.h): weights come as they are packed, one task's at a time are put into
 * memory of the simulator, and what is prepared goes into the host's cache, where bind looks for it.
 */
#include <string.h>

#include "plugins/npu-int8-sim/offline.h"
#include "plugins/npu-int8-sim/program.h"

static tn_status set_ahead(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  (void)view;
  if (slot >= p->info.n_slots) return tni_cm_fail(err, TN_E_INVALID, TNI_NPU_NAME, "there is no slot %u", slot);
  for (uint32_t i = 0; i < p->n_blocks; i++)
    for (uint32_t w = 0; w < p->blocks[i]->l.n_weights; w++)
      if (p->blocks[i]->w[w] == slot) p->blocks[i]->ahead[w] = blob;
  return TN_OK; /* rows for the shadow and constants are no part of a graph */
}

/* The weights of a task's products, in memory of the device. */
typedef struct loan {
  tn_buffer *buffer[NPUSIM_MAX_GEMMS];
  uint32_t n;
} loan;

static tn_status lend_weight(tn_program *p, tni_npu_block *b, uint32_t w, loan *l, tn_error *err) {
  const tn_blob *blob = b->ahead[w];
  const char *name = p->slots[b->w[w]]->name;
  if (!blob || !blob->ptr) return tni_cm_fail(err, TN_E_INVALID, name, "its weights are not set");
  const tn_buffer_req req = {.h = TN_HDR(tn_buffer_req), .bytes = blob->bytes, .fd = -1};
  tn_status st = tni_npu_create(&p->device->pub, &req, &l->buffer[l->n], err);
  if (st != TN_OK) return st;
  const tni_npu_buffer *buffer = (const tni_npu_buffer *)l->buffer[l->n++];
  const int rc = npusim_write(p->device->sim, buffer->handle, 0, blob->ptr, blob->bytes);
  if (rc != NPUSIM_OK) return tni_npu_fail(err, rc, name, "weights cannot be written");
  const tn_view view = {.h = TN_HDR(tn_view), .buffer = l->buffer[l->n - 1], .bytes = blob->bytes};
  return tni_npu_set(p, b->w[w], &view, blob, err);
}

static void take_back(tni_npu_block *b) {
  npusim_graph_free(b->graph);
  b->graph = NULL;
  memset(b->w_handle, 0, sizeof b->w_handle);
  if (b->gate) memset(b->gate->w_handle, 0, sizeof b->gate->w_handle);
}

static tn_status compile_ahead(tn_program *p, tn_id task, const tn_dims *dims, tn_error *err) {
  (void)dims; /* a graph is one chunk's, whatever the prompt */
  if (task >= p->info.n_tasks) return tni_cm_fail(err, TN_E_INVALID, TNI_NPU_NAME, "there is no task %u", task);
  const tni_npu_task *t = p->tasks[task];
  loan l = {.n = 0};
  if (t->kind != TNI_NPU_PRODUCT || t->att) return TN_E_UNSUPPORTED;
  tni_npu_block *const both[2] = {t->b->gate, t->b};
  tn_status st = TN_OK;
  for (uint32_t k = 0; k < 2; k++)
    for (uint32_t w = 0; both[k] && st == TN_OK && w < both[k]->l.n_weights; w++) st = lend_weight(p, both[k], w, &l, err);
  if (st == TN_OK) st = tni_npu_prepare(p, t, err);
  take_back(t->b);
  while (l.n) tni_npu_destroy(l.buffer[--l.n]);
  return st;
}

const tn_offline tni_npu_offline = {.h = TN_HDR(tn_offline), .set = set_ahead, .compile = compile_ahead};
