/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversation's memory and one step of its model.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/llm/lm.h"

static tn_status init_chat(tn_chat *c, tn_error *err) {
  const tni_lm_io *io = &c->lm->io;
  c->feed = calloc(io->n_in, sizeof *c->feed);
  c->in = calloc(io->n_in, sizeof *c->in);
  c->in_ptr = calloc(io->n_in, sizeof *c->in_ptr);
  c->out = calloc(io->n_past + 1, sizeof *c->out);
  if (!c->feed || !c->in || !c->in_ptr || !c->out) return tni_fail_memory(err, "chat");
  for (uint32_t i = 0; i < io->n_in; i++) {
    const tn_io_info *x = io->in[i].info;
    c->in[i] =
        (tn_tensor){.h = {sizeof(tn_tensor), 1, 0}, .name = x->name, .dtype = x->dtype, .rank = (uint32_t)x->rank};
    for (int32_t d = 0; d < x->rank; d++) c->in[i].dims[d] = x->dims[d] < 0 ? 1 : x->dims[d];
    c->in_ptr[i] = &c->in[i];
  }
  tn_status st = tni_source_create(c, err);
  if (st == TN_OK) st = tn_session_create(c->lm->model, &c->session, err);
  return st == TN_OK && tn_model_has_cache(c->lm->model) ? tni_chat_keep(c, err) : st;
}

tn_chat *tni_chat_bare(tn_lm *lm, int64_t context) {
  tn_chat *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  tni_pace_init(&c->pace);
  c->lm = lm;
  c->context = context;
  __atomic_fetch_add(&lm->holders, 1, __ATOMIC_ACQ_REL);
  atomic_init(&c->cancelled, false);
  return c;
}

tn_status tn_chat_create(tn_lm *lm, tn_chat **out, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(lm);
  TNI_NOT_NULL(out);
  tn_chat *c = tni_chat_bare(lm, lm->context);
  if (!c) return tni_fail_memory(err, "chat");
  tn_status st = init_chat(c, err);
  if (st != TN_OK) {
    tn_chat_destroy(c);
    return st;
  }
  *out = c;
  return TN_OK;
}

void tn_chat_destroy(tn_chat *c) {
  if (!c) return;
  tn_chat_destroy(c->draft);
  if (c->session) tn_session_destroy(c->session);
  tni_source_destroy(c);
  for (uint32_t i = 0; c->feed && i < c->lm->io.n_in; i++) free(c->feed[i].v);
  free(c->feed);
  free(c->in);
  free(c->in_ptr);
  free(c->out);
  free(c->out_ptr);
  free(c->logits.v);
  free(c->history);
  tni_lm_release(c->lm);
  free(c);
}

void tn_chat_cancel(tn_chat *c) {
  if (!c) return;
  atomic_store(&c->cancelled, true);
  tn_session_cancel(c->session);
  if (c->draft) tn_chat_cancel(c->draft);
  if (c->source) tn_session_cancel(tni_source_session(c));
}

void tn_chat_trace(tn_chat *c, void (*fn)(void *user, const tn_trace_event *e), void *user) {
  if (!c) return;
  tn_session_trace(c->session, fn, user);
  if (c->source) tn_session_trace(tni_source_session(c), fn, user);
}

void tn_chat_reset(tn_chat *c) {
  if (!c) return;
  c->n = c->fed = 0;
  if (c->kept) (void)!tn_session_truncate(c->session, 0, NULL);
}

int64_t tni_lm_vocabulary(const tn_lm *lm) {
  const tn_io_info *x = lm->io.logits_info;
  int64_t v = x->rank > 0 ? x->dims[x->rank - 1] : 0;
  return v > 0 ? v : lm->config.vocab;
}

tn_status tni_chat_append(tn_chat *c, const int32_t *ids, size_t n, tn_error *err) {
  size_t total, bytes;
  int64_t vocab = tni_lm_vocabulary(c->lm);
  if (!tni_add_size(c->n, n, &total) || total > (size_t)c->context)
    return tni_fail(err, TN_E_LIMIT, "context", "%zu tokens after %zu in the conversation, the context holds %lld", n,
                    c->n, (long long)c->context);
  for (size_t i = 0; i < n; i++)
    if (ids[i] < 0 || (vocab && ids[i] >= vocab))
      return tni_fail(err, TN_E_INVALID, "ids", "id %d at %zu is outside the vocabulary of %lld", (int)ids[i], i,
                      (long long)vocab);
  if (total > c->cap) {
    size_t cap = c->cap ? c->cap : 256;
    while (cap < total)
      if (!tni_mul_size(cap, 2, &cap)) return tni_fail_memory(err, "history");
    if (!tni_mul_size(cap, sizeof *c->history, &bytes)) return tni_fail_memory(err, "history");
    int32_t *v = realloc(c->history, bytes);
    if (!v) return tni_fail_memory(err, "history");
    c->history = v;
    c->cap = cap;
  }
  if (n) memcpy(c->history + c->n, ids, n * sizeof *ids);
  c->n = total;
  return TN_OK;
}

/* --- one step ----------------------------------------------------------------------------------------------------- */

static void put_ones(void *dst, tn_dtype dt, size_t n) {
  for (size_t i = 0; i < n; i++) tni_put_ints((char *)dst + i * tni_lm_elem_bytes(dt), dt, 1, NULL, 1);
}

static tn_status fill_inputs(tn_chat *c, uint32_t i, size_t past, size_t n, tn_error *err) {
  const tni_in *in = &c->lm->io.in[i];
  tn_tensor *t = &c->in[i];
  tni_chat_mem *m = &c->feed[i];
  if (tni_is_of_source(in)) return TN_OK; /* the encoder's */
  size_t len = in->role == TNI_INPUT_MASK ? past + n : in->role == TNI_INPUT_USE_CACHE ? 1 : n, bytes = 1;
  if (in->role == TNI_INPUT_PAST) {
    t->dims[in->axis] = (int64_t)past;
    bytes = tni_lm_elem_bytes(t->dtype);
    for (uint32_t d = 0; d < t->rank; d++)
      if (!tni_mul_size(bytes, (size_t)t->dims[d], &bytes)) return tni_fail_memory(err, t->name);
    /* With a past the memory is there and full: the last step put it there. */
    if (past == 0 && !tni_chat_mem_grow(m, 1)) return tni_fail_memory(err, t->name);
  } else {
    if (!tni_mul_size(len, tni_lm_elem_bytes(t->dtype), &bytes) || !tni_chat_mem_grow(m, bytes))
      return tni_fail_memory(err, t->name);
    t->dims[t->rank - 1] = (int64_t)len;
  }
  switch (in->role) {
    case TNI_INPUT_IDS:
      tni_put_ints(m->v, t->dtype, n, c->history + past, 0);
      break;
    case TNI_INPUT_MASK:
      put_ones(m->v, t->dtype, len);
      break;
    case TNI_INPUT_POSITIONS:
    case TNI_INPUT_CACHE_POSITION:
      tni_put_ints(m->v, t->dtype, n, NULL, (int64_t)past);
      break;
    case TNI_INPUT_USE_CACHE:
      tni_put_ints(m->v, t->dtype, 1, NULL, past > 0);
      break;
    default: /* PAST; lm_io.c lets no other through */
      break;
  }
  t->data = m->v;
  t->bytes = bytes;
  return TN_OK;
}

/* The present must be the past with its axis grown by this step. */
static tn_status check_present(const tn_tensor *in, const tn_tensor *out, uint32_t axis, size_t total, tn_error *err) {
  bool same = out->rank == in->rank && out->dtype == in->dtype && out->data;
  uint64_t bytes = tni_lm_elem_bytes(in->dtype);
  for (uint32_t d = 0; same && d < in->rank; d++) {
    same = out->dims[d] == (d == axis ? (int64_t)total : in->dims[d]);
    bytes *= (uint64_t)out->dims[d];
  }
  if (same && out->bytes == bytes) return TN_OK;
  return tni_fail(err, TN_E_INVALID, out->name, "%s is not %s with axis %u grown to %zu", out->name, in->name, axis,
                  total);
}

/* All or nothing: memory first, then the copies. */
static tn_status keep_present(tn_chat *c, size_t total, tn_error *err) {
  const tni_lm_io *io = &c->lm->io;
  for (int pass = 0; pass < 2; pass++) {
    uint32_t k = 1;
    for (uint32_t i = 0; i < io->n_in; i++) {
      if (io->in[i].role != TNI_INPUT_PAST) continue;
      const tn_tensor *o = &c->out[k++];
      if (pass == 1) {
        memcpy(c->feed[i].v, o->data, o->bytes);
        continue;
      }
      tn_status st = check_present(&c->in[i], o, io->in[i].axis, total, err);
      if (st != TN_OK) return st;
      if (!tni_chat_mem_grow(&c->feed[i], o->bytes)) return tni_fail_memory(err, o->name);
    }
  }
  return TN_OK;
}

/* [1, S, V], or [1, V] from models that give the last row only. */
static tn_status read_logits(tn_chat *c, size_t n, bool last_only, const float **logits, size_t *rows, size_t *vocab,
                             tn_error *err) {
  const tn_tensor *o = &c->out[0];
  size_t have = o->rank == 3 ? (size_t)o->dims[1] : 1, v = o->rank ? (size_t)o->dims[o->rank - 1] : 0, bytes = 0;
  bool good = (o->rank == 3 || o->rank == 2) && o->dims[0] == 1 && v > 0 && (have == n || have == 1) && o->data;
  size_t size = tni_lm_elem_bytes(o->dtype);
  good = good && tni_mul_size(have * v, size, &bytes) && o->bytes == bytes;
  if (!good)
    return tni_fail(err, TN_E_INVALID, o->name, "%s does not have one row of logits for each of %zu tokens", o->name,
                    n);
  if (!last_only && have != n)
    return tni_fail(err, TN_E_UNSUPPORTED, o->name, "%s has logits for the last token only", o->name);
  size_t want = last_only ? 1 : n;
  const uint8_t *data = (const uint8_t *)o->data + (have - want) * v * size;
  *rows = want;
  *vocab = v;
  *logits = (const float *)(const void *)data;
  if (o->dtype == TN_DT_F32) return TN_OK;
  if (!tni_chat_mem_grow(&c->logits, want * v * sizeof(float))) return tni_fail_memory(err, "logits");
  tni_logits_to_f32(o, have, want, v, c->logits.v);
  *logits = c->logits.v;
  return TN_OK;
}

static void name_outputs(tn_chat *c) {
  const tni_lm_io *io = &c->lm->io;
  uint32_t k = 1;
  c->out[0] = (tn_tensor){.h = {sizeof(tn_tensor), 1, 0}, .name = io->logits_info->name};
  for (uint32_t i = 0; i < io->n_in; i++)
    if (io->in[i].role == TNI_INPUT_PAST)
      c->out[k++] =
          (tn_tensor){.h = {sizeof(tn_tensor), 1, 0}, .name = tn_model_output(c->lm->model, io->in[i].present)->name};
}

tn_status tni_chat_step(tn_chat *c, bool last_only, const float **logits, size_t *rows, size_t *vocab, tn_error *err) {
  const tni_lm_io *io = &c->lm->io;
  bool cached = io->n_past > 0;
  if (c->kept) return tni_chat_keep_step(c, last_only, logits, rows, vocab, err);
  size_t past = cached ? c->fed : 0, n = c->n - past;
  if (c->n == c->fed) return tni_fail(err, TN_E_INVALID, "ids", "there is no token to run");
  uint32_t phase = n > 1 || past == 0 ? TN_PHASE_PREFILL : TN_PHASE_DECODE;
  for (uint32_t i = 0; i < io->n_in; i++) {
    tn_status st = fill_inputs(c, i, past, n, err);
    if (st != TN_OK) return st;
  }
  if (atomic_load(&c->cancelled)) return tni_fail(err, TN_E_CANCELLED, "chat", "cancelled");
  name_outputs(c);
  tn_status st = tni_chat_run(c, phase, last_only, err);
  if (st == TN_OK) st = read_logits(c, n, last_only, logits, rows, vocab, err);
  if (st == TN_OK && cached) st = keep_present(c, c->n, err);
  if (st == TN_OK) c->fed = c->n;
  return st;
}

tn_status tn_chat_score(tn_chat *c, const int32_t *ids, size_t n, const float **logits, size_t *rows, size_t *vocab,
                        tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(c);
  TNI_NOT_NULL(logits);
  TNI_NOT_NULL(rows);
  TNI_NOT_NULL(vocab);
  if (n == 0 || !ids) return tni_fail(err, TN_E_INVALID, "ids", "there is no token to score");
  if (c->source)
    return tni_fail(err, TN_E_UNSUPPORTED, "ids",
                    "the model is an encoder-decoder: it makes a text of another one (tenon run) and scores none");
  size_t before = c->n, got, v;
  const float *l;
  atomic_store(&c->cancelled, false);
  tn_status st = tni_chat_append(c, ids, n, err);
  if (st == TN_OK) st = tni_chat_step(c, false, &l, &got, &v, err);
  if (st != TN_OK) {
    c->n = before;
    return st;
  }
  *logits = l + (got - n) * v;
  *rows = n;
  *vocab = v;
  return TN_OK;
}
