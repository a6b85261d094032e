/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/lm.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/lm.h>

#include "runtime/base/base.h"
#include "runtime/llm/spelling.h"
#include "runtime/llm/tok_beside.h"

/* The model, and the tokenizer beside it. The tokenizer's error comes first. */
static tn_status load_both(tn_lm *lm, tn_runtime *rt, const char *path, const tn_model_opts *mo, tn_error *err) {
  tni_tok_beside beside;
  tn_long_error of_tok, of_model;
  tni_long_error_init(&of_tok);
  tni_long_error_init(&of_model);
  tni_tok_begin(&beside, lm->tok_path);
  const tn_status model = tn_model_load(rt, path, mo, &lm->model, &of_model.error);
  const tn_status tok = tni_tok_end(&beside, &lm->tok, &of_tok.error);
  const bool no_tok = tok != TN_OK && tok != TN_E_UNAVAILABLE; /* without the file, ids are what is left */
  if (no_tok || model != TN_OK) {
    (void)tni_error_pass(err, no_tok ? tok : model, no_tok ? &of_tok.error : &of_model.error);
    return no_tok ? tok : model;
  }
#ifdef __GLIBC__
  (void)malloc_trim(0); /* a parsed tokenizer.json is many times its size; what is left of it is not */
#endif
  return TN_OK;
}

static void resolve_tokens(tn_lm *lm) {
  tni_lm_config *c = &lm->config;
  lm->bos = c->bos;
  if (!lm->tok) return;
  if (lm->bos < 0 && *c->bos_token) lm->bos = tni_tokenizer_id(lm->tok, c->bos_token);
  if (c->n_eos == 0 && *c->eos_token) {
    int32_t id = tni_tokenizer_id(lm->tok, c->eos_token);
    if (id >= 0) c->eos[c->n_eos++] = id;
  }
}

/* Where neither options nor profile say a context. */
static int64_t usual_context(const tni_lm_config *c, const tn_lm_opts *o) {
  const int64_t most = o->default_max_seq ? o->default_max_seq : TN_DEFAULT_MAX_SEQ;
  return c->context && c->context < most ? c->context : most;
}

static tn_status load_lm(tn_lm *lm, tn_runtime *rt, const char *path, const tn_lm_opts *o, tn_error *err) {
  tni_folder *f = &lm->folder;
  tn_status st = tni_folder_find(path, NULL, f, err);
  if (st != TN_OK) return st;
  lm->tok_path = tni_folder_file(f, "tokenizer.json");
  st = lm->tok_path ? tni_lm_config_load(f, &lm->config, err) : tni_fail_memory(err, path);
  if (st == TN_OK) st = tni_templates_load(f, &lm->templates, err);
  if (st != TN_OK) return st;
  tn_model_opts mo = {.h = {sizeof mo, 1, 0},
                      .flags = o->model_flags | TN_MODEL_DECODER,
                      .max_seq = o->max_seq,
                      .default_max_seq = usual_context(&lm->config, o),
                      .order_seed = o->order_seed};
  st = load_both(lm, rt, f->model, &mo, err);
  if (st != TN_OK) return st;
  resolve_tokens(lm);
  lm->context = tn_model_max_seq(lm->model);
  if (lm->config.context && lm->config.context < lm->context) lm->context = lm->config.context;
  st = tni_lm_io_read(lm->model, &lm->io, err);
  return st == TN_OK ? tni_source_load(lm, rt, &mo, err) : st;
}

tn_status tn_lm_load(tn_runtime *rt, const char *path, const tn_lm_opts *o, tn_lm **out, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(rt);
  if (!path || !out) return tni_fail(err, TN_E_INVALID, "tn_lm_load", "path and out must not be NULL");
  tn_lm_opts mine;
  tn_status st = tni_take(&mine, sizeof mine, o, "tn_lm_opts", err);
  if (st != TN_OK) return st;
  st = tni_known_bits(mine.reserved, 0, "tn_lm_opts.reserved", err);
  if (st != TN_OK) return st;
  if (mine.max_seq < 0 || mine.default_max_seq < 0)
    return tni_fail(err, TN_E_INVALID, "max_seq", "%lld", (long long)mine.max_seq);
  tn_lm *lm = calloc(1, sizeof *lm);
  if (lm) lm->spelling = tni_spelling_create();
  if (!lm || !lm->spelling) {
    free(lm);
    return tni_fail_memory(err, path);
  }
  st = load_lm(lm, rt, path, &mine, err);
  if (st != TN_OK) {
    tn_lm_destroy(lm);
    return st;
  }
  *out = lm;
  return TN_OK;
}

/* Who destroys it before its chats is told by tn_model_destroy, whose sessions the chats have. */
void tn_lm_destroy(tn_lm *lm) {
  if (!lm) return;
  if (lm->model) tn_model_destroy(lm->model);
  if (lm->source) tn_model_destroy(lm->source);
  tni_lm_release(lm);
}

void tni_lm_release(tn_lm *lm) {
  if (__atomic_fetch_sub(&lm->holders, 1, __ATOMIC_ACQ_REL) > 0) return;
  tni_lm_io_finish(&lm->io);
  tni_spelling_release(lm->spelling);
  tni_tokenizer_destroy(lm->tok);
  tni_templates_finish(&lm->templates);
  free(lm->tok_path);
  free(lm->marks);
  tni_folder_finish(&lm->folder);
  free(lm);
}

tn_model *tn_lm_model(tn_lm *lm) { return lm ? lm->model : NULL; }

int64_t tn_lm_context(const tn_lm *lm) { return lm ? lm->context : 0; }

tn_status tn_lm_longest(const char *path, int64_t *positions, tn_error *err) {
  tni_error_begin(err);
  tni_lm_config c;
  tni_folder f;
  if (!path || !positions) return tni_fail(err, TN_E_INVALID, "tn_lm_longest", "path and positions must not be NULL");
  tn_status st = tni_folder_find(path, NULL, &f, err);
  if (st != TN_OK) return st;
  st = tni_lm_config_load(&f, &c, err);
  tni_folder_finish(&f);
  if (st == TN_OK) *positions = c.context;
  return st;
}

void tn_gen_params_init(tn_gen_params *p) {
  if (p) *p = (tn_gen_params){.h = {sizeof *p, 1, 0}, .temperature = 1, .top_p = 1, .repeat_penalty = 1};
}

void tn_lm_gen_defaults(const tn_lm *lm, tn_gen_params *p) {
  tn_gen_params_init(p);
  if (!lm || !p) return;
  const tni_lm_config *c = &lm->config;
  const bool greedy = c->has_do_sample && !c->do_sample;
  p->temperature = greedy ? 0 : (float)c->temperature;
  p->top_k = c->top_k;
  p->top_p = c->top_p > 0 ? (float)c->top_p : 1;
  p->min_p = (float)c->min_p;
  p->repeat_penalty = (float)c->repeat_penalty;
}

int32_t tn_lm_bos(const tn_lm *lm) { return lm ? lm->bos : -1; }

int tn_lm_is_eos(const tn_lm *lm, int32_t id) {
  for (size_t i = 0; lm && i < lm->config.n_eos; i++)
    if (lm->config.eos[i] == id) return 1;
  return 0;
}

tn_status tn_lm_marks(tn_lm *lm, const char *const *marks, uint32_t n, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(lm);
  if (n && !marks) return tni_fail(err, TN_E_INVALID, "marks", "NULL");
  int32_t *ids = malloc((n + (size_t)1) * sizeof *ids);
  size_t found = 0;
  if (!ids) return tni_fail_memory(err, "marks");
  for (uint32_t i = 0; i < n; i++) {
    if (!marks[i]) {
      free(ids);
      return tni_fail(err, TN_E_INVALID, "marks", "mark %u is NULL", i);
    }
    const int32_t id = lm->tok ? tni_tokenizer_id(lm->tok, marks[i]) : -1;
    if (id >= 0) ids[found++] = id;
  }
  free(lm->marks);
  lm->marks = ids;
  lm->n_marks = found;
  return TN_OK;
}

static tn_status need_tokenizer(const tn_lm *lm, tn_error *err) {
  if (lm->tok) return TN_OK;
  const tni_folder *f = &lm->folder;
  return tni_fail(err, TN_E_UNAVAILABLE, lm->tok_path,
                  "tokenizer.json is neither in '%s'%s%s%s: without it, only ids are taken", f->dir,
                  f->above ? " nor in '" : "", f->above ? f->above : "", f->above ? "'" : "");
}

/* Ids of these texts, -1: none; all are there that the wrap needs. */
static bool find_wrap(const tn_lm *lm, int32_t *bos, int32_t *eos) {
  const tni_lm_config *c = &lm->config;
  *bos = c->add_bos ? *c->bos_token ? tni_tokenizer_id(lm->tok, c->bos_token) : lm->bos : -1;
  *eos = c->add_eos ? tni_tokenizer_id(lm->tok, c->eos_token) : -1;
  return c->wraps && (*bos >= 0 || !c->add_bos) && (*eos >= 0 || !c->add_eos);
}

/* As in transformers, special tokens come from the tokenizer's template, with some classes from tokenizer_config.json
 * alone; add_bos_token adds BOS where the template has none. */
static tn_status encode_text(const tn_lm *lm, const char *text, size_t n, bool special, tni_ids *ids, tn_error *err) {
  int32_t bos = -1, eos = -1;
  tn_status st = need_tokenizer(lm, err);
  if (st == TN_OK && n && !text) st = tni_fail(err, TN_E_INVALID, "text", "NULL");
  const bool wrap = st == TN_OK && special && find_wrap(lm, &bos, &eos);
  if (st == TN_OK) st = tni_tokenizer_encode(lm->tok, text, n, special && !wrap, ids, err);
  if (st != TN_OK) return st;
  if (!wrap) {
    bos = special && lm->config.add_bos && !(ids->n && ids->v[0] == lm->bos) ? lm->bos : -1;
    eos = -1;
  }
  int32_t *v = realloc(ids->v, (ids->n + 2) * sizeof *v); /* room for both; never NULL for the caller */
  if (!v) {
    tni_ids_free(ids);
    return tni_fail_memory(err, "ids");
  }
  ids->v = v;
  if (bos >= 0) {
    memmove(v + 1, v, ids->n++ * sizeof *v);
    v[0] = bos;
  }
  if (eos >= 0) v[ids->n++] = eos;
  return TN_OK;
}

tn_status tni_lm_prompt(const tn_lm *lm, const char *text, size_t n, bool special, tni_ids *out, tn_error *err) {
  if (n == 0 && special && !lm->tok && lm->bos >= 0) { /* an empty prompt needs no tokenizer */
    out->v = malloc(sizeof *out->v);
    if (!out->v) return tni_fail_memory(err, "ids");
    out->v[0] = lm->bos;
    out->n = 1;
    return TN_OK;
  }
  tn_status st = encode_text(lm, text, n, special, out, err);
  if (st == TN_OK && out->n == 0 && special && lm->bos >= 0) out->v[out->n++] = lm->bos;
  return st;
}

tn_status tn_lm_encode(const tn_lm *lm, const char *text, size_t n, int add_special, int32_t **ids, size_t *n_ids,
                       tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(lm);
  TNI_NOT_NULL(ids);
  TNI_NOT_NULL(n_ids);
  tni_ids x = {0};
  tn_status st = tni_counted(text, n, "text", err);
  if (st == TN_OK) st = encode_text(lm, text, n, add_special != 0, &x, err);
  if (st != TN_OK) return st;
  *ids = x.v;
  *n_ids = x.n;
  return TN_OK;
}

tn_status tn_lm_decode(const tn_lm *lm, const int32_t *ids, size_t n, int skip_special, char **text, size_t *n_text,
                       tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(lm);
  TNI_NOT_NULL(text);
  TNI_NOT_NULL(n_text);
  tn_status st = tni_counted(ids, n, "ids", err);
  if (st == TN_OK) st = need_tokenizer(lm, err);
  return st == TN_OK ? tni_tokenizer_decode(lm->tok, ids, n, skip_special != 0, text, n_text, err) : st;
}
