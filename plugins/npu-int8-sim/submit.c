/* SPDX-License-Identifier: Apache-2.0
 *
 * The device's engine. The driver is synchronous: a submission returns when its items are done.
 */
#include <string.h>

#include "plugins/npu-int8-sim/program.h"

static int stop_asked(void *arg) {
  const tn_run *run = arg;
  return run->cancelled && run->cancelled(run);
}

/* Chunk `at` of the rows. */
static int execute_chunk(const tn_item *it, int64_t at, tn_run *run, npusim_times *t) {
  const tni_npu_block *b = it->plan->task->b;
  const struct tni_npu_place *xq = tni_npu_place_of(it->args, b->xq), *acc = tni_npu_place_of(it->args, b->acc);
  const int64_t rows = it->plan->program->device->set.chunk, K = tni_npu_input(b)->K;
  const uint32_t before = b->gate ? b->gate->l.n_weights : 0; /* products whose sums stay on the device */
  npusim_tensor x[NPUSIM_MAX_GEMMS], y[NPUSIM_MAX_GEMMS];
  for (uint32_t i = 0; i < (before ? before : b->l.n_weights); i++)
    x[i] = (npusim_tensor){
        .handle = xq->handle, .at = xq->at + npusim_input_bytes(at * rows, K), .rows = rows, .columns = K};
  for (uint32_t i = 0; i < b->l.n_weights; i++) {
    y[before + i] =
        (npusim_tensor){.handle = acc->handle,
                        .at = acc->at + it->plan->room.acc_at[i] + npusim_output_bytes(at * rows, b->l.N[i]),
                        .rows = rows,
                        .columns = b->l.N[i]};
  }
  return npusim_execute(it->plan->task->b->graph, x, y, it->ready, run ? stop_asked : NULL, run, t);
}

/* One execution for each sequence of a batch, one after the other. */
static int execute_item(const tn_item *it, tn_run *run, npusim_times *t) {
  npusim_times one = *t;
  for (int64_t at = 0; at * it->plan->program->device->set.chunk < it->plan->M; at++) {
    const int rc = execute_chunk(it, at, run, &one);
    if (rc != NPUSIM_OK) return rc;
    if (at == 0) t->start = one.start;
    t->end = one.end;
    t->bytes += one.bytes;
  }
  return NPUSIM_OK;
}

/* Between memory of the device and the host's, by the simulator, which counts it. Two buffers: the CPU maps one. */
static tn_status copy_item(tni_npu_device *d, const tn_item *it, tn_error *err) {
  const tni_npu_buffer *src = (const tni_npu_buffer *)it->src->buffer, *dst = (const tni_npu_buffer *)it->dst->buffer;
  const uint64_t n = it->src->bytes;
  void *host = it->src->ptr;
  int rc = NPUSIM_BAD;
  if (n != it->dst->bytes)
    return tni_cm_fail(err, TN_E_INVALID, TNI_NPU_NAME, "a copy between views of different sizes");
  if (src && dst) {
    tn_status st = tni_npu_map(it->src->buffer, it->src->offset, n, TN_READ, &host, err);
    if (st != TN_OK) return st;
  }
  if (dst && host)
    rc = npusim_write(d->sim, dst->handle, it->dst->offset, host, n);
  else if (src && it->dst->ptr)
    rc = npusim_read(d->sim, src->handle, it->src->offset, it->dst->ptr, n);
  return rc == NPUSIM_OK ? TN_OK : tni_npu_fail(err, rc, TNI_NPU_NAME, "a copy failed");
}

/* From submit on until the item is done with: tni_npu_args_free waits for it. */
static void hold_args(const tn_item *it, bool on) {
  if (it->plan) __atomic_add_fetch(&it->args->in_use, on ? 1u : ~0u, __ATOMIC_ACQ_REL);
}

/* False where the item will never complete. Lets go of its arguments. */
static bool run_item(tni_npu_device *d, const tn_item *it, tn_run *run) {
  tn_error err = {.h = TN_HDR(tn_error), .node = TN_NONE, .task = TN_NONE};
  npusim_times t = {.ready = it->ready, .start = it->ready, .end = it->ready};
  tn_status st = TN_OK;
  if (it->plan) {
    const int rc =
        it->plan->task->att ? tni_npu_attend_run(it, run ? stop_asked : NULL, run, &t) : execute_item(it, run, &t);
    if (rc == NPUSIM_HUNG) {
      hold_args(it, false);
      return false;
    }
    if (rc != NPUSIM_OK) st = tni_npu_fail(&err, rc, it->plan->task->pub.name, "the execution failed");
  } else {
    st = copy_item(d, it, &err);
    t.bytes = st == TN_OK ? it->src->bytes : 0;
  }
  const tn_times times = {
      .h = TN_HDR(tn_times), .queued = t.ready, .start = t.start, .end = t.end, .bytes = t.bytes, .clock = 1};
  tn_ticket *ticket = it->ticket;
  hold_args(it, false);
  d->host->done(ticket, st, &times, st == TN_OK ? NULL : &err); /* the item may be gone from here on */
  return true;
}

static bool view_good(const tni_npu_device *d, const tn_view *v) {
  return v && (v->buffer ? v->buffer->device == &d->pub : v->ptr != NULL);
}

tn_status tni_npu_submit(tn_device *dev, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run,
                         tn_error *err) {
  tni_npu_device *d = (tni_npu_device *)dev;
  if (engine != TNI_NPU_ENGINE) return tni_cm_fail(err, TN_E_INVALID, TNI_NPU_NAME, "there is no engine %u", engine);
  for (uint32_t i = 0; i < n; i++) {
    const tn_item *it = items[i];
    if (!it->ticket) return tni_cm_fail(err, TN_E_INVALID, TNI_NPU_NAME, "an item has no ticket");
    if (it->plan ? !it->args || it->args->plan != it->plan || !it->plan->task->pub.engine
                 : !view_good(d, it->src) || !view_good(d, it->dst))
      return tni_cm_fail(err, TN_E_INVALID, TNI_NPU_NAME,
                         "an item is neither products with their arguments nor a copy");
  }
  uint32_t at = 0;
  for (uint32_t i = 0; i < n; i++) hold_args(items[i], true);
  while (at < n && run_item(d, items[at], run)) at++;
  for (at++; at < n; at++) hold_args(items[at], false); /* after one that hangs */
  return TN_OK;
}
