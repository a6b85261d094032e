/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dirent.h>

#include "runtime/base/base.h"
#include "runtime/bundle/bundle.h"
#include "runtime/bundle/internal.h"
#include "runtime/place/place.h"
#include "runtime/plugin/load/load.h"
#include "runtime/plugin/plugin.h"
#include "runtime/session/session.h"

static void note_working(tni_bd *b, tn_runtime *rt) {
  if (b->o.working) b->o.working(b->o.user, rt);
}

/* The caller's options, of whatever size it was compiled with. */
static tn_status read_opts(tni_bd *b, const tn_runtime_opts *ro, const tn_bundle_opts *o) {
  b->ro.h = (tn_hdr)TN_API_HDR(tn_runtime_opts);
  b->ro.log_level = TN_LOG_WARN;
  if (ro) memcpy(&b->ro, ro, ro->h.size < sizeof b->ro ? ro->h.size : sizeof b->ro);
  memcpy(&b->o, o, o->h.size < sizeof b->o ? o->h.size : sizeof b->o);
  b->ro.h.size = sizeof b->ro;
  if (!b->o.model || !b->o.folder || !b->o.program || !*b->o.folder)
    return tni_fail(b->err, TN_E_INVALID, "tn_bundle_opts", "model, folder and program are needed");
  return b->o.flags ? tni_fail(b->err, TN_E_INVALID, "tn_bundle_opts", "unknown flags %u", b->o.flags) : TN_OK;
}

static tn_status read_machine(tni_bd *b) {
  tni_elf e, own;
  tn_status st = tni_elf_read(b->arena, b->o.program, &e, b->err);
  if (st == TN_OK) st = tni_elf_read(b->arena, "/proc/self/exe", &own, b->err);
  if (st != TN_OK) return st;
  b->machine = e.machine;
  b->arch = tni_elf_arch(e.machine);
  b->foreign = e.machine != own.machine;
  if (!b->arch)
    return tni_fail(b->err, TN_E_UNSUPPORTED, b->o.program, "'%s' is built for a machine that Tenon does not know",
                    b->o.program);
  if (b->foreign && !b->o.target_plugins)
    return tni_fail(b->err, TN_E_INVALID, "target_plugins", "plugins for %s are needed", b->arch);
  return TN_OK;
}

static const char *target_so(tni_bd *b, const char *name) {
  char *so, *yaml;
  if (tni_plugin_files(b->arena, b->o.target_plugins, name, &so, &yaml)) return access(so, R_OK) == 0 ? so : NULL;
  tni_bd_missed(b, ENOMEM);
  return NULL;
}

/* For another machine: the profile with what lies there, for a runtime that opens what packs for it here. */
static tn_status derive_profile(tni_bd *b, const char **file) {
  const char *names[TNI_BD_NAMES];
  uint32_t n = 0;
  char *text = NULL;
  for (uint32_t i = 0; i < b->profile->n_plugins; i++) {
    const char *name = b->profile->plugins[i].name;
    if (strcmp(name, "host") == 0 || n == TNI_BD_NAMES) continue;
    if (target_so(b, name))
      names[n++] = name;
    else
      tni_bd_leave(b, tni_bd_text(b, "plugin %s", name), "is not among the plugins for that machine");
  }
  const tn_status st = tni_bd_profile(b, names, n, b->profile->calibration, true, &text);
  if (st != TN_OK) return st;
  char *path = tni_bd_text(b, "%s/.target.yaml", b->stage);
  FILE *f = path ? fopen(path, "w") : NULL;
  if (f) fputs(text, f);
  const bool ok = f && tni_close_written(f) == 0;
  free(text);
  *file = path;
  return ok ? TN_OK : tni_fail(b->err, TN_E_IO, b->stage, "cannot write into '%s'", b->stage);
}

static const char *path_of(const tn_runtime *rt, const char *name) {
  const tni_plugin_info *p = tni_registry_find(rt->registry, name);
  return p ? p->path : "";
}

static uint32_t count_nodes(const tn_model *m, const char *name) {
  uint32_t n = 0;
  for (uint32_t x = 0; x < m->n_execs; x++)
    for (uint32_t i = 0; i < m->execs[x].view.n_nodes; i++) {
      const uint32_t d = m->execs[x].part.device_of[i];
      n += d != TN_NONE && strcmp(m->rt->devs[d].name, name) == 0;
    }
  return n;
}

/* The weight format of all that a plugin wants packed; NULL where there are several, or none. */
static const char *format_of(const tn_model *m, const char *name) {
  const char *found = NULL;
  for (uint32_t x = 0; x < m->n_execs; x++)
    for (uint32_t i = 0; i < m->execs[x].n_programs; i++) {
      const tni_program *p = &m->execs[x].programs[i];
      for (uint32_t k = 0; strcmp(m->rt->devs[p->cluster->device].name, name) == 0 && k < p->info->n_needs; k++) {
        const tn_format *f = p->needs[k].need->format;
        if (f && found && strcmp(found, f->name) != 0) return NULL;
        if (f) found = f->name;
      }
    }
  return found;
}

static bool is_among(const char *choices, const char *word) {
  const size_t n = strlen(word);
  for (const char *c = choices; c; c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL)
    if (strncmp(c, word, n) == 0 && (c[n] == '|' || !c[n])) return true;
  return false;
}

/* A value of option `format` that is no format's name leaves it to the plugin, which measures: another machine might
 * choose another format, and what is packed would not be found. What it chose here; NULL where there is nothing to say.
 */
static const char *chosen_format(const tni_bd *b, const tni_plugin_info *p, const tn_model *m) {
  const char *used = format_of(m, p->name), *asked = NULL, *choices = NULL;
  for (uint32_t i = 0; i < b->profile->n_plugins; i++)
    for (uint32_t k = 0; k < b->profile->plugins[i].n_options; k++)
      if (strcmp(b->profile->plugins[i].name, p->name) == 0 &&
          strcmp(b->profile->plugins[i].options[k].key, "format") == 0)
        asked = b->profile->plugins[i].options[k].value;
  for (uint32_t i = 0; i < p->plugin->n_options; i++)
    if (strcmp(p->plugin->options[i]->key, "format") == 0) choices = p->plugin->options[i]->choices;
  if (!used || !asked || !choices || !is_among(choices, used)) return NULL;
  for (uint32_t i = 0; i < p->plugin->n_formats; i++)
    if (strcmp(p->plugin->formats[i]->name, asked) == 0) return NULL;
  return used;
}

static bool asked_for(const tni_bd *b, const char *name) {
  for (uint32_t i = 0; i < b->o.n_with; i++)
    if (strcmp(b->o.with[i], name) == 0) return true;
  return false;
}

/* Which plugins come along; the others are left out, each with why. */
static tn_status choose_devices(tni_bd *b, const tn_runtime *rt, const tn_model *m) {
  for (uint32_t i = 0; i < tni_registry_count(rt->registry); i++) {
    const tni_plugin_info *p = tni_registry_get(rt->registry, i);
    if (p->builtin || i >= rt->n_profile_plugins) continue;
    const uint32_t n = count_nodes(m, p->name);
    const bool with = asked_for(b, p->name);
    if (!n && !with) {
      tni_bd_leave(b, tni_bd_text(b, "plugin %s", p->name),
                   p->n_devices        ? "takes no node of this model"
                   : p->why.message[0] ? p->why.message
                                       : "has no device here");
      continue;
    }
    if (b->n_names == TNI_BD_NAMES) return tni_fail(b->err, TN_E_LIMIT, p->name, "too many plugins");
    const char *name = tni_arena_strdup(b->arena, p->name);
    const char *so = b->foreign ? target_so(b, p->name) : tni_arena_strdup(b->arena, path_of(rt, p->name));
    if (!name || !so) return tni_fail_memory(b->err, p->name);
    if (!*so || access(so, R_OK) != 0)
      return tni_fail(b->err, TN_E_UNAVAILABLE, so, "plugin '%s' is in none of the plugin folders", name);
    b->names[b->n_names] = name;
    const char *format = p->plugin ? chosen_format(b, p, m) : NULL;
    b->formats[b->n_names] = format ? tni_arena_strdup(b->arena, format) : NULL;
    if (format && !b->formats[b->n_names]) return tni_fail_memory(b->err, p->name);
    b->paths[b->n_names] = so;
    b->nodes[b->n_names++] = n;
  }
  for (uint32_t i = 0; i < b->o.n_with; i++)
    if (!tni_registry_find(rt->registry, b->o.with[i]))
      return tni_fail(b->err, TN_E_INVALID, b->o.with[i], "plugin '%s' is not in the profile", b->o.with[i]);
  return TN_OK;
}

static tn_status copy_profile(tni_bd *b) {
  char *text = NULL;
  tn_status st = tni_bd_profile(b, b->names, b->n_names, b->calibration, false, &text);
  if (st == TN_OK) st = tni_bd_write(b, "profile.yaml", text, strlen(text), "profile", false);
  free(text);
  return st;
}

/* Opens the devices and places the model; copies what does not depend on packing. */
static tn_status place_bundle(tni_bd *b) {
  const char *file = b->ro.profile;
  tn_runtime_opts ro = b->ro;
  tn_runtime *rt = NULL;
  tn_model *m = NULL;
  tn_status st = tni_runtime_profile(&b->ro, &b->profile, b->err);
  if (st == TN_OK && b->foreign) st = derive_profile(b, &file);
  if (st != TN_OK) return st;
  ro.profile = file; /* the user's cache too: what a plugin has measured before counts */
  ro.flags |= b->foreign ? TN_RT_OFFLINE : 0;
  st = tn_runtime_create(&ro, &rt, b->err);
  if (st == TN_OK) {
    note_working(b, rt);
    const tn_model_opts mo = {.h = TN_API_HDR(tn_model_opts), .flags = TN_MODEL_INSPECT | TN_MODEL_DECODER};
    char *model = NULL;
    st = tn_model_find(b->o.model, b->o.model_file, &model, b->err);
    if (st == TN_OK) st = tn_model_load(rt, model, &mo, &m, b->err);
    tn_free(model);
  }
  if (st == TN_OK && m->encoder)
    st = tni_fail(b->err, TN_E_UNSUPPORTED, b->o.model,
                  "'%s' is half of an encoder-decoder, of which no bundle is made", m->name);
  for (uint32_t i = 0; st == TN_OK && i < m->n_execs; i++)
    if (m->execs[i].part.n_unsupported)
      st = tni_fail(b->err, TN_E_UNSUPPORTED, b->o.model,
                    "no device runs %u nodes of '%s'; `tenon check --unsupported` lists them",
                    m->execs[i].part.n_unsupported, b->o.model);
  if (st == TN_OK) st = choose_devices(b, rt, m);
  if (st == TN_OK) st = tni_bd_model(b, m);
  if (st == TN_OK) st = copy_profile(b);
  tn_model_destroy(m);
  note_working(b, NULL);
  tn_runtime_destroy(rt);
  if (b->foreign && file) (void)unlink(file);
  return st;
}

/* The packed files that lie in the stage now; locks go. */
static tn_status adopt_packed(tni_bd *b) {
  char *dir = tni_file_in(b->stage, "packed");
  DIR *d = dir ? opendir(dir) : NULL;
  tn_status st = TN_OK;
  if (!d) tni_bd_missed(b, dir ? errno : ENOMEM);
  for (struct dirent *e; d && st == TN_OK && (e = readdir(d));) {
    const size_t n = strlen(e->d_name);
    const char *to = tni_bd_text(b, "packed/%s", e->d_name);
    if (!to) st = tni_fail_memory(b->err, dir);
    if (n > 5 && strcmp(e->d_name + n - 5, ".lock") == 0) (void)unlinkat(dirfd(d), e->d_name, 0);
    if (st == TN_OK && n > 7 && strcmp(e->d_name + n - 7, ".tnpack") == 0) st = tni_bd_adopt(b, to, "packed");
  }
  if (d) closedir(d);
  free(dir);
  return st;
}

/* What plugins compiled ahead of time. */
static tn_status adopt_compiled(tni_bd *b) {
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < b->n_names; i++) {
    const char *folder = tni_bd_text(b, "packed/plugins/%s/" TNI_AHEAD, b->names[i]);
    char *dir = folder ? tni_file_in(b->stage, folder) : NULL;
    DIR *d = dir ? opendir(dir) : NULL;
    if (!dir) st = tni_fail_memory(b->err, b->names[i]);
    if (!d) tni_bd_missed(b, dir ? errno : ENOMEM);
    for (struct dirent *e; d && st == TN_OK && (e = readdir(d));) {
      const char *to = tni_bd_text(b, "%s/%s", folder, e->d_name);
      if (!to) st = tni_fail_memory(b->err, dir);
      if (st == TN_OK && e->d_name[0] != '.') st = tni_bd_adopt(b, to, "compiled");
    }
    if (d) closedir(d);
    free(dir);
  }
  return st;
}

/* Nothing may have been packed into memory: a bundle without its packed weights is none. */
static tn_status check_packed(const tni_bd *b, const tn_model *m) {
  for (uint32_t d = 0; d < m->rt->n_devs; d++) {
    const tni_packed *p = &m->packed[d];
    if (p->store && !tni_pack_store_stats(p->store)->cached)
      return tni_fail(b->err, TN_E_IO, b->stage, "packed weights of '%s' could not be written into '%s'", p->dev->name,
                      b->stage);
  }
  for (uint32_t i = 0; i < b->n_names; i++)
    if (count_nodes(m, b->names[i]) != b->nodes[i])
      return tni_fail(b->err, TN_E_INTERNAL, b->names[i],
                      "with the bundle's plugins alone, '%s' takes %u nodes and not %u", b->names[i],
                      count_nodes(m, b->names[i]), b->nodes[i]);
  return TN_OK;
}

/* Tasks that no plugin could compile ahead of time. */
static void note_left(tni_bd *b, const tn_model *m) {
  for (uint32_t d = 0; d < m->rt->n_devs; d++) {
    const tni_packed *p = &m->packed[d];
    if (p->left)
      tni_bd_leave(b, tni_bd_text(b, "what %u of %u tasks of %s compile", p->left, p->left + p->compiled, p->dev->name),
                   "their dims are known in a run only: the start compiles them");
  }
}

/* The bundle's own plugins can be loaded here. */
static bool has_plugins(const tni_bd *b) { return b->n_names && !b->foreign && !b->linked; }

/* Where the bundle's plugins are to be found: in the stage (sealed), or where they come from. */
static tn_status find_dirs(tni_bd *b, bool sealed, tn_runtime_opts *ro) {
  const uint32_t own = b->ro.n_plugin_dirs, more = b->profile->n_plugin_path;
  const char **dirs = TNI_NEW_ARRAY(b->arena, const char *, (size_t)own + more + 1);
  if (!dirs) return tni_fail_memory(b->err, b->stage);
  ro->plugin_dirs = dirs;
  if (sealed && has_plugins(b)) {
    ro->n_plugin_dirs = 1;
    ro->flags |= TN_RT_TEST_WRITABLE; /* where the bundle is made says nothing of where it will be used */
    char *stage = realpath(b->stage, NULL); /* plugin folders have absolute paths */
    const int e = errno;
    dirs[0] = stage ? tni_bd_text(b, "%s/plugins", stage) : NULL;
    free(stage);
    if (!stage) return tni_fail(b->err, tni_errno_status(e, TN_E_IO), b->stage, "'%s': %s", b->stage, strerror(e));
    return dirs[0] ? TN_OK : tni_fail_memory(b->err, b->stage);
  }
  for (uint32_t i = 0; i < own; i++) dirs[i] = b->ro.plugin_dirs[i];
  for (uint32_t i = 0; i < more; i++) dirs[own + i] = b->profile->plugin_path[i];
  ro->n_plugin_dirs = own + more;
  return TN_OK;
}

typedef struct asking {
  tni_bd *b;
  uint32_t plugin;
  bool lacks; /* no memory */
} asking;

static void on_resource(void *user, const char *name) {
  asking *a = user;
  tni_bd_resource *r = TNI_NEW(a->b->arena, tni_bd_resource);
  if (r) *r = (tni_bd_resource){a->b->resources, a->plugin, tni_arena_strdup(a->b->arena, name)};
  a->lacks = a->lacks || !r || !r->name;
  if (r && r->name) a->b->resources = r;
}

static tn_status note_resources(tni_bd *b, const tn_runtime *rt) {
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < b->n_names && !b->linked; i++) {
    const tni_plugin_info *p = tni_registry_find(rt->registry, b->names[i]);
    asking a = {.b = b, .plugin = i};
    if (p) st = tni_plugin_resources(p, on_resource, &a, b->err);
    if (a.lacks) st = tni_fail_memory(b->err, b->names[i]);
  }
  return st;
}

/* The bundle's own model and profile, as they will be used. flags: of the runtime; tables NULL: not looked for. */
static tn_status load_staged(tni_bd *b, uint32_t flags, struct tni_bd_tables **tables) {
  char *profile = tni_bd_text(b, "%s/profile.yaml", b->stage), *cache = tni_bd_text(b, "%s/packed", b->stage),
       *model = tni_bd_text(b, "%s/%s", b->stage, b->model);
  tn_runtime_opts ro = b->ro;
  if (!profile || !cache || !model) return tni_fail_memory(b->err, b->stage);
  ro.profile = profile;
  ro.cache_dir = cache;
  ro.calibration = NULL; /* the profile names its copy */
  ro.flags |= flags | (b->foreign ? TN_RT_OFFLINE : 0);
  tn_runtime *rt = NULL;
  tn_model *m = NULL;
  tn_status st = find_dirs(b, flags & TN_RT_SEALED, &ro);
  if (st == TN_OK) st = tn_runtime_create(&ro, &rt, b->err);
  if (st == TN_OK) {
    note_working(b, rt);
    const tn_model_opts mo = {.h = TN_API_HDR(tn_model_opts), .flags = TN_MODEL_PACK | TN_MODEL_DECODER};
    st = tn_model_load(rt, model, &mo, &m, b->err);
  }
  if (st == TN_OK) st = check_packed(b, m);
  if (st == TN_OK && tables) st = note_resources(b, rt);
  if (st == TN_OK && tables) note_left(b, m);
  if (st == TN_OK && tables) st = tni_bd_tables_find(b, m, tables);
  tn_model_destroy(m);
  note_working(b, NULL);
  tn_runtime_destroy(rt);
  return st;
}

/* With the plugins that lie in the bundle, and without the tables that were cut, the model is to be placed as it was
 * and to find the same packed. */
static tn_status pack_bundle(tni_bd *b) {
  struct tni_bd_tables *tables = NULL;
  uint32_t n_cut = 0;
  tn_status st = load_staged(b, TN_RT_PORTABLE, &tables);
  if (st == TN_OK) st = tni_bd_resources(b);
  if (st == TN_OK) st = tni_bd_tables_cut(b, tables, &n_cut);
  if (st == TN_OK && (n_cut || has_plugins(b))) {
    st = load_staged(b, TN_RT_SEALED, NULL);
    if (st != TN_OK)
      tni_error_prefix(b->err, n_cut ? "without the tables that are read packed" : "the finished bundle");
  }
  if (st == TN_OK) st = adopt_packed(b);
  return st == TN_OK ? adopt_compiled(b) : st;
}

static tn_status check_size(const tni_bd *b) {
  const uint64_t total = tni_bd_total(b);
  if (!b->o.max_bytes || total <= b->o.max_bytes) return TN_OK;
  return tni_fail(b->err, TN_E_LIMIT, b->o.folder, "the bundle takes %llu bytes, %llu more than the limit of %llu",
                  (unsigned long long)total, (unsigned long long)(total - b->o.max_bytes),
                  (unsigned long long)b->o.max_bytes);
}

static tn_status make_bundle(tni_bd *b) {
  tn_status st = read_machine(b);
  if (st == TN_OK) st = tni_bd_stage(b);
  if (st == TN_OK) st = place_bundle(b);
  if (st == TN_OK) st = tni_bd_parts(b);
  if (st == TN_OK) st = tni_bd_licences(b);
  if (st == TN_OK) st = pack_bundle(b);
  if (st != TN_OK) return st;
  tni_bd_sort(b);
  st = tni_bd_script(b);
  if (st == TN_OK) st = tni_bd_spdx(b);
  if (st != TN_OK) return st;
  tni_bd_sort(b);
  st = tni_bd_list(b);
  if (st == TN_OK) st = tni_bd_whole(b);
  if (st == TN_OK && tni_json_short()) st = tni_fail_memory(b->err, "bundle.json");
  if (st == TN_OK) st = check_size(b);
  return st == TN_OK ? tni_bd_publish(b) : st;
}

tn_status tn_bundle_make(const tn_runtime_opts *ro, const tn_bundle_opts *o, char **json, tn_error *err) {
  tni_error_begin(err);
  if (!o || !json) return tni_fail(err, TN_E_INVALID, "tn_bundle_make", "a NULL argument");
  tni_json_begin();
  tni_bd *b = calloc(1, sizeof *b);
  if (b) b->arena = tni_arena_create();
  if (b) b->left_out = json_array();
  if (!b || !b->arena || !b->left_out) {
    if (b) tni_arena_destroy(b->arena);
    free(b);
    return tni_fail_memory(err, "bundle");
  }
  tn_error own;
  tni_error_init(&own);
  b->err = err ? err : &own;
  tn_status st = read_opts(b, ro, o);
  if (st == TN_OK) st = make_bundle(b);
  tni_bd_discard(b);
  if (st == TN_OK || st == TN_E_LIMIT) {
    json_t *j = tni_bd_report(b);
    char *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
    json_decref(j);
    if (st == TN_OK && (!text || tni_json_short())) st = tni_fail_memory(err, "report");
    if (st == TN_E_NO_MEMORY)
      free(text);
    else if (text)
      *json = text;
  }
  tni_profile_destroy(b->profile);
  json_decref(b->left_out);
  tni_arena_destroy(b->arena);
  free(b);
  return st;
}
