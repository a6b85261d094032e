/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/llm/text/text.h"

typedef tn_status (*read_fn)(const tni_at *root, tni_lm_config *c, tn_error *err);

static tn_status read_id(const tni_at *root, const char *key, int32_t *out, tn_error *err) {
  tni_at a = tni_at_key(root, key);
  int64_t v;
  if (!a.v) return TN_OK;
  if (json_is_array(a.v)) a = tni_at_item(&a, 0);
  if (!a.v) return TN_OK;
  tn_status st = tni_at_int(&a, -1, INT32_MAX, &v, err);
  if (st == TN_OK) *out = (int32_t)v;
  return st;
}

/* One id or a list; replaces what an earlier file said. */
static tn_status read_eos(const tni_at *root, tni_lm_config *c, tn_error *err) {
  tni_at a = tni_at_key(root, "eos_token_id");
  int64_t v;
  size_t n = 1;
  if (!a.v) return TN_OK;
  bool list = json_is_array(a.v);
  tn_status st = list ? tni_at_array(&a, TNI_CONFIG_EOS, &n, err) : TN_OK;
  if (st != TN_OK) return st;
  c->n_eos = 0;
  for (size_t i = 0; i < n && st == TN_OK; i++) {
    tni_at x = list ? tni_at_item(&a, i) : a;
    st = tni_at_int(&x, -1, INT32_MAX, &v, err);
    if (st == TN_OK && v >= 0) c->eos[c->n_eos++] = (int32_t)v;
  }
  return st;
}

static tn_status read_size(const tni_at *root, const char *key, int64_t *out, tn_error *err) {
  tni_at a = tni_at_key(root, key);
  return a.v ? tni_at_int(&a, 1, INT32_MAX, out, err) : TN_OK;
}

static tn_status read_sampling(const tni_at *root, tni_lm_config *c, tn_error *err) {
  tni_at sample = tni_at_key(root, "do_sample"), k = tni_at_key(root, "top_k");
  int64_t top_k = c->top_k;
  tn_status st = TN_OK;
  if (sample.v) {
    st = tni_at_bool(&sample, false, &c->do_sample, err);
    c->has_do_sample = true;
  }
  const struct {
    const char *key;
    double *out, lo, hi;
  } numbers[] = {{"temperature", &c->temperature, 0, 1e6},
                 {"top_p", &c->top_p, 0, 1},
                 {"min_p", &c->min_p, 0, 1},
                 {"repetition_penalty", &c->repeat_penalty, 1e-6, 1e6}};
  for (size_t i = 0; i < 4 && st == TN_OK; i++) {
    tni_at a = tni_at_key(root, numbers[i].key);
    st = tni_at_number(&a, numbers[i].out, err);
    double v = *numbers[i].out;
    if (st == TN_OK && !(v >= numbers[i].lo && v <= numbers[i].hi))
      st = tni_at_fail(&a, TN_E_INVALID, err, "%g is not in %g..%g", v, numbers[i].lo, numbers[i].hi);
  }
  if (st == TN_OK && k.v) st = tni_at_int(&k, 0, INT32_MAX, &top_k, err);
  c->top_k = (uint32_t)top_k;
  return st;
}

/* [[position, id], ...]; an id of null is any. Position 0 is the decoder's first token. */
static tn_status read_forced(const tni_at *root, tni_lm_config *c, tn_error *err) {
  tni_at a = tni_at_key(root, "forced_decoder_ids");
  size_t n = 0;
  if (!a.v) return TN_OK;
  tn_status st = tni_at_array(&a, TNI_CONFIG_FORCED, &n, err);
  for (size_t i = 0; i < n && st == TN_OK; i++) {
    tni_at pair = tni_at_item(&a, i), at = tni_at_item(&pair, 0), id = tni_at_item(&pair, 1);
    size_t two;
    int64_t where = 0, what = -1;
    st = tni_at_array(&pair, 2, &two, err);
    if (st == TN_OK && two != 2)
      st = tni_at_fail(&pair, TN_E_INVALID, err, "%zu numbers, not a position and an id", two);
    if (st == TN_OK) st = tni_at_int(&at, 1, TNI_CONFIG_FORCED - 1, &where, err);
    if (st == TN_OK && id.v) st = tni_at_int(&id, 0, INT32_MAX, &what, err);
    if (st == TN_OK) c->forced[where] = (int32_t)what;
  }
  return st;
}

static tn_status read_ids(const tni_at *root, tni_lm_config *c, tn_error *err) {
  const struct {
    const char *key;
    int32_t *out;
  } ids[] = {{"bos_token_id", &c->bos},
             {"pad_token_id", &c->pad},
             {"decoder_start_token_id", &c->decoder_start},
             {"forced_bos_token_id", &c->forced_bos},
             {"forced_eos_token_id", &c->forced_eos}};
  tn_status st = TN_OK;
  for (size_t i = 0; i < sizeof ids / sizeof *ids && st == TN_OK; i++) st = read_id(root, ids[i].key, ids[i].out, err);
  if (st == TN_OK) st = read_forced(root, c, err);
  return st == TN_OK ? read_eos(root, c, err) : st;
}

/* Multimodal exports keep the language model's part in text_config. */
static tn_status read_config(const tni_at *root, tni_lm_config *c, tn_error *err) {
  static const char *const context[] = {"max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length",
                                        "seq_length"};
  tni_at text = tni_at_key(root, "text_config");
  const tni_at *a = json_is_object(text.v) ? &text : root;
  tn_status st = read_ids(root, c, err);
  int64_t found = 0;
  for (size_t i = 0; i < sizeof context / sizeof *context && st == TN_OK && !found; i++)
    st = read_size(a, context[i], &found, err);
  if (found) c->context = found;
  return st == TN_OK ? read_size(a, "vocab_size", &c->vocab, err) : st;
}

static tn_status read_generation(const tni_at *root, tni_lm_config *c, tn_error *err) {
  tn_status st = read_ids(root, c, err);
  return st == TN_OK ? read_sampling(root, c, err) : st;
}

/* A genai_config.json that names another decoder speaks of that one; beside Hugging Face's files it is left out then.
 */
static bool speaks_of_another(const tni_folder *f, const tni_at *root) {
  tni_at model = tni_at_key(root, "model"), decoder = tni_at_key(&model, "decoder");
  const char *slash = strrchr(f->model ? f->model : "", '/');
  if (!f->model || tni_at_is(&decoder, "filename", slash ? slash + 1 : f->model)) return false;
  char *config = tni_folder_file(f, "config.json");
  const bool others = config && access(config, F_OK) == 0;
  free(config);
  return others;
}

static tn_status read_genai(const tni_at *root, tni_lm_config *c, tn_error *err) {
  tni_at model = tni_at_key(root, "model"), search = tni_at_key(root, "search");
  tn_status st = tni_at_object(&model, err);
  if (st == TN_OK) st = read_ids(&model, c, err);
  if (st == TN_OK) st = read_size(&model, "context_length", &c->context, err);
  if (st == TN_OK) st = read_size(&model, "vocab_size", &c->vocab, err);
  return st == TN_OK && json_is_object(search.v) ? read_sampling(&search, c, err) : st;
}

/* "<s>" or {"content": "<s>", ...} */
static tn_status read_token(const tni_at *root, const char *key, char out[TNI_CONFIG_TOKEN], tn_error *err) {
  tni_at a = tni_at_key(root, key);
  tni_view v;
  if (!a.v) return TN_OK;
  if (json_is_object(a.v)) a = tni_at_key(&a, "content");
  tn_status st = tni_at_string(&a, &v, err);
  if (st != TN_OK) return st;
  if (v.n >= TNI_CONFIG_TOKEN) return tni_at_fail(&a, TN_E_LIMIT, err, "%zu bytes", v.n);
  memcpy(out, v.v, v.n);
  out[v.n] = '\0';
  return TN_OK;
}

/* Whether the class makes its own template, and whether it has BOS where nothing is said. */
static bool class_wraps(const tni_at *root, bool *bos) {
  static const struct {
    const char *name;
    bool bos;
  } classes[] = {{"LlamaTokenizer", true},
                 {"CodeLlamaTokenizer", true},
                 {"GemmaTokenizer", true},
                 {"CohereTokenizer", true},
                 {"GPTNeoXTokenizer", false}};
  const char *name = json_string_value(json_object_get(root->v, "tokenizer_class"));
  for (size_t i = 0; name && i < sizeof classes / sizeof *classes; i++) {
    const size_t n = strlen(classes[i].name);
    if (strncmp(name, classes[i].name, n) != 0 || (name[n] && strcmp(name + n, "Fast") != 0)) continue;
    *bos = classes[i].bos;
    return true;
  }
  return false;
}

static tn_status read_tokenizer(const tni_at *root, tni_lm_config *c, tn_error *err) {
  tni_at add = tni_at_key(root, "add_bos_token"), eos = tni_at_key(root, "add_eos_token");
  bool bos = false;
  c->wraps = class_wraps(root, &bos);
  tn_status st = tni_at_bool(&add, bos, &c->add_bos, err);
  if (st == TN_OK) st = tni_at_bool(&eos, false, &c->add_eos, err);
  if (st == TN_OK) st = read_token(root, "bos_token", c->bos_token, err);
  return st == TN_OK ? read_token(root, "eos_token", c->eos_token, err) : st;
}

static tn_status read_file(const tni_folder *f, const char *name, read_fn read, tni_lm_config *c, tn_error *err) {
  char *path = tni_folder_file(f, name);
  json_t *tree = NULL;
  if (!path) return tni_fail_memory(err, name);
  tn_long_error mine;
  tni_long_error_init(&mine);
  tn_status st = tni_json_load(path, &tree, &mine.error);
  const bool missing = st == TN_E_UNAVAILABLE;
  tni_at root = tni_at_root(tree, path);
  if (st == TN_OK) st = tni_at_object(&root, &mine.error);
  if (st == TN_OK && !(read == read_genai && speaks_of_another(f, &root))) st = read(&root, c, &mine.error);
  json_decref(tree);
  free(path);
  return st == TN_OK || missing ? TN_OK : tni_error_pass(err, st, &mine.error);
}

tn_status tni_lm_config_load(const tni_folder *f, tni_lm_config *out, tn_error *err) {
  static const struct {
    const char *name;
    read_fn read;
  } files[] = {{"genai_config.json", read_genai},
               {"config.json", read_config},
               {"generation_config.json", read_generation},
               {"tokenizer_config.json", read_tokenizer}};
  tni_lm_config c = {.bos = -1,
                     .pad = -1,
                     .decoder_start = -1,
                     .forced_bos = -1,
                     .forced_eos = -1,
                     .temperature = 1,
                     .top_p = 1,
                     .repeat_penalty = 1};
  for (int i = 0; i < TNI_CONFIG_FORCED; i++) c.forced[i] = -1;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    tn_status st = read_file(f, files[i].name, files[i].read, &c, err);
    if (st != TN_OK) return st;
  }
  *out = c;
  return TN_OK;
}
