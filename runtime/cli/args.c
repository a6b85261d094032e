/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of every command, and what --help says.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/cli.h"

/* What each command does, in a line: for `tenon help`, its --help and the man page. */
static const struct {
  const char *command, *text;
} summaries[] = {
    {"run", "generate text from a prompt"},
    {"chat", "a conversation, with a model that has a chat template"},
    {"serve", "models behind HTTP, as OpenAI's API has them, with a page"},
    {"infer", "run any model once on tensors from files"},
    {"verify", "compare with expected outputs or with an oracle"},
    {"check", "which device takes each node, and why others refused"},
    {"inspect", "inputs, outputs, dims, passes, memory"},
    {"embed", "vectors of texts, and which are close to a query"},
    {"classify", "classes of images; with a CLIP model, which labels fit"},
    {"plugins", "plugins, devices, formats, and why others were not loaded"},
    {"eval", "perplexity of a text"},
    {"bench", "speed of a language model, beside its peers"},
    {"trace", "one run as a trace for Perfetto"},
    {"pack", "pack weights ahead of time, and how exact they are"},
    {"conform", "the vendor kit: is this plugin correct, or here is the case where it is not"},
    {"new-plugin", "a folder to begin a backend plugin with"},
    {"bundle", "a folder with just what a model needs on one kind of device"},
    {"quantize", "a model of few bits, from one of floats and a text"},
    {"report", "a page of weight formats side by side: size, quality, speed, memory"},
    {"calibrate", "activation statistics on a text, for formats that need them"},
};

const char *cli_summary(const char *command) {
  for (size_t i = 0; i < sizeof summaries / sizeof *summaries; i++)
    if (strcmp(summaries[i].command, command) == 0) return summaries[i].text;
  return "";
}

enum { COMMON_ROWS = 16, MODEL_ROWS = 3 };

static void common_rows(cli *c, int *help, opt_row *out) {
  const opt_row rows[] = {
      {"profile", 0, OPT_TEXT, &c->profile, "NAME|FILE", NULL, "device profile: a name or a .yaml file", "default"},
      {"plugin-dir", 0, OPT_LIST, &c->plugin_dirs, "DIR", NULL, "search this folder for plugins first", NULL},
      {"threads", 0, OPT_INT, &c->threads, "N", "0..256", "threads", "the profile's, else all processors"},
      {"cpus", 0, OPT_TEXT, &c->cpus, "LIST", NULL, "processors to run on, such as 0,2-3, or big", "the profile's"},
      {"cache-dir", 0, OPT_TEXT, &c->cache_dir, "DIR", NULL, "folder for packed weights; '': none", "~/.cache/tenon"},
      {"calibration", 0, OPT_TEXT, &c->calibration, "FILE", NULL, "activation statistics of the model; '': none",
       "the profile's"},
      {"max-memory", 0, OPT_TEXT, &c->max_memory, "BYTES|nK|nM|nG", NULL,
       "memory that the process may take, mapped files apart", "no limit"},
      {"log-level", 0, OPT_TEXT, &c->log_level, NULL, "error|warn|info|debug", "what is logged", "warn"},
      {"format", 0, OPT_TEXT, &c->format_name, NULL, "text|md|csv|json", "how results are printed", "text"},
      {"order-seed", 0, OPT_LONG, &c->order_seed, "N", NULL, NULL, NULL},
      {"show", 0, OPT_TEXT, &c->show, NULL, "man|words", NULL, NULL},
      {"help", 'h', OPT_FLAG, help, NULL, NULL, "this text", NULL},
      OPT_ROWS_END};
  _Static_assert(sizeof rows <= COMMON_ROWS * sizeof *rows, "COMMON_ROWS is too small");
  memcpy(out, rows, sizeof rows);
}

/* Of commands that take a MODEL. */
static void model_rows(cli *c, bool context, opt_row *out) {
  const opt_row rows[MODEL_ROWS] = {{"model-file", 0, OPT_TEXT, &c->model_file, "FILE", NULL,
                                     "which file of the folder MODEL, or of its folder onnx/", "model.onnx, .."},
                                    {"max-seq", 'c', OPT_LONG, &c->max_seq, "N", "1..2147483647",
                                     "positions of the context", "config.json's, as far as memory goes"},
                                    OPT_ROWS_END};
  memcpy(out, rows, sizeof rows);
  if (!context) out[1] = out[2];
}

void cli_find_json(cli *c, int argc, const char **argv) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--format=json") == 0 ||
        (strcmp(argv[i], "--format") == 0 && i + 1 < argc && strcmp(argv[i + 1], "json") == 0))
      c->format = FMT_JSON;
}

typedef struct format_search {
  const char *name;
  bool found;
} format_search;

static void match_format(void *ctx, const char *word, size_t n) {
  format_search *s = ctx;
  s->found = s->found || (strlen(s->name) == n && strncmp(word, s->name, n) == 0);
}

static int check_format(cli *c, const cli_use *use) {
  format_search s = {.name = c->format_name};
  if (!use->formats || !c->format_name) return 0;
  opts_each_word(use->formats, match_format, &s);
  if (s.found) return 0;
  char words[64];
  snprintf(words, sizeof words, "%s", use->formats);
  for (char *p = words; (p = strchr(p, '|')); p++) *p = ' ';
  return cli_usage(c, "--format %s: %s prints only: %s", c->format_name, c->command, words);
}

static void set_format(cli *c) {
  static const char *const names[] = {"text", "md", "csv", "json"};
  for (int i = 0; c->format_name && i < 4; i++)
    if (strcmp(c->format_name, names[i]) == 0) c->format = (cli_format)i;
}

static int split_disabled(cli *c) {
  char *save = NULL;
  for (char *p = c->disable ? strtok_r(c->disable, ",", &save) : NULL; p; p = strtok_r(NULL, ",", &save)) {
    if (c->n_disabled == sizeof c->disabled / sizeof *c->disabled)
      return cli_usage(c, "--disable-pass lists too many passes");
    c->disabled[c->n_disabled++] = p;
  }
  return 0;
}

static void print_help(const cli *c, const cli_use *use) {
  printf("Usage: tenon %s %s\n\n%s\n", c->command, use->usage, cli_summary(c->command));
  opts_help(&c->opts, stdout);
}

/* The parts of the man page and of completion that are this command's. */
static void print_shown(const cli *c, const cli_use *use) {
  if (strcmp(c->show, "words") == 0) {
    opts_words(&c->opts, stdout);
    return;
  }
  opts own = {.tables = {{"", use->own}, {"", use->more}}};
  printf(".SS tenon %s %s\n%s\n", c->command, use->usage, cli_summary(c->command));
  opts_man(&own, stdout);
}

static int take_operands(cli *c, const cli_use *use) {
  const char *first = c->opts.rest[0], *second = first ? c->opts.rest[1] : NULL;
  const bool needed = use->operand && use->operand[0] != '[';
  if (needed && !first) return cli_usage(c, "%s%s is needed: tenon %s %s", strstr(use->operand, "...") ? "" : "one ", use->operand, c->command, use->usage);
  const bool many = use->operand && strstr(use->operand, "...");
  if (use->operand && second && !many)
    return cli_usage(c, "one %s is needed, not '%.60s' and '%.60s' (a text with spaces needs quotes)", use->operand,
                     first, second);
  if (!use->operand && first) return cli_usage(c, "'%.80s' is too much: %s takes options only", first, c->command);
  c->operand = first;
  return 0;
}

static bool takes_model(const cli_use *use) { return use->operand && strstr(use->operand, "MODEL"); }

/* `bundle`, whose MODEL may be missing, finds the file by itself. */
static int find_model(cli *c, const cli_use *use) {
  if (!c->model_file || use->operand[0] == '[') return 0;
  const tn_status st = tn_model_find(c->operand, c->model_file, &c->found, &c->err);
  if (st != TN_OK) return cli_fail(c, st);
  c->operand = c->found;
  return 0;
}

/* Holds the process to --max-memory. 0, or the exit code of a size that is none. */
static int limit_memory(cli *c) {
  const unsigned long long bytes = cli_size(c->max_memory);
  if (!bytes) return cli_usage(c, "--max-memory '%s': bytes, or a number with K, M or G", c->max_memory);
  const int e = cli_limit_data(bytes);
  if (e < 0) return cli_usage(c, "--max-memory %s is over what the system allows this process", c->max_memory);
  return e ? cli_usage(c, "--max-memory %s: %s", c->max_memory, strerror(e)) : 0;
}

int cli_parse(cli *c, int argc, const char **argv, const cli_use *use) {
  opt_row common[COMMON_ROWS], model[MODEL_ROWS];
  int help = 0;
  tn_long_error_init(&c->whole);
  common_rows(c, &help, common);
  model_rows(c, use->context, model);
  c->opts = (opts){.tables = {{"Options of this command:", use->own},
                              {use->more_title, use->more},
                              {takes_model(use) ? "Options of the model:" : NULL, model},
                              {"Options of every command:", common}}};
  cli_find_json(c, argc, argv);
  const bool parsed = opts_parse(&c->opts, argc, argv);
  if (c->opts.help || (parsed && c->show)) {
    (c->opts.help ? print_help : print_shown)(c, use);
    return CLI_HELPED;
  }
  if (!parsed && strncmp(c->opts.why, OPTS_NO_MEMORY, sizeof OPTS_NO_MEMORY - 1) == 0)
    return cli_fail(c, cli_error(&c->err, TN_E_NO_MEMORY, NULL, "%s", c->opts.why));
  if (!parsed) return cli_usage(c, "%s", c->opts.why);
  set_format(c);
  int rc = check_format(c, use);
  if (!rc) rc = split_disabled(c);
  if (!rc && c->max_memory) rc = limit_memory(c);
  if (!rc) rc = take_operands(c, use);
  if (!rc && takes_model(use)) rc = find_model(c, use);
  return rc;
}

void cli_finish(cli *c) {
  tn_runtime_destroy(c->rt);
  tn_free(c->found);
  opts_finish(&c->opts);
}
