/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cli/cli.h"
#include "runtime/base/base.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

/* --- runtime ---------------------------------------------------------------------------------------------------- */

static const char *env_or_null(const char *name) {
  if (getauxval(AT_SECURE)) return NULL;
  const char *v = getenv(name);
  return v && *v ? v : NULL;
}

static void on_log(void *user, uint32_t level, const char *line) {
  static const char *const names[] = {"error", "warning", "info", "debug"};
  (void)user;
  cli_say("tenon: %s: %s\n", level < 4 ? names[level] : "log", line);
}

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Bytes, and time left at the pace since the first call. */
static void on_progress(void *user, const char *what, uint64_t done, uint64_t total) {
  cli *c = user;
  if (!isatty(STDERR_FILENO) || !total) return;
  if (done < c->pack_done || c->pack_start == 0) c->pack_start = now_s();
  if (done < c->pack_done || c->pack_done == 0) c->pack_first = done;
  c->pack_done = done;
  const double spent = now_s() - c->pack_start, made = (double)(done - c->pack_first);
  const double left = made > 0 ? spent / made * (double)(total - done) : 0;
  fprintf(stderr, "\rpacking %3.0f %% (%.1f of %.1f MB, %.0f s left) %-40.40s", 100.0 * (double)done / (double)total,
          (double)done / 1e6, (double)total / 1e6, left, done < total ? what : "");
  if (done >= total) fprintf(stderr, "\r%*s\r", 110, "");
}

static int log_level(cli *c, uint32_t *level) {
  static const char *const names[] = {"error", "warn", "info", "debug"};
  const char *want = c->log_level ? c->log_level : env_or_null("TENON_LOG");
  *level = TN_LOG_WARN;
  for (uint32_t i = 0; want && i < 4; i++)
    if (strcmp(want, names[i]) == 0) {
      *level = i;
      return 0;
    }
  return want ? cli_usage(c, "unknown log level '%s' (error, warn, info, debug)", want) : 0;
}

/* --cache-dir, TENON_CACHE_DIR, XDG_CACHE_HOME/tenon, ~/.cache/tenon. NULL: let the profile decide. */
static const char *cache_dir(const cli *c, char *buf, size_t n) {
  if (c->cache_dir) return c->cache_dir;
  const char *v = env_or_null("TENON_CACHE_DIR");
  if (v) return v;
  v = env_or_null("XDG_CACHE_HOME");
  if (v && *v == '/') {
    snprintf(buf, n, "%s/tenon", v);
    return buf;
  }
  v = env_or_null("HOME");
  if (!v) return NULL;
  snprintf(buf, n, "%s/.cache/tenon", v);
  return buf;
}

/* --plugin-dir folders, then those of TENON_PLUGIN_PATH, then lib/ beside an installed tree that was moved. */
static size_t plugin_dirs(const cli *c, const char **dirs, size_t cap, char *path_copy, char *moved, size_t n_moved) {
  size_t n = 0;
  for (char **d = c->plugin_dirs; d && *d && n < cap; d++) dirs[n++] = *d;
  char *save = NULL;
  for (char *d = strtok_r(path_copy, ":", &save); d && n < cap; d = strtok_r(NULL, ":", &save)) dirs[n++] = d;
  ssize_t len = readlink("/proc/self/exe", moved, n_moved - 1);
  char *slash = NULL;
  if (len > 0) {
    moved[len] = '\0';
    slash = strrchr(moved, '/');
  }
  if (slash && (size_t)(slash - moved) + sizeof "/" TENON_REL_PLUGINS < n_moved && n < cap) {
    memcpy(slash, "/" TENON_REL_PLUGINS, sizeof "/" TENON_REL_PLUGINS);
    if (access(moved, F_OK) == 0) dirs[n++] = moved;
  }
  return n;
}

/* tenon-helper of an installed tree, moved or not, or of the build folder that this program lies in; NULL: the library
 * knows better. */
static const char *find_helper(char *buf, size_t size) {
  /* Installed, in a build folder, in a bundle. */
  static const char *const places[] = {TENON_REL_HELPER, "../plugin/helper/tenon-helper", "tenon-helper"};
  const ssize_t len = readlink("/proc/self/exe", buf, size - 1);
  if (len <= 0) return NULL;
  buf[len] = '\0';
  char *name = strrchr(buf, '/') + 1;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    const size_t n = strlen(places[i]) + 1;
    if ((size_t)(name - buf) + n > size) continue;
    memcpy(name, places[i], n);
    if (access(buf, X_OK) == 0) return buf;
  }
  return NULL;
}

/* What a bundle says, where this program lies in one: nothing else is looked at but what the command line names. */
static int bundle_opts(cli *c, cli_runtime *r) {
  size_t n = 0;
  for (char **d = c->plugin_dirs; d && *d && n < CLI_MAX_DIRS - 1; d++) r->dirs[n++] = *d;
  r->dirs[n++] = r->bundle.plugins;
  r->n = n;
  r->o.plugin_dirs = r->dirs;
  r->o.n_plugin_dirs = (uint32_t)n;
  r->o.profile = c->profile ? c->profile : r->bundle.profile;
  r->o.cache_dir = c->cache_dir ? c->cache_dir : r->bundle.packed;
  r->o.flags |= c->cache_dir ? 0 : TN_RT_SEALED;
  r->o.helper = find_helper(r->helper, sizeof r->helper);
  return 0;
}

static char *copy_text(const char *s) {
  char *copy = strdup(s);
  if (!copy) tni_json_lacked();
  return copy;
}

/* "KEY VALUE" of tenon-build.txt, which Meson writes into a build folder (it names the folder: a copy elsewhere says
 * nothing). malloc'd; NULL: this program is not BUILD/runtime/cli/tenon, or is privileged. */
static char *build_value(const char *key) {
  static const char inside[] = "/runtime/cli/tenon";
  char exe[3072] = "", path[4096], line[16384], *value = NULL;
  const ssize_t len = getauxval(AT_SECURE) ? -1 : readlink("/proc/self/exe", exe, sizeof exe - 1);
  if (len <= (ssize_t)sizeof inside || strcmp(exe + len - (ssize_t)sizeof inside + 1, inside) != 0) return NULL;
  exe[len - (ssize_t)sizeof inside + 1] = '\0';
  snprintf(path, sizeof path, "%s/tenon-build.txt", exe);
  FILE *f = fopen(path, "r");
  if (!f && tni_errno_status(errno, TN_OK) != TN_OK) tni_json_lacked();
  const size_t n = strlen(key);
  for (bool here = false; f && !value && fgets(line, sizeof line, f);) {
    line[strcspn(line, "\n")] = '\0';
    here = here || (strncmp(line, "build ", 6) == 0 && strcmp(line + 6, exe) == 0);
    if (here && strncmp(line, key, n) == 0 && line[n] == ' ') value = copy_text(line + n + 1);
  }
  if (f) fclose(f);
  return value;
}

/* A variable of the environment, else what the build folder says where nobody set it. malloc'd. */
static char *env_or_build(const char *name, const char *key) {
  const char *v = env_or_null(name);
  return v ? copy_text(v) : getenv(name) ? NULL : build_value(key);
}

char *cli_profile_dir(void) { return env_or_build("TENON_PROFILE_PATH", "profiles"); }

static void usual_opts(cli *c, cli_runtime *r) {
  size_t n = 0;
  r->path_copy = env_or_build("TENON_PLUGIN_PATH", "plugins");
  if (!r->path_copy) r->path_copy = copy_text("");
  if (r->path_copy) n = plugin_dirs(c, r->dirs, CLI_MAX_DIRS, r->path_copy, r->moved, sizeof r->moved);
  r->profile_copy = cli_profile_dir();
  if (r->profile_copy) r->profile_dirs[r->o.n_profile_dirs++] = r->profile_copy;
  ssize_t len = readlink("/proc/self/exe", r->profiles, sizeof r->profiles - 64);
  if (len > 0) {
    r->profiles[len] = '\0';
    char *slash = strrchr(r->profiles, '/');
    if (slash) strcpy(slash, "/" TENON_REL_PROFILES);
    r->profile_dirs[r->o.n_profile_dirs++] = r->profiles;
  }
  r->n = n;
  r->o.plugin_dirs = r->dirs;
  r->o.n_plugin_dirs = (uint32_t)n;
  r->o.profile_dirs = r->profile_dirs;
  r->o.profile = c->profile ? c->profile : env_or_null("TENON_PROFILE");
  r->o.cache_dir = cache_dir(c, r->cache, sizeof r->cache);
  r->o.helper = find_helper(r->helper, sizeof r->helper);
}

/* TENON_PROBE=inprocess, for emulators, under which no second program starts. */
static uint32_t no_probe(void) {
  const char *probe = env_or_null("TENON_PROBE");
  return probe && strcmp(probe, "inprocess") == 0 ? TN_RT_NO_PROBE : 0;
}

/* Not where a leak checker is to look at the process at its end. */
static uint32_t no_dump(void) {
#if defined(__SANITIZE_ADDRESS__)
  return 0;
#else
  return TN_RT_UNDUMPABLE;
#endif
}

/* Links stay in the way: who owns them counts. */
static void make_absolute(cli_runtime *r) {
  char *here = getcwd(NULL, 0);
  if (!here && errno == ENOMEM) tni_json_lacked();
  for (size_t i = 0; here && i < r->n; i++) {
    if (r->dirs[i][0] == '/') continue;
    if (!(r->absolute[i] = tni_file_in(here, r->dirs[i]))) tni_json_lacked();
    if (r->absolute[i]) r->dirs[i] = r->absolute[i];
  }
  free(here);
}

int cli_runtime_opts(cli *c, uint32_t flags, cli_runtime *r) {
  uint32_t level = TN_LOG_WARN;
  *r = (cli_runtime){0};
  int rc = log_level(c, &level);
  r->o = (tn_runtime_opts){
      .h = {sizeof r->o, 1, 0},
      .threads = (uint32_t)c->threads,
      .log_level = level,
      .log = on_log,
      .progress = on_progress,
      .progress_user = c,
      .calibration = c->calibration,
      .retry = c->retry,
      .cpus = c->cpus,
      .flags = flags | TN_RT_GUARD_FILES | no_dump() | (getauxval(AT_SECURE) ? TN_RT_PRIVILEGED : 0) | no_probe()};
  if (!rc) rc = cli_bundle_find(c, &r->bundle);
  if (rc) return rc;
  if (r->bundle.profile)
    rc = bundle_opts(c, r);
  else
    usual_opts(c, r);
  make_absolute(r);
  if (!rc && tni_json_short()) rc = cli_fail(c, tni_fail_memory(&c->err, "folders of plugins and profiles"));
  return rc;
}

void cli_runtime_finish(cli_runtime *r) {
  for (size_t i = 0; i < r->n; i++) free(r->absolute[i]);
  free(r->path_copy);
  free(r->profile_copy);
  free(r->bundle.profile);
  free(r->bundle.plugins);
  free(r->bundle.packed);
}

const char *cli_env(const char *name) { return env_or_null(name); }

int cli_open(cli *c, uint32_t flags) {
  cli_runtime *r = calloc(1, sizeof *r);
  if (!r) return cli_fail(c, TN_E_NO_MEMORY);
  int rc = cli_runtime_opts(c, flags, r);
  if (rc == 0 && tni_json_short()) rc = cli_fail(c, TN_E_NO_MEMORY);
  if (rc == 0) {
    if (!c->err.h.size) tn_long_error_init(&c->whole);
    tn_status st = tn_runtime_create(&r->o, &c->rt, &c->err);
    if (st == TN_OK) st = tn_runtime_bind_thread(c->rt, &c->err);
    /* What is wrong here is the profile (3) or a plugin (5). */
    if (st != TN_OK) rc = st == TN_E_INVALID ? cli_fail(c, st) : (cli_fail_load(c, c->operand, st), EXIT_DEVICE);
  }
  cli_runtime_finish(r);
  free(r);
  return rc;
}

/* Bytes that a model takes beside mapped files, 0: nobody knows. The limit is lifted for that. */
static long long needed_bytes(cli *c, const char *path) {
  cli fresh = {.command = c->command,
               .profile = c->profile,
               .plugin_dirs = c->plugin_dirs,
               .threads = c->threads,
               .cache_dir = c->cache_dir,
               .cpus = c->cpus,
               .log_level = c->log_level};
  const tn_model_opts o = {.h = {sizeof o, 1, 0}, .flags = TN_MODEL_INSPECT, .max_seq = c->max_seq};
  cli_runtime *r = calloc(1, sizeof *r);
  tn_model *m = NULL;
  long long bytes = 0;
  tn_long_error_init(&fresh.whole);
  if (r && cli_runtime_opts(&fresh, 0, r) == 0 && tn_runtime_create(&r->o, &fresh.rt, &fresh.err) == TN_OK &&
      tn_model_load(fresh.rt, path, &o, &m, &fresh.err) == TN_OK) {
    json_t *j = cli_report(&fresh, m, TN_REPORT_INSPECT);
    bytes = json_integer_value(json_object_get(json_object_get(j, "memory"), "anonymous_bytes"));
    json_decref(j);
  }
  tn_model_destroy(m);
  tn_runtime_destroy(fresh.rt);
  if (r) cli_runtime_finish(r);
  free(r);
  return bytes;
}

int cli_fail_load(cli *c, const char *path, tn_status st) {
  if (st != TN_E_NO_MEMORY || !c->max_memory || !path) return cli_fail(c, st);
  cli_lift_limit();
  const long long need = needed_bytes(c, path);
  if (need)
    tni_error_append(&c->err, ": --max-memory %s is too little, the model takes %.0f MB (tenon inspect lists them)",
                     c->max_memory, (double)need / 1e6 + 0.5);
  return cli_fail(c, st);
}

int cli_load(cli *c, const char *path, uint32_t flags, tn_model **out) {
  tn_model_opts o = {.h = {sizeof o, 1, 0},
                     .flags = flags,
                     .disabled_passes = c->disabled,
                     .n_disabled_passes = c->n_disabled,
                     .order_seed = (uint64_t)c->order_seed,
                     .overridable = c->overridable,
                     .n_overridable = c->n_overridable};
  cli_cancel_load(c->rt);
  tn_status st = tn_model_load(c->rt, path, &o, out, &c->err);
  cli_cancel_load(NULL);
  if (st == TN_E_UNSUPPORTED) return cli_list_unsupported(c, path);
  return st == TN_OK ? 0 : cli_fail_load(c, path, st);
}

/* --- reports ---------------------------------------------------------------------------------------------------- */

char *cli_report_text(cli *c, tn_model *m, uint32_t what) {
  char *text = NULL;
  const tn_status st = tn_model_report(m, what, &text, &c->err);
  if (st == TN_E_NO_MEMORY) tni_json_lacked();
  return st == TN_OK ? text : NULL;
}

json_t *cli_report(cli *c, tn_model *m, uint32_t what) {
  char *text = cli_report_text(c, m, what);
  if (!text) return NULL;
  json_t *j = cli_parse_report(c, text);
  tn_free(text);
  return j;
}

/* "cpu-avx2-lut 44 nodes, host 260 nodes" */
static void placement_text(json_t *phase, char *line, size_t cap) {
  size_t at = 0;
  const char *device;
  json_t *count;
  line[0] = '\0';
  json_object_foreach(json_object_get(phase, "placement"), device, count) {
    const int n =
        snprintf(line + at, cap - at, "%s%s %lld nodes", at ? ", " : "", device, (long long)json_integer_value(count));
    if (n < 0 || (size_t)n >= cap - at) break;
    at += (size_t)n;
  }
}

void cli_note_phases(json_t *check, bool products) {
  json_t *phases[] = {check, json_object_get(check, "decode")};
  for (int i = 0; i < 2 && phases[i]; i++) {
    char line[512], more[96] = "";
    const char *name = json_string_value(json_object_get(phases[i], "phase"));
    placement_text(phases[i], line, sizeof line);
    if (products)
      snprintf(more, sizeof more, "; %lld matrix products with constant weights, %lld fell back to the host",
               (long long)json_integer_value(json_object_get(phases[i], "weight_products")),
               (long long)json_integer_value(json_object_get(phases[i], "fell_back")));
    cli_note("%s: %s%s", name && strcmp(name, "any") ? name : "placement", line, more);
  }
}

void cli_note_embeddings(const json_t *report) {
  const json_t *all = json_object_get(report, "embeddings"), *tables = json_object_get(all, "tables"), *t;
  const char *wish = json_string_value(json_object_get(all, "profile"));
  size_t i;
  json_array_foreach(tables, i, t)
    if (json_object_get(t, "bits"))
      cli_note("embeddings: '%s' has %lld bits in blocks of %lld", json_string_value(json_object_get(t, "table")),
               (long long)json_integer_value(json_object_get(t, "bits")),
               (long long)json_integer_value(json_object_get(t, "block")));
  if (!wish || strcmp(wish, "packed") != 0) return;
  json_array_foreach(tables, i, t) {
    const char *name = json_string_value(json_object_get(t, "table")),
               *why = json_string_value(json_object_get(t, "reason"));
    if (why)
      cli_note("embeddings: rows of '%s' are read as they lie: %s", name, why);
    else
      cli_note("embeddings: rows of '%s' are read from what %s packs as %s", name,
               json_string_value(json_object_get(t, "device")), json_string_value(json_object_get(t, "format")));
  }
  if (json_array_size(tables) == 0) cli_note("embeddings: the host looks up no table of this model");
}

void cli_note_placement(cli *c, tn_model *m) {
  json_t *j = cli_report(c, m, TN_REPORT_PLACEMENT);
  if (j) cli_note_phases(j, false);
  json_decref(j);
}

int cli_list_unsupported(cli *c, const char *model) {
  const tn_long_error first = c->whole;
  tn_model_opts o = {.h = {sizeof o, 1, 0}, .flags = TN_MODEL_INSPECT};
  tn_model *m = NULL;
  json_t *j = tn_model_load(c->rt, model, &o, &m, &c->err) == TN_OK ? cli_report(c, m, TN_REPORT_CHECK) : NULL;
  size_t i;
  json_t *node;
  json_array_foreach(json_object_get(j, "nodes"), i, node) {
    if (c->format == FMT_JSON || !json_is_null(json_object_get(node, "device"))) continue;
    cli_say("unsupported: %s-%lld '%s'\n", json_string_value(json_object_get(node, "op")),
                     (long long)json_integer_value(json_object_get(node, "version")),
                     json_string_value(json_object_get(node, "name")));
    const char *device;
    json_t *why;
    json_object_foreach(json_object_get(node, "refusals"), device, why)
        cli_say("  %s: %s\n", device, json_string_value(json_object_get(why, "text")));
  }
  json_decref(j);
  tn_model_destroy(m);
  c->whole = first;
  return cli_fail(c, TN_E_UNSUPPORTED);
}

/* --- files ------------------------------------------------------------------------------------------------------ */

char *cli_read_stream(FILE *f, size_t *n) {
  size_t cap = 1 << 16, have = 0;
  char *buf = malloc(cap);
  while (buf) {
    have += fread(buf + have, 1, cap - have - 1, f);
    if (have < cap - 1) break;
    char *grown = realloc(buf, cap *= 2);
    if (!grown) free(buf);
    buf = grown;
  }
  if (!buf || ferror(f)) {
    const int why = errno;
    free(buf);
    errno = why;
    return NULL;
  }
  buf[have] = '\0';
  *n = have;
  return buf;
}

tn_status cli_read(const char *path, char **text, size_t *n, tn_error *err) {
  FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
  char *buf = f ? cli_read_stream(f, n) : NULL;
  const int why = errno;
  if (f && f != stdin) fclose(f);
  if (!buf) return cli_error(err, tni_errno_status(why, TN_E_IO), path, "cannot read '%s': %s", path, strerror(why));
  *text = buf;
  return TN_OK;
}
