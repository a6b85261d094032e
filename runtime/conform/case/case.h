/* SPDX-License-Identifier: Apache-2.0
 *
 * The vendor kit: what a case is, what it runs with, and what families are told when they list their cases.
 *
 * Two programs. `tenon conform` (runtime/cli/cmd_conform.c, run/run.h) never touches a plugin: it spawns the
 * worker, `tenon-conform` (worker.c), once to list (devices, formats, claims, names of cases) and once for each case
 * (or a few: TNI_CF_TOGETHER), with a time limit, and judges how each ended. The worker finds the case by its name in the table of families
 * (families.c) and runs it. So a case may crash, hang or leak: that is its failure and nobody else's.
 *
 * Rules for cases
 *  - A name is a stable path, FAMILY/SUBJECT/.../QUESTION of [A-Za-z0-9._:+-] and '/', such as
 *    "numbers/w4g:128/gemv/one-hot". Users select with --case GLOB, where '*' also matches '/'.
 *  - Everything random comes from cf->seed (tni_cf_rng), which is that of the command line mixed with the case's name:
 * a case gives the same answer alone as in the whole run.
 *  - The families list from the listing alone: they run before any plugin is loaded in that process.
 *  - A case that finds nothing to ask says tni_cf_skip with why; one that returns without a word has passed.
 *  - What is wrong goes to tni_cf_fail, once per finding, with numbers; a case may go on afterwards. tni_cf_note adds a
 *    line that is shown with the result (how many shapes, the largest error).
 *  - One thread reports: tni_cf_fail and its like are for the case's own thread.
 */
#ifndef TENON_CONFORM_CASE_CASE_H
#define TENON_CONFORM_CASE_CASE_H

#include <stdbool.h>
#include <stdio.h>
#include <tenon/plugin.h>

#include "runtime/base/base.h"

typedef struct tni_cf tni_cf;

/* The levels at which a case is asked. A family writes the bits of all levels that include it; --level asks for one.
 * Without --level every case runs but those of TNI_CF_REQUIRED kind (levels.c), which ask that something is claimed. */
enum {
  TNI_CF_LEVEL_ABI = 1,     /* the table of functions alone: `tenon new-plugin`'s skeleton passes it */
  TNI_CF_LEVEL_CLAIMED = 2, /* whatever it claims is right */
  TNI_CF_LEVEL_MATMUL = 4,  /* and it claims products with constant weights */
  TNI_CF_LEVEL_LLM = 8,     /* and what a decoder block needs beside */
  TNI_CF_LEVEL_VISION = 16, /* and convolutions, pooling, their normalizations */
  TNI_CF_LEVEL_ALL = 31     /* every level: what most cases say */
};
enum { TNI_CF_REQUIRED = 1, TNI_CF_THOROUGH_ONLY = 2, TNI_CF_NO_DEVICE = 4, TNI_CF_TOGETHER = 8 };

/* What is tested, as the command line says. Strings live as long as the process. */
typedef struct tni_cf_subject {
  const char *path;           /* absolute path of the .so; "host": the built-in device */
  const char *name;           /* file name without .so: what the plugin must call itself */
  const char *const *options; /* [n_options] "key=value" */
  uint32_t n_options;
  uint32_t device;                        /* index of the device that is opened */
  const char *cache_dir, *model, *replay; /* or NULL */
  bool thorough;
  double patience;  /* factor on time limits; 0: 1 */
  uint32_t seconds; /* that a case which goes on for as long as it may has; 0: it has a number of rounds */
} tni_cf_subject;

/* One device of the listing. */
typedef struct tni_cf_device {
  const char *name, *driver;
  uint32_t n_engines, flags, import_kinds, export_kinds, align, sub_align; /* as in tn_caps */
  bool has_buffers;
} tni_cf_device;

/* One format of the plugin's table. */
typedef struct tni_cf_format {
  const char *name;
  uint32_t version, bits, group, flags;
  bool has_sections;
  double bits_per_weight, w_err, x_err;
} tni_cf_format;

enum { TNI_CF_LENGTHS = 8 };

/* What a claim of one generated graph (drive/graphs.h) was, per phase. */
typedef struct tni_cf_claimed {
  const char *graph;               /* tni_cf_graph_row.name */
  uint32_t phase, verdict, reason; /* TN_PHASE_*, TN_YES ..., TN_WHY_* of its last node */
  const char *format;              /* the weight format of the claim, or NULL */
  int64_t params[8];               /* of the format */
  uint32_t n_params;
  const char *text; /* of a refusal */
  uint32_t n_lengths;
  int64_t lengths[TNI_CF_LENGTHS]; /* positions of a run that the claim allows, ascending: some of them where they are
                                    * more; n 0: any number */
} tni_cf_claimed;

/* What a worker found at the start. Plain data: it crosses to the workers of the cases as text. When the plugin could
 * not be loaded or opened, `why` says so, and only what stands above it is known. */
typedef struct tni_cf_listing {
  tni_arena *arena; /* families may keep what `arg` points to here; it lives as long as the process */
  const tni_cf_subject *subject;
  const char *version, *why; /* why NULL: loaded and a device open */
  bool loaded;               /* its entry gave a table */
  bool resident;             /* TN_PLUGIN_RESIDENT: with a driver below, which takes long to start */
  uint32_t n_devices, n_formats, n_claimed, n_options;
  const tni_cf_device *devices;
  const tni_cf_format *formats;
  const tni_cf_claimed *claimed;
} tni_cf_listing;

/* Whether the device takes a graph in one phase and not in the other, or runs of certain lengths only: then a profile
 * needs `phases` (docs/profiles.md), or the host gives it little. */
bool tni_cf_needs_phases(const tni_cf_listing *l);
/* The lengths that every claim of the listing allows which fixes some in this phase; 0: none does, or none is common. */
uint32_t tni_cf_lengths(const tni_cf_listing *l, uint32_t phase, int64_t out[TNI_CF_LENGTHS]);

typedef void (*tni_cf_fn)(tni_cf *cf, const void *arg);

/* name is copied; arg is passed to run, must live as long as the process. timeout_ms 0: 20 s (100 s with --thorough).
 * flags: REQUIRED: runs only where --level names one of `levels`; THOROUGH_ONLY: with --thorough only; NO_DEVICE: may
 * be asked of a plugin that has no device here; TOGETHER: may follow others of its kind in one process, and is asked again
 * alone where it does not pass there (families.c sets it). */
typedef struct tni_cf_case {
  const char *name;
  uint32_t levels, flags;
  tni_cf_fn run;
  const void *arg;
  uint32_t timeout_ms;
} tni_cf_case;

/* Takes a copy of *c. */
typedef void (*tni_cf_add)(void *ctx, const tni_cf_case *c);
/* A family: names its cases. `void tni_cf_NAME_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx)` in the door
 * of its room. */
typedef void (*tni_cf_family)(const tni_cf_listing *l, tni_cf_add add, void *ctx);

enum { TNI_CF_PASS = 0, TNI_CF_FAIL = 1, TNI_CF_SKIP = 2 };

/* What one case runs with. */
struct tni_cf {
  const tni_cf_subject *subject;
  const tni_cf_listing *listing;
  const char *name; /* of the case */
  uint64_t seed;    /* of this case */
  uint64_t run_seed; /* of the command line */
  tni_arena *arena; /* freed after the case */
  uint32_t verdict, n_findings;
  void *sink; /* the worker's: where findings go */
};

void tni_cf_fail(tni_cf *cf, const char *fmt, ...) TN_PRINTF(2, 3);
/* Not asked, and why. A finding before or after wins. */
void tni_cf_skip(tni_cf *cf, const char *fmt, ...) TN_PRINTF(2, 3);
void tni_cf_note(tni_cf *cf, const char *fmt, ...) TN_PRINTF(2, 3);

/* Random numbers: splitmix64 from the case's seed and a stream of the caller's. */
typedef struct tni_cf_rng {
  uint64_t s;
} tni_cf_rng;
tni_cf_rng tni_cf_rng_of(const tni_cf *cf, uint64_t stream);
/* Those that the case `name` would get. */
tni_cf_rng tni_cf_rng_named(const tni_cf *cf, const char *name, uint64_t stream);
uint64_t tni_cf_rng_next(tni_cf_rng *r);
double tni_cf_rng_unit(tni_cf_rng *r);   /* [0, 1) */
double tni_cf_rng_normal(tni_cf_rng *r); /* mean 0, deviation 1 */

/* What came of a part of a case that ran in a process of its own. */
typedef struct tni_cf_part {
  bool failed, skipped;
  uint32_t n_skips;
  char text[800], note[200]; /* the first finding, the first note; "" */
} tni_cf_part;
/* Runs fn in a child of this process, for limit_ms at most. It may die, hang or leave anything behind. Nothing of the
 * plugin may have been loaded here before. False: no child could be made. */
bool tni_cf_apart(const tni_cf *cf, void (*fn)(tni_cf *cf, void *arg), void *arg, uint32_t limit_ms, tni_cf_part *out);

/* An item that the device was given is not done: it may still read and write whatever it was given, and call the host.
 * From here on nothing is freed that it may touch, and closing the host ends the process with its case
 * (tni_cf_end_here). */
void tni_cf_leave(void);
bool tni_cf_has_left(void);
/* Reports the case as it stands, and ends the process without what runs at an exit. */
_Noreturn void tni_cf_end_here(tni_cf *cf);

/* The value of option `key` on the command line, or NULL. */
const char *tni_cf_option(const tni_cf_subject *s, const char *key);
/* n options, "key=value" each, as YAML: a map on one line. */
void tni_cf_options_write(FILE *f, const char *const *options, uint32_t n);

/* --- the worker's part ------------------------------------------------------------------------------------------- */

/* Descriptor that a worker reports on: standard output and error are the plugin's. */
enum { TNI_CF_REPORT_FD = TNI_SPAWN_CHANNEL };

/* Runs c, writes its last line, and gives its verdict. seed: of the command line. Findings go out at once, one JSON object a
 * line, so that a crash loses none:
 *   {"fail": TEXT} {"skip": TEXT} {"note": TEXT} ... {"end": "pass"|"fail"|"skip"}
 * Without the last line the process was ended by what it tested. */
uint32_t tni_cf_run_case(const tni_cf_case *c, const tni_cf_listing *l, uint64_t seed, FILE *out);

#endif
