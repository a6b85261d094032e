/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon.Elementwise: one pass over memory, a short piece of every register at a time.
 */
#include "runtime/ops/arith/chain.h"

typedef struct elementwise {
  const tni_kargs *a;
  tni_chain chain;
  uint32_t dtype, work, size;
  const char *base; /* of the output that the walk goes along */
} elementwise;

static void elementwise_piece(const elementwise *e, const void *const *src, const int64_t *step, int64_t at,
                              int64_t first, int64_t n, tni_chain_room *room) {
  tni_registers r = {.work = e->work};
  void *dst[TN_CHAIN_MAX_OPS] = {NULL};
  for (uint32_t i = 0; i < e->chain.n_in; i++) {
    r.step[i] = step[i];
    r.reg[i] = (const char *)src[i] + at * step[i] * e->size;
    if (e->work == e->dtype) continue;
    float *widened = tni_chain_widened(room, i);
    tni_load_f32(e->dtype, src[i], at * step[i], step[i] ? n : 1, widened);
    r.reg[i] = widened;
  }
  for (uint32_t o = 0; o < e->a->n_out; o++) {
    const uint32_t reg = e->chain.results[o];
    if (e->work == e->dtype && e->a->out[o] && reg >= e->chain.n_in)
      dst[reg - e->chain.n_in] = (char *)e->a->out[o]->data + first * e->size;
  }
  tni_chain_run(&e->chain, NULL, 0, &r, dst, room, n);
  for (uint32_t o = 0; o < e->a->n_out; o++)
    if (e->a->out[o]) tni_chain_store(&r, e->chain.results[o], e->dtype, e->a->out[o]->data, first, n);
}

static void elementwise_row(const void *ctx, void *dst, const void *const *src, const int64_t *step, int64_t n) {
  const elementwise *e = ctx;
  const int64_t first = ((const char *)dst - e->base) / e->size;
  tni_chain_room room;
  tni_chain_begin(&e->chain, e->work, &room);
  for (int64_t at = 0; at < n; at += room.piece)
    elementwise_piece(e, src, step, at, first + at, n - at < room.piece ? n - at : room.piece, &room);
}

tn_status tni_k_elementwise(const tni_kargs *a) {
  elementwise e = {.a = a, .dtype = a->in[0]->dtype, .work = a->in[0]->dtype, .size = tni_elem_size(a->in[0]->dtype)};
  const char *why = tni_chain_read(a->node, &e.chain);
  const tni_tensor *out = NULL;
  const void *src[TN_CHAIN_MAX_INPUTS];
  uint32_t size[TN_CHAIN_MAX_INPUTS];
  tni_bcast b;
  if (why) return tni_kfail(a, TN_E_INVALID, "Elementwise: %s", why);
  if (tni_is_half(e.dtype)) e.work = TN_DT_F32;
  if (e.work != TN_DT_F32 && e.work != TN_DT_F64) return tni_kdtype(a, e.dtype);
  for (uint32_t o = 0; o < a->n_out && !out; o++) out = a->out[o];
  if (!out) return TN_OK;
  if (!tni_bcast_init(&b, out, a->in, a->n_in)) return tni_kfail(a, TN_E_INVALID, "inputs do not broadcast");
  for (uint32_t i = 0; i < a->n_in; i++) {
    if (a->in[i]->dtype != e.dtype) return tni_kdtype(a, a->in[i]->dtype);
    src[i] = a->in[i]->data;
    size[i] = e.size;
  }
  e.base = out->data;
  tni_bcast_run(a->run, &b, out->data, e.size, src, size, elementwise_row, &e);
  return TN_OK;
}
