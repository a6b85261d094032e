/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/ops/kernel/kernel.h"
#include "runtime/plugin/load/first.h"
#include "runtime/plugin/load/linked.h"
#include "runtime/plugin/load/registry.h"
#include "runtime/plugin/plugin.h"
#include "runtime/plugin/process/process.h"
#include "runtime/profile/profile.h"

enum { LEAST_MS = 500 }; /* that close and shutdown have at least */

static uint32_t allowed_levels(const tni_registry_opts *o) {
  return (o->allow_shared_writable ? TNI_TRUST_SHARED : 0) | (o->any_owner ? TNI_TRUST_OWNER : 0);
}

static bool file_exists(const char *path) {
  struct stat s;
  return lstat(path, &s) == 0;
}

static void note_stage(const tni_loaded *l, const char *what) {
  if (l->stage) l->stage(l->stage_user, what);
}

static const char no_names[] = ""; /* like_name is without memory */

/* A plugin of the folders whose name is like the one that is not there, or NULL. */
static const char *like_name(const tni_registry_opts *o, tni_loaded *l) {
  enum { MOST = 64 };
  const char *names[MOST];
  size_t n = 0;
  for (uint32_t i = 0; i < o->n_dirs; i++) {
    DIR *d = opendir(o->dirs[i]);
    if (!d && tni_errno_status(errno, TN_OK) != TN_OK) return no_names;
    for (struct dirent *e; d && n < MOST && (e = readdir(d));) {
      const size_t len = strlen(e->d_name);
      if (len < 4 || strcmp(e->d_name + len - 3, ".so") != 0) continue;
      char *name = tni_arena_strdup(l->arena, strncmp(e->d_name, "lib", 3) == 0 ? e->d_name + 3 : e->d_name);
      if (!name) {
        closedir(d);
        return no_names;
      }
      name[strlen(name) - 3] = '\0';
      names[n++] = name;
    }
    if (d) closedir(d);
  }
  if (n < MOST) names[n++] = "host";
  return tni_nearest(l->info.name, names, n);
}

bool tni_plugin_files(tni_arena *a, const char *folder, const char *name, char **so, char **yaml) {
  char prefixed[80];
  snprintf(prefixed, sizeof prefixed, "lib%s", name);
  *so = tni_path_join(a, folder, name, ".so");
  *yaml = tni_path_join(a, folder, name, ".yaml");
  char *lib = tni_path_join(a, folder, prefixed, ".so");
  if (!*so || !*yaml || !lib) return false;
  if (!file_exists(*so) && file_exists(lib)) *so = lib; /* phones ship no other names */
  return true;
}

tn_status tni_plugin_resources(const tni_plugin_info *i, tni_resource_sink each, void *user, tn_error *err) {
  if (i->process && i->plugin) return tni_isolate_resources(i->plugin, each, user, err);
  if (i->host) tni_services_resources(i->host->ctx, each, user);
  return TN_OK;
}

/* The first folder that has NAME.so or NAME.yaml. */
static tn_status find_folder(const tni_registry_opts *o, tni_loaded *l, char **so, char **yaml) {
  tn_error *why = &l->info.why;
  for (uint32_t i = 0; i < o->n_dirs; i++) {
    if (!tni_plugin_files(l->arena, o->dirs[i], l->info.name, so, yaml)) return tni_fail_memory(why, l->info.name);
    if (!file_exists(*so) && !file_exists(*yaml)) continue;
    l->folder = o->dirs[i];
    l->probe_by_default = o->probe && o->probe[i];
    l->info.path = *so;
    return TN_OK;
  }
  const char *near = like_name(o, l);
  if (near == no_names) return tni_fail_memory(why, l->info.name);
  return tni_fail(why, TN_E_UNAVAILABLE, l->info.name, "is in none of the plugin folders (%u searched%s%s)%s%s%s",
                  o->n_dirs, o->n_dirs ? ", first " : "", o->n_dirs ? o->dirs[0] : "", near ? ": did you mean '" : "",
                  near ? near : "", near ? "'?" : "");
}

static tn_status use_manifest(tni_loaded *l, const char *text, size_t n, const char *file) {
  tn_error *why = &l->info.why;
  tn_status st = tni_manifest_parse(l->arena, text, n, file, &l->manifest, why);
  if (st != TN_OK) return st;
  l->info.version = l->manifest.version;
  l->info.abi_min = l->manifest.abi_min.minor;
  l->info.abi_max = l->manifest.abi_max.minor;
  return tni_manifest_check(&l->manifest, l->info.name, tni_cpu_arch(), tni_cpu_detect(), why);
}

/* One that the program brings: no file, no folder. Its manifest says what it needs all the same. */
static tn_status open_linked(tni_loaded *l, const tn_static_plugin *p, tn_entry_v1 *entry) {
  l->info.path = "(linked into the program)";
  if (l->info.process)
    return tni_fail(&l->info.why, TN_E_UNSUPPORTED, l->info.name,
                    "plugin '%s' is linked into the program and cannot be in a process of its own", l->info.name);
  *entry = p->entry;
  return use_manifest(l, p->manifest, strlen(p->manifest), l->info.path);
}

static tn_status read_manifest(const tni_registry_opts *o, tni_loaded *l, const char *yaml) {
  tn_error *why = &l->info.why;
  tni_file f;
  tn_status st = tni_trust_read(yaml, allowed_levels(o), TNI_YAML_MAX_BYTES, "a manifest", &f, why);
  if (st != TN_OK) return st;
  tni_content_begin(l, f.data, f.bytes);
  st = use_manifest(l, f.data ? f.data : "", (size_t)f.bytes, yaml);
  tni_file_unmap(&f);
  return st;
}

/* A library linked with fast-math switches denormals off in the thread that loads it. Since code is never unmapped,
 * only the first load in a process can show it. */
static tn_status same_fpmode(const tni_loaded *l, uint64_t before, const char *what, tn_error *err) {
  uint64_t now = tni_fpmode_get();
  if (now == before) return TN_OK;
  tni_fpmode_put(before);
  return tni_fail(err, TN_E_INTERNAL, l->info.path,
                  "%s changes the floating-point mode of its thread (0x%" PRIx64 " to 0x%" PRIx64
                  "; linked with -ffast-math?)",
                  what, before, now);
}

static tn_status no_entry(tni_loaded *l) {
  for (int major = TN_ABI_MAJOR + 1; major <= 9; major++) {
    char symbol[] = "tenon_plugin_entry_v0";
    symbol[sizeof symbol - 2] = (char)('0' + major);
    if (tni_dynlib_symbol(l->lib, symbol))
      return tni_fail(&l->info.why, TN_E_INCOMPATIBLE, l->info.path,
                      "exports %s: it is of ABI %d, this host has %d.%d to %d.%d", symbol, major, TN_ABI_MAJOR, 0,
                      TN_ABI_MAJOR, TN_ABI_MINOR);
  }
  return tni_fail(&l->info.why, TN_E_INVALID, l->info.path, "is no plugin: it exports no %s", TN_ENTRY_SYMBOL);
}

/* The manifest inside the file, where there is one: its hash, and its text where none lies beside the file. */
static tn_status read_note(tni_loaded *l, const tni_file *f, const char *so, const char *yaml, bool beside) {
  tni_elfnote note;
  const bool found = tni_elfnote_find(f, &note);
  if (!found && !beside) return tni_fail(&l->info.why, TN_E_UNAVAILABLE, yaml, "has no manifest beside it");
  uint8_t sum[32];
  tn_status st = found ? tni_elfnote_verify(f, &note, so, &l->info.why) : TN_OK;
  if (st != TN_OK) return st;
  if (found && note.has_hash)
    memcpy(sum, (const uint8_t *)f->data + note.hash_at, sizeof sum); /* that is what it is */
  else
    tni_elfnote_sum(f, found ? &note : NULL, sum);
  if (!beside) {
    tni_content_begin(l, note.yaml, note.n_yaml);
    st = use_manifest(l, note.yaml, note.n_yaml, so);
  }
  tni_content_end(l, sum);
  return st;
}

static tn_status find_libraries(tni_loaded *l) {
  for (uint32_t i = 0; i < l->manifest.n_libraries; i++)
    if (!tni_library_is_there(l->manifest.libraries[i], l->folder))
      return tni_fail(&l->info.why, TN_E_UNAVAILABLE, l->info.path, "plugin '%s' needs %s, which is not here",
                      l->info.name, l->manifest.libraries[i]);
  return TN_OK;
}

/* What can be known without running its code. */
static tn_status inspect_file(const tni_registry_opts *o, tni_loaded *l, const char *so, const char *yaml) {
  tn_error *why = &l->info.why;
  tni_file f;
  const bool beside = file_exists(yaml);
  tn_status st = tni_trust_dir(l->folder, allowed_levels(o), why);
  if (st == TN_OK && beside) st = read_manifest(o, l, yaml);
  uint8_t sum[32];
  if (st == TN_OK) st = tni_trust_elf(so, allowed_levels(o), l->manifest.has_sha256 ? sum : NULL, &f, why);
  if (st != TN_OK) return st;
  if (beside) st = tni_manifest_verify(&l->manifest, sum, why);
  if (st == TN_OK) st = tni_elf_check(&f, so, why);
  if (st == TN_OK) st = read_note(l, &f, so, yaml, beside);
  tni_file_unmap(&f);
  return st == TN_OK ? find_libraries(l) : st;
}

/* The profile wants the narrowest walls; the manifest says what the plugin can do with. */
static tn_status demand_strict(tni_loaded *l) {
  if (l->manifest.confine == TNI_CONFINE_STRICT) return TN_OK;
  return tni_fail(&l->info.why, TN_E_UNAVAILABLE, l->info.path,
                  "refused: the profile has isolation: strict, and plugin '%s' runs with confine: %s only", l->info.name,
                  tni_confine_name(l->manifest.confine));
}

/* Everything up to the address of the entry; runs none of the plugin's code but its constructors. */
static tn_status open_file(const tni_registry_opts *o, tni_loaded *l, const char *profile_file,
                           const tni_profile_plugin *section, tn_entry_v1 *entry) {
  tn_error *why = &l->info.why;
  char *so = NULL, *yaml = NULL;
  const tn_static_plugin *linked = tni_linked_find(l->info.name);
  if (linked) return open_linked(l, linked, entry);
  tn_status st = find_folder(o, l, &so, &yaml);
  if (st == TN_OK) st = inspect_file(o, l, so, yaml);
  if (st == TN_OK && section && section->strict) st = demand_strict(l);
  if (st == TN_OK && l->info.process) return TN_OK; /* none of its code runs here */
  if (st == TN_OK) st = tni_first_load(o, l, so, profile_file, section);
  if (st != TN_OK) return st;

  uint64_t mode = tni_fpmode_get();
  note_stage(l, "loading it");
  st = tni_dynlib_open(so, &l->lib, why);
  if (st == TN_OK) st = same_fpmode(l, mode, "loading it", why);
  if (st != TN_OK) return st;
  void *symbol = tni_dynlib_symbol(l->lib, TN_ENTRY_SYMBOL);
  if (!symbol) return no_entry(l);
  memcpy(entry, &symbol, sizeof *entry); /* ISO C has no cast from object to function pointer */
  return TN_OK;
}

static void tidy_text(char *text, size_t n) {
  text[n - 1] = '\0';
  for (; *text; text++)
    if ((unsigned char)*text < 0x20) *text = '?';
}

static tn_status negotiate_entry(tni_loaded *l, tn_entry_v1 entry) {
  tn_error *why = &l->info.why;
  const uint16_t host_max = TN_ABI_MINOR;
  tn_negotiate neg = {.h = TN_HDR(tn_negotiate), .host_min = 0, .host_max = host_max};
  tn_plugin *p = NULL;
  uint64_t mode = tni_fpmode_get();
  note_stage(l, "its entry");
  tn_status raw = entry(tni_services_host(l->ctx), &neg, &p), st;
  st = same_fpmode(l, mode, "its entry", why);
  if (st != TN_OK) return st;
  tidy_text(neg.message, sizeof neg.message);
  l->info.abi_min = neg.plugin_min;
  l->info.abi_max = neg.plugin_max;
  bool meets = neg.plugin_min <= neg.plugin_max && neg.plugin_min <= host_max;
  if (raw == TN_E_INCOMPATIBLE || (raw == TN_OK && !meets))
    return tni_fail(why, TN_E_INCOMPATIBLE, l->info.path,
                    "plugin '%s' has ABI %d.%u to %d.%u, this host %d.%d to %d.%d%s%s", l->info.name, TN_ABI_MAJOR,
                    neg.plugin_min, TN_ABI_MAJOR, neg.plugin_max, TN_ABI_MAJOR, 0, TN_ABI_MAJOR, TN_ABI_MINOR,
                    neg.message[0] ? ": " : "", neg.message);
  tn_error said;
  tni_error_init(&said);
  tni_fail(&said, TN_E_INTERNAL, l->info.path, "%s", neg.message);
  st = tni_plugin_result(l->info.name, TN_ENTRY_SYMBOL, raw, &said, why);
  if (st != TN_OK) return st;
  if (!p)
    return tni_fail(why, TN_E_INTERNAL, l->info.path, "plugin '%s': its entry said OK and gave no plugin",
                    l->info.name);
  st = tni_check_plugin(l->info.name, p, why);
  if (st != TN_OK) return st;
  l->plugin = p;
  l->info.plugin = p;
  l->info.version = p->version;
  l->info.minor = neg.plugin_max < host_max ? neg.plugin_max : host_max;
  return TN_OK;
}

/* The plugin in a process of its own, where it was loaded and its devices were opened. */
static tn_status start_process(const tni_registry_opts *o, tni_loaded *l, const char *profile_file,
                               const tni_profile_plugin *section) {
  tn_error *why = &l->info.why;
  tn_plugin *p = NULL;
  tni_isolate_about about;
  const tni_isolate_opts io = {.helper = o->helper,
                               .name = l->info.name,
                               .folder = l->folder,
                               .cache_dir = o->cache_dir,
                               .profile_file = profile_file,
                               .section = section,
                               .host = tni_services_host(l->ctx),
                               .shm = o->shm,
                               .threads = o->max_workers,
                               .cpus = o->cpus,
                               .log_level = o->log ? o->log->level : TN_LOG_ERROR,
                               .checked = o->checked,
                               .privileged = o->privileged,
                               .allow_shared_writable = o->allow_shared_writable,
                               .any_owner = o->any_owner,
                               .confine = l->manifest.confine,
                               .memory_limit = o->memory_limit,
                               .timeout_ms = o->timeout_ms ? o->timeout_ms : 60000};
  if (!o->shm) return tni_fail(why, TN_E_UNSUPPORTED, l->info.name, "there are no processes of their own here");
  tn_status st = tni_isolate_open(&io, &p, &about, why);
  l->profile_mistake = about.profile_mistake;
  l->info.walls = about.walls;
  if (st != TN_OK) return st;
  st = tni_check_plugin(l->info.name, p, why);
  if (st != TN_OK) {
    p->shutdown(p);
    return st;
  }
  l->plugin = p;
  l->info.plugin = p;
  l->info.version = p->version;
  l->info.abi_min = about.abi_min;
  l->info.abi_max = about.abi_max;
  l->info.minor = about.minor;
  return TN_OK;
}

static tn_status type_options(tni_loaded *l, const char *profile_file, const tni_profile_plugin *section) {
  const tni_option_value *values;
  tn_status st =
      tni_options_resolve(tni_services_arena(l->ctx), l->plugin, profile_file, section, &values, &l->info.why);
  l->profile_mistake = st == TN_E_INVALID;
  if (st == TN_OK) tni_services_set_options(l->ctx, values, l->plugin->n_options);
  return st;
}

static tn_status open_device(tni_loaded *l, uint32_t index, tn_error *err) {
  tn_device *d = NULL;
  tn_error said;
  tni_error_init(&said);
  uint64_t mode = tni_fpmode_get();
  note_stage(l, "open");
  tn_status st = tni_plugin_result(l->info.name, "open", l->plugin->open(l->plugin, index, &d, &said), &said, err);
  if (st == TN_OK) st = same_fpmode(l, mode, "open", err);
  if (st != TN_OK) return st;
  if (!d)
    return tni_fail(err, TN_E_INTERNAL, l->info.path, "plugin '%s': open said OK and gave no device", l->info.name);
  st = tni_check_device(d, err);
  for (uint32_t i = 0; st == TN_OK && i < l->info.n_devices; i++)
    if (l->devices[i] == d)
      st = tni_fail(err, TN_E_INTERNAL, l->info.path, "plugin '%s': open gave one device twice", l->info.name);
  if (st == TN_OK) l->devices[l->info.n_devices++] = d;
  return st;
}

static tn_status check_listed(tni_loaded *l, const tn_caps *const *caps, uint32_t n) {
  uint8_t keys[TNI_MAX_DEVICES][32];
  tn_error *why = &l->info.why;
  for (uint32_t i = 0; i < n; i++) {
    tn_status st = tni_check_caps(caps[i], why);
    if (st != TN_OK) return st;
    memcpy(keys[i], caps[i]->key, 32);
  }
  l->host_short = tni_services_set_identity(l->ctx, l->plugin->build_id, (const uint8_t(*)[32])keys, n) != TN_OK;
  if (l->host_short) return tni_fail_memory(why, l->info.name);
  return TN_OK;
}

static tn_status open_devices(tni_loaded *l) {
  const tn_caps *caps[TNI_MAX_DEVICES] = {NULL};
  uint32_t n = 0;
  tn_error *why = &l->info.why, said;
  tni_error_init(&said);
  uint64_t mode = tni_fpmode_get();
  note_stage(l, "enumerate");
  tn_status raw = l->plugin->enumerate(l->plugin, TNI_MAX_DEVICES, caps, &n, &said);
  tn_status st = same_fpmode(l, mode, "enumerate", why);
  if (st == TN_OK) st = tni_plugin_result(l->info.name, "enumerate", raw, &said, why);
  if (st != TN_OK) return st;
  if (n > TNI_MAX_DEVICES)
    return tni_fail(why, TN_E_INTERNAL, l->info.path, "plugin '%s': enumerate gave %u devices where %d were asked for",
                    l->info.name, n, TNI_MAX_DEVICES);
  if (n == 0) {
    tn_error clean;
    tni_error_copy(&clean, &said);
    return tni_fail(why, TN_E_UNAVAILABLE, l->info.path, "plugin '%s' has no device here: %s", l->info.name,
                    clean.message[0] ? clean.message : "it gave no reason");
  }
  st = check_listed(l, caps, n);
  tn_error first;
  tni_error_init(&first);
  for (uint32_t i = 0; st == TN_OK && i < n; i++) (void)!open_device(l, i, &first);
  if (st == TN_OK && l->info.n_devices == 0) {
    *why = first;
    st = first.code;
  }
  return st;
}

static tn_status start_loaded(const tni_registry_opts *o, tni_loaded *l, const char *profile_file,
                              const tni_profile_plugin *section) {
  tn_entry_v1 entry = o->host_entry ? o->host_entry : tni_host_plugin_entry;
  l->info.process = !l->info.builtin && section && section->process;
  tn_status st = l->info.builtin ? TN_OK : open_file(o, l, profile_file, section, &entry);
  l->host_short = st == TN_E_NO_MEMORY;
  if (st != TN_OK) return st;
  tni_services_opts so = {.name = l->info.name,
                          .folder = l->folder,
                          .cache_dir = o->cache_dir,
                          .ahead_dir = o->ahead_dir,
                          .trace = o->trace,
                          .max_workers = o->max_workers ? o->max_workers : 1,
                          .flags = (o->checked ? TN_HOST_CHECKED : 0u) | (o->trace ? TN_HOST_PROFILE : 0u) |
                                   (o->privileged ? TN_HOST_PRIVILEGED : 0u),
                          .memory_limit = o->memory_limit,
                          .allow_shared_writable = o->allow_shared_writable,
                          .any_owner = o->any_owner,
                          .stop_call = o->stop_call};
  if (o->log) so.log = *o->log;
  st = tni_services_create(&so, &l->ctx, &l->info.why);
  l->host_short = st == TN_E_NO_MEMORY;
  if (st == TN_OK) st = l->info.process ? start_process(o, l, profile_file, section) : negotiate_entry(l, entry);
  if (st == TN_OK) {
    st = type_options(l, profile_file, section);
    l->host_short = st == TN_E_NO_MEMORY;
  }
  l->info.loaded = st == TN_OK;
  if (l->ctx) l->info.host = tni_services_host(l->ctx);
  if (st == TN_OK) st = open_devices(l);
  l->info.devices = l->devices;
  return st;
}

typedef struct start_job {
  const tni_registry_opts *o;
  tni_loaded *l;
  const char *profile_file;
  const tni_profile_plugin *section;
  tn_status st;
} start_job;

static void start_job_do(void *arg) {
  start_job *j = arg;
  j->st = start_loaded(j->o, j->l, j->profile_file, j->section);
}

/* Threads that the plugin starts now, by the file's constructors or in open, are to get none of the application's
 * signals. A probe's process looks at what calls change of its thread. */
static tn_status start_quiet(const tni_registry_opts *o, tni_loaded *l, const char *profile_file,
                             const tni_profile_plugin *section) {
  start_job j = {o, l, profile_file, section, TN_OK};
  const bool foreign = !l->info.builtin && !l->stage && !(section && section->process); /* which is this thread's child */
  if (!foreign || !tni_quiet_do(start_job_do, &j)) start_job_do(&j);
  return j.st;
}

static void stop_plugin(tni_loaded *l) {
  if (!l->plugin) return;
  while (l->info.n_devices) {
    note_stage(l, "close");
    tni_call_begin(l, "close");
    l->plugin->close(l->devices[--l->info.n_devices]);
    tni_call_end();
  }
  note_stage(l, "shutdown");
  tni_call_begin(l, "shutdown");
  l->plugin->shutdown(l->plugin);
  tni_call_end();
  l->plugin = NULL;
  l->info.plugin = NULL;
}

static void stop_loaded(void *l) { stop_plugin(l); }

/* A plugin in this process may hang in that; one with a process has a deadline of its own, and in that process nobody
 * waits. */
static void stop_bounded(tni_loaded *l) {
  const bool foreign = l->plugin && !l->info.builtin && !l->info.process && !l->stage;
  tni_bounded *b = foreign && !l->hangs ? tni_bounded_create() : NULL;
  tni_hung h;
  if (!l->hangs && !tni_bounded_do(b, stop_loaded, l, l->timeout_ns, &h)) {
    l->hangs = true;
    tni_log_line(&l->log, TN_LOG_WARN,
                 "plugin '%s' is lost ('%s' did not come back within %lld ms; its thread, its code and what it uses stay)",
                 l->info.name, h.what, (long long)(l->timeout_ns / 1000000));
  }
  tni_bounded_destroy(b);
}

tn_status tni_loaded_create(const tni_registry_opts *o, const char *name, const char *profile_file,
                            const tni_profile_plugin *section, tni_loaded **out, tn_error *err) {
  tni_loaded *l = calloc(1, sizeof *l);
  tni_arena *a = l ? tni_arena_create() : NULL;
  char *copy = a ? tni_arena_strdup(a, name) : NULL;
  if (!copy) {
    tni_arena_destroy(a);
    free(l);
    return tni_fail_memory(err, name);
  }
  l->arena = a;
  l->info.name = copy;
  l->info.path = l->info.version = l->info.since = "";
  l->info.builtin = strcmp(name, "host") == 0;
  l->stage = o->stage;
  l->timeout_ns = (o->timeout_ms > LEAST_MS ? o->timeout_ms : o->timeout_ms ? LEAST_MS : 60000) * INT64_C(1000000);
  if (o->log) l->log = *o->log;
  l->stage_user = o->stage_user;
  tni_error_init(&l->info.why);
  tn_status st = start_quiet(o, l, profile_file ? profile_file : "", section);
  /* INVALID is kept for the profile's mistakes: a plugin or manifest that is none does not fit here. */
  if (st == TN_E_INVALID && !l->profile_mistake) l->info.why.code = TN_E_INCOMPATIBLE;
  if (st != TN_OK && !l->info.why.where[0]) /* a plugin's own error may name no place */
    snprintf(l->info.why.where, sizeof l->info.why.where, "%s", l->info.builtin ? l->info.name : l->info.path);
  if (st != TN_OK && !l->info.loaded) {
    char *version = tni_arena_strdup(a, l->info.version); /* may be the plugin's own */
    stop_plugin(l);
    l->info.version = version ? version : "";
  }
  *out = l;
  return TN_OK;
}

bool tni_loaded_destroy(tni_loaded *l) {
  if (!l) return true;
  stop_bounded(l);
  if (l->hangs) return false;
  tni_services_destroy(l->ctx);
  tni_dynlib_close(l->lib);
  tni_arena_destroy(l->arena);
  free(l);
  return true;
}
