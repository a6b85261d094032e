/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversation on a session that keeps its caches: one sequence, prompts in chunks, nothing allocated in a step.
 */
#include <stdlib.h>

#include "runtime/base/base.h"
#include "runtime/llm/lm.h"
#include "runtime/session/session.h"

tn_status tni_chat_keep(tn_chat *c, tn_error *err) {
  const tni_lm_io *io = &c->lm->io;
  /* Decoders after an encoder are exported for one position a step. */
  const tn_keep_opts o = {.h = {sizeof o, 1, 0}, .batch = 1, .capacity = c->context, .max_step = c->source ? 1 : 0};
  tn_status st = tn_session_keep(c->session, &o, err);
  if (st != TN_OK) return st;
  c->chunk = tn_session_max_step(c->session);
  c->out_ptr = calloc(tn_model_n_outputs(c->lm->model), sizeof *c->out_ptr);
  if (!c->out_ptr) return tni_fail_memory(err, "chat");
  c->out[0] = (tn_tensor){.h = {sizeof(tn_tensor), 1, 0}};
  for (uint32_t i = 0; i < io->n_in; i++) {
    size_t bytes = (size_t)c->chunk * tni_lm_elem_bytes(c->in[i].dtype);
    c->in_ptr[i] = NULL; /* the session's own */
    if (io->in[i].role == TNI_INPUT_PAST || io->in[i].role == TNI_INPUT_MASK || tni_is_of_source(&io->in[i])) continue;
    if (!tni_chat_mem_grow(&c->feed[i], bytes)) return tni_fail_memory(err, "chat");
    c->in[i].data = c->feed[i].v;
    c->in_ptr[i] = &c->in[i];
  }
  c->kept = true;
  return TN_OK;
}

static void feed_ids(tn_chat *c, size_t at, size_t n) {
  const tni_lm_io *io = &c->lm->io;
  for (uint32_t i = 0; i < io->n_in; i++) {
    tn_tensor *t = &c->in[i];
    if (tni_is_of_source(&io->in[i])) c->in_ptr[i] = at == 0 ? t : NULL; /* the session holds them then */
    if (!c->in_ptr[i] || tni_is_of_source(&io->in[i])) continue;
    const bool flag = io->in[i].role == TNI_INPUT_USE_CACHE;
    const size_t len = flag ? 1 : n;
    tni_put_ints(c->feed[i].v, t->dtype, len, io->in[i].role == TNI_INPUT_IDS ? c->history + at : NULL,
                 flag ? at > 0 : (int64_t)at);
    t->dims[t->rank - 1] = (int64_t)len;
    t->bytes = len * tni_lm_elem_bytes(t->dtype);
  }
}

/* Logits of this chunk after those of the chunks before, unless they can be used where they are. */
static tn_status take_logits(tn_chat *c, size_t n, size_t total, bool last_only, size_t *done, const float **logits,
                             size_t *vocab, tn_error *err) {
  const tn_tensor *o = &c->out[0];
  const size_t have = o->rank == 3 ? (size_t)o->dims[1] : 1, v = o->rank ? (size_t)o->dims[o->rank - 1] : 0;
  const size_t want = last_only ? 1 : n, all = last_only ? 1 : total;
  size_t bytes = 0;
  if ((o->rank != 2 && o->rank != 3) || o->dims[0] != 1 || !v || have < 1 || !o->data)
    return tni_fail(err, TN_E_INVALID, o->name, "%s has no row of logits for each of %zu tokens", o->name, n);
  if (want > have) return tni_fail(err, TN_E_UNSUPPORTED, o->name, "%s has logits for the last token only", o->name);
  *vocab = v;
  if (o->dtype == TN_DT_F32 && want == all) {
    *logits = (const float *)o->data + (have - want) * v;
    return TN_OK;
  }
  if (!tni_mul_size(all, v, &bytes) || !tni_mul_size(bytes, sizeof(float), &bytes) ||
      !tni_chat_mem_grow(&c->logits, bytes))
    return tni_fail_memory(err, "logits");
  tni_logits_to_f32(o, have, want, v, (float *)c->logits.v + *done * v);
  *done += want;
  *logits = c->logits.v;
  return TN_OK;
}

/* What is wanted of a step: logits of the last token, of all, or of none (NULL). */
typedef struct wanted {
  bool last_only;
  const float **logits;
  size_t *vocab;
} wanted;

static tn_status run_range(tn_chat *c, size_t begin, size_t end, const wanted *want, tn_error *err) {
  const size_t total = end - begin;
  const uint32_t phase = total > 1 || begin == 0 ? TN_PHASE_PREFILL : TN_PHASE_DECODE;
  size_t done = 0;
  tn_status st = TN_OK;
  for (size_t at = begin; st == TN_OK && at < end;) {
    const size_t n = end - at < (size_t)c->chunk ? end - at : (size_t)c->chunk;
    const bool takes = want->logits && (!want->last_only || at + n == end);
    if (atomic_load(&c->cancelled)) st = tni_fail(err, TN_E_CANCELLED, "chat", "cancelled");
    feed_ids(c, at, n);
    c->out_ptr[c->lm->io.logits] = takes ? &c->out[0] : NULL;
    if (st == TN_OK) st = tni_chat_run(c, phase, want->last_only, err);
    if (st == TN_OK && takes) st = take_logits(c, n, total, want->last_only, &done, want->logits, want->vocab, err);
    at += n;
  }
  return st;
}

/* The tokens from `begin` to `from`, of which no logits are wanted, and then the rest. */
static tn_status run_rest(tn_chat *c, size_t begin, size_t from, const wanted *want, tn_error *err) {
  const wanted nothing = {true, NULL, NULL};
  const tn_status st = run_range(c, begin, from, &nothing, err);
  return st == TN_OK ? run_range(c, from, c->n, want, err) : st;
}

/* A device was lost and the caches with it: the session goes on on another, without positions (docs/isolation.md). */
static bool began_anew(const tn_chat *c, tn_status st, size_t from) {
  return st == TN_E_DEVICE_LOST && from && tn_session_length(c->session) == 0;
}

size_t tni_chat_may_guess(const tn_chat *c, size_t n) {
  const int64_t limit = c->kept ? tni_long_limit(c->session) : INT64_MAX, at = (int64_t)c->n;
  return at <= limit && (int64_t)n > limit - at ? (size_t)(limit - at) : n;
}

tn_status tni_chat_keep_step(tn_chat *c, bool last_only, const float **logits, size_t *rows, size_t *vocab,
                             tn_error *err) {
  const size_t from = c->fed, total = c->n - from;
  const wanted want = {last_only, logits, vocab};
  const int64_t text = (int64_t)(c->n > c->whole ? c->n : c->whole);
  size_t begin = from;
  tn_status st = TN_OK;
  if (total == 0) return tni_fail(err, TN_E_INVALID, "ids", "there is no token to run");
  tni_long_text(c->session, text);
  if (from && !tni_long_serves(c->session, text)) {
    st = tn_session_truncate(c->session, 0, err);
    begin = 0;
  }
  if (st == TN_OK) st = run_rest(c, begin, from, &want, err);
  if (began_anew(c, st, from)) {
    tni_error_begin(err);
    tni_long_text(c->session, text);
    st = run_rest(c, 0, from, &want, err);
  }
  if (st != TN_OK) {
    /* Rings may have lost what was there: then all of the history is fed again. */
    if (tn_session_truncate(c->session, (int64_t)from, NULL) != TN_OK) c->fed = 0;
    if (c->fed == 0) (void)!tn_session_truncate(c->session, 0, NULL);
    return st;
  }
  *rows = last_only ? 1 : total;
  c->fed = c->n;
  return TN_OK;
}
