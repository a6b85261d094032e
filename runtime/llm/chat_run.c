/* SPDX-License-Identifier: Apache-2.0
 *
 * What both ways of running a chat share: growing memory, integers of a type, logits as floats, one run.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/llm/lm.h"

bool tni_chat_mem_grow(tni_chat_mem *m, size_t bytes) {
  if (bytes <= m->cap && m->v) return true;
  size_t cap = m->cap ? m->cap : 256;
  while (cap < bytes)
    if (!tni_mul_size(cap, 2, &cap)) return false;
  void *v = realloc(m->v, cap);
  if (!v) return false;
  m->v = v;
  m->cap = cap;
  return true;
}

void tni_put_ints(void *dst, tn_dtype dt, size_t n, const int32_t *src, int64_t base) {
  for (size_t i = 0; i < n; i++) {
    int64_t v = src ? src[i] : base + (int64_t)i;
    if (dt == TN_DT_I64)
      ((int64_t *)dst)[i] = v;
    else if (dt == TN_DT_I32)
      ((int32_t *)dst)[i] = (int32_t)v;
    else
      ((uint8_t *)dst)[i] = (uint8_t)v;
  }
}

void tni_logits_to_f32(const tn_tensor *o, size_t have, size_t want, size_t vocab, float *dst) {
  const size_t first = (have - want) * vocab, n = want * vocab;
  if (o->dtype == TN_DT_F32) {
    memcpy(dst, (const float *)o->data + first, n * sizeof *dst);
    return;
  }
  const uint16_t *h = (const uint16_t *)o->data + first;
  for (size_t i = 0; i < n; i++) dst[i] = o->dtype == TN_DT_F16 ? tni_f16_to_f32(h[i]) : tni_bf16_to_f32(h[i]);
}

/* A cancel that came when nothing ran is the session's memory of an earlier call, not of this one. */
tn_status tni_chat_run(tn_chat *c, uint32_t phase, bool last_only, tn_error *err) {
  const tni_lm_io *io = &c->lm->io;
  tn_long_error mine;
  tn_status st;
  int tries = 0;
  do {
    tni_long_error_init(&mine);
    st = c->kept ? tn_session_step(c->session, phase, c->in_ptr, c->out_ptr, last_only, &mine.error)
                 : tn_session_run(c->session, phase, c->in_ptr, io->n_in, c->out, io->n_past + 1, &mine.error);
  } while (st == TN_E_CANCELLED && !atomic_load(&c->cancelled) && tries++ < 2);
  if (st != TN_OK) (void)tni_error_pass(err, st, &mine.error);
  return st;
}
