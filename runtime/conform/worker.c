/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon-conform: the program in which the cases of `tenon conform` run. Not for users: no help, the parent
 * writes its command line.
 *   tenon-conform list SUBJECT                                  the listing and the names of cases
 *   tenon-conform case NAME... --listing FILE --seed N SUBJECT  these cases, up to the first that fails
 * SUBJECT: --plugin FILE, --option KEY=VALUE ..., --device N, --cache-dir DIR, --model DIR, --replay DIR, --thorough;
 * --blind: nothing of the plugin is run for the list. Results go to descriptor 3 (case/case.h), exit status 0; 2: not
 * understood.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/base/json.h"
#include "runtime/conform/case/case.h"
#include "runtime/conform/conform.h"
#include "runtime/conform/listing.h"
#include "runtime/conform/observe/observe.h"
#include "runtime/conform/survey.h"
#include "runtime/options/options.h"
#include "runtime/profile/profile.h"

typedef struct worker_args {
  char *plugin, *cache_dir, *model, *replay, *listing, **options, *profile, *profile_dir, *section;
  int device, thorough, blind, seconds;
  double patience;
  long long seed;
} worker_args;

static json_t *case_json(const tni_cf_case *c) {
  return json_pack("{s:s, s:I, s:I, s:I}", "name", c->name, "levels", (json_int_t)c->levels, "flags",
                   (json_int_t)c->flags, "timeout_ms", (json_int_t)c->timeout_ms);
}

static void add_json(void *ctx, const tni_cf_case *c) { json_array_append_new(ctx, case_json(c)); }

static int cases_list(tni_cf_listing *l, bool blind, FILE *out) {
  if (!blind) tni_cf_survey(l);
  json_t *cases = json_array(), *listing = tni_cf_listing_json(l);
  tni_cf_all_cases(l, add_json, cases);
  json_t *o = json_pack("{s:o, s:o}", "listing", listing, "cases", cases);
  int bad = !o || json_dumpf(o, out, JSON_COMPACT) || fputc('\n', out) == EOF || fflush(out);
  json_decref(o);
  return bad ? 2 : 0;
}

typedef struct case_search {
  const char *name;
  tni_cf_case found;
} case_search;

static void add_found(void *ctx, const tni_cf_case *c) {
  case_search *s = ctx;
  if (!strcmp(c->name, s->name)) s->found = *c;
}

enum { MOST_LISTING = 64 << 20 }; /* bytes; the real ones have some hundred */

static tn_status read_listing(const char *path, tni_cf_listing *l, tn_error *err) {
  tni_file f;
  json_error_t e;
  if (!path) return tni_fail(err, TN_E_INVALID, NULL, "--listing is not given");
  tn_status st = tni_trust_read(path, TNI_TRUST_ANY, MOST_LISTING, "a listing", &f, err);
  if (st != TN_OK) return st;
  json_t *j = json_loadb(f.data ? f.data : "", (size_t)f.bytes, JSON_REJECT_DUPLICATES, &e);
  tni_file_unmap(&f);
  if (!j && tni_json_no_memory(&e)) return tni_fail_memory(err, path);
  if (!j) return tni_fail(err, TN_E_INVALID, path, "not valid JSON: line %d column %d: %s", e.line, e.column, e.text);
  st = tni_cf_listing_read(j, l, err);
  json_decref(j);
  return st;
}

static int ask_cases(tni_cf_listing *l, const worker_args *w, const char *const *names, FILE *out) {
  tn_error err;
  tni_error_init(&err);
  if (read_listing(w->listing, l, &err) != TN_OK)
    return fprintf(stderr, "no listing: %s: %s\n", err.where, err.message), 2;
  tni_cf_observe_signals(TNI_CF_REPORT_FD);
  for (uint32_t verdict = TNI_CF_PASS; *names && verdict != TNI_CF_FAIL; names++) {
    case_search s = {.name = *names};
    tni_cf_all_cases(l, add_found, &s);
    if (!s.found.run) return fprintf(stderr, "there is no case %s\n", *names), 2;
    s.found.name = *names;
    verdict = tni_cf_run_case(&s.found, l, (uint64_t)w->seed, out);
  }
  return 0;
}

static uint32_t strings_count(char *const *v) {
  uint32_t n = 0;
  while (v && v[n]) n++;
  return n;
}

/* The options that a profile gives the plugin, then those of the command line. NULL: err. */
static const char *const *all_options(tni_arena *a, const worker_args *w, const char *name, uint32_t *n,
                                      tn_error *err) {
  const uint32_t own = strings_count(w->options);
  const tni_profile_plugin *section = NULL;
  tni_profile *p = NULL;
  if (w->profile) {
    const char *const dirs[] = {w->profile_dir};
    if (tni_profile_load(w->profile, dirs, w->profile_dir != NULL, &p, err) != TN_OK) return NULL;
    for (uint32_t i = 0; i < p->n_plugins; i++)
      if (!strcmp(p->plugins[i].name, w->section ? w->section : name)) section = &p->plugins[i];
    if (!section)
      return tni_fail(err, TN_E_INVALID, p->file, "has no plugin '%s'", w->section ? w->section : name), NULL;
  }
  const uint32_t theirs = section ? section->n_options : 0;
  const char **v = TNI_NEW_ARRAY(a, const char *, theirs + own + 1);
  for (uint32_t i = 0; v && i < theirs; i++) {
    char text[1024];
    snprintf(text, sizeof text, "%s=%s", section->options[i].key, section->options[i].value);
    v[(*n)++] = tni_arena_strdup(a, text);
  }
  for (uint32_t i = 0; v && i < own; i++) v[(*n)++] = w->options[i];
  return v; /* the profile stays: its strings may be looked at */
}

/* File name without its folder and ".so"; and without "lib" where no manifest of that name lies beside it: libNAME.so
 * is found as NAME. */
static char *name_of(tni_arena *a, const char *path) {
  const char *slash = strrchr(path, '/');
  char beside[4200], *name = tni_arena_strdup(a, slash ? slash + 1 : path);
  const size_t n = name ? strlen(name) : 0;
  if (n > 3 && !strcmp(name + n - 3, ".so")) name[n - 3] = '\0';
  snprintf(beside, sizeof beside, "%.*s%s.yaml", slash ? (int)(slash + 1 - path) : 0, path, name ? name : "");
  return name && !strncmp(name, "lib", 3) && name[3] && access(beside, F_OK) != 0 ? name + 3 : name;
}

int main(int argc, const char **argv) {
  worker_args w = {0};
  const opt_row rows[] = {{"plugin", 0, OPT_TEXT, &w.plugin, "FILE", NULL, NULL, NULL},
                          {"option", 0, OPT_LIST, &w.options, "KEY=VALUE", NULL, NULL, NULL},
                          {"cache-dir", 0, OPT_TEXT, &w.cache_dir, "DIR", NULL, NULL, NULL},
                          {"model", 0, OPT_TEXT, &w.model, "MODEL", NULL, NULL, NULL},
                          {"replay", 0, OPT_TEXT, &w.replay, "DIR", NULL, NULL, NULL},
                          {"profile", 0, OPT_TEXT, &w.profile, "NAME", NULL, NULL, NULL},
                          {"profile-dir", 0, OPT_TEXT, &w.profile_dir, "DIR", NULL, NULL, NULL},
                          {"section", 0, OPT_TEXT, &w.section, "NAME", NULL, NULL, NULL},
                          {"listing", 0, OPT_TEXT, &w.listing, "FILE", NULL, NULL, NULL},
                          {"device", 0, OPT_INT, &w.device, "N", "0..", NULL, NULL},
                          {"seed", 0, OPT_LONG, &w.seed, "N", NULL, NULL, NULL},
                          {"seconds", 0, OPT_INT, &w.seconds, "N", "0..", NULL, NULL},
                          {"patience", 0, OPT_REAL, &w.patience, "X", "0..1000", NULL, NULL},
                          {"thorough", 0, OPT_FLAG, &w.thorough, NULL, NULL, NULL, NULL},
                          {"blind", 0, OPT_FLAG, &w.blind, NULL, NULL, NULL, NULL},
                          OPT_ROWS_END};
  const struct rlimit none = {0, 0};
  (void)setrlimit(RLIMIT_CORE, &none); /* crashes are expected here, hundreds of them */
  (void)prctl(PR_SET_PDEATHSIG, 9);
  opts o = {.tables = {{"", rows}}};
  const bool parsed = opts_parse(&o, argc, argv);
  const char *const *rest = o.rest;
  tni_arena *a = tni_arena_create();
  FILE *out = fdopen(TNI_CF_REPORT_FD, "w");
  int result = 2;
  tn_error err;
  tni_error_init(&err);
  tni_cf_subject subject = {.path = w.plugin,
                            .device = (uint32_t)w.device,
                            .cache_dir = w.cache_dir,
                            .model = w.model,
                            .replay = w.replay,
                            .thorough = w.thorough != 0,
                            .patience = w.patience,
                            .seconds = (uint32_t)w.seconds};
  const bool understood = parsed && rest[0] && w.plugin && a && out;
  if (understood) {
    subject.name = name_of(a, w.plugin);
    subject.options = all_options(a, &w, subject.name, &subject.n_options, &err);
  }
  if (understood && subject.options) {
    tni_cf_listing l = {.arena = a, .subject = &subject};
    if (!strcmp(rest[0], "list")) result = cases_list(&l, w.blind != 0, out);
    if (!strcmp(rest[0], "case") && rest[1]) result = ask_cases(&l, &w, rest + 1, out);
  } else {
    fprintf(stderr, "%s\n", err.message[0] ? err.message : "tenon-conform is started by `tenon conform`");
  }
  if (out) fclose(out);
  tni_arena_destroy(a);
  opts_finish(&o);
  return result;
}
