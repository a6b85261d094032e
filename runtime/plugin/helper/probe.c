/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/json.h"
#include "runtime/plugin/plugin.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "runtime/plugin/helper/confine.h"
#include "runtime/plugin/helper/helper.h"

enum { EXIT_BROKEN = 3 };

static void say_json(json_t *j) {
  char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
  json_decref(j);
  if (!text) _exit(EXIT_BROKEN);
  size_t n = strlen(text);
  text[n++] = '\n';
  for (size_t at = 0; at < n;) {
    const ssize_t k = write(TNI_CHILD_CHANNEL, text + at, n - at);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) _exit(EXIT_BROKEN);
    at += (size_t)k;
  }
  free(text);
}

/* One probe: what the process was like before the plugin came, and the call under way. */
typedef struct probe_watch {
  tni_procstate *before;
  char so[4096];
  char stage[64];
} probe_watch;

/* What the last call left changed ends the probe. */
static void compare_states(const probe_watch *w, bool ended) {
  char what[160], text[256];
  bool bad = true;
  /* A thread that was joined may be listed for a moment more. */
  for (int turn = 0; bad && turn < (ended ? 40 : 1); turn++) {
    if (turn) usleep(1000);
    tni_procstate *now = tni_procstate_take();
    bad = !now || tni_procstate_differs(w->before, now, w->so, ended, what, sizeof what);
    if (!now) _exit(EXIT_BROKEN);
    tni_procstate_destroy(now);
  }
  if (!bad) return;
  snprintf(text, sizeof text, "misbehaves: %s %s", w->stage, what);
  say_json(json_pack("{s:s}", "misconduct", text));
  _exit(TNI_PROBE_EXIT);
}

static void at_stage(void *user, const char *what) {
  probe_watch *w = user;
  if (w->stage[0]) compare_states(w, false);
  snprintf(w->stage, sizeof w->stage, "%s", what);
  say_json(json_pack("{s:s}", "at", what));
}

/* The request, one line. */
static char *hear_request(void) {
  char *buf = malloc(TNI_PROBE_LINE);
  size_t have = 0;
  while (buf && have < TNI_PROBE_LINE - 1) {
    const ssize_t n = read(TNI_CHILD_CHANNEL, buf + have, TNI_PROBE_LINE - 1 - have);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    have += (size_t)n;
    if (buf[have - 1] == '\n') {
      buf[have] = '\0';
      return buf;
    }
  }
  free(buf);
  return NULL;
}

static const char *json_text_of(json_t *j, const char *key) {
  const char *s = json_string_value(json_object_get(j, key));
  return s ? s : "";
}

/* The options of the request as a profile's section; every text lives with j. */
static bool read_section(json_t *j, tni_profile_plugin *out) {
  json_t *list = json_object_get(j, "options"), *o;
  const size_t n = json_array_size(list);
  tni_profile_option *options = calloc(n + 1, sizeof *options);
  size_t i;
  out->options = options;
  if (!options) return false;
  json_array_foreach(list, i, o) {
    int quoted = 0, line, column, value_line, value_column;
    tni_profile_option *p = &options[out->n_options++];
    if (json_unpack(o, "[s, s, i, i, i, i, b]", &p->key, &p->value, &line, &column, &value_line, &value_column,
                    &quoted) != 0)
      return false;
    p->line = (uint32_t)line;
    p->column = (uint32_t)column;
    p->value_line = (uint32_t)value_line;
    p->value_column = (uint32_t)value_column;
    p->quoted = quoted;
  }
  return true;
}

static json_t *answer_probe(const tni_loaded *l) {
  const tni_plugin_info *i = &l->info;
  if (i->n_devices) return json_pack("{s:{s:i}}", "passed", "devices", (int)i->n_devices);
  json_t *message = json_string(i->why.message), *where = json_string(i->why.where);
  if (!message) message = json_string("(a message that is no UTF-8)");
  return json_pack("{s:{s:i, s:i, s:o, s:o, s:b}}", "refused", "status", (int)i->why.code, "vendor",
                   (int)i->why.vendor_code, "where", where ? where : json_string(""), "message", message, "profile",
                   l->profile_mistake);
}

/* The walls of the manifest's level, but for the system calls: a plugin that passes runs in the host, where nobody
 * filters them, so that what it changes of its process must not fail here only. False: no second process. */
static bool settle_probe(json_t *j, const char *name, const char *folder, const char *cache, tni_walls *w) {
  const bool driver = json_integer_value(json_object_get(j, "confine")) == TNI_CONFINE_DRIVER;
  const helper_settling how = {driver ? TNI_CONFINE_DRIVER : TNI_CONFINE_STRICT, TNI_CONFINE_DRIVER, TNI_CHILD_CHANNEL};
  helper_places places = {.name = name, .folder = folder, .cache_dir = *cache ? cache : NULL};
  int pid = 0;
  if (!helper_settle(&how, &places, &pid, w)) return false;
  say_json(json_pack("{s:{s:i, s:i}}", "walls", "stand", (int)w->stand, "landlock", (int)w->landlock));
  return true;
}

/* The paths of the request. */
typedef struct probe_paths {
  char *folder, *cache, *file;
} probe_paths;

static int run_probe(json_t *j, const probe_paths *p) {
  const char *const dirs[] = {p->folder}, *cache = p->cache;
  tni_walls walls;
  tni_profile_plugin section = {.name = json_text_of(j, "name"),
                                .line = (uint32_t)json_integer_value(json_object_get(j, "line"))};
  if (!*section.name || dirs[0][0] != '/' || !read_section(j, &section)) return EXIT_BROKEN;
  if (!settle_probe(j, section.name, dirs[0], cache, &walls)) return EXIT_BROKEN;
  probe_watch w = {.before = tni_procstate_take()};
  if (!w.before) return EXIT_BROKEN;
  snprintf(w.so, sizeof w.so, "%s/%s.so", dirs[0], section.name);
  tni_registry_opts o = {.dirs = dirs,
                         .n_dirs = 1,
                         .cache_dir = *cache ? cache : NULL,
                         .max_workers = (uint32_t)json_integer_value(json_object_get(j, "workers")),
                         .memory_limit = (uint64_t)json_integer_value(json_object_get(j, "memory")),
                         .checked = json_is_true(json_object_get(j, "checked")),
                         .privileged = json_is_true(json_object_get(j, "privileged")),
                         .allow_shared_writable = json_is_true(json_object_get(j, "shared")),
                         .any_owner = (walls.stand & TNI_WALL_NAMESPACES) != 0, /* as in serve.c */
                         .stage = at_stage,
                         .stage_user = &w};
  tni_loaded *l = NULL;
  tn_error err;
  tni_error_init(&err);
  if (tni_loaded_create(&o, section.name, p->file, &section, &l, &err) != TN_OK) return EXIT_BROKEN;
  json_t *said = answer_probe(l);
  const bool resident = l->info.plugin && l->info.plugin->flags & TN_PLUGIN_RESIDENT;
  (void)tni_loaded_destroy(l);
  if (w.stage[0]) compare_states(&w, !resident);
  tni_procstate_destroy(w.before);
  free((void *)(uintptr_t)section.options);
  say_json(json_pack("{s:s}", "at", "what it runs when the process ends"));
  say_json(said);
  return TNI_PROBE_EXIT;
}

static int find_paths(json_t *j) {
  const probe_paths p = {tni_probe_path_of_text(json_text_of(j, "folder")),
                         tni_probe_path_of_text(json_text_of(j, "cache")),
                         tni_probe_path_of_text(json_text_of(j, "file"))};
  const int status = p.folder && p.cache && p.file ? run_probe(j, &p) : EXIT_BROKEN;
  free(p.folder);
  free(p.cache);
  free(p.file);
  return status;
}

int helper_probe(int argc, char **argv) {
  (void)argv;
  if (argc != 1) return EXIT_BROKEN;
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* the thread that asked waits for the answer */
  char *line = hear_request();
  json_t *j = line ? json_loads(line, 0, NULL) : NULL;
  const int status = j ? find_paths(j) : EXIT_BROKEN;
  json_decref(j);
  free(line);
  return status;
}
