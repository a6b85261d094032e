/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/run/run.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/conform/case/case.h"
#include "runtime/conform/run/child.h"
#include "runtime/conform/run/judge.h"

enum { MAX_ARGS = 512, LIST_LIMIT_MS = 60000, QUICK_MS = 20000, THOROUGH_MS = 100000, MANY_HUNG = 4, STOOD_S = 2 };
enum { MOST_TOGETHER = 8 };

typedef struct arguments {
  const char *v[MAX_ARGS];
  char patience[24];
  uint32_t n;
} arguments;

static void argument_add(arguments *a, const char *s) {
  if (a->n + 1 < MAX_ARGS) a->v[a->n++] = s;
  a->v[a->n] = NULL;
}

static void start_args(arguments *a, const tni_cf_run_opts *o, const char *what) {
  a->n = 0;
  for (uint32_t i = 0; i < o->n_wrapper; i++) argument_add(a, o->wrapper[i]);
  argument_add(a, o->worker);
  argument_add(a, what);
  for (uint32_t i = 0; i < o->n_subject; i++) argument_add(a, o->subject[i]);
  if (o->thorough) argument_add(a, "--thorough");
  snprintf(a->patience, sizeof a->patience, "%.4f", o->patience);
  argument_add(a, "--patience"), argument_add(a, a->patience);
  if (o->seconds) argument_add(a, "--seconds"), argument_add(a, o->seconds);
  if (o->cache_dir) argument_add(a, "--cache-dir"), argument_add(a, o->cache_dir);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
  (void)st, (void)kind, (void)at;
  return remove(path);
}

/* Whether a name matches: '*' any text, '?' one character. */
static bool glob_matches(const char *glob, const char *name) {
  for (; *glob && *glob != '*'; glob++, name++)
    if (!*name || (*glob != '?' && *glob != *name)) return false;
  if (!*glob) return !*name;
  while (*glob == '*') glob++;
  for (;; name++) {
    if (glob_matches(glob, name)) return true;
    if (!*name) return false;
  }
}

/* --- listing ----------------------------------------------------------------------------------------------------- */

/* One list worker to its end. 0, or errno. */
static int listing_ask(const tni_cf_run_opts *o, bool blind, tni_cf_child *c) {
  arguments a;
  start_args(&a, o, "list");
  if (blind) argument_add(&a, "--blind");
  const int e = tni_cf_child_start(c, a.v, LIST_LIMIT_MS / 1e3 * o->patience);
  while (!e && !tni_cf_child_poll(c)) {
    (void)poll(NULL, 0, 3);
    if (o->interrupted && o->interrupted()) tni_cf_child_kill(c);
  }
  return e;
}

static bool case_wanted(const tni_cf_run_opts *o, const char *name, uint32_t levels, uint32_t flags) {
  if (o->level ? !(levels & o->level) : flags & TNI_CF_REQUIRED) return false;
  if ((flags & TNI_CF_THOROUGH_ONLY) && !o->thorough) return false;
  bool named = o->n_globs == 0;
  for (uint32_t i = 0; i < o->n_globs; i++) named = named || glob_matches(o->globs[i], name);
  return named;
}

static tni_cf_result *new_result(tni_cf_report *r, const char *name) {
  tni_cf_result *bigger = realloc(r->results, (r->n + 1) * sizeof *bigger);
  if (!bigger) tni_json_lacked();
  if (!bigger) return NULL;
  r->results = bigger;
  tni_cf_result *one = &bigger[r->n++];
  *one = (tni_cf_result){.name = strdup(name), .findings = json_array(), .notes = json_array()};
  if (one->name) return one;
  tni_json_lacked();
  json_decref(one->findings);
  json_decref(one->notes);
  r->n--;
  return NULL;
}

/* Whether a case is asked where no device is open: what a level requires is not there then, where the plugin loads. */
static bool asked_without_device(const tni_cf_report *r, uint32_t flags) {
  if (flags & TNI_CF_NO_DEVICE) return true;
  return flags & TNI_CF_REQUIRED && json_is_true(json_object_get(r->listing, "loaded"));
}

static void take_cases(const tni_cf_run_opts *o, const json_t *cases, bool no_device, tni_cf_report *r) {
  for (size_t i = 0; i < json_array_size(cases); i++) {
    const json_t *c = json_array_get(cases, i);
    const char *name = json_string_value(json_object_get(c, "name"));
    const uint32_t flags = (uint32_t)json_integer_value(json_object_get(c, "flags"));
    const uint32_t ms = (uint32_t)json_integer_value(json_object_get(c, "timeout_ms"));
    if (!name || !case_wanted(o, name, (uint32_t)json_integer_value(json_object_get(c, "levels")), flags)) continue;
    tni_cf_result *one = new_result(r, name);
    if (!one) return;
    one->together = flags & TNI_CF_TOGETHER;
    one->timeout_ms = ms ? ms : o->thorough ? THOROUGH_MS : QUICK_MS;
    if (no_device && !asked_without_device(r, flags)) {
      one->verdict = TNI_CF_SKIPPED;
      one->skip = strdup("the plugin has no open device here");
    }
  }
}

/* The cases. A plugin that ends the listing is asked what needs no listing. */
static int list_cases(const tni_cf_run_opts *o, tni_cf_report *r, char *why, uint32_t n_why) {
  tni_cf_child c;
  int e = listing_ask(o, false, &c);
  if (e) return snprintf(why, n_why, "%s: %s", o->worker, strerror(e)), tni_cf_child_finish(&c), -1;
  json_t *all = c.report.s ? json_loads(c.report.s, 0, NULL) : NULL;
  if (!all) {
    tni_cf_result *one = new_result(r, "life/list");
    if (one) {
      tni_cf_result_judge(one, &c);
      tni_cf_add_finding(one, "while the plugin was loaded, listed and asked for claims");
    }
    tni_cf_child_finish(&c);
    e = listing_ask(o, true, &c);
    all = !e && c.report.s ? json_loads(c.report.s, 0, NULL) : NULL;
    if (!all) {
      char end[256] = "it said nothing";
      (void)tni_cf_child_end(&c, end, sizeof end);
      snprintf(why, n_why, "%s: %s%s%.300s", o->worker, end, c.output.n ? ": " : "", c.output.n ? c.output.s : "");
      return tni_cf_child_finish(&c), -1;
    }
  }
  tni_cf_child_finish(&c);
  r->listing = json_incref(json_object_get(all, "listing"));
  const bool open = json_is_null(json_object_get(r->listing, "why"));
  take_cases(o, json_object_get(all, "cases"), !open, r);
  json_decref(all);
  return 0;
}

/* --- running ----------------------------------------------------------------------------------------------------- */

/* A worker and its cases, one after the other. */
typedef struct run_slot {
  tni_cf_child child;
  uint32_t n, at[MOST_TOGETHER]; /* indices of their results */
  uint32_t n_ended;
  double ended[MOST_TOGETHER]; /* when */
} run_slot;

typedef struct case_runner {
  const tni_cf_run_opts *o;
  tni_cf_report *r;
  run_slot *slots;
  uint32_t next, done;
  bool *begun, *alone;  /* by case. alone: it did not pass together with others */
  uint32_t hung, since; /* cases that took too long; those that have ended since the first of them */
  double deadline;      /* 0: none */
  double half;          /* from then on random graphs come first */
  int failed;           /* errno of a process that could not be started: no plugin's fault, and the end of the run */
  char dir[64], listing[96], seed[32];
} case_runner;

/* 0 or errno. */
static int write_listing(case_runner *w) {
  snprintf(w->listing, sizeof w->listing, "%s/listing.json", w->dir);
  FILE *f = fopen(w->listing, "w");
  if (!f) return errno;
  const bool ok = json_dumpf(w->r->listing, f, JSON_COMPACT) == 0, no_memory = !ok && !ferror(f);
  const int why = tni_close_written(f);
  return why ? why : no_memory ? ENOMEM : ok ? 0 : EIO;
}

static void case_finished(case_runner *w, uint32_t at) {
  tni_cf_result *one = &w->r->results[at];
  w->done++;
  *(one->verdict == TNI_CF_FAILED    ? &w->r->failed
    : one->verdict == TNI_CF_SKIPPED ? &w->r->skipped
                                     : &w->r->passed) += 1;
  if (w->o->progress) w->o->progress(w->o->user, one, w->done, w->r->n);
}

/* Of the cases since the first that took too long, half took too long: with others it would go on so for hours. */
static bool hangs_on(const case_runner *w) { return w->hung >= MANY_HUNG && 2 * w->hung >= w->since; }

static void count_hung(case_runner *w, bool late) {
  w->hung += late;
  w->since += w->hung > 0;
}

/* What is not asked any more, and why. */
static const char *no_more(const case_runner *w) {
  if (hangs_on(w)) return "case after case took longer than its limit: mend the first, or name cases with --case";
  if (w->o->fail_fast && w->r->failed) return "another case has failed (--fail-fast)";
  return w->deadline > 0 && tni_cf_clock() > w->deadline ? TNI_CF_TIME_UP : NULL;
}

/* In the listing's order, but for random graphs in the second half of --minutes. r->n: there is none. */
static uint32_t next_case(case_runner *w) {
  const uint32_t n = w->r->n;
  uint32_t at = n;
  if (w->deadline > 0 && tni_cf_clock() > w->half)
    for (uint32_t i = 0; i < n && at == n; i++)
      if (!w->begun[i] && !strncmp(w->r->results[i].name, "generated/", 10)) at = i;
  while (w->next < n && w->begun[w->next]) w->next++;
  if (at == n) at = w->next;
  if (at < n) w->begun[at] = true;
  return at;
}

static double limit_s(const case_runner *w, uint32_t at) { return w->r->results[at].timeout_ms / 1e3 * w->o->patience; }

static bool may_follow(const case_runner *w, uint32_t at) {
  const tni_cf_result *r = &w->r->results[at];
  return at < w->r->n && r->together && r->verdict == TNI_CF_PASSED && !w->begun[at] && !w->alone[at];
}

/* One worker for the cases of s. */
static void start_slot(case_runner *w, run_slot *s) {
  arguments a;
  start_args(&a, w->o, "case");
  for (uint32_t i = 0; i < s->n; i++) argument_add(&a, w->r->results[s->at[i]].name);
  argument_add(&a, "--listing");
  argument_add(&a, w->listing);
  argument_add(&a, "--seed");
  argument_add(&a, w->seed);
  const int e = tni_cf_child_start(&s->child, a.v, limit_s(w, s->at[0]));
  if (e) w->failed = e;
}

/* The next cases that are still to be run, in a free slot; w->failed where none can be started. */
static void fill_slot(case_runner *w, run_slot *s) {
  for (uint32_t at; !s->child.pid && (at = next_case(w)) < w->r->n;) {
    tni_cf_result *one = &w->r->results[at];
    const char *why = no_more(w);
    if (why && one->verdict == TNI_CF_PASSED) {
      one->verdict = TNI_CF_SKIPPED;
      one->skip = strdup(why);
    }
    if (one->verdict != TNI_CF_PASSED) {
      case_finished(w, at);
      continue;
    }
    s->at[0] = at, s->n = 1, s->n_ended = 0;
    const uint32_t most = one->together && !w->alone[at] ? MOST_TOGETHER : 1;
    for (; s->n < most && may_follow(w, at + s->n); s->n++) w->begun[s->at[s->n] = at + s->n] = true;
    start_slot(w, s);
    return;
  }
}

/* Each case has its own time. */
static void follow_slot(case_runner *w, run_slot *s) {
  for (const uint32_t n = s->n > 1 ? tni_cf_ended(&s->child) : 0; s->n_ended < n && s->n_ended < s->n; s->n_ended++) {
    s->ended[s->n_ended] = tni_cf_clock();
    if (s->n_ended + 1 < s->n && !s->child.late) s->child.deadline = tni_cf_clock() + limit_s(w, s->at[s->n_ended + 1]);
  }
}

/* Says of a case that is asked again what came of it after others. */
static void note_together(tni_cf_result *one, uint32_t after, const char *found) {
  char text[400];
  snprintf(text, sizeof text, "after %u others in one process it did not pass (%.250s); this is said of it alone", after,
           found);
  json_t *s = json_string(text);
  if (s) json_array_append_new(one->notes, s);
}

/* Of several cases the first that did not pass is asked again alone, and those after it once more. A process that ends
 * badly may owe that to the case before, which is asked alone too. Where all are done then, or a sanitizer spoke, each is. */
static void judge_together(case_runner *w, run_slot *s) {
  uint32_t done = 0, bad = s->n_ended; /* bad: the case that did not pass */
  char found[256];
  const bool badly = tni_cf_child_end(&s->child, found, sizeof found);
  const bool unknown = tni_cf_sanitizer_spoke(&s->child) || (badly && s->n_ended == s->n);
  const uint32_t sure = unknown ? 0 : badly && !s->child.late && s->n_ended ? s->n_ended - 1 : s->n_ended;
  if (!badly || s->child.late) /* a limit that is said would be that of all of them together */
    snprintf(found, sizeof found, "%s", badly ? "took longer than its limit" : "something called exit");
  for (const char *p = s->child.report.s; done < sure; done++) {
    tni_cf_result *one = &w->r->results[s->at[done]];
    if (!(p = tni_cf_result_take(one, p, found, sizeof found))) break;
    one->seconds = s->ended[done] - (done ? s->ended[done - 1] : s->child.started);
    count_hung(w, false);
    case_finished(w, s->at[done]);
  }
  if (done < sure) bad = done;
  for (uint32_t i = done; i < s->n; i++) {
    const uint32_t at = s->at[i];
    w->begun[at] = false;
    w->alone[at] = unknown || i <= bad;
    if (i == bad && i && !unknown) note_together(&w->r->results[at], i, found);
    if (at < w->next) w->next = at;
  }
}

static void judge_slot(case_runner *w, run_slot *s) {
  if (s->n == 1) {
    tni_cf_result_judge(&w->r->results[s->at[0]], &s->child);
    count_hung(w, s->child.late);
    case_finished(w, s->at[0]);
  } else {
    judge_together(w, s);
  }
  tni_cf_child_finish(&s->child);
}

/* Time in which this process stood still too (a laptop asleep, a stopped job) says nothing of a plugin. */
static void pass_over_stops(case_runner *w, uint32_t jobs, double *last) {
  const double now = tni_cf_clock(), stood = now - *last;
  for (uint32_t i = 0; stood > STOOD_S && i < jobs; i++) w->slots[i].child.deadline += stood;
  *last = now;
}

static void run_all(case_runner *w) {
  const uint32_t jobs = w->o->jobs ? w->o->jobs : 1;
  double last = tni_cf_clock();
  while (w->done < w->r->n && !w->r->interrupted && !w->failed) {
    bool ended = false;
    pass_over_stops(w, jobs, &last);
    for (uint32_t i = 0; i < jobs; i++) {
      run_slot *s = &w->slots[i];
      fill_slot(w, s);
      if (!s->child.pid) continue;
      const bool over = tni_cf_child_poll(&s->child);
      follow_slot(w, s);
      if (!over) continue;
      judge_slot(w, s);
      ended = true;
    }
    if (!ended) (void)poll(NULL, 0, 3); /* not on the pipes: a plugin may close its end of them and go on */
    w->r->interrupted = w->o->interrupted && w->o->interrupted();
  }
  for (uint32_t i = 0; i < jobs; i++)
    if (w->slots[i].child.pid) tni_cf_child_finish(&w->slots[i].child);
}

int tni_cf_run(const tni_cf_run_opts *o, tni_cf_report *r, char *why, uint32_t n_why) {
  const double start = tni_cf_clock();
  tni_cf_run_opts own = *o;
  char cache[96];
  *r = (tni_cf_report){.seed = o->seed};
  case_runner w = {.o = &own, .r = r, .slots = calloc(o->jobs ? o->jobs : 1, sizeof *w.slots)};
  if (o->minutes > 0) w.deadline = start + 60 * o->minutes, w.half = start + 30 * o->minutes;
  snprintf(w.dir, sizeof w.dir, "/tmp/tenon-conform-XXXXXX");
  if (!w.slots || !mkdtemp(w.dir)) return free(w.slots), snprintf(why, n_why, "/tmp: %s", strerror(errno)), -1;
  snprintf(cache, sizeof cache, "%s/cache", w.dir);
  if (!own.cache_dir && mkdir(cache, 0700) == 0) own.cache_dir = cache; /* kernels are compiled once per run */
  int rc = list_cases(&own, r, why, n_why);
  if (rc == 0 && !o->list) {
    snprintf(w.seed, sizeof w.seed, "%llu", (unsigned long long)o->seed);
    w.begun = calloc(r->n + 1, sizeof *w.begun);
    w.alone = calloc(r->n + 1, sizeof *w.alone);
    const int unwritten = w.begun && w.alone ? write_listing(&w) : ENOMEM;
    if (unwritten)
      rc = -1, snprintf(why, n_why, "%s: %s", w.dir, strerror(unwritten));
    else
      run_all(&w);
    if (w.failed) rc = -1, snprintf(why, n_why, "%s: %s", o->worker, strerror(w.failed));
  }
  (void)nftw(w.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  free(w.slots);
  free(w.begun);
  free(w.alone);
  r->seconds = tni_cf_clock() - start;
  return rc;
}

void tni_cf_report_finish(tni_cf_report *r) {
  for (uint32_t i = 0; i < r->n; i++) {
    tni_cf_result *one = &r->results[i];
    free(one->name);
    free(one->skip);
    free(one->output);
    json_decref(one->findings);
    json_decref(one->notes);
  }
  free(r->results);
  json_decref(r->listing);
}
