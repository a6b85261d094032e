/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/load/first.h"
#include "runtime/base/json.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "runtime/plugin/plugin.h"

static const char verdict_mark[] = "tenon probe 2";

enum { KEY_BYTES = sizeof verdict_mark + 32 };

void tni_content_begin(tni_loaded *l, const void *yaml, uint64_t n) {
  static const char version[] = TENON_VERSION;
  SHA256Init(&l->hashing);
  SHA256Update(&l->hashing, (const uint8_t *)version, sizeof version);
  SHA256Update(&l->hashing, (const uint8_t *)&n, sizeof n);
  if (n) SHA256Update(&l->hashing, yaml, (size_t)n);
}

void tni_content_end(tni_loaded *l, const uint8_t sum[32]) {
  SHA256Update(&l->hashing, sum, 32);
  SHA256Final(l->content, &l->hashing);
}

/* ------------------------------------------------------------------------------------------------------- memory */

static void key_of(const tni_loaded *l, uint8_t key[KEY_BYTES]) {
  memcpy(key, verdict_mark, sizeof verdict_mark);
  memcpy(key + sizeof verdict_mark, l->content, 32);
}

static void options_of(const tni_profile_plugin *s, char text[17]) {
  XXH64_hash_t h = 0;
  for (uint32_t i = 0; s && i < s->n_options; i++) {
    h = XXH3_64bits_withSeed(s->options[i].key, strlen(s->options[i].key) + 1, h);
    h = XXH3_64bits_withSeed(s->options[i].value, strlen(s->options[i].value) + 1, h);
  }
  snprintf(text, 17, "%016" PRIx64, (uint64_t)h);
}

static json_t *recall_probe(const tni_registry_opts *o, const tni_loaded *l) {
  char dir[PATH_MAX];
  uint8_t key[KEY_BYTES];
  const void *data;
  uint64_t n;
  tni_file f;
  if (!o->cache_dir) return NULL;
  if (snprintf(dir, sizeof dir, "%s/plugins/%s", o->cache_dir, l->info.name) >= (int)sizeof dir) return NULL;
  key_of(l, key);
  if (tni_blob_get(dir, key, sizeof key, o->log, &f, &data, &n) != TN_OK) return NULL;
  json_t *j = json_loadb(data, (size_t)n, 0, NULL);
  tni_file_unmap(&f);
  return j;
}

static void remember_probe(const tni_registry_opts *o, const tni_loaded *l, json_t *j) {
  uint8_t key[KEY_BYTES];
  tn_error err;
  tni_error_init(&err);
  char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
  key_of(l, key);
  tn_status st = TN_E_UNAVAILABLE;
  if (text && o->cache_dir) st = tni_blob_put(o->cache_dir, l->info.name, key, sizeof key, text, strlen(text), &err);
  if (st != TN_OK)
    tni_log_line(o->log, l->info.quarantined ? TN_LOG_WARN : TN_LOG_INFO,
                 "plugin %s: the result of its probe is not remembered: %s", l->info.name,
                 o->cache_dir ? err.message : "there is no cache folder");
  free(text);
  json_decref(j);
}

/* -------------------------------------------------------------------------------------------------------- verdict */

static tn_status in_quarantine(tni_loaded *l, json_t *known, const char *what) {
  const char *since = json_string_value(json_object_get(known, "date"));
  l->info.probed = l->info.remembered = l->info.quarantined = true;
  l->info.since = tni_arena_strdup(l->arena, since ? since : "");
  if (!l->info.since) l->info.since = "";
  return tni_fail(&l->info.why, TN_E_INTERNAL, l->info.path,
                  "%s (in quarantine since %s; 'tenon plugins --retry %s' tries it again)", what, l->info.since,
                  l->info.name);
}

static tni_walls known_walls(const tni_loaded *l, json_t *known) {
  return (tni_walls){.level = l->manifest.confine,
                     .stand = (uint32_t)json_integer_value(json_object_get(known, "stand")),
                     .landlock = (uint32_t)json_integer_value(json_object_get(known, "landlock"))};
}

static void today_text(char text[32]) {
  const time_t now = time(NULL);
  struct tm t;
  if (!gmtime_r(&now, &t) || !strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &t)) snprintf(text, 32, "an unknown time");
}

static tn_status probe_first(const tni_registry_opts *o, tni_loaded *l, const char *so, const char *profile_file,
                             const tni_profile_plugin *section, const char *options, bool again) {
  const tni_probe_what what = {l->info.name, l->folder, so, profile_file, section, l->manifest.confine};
  tni_probe_result result;
  char date[32];
  const tn_status st = tni_probe_run(o, &what, &result, &l->info.why);
  today_text(date);
  l->info.probed = true;
  l->info.probe_ms = result.ms;
  l->info.probe_walls = result.walls;
  l->profile_mistake = result.profile_mistake;
  l->info.quarantined = result.misconduct;
  if (st == TN_OK)
    remember_probe(o, l, json_pack("{s:f, s:s, s:s, s:i, s:i}", "passed", result.ms, "options", options, "date", date,
                                "stand", (int)result.walls.stand, "landlock", (int)result.walls.landlock));
  else if (!result.misconduct && again)
    remember_probe(o, l, json_pack("{s:s}", "lifted", date));
  if (!result.misconduct) return st;
  char *since = tni_arena_strdup(l->arena, date);
  l->info.since = since ? since : "";
  remember_probe(o, l, json_pack("{s:s, s:s}", "quarantined", l->info.why.message, "date", date));
  return st;
}

tn_status tni_first_load(const tni_registry_opts *o, tni_loaded *l, const char *so, const char *profile_file,
                         const tni_profile_plugin *section) {
  const uint32_t said = section ? section->probe : TNI_PROBE_UNSAID;
  if (said == TNI_PROBE_INPROCESS || (said == TNI_PROBE_UNSAID && !l->probe_by_default)) return TN_OK;
  char options[17];
  options_of(section, options);
  const bool again = o->retry && strcmp(o->retry, l->info.name) == 0;
  json_t *known = again ? NULL : recall_probe(o, l);
  const char *bad = json_string_value(json_object_get(known, "quarantined"));
  const char *of = json_string_value(json_object_get(known, "options"));
  tn_status st;
  if (bad) {
    st = in_quarantine(l, known, bad);
  } else if (json_is_number(json_object_get(known, "passed")) && of && strcmp(of, options) == 0) {
    l->info.probed = l->info.remembered = true;
    l->info.probe_ms = json_number_value(json_object_get(known, "passed"));
    l->info.probe_walls = known_walls(l, known);
    st = TN_OK;
  } else {
    st = probe_first(o, l, so, profile_file, section, options, again);
  }
  json_decref(known);
  return st;
}
