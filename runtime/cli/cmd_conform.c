/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "runtime/base/markup.h"
#include "runtime/cli/cli.h"
#include "runtime/conform/case/case.h"
#include "runtime/conform/run/run.h"

enum { MAX_ARGS = 256, MAX_WRAPPER = 16 };

typedef struct conform {
  cli c;
  char **cases, **options, *level, *junit, *html, *model, *replay_dir, *worker, *wrapper, *section, *seed;
  int thorough, list, verbose, device, jobs, fail_fast;
  double patience, minutes;
  char *profile_dir, *replay; /* replay: the command that repeats this run, of `line` */
  FILE *line;
  char path[4096], worker_path[4096], number[16], seconds[16];
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

static void find_level(conform *k) {
  for (size_t i = 0; k->level && i < sizeof levels / sizeof *levels; i++)
    if (!strcmp(k->level, levels[i].name)) k->run.level = levels[i].bit;
}

/* A seed that was not given is drawn; it is printed with the results. */
static int parse_seed(conform *k) {
  char *end = NULL;
  if (!k->seed) {
    if (getrandom(&k->run.seed, sizeof k->run.seed, 0) != sizeof k->run.seed) k->run.seed = (uint64_t)getpid();
    k->run.seed %= 1000000000;
    return 0;
  }
  errno = 0;
  k->run.seed = strtoull(k->seed, &end, 10);
  if (*k->seed >= '0' && *k->seed <= '9' && !*end && !errno && k->run.seed >> 63 == 0) return 0;
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
  const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  k->run.jobs = k->jobs ? (uint32_t)k->jobs : cpus < 1 ? 1 : cpus < 64 ? (uint32_t)cpus : 64;
  k->run.wrapper = k->wrapped;
  k->run.patience = k->patience;
  k->run.thorough = k->thorough != 0;
  k->run.list = k->list != 0;
  k->run.fail_fast = k->fail_fast != 0;
  k->run.minutes = k->minutes;
  /* Half of the time for graphs, which are eight cases. */
  const double each = k->minutes * 30 * (k->run.jobs < 8 ? k->run.jobs : 8) / 8;
  snprintf(k->seconds, sizeof k->seconds, "%.0f", each < 1 ? 1 : each);
  if (k->minutes > 0) k->run.seconds = k->seconds;
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
  return cli_fail(&k->c, cli_error(&k->c.err, TN_E_INVALID, "tenon-conform",
                                   "the program in which cases run is neither in %s/%s nor in the build folder", self,
                                   TENON_REL_LIBEXEC));
}

/* --- what is tested ---------------------------------------------------------------------------------------------- */

static int bad_input(conform *k, const char *where, const char *what) {
  return cli_fail(&k->c, cli_error(&k->c.err, TN_E_INVALID, where, "%s", what));
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

/* A word of the command that repeats this run. */
static void add_word(conform *k, const char *word) {
  if (!k->line) return;
  fputc(' ', k->line);
  tni_put_word(word, k->line);
}

static void add_arg(conform *k, const char *name, const char *value, bool replay) {
  if (!value || k->n_args + 2 > MAX_ARGS) return;
  k->args[k->n_args++] = name;
  k->args[k->n_args++] = value;
  if (replay) add_word(k, name);
  if (replay) add_word(k, value);
}

static void collect_args(conform *k) {
  size_t n;
  k->line = open_memstream(&k->replay, &n);
  if (k->line) fputs("tenon conform", k->line);
  add_word(k, k->path);
  if (k->thorough) add_word(k, "--thorough");
  add_arg(k, "--plugin", k->path, false);
  add_arg(k, "--profile", k->c.profile, true);
  if (k->c.profile) add_arg(k, "--profile-dir", k->profile_dir = cli_profile_dir(), false);
  add_arg(k, "--section", k->section, false);
  if (k->section) add_word(k, "--plugin"), add_word(k, k->section);
  for (char **o = k->options; o && *o; o++) add_arg(k, "--option", *o, true);
  snprintf(k->number, sizeof k->number, "%d", k->device);
  if (k->device >= 0) add_arg(k, "--device", k->number, true);
  k->run.cache_dir = k->c.cache_dir;
  add_arg(k, "--model", k->model, true);
  add_arg(k, "--replay", k->replay_dir, true);
  if (k->line) (void)fclose(k->line);
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

/* --device names one that the plugin does not have. */
static bool device_missing(const conform *k, const tni_cf_report *r) {
  const json_t *devices = json_object_get(r->listing, "devices");
  if (k->device < 0 || !json_is_true(json_object_get(r->listing, "loaded"))) return false;
  return *why_not(r) && (size_t)k->device >= json_array_size(devices);
}

static int conform_verdict(const conform *k, const tni_cf_report *r) {
  if (r->interrupted) return EXIT_INT;
  if (device_missing(k, r)) {
    cli_note("--device %d: %s", k->device, why_not(r));
    return EXIT_DEVICE;
  }
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
  const tni_cf_about about = {.plugin = k->path,
                              .level = k->level,
                              .replay = k->replay ? k->replay : "tenon conform",
                              .verbose = k->verbose != 0};
  if (k->list) {
    for (uint32_t i = 0; i < r->n; i++) printf("%s\n", r->results[i].name);
    return r->n ? EXIT_DONE : EXIT_CHECK;
  }
  const int bad = k->junit ? tni_cf_report_junit(r, &about, k->junit) : 0,
            worse = k->html ? tni_cf_report_html(r, &about, k->html) : 0;
  if (k->c.format == FMT_JSON) {
    cli_print_json(tni_cf_report_json(r, &about), JSON_INDENT(1));
  } else {
    tni_cf_report_text(r, &about, stdout);
  }
  if (bad) return cli_note("%s: %s", k->junit, strerror(bad)), EXIT_OUTPUT;
  if (worse) return cli_note("%s: %s", k->html, strerror(worse)), EXIT_OUTPUT;
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
    rc = cli_interrupted() ? EXIT_INT : cli_fail(&k->c, cli_error(&k->c.err, TN_E_INTERNAL, NULL, "%s", why));
  tni_cf_report_finish(&r);
  return rc;
}

static void free_nothing(void *object) { (void)object; }

int cmd_conform(int argc, const char **argv) {
  conform k = {.c = {.command = "conform"}, .device = -1, .patience = 1};
  const opt_row own[] = {
      {"case", 0, OPT_LIST, &k.cases, "GLOB", NULL, "only cases whose name matches, '*' also '/'", NULL},
      {"seed", 0, OPT_TEXT, &k.seed, "S", NULL, "of all that is random", "drawn, and printed"},
      {"level", 0, OPT_TEXT, &k.level, NULL, "abi|claimed|matmul|llm|vision", "what it must do (docs/conformance.md)",
       NULL},
      {"option", 0, OPT_LIST, &k.options, "KEY=VALUE", NULL, "option of the plugin", NULL},
      {"plugin", 0, OPT_TEXT, &k.section, "NAME", NULL, "take the options that --profile gives this plugin",
       "its file"},
      {"device", 0, OPT_INT, &k.device, "N", "0..", "index of the device", NULL},
      {"model", 0, OPT_TEXT, &k.model, "MODEL", NULL, "ask for claims of this model too, and run what it claims", NULL},
      {"replay", 0, OPT_TEXT, &k.replay_dir, "DIR", NULL, "only a case that `tenon verify --each-node` saved", NULL},
      {"thorough", 0, OPT_FLAG, &k.thorough, NULL, NULL, "more of everything: a long run", NULL},
      {"minutes", 0, OPT_REAL, &k.minutes, "N", "0..100000", "the time that there is, at most half of it for random graphs",
       "no limit"},
      {"fail-fast", 0, OPT_FLAG, &k.fail_fast, NULL, NULL, "begin no case once one has failed", NULL},
      {"jobs", 0, OPT_INT, &k.jobs, "N", "0..256", "cases at once", "one per processor"},
      {"patience", 0, OPT_REAL, &k.patience, "X", "0.1..1000", "factor on all time limits (emulators, sanitizers)",
       NULL},
      {"list", 0, OPT_FLAG, &k.list, NULL, NULL, "only name the cases", NULL},
      {"verbose", 'v', OPT_FLAG, &k.verbose, NULL, NULL, "show cases that pass, too", NULL},
      {"junit", 0, OPT_TEXT, &k.junit, "FILE", NULL, "write a JUnit report", NULL},
      {"html", 0, OPT_TEXT, &k.html, "FILE", NULL, "write the report as a page", NULL},
      {"wrapper", 0, OPT_TEXT, &k.wrapper, "CMD", NULL, "start cases with this command, such as an emulator", NULL},
      {"worker", 0, OPT_TEXT, &k.worker, "FILE", NULL, "the program tenon-conform", "the installed one"},
      OPT_ROWS_END};
  static char only[] = "replay/*", *replay_only[] = {only, NULL};
  int rc = cli_parse(
      &k.c, argc, argv,
      &(cli_use){.usage = "PLUGIN.so|host [options]", .operand = "PLUGIN", .own = own, .formats = "text|json"});
  if (!rc && k.section && !k.c.profile) rc = cli_usage(&k.c, "--plugin says whose options of a --profile are meant");
  find_level(&k);
  if (!rc) rc = parse_seed(&k);
  if (!rc && k.replay_dir && !k.cases) k.cases = replay_only;
  if (!rc) rc = parse_rest(&k);
  if (!rc) rc = look_at_file(&k, k.c.operand);
  if (!rc) rc = find_worker(&k);
  if (!rc) {
    collect_args(&k);
    cli_cancel_by(free_nothing, &k);
    rc = run_conform(&k);
  }
  free(k.replay);
  free(k.profile_dir);
  cli_finish(&k.c);
  return rc;
}
