/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/profile/device_profile.h"

#include <string.h>

#include <tenon/plugin.h>
#include <tenon/power.h>

#include "runtime/base/base.h"
#include "runtime/profile/paths.h"
#include "runtime/profile/suggest.h"
#include "runtime/profile/yamltree.h"

enum { MAX_PLUGINS = 64, MAX_OPTIONS = 64, MAX_DIRS = 64, MAX_NAME = 63 };

typedef struct profile_reader {
  tni_yaml_doc doc;
  tni_profile *p;
  tn_error *err;
} profile_reader;

bool tni_name_ok(const char *name) {
  size_t n = strlen(name);
  return n && n <= MAX_NAME && name[0] != '-' && !name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")];
}

static tn_status read_name(profile_reader *r, const tni_yaml *y, const char *key, const char **out) {
  tn_status st = tni_yaml_str(&r->doc, y, key, out, r->err);
  if (st != TN_OK) return st;
  if (strchr(*out, '/') || strchr(*out, '\\') || strstr(*out, ".."))
    return tni_yaml_fail(&r->doc, y, r->err,
                         "'%.64s' is a path: '%s' takes plugin names; folders go into 'plugin_path'", *out, key);
  if (!tni_name_ok(*out))
    return tni_yaml_fail(&r->doc, y, r->err, "'%.64s' is no plugin name: a-z, 0-9 and '-', at most %d characters", *out,
                         MAX_NAME);
  return TN_OK;
}

/* ------------------------------------------------------------------------------------------------------- plugins */

static tn_status read_options(profile_reader *r, const tni_yaml *y, tni_profile_plugin *out) {
  tn_status st = tni_yaml_want(&r->doc, y, TNI_YAML_MAP, "options", r->err);
  if (st != TN_OK) return st;
  if (y->n > MAX_OPTIONS) return tni_yaml_fail(&r->doc, y, r->err, "'options' has more than %d entries", MAX_OPTIONS);
  tni_profile_option *list = TNI_NEW_ARRAY(r->doc.arena, tni_profile_option, y->n + 1);
  if (!list) return tni_fail_memory(r->err, r->doc.file);
  for (const tni_yaml *c = y->child; c; c = c->next) {
    if (c->kind != TNI_YAML_SCALAR)
      return tni_yaml_fail(&r->doc, c, r->err, "option '%.64s' must be a single value", c->key->text);
    list[out->n_options++] =
        (tni_profile_option){c->key->text, c->text, c->key->line, c->key->column, c->line, c->column, !c->plain};
  }
  out->options = list;
  return TN_OK;
}

static tn_status read_isolation(profile_reader *r, const tni_yaml *y, bool *process, bool *strict) {
  const char *text = NULL;
  const tn_status st = tni_yaml_str(&r->doc, y, "isolation", &text, r->err);
  if (st != TN_OK) return st;
  *strict = strcmp(text, "strict") == 0;
  *process = *strict || strcmp(text, "process") == 0;
  if (*process || strcmp(text, "none") == 0) return TN_OK;
  return tni_yaml_fail(&r->doc, y, r->err, "'isolation' is process, strict or none, not '%.64s'", text);
}

static tn_status read_probe(profile_reader *r, const tni_yaml *y, tni_profile_plugin *out) {
  const char *text = NULL;
  const tn_status st = tni_yaml_str(&r->doc, y, "probe", &text, r->err);
  if (st != TN_OK) return st;
  if (strcmp(text, "isolated") == 0) out->probe = TNI_PROBE_ISOLATED;
  if (strcmp(text, "inprocess") == 0) out->probe = TNI_PROBE_INPROCESS;
  return out->probe ? TN_OK : tni_yaml_fail(&r->doc, y, r->err, "'probe' is isolated or inprocess, not '%.64s'", text);
}

static tn_status read_plugin(profile_reader *r, const tni_yaml *y, tni_profile_plugin *out) {
  static const char *const keys[] = {"name", "optional", "options", "probe", "isolation", NULL};
  out->line = y->line;
  out->column = y->column;
  out->process = r->p->process;
  out->strict = r->p->strict;
  if (y->kind == TNI_YAML_SCALAR) return read_name(r, y, "plugins", &out->name);
  if (y->kind != TNI_YAML_MAP)
    return tni_yaml_fail(&r->doc, y, r->err, "an entry of 'plugins' must be a name or a mapping with 'name'");
  tn_status st = tni_yaml_keys(&r->doc, y, keys, "a plugin's entry", r->err);
  if (st != TN_OK) return st;
  const tni_yaml *name = tni_yaml_get(y, "name"), *optional = tni_yaml_get(y, "optional"),
                 *options = tni_yaml_get(y, "options"), *probe = tni_yaml_get(y, "probe"),
                 *isolation = tni_yaml_get(y, "isolation");
  if (!name) return tni_yaml_fail(&r->doc, y, r->err, "an entry of 'plugins' has no 'name'");
  st = read_name(r, name, "name", &out->name);
  if (st == TN_OK && optional) st = tni_yaml_bool(&r->doc, optional, "optional", &out->optional, r->err);
  if (st == TN_OK && options) st = read_options(r, options, out);
  if (st == TN_OK && probe) st = read_probe(r, probe, out);
  if (st == TN_OK && isolation) st = read_isolation(r, isolation, &out->process, &out->strict);
  if (st == TN_OK && isolation && out->process && strcmp(out->name, "host") == 0)
    return tni_yaml_fail(&r->doc, isolation, r->err, "'isolation': the host is no plugin of a process of its own");
  return st;
}

static tn_status read_plugins(profile_reader *r, const tni_yaml *y) {
  tn_status st = tni_yaml_want(&r->doc, y, TNI_YAML_SEQ, "plugins", r->err);
  if (st != TN_OK) return st;
  if (y->n > MAX_PLUGINS) return tni_yaml_fail(&r->doc, y, r->err, "'plugins' has more than %d entries", MAX_PLUGINS);
  tni_profile_plugin *list = TNI_NEW_ARRAY(r->doc.arena, tni_profile_plugin, y->n + 1);
  if (!list) return tni_fail_memory(r->err, r->doc.file);
  uint32_t n = 0;
  for (const tni_yaml *c = y->child; c; c = c->next) {
    st = read_plugin(r, c, &list[n]);
    if (st != TN_OK) return st;
    for (uint32_t i = 0; i < n; i++)
      if (strcmp(list[i].name, list[n].name) == 0)
        return tni_yaml_fail(&r->doc, c, r->err, "plugin '%s' is listed twice in 'plugins' (first in line %u)",
                             list[n].name, list[i].line);
    n++;
  }
  r->p->plugins = list;
  r->p->n_plugins = n;
  return TN_OK;
}

/* ------------------------------------------------------------------------------------------- phases and require */

static bool is_listed(const tni_profile *p, const char *name) {
  if (strcmp(name, "host") == 0) return true;
  for (uint32_t i = 0; i < p->n_plugins; i++)
    if (strcmp(p->plugins[i].name, name) == 0) return true;
  return false;
}

static const char *nearest_plugin(const tni_profile *p, const char *name) {
  const char *names[MAX_PLUGINS + 1] = {"host"};
  for (uint32_t i = 0; i < p->n_plugins; i++) names[i + 1] = p->plugins[i].name;
  return tni_nearest(name, names, p->n_plugins + 1);
}

/* A list of names, each once and each one of `plugins` (or host). */
static tn_status read_names(profile_reader *r, const tni_yaml *y, const char *key, const char *const **out,
                            uint32_t *n) {
  tn_status st = tni_yaml_want(&r->doc, y, TNI_YAML_SEQ, key, r->err);
  if (st != TN_OK) return st;
  const char **list = TNI_NEW_ARRAY(r->doc.arena, const char *, y->n + 1);
  if (!list) return tni_fail_memory(r->err, r->doc.file);
  uint32_t m = 0;
  for (const tni_yaml *c = y->child; c; c = c->next) {
    st = read_name(r, c, key, &list[m]);
    if (st != TN_OK) return st;
    if (!is_listed(r->p, list[m])) {
      const char *near = nearest_plugin(r->p, list[m]);
      return tni_yaml_fail(&r->doc, c, r->err, "'%s' names '%s', which is not in 'plugins'%s%s%s", key, list[m],
                           near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    for (uint32_t i = 0; i < m; i++)
      if (strcmp(list[i], list[m]) == 0)
        return tni_yaml_fail(&r->doc, c, r->err, "'%s' names '%s' twice", key, list[m]);
    m++;
  }
  *out = list;
  *n = m;
  return TN_OK;
}

static tn_status plugin_order(profile_reader *r, const char *const **out, uint32_t *n) {
  const char **list = TNI_NEW_ARRAY(r->doc.arena, const char *, r->p->n_plugins + 1);
  if (!list) return tni_fail_memory(r->err, r->doc.file);
  for (uint32_t i = 0; i < r->p->n_plugins; i++) list[i] = r->p->plugins[i].name;
  *out = list;
  *n = r->p->n_plugins;
  return TN_OK;
}

static tn_status read_phase(profile_reader *r, const tni_yaml *map, const char *key, const char *const **out,
                            uint32_t *n) {
  const tni_yaml *y = tni_yaml_get(map, key);
  if (!y) return plugin_order(r, out, n);
  tn_status st = read_names(r, y, key, out, n);
  if (st == TN_OK && *n == 0) return tni_yaml_fail(&r->doc, y, r->err, "'phases.%s' names no plugin", key);
  return st;
}

static tn_status read_phases(profile_reader *r, const tni_yaml *y) {
  static const char *const keys[] = {"prefill", "decode", NULL};
  tni_profile *p = r->p;
  tn_status st = tni_yaml_want(&r->doc, y, TNI_YAML_MAP, "phases", r->err);
  if (st == TN_OK) st = tni_yaml_keys(&r->doc, y, keys, "phases", r->err);
  if (st == TN_OK) st = read_phase(r, y, "prefill", &p->prefill, &p->n_prefill);
  if (st == TN_OK) st = read_phase(r, y, "decode", &p->decode, &p->n_decode);
  p->has_phases = true;
  return st;
}

/* ---------------------------------------------------------------------------------------------- paths and limits */

static tn_status read_path(profile_reader *r, const tni_yaml *y, const char *key, const char **out) {
  const char *text;
  tn_status st = tni_yaml_str(&r->doc, y, key, &text, r->err);
  if (st != TN_OK) return st;
  if (text[0] == '~') return tni_yaml_fail(&r->doc, y, r->err, "'%s': '~' is not expanded; write the whole path", key);
  char *path = tni_path_from(r->doc.arena, r->p->file, text);
  if (!path) return tni_fail_memory(r->err, r->doc.file);
  *out = path;
  return TN_OK;
}

/* A name in the model's folder is resolved when the model is known. */
static tn_status read_calibration(profile_reader *r, const tni_yaml *y) {
  static const char model[] = TNI_BESIDE_MODEL;
  const char *text;
  const tn_status st = tni_yaml_str(&r->doc, y, "calibration", &text, r->err);
  if (st != TN_OK || strncmp(text, model, sizeof model - 1) != 0)
    return st == TN_OK ? read_path(r, y, "calibration", &r->p->calibration) : st;
  if (!text[sizeof model - 1] || strchr(text + sizeof model - 1, '/'))
    return tni_yaml_fail(&r->doc, y, r->err, "'calibration': '%s' must be followed by the name of a file", model);
  r->p->calibration = text;
  return TN_OK;
}

static tn_status read_plugin_path(profile_reader *r, const tni_yaml *y) {
  tn_status st = tni_yaml_want(&r->doc, y, TNI_YAML_SEQ, "plugin_path", r->err);
  if (st != TN_OK) return st;
  if (y->n > MAX_DIRS) return tni_yaml_fail(&r->doc, y, r->err, "'plugin_path' has more than %d entries", MAX_DIRS);
  const char **list = TNI_NEW_ARRAY(r->doc.arena, const char *, y->n + 1);
  if (!list) return tni_fail_memory(r->err, r->doc.file);
  uint32_t n = 0;
  for (const tni_yaml *c = y->child; c; c = c->next) {
    st = read_path(r, c, "plugin_path", &list[n++]);
    if (st != TN_OK) return st;
  }
  r->p->plugin_path = list;
  r->p->n_plugin_path = n;
  return TN_OK;
}

/* 0 is how the profile holds a limit that is not stated, so nobody may state it. */
static tn_status read_limit(profile_reader *r, const tni_yaml *y, const char *key, uint64_t *bytes) {
  const tn_status st = tni_yaml_size(&r->doc, y, key, bytes, r->err);
  if (st != TN_OK || *bytes) return st;
  return tni_yaml_fail(&r->doc, y, r->err, "'%s' must be more than 0", key);
}

static tn_status read_cache(profile_reader *r, const tni_yaml *y) {
  static const char *const keys[] = {"dir", "max_bytes", NULL};
  tn_status st = tni_yaml_want(&r->doc, y, TNI_YAML_MAP, "cache", r->err);
  if (st == TN_OK) st = tni_yaml_keys(&r->doc, y, keys, "cache", r->err);
  if (st != TN_OK) return st;
  const tni_yaml *dir = tni_yaml_get(y, "dir"), *max = tni_yaml_get(y, "max_bytes");
  if (dir) st = read_path(r, dir, "cache.dir", &r->p->cache_dir);
  if (st == TN_OK && max) st = read_limit(r, max, "cache.max_bytes", &r->p->cache_max_bytes);
  return st;
}

static tn_status read_load(profile_reader *r, const tni_yaml *y) {
  static const char *const keys[] = {"max_bytes", "max_steps", NULL};
  tn_status st = tni_yaml_want(&r->doc, y, TNI_YAML_MAP, "load", r->err);
  if (st == TN_OK) st = tni_yaml_keys(&r->doc, y, keys, "load", r->err);
  if (st != TN_OK) return st;
  const tni_yaml *bytes = tni_yaml_get(y, "max_bytes"), *steps = tni_yaml_get(y, "max_steps");
  int64_t v = 0;
  if (bytes) st = read_limit(r, bytes, "load.max_bytes", &r->p->load_max_bytes);
  if (st == TN_OK && steps) st = tni_yaml_int(&r->doc, steps, "load.max_steps", 1, INT64_MAX, &v, r->err);
  r->p->load_max_steps = (uint64_t)v;
  return st;
}

static tn_status read_numbers(profile_reader *r, const tni_yaml *root) {
  const tni_yaml *threads = tni_yaml_get(root, "threads"), *max_seq = tni_yaml_get(root, "max_seq"),
                 *chunk = tni_yaml_get(root, "prefill_chunk"), *bucket = tni_yaml_get(root, "bucket"),
                 *checked = tni_yaml_get(root, "checked"), *timeout = tni_yaml_get(root, "timeout_ms"),
                 *flight = tni_yaml_get(root, "chunks_in_flight"), *memory = tni_yaml_get(root, "memory"),
                 *probe = tni_yaml_get(root, "probe_timeout_ms"), *watch = tni_yaml_get(root, "watch");
  int64_t v = 0;
  tn_status st = threads ? tni_yaml_int(&r->doc, threads, "threads", 0, 1024, &v, r->err) : TN_OK;
  if (st == TN_OK) r->p->threads = (uint32_t)v;
  if (st == TN_OK && max_seq) st = tni_yaml_int(&r->doc, max_seq, "max_seq", 0, INT32_MAX, &r->p->max_seq, r->err);
  if (st == TN_OK && chunk)
    st = tni_yaml_int(&r->doc, chunk, "prefill_chunk", 0, INT32_MAX, &r->p->prefill_chunk, r->err);
  r->p->chunk_said = chunk != NULL;
  if (st == TN_OK && bucket) st = tni_yaml_int(&r->doc, bucket, "bucket", 0, 65536, &r->p->bucket, r->err);
  r->p->has_timeout = timeout != NULL;
  if (st == TN_OK && timeout) st = tni_yaml_int(&r->doc, timeout, "timeout_ms", 1, 3600000, &r->p->timeout_ms, r->err);
  if (st == TN_OK && probe)
    st = tni_yaml_int(&r->doc, probe, "probe_timeout_ms", 1, 3600000, &r->p->probe_timeout_ms, r->err);
  v = 0;
  if (st == TN_OK && flight) st = tni_yaml_int(&r->doc, flight, "chunks_in_flight", 0, 64, &v, r->err);
  r->p->chunks_in_flight = (uint32_t)v;
  v = r->p->watch;
  if (st == TN_OK && watch) st = tni_yaml_int(&r->doc, watch, "watch", 0, 1000000, &v, r->err);
  r->p->watch = (uint32_t)v;
  if (st == TN_OK && memory) st = tni_yaml_size(&r->doc, memory, "memory", &r->p->memory, r->err);
  if (st == TN_OK && checked) st = tni_yaml_bool(&r->doc, checked, "checked", &r->p->checked, r->err);
  return st;
}

/* One of n words, by its number. */
static tn_status read_word(profile_reader *r, const tni_yaml *y, const char *key, const char *const *names, uint32_t n,
                           const char *all, uint32_t *out) {
  const char *text;
  const tn_status st = tni_yaml_str(&r->doc, y, key, &text, r->err);
  if (st != TN_OK) return st;
  for (uint32_t i = 0; i < n; i++)
    if (strcmp(text, names[i]) == 0) {
      *out = i;
      return TN_OK;
    }
  return tni_yaml_fail(&r->doc, y, r->err, "'%s' is %s, not '%.64s'", key, all, text);
}

static tn_status read_priority(profile_reader *r, const tni_yaml *y) {
  static const char *const names[] = {
      [TN_PRIORITY_NORMAL] = "normal", [TN_PRIORITY_LOW] = "low", [TN_PRIORITY_HIGH] = "high"};
  return read_word(r, y, "priority", names, 3, "low, normal or high", &r->p->priority);
}

static tn_status read_power(profile_reader *r, const tni_yaml *y) {
  static const char *const names[] = {[TN_POWER_NONE] = "none",
                                      [TN_POWER_SAVE] = "save",
                                      [TN_POWER_BALANCED] = "balanced",
                                      [TN_POWER_SUSTAINED] = "sustained",
                                      [TN_POWER_BURST] = "burst"};
  return read_word(r, y, "power", names, 5, "none, save, balanced, sustained or burst", &r->p->power);
}

static tn_status read_cpus_of(profile_reader *r, const tni_yaml *y) {
  const char *text = NULL;
  char why[TNI_CPUS_TEXT];
  const tn_status st = tni_yaml_str(&r->doc, y, "cpus", &text, r->err);
  if (st == TN_OK && strcmp(text, TNI_CPUS_BIG) == 0)
    return tni_yaml_fail(&r->doc, y, r->err, "'cpus: big' stands in no list");
  if (st != TN_OK || tni_cpus_add(&r->p->cpus, text, why)) return st;
  return tni_yaml_fail(&r->doc, y, r->err, "'cpus' %s", why);
}

/* A list, or one text of the same form. Whether they are there is asked where they are used: a profile may be of
 * another device. */
static tn_status read_cpus(profile_reader *r, const tni_yaml *y) {
  r->p->cpus_line = y->line;
  r->p->cpus_column = y->column;
  if (y->kind == TNI_YAML_SCALAR && strcmp(y->text, TNI_CPUS_BIG) == 0) {
    r->p->cpus_big = true;
    return TN_OK;
  }
  if (y->kind != TNI_YAML_SEQ) return read_cpus_of(r, y);
  if (y->n == 0) return tni_yaml_fail(&r->doc, y, r->err, "'cpus' names no processor");
  tn_status st = TN_OK;
  for (const tni_yaml *c = y->child; st == TN_OK && c; c = c->next) st = read_cpus_of(r, c);
  return st;
}

static tn_status read_kv(profile_reader *r, const tni_yaml *root) {
  static const struct {
    const char *name;
    uint32_t dtype;
  } kinds[] = {{"f32", TN_DT_F32}, {"f16", TN_DT_F16}, {"bf16", TN_DT_BF16}, {"int8", TN_DT_I8}, {"int4", TN_DT_I4}};
  const tni_yaml *kv = tni_yaml_get(root, "kv"), *ring = tni_yaml_get(root, "kv_ring");
  const char *text = NULL;
  tn_status st = ring ? tni_yaml_bool(&r->doc, ring, "kv_ring", &r->p->kv_ring, r->err) : TN_OK;
  if (st == TN_OK && kv) st = tni_yaml_str(&r->doc, kv, "kv", &text, r->err);
  if (!text || st != TN_OK) return st;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(text, kinds[i].name) == 0) r->p->kv = kinds[i].dtype;
  if (r->p->kv != TN_DT_UNDEFINED) return TN_OK;
  return tni_yaml_fail(&r->doc, kv, r->err, "'kv' is f32, f16, bf16, int8 or int4, not '%.64s'", text);
}

static tn_status read_map(profile_reader *r, const tni_yaml *y) {
  const char *text = NULL;
  const tn_status st = tni_yaml_str(&r->doc, y, "map", &text, r->err);
  if (st != TN_OK) return st;
  r->p->copy_files = strcmp(text, "copy") == 0;
  if (r->p->copy_files || strcmp(text, "shared") == 0) return TN_OK;
  return tni_yaml_fail(&r->doc, y, r->err, "'map' is shared or copy, not '%.64s'", text);
}

static tn_status read_nchwc(profile_reader *r, const tni_yaml *y) {
  const tn_status st = tni_yaml_int(&r->doc, y, "nchwc_block", 8, 16, &r->p->nchwc_block, r->err);
  if (st != TN_OK || r->p->nchwc_block == 8 || r->p->nchwc_block == 16) return st;
  return tni_yaml_fail(&r->doc, y, r->err, "'nchwc_block' is 8 or 16, not %lld", (long long)r->p->nchwc_block);
}

static tn_status read_embeddings(profile_reader *r, const tni_yaml *y) {
  const char *text = NULL;
  const tn_status st = tni_yaml_str(&r->doc, y, "embeddings", &text, r->err);
  if (st != TN_OK) return st;
  r->p->packed_embeddings = strcmp(text, "packed") == 0;
  if (r->p->packed_embeddings || strcmp(text, "source") == 0) return TN_OK;
  return tni_yaml_fail(&r->doc, y, r->err, "'embeddings' is source or packed, not '%.64s'", text);
}

static tn_status read_root(profile_reader *r) {
  static const char *const keys[] = {"plugins",
                                     "phases",
                                     "require",
                                     "threads",
                                     "max_seq",
                                     "plugin_path",
                                     "cache",
                                     "checked",
                                     "prefill_chunk",
                                     "bucket",
                                     "calibration",
                                     "timeout_ms",
                                     "chunks_in_flight",
                                     "memory",
                                     "kv",
                                     "kv_ring",
                                     "power",
                                     "priority",
                                     "probe_timeout_ms",
                                     "isolation",
                                     "cpus",
                                     "embeddings",
                                     "map",
                                     "load",
                                     "nchwc_block",
                                     "watch",
                                     NULL};
  const tni_yaml *root = r->doc.root, *y;
  if (!root) return tni_yaml_fail(&r->doc, NULL, r->err, "the profile is empty");
  tn_status st = tni_yaml_want(&r->doc, root, TNI_YAML_MAP, "profile", r->err);
  if (st == TN_OK) st = tni_yaml_keys(&r->doc, root, keys, "a profile", r->err);
  if (st == TN_OK && (y = tni_yaml_get(root, "isolation"))) st = read_isolation(r, y, &r->p->process, &r->p->strict);
  if (st == TN_OK && (y = tni_yaml_get(root, "plugins"))) st = read_plugins(r, y);
  if (st == TN_OK && (y = tni_yaml_get(root, "phases"))) st = read_phases(r, y);
  if (st == TN_OK && (y = tni_yaml_get(root, "require")))
    st = read_names(r, y, "require", &r->p->require, &r->p->n_require);
  if (st == TN_OK && (y = tni_yaml_get(root, "plugin_path"))) st = read_plugin_path(r, y);
  if (st == TN_OK && (y = tni_yaml_get(root, "cache"))) st = read_cache(r, y);
  if (st == TN_OK && (y = tni_yaml_get(root, "load"))) st = read_load(r, y);
  if (st == TN_OK && (y = tni_yaml_get(root, "calibration"))) st = read_calibration(r, y);
  if (st == TN_OK && (y = tni_yaml_get(root, "cpus"))) st = read_cpus(r, y);
  if (st == TN_OK && (y = tni_yaml_get(root, "power"))) st = read_power(r, y);
  if (st == TN_OK && (y = tni_yaml_get(root, "priority"))) st = read_priority(r, y);
  if (st == TN_OK) st = read_kv(r, root);
  if (st == TN_OK && (y = tni_yaml_get(root, "embeddings"))) st = read_embeddings(r, y);
  if (st == TN_OK && (y = tni_yaml_get(root, "map"))) st = read_map(r, y);
  if (st == TN_OK && (y = tni_yaml_get(root, "nchwc_block"))) st = read_nchwc(r, y);
  return st == TN_OK ? read_numbers(r, root) : st;
}

/* --------------------------------------------------------------------------------------------------------- public */

static tni_profile *new_profile(const char *file) {
  tni_arena *a = tni_arena_create();
  tni_profile *p = a ? TNI_NEW(a, tni_profile) : NULL;
  if (p) {
    p->arena = a;
    p->prefill_chunk = 512;
    p->timeout_ms = 60000;
    p->probe_timeout_ms = 30000;
    p->watch = 16;
    p->memory = UINT64_C(512) << 20;
    p->kv_ring = true;
    p->file = tni_arena_strdup(a, file);
    p->name = tni_path_stem(a, file);
    if (p->file && p->name) return p;
  }
  tni_arena_destroy(a);
  return NULL;
}

tn_status tni_profile_parse(const char *text, size_t n, const char *file, tni_profile **out, tn_error *err) {
  tni_profile *p = new_profile(file);
  if (!p) return tni_fail_memory(err, file);
  profile_reader r = {.doc = {.arena = p->arena, .file = p->file}, .p = p, .err = err};
  tn_status st = tni_yaml_parse(&r.doc, text, n, err);
  if (st == TN_OK) st = read_root(&r);
  if (st == TN_OK)
    *out = p;
  else
    tni_profile_destroy(p);
  return st;
}

void tni_profile_destroy(tni_profile *p) {
  if (p) tni_arena_destroy(p->arena);
}
