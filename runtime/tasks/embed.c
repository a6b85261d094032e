/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts to vectors. Texts of about the same length run together: they are sorted by tokens, so that a batch pads
 * little. Pooling adds in double, as many rows as a text has tokens; the result does not depend on the batch.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/llm/llm.h"
#include "runtime/tasks/folder.h"
#include "runtime/tasks/text.h"

enum { BATCH = 32, LENGTH = 512 };

struct tn_embedder {
  tn_model *model;
  tn_session *session;
  tni_tokenizer *tok;
  uint32_t pool, normalize, batch;
  int32_t pad;
  const tn_io_info *out;
};

/* --- loading --------------------------------------------------------------------------------------------------------
 */

/* The output of that name, or the first of that rank. */
static const tn_io_info *find_output(const tn_model *m, const char *name, int32_t rank) {
  const tn_io_info *found = NULL;
  for (uint32_t i = 0; i < tn_model_n_outputs(m); i++) {
    const tn_io_info *x = tn_model_output(m, i);
    if (x->rank == rank && strcmp(x->name, name) == 0) return x;
    if (!found && x->rank == rank && x->dtype != TN_DT_I64) found = x;
  }
  return found;
}

static tn_status choose_output(tn_embedder *e, uint32_t asked, tn_error *err) {
  const tn_io_info *rows = find_output(e->model, "last_hidden_state", 3),
                   *one = find_output(e->model, "sentence_embedding", 2);
  const bool pools = one && strcmp(one->name, "sentence_embedding") == 0;
  if (asked == TN_POOL_NONE || (asked == TN_POOL_AUTO && pools) || (asked == TN_POOL_AUTO && !rows)) {
    e->pool = TN_POOL_NONE;
    e->out = one;
    return one ? TN_OK : tni_fail(err, TN_E_UNSUPPORTED, "model", "no output of rank 2 or 3 to take vectors from");
  }
  e->out = rows;
  return rows ? TN_OK : tni_fail(err, TN_E_UNSUPPORTED, "model", "no output [texts, tokens, size] to pool");
}

/* most: tokens that the model takes, 0: any number. */
static tn_status settle_limits(tn_embedder *e, const tn_embed_opts *o, const tni_embed_config *c, int32_t pad,
                               int64_t most, tn_error *err) {
  const uint32_t asked = o ? o->pool : TN_POOL_AUTO, normalize = o ? o->normalize : TN_NORMALIZE_AUTO;
  uint32_t max = o && o->max_tokens ? o->max_tokens : c->max_tokens;
  if (asked > TN_POOL_NONE || normalize > TN_NORMALIZE_NO)
    return tni_fail(err, TN_E_INVALID, "tn_embed_opts", "pool or normalize");
  e->pool = asked != TN_POOL_AUTO ? asked : c->pool != TN_POOL_AUTO ? c->pool : TN_POOL_MEAN;
  e->normalize = normalize != TN_NORMALIZE_AUTO      ? normalize
                 : c->normalize != TN_NORMALIZE_AUTO ? c->normalize
                                                     : TN_NORMALIZE_NO;
  e->pad = tni_tokenizer_pad(e->tok) >= 0 ? tni_tokenizer_pad(e->tok) : pad >= 0 ? pad : 0;
  if (!max) max = LENGTH;
  tni_tokenizer_limit(e->tok, most && most < max ? (size_t)most : max);
  if (c->lowercase && !tni_tokenizer_lowercases(e->tok))
    return tni_fail(err, TN_E_UNSUPPORTED, "sentence_bert_config.json",
                    "do_lower_case, and the tokenizer does not do it");
  return choose_output(e, asked, err);
}

static tn_status load_embedder(tn_embedder *e, tn_runtime *rt, const tni_folder *f, const tn_embed_opts *o,
                               tn_error *err) {
  tni_embed_config c = {0};
  tni_lm_config lm;
  tni_feed feed = {0};
  char *tok = tni_folder_file(f, "tokenizer.json");
  tn_status st = tok ? tni_tokenizer_load(tok, &e->tok, err) : tni_fail_memory(err, f->dir);
  free(tok);
  if (st == TN_OK) st = tni_embed_config_read(f, &c, err);
  if (st == TN_OK) st = tni_lm_config_load(f, &lm, err);
  if (st != TN_OK) return st;
  tn_model_opts mo = {.h = {sizeof mo, 1, 0}, .flags = o ? o->model_flags : 0};
  st = tn_model_load(rt, f->model, &mo, &e->model, err);
  if (st == TN_OK) st = tni_feed_open(e->model, true, false, &feed, err);
  if (st == TN_OK) st = settle_limits(e, o, &c, lm.pad, tni_feed_fixed(e->model, &feed, TNI_INPUT_IDS, 1), err);
  if (st != TN_OK) return st;
  const int64_t fixed = tni_feed_fixed(e->model, &feed, TNI_INPUT_IDS, 0);
  e->batch = o && o->batch ? o->batch : BATCH;
  if (fixed && fixed < e->batch) e->batch = (uint32_t)fixed;
  return (mo.flags & (TN_MODEL_INSPECT | TN_MODEL_PACK)) ? TN_OK : tn_session_create(e->model, &e->session, err);
}

tn_status tn_embedder_load(tn_runtime *rt, const char *path, const tn_embed_opts *o, tn_embedder **out, tn_error *err) {
  tni_error_begin(err);
  if (!rt || !path || !out) return tni_fail(err, TN_E_INVALID, "tn_embedder_load", "rt, path and out must not be NULL");
  tn_embed_opts mine;
  tn_status st = tni_take(&mine, sizeof mine, o, "tn_embed_opts", err);
  if (st != TN_OK) return st;
  st = tni_known_bits(mine.reserved, 0, "tn_embed_opts.reserved", err);
  if (st != TN_OK) return st;
  tn_embedder *e = calloc(1, sizeof *e);
  tni_folder folder = {0};
  st = e ? tni_folder_find(path, NULL, &folder, err) : tni_fail_memory(err, path);
  if (st == TN_OK) st = load_embedder(e, rt, &folder, &mine, err);
  tni_folder_finish(&folder);
  if (st != TN_OK)
    tn_embedder_destroy(e);
  else
    *out = e;
  return st;
}

void tn_embedder_destroy(tn_embedder *e) {
  if (!e) return;
  if (e->session) tn_session_destroy(e->session);
  if (e->model) tn_model_destroy(e->model);
  tni_tokenizer_destroy(e->tok);
  free(e);
}

tn_model *tn_embedder_model(tn_embedder *e) { return e ? e->model : NULL; }
uint32_t tn_embedder_pool(const tn_embedder *e) { return e ? e->pool : TN_POOL_AUTO; }
uint32_t tn_embedder_normalize(const tn_embedder *e) { return e ? e->normalize : TN_NORMALIZE_AUTO; }

void tn_embedder_cancel(tn_embedder *e) {
  if (e && e->session) tn_session_cancel(e->session);
}

/* --- running --------------------------------------------------------------------------------------------------------
 */

/* rows [n, size] of a text's tokens -> v[size]. */
static void pool_rows(uint32_t how, const float *rows, size_t n, size_t size, float *v) {
  const float *pick = how == TN_POOL_LAST ? rows + (n - 1) * size : rows;
  const double by = how == TN_POOL_MEAN ? (double)n : sqrt((double)n);
  if (how == TN_POOL_CLS || how == TN_POOL_LAST || how == TN_POOL_NONE) {
    memcpy(v, pick, size * sizeof *v);
    return;
  }
  for (size_t k = 0; k < size; k++) {
    double sum = 0;
    float most = rows[k];
    for (size_t r = 0; r < n; r++) {
      sum += rows[r * size + k];
      if (rows[r * size + k] > most) most = rows[r * size + k];
    }
    v[k] = how == TN_POOL_MAX ? most : (float)(sum / by);
  }
}

static void to_length_1(float *v, size_t size) {
  double sum = 0;
  for (size_t k = 0; k < size; k++) sum += (double)v[k] * v[k];
  const double norm = sqrt(sum);
  for (size_t k = 0; norm > 0 && k < size; k++) v[k] = (float)(v[k] / norm);
}

typedef struct embed_job {
  tn_embedder *e;
  tni_text_ids ids;
  size_t *order; /* texts by length */
  tni_feed feed;
  float *out;
  size_t size;
} embed_job;

static tn_status keep_vectors(embed_job *j, const size_t *texts, size_t n, const tn_tensor *t, tn_error *err) {
  const bool rows = j->e->pool != TN_POOL_NONE;
  const size_t len = rows && t->rank == 3 ? (size_t)t->dims[1] : 1, size = t->rank ? (size_t)t->dims[t->rank - 1] : 0;
  float *v = NULL;
  size_t count, bytes;
  if (t->rank != (rows ? 3u : 2u) || (size_t)t->dims[0] != n || !size || (j->size && size != j->size))
    return tni_fail(err, TN_E_INVALID, t->name, "output %s is not one %s of each text", t->name,
                    rows ? "list of rows" : "vector");
  if (!j->out) {
    if (!tni_mul_size(j->ids.n * sizeof *j->out, size, &bytes)) return tni_fail_memory(err, t->name);
    j->out = malloc(bytes);
    j->size = size;
    if (!j->out) return tni_fail_memory(err, t->name);
  }
  tn_status st = tni_task_floats(t, &v, &count, err);
  for (size_t i = 0; i < n && st == TN_OK; i++) {
    const size_t tokens = rows ? j->ids.v[texts[i]].n : 1;
    float *to = j->out + texts[i] * size;
    if (tokens > len) st = tni_fail(err, TN_E_INVALID, t->name, "%zu rows for %zu tokens", len, tokens);
    if (st == TN_OK) pool_rows(j->e->pool, v + i * len * size, tokens, size, to);
    if (st == TN_OK && j->e->normalize == TN_NORMALIZE_YES) to_length_1(to, size);
  }
  free(v);
  return st;
}

/* A model with a fixed batch gets the last text again where there are too few. */
static tn_status run_batch_of_texts(embed_job *j, size_t first, size_t n, tn_error *err) {
  tn_embedder *e = j->e;
  const int64_t fixed = tni_feed_fixed(e->model, &j->feed, TNI_INPUT_IDS, 0);
  const size_t rows = fixed ? (size_t)fixed : n;
  size_t *texts = malloc(rows * sizeof *texts);
  tn_tensor out = {.h = {sizeof out, 1, 0}, .name = e->out->name};
  if (!texts) return tni_fail_memory(err, "texts");
  for (size_t i = 0; i < rows; i++) texts[i] = j->order[first + (i < n ? i : n - 1)];
  tn_status st = tni_feed_text(&j->feed, e->model, &j->ids, texts, rows, e->pad, err);
  if (st == TN_OK) st = tn_session_run(e->session, TN_PHASE_ANY, j->feed.in, j->feed.n, &out, 1, err);
  if (st == TN_OK) st = keep_vectors(j, texts, rows, &out, err);
  free(texts);
  return st;
}

static int by_length(const void *a, const void *b, void *user) {
  const tni_text_ids *ids = user;
  const size_t x = *(const size_t *)a, y = *(const size_t *)b, nx = ids->v[x].n, ny = ids->v[y].n;
  return nx != ny ? (nx < ny ? -1 : 1) : x < y ? -1 : x > y;
}

static tn_status embed_texts(embed_job *j, const char *const *texts, const size_t *len, size_t count, tn_error *err) {
  tn_embedder *e = j->e;
  tn_status st = tni_text_ids_make(e->tok, texts, len, count, &j->ids, err);
  if (st == TN_OK) st = tni_feed_open(e->model, true, false, &j->feed, err);
  j->order = malloc(count * sizeof *j->order);
  if (st == TN_OK && !j->order) st = tni_fail_memory(err, "texts");
  if (st != TN_OK) return st;
  for (size_t i = 0; i < count; i++) j->order[i] = i;
  qsort_r(j->order, count, sizeof *j->order, by_length, &j->ids);
  for (size_t i = 0, n; i < count && st == TN_OK; i += n) {
    n = count - i < e->batch ? count - i : e->batch;
    st = run_batch_of_texts(j, i, n, err);
  }
  return st;
}

tn_status tn_embedder_count(const tn_embedder *e, const char *const *texts, const size_t *len, size_t count,
                            size_t *tokens, tn_error *err) {
  tni_error_begin(err);
  if (!e || !texts || !len || !tokens) return tni_fail(err, TN_E_INVALID, "tn_embedder_count", "an argument is NULL");
  tni_text_ids ids = {0};
  const tn_status st = tni_text_ids_make(e->tok, texts, len, count, &ids, err);
  for (size_t i = 0; st == TN_OK && i < count; i++) tokens[i] = ids.v[i].n;
  tni_text_ids_finish(&ids);
  return st;
}

tn_status tn_embed(tn_embedder *e, const char *const *texts, const size_t *len, size_t count, float **vectors,
                   size_t *size, tn_error *err) {
  tni_error_begin(err);
  if (!e || !texts || !len || !count || !vectors || !size)
    return tni_fail(err, TN_E_INVALID, "tn_embed", "an argument is NULL, or there is no text");
  if (!e->session) return tni_fail(err, TN_E_INVALID, "tn_embed", "the model was loaded for its reports");
  embed_job j = {.e = e};
  tn_status st = embed_texts(&j, texts, len, count, err);
  tni_feed_close(&j.feed);
  tni_text_ids_finish(&j.ids);
  free(j.order);
  if (st != TN_OK) {
    free(j.out);
    return st;
  }
  *vectors = j.out;
  *size = j.size;
  return TN_OK;
}
