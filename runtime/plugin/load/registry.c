/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/load/registry.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/plugin/load/linked.h"
#include "runtime/plugin/plugin.h"
#include "runtime/profile/profile.h"

enum { MAX_PLUGINS = 256 };

struct tni_registry {
  tni_arena *arena;
  tni_registry_opts o; /* strings are the arena's */
  tni_log log;
  tni_loaded *list[MAX_PLUGINS];
  uint32_t n;
};

static tn_status copy_opts(tni_registry *r, const tni_registry_opts *o, tn_error *err) {
  const char **dirs = TNI_NEW_ARRAY(r->arena, const char *, (size_t)o->n_dirs + 1);
  if (!dirs) return tni_fail_memory(err, "registry");
  for (uint32_t i = 0; i < o->n_dirs; i++) {
    if (o->dirs[i][0] != '/')
      return tni_fail(err, TN_E_INVALID, o->dirs[i], "a plugin folder must be an absolute path, not '%s'", o->dirs[i]);
    if (!(dirs[i] = tni_arena_strdup(r->arena, o->dirs[i]))) return tni_fail_memory(err, "registry");
  }
  r->o = *o;
  r->o.dirs = dirs;
  if (o->probe) {
    bool *probe = TNI_NEW_ARRAY(r->arena, bool, (size_t)o->n_dirs + 1);
    if (!probe) return tni_fail_memory(err, "registry");
    memcpy(probe, o->probe, o->n_dirs * sizeof *probe);
    r->o.probe = probe;
  }
  if (o->retry && !(r->o.retry = tni_arena_strdup(r->arena, o->retry))) return tni_fail_memory(err, "registry");
  if (o->helper && !(r->o.helper = tni_arena_strdup(r->arena, o->helper))) return tni_fail_memory(err, "registry");
  if (o->cache_dir && !(r->o.cache_dir = tni_arena_strdup(r->arena, o->cache_dir)))
    return tni_fail_memory(err, "registry");
  if (o->log) {
    r->log = *o->log;
    r->o.log = &r->log;
  }
  return TN_OK;
}

static void report_loaded(const tni_registry *r, const tni_loaded *l) {
  const tni_plugin_info *i = &l->info;
  if (i->n_devices)
    tni_log_line(r->o.log, TN_LOG_INFO, "plugin %s %s (ABI %d.%u%s%s): %u device%s", i->name, i->version, TN_ABI_MAJOR,
                 i->minor, i->builtin ? "" : ", ", i->path, i->n_devices, i->n_devices == 1 ? "" : "s");
  else
    tni_log_line(r->o.log, i->why.code == TN_E_NO_MEMORY ? TN_LOG_WARN : TN_LOG_INFO, "plugin %s is not used: %s (%s)",
                 i->name, i->why.message, i->why.where);
}

static tn_status add_loaded(tni_registry *r, const char *name, const char *file, const tni_profile_plugin *section,
                            bool optional, tni_loaded **out, tn_error *err) {
  if (r->n == MAX_PLUGINS) return tni_fail(err, TN_E_LIMIT, name, "more than %d plugins", MAX_PLUGINS);
  tni_loaded *l;
  tn_status st = tni_loaded_create(&r->o, name, file, section, &l, err);
  if (st != TN_OK) return st;
  l->info.optional = optional;
  r->list[r->n++] = l;
  report_loaded(r, l);
  if (l->host_short) return tni_fail(err, TN_E_NO_MEMORY, l->info.why.where, "%s", tni_error_text(&l->info.why));
  *out = l;
  return TN_OK;
}

static bool is_required(const tni_profile *p, const char *name) {
  for (uint32_t i = 0; i < p->n_require; i++)
    if (strcmp(p->require[i], name) == 0) return true;
  return false;
}

/* The host's section with the caller's options after the profile's. */
static const tni_profile_plugin *host_section(tni_registry *r, const tni_profile_plugin *s) {
  uint32_t own = s->n_options, more = r->o.n_host_options;
  tni_profile_plugin *copy = TNI_NEW(r->arena, tni_profile_plugin);
  tni_profile_option *list = TNI_NEW_ARRAY(r->arena, tni_profile_option, (size_t)own + more);
  if (!copy || !list) return NULL;
  if (own) memcpy(list, s->options, own * sizeof *list);
  memcpy(list + own, r->o.host_options, more * sizeof *list);
  *copy = *s;
  copy->options = list;
  copy->n_options = own + more;
  return copy;
}

static tn_status add_listed(tni_registry *r, const tni_profile *p, const tni_profile_plugin *section, tn_error *err) {
  if (r->o.n_host_options && strcmp(section->name, "host") == 0 && !(section = host_section(r, section)))
    return tni_fail_memory(err, "host");
  bool optional = section->optional && !is_required(p, section->name);
  tni_loaded *l;
  tn_status st = add_loaded(r, section->name, p->file, section, optional, &l, err);
  if (st != TN_OK || l->info.n_devices || (optional && !l->profile_mistake)) return st;
  const tn_error *why = &l->info.why;
  char where[sizeof why->where];
  if (why->where[0] && (strcmp(why->where, section->name) != 0 || !*p->file))
    memcpy(where, why->where, sizeof where);
  else
    tni_place(where, sizeof where, p->file, section->line, section->column);
  st = tni_fail(err, why->code, where, "%s", why->message);
  if (err) err->vendor_code = why->vendor_code;
  if (!strstr(why->message, section->name)) tni_error_prefix(err, "plugin '%s'", section->name);
  return st;
}

tn_status tni_registry_create(const tni_registry_opts *o, const tni_profile *p, tni_registry **out, tn_error *err) {
  tni_registry *r = calloc(1, sizeof *r);
  if (!r || !(r->arena = tni_arena_create())) {
    free(r);
    return tni_fail_memory(err, "registry");
  }
  tn_status st = copy_opts(r, o, err);
  for (uint32_t i = 0; st == TN_OK && i < p->n_plugins; i++) st = add_listed(r, p, &p->plugins[i], err);
  if (st == TN_OK && !tni_registry_find(r, "host")) {
    static const tni_profile_plugin host = {.name = "host"};
    st = add_listed(r, p, &host, err);
  }
  if (st == TN_OK)
    *out = r;
  else
    tni_registry_destroy(r);
  return st;
}

bool tni_registry_destroy(tni_registry *r) {
  bool ended = true;
  if (!r) return true;
  while (r->n) ended = tni_loaded_destroy(r->list[--r->n]) && ended;
  if (!ended) return false;
  tni_arena_destroy(r->arena);
  free(r);
  return true;
}

void tni_registry_leave(tni_registry *r, const char *name) {
  for (uint32_t i = 0; i < r->n; i++)
    if (r->list[i]->info.builtin || strcmp(r->list[i]->info.name, name) == 0) r->list[i]->hangs = true;
}

uint32_t tni_registry_count(const tni_registry *r) { return r->n; }

const tni_plugin_info *tni_registry_get(const tni_registry *r, uint32_t i) {
  return i < r->n ? &r->list[i]->info : NULL;
}

const tni_plugin_info *tni_registry_find(const tni_registry *r, const char *name) {
  for (uint32_t i = 0; i < r->n; i++)
    if (strcmp(r->list[i]->info.name, name) == 0) return &r->list[i]->info;
  return NULL;
}

/* --------------------------------------------------------------------------------------------------------- scan */

typedef struct names {
  const char *v[MAX_PLUGINS];
  uint32_t n;
} names;

/* "x.so" -> "x" where that may name a plugin, "libx.so" too where no libx.yaml lies beside it. A lone .yaml is somebody
 * else's file. */
static const char *plugin_of(tni_arena *a, const char *dir, const char *file, bool *no_memory) {
  size_t n = strlen(file);
  if (n <= 3 || strcmp(file + n - 3, ".so") != 0) return NULL;
  if (n > 6 && strncmp(file, "lib", 3) == 0) {
    const char *bare = tni_arena_strndup(a, file, n - 3), *yaml = bare ? tni_path_join(a, dir, bare, ".yaml") : NULL;
    if (!yaml) *no_memory = true;
    if (yaml && access(yaml, F_OK) != 0) {
      file += 3;
      n -= 3;
    }
  }
  const char *name = tni_arena_strndup(a, file, n - 3);
  if (!name) *no_memory = true;
  return name && tni_name_ok(name) ? name : NULL;
}

/* False: without memory. */
static bool collect_files(const tni_registry *r, const char *dir, names *out) {
  DIR *d = opendir(dir);
  bool no_memory = !d && tni_errno_status(errno, TN_OK) == TN_E_NO_MEMORY;
  for (struct dirent *e; d && out->n < MAX_PLUGINS && (e = readdir(d));) {
    const char *name = plugin_of(r->arena, dir, e->d_name, &no_memory);
    bool known = !name || tni_registry_find(r, name);
    for (uint32_t i = 0; !known && i < out->n; i++) known = strcmp(out->v[i], name) == 0;
    if (!known) out->v[out->n++] = name;
  }
  if (d) closedir(d);
  return !no_memory;
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

tn_status tni_registry_scan(tni_registry *r, tn_error *err) {
  names found = {.n = 0};
  for (uint32_t i = 0; tni_linked_plugins[i] && found.n < MAX_PLUGINS; i++)
    if (!tni_registry_find(r, tni_linked_plugins[i]->name)) found.v[found.n++] = tni_linked_plugins[i]->name;
  for (uint32_t i = 0; i < r->o.n_dirs; i++)
    if (!collect_files(r, r->o.dirs[i], &found)) return tni_fail_memory(err, r->o.dirs[i]);
  qsort(found.v, found.n, sizeof *found.v, by_name);
  for (uint32_t i = 0; i < found.n && r->n < MAX_PLUGINS; i++) {
    tni_loaded *l;
    tn_status st = add_loaded(r, found.v[i], "", NULL, true, &l, err);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}
