/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cli/page/rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>


/* Formats that are shown where nothing else is asked for and the device states them; the default is w4g:32. */
static const char *const usual[] = {"w8g", "w4g:128", "lev4s", "lev4", "w3g", "lev3", "w2g", "lev2", "lev1", "e0m4"};
enum { USUAL = sizeof usual / sizeof *usual };
static const char mixed_bits[] = "3.5";

static const char *text_of(const json_t *j, const char *key) { return json_string_value(json_object_get(j, key)); }

/* --- the plan --- */

static json_t *add_row(json_t *rows, const char *id, const char *label, const char *group, const char *model) {
  json_t *row = json_pack("{s:s, s:s, s:s, s:s}", "id", id, "label", label, "group", group, "model", model);
  json_array_append_new(rows, row);
  return row;
}

/* A profile of its own: WORK/ID.yaml. */
static tn_status set_profile(page_asker *a, json_t *row, const char *yaml) {
  char path[PAGE_PATH];
  snprintf(path, sizeof path, "%s/%s.yaml", a->work, text_of(row, "id"));
  FILE *f = fopen(path, "w");
  int why = f ? 0 : errno;
  if (f && fprintf(f, "%s\n", yaml) < 0) why = errno;
  const int closed = f ? tni_close_written(f) : 0;
  if (!why) why = closed;
  json_object_set_new(row, "profile", json_string(path));
  json_object_set_new(row, "yaml", json_string(yaml));
  return why ? tni_fail(a->err, tni_errno_status(why, TN_E_IO), path, "cannot write '%s': %s", path, strerror(why)) : TN_OK;
}

static tn_status plan_floats(page_asker *a, json_t *rows) {
  static const char *const caches[] = {"f16", "bf16", "int8", "int4"};
  json_t *row = add_row(rows, "f32", "f32", "floats", a->with->model);
  json_object_set_new(row, "profile", json_string("host"));
  for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
    char id[32], label[32], yaml[64];
    snprintf(id, sizeof id, "kv-%s", caches[i]);
    snprintf(label, sizeof label, "f32, cache %s", caches[i]);
    snprintf(yaml, sizeof yaml, "{plugins: [host], kv: %s}", caches[i]);
    const tn_status st = set_profile(a, add_row(rows, id, label, "floats", a->with->model), yaml);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

/* The first device of the profile that has weight formats. */
static json_t *find_device(const json_t *report) {
  size_t i;
  json_t *p;
  json_array_foreach(json_object_get(report, "plugins"), i, p) {
    if (json_array_size(json_object_get(p, "devices")) && json_array_size(json_object_get(p, "formats"))) return p;
  }
  return NULL;
}

/* n bytes of name, up to its params. */
static bool states(const json_t *device, const char *weights) {
  size_t i;
  json_t *f;
  const size_t n = strcspn(weights, ":");
  json_array_foreach(json_object_get(device, "formats"), i, f) {
    const char *name = text_of(f, "name");
    if (name && strlen(name) == n && strncmp(name, weights, n) == 0) return true;
  }
  return false;
}

/* "w4g:32" as part of an id: a file's name. */
static void name_of(const char *weights, char *out, size_t room) {
  snprintf(out, room, "%s", weights);
  for (char *p = out; *p; p++)
    if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789", *p)) *p = '-';
}

static tn_status plan_rounded(page_asker *a, json_t *rows, const char *device, const char *weights) {
  char id[64], yaml[256];
  const size_t n = strcspn(weights, ":");
  name_of(weights, id, sizeof id);
  snprintf(yaml, sizeof yaml, "{plugins: [{name: %s, options: {format: %.*s%s%s}}, host], require: [%s]}", device, (int)n,
           weights, weights[n] ? ", group: " : "", weights[n] ? weights + n + 1 : "", device);
  return set_profile(a, add_row(rows, id, weights, "rounded", a->with->model), yaml);
}

/* A folder of tenon quantize. Its codes are kept by the default profile. */
static void plan_calibrated(page_asker *a, json_t *rows, const char *key, const char *value, const char *label) {
  char id[96], folder[PAGE_PATH];
  name_of(value, id, sizeof id - 16);
  strcat(id, "-calibrated");
  snprintf(folder, sizeof folder, "%s/%s", a->work, id);
  json_object_set_new(add_row(rows, id, label, "calibrated", folder), key, json_string(value));
}

static tn_status plan_weights(page_asker *a, json_t *rows, const json_t *device) {
  const char *const *asked = a->with->weights, *name = text_of(device, "name");
  char label[80];
  tn_status st = TN_OK;
  if (!device) return TN_OK;
  for (size_t i = 0; st == TN_OK && (asked ? asked[i] != NULL : i < USUAL); i++) {
    const char *w = asked ? asked[i] : usual[i];
    if (asked || states(device, w)) st = plan_rounded(a, rows, name, w);
  }
  if (st != TN_OK || !a->with->calibration) return st;
  plan_calibrated(a, rows, "weights", "w4g:32", "w4g:32, calibrated");
  for (size_t i = 0; asked ? asked[i] != NULL : i < USUAL; i++) {
    const char *w = asked ? asked[i] : usual[i];
    if (strcmp(w, "w4g:32") == 0 || (!asked && (!states(device, w) || strcmp(w, "w8g") == 0 || strcmp(w, "e0m4") == 0)))
      continue;
    snprintf(label, sizeof label, "%.40s, calibrated", w);
    plan_calibrated(a, rows, "weights", w, label);
  }
  plan_calibrated(a, rows, "bits", mixed_bits, "3.5 bits, mixed");
  return TN_OK;
}

json_t *page_rows_plan(page_asker *a) {
  json_t *rows = json_array(), *plugins = NULL;
  page_words w = {0};
  page_say(&w, (const char *const[]){"plugins", "--formats", NULL});
  if (a->with->profile) page_say(&w, (const char *const[]){"--profile", a->with->profile, NULL});
  tn_status st = plan_floats(a, rows);
  if (st == TN_OK) st = page_ask(a, "plugins", &w, &plugins);
  if (st == TN_OK && !plugins)
    st = tni_fail(a->err, TN_E_UNAVAILABLE, "plugins", "tenon plugins: %s", page_why(a, "plugins"));
  json_t *row = st == TN_OK ? add_row(rows, "default", "default", "rounded", a->with->model) : NULL;
  if (row && a->with->profile) json_object_set_new(row, "profile", json_string(a->with->profile));
  if (st == TN_OK) st = plan_weights(a, rows, find_device(plugins));
  json_decref(plugins);
  if (st == TN_OK && tni_json_short()) st = tni_fail_memory(a->err, a->with->model);
  if (st == TN_OK) return rows;
  json_decref(rows);
  return NULL;
}

/* --- a row --- */

static bool is_float(const json_t *row) { return strcmp(text_of(row, "group"), "floats") == 0; }

static bool is_base(const json_t *row) { return strcmp(text_of(row, "id"), "f32") == 0; }

static bool is_made(const json_t *row) { return json_object_get(row, "weights") || json_object_get(row, "bits"); }

int page_row_commands(const page_asker *a, const json_t *row) {
  return 4 + (a->with->text != NULL) + !is_float(row) + is_made(row);
}

/* Asks `command MODEL WORDS... --profile P`, and keeps what it gave under `key`. */
static tn_status ask_row(page_asker *a, json_t *row, const char *key, const char *command, const char *const *words) {
  char id[160];
  page_words w = {0};
  json_t *answer = NULL;
  snprintf(id, sizeof id, "%s.%s", text_of(row, "id"), key);
  page_say(&w, (const char *const[]){command, text_of(row, "model"), NULL});
  page_say(&w, words);
  if (text_of(row, "profile")) page_say(&w, (const char *const[]){"--profile", text_of(row, "profile"), NULL});
  const tn_status st = page_ask(a, id, &w, &answer);
  if (st == TN_OK && answer) json_object_set_new(row, key, answer);
  return st;
}

static tn_status ask_eval(page_asker *a, json_t *row) {
  char most[32];
  page_words w = {0};
  snprintf(most, sizeof most, "%d", a->with->max_tokens);
  page_say(&w, (const char *const[]){"--text", a->with->text, "--max-tokens", most, NULL});
  if (!is_base(row)) page_say(&w, (const char *const[]){"--against", "host", NULL});
  if (is_made(row)) page_say(&w, (const char *const[]){"--original", a->with->model, NULL});
  return ask_row(a, row, "eval", "eval", w.v);
}

/* *made: the folder is there. One that a killed call left is made anew. */
static tn_status make_folder(page_asker *a, json_t *row, bool *made) {
  const char *folder = text_of(row, "model"), *weights = text_of(row, "weights");
  char id[160];
  json_t *answer = NULL;
  page_words w = {0};
  snprintf(id, sizeof id, "%s.quantize", text_of(row, "id"));
  page_say(&w, (const char *const[]){"quantize", a->with->model, "-o", folder, "--text", a->with->calibration, NULL});
  page_say(&w, (const char *const[]){weights ? "--weights" : "--bits", weights ? weights : text_of(row, "bits"), NULL});
  if (!page_known(a, id, &w) || access(folder, R_OK) != 0) {
    char kept[PAGE_PATH + 16];
    snprintf(kept, sizeof kept, "%s/%s.json", a->work, id);
    (void)unlink(kept);
    page_remove(folder);
  }
  const tn_status st = page_ask(a, id, &w, &answer);
  *made = answer != NULL;
  if (answer) json_object_set_new(row, "quantize", answer);
  return st;
}

tn_status page_row_fill(page_asker *a, json_t *row) {
  char n[4][32];
  const int v[4] = {a->with->n_prompt, a->with->n_gen, a->with->rounds, a->with->sample};
  bool made = true;
  for (int i = 0; i < 4; i++) snprintf(n[i], sizeof n[i], "%d", v[i]);
  tn_status st = is_made(row) ? make_folder(a, row, &made) : TN_OK;
  if (st != TN_OK || !made) return st;
  if (a->with->text) st = ask_eval(a, row);
  if (st == TN_OK)
    st = ask_row(a, row, "bench", "bench", (const char *const[]){"-p", n[0], "-n", n[1], "-r", n[2], NULL});
  if (st == TN_OK) st = ask_row(a, row, "inspect", "inspect", (const char *const[]){NULL});
  if (st == TN_OK) st = ask_row(a, row, "check", "check", (const char *const[]){NULL});
  if (st == TN_OK && !is_float(row)) st = ask_row(a, row, "pack", "pack", (const char *const[]){"--report", NULL});
  if (st == TN_OK)
    st = ask_row(a, row, "run", "run",
                 (const char *const[]){"-p", a->with->prompt, "-n", n[3], "--temp", "0", NULL});
  return st;
}
