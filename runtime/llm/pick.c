/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/pick.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/lm.h"
#include "runtime/llm/repeats.h"
#include "runtime/llm/sampler.h"
#include "runtime/llm/spelling.h"

enum { BREAKS = 64, BIASES = 1 << 20 };

struct tn_sampler {
  const tn_lm *lm;
  tn_gen_params p;
  tn_logit_bias *bias; /* [p.n_bias], its own */
  tni_dry dry;
  tni_sampler *s;          /* from the first logits on, which say how many there are */
  tni_text_reader *reader; /* NULL: no grammar */
  size_t vocab;
  float *work; /* [vocab] */
  int32_t *ids;
  uint32_t *scratch; /* [cap], with DRY */
  size_t n, cap;
  uint32_t made; /* of ids */
};

static tni_sampler_params params_of(const tn_gen_params *p) {
  return (tni_sampler_params){.temperature = p->temperature,
                              .top_p = p->top_p,
                              .min_p = p->min_p,
                              .repeat_penalty = p->repeat_penalty,
                              .top_k = p->top_k,
                              .seed = p->seed,
                              .frequency = p->frequency_penalty,
                              .presence = p->presence_penalty,
                              .typical_p = p->typical_p,
                              .mirostat_tau = p->mirostat_tau,
                              .mirostat_eta = p->mirostat_eta};
}

tn_status tni_pick_check(const tn_gen_params *p, tn_error *err) {
  tni_sampler *s = NULL;
  const tni_sampler_params sp = params_of(p);
  tn_status st = tni_known_bits(p->flags, TN_GEN_IGNORE_EOS | TN_GEN_NO_SPECIAL, "tn_gen_params.flags", err);
  if (st == TN_OK) st = tni_known_bits(p->reserved, 0, "tn_gen_params.reserved", err);
  if (st == TN_OK) st = tni_counted(p->bias, p->n_bias, "bias", err);
  if (st == TN_OK) st = tni_counted(p->dry_break, p->n_dry_break, "dry_break", err);
  if (st == TN_OK && p->n_bias > BIASES) st = tni_fail(err, TN_E_LIMIT, "bias", "%u of them", p->n_bias);
  if (st == TN_OK && p->n_dry_break > BREAKS)
    st = tni_fail(err, TN_E_LIMIT, "dry_break", "%u of them, at most %d", p->n_dry_break, BREAKS);
  for (uint32_t i = 0; st == TN_OK && i < p->n_bias; i++)
    if (isnan(p->bias[i].bias) || p->bias[i].bias == INFINITY || p->bias[i].id < 0)
      st = tni_fail(err, TN_E_INVALID, "bias", "bias[%u]: not a token and a number", i);
  if (st == TN_OK && !(p->dry >= 0 && isfinite(p->dry)))
    st = tni_fail(err, TN_E_INVALID, "dry", "%g is not a number from 0", (double)p->dry);
  if (st == TN_OK && p->dry_base != 0 && !(p->dry_base >= 1 && isfinite(p->dry_base)))
    st = tni_fail(err, TN_E_INVALID, "dry_base", "%g is not a number from 1", (double)p->dry_base);
  if (st == TN_OK) st = tni_sampler_create(1, &sp, &s, err);
  tni_sampler_destroy(s);
  return st;
}

/* The last tokens of texts that repeats do not reach across. */
static tn_status usual_breaks(tn_sampler *s, tn_error *err) {
  static const char *const texts[] = {"\n", ":", "\"", "*"};
  for (size_t i = 0; s->lm->tok && i < sizeof texts / sizeof *texts; i++) {
    tni_ids ids = {0};
    char text[8] = "a";
    strcat(text, texts[i]);
    const tn_status st = tni_tokenizer_encode(s->lm->tok, text, strlen(text), false, &ids, err);
    if (st == TN_OK && ids.n) s->dry.breaks[s->dry.n_breaks++] = ids.v[ids.n - 1];
    tni_ids_free(&ids);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

static tn_status set_dry(tn_sampler *s, tn_error *err) {
  const tn_gen_params *p = &s->p;
  s->dry = (tni_dry){p->dry,      p->dry_base > 0 ? p->dry_base : 1.75f, p->dry_length ? p->dry_length : 2,
                     p->dry_last, calloc(BREAKS, sizeof(int32_t)),       0};
  if (!s->dry.breaks) return tni_fail_memory(err, "sampler");
  if (!p->dry_break) return usual_breaks(s, err);
  s->dry.n_breaks = p->n_dry_break;
  if (p->n_dry_break) memcpy(s->dry.breaks, p->dry_break, p->n_dry_break * sizeof(int32_t));
  return TN_OK;
}

static tn_status add_id(tn_sampler *s, int32_t id, tn_error *err) {
  if (s->n == s->cap) {
    const size_t cap = s->cap ? s->cap * 2 : 256;
    int32_t *ids = realloc(s->ids, cap * sizeof *ids);
    if (ids) s->ids = ids;
    uint32_t *scratch = ids && s->p.dry > 0 ? realloc(s->scratch, cap * sizeof *scratch) : s->scratch;
    if (!ids || (s->p.dry > 0 && !scratch)) return tni_fail_memory(err, "sampler");
    s->scratch = scratch;
    s->cap = cap;
  }
  s->ids[s->n++] = id;
  return TN_OK;
}

static tn_status fill(tn_sampler *s, const int32_t *ids, size_t n, tn_error *err) {
  tn_status st = TN_OK;
  if (s->p.n_bias) {
    s->bias = malloc(s->p.n_bias * sizeof *s->bias);
    if (!s->bias) return tni_fail_memory(err, "sampler");
    memcpy(s->bias, s->p.bias, s->p.n_bias * sizeof *s->bias);
  }
  if (s->p.dry > 0) st = set_dry(s, err);
  for (size_t i = 0; i < n && st == TN_OK; i++) st = add_id(s, ids[i], err);
  if (st == TN_OK && s->p.grammar && s->p.grammar->spelling != s->lm->spelling)
    st = tni_fail(err, TN_E_INVALID, "grammar", "it was made for another model");
  if (st == TN_OK && s->p.grammar) st = tni_text_reader_create(s->p.grammar->g, &s->reader, err);
  return st;
}

tn_status tn_sampler_create(const tn_lm *lm, const tn_gen_params *p, const int32_t *ids, size_t n, tn_sampler **out,
                            tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(lm);
  TNI_NOT_NULL(out);
  tn_gen_params mine, defaults;
  tn_lm_gen_defaults(lm, &defaults);
  tn_status st = tni_counted(ids, n, "ids", err);
  if (st == TN_OK) st = tni_take(&mine, sizeof mine, p ? p : &defaults, "tn_gen_params", err);
  if (st == TN_OK) st = tni_pick_check(&mine, err);
  if (st != TN_OK) return st;
  tn_sampler *s = calloc(1, sizeof *s);
  if (!s) return tni_fail_memory(err, "sampler");
  s->lm = lm;
  s->p = mine;
  st = fill(s, ids, n, err);
  if (st != TN_OK) {
    tn_sampler_destroy(s);
    return st;
  }
  *out = s;
  return TN_OK;
}

void tn_sampler_destroy(tn_sampler *s) {
  if (!s) return;
  tni_text_reader_destroy(s->reader);
  tni_sampler_destroy(s->s);
  free(s->dry.breaks);
  free(s->bias);
  free(s->work);
  free(s->ids);
  free(s->scratch);
  free(s);
}

/* --- one token ---------------------------------------------------------------------------------------------------- */

static tn_status begin(tn_sampler *s, size_t vocab, tn_error *err) {
  if (s->s && vocab != s->vocab)
    return tni_fail(err, TN_E_INVALID, "vocab", "%zu logits after %zu before", vocab, s->vocab);
  if (s->s) return TN_OK;
  const tni_sampler_params sp = params_of(&s->p);
  for (uint32_t i = 0; i < s->p.n_bias; i++)
    if ((size_t)s->bias[i].id >= vocab)
      return tni_fail(err, TN_E_INVALID, "bias", "bias[%u]: id %d is outside the vocabulary of %zu", i, s->bias[i].id,
                      vocab);
  free(s->work);
  s->work = malloc(vocab * sizeof *s->work);
  if (!s->work) return tni_fail_memory(err, "sampler");
  const tn_status st = tni_sampler_create(vocab, &sp, &s->s, err);
  if (st != TN_OK) return st;
  s->vocab = vocab;
  for (size_t i = 0; i < s->n; i++) tni_sampler_see(s->s, s->ids[i]);
  for (size_t i = s->n - s->made; i < s->n; i++) tni_sampler_count(s->s, s->ids[i]);
  return TN_OK;
}

static bool ends(const tn_sampler *s, int32_t id) {
  return !(s->p.flags & TN_GEN_IGNORE_EOS) && tn_lm_is_eos(s->lm, id);
}

/* The grammar knows nothing of ends of sequences: they may come where the text is whole. */
static tn_status mask(tn_sampler *s, uint32_t left, tn_error *err) {
  const tni_lm_config *c = &s->lm->config;
  float eos[TNI_CONFIG_EOS];
  bool any = false;
  for (size_t i = 0; i < c->n_eos; i++) eos[i] = (size_t)c->eos[i] < s->vocab ? s->work[c->eos[i]] : -INFINITY;
  const tn_status st = tni_text_reader_mask(s->reader, left, s->work, s->vocab, &any, err);
  if (st != TN_OK) return st;
  const int whole = tni_text_reader_whole(s->reader);
  if (!any && !whole) {
    const uint32_t n = tni_text_reader_ending(s->reader);
    if (n == UINT32_MAX)
      return tni_fail(err, TN_E_UNSUPPORTED, "grammar", "no token of the vocabulary goes on with this text");
    return tni_fail(err, TN_E_LIMIT, "grammar", "%u tokens are left, the shortest text takes %u more", left, n);
  }
  for (size_t i = 0; whole && i < c->n_eos; i++)
    if (ends(s, c->eos[i]) && (size_t)c->eos[i] < s->vocab && (!any || s->made >= s->p.min_tokens))
      s->work[c->eos[i]] = eos[i];
  return TN_OK;
}

static void lower_repeat(void *user, int32_t id, float amount) { tni_sampler_lower(user, id, amount); }

static tn_status process(tn_sampler *s, uint32_t left, tn_error *err) {
  const tni_lm_config *c = &s->lm->config;
  if (s->p.hook) {
    tn_logits at = {.h = {sizeof at, 1, 0},
                    .v = s->work,
                    .vocab = s->vocab,
                    .n = s->n,
                    .ids = s->ids,
                    .new_tokens = s->made,
                    .left = left};
    if (s->p.hook(s->p.hook_user, &at)) return tni_fail(err, TN_E_CANCELLED, "hook", "cancelled by the caller's hook");
  }
  for (uint32_t i = 0; i < s->p.n_bias; i++) s->work[s->bias[i].id] += s->bias[i].bias;
  for (size_t i = 0; s->made < s->p.min_tokens && !s->reader && i < c->n_eos; i++)
    if (ends(s, c->eos[i]) && (size_t)c->eos[i] < s->vocab) s->work[c->eos[i]] = -INFINITY;
  if (s->p.dry > 0) tni_dry_find(&s->dry, s->ids, s->n, s->scratch, lower_repeat, s->s);
  return s->reader ? mask(s, left, err) : TN_OK;
}

tn_status tni_pick_forced(tn_sampler *s, int32_t id, tn_error *err) {
  tn_status st = add_id(s, id, err);
  if (st != TN_OK) return st;
  s->made++;
  if (s->s) {
    tni_sampler_see(s->s, id);
    tni_sampler_count(s->s, id);
  }
  if (!s->reader || ends(s, id) || (size_t)id >= s->p.grammar->vocab->n) return TN_OK;
  const tni_view bytes = s->p.grammar->vocab->bytes[id];
  return tni_text_reader_take(s->reader, bytes.v, bytes.n, err);
}

tn_status tn_sampler_pick(tn_sampler *s, const float *logits, size_t vocab, uint32_t left, int32_t *id, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(s);
  TNI_NOT_NULL(logits);
  TNI_NOT_NULL(id);
  int32_t next = 0;
  tn_status st = begin(s, vocab, err);
  const bool plain = !s->p.hook && !s->p.n_bias && !s->reader && s->made >= s->p.min_tokens && !(s->p.dry > 0);
  if (st == TN_OK && !plain) {
    memcpy(s->work, logits, vocab * sizeof *s->work);
    st = process(s, left, err);
  }
  if (st == TN_OK) st = tni_sampler_pick(s->s, plain ? logits : s->work, &next, err);
  if (st == TN_OK) st = tni_pick_forced(s, next, err);
  if (st == TN_OK) *id = next;
  return st;
}

int tn_sampler_whole(const tn_sampler *s) { return s && s->reader ? tni_text_reader_whole(s->reader) : 0; }
