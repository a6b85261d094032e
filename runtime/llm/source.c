/* SPDX-License-Identifier: Apache-2.0
 *
 * Encoder-decoders. What a caller gives as a prompt is the source: it goes through the encoder once, and keys and
 * values of what that gives stay where they are for all steps of the decoder. The decoder's own text begins with a
 * token that config files name. A session that keeps its caches takes the source's tensors with the first step and
 * holds them; without one, each run reads them.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/llm/lm.h"

struct tni_source {
  tn_session *session;
  tni_chat_mem ids, ones, mask; /* of the encoder's inputs, of the decoder's */
  tn_tensor *out;               /* [outputs of lm->source] */
};

bool tni_is_of_source(const tni_in *in) { return in->role == TNI_INPUT_SOURCE || in->role == TNI_INPUT_SOURCE_MASK; }

tn_session *tni_source_session(const tn_chat *c) { return c->source ? c->source->session : NULL; }

/* --- load -------------------------------------------------------------------------------------------------------- */

/* The source's output that each input of this role is. */
static tn_status find_made(tn_lm *lm, tn_error *err) {
  for (uint32_t i = 0; i < lm->io.n_in; i++) {
    tni_in *in = &lm->io.in[i];
    uint32_t k = 0;
    if (in->role != TNI_INPUT_SOURCE) continue;
    for (; k < tn_model_n_outputs(lm->source); k++) {
      const char *made = tni_output_present(tn_model_output(lm->source, k)->name);
      if (made && strcmp(made, tni_input_past(in->info->name)) == 0) break;
    }
    if (k == tn_model_n_outputs(lm->source) || tn_model_output(lm->source, k)->dtype != in->info->dtype)
      return tni_fail(err, TN_E_UNSUPPORTED, in->info->name, "'%s' is read of the encoder, and no graph makes it",
                      in->info->name);
    in->present = k;
  }
  return TN_OK;
}

static tn_status check_encoder(const tn_lm *lm, tn_error *err) {
  for (uint32_t i = 0; i < tn_model_n_inputs(lm->source); i++) {
    const tn_io_info *x = tn_model_input(lm->source, i);
    const tni_input role = tni_input_named(x->name);
    if ((role != TNI_INPUT_IDS && role != TNI_INPUT_MASK) || x->rank != 2 || !tni_lm_elem_bytes(x->dtype))
      return tni_fail(err, TN_E_UNSUPPORTED, x->name, "input '%s' of the encoder is none of a text", x->name);
  }
  for (uint32_t i = 0; i < lm->io.n_in; i++)
    if (lm->io.in[i].role == TNI_INPUT_USE_CACHE)
      return tni_fail(
          err, TN_E_UNSUPPORTED, lm->io.in[i].info->name,
          "the two decoders behind use_cache_branch are not seen to be one: what follows the encoder cannot "
          "be run step by step");
  if (lm->config.decoder_start >= 0 || lm->bos >= 0) return TN_OK;
  return tni_fail(err, TN_E_INVALID, "decoder_start_token_id",
                  "the model is an encoder-decoder, and neither config.json nor generation_config.json has "
                  "decoder_start_token_id, the token that its text begins with");
}

tn_status tni_source_load(tn_lm *lm, tn_runtime *rt, const tn_model_opts *o, tn_error *err) {
  if (!lm->io.after_source) return TN_OK;
  tn_model_opts mo = *o;
  mo.flags = (o->flags & ~(uint32_t)(TN_MODEL_DECODER | TN_MODEL_CALIBRATE)) | TN_MODEL_SOURCE;
  tn_status st = tn_model_load(rt, lm->folder.model, &mo, &lm->source, err);
  if (st == TN_OK) st = check_encoder(lm, err);
  return st == TN_OK ? find_made(lm, err) : st;
}

/* --- a conversation ---------------------------------------------------------------------------------------------- */

tn_status tni_source_create(tn_chat *c, tn_error *err) {
  tn_model *m = c->lm->source;
  if (!m) return TN_OK;
  tni_source *s = c->source = calloc(1, sizeof *s);
  if (s) s->out = calloc(tn_model_n_outputs(m), sizeof *s->out);
  if (!s || !s->out) return tni_fail_memory(err, "chat");
  return tn_session_create(m, &s->session, err);
}

void tni_source_destroy(tn_chat *c) {
  tni_source *s = c->source;
  if (!s) return;
  if (s->session) tn_session_destroy(s->session);
  free(s->ids.v);
  free(s->ones.v);
  free(s->mask.v);
  free(s->out);
  free(s);
}

static tn_status put_ones(tni_chat_mem *m, tn_dtype dt, size_t n, tn_error *err) {
  const size_t size = tni_lm_elem_bytes(dt);
  if (!tni_chat_mem_grow(m, n * size)) return tni_fail_memory(err, "source");
  for (size_t i = 0; i < n; i++) tni_put_ints((char *)m->v + i * size, dt, 1, NULL, 1);
  return TN_OK;
}

/* [1, n] of ids, or of ones. */
static tn_status row_of(const tn_io_info *x, tni_chat_mem *m, const int32_t *ids, size_t n, tn_tensor *t,
                        tn_error *err) {
  const size_t bytes = n * tni_lm_elem_bytes(x->dtype);
  tn_status st = ids ? TN_OK : put_ones(m, x->dtype, n, err);
  if (ids && !tni_chat_mem_grow(m, bytes)) st = tni_fail_memory(err, "source");
  if (st == TN_OK && ids) tni_put_ints(m->v, x->dtype, n, ids, 0);
  *t = (tn_tensor){.h = {sizeof *t, 1, 0},
                   .name = x->name,
                   .dtype = x->dtype,
                   .rank = 2,
                   .dims = {1, (int64_t)n},
                   .data = m->v,
                   .bytes = bytes};
  return st;
}

static tn_status run_encoder(tn_chat *c, const int32_t *ids, size_t n, tn_error *err) {
  tn_model *m = c->lm->source;
  tni_source *s = c->source;
  tn_tensor in[2];
  const tn_tensor *in_ptr[2] = {&in[0], &in[1]};
  const uint32_t n_in = tn_model_n_inputs(m), n_out = tn_model_n_outputs(m);
  tn_status st = TN_OK;
  for (uint32_t i = 0; i < n_in && st == TN_OK; i++) {
    const tn_io_info *x = tn_model_input(m, i);
    const bool is_ids = tni_input_named(x->name) == TNI_INPUT_IDS;
    st = row_of(x, is_ids ? &s->ids : &s->ones, is_ids ? ids : NULL, n, &in[i], err);
  }
  for (uint32_t i = 0; i < n_out; i++)
    s->out[i] = (tn_tensor){.h = {sizeof(tn_tensor), 1, 0}, .name = tn_model_output(m, i)->name};
  return st == TN_OK ? tn_session_run(s->session, TN_PHASE_PREFILL, in_ptr, n_in, s->out, n_out, err) : st;
}

/* The decoder's inputs are what the encoder gave. */
static tn_status feed_decoder(tn_chat *c, size_t n, tn_error *err) {
  tn_status st = TN_OK;
  for (uint32_t i = 0; i < c->lm->io.n_in && st == TN_OK; i++) {
    const tni_in *in = &c->lm->io.in[i];
    if (in->role == TNI_INPUT_SOURCE_MASK) st = row_of(in->info, &c->source->mask, NULL, n, &c->in[i], err);
    if (in->role != TNI_INPUT_SOURCE) continue;
    c->in[i] = c->source->out[in->present];
    c->in[i].name = in->info->name;
  }
  return st;
}

static tn_status check_source(const tn_lm *lm, const int32_t *ids, size_t n, tn_error *err) {
  const int64_t most = lm->config.context, vocab = lm->config.vocab;
  if (n == 0) return tni_fail(err, TN_E_INVALID, "prompt", "the source is empty: an encoder reads at least one token");
  if (most && n > (size_t)most)
    return tni_fail(err, TN_E_LIMIT, "context", "%zu tokens; the encoder was made for %lld", n, (long long)most);
  for (size_t i = 0; i < n; i++)
    if (ids[i] < 0 || (vocab && ids[i] >= vocab))
      return tni_fail(err, TN_E_INVALID, "ids", "id %d at %zu is outside the vocabulary of %lld", (int)ids[i], i,
                      (long long)vocab);
  return TN_OK;
}

tn_status tni_source_run(tn_chat *c, const int32_t *ids, size_t n, tn_error *err) {
  tn_status st = check_source(c->lm, ids, n, err);
  if (st == TN_OK) st = run_encoder(c, ids, n, err);
  return st == TN_OK ? feed_decoder(c, n, err) : st;
}

int32_t tni_source_forced(const tn_chat *c, bool last) {
  const tni_lm_config *cfg = &c->lm->config;
  if (!c->source) return -1;
  if (c->n < TNI_CONFIG_FORCED && cfg->forced[c->n] >= 0) return cfg->forced[c->n];
  if (c->n == 1 && cfg->forced_bos >= 0) return cfg->forced_bos;
  return last ? cfg->forced_eos : -1;
}
