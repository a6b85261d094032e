/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tasks/folder.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/llm/text/text.h"

enum { MODULES = 16, LABELS = 1 << 20 };

typedef tn_status (*read_key_fn)(const tni_at *root, void *out, tn_error *err);

/* A file that is missing says nothing. */
static tn_status read_file(const tni_folder *f, const char *name, read_key_fn read, void *out, tn_error *err) {
  char *path = tni_folder_file(f, name);
  json_t *tree = NULL;
  tn_long_error mine;
  if (!path) return tni_fail_memory(err, name);
  tni_long_error_init(&mine);
  tn_status st = tni_json_load(path, &tree, &mine.error);
  const bool missing = st == TN_E_UNAVAILABLE;
  tni_at root = tni_at_root(tree, path);
  if (st == TN_OK) st = read(&root, out, &mine.error);
  if (st != TN_OK && !missing) (void)tni_error_pass(err, st, &mine.error);
  json_decref(tree);
  free(path);
  return missing ? TN_OK : st;
}

/* --- sentence-transformers -------------------------------------------------------------------------------------------
 */

static tn_status read_pooling(const tni_at *root, void *out, tn_error *err) {
  static const struct {
    const char *key;
    uint32_t pool;
  } modes[] = {{"pooling_mode_cls_token", TN_POOL_CLS},  {"pooling_mode_mean_tokens", TN_POOL_MEAN},
               {"pooling_mode_max_tokens", TN_POOL_MAX}, {"pooling_mode_mean_sqrt_len_tokens", TN_POOL_MEAN_SQRT_LEN},
               {"pooling_mode_lasttoken", TN_POOL_LAST}, {"pooling_mode_weightedmean_tokens", TN_POOL_AUTO}};
  tni_embed_config *c = out;
  uint32_t found = 0;
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    tni_at a = tni_at_key(root, modes[i].key);
    bool on;
    tn_status st = tni_at_bool(&a, false, &on, err);
    if (st != TN_OK) return st;
    if (!on) continue;
    if (modes[i].pool == TN_POOL_AUTO || found++)
      return tni_at_fail(&a, TN_E_UNSUPPORTED, err,
                         found > 1 ? "more than one way of pooling" : "not a pooling made here");
    c->pool = modes[i].pool;
  }
  return TN_OK;
}

static tn_status read_limits(const tni_at *root, void *out, tn_error *err) {
  tni_embed_config *c = out;
  tni_at max = tni_at_key(root, "max_seq_length"), lower = tni_at_key(root, "do_lower_case");
  int64_t v = 0;
  tn_status st = max.v ? tni_at_int(&max, 1, INT32_MAX, &v, err) : TN_OK;
  if (st == TN_OK) st = tni_at_bool(&lower, false, &c->lowercase, err);
  if (st == TN_OK && v) c->max_tokens = (uint32_t)v;
  return st;
}

typedef struct modules {
  const tni_folder *folder;
  tni_embed_config *c;
} modules;

static tn_status read_module(const tni_at *a, const modules *m, tn_error *err) {
  tni_at type = tni_at_key(a, "type"), path = tni_at_key(a, "path");
  tni_view t, p;
  tn_status st = tni_at_string(&type, &t, err);
  if (st == TN_OK) st = tni_at_string(&path, &p, err);
  if (st != TN_OK) return st;
  if (strchr(p.v, '/') || strcmp(p.v, "..") == 0)
    return tni_at_fail(&path, TN_E_INVALID, err, "not a folder beside it");
  if (tni_ends_with(t.v, ".Normalize")) {
    m->c->normalize = TN_NORMALIZE_YES;
    return TN_OK;
  }
  const bool pooling = tni_ends_with(t.v, ".Pooling");
  if (!pooling && !tni_ends_with(t.v, ".Transformer"))
    return tni_at_fail(&type, TN_E_UNSUPPORTED, err, "module %.80s is not made here", t.v);
  const char *name = pooling ? "config.json" : "sentence_bert_config.json";
  char *file = *p.v ? tni_file_in(p.v, name) : strdup(name);
  if (!file) return tni_fail_memory(err, name);
  st = read_file(m->folder, file, pooling ? read_pooling : read_limits, m->c, err);
  free(file);
  return st;
}

static tn_status read_modules(const tni_at *root, void *out, tn_error *err) {
  size_t n;
  tn_status st = tni_at_array(root, MODULES, &n, err);
  for (size_t i = 0; i < n && st == TN_OK; i++) {
    tni_at a = tni_at_item(root, i);
    st = tni_at_object(&a, err);
    if (st == TN_OK) st = read_module(&a, out, err);
  }
  return st;
}

/* model_max_length is 1e30 where there is no limit. */
static tn_status read_tokenizer(const tni_at *root, void *out, tn_error *err) {
  tni_embed_config *c = out;
  tni_at max = tni_at_key(root, "model_max_length");
  double v = 0;
  tn_status st = tni_at_number(&max, &v, err);
  if (st == TN_OK && v >= 1 && v < INT32_MAX && (!c->max_tokens || v < c->max_tokens)) c->max_tokens = (uint32_t)v;
  return st;
}

tn_status tni_embed_config_read(const tni_folder *f, tni_embed_config *out, tn_error *err) {
  tni_embed_config c = {0};
  modules m = {f, &c};
  tn_status st = read_file(f, "modules.json", read_modules, &m, err);
  if (st == TN_OK && !c.max_tokens) st = read_file(f, "sentence_bert_config.json", read_limits, &c, err);
  if (st == TN_OK) st = read_file(f, "tokenizer_config.json", read_tokenizer, &c, err);
  if (st == TN_OK) *out = c;
  return st;
}

static tn_status read_kind(const tni_at *root, void *out, tn_error *err) {
  tni_at kind = tni_at_key(root, "model_type");
  const char *v = json_string_value(kind.v);
  (void)out;
  if (!v || strncmp(v, "siglip", 6) != 0) return TN_OK;
  return tni_at_fail(&kind, TN_E_UNSUPPORTED, err,
                     "%.60s compares with each text alone (a sigmoid), which is not made here", v);
}

tn_status tni_compare_check(const tni_folder *f, tn_error *err) {
  return read_file(f, "config.json", read_kind, NULL, err);
}

/* --- labels ---------------------------------------------------------------------------------------------------------
 */

typedef struct labels {
  char **v;
  size_t n;
} labels;

void tni_labels_free(char **v, size_t n) {
  for (size_t i = 0; v && i < n; i++) free(v[i]);
  free(v);
}

/* Keys are numbers as texts, in any order. */
static bool class_of(const char *key, size_t *id) {
  char *end;
  if (*key < '0' || *key > '9') return false;
  const unsigned long v = strtoul(key, &end, 10);
  *id = v;
  return !*end && v < LABELS;
}

static tn_status read_labels(const tni_at *root, void *out, tn_error *err) {
  labels *l = out;
  tni_at map = tni_at_key(root, "id2label");
  const char *key;
  json_t *v;
  size_t id, n = 0;
  if (!map.v) return TN_OK;
  tn_status st = tni_at_object(&map, err);
  if (st != TN_OK) return st;
  json_object_foreach(map.v, key, v) {
    if (!class_of(key, &id)) return tni_at_fail(&map, TN_E_INVALID, err, "%.60s is not a class number", key);
    if (id >= n) n = id + 1;
  }
  l->v = calloc(n ? n : 1, sizeof *l->v);
  l->n = n;
  if (!l->v) return tni_fail_memory(err, root->file);
  json_object_foreach(map.v, key, v) {
    if (!json_is_string(v) || !class_of(key, &id))
      return tni_at_fail(&map, TN_E_INVALID, err, "%.60s: not a text", key);
    free(l->v[id]);
    l->v[id] = strdup(json_string_value(v));
    if (!l->v[id]) return tni_fail_memory(err, root->file);
  }
  return TN_OK;
}

tn_status tni_labels_read(const tni_folder *f, char ***out, size_t *n, tn_error *err) {
  labels l = {0};
  tn_status st = read_file(f, "config.json", read_labels, &l, err);
  if (st != TN_OK) {
    tni_labels_free(l.v, l.n);
    return st;
  }
  *out = l.v;
  *n = l.n;
  return TN_OK;
}
