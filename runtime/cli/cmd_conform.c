/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "runtime/cli/cli.h"
#include "runtime/conform/case/case.h"
#include "runtime/conform/run/run.h"

enum { MAX_ARGS = 256, MAX_WRAPPER = 16 };

typedef struct conform {
  cli c;
  char **cases, **options, *level, *junit, *model, *replay_dir, *worker, *wrapper, *section, *seed;
  int thorough, list, verbose, device, jobs;
  double patience;
  char path[4096], worker_path[4096], replay[8192], number[16];
  const char *args[MAX_ARGS], *wrapped[MAX_WRAPPER];
  uint32_t n_args;
  tni_cf_run_opts run;
} conform;

/* --- the command line -------------------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  uint32_t bit;
} levels[] = {{"abi", TNI_CF_LEVEL_ABI},
              {"claimed", TNI_CF_LEVEL_CLAIMED},
              {"matmul", TNI_CF_LEVEL_MATMUL},
              {"llm", TNI_CF_LEVEL_LLM},
              {"vision", TNI_CF_LEVEL_VISION}};

static int parse_level(conform *k) {
  for (size_t i = 0; k->level && i < sizeof levels / sizeof *levels; i++)
    if (!strcmp(k->level, levels[i].name)) k->run.level = levels[i].bit;
  if (!k->level || k->run.level) return 0;
  return cli_usage(&k->c, "unknown --level '%s' (abi, claimed, matmul, llm, vision)", k->level);
}

/* A seed that was not given is drawn; it is printed with the results. */
static int parse_seed(conform *k) {
  char *end = NULL;
  if (!k->seed) {
    if (getrandom(&k->run.seed, sizeof k->run.seed, 0) != sizeof k->run.seed) k->run.seed = (uint64_t)getpid();
    k->run.seed %= 1000000000;
    return 0;
  }
  k->run.seed = strtoull(k->seed, &end, 0);
  if (end != k->seed && !*end && k->run.seed >> 63 == 0) return 0;
  return cli_usage(&k->c, "--seed takes a number below 2^63, not '%s'", k->seed);
}

static int parse_rest(conform *k) {
  char *save = NULL;
  for (char *w = k->wrapper ? strtok_r(k->wrapper, " ", &save) : NULL; w; w = strtok_r(NULL, " ", &save)) {
    if (k->run.n_wrapper == MAX_WRAPPER) return cli_usage(&k->c, "--wrapper has too many words");
    k->wrapped[k->run.n_wrapper++] = w;
  }
  for (char **o = k->options; o && *o; o++)
    if (!strchr(*o, '=')) return cli_usage(&k->c, "--option takes KEY=VALUE, not '%s'", *o);
  if (k->jobs < 0 || k->jobs > 256) return cli_usage(&k->c, "--jobs takes 1 to 256");
  if (k->device < 0) return cli_usage(&k->c, "--device takes 0, 1, ...");
  if (!(k->patience >= 0.1 && k->patience <= 1000)) return cli_usage(&k->c, "--patience takes 0.1 to 1000");
  const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  k->run.jobs = k->jobs ? (uint32_t)k->jobs : cpus > 0 && cpus < 64 ? (uint32_t)cpus : 1;
  k->run.wrapper = k->wrapped;
  k->run.patience = k->patience;
  k->run.thorough = k->thorough != 0;
  k->run.list = k->list != 0;
  k->run.globs = (const char *const *)k->cases;
  while (k->cases && k->cases[k->run.n_globs]) k->run.n_globs++;
  return 0;
}

/* Beside the program as it was built, or as it is installed. */
static int find_worker(conform *k) {
  static const char *const places[] = {TENON_REL_LIBEXEC "/tenon-conform", "../conform/tenon-conform"};
  char self[3072] = "";
  if (k->worker) {
    snprintf(k->worker_path, sizeof k->worker_path, "%s", k->worker);
    return 0;
  }
  const ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  char *slash = len > 0 ? strrchr(self, '/') : NULL;
  if (slash) *slash = '\0';
  for (size_t i = 0; slash && i < 2; i++) {
    snprintf(k->worker_path, sizeof k->worker_path, "%s/%s", self, places[i]);
    if (access(k->worker_path, X_OK) == 0) return 0;
  }
  cli_note("tenon-conform, the program in which cases run, is neither in %s/%s nor in the build folder", self,
           TENON_REL_LIBEXEC);
  return EXIT_INPUT;
}

/* --- what is tested ---------------------------------------------------------------------------------------------- */

static int bad_input(conform *k, const char *where, const char *what) {
  tn_error *e = &k->c.err;
  *e = (tn_error){.h = TN_HDR(tn_error), .code = TN_E_INVALID, .node = TN_NONE, .task = TN_NONE};
  snprintf(e->message, sizeof e->message, "%s", what);
  snprintf(e->where, sizeof e->where, "%.127s", where);
  return cli_fail(&k->c, TN_E_INVALID);
}

/* None of its code is run for this. */
static int look_at_file(conform *k, const char *plugin) {
  if (!strcmp(plugin, "host")) return snprintf(k->path, sizeof k->path, "host") < 0;
  if (!realpath(plugin, k->path)) return bad_input(k, plugin, "there is no such file");
  tni_cf_elf e;
  const char *why = tni_cf_elf_open(k->path, &e);
  if (why) return bad_input(k, k->path, why);
  const bool entry = e.entry;
  tni_cf_elf_close(&e);
  return entry ? 0 : bad_input(k, k->path, "is no plugin: it exports no " TN_ENTRY_SYMBOL);
}

static void add_arg(conform *k, const char *name, const char *value, bool replay) {
  if (!value || k->n_args + 2 > MAX_ARGS) return;
  k->args[k->n_args++] = name;
  k->args[k->n_args++] = value;
  const size_t n = strlen(k->replay);
  if (replay) snprintf(k->replay + n, sizeof k->replay - n, " %s '%s'", name, value);
}

static void collect_args(conform *k) {
  snprintf(k->replay, sizeof k->replay, "tenon conform %s%s", k->path, k->thorough ? " --thorough" : "");
  add_arg(k, "--plugin", k->path, false);
  add_arg(k, "--profile", k->c.profile, true);
  if (k->c.profile) add_arg(k, "--profile-dir", getenv("TENON_PROFILE_PATH"), false);
  add_arg(k, "--section", k->section, false);
  for (char **o = k->options; o && *o; o++) add_arg(k, "--option", *o, true);
  snprintf(k->number, sizeof k->number, "%d", k->device);
  if (k->device) add_arg(k, "--device", k->number, true);
  k->run.cache_dir = k->c.cache_dir;
  add_arg(k, "--model", k->model, true);
  add_arg(k, "--replay", k->replay_dir, true);
  k->run.worker = k->worker_path;
  k->run.subject = k->args;
  k->run.n_subject = k->n_args;
}

/* --- what is shown ----------------------------------------------------------------------------------------------- */

static void on_progress(void *user, const tni_cf_result *r, uint32_t done, uint32_t total) {
  (void)user;
  fprintf(stderr, "\r%u of %u  %-70.70s", done, total, r->name);
  if (done == total) fprintf(stderr, "\r%*s\r", 90, "");
}

/* Why there is nothing to ask: no device, or a plugin that does not load. */
static const char *why_not(const tni_cf_report *r) {
  const char *why = json_string_value(json_object_get(r->listing, "why"));
  return why ? why : "";
}

static int conform_verdict(const conform *k, const tni_cf_report *r) {
  if (r->interrupted) return EXIT_INT;
  if (r->failed) return EXIT_CHECK;
  const json_t *loaded = json_object_get(r->listing, "loaded");
  if (!json_is_true(loaded)) {
    cli_note("%s cannot be loaded: %s", k->path, why_not(r));
    return EXIT_DEVICE;
  }
  if (r->passed) return EXIT_DONE;
  cli_note("0 cases ran: this says nothing of the plugin, and counts as a failure%s%s", *why_not(r) ? ": " : "",
           why_not(r));
  return EXIT_CHECK;
}

static int show_report(conform *k, const tni_cf_report *r) {
  const tni_cf_about about = {.plugin = k->path, .level = k->level, .replay = k->replay, .verbose = k->verbose != 0};
  if (k->list) {
    for (uint32_t i = 0; i < r->n; i++) printf("%s\n", r->results[i].name);
    return r->n ? EXIT_DONE : EXIT_CHECK;
  }
  if (k->c.format == FMT_JSON) {
    json_t *o = tni_cf_report_json(r, &about);
    json_dumpf(o, stdout, JSON_INDENT(1));
    printf("\n");
    json_decref(o);
  } else {
    tni_cf_report_text(r, &about, stdout);
  }
  const int bad = k->junit ? tni_cf_report_junit(r, &about, k->junit) : 0;
  if (bad) return cli_note("%s: %s", k->junit, strerror(bad)), EXIT_INPUT;
  return conform_verdict(k, r);
}

static int run_conform(conform *k) {
  char why[512] = "";
  tni_cf_report r;
  if (isatty(STDERR_FILENO)) k->run.progress = on_progress;
  k->run.interrupted = cli_interrupted;
  int rc = tni_cf_run(&k->run, &r, why, sizeof why);
  if (rc == 0)
    rc = show_report(k, &r);
  else
    rc = cli_interrupted() ? EXIT_INT : (cli_note("%s", why), EXIT_DEVICE);
  tni_cf_report_finish(&r);
  return rc;
}

static void free_nothing(void *object) { (void)object; }

static void finish_conform(conform *k, poptContext pc) {
  char *const strings[] = {k->level, k->junit, k->model, k->replay_dir, k->worker, k->wrapper, k->section, k->seed};
  for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) free(strings[i]);
  for (char **s = k->cases; s && *s; s++) free(*s);
  for (char **s = k->options; s && *s; s++) free(*s);
  free(k->cases);
  free(k->options);
  cli_finish(&k->c, pc);
}

int cmd_conform(int argc, const char **argv) {
  conform k = {.c = {.command = "conform"}, .patience = 1};
  struct poptOption own[] = {
      {"case", 0, POPT_ARG_ARGV, &k.cases, 0, "only cases whose name matches, '*' also '/' (repeatable)", "GLOB"},
      {"seed", 0, POPT_ARG_STRING, &k.seed, 0, "of all that is random (default: drawn, and printed)", "S"},
      {"level", 0, POPT_ARG_STRING, &k.level, 0,
       "abi, claimed, matmul, llm, vision: what it must do (docs/conformance.md)", "LEVEL"},
      {"option", 0, POPT_ARG_ARGV, &k.options, 0, "option of the plugin (repeatable)", "KEY=VALUE"},
      {"plugin", 0, POPT_ARG_STRING, &k.section, 0,
       "take the options that --profile gives this plugin (default: its file)", "NAME"},
      {"device", 0, POPT_ARG_INT, &k.device, 0, "index of the device (default: 0)", "N"},
      {"model", 0, POPT_ARG_STRING, &k.model, 0, "ask for claims of this model too, and run what it claims", "MODEL"},
      {"replay", 0, POPT_ARG_STRING, &k.replay_dir, 0, "only a case that `tenon verify --each-node` saved", "DIR"},
      {"thorough", 0, POPT_ARG_NONE, &k.thorough, 0, "more of everything: a long run", NULL},
      {"jobs", 0, POPT_ARG_INT, &k.jobs, 0, "cases at once (default: one per processor)", "N"},
      {"patience", 0, POPT_ARG_DOUBLE, &k.patience, 0, "factor on all time limits (emulators, sanitizers)", "X"},
      {"list", 0, POPT_ARG_NONE, &k.list, 0, "only name the cases", NULL},
      {"verbose", 'v', POPT_ARG_NONE, &k.verbose, 0, "show cases that pass, too", NULL},
      {"junit", 0, POPT_ARG_STRING, &k.junit, 0, "write a JUnit report", "FILE"},
      {"wrapper", 0, POPT_ARG_STRING, &k.wrapper, 0, "start cases with this command, such as an emulator", "CMD"},
      {"worker", 0, POPT_ARG_STRING, &k.worker, 0, "the program tenon-conform (default: the installed one)", "FILE"},
      POPT_TABLEEND};
  poptContext pc;
  const char **rest;
  int done;
  int rc = cli_parse(&k.c, argc, argv, own, "PLUGIN.so|host [options]", &pc, &rest, &done);
  if (!rc && !rest[0]) rc = cli_usage(&k.c, "which plugin? (a .so file, or 'host')");
  if (!rc && rest[1]) rc = cli_usage(&k.c, "'%s' is too much", rest[1]);
  if (!rc && k.section && !k.c.profile) rc = cli_usage(&k.c, "--plugin says whose options of a --profile are meant");
  if (!rc && k.replay_dir && k.cases) rc = cli_usage(&k.c, "--replay is a case of its own");
  if (!rc) rc = parse_level(&k);
  if (!rc) rc = parse_seed(&k);
  if (!rc && k.replay_dir && (k.cases = calloc(2, sizeof *k.cases))) k.cases[0] = strdup("replay/*");
  if (!rc) rc = parse_rest(&k);
  if (!rc) rc = look_at_file(&k, rest[0]);
  if (!rc) rc = find_worker(&k);
  if (!rc) {
    collect_args(&k);
    cli_cancel_by(free_nothing, &k);
    rc = run_conform(&k);
  }
  finish_conform(&k, pc);
  return rc;
}
