/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/calib/calib.h"
#include "runtime/profile/profile.h"

enum { MAX_BYTES = 512 * 1024 * 1024, MAX_NODES = 32 * 1024 * 1024, MAX_CHANNELS = 1 << 24 };

typedef struct calib_reader {
  tni_yaml_doc doc;
  tni_calib *c;
  tni_map *names;
  tn_error *err;
} calib_reader;

/* --- what every key needs --- */

static tn_status want_key(const calib_reader *r, const tni_yaml *map, const char *key, const char *name,
                          const tni_yaml **out) {
  *out = tni_yaml_get(map, key);
  return *out ? TN_OK : tni_yaml_fail(&r->doc, map, r->err, "'%s' is missing", name);
}

static tn_status read_str(const calib_reader *r, const tni_yaml *map, const char *key, const char *name,
                          const char **out) {
  const tni_yaml *y;
  tn_status st = want_key(r, map, key, name, &y);
  return st == TN_OK ? tni_yaml_str(&r->doc, y, name, out, r->err) : st;
}

static tn_status read_int(const calib_reader *r, const tni_yaml *map, const char *key, const char *name, int64_t hi,
                          int64_t *out) {
  const tni_yaml *y;
  tn_status st = want_key(r, map, key, name, &y);
  return st == TN_OK ? tni_yaml_int(&r->doc, y, name, 0, hi, out, r->err) : st;
}

static tn_status read_float(const calib_reader *r, const tni_yaml *map, const char *key, double hi, float *out) {
  const tni_yaml *y;
  double v = 0;
  tn_status st = want_key(r, map, key, key, &y);
  if (st == TN_OK) st = tni_yaml_float(&r->doc, y, key, 0, hi, &v, r->err);
  *out = (float)v;
  return st;
}

static tn_status read_hash(const calib_reader *r, const tni_yaml *map, const char *name, char hex[TNI_CALIB_HEX + 1]) {
  const tni_yaml *y;
  tn_status st = want_key(r, map, "hash", name, &y);
  if (st == TN_OK) st = tni_yaml_want(&r->doc, y, TNI_YAML_SCALAR, name, r->err);
  if (st != TN_OK) return st;
  if (strlen(y->text) != TNI_CALIB_HEX || y->text[strspn(y->text, "0123456789abcdef")])
    return tni_yaml_fail(&r->doc, y, r->err, "'%s' must be %d digits of 0-9a-f, not '%.64s'", name, TNI_CALIB_HEX,
                         y->text);
  memcpy(hex, y->text, TNI_CALIB_HEX + 1);
  return TN_OK;
}

/* n numbers of [lo, hi], or as many as there are where n is SIZE_MAX. */
static tn_status read_floats(const calib_reader *r, const tni_yaml *map, const char *key, const char *name, size_t n,
                             double lo, double hi, float **out) {
  const tni_yaml *y;
  tn_status st = want_key(r, map, key, name, &y);
  if (st == TN_OK) st = tni_yaml_want(&r->doc, y, TNI_YAML_SEQ, name, r->err);
  if (st != TN_OK) return st;
  if (n != SIZE_MAX && y->n != n)
    return tni_yaml_fail(&r->doc, y, r->err, "'%s' has %u numbers, not %zu", name, y->n, n);
  float *list = TNI_NEW_ARRAY(r->c->arena, float, y->n + 1), *at = list;
  if (!list) return tni_fail_memory(r->err, r->doc.file);
  for (const tni_yaml *c = y->child; c; c = c->next) {
    double v = 0;
    st = tni_yaml_float(&r->doc, c, name, lo, hi, &v, r->err);
    if (st != TN_OK) return st;
    *at++ = (float)v;
  }
  *out = list;
  return TN_OK;
}

/* --- one activation --- */

static tn_status read_over(const calib_reader *r, const tni_yaml *map, tni_calib_entry *e) {
  static const char *const keys[] = {"channels", "counts", NULL};
  const tni_yaml *y;
  float *channels = NULL, *counts = NULL, *over = TNI_NEW_ARRAY(r->c->arena, float, e->stats.n);
  if (!over) return tni_fail_memory(r->err, r->doc.file);
  tn_status st = want_key(r, map, "over", "over", &y);
  if (st == TN_OK) st = tni_yaml_want(&r->doc, y, TNI_YAML_MAP, "over", r->err);
  if (st == TN_OK) st = tni_yaml_keys(&r->doc, y, keys, "'over'", r->err);
  if (st == TN_OK) st = read_floats(r, y, "channels", "over.channels", SIZE_MAX, 0, e->stats.n - 1, &channels);
  if (st != TN_OK) return st;
  const tni_yaml *list = tni_yaml_get(y, "channels");
  st = read_floats(r, y, "counts", "over.counts", list->n, 1, (double)e->stats.rows * (1 + FLT_EPSILON), &counts);
  for (uint32_t i = 0; st == TN_OK && i < list->n; i++) {
    const uint32_t k = (uint32_t)channels[i];
    if ((float)k != channels[i] || (i && channels[i] <= channels[i - 1]))
      return tni_yaml_fail(&r->doc, list, r->err, "'over.channels' must be whole numbers that rise");
    over[k] = counts[i];
  }
  e->stats.ch_over = over;
  return st;
}

static tn_status read_arrays(const calib_reader *r, const tni_yaml *y, tni_calib_entry *e) {
  float *mean = NULL, *square = NULL;
  tn_status st = read_over(r, y, e);
  if (st == TN_OK) st = read_floats(r, y, "mean", "mean", e->stats.n, -FLT_MAX, FLT_MAX, &mean);
  if (st == TN_OK) st = read_floats(r, y, "mean_square", "mean_square", e->stats.n, 0, FLT_MAX, &square);
  e->stats.ch_mean = mean;
  e->stats.ch_weight = square;
  return st;
}

static tn_status read_weights(const calib_reader *r, const tni_yaml *y, tni_calib_entry *e) {
  const tni_yaml *list;
  const char *const *names = NULL;
  tn_status st = want_key(r, y, "weights", "weights", &list);
  if (st == TN_OK) st = tni_yaml_strs(&r->doc, list, "weights", &names, &e->n_weights, r->err);
  if (st != TN_OK) return st;
  const char **own = TNI_NEW_ARRAY(r->c->arena, const char *, e->n_weights + 1);
  for (uint32_t i = 0; own && i < e->n_weights; i++)
    if (!(own[i] = tni_arena_strdup(r->c->arena, names[i]))) own = NULL;
  e->weights = own;
  return own ? TN_OK : tni_fail_memory(r->err, r->doc.file);
}

static tn_status read_entry(const calib_reader *r, const tni_yaml *y, tni_calib_entry *e) {
  static const char *const keys[] = {"name", "weights", "rows", "channels",    "absmax",
                                     "p999", "over",    "mean", "mean_square", NULL};
  int64_t rows = 0, channels = 0;
  uint64_t seen;
  tn_status st = tni_yaml_want(&r->doc, y, TNI_YAML_MAP, "an entry of 'values'", r->err);
  if (st == TN_OK) st = tni_yaml_keys(&r->doc, y, keys, "an entry of 'values'", r->err);
  if (st == TN_OK) st = read_str(r, y, "name", "name", &e->name);
  if (st != TN_OK) return st;
  if (tni_map_get_str(r->names, e->name, &seen))
    return tni_yaml_fail(&r->doc, y, r->err, "activation '%.64s' stands twice", e->name);
  e->name = tni_arena_strdup(r->c->arena, e->name);
  if (!e->name || !tni_map_put_str(r->names, e->name, 1)) return tni_fail_memory(r->err, r->doc.file);
  st = read_weights(r, y, e);
  if (st == TN_OK) st = read_int(r, y, "rows", "rows", INT64_MAX / 2, &rows);
  if (st == TN_OK) st = read_int(r, y, "channels", "channels", MAX_CHANNELS, &channels);
  if (st == TN_OK && (rows < 1 || channels < 1))
    st = tni_yaml_fail(&r->doc, y, r->err, "'%s' of activation '%.64s' must be 1 or more",
                       rows < 1 ? "rows" : "channels", e->name);
  e->stats = (tn_stats){.h = TN_HDR(tn_stats), .n = (uint32_t)channels, .rows = (uint64_t)rows};
  if (st == TN_OK) st = read_float(r, y, "absmax", FLT_MAX, &e->stats.absmax);
  if (st == TN_OK) st = read_float(r, y, "p999", (double)e->stats.absmax, &e->stats.p999);
  return st == TN_OK ? read_arrays(r, y, e) : st;
}

/* --- the file --- */

static tn_status read_head(const calib_reader *r, const tni_yaml *root) {
  static const char *const model_keys[] = {"name", "hash", NULL}, *const text_keys[] = {"name", "hash", "tokens", NULL};
  const tni_yaml *model, *text;
  const char *model_name = NULL, *text_name = NULL;
  int64_t version = 0, tokens = 0;
  tn_status st = read_int(r, root, "tenon_calibration", "tenon_calibration", INT32_MAX, &version);
  if (st == TN_OK && version != 1)
    st = tni_yaml_fail(&r->doc, tni_yaml_get(root, "tenon_calibration"), r->err,
                       "calibration version %lld is not one that is known (1)", (long long)version);
  if (st == TN_OK) st = want_key(r, root, "model", "model", &model);
  if (st == TN_OK) st = tni_yaml_want(&r->doc, model, TNI_YAML_MAP, "model", r->err);
  if (st == TN_OK) st = tni_yaml_keys(&r->doc, model, model_keys, "'model'", r->err);
  if (st == TN_OK) st = read_str(r, model, "name", "model.name", &model_name);
  if (st == TN_OK) st = read_hash(r, model, "model.hash", r->c->model);
  if (st == TN_OK) st = want_key(r, root, "text", "text", &text);
  if (st == TN_OK) st = tni_yaml_want(&r->doc, text, TNI_YAML_MAP, "text", r->err);
  if (st == TN_OK) st = tni_yaml_keys(&r->doc, text, text_keys, "'text'", r->err);
  if (st == TN_OK) st = read_str(r, text, "name", "text.name", &text_name);
  if (st == TN_OK) st = read_hash(r, text, "text.hash", r->c->text);
  if (st == TN_OK) st = read_int(r, text, "tokens", "text.tokens", INT64_MAX / 2, &tokens);
  if (st != TN_OK) return st;
  r->c->tokens = (uint64_t)tokens;
  r->c->model_name = tni_arena_strdup(r->c->arena, model_name);
  r->c->text_name = tni_arena_strdup(r->c->arena, text_name);
  return r->c->model_name && r->c->text_name ? TN_OK : tni_fail_memory(r->err, r->doc.file);
}

static tn_status read_root(const calib_reader *r) {
  static const char *const keys[] = {"tenon_calibration", "model", "text", "values", NULL};
  const tni_yaml *root = r->doc.root, *values;
  if (!root) return tni_yaml_fail(&r->doc, NULL, r->err, "the calibration file is empty");
  tn_status st = tni_yaml_want(&r->doc, root, TNI_YAML_MAP, "calibration", r->err);
  if (st == TN_OK) st = tni_yaml_keys(&r->doc, root, keys, "a calibration file", r->err);
  if (st == TN_OK) st = read_head(r, root);
  if (st == TN_OK) st = want_key(r, root, "values", "values", &values);
  if (st == TN_OK) st = tni_yaml_want(&r->doc, values, TNI_YAML_SEQ, "values", r->err);
  if (st != TN_OK) return st;
  tni_calib_entry *list = TNI_NEW_ARRAY(r->c->arena, tni_calib_entry, values->n + 1);
  if (!list) return tni_fail_memory(r->err, r->doc.file);
  uint32_t n = 0;
  for (const tni_yaml *y = values->child; y && st == TN_OK; y = y->next) st = read_entry(r, y, &list[n++]);
  r->c->entries = list;
  r->c->n_entries = n;
  return st;
}

static tni_calib *new_calib(const char *path) {
  tni_arena *a = tni_arena_create();
  tni_calib *c = a ? TNI_NEW(a, tni_calib) : NULL;
  if (c) {
    c->arena = a;
    c->file = tni_arena_strdup(a, path);
    if (c->file) return c;
  }
  tni_arena_destroy(a);
  return NULL;
}

void tni_calib_destroy(tni_calib *c) {
  if (c) tni_arena_destroy(c->arena);
}

tn_status tni_calib_read(const char *path, tni_calib **out, tn_error *err) {
  tni_file f;
  tn_status st = tni_file_read(path, &f, err);
  if (st == TN_E_UNAVAILABLE) { /* a file that a profile names and that is not there is bad input */
    st = TN_E_INVALID;
    if (err && err->code == TN_E_UNAVAILABLE) err->code = st;
  }
  if (st != TN_OK) return st;
  /* The tree goes when it is read. */
  calib_reader r = {.doc = {.arena = tni_arena_create(), .file = path, .max_bytes = MAX_BYTES, .max_nodes = MAX_NODES},
                    .c = new_calib(path),
                    .names = tni_map_create(),
                    .err = err};
  if (!r.doc.arena || !r.c || !r.names) st = tni_fail_memory(err, path);
  if (st == TN_OK) st = tni_yaml_parse(&r.doc, f.data ? f.data : "", (size_t)f.bytes, err);
  if (st == TN_OK) st = read_root(&r);
  tni_file_unmap(&f);
  tni_arena_destroy(r.doc.arena);
  tni_map_destroy(r.names);
  if (st == TN_OK)
    *out = r.c;
  else
    tni_calib_destroy(r.c);
  return st;
}
