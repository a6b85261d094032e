/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of conform/run, the kit's runner: lists, spawns workers, waits with a time limit and judges how each ended: one
 * worker a case, or a few cases where a driver takes long to start (TNI_CF_TOGETHER). It links no part of the library and
 * loads no plugin: whatever a plugin does, this process goes on.
 *
 * A case fails when it says so, when its process ends by a signal, with a status, or without the case's last line (the
 * plugin called exit), when it takes longer than its limit, or when a sanitizer wrote about it. Workers are in process
 * groups of their own, which are killed when the worker is gone, so that nothing of a case outlives it.
 */
#ifndef TENON_CONFORM_RUN_RUN_H
#define TENON_CONFORM_RUN_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/base/json.h"
#include "runtime/conform/run/sofile.h"

enum { TNI_CF_PASSED = 0, TNI_CF_FAILED = 1, TNI_CF_SKIPPED = 2 };

/* Why a case was skipped that --minutes left no time for. */
#define TNI_CF_TIME_UP "the time of --minutes was up"

typedef struct tni_cf_result {
  char *name;
  uint32_t verdict; /* TNI_CF_PASSED ... */
  uint32_t timeout_ms;
  bool together;            /* may follow others in one process (case/case.h) */
  json_t *findings, *notes; /* arrays of strings; what ended it stands among the findings */
  char *skip;               /* why it was not asked, or NULL */
  char *output;             /* the end of what the worker printed, or NULL */
  double seconds;
} tni_cf_result;

typedef struct tni_cf_run_opts {
  const char *worker;         /* program */
  const char *const *wrapper; /* [n_wrapper] what it is started with (an emulator), may be 0 */
  const char *const *subject; /* [n_subject] arguments that say what is tested (worker.c) */
  const char *const *globs;   /* [n_globs] of cases; 0: all */
  const char *cache_dir;      /* of compiled kernels and the like; NULL: a fresh one for this run */
  uint32_t n_wrapper, n_subject, n_globs;
  uint32_t level;      /* a TNI_CF_LEVEL_* bit; 0: all cases but those that require claims */
  bool thorough, list; /* list: only says which */
  bool fail_fast;      /* after the first failure nothing more is begun */
  double minutes;      /* after so many nothing more is begun; 0: no limit */
  const char *seconds; /* that each case which goes on for as long as it may gets; NULL: it has a number of rounds */
  uint64_t seed;
  uint32_t jobs;   /* workers at once; at least 1 */
  double patience; /* factor on every time limit: emulators, sanitizers */
  void (*progress)(void *user, const tni_cf_result *r, uint32_t done, uint32_t total); /* may be NULL */
  int (*interrupted)(void);                                                            /* may be NULL */
  void *user;
} tni_cf_run_opts;

typedef struct tni_cf_report {
  json_t *listing; /* of the plugin (listing.h); NULL where listing failed */
  tni_cf_result *results;
  uint32_t n, passed, failed, skipped;
  uint64_t seed;
  double seconds;
  bool interrupted;
} tni_cf_report;

/* Fills r, which tni_cf_report_finish frees. 0, or -1 with why[n_why]: the worker could not be started or understood. A
 * plugin that ends the worker while it lists is a failed case "life/list", and the others are asked all the same. */
int tni_cf_run(const tni_cf_run_opts *o, tni_cf_report *r, char *why, uint32_t n_why);
void tni_cf_report_finish(tni_cf_report *r);

/* --- the report in the forms that people and machines read ------------------------------------------------------- */

/* What the forms say of the subject. replay: the command line without --case and --seed. */
typedef struct tni_cf_about {
  const char *plugin, *level, *replay;
  bool verbose;
} tni_cf_about;

/* Failures with what was found and how to ask again, skips by reason, a line per family, a summary. */
void tni_cf_report_text(const tni_cf_report *r, const tni_cf_about *a, FILE *f);
/* A new object. */
json_t *tni_cf_report_json(const tni_cf_report *r, const tni_cf_about *a);
/* One HTML file, failures by cause. 0, or errno. */
int tni_cf_report_html(const tni_cf_report *r, const tni_cf_about *a, const char *file);
/* JUnit XML: a suite per family. 0, or errno. */
int tni_cf_report_junit(const tni_cf_report *r, const tni_cf_about *a, const char *file);

#endif
