/* SPDX-License-Identifier: Apache-2.0
 *
 * What every command shares: the common options, opening a runtime, tables, errors and exit codes. Results go to
 * stdout, everything else to stderr.
 */
#ifndef TENON_CLI_CLI_H
#define TENON_CLI_CLI_H

#include <stdarg.h>
#include <stdbool.h>
#include <tenon/tenon.h>

#include "runtime/base/json.h"
#include "runtime/cli/shell/shell.h"
#include "runtime/options/options.h"

typedef enum { FMT_TEXT, FMT_MD, FMT_CSV, FMT_JSON } cli_format;

/* Options that every command takes. */
typedef struct cli {
  const char *command;
  const char
      *operand; /* what stands without an option: the MODEL, or its file that --model-file names; NULL: nothing */
  char *profile, *log_level, *format_name, *cache_dir, *calibration, *cpus, *show;
  char *max_memory; /* --max-memory */
  char *disable;    /* --disable-pass, of the commands that load a model as a graph; "NAME,..." */
  const char *disabled[64];
  uint32_t n_disabled;
  const char **overridable; /* inputs that the command line gives */
  uint32_t n_overridable;
  char *model_file;  /* --model-file: which file of MODEL */
  char *found;       /* then: that file */
  long long max_seq; /* --max-seq; 0: not given */
  char **plugin_dirs;
  int threads;
  const char *retry;    /* `plugins --retry NAME` */
  long long order_seed; /* --order-seed, for tests: tasks in random orders */
  cli_format format;
  opts opts;
  bool unwatched;    /* loading leaves signals as they are: somebody else looks at them */
  bool unsaved;      /* a file that was asked for could not be written */
  double pack_start; /* progress of packing */
  uint64_t pack_first, pack_done;
  union {
    tn_error err;
    tn_long_error whole; /* the same, with all of its text */
  };
  tn_runtime *rt;
} cli;

/* How a command is called. */
typedef struct cli_use {
  const char *usage;   /* after "tenon COMMAND " */
  const char *operand; /* "MODEL": one is needed; "[MODEL]": one or none; NULL: none */
  const opt_row *own, *more;
  const char *more_title; /* of the table `more` */
  const char *formats;    /* those that --format takes here, "text|json"; NULL: all */
  bool context;           /* takes --max-seq */
} cli_use;
/* Given back after --help, where there is nothing left to do; main makes EXIT_DONE of it. */
enum { CLI_HELPED = -1 };
/* Parses argv with the command's own tables in front of the common one. 0, or the exit code to leave with. */
int cli_parse(cli *c, int argc, const char **argv, const cli_use *use);
void cli_finish(cli *c);
/* --format json counts for mistakes too, wherever it stands. */
void cli_find_json(cli *c, int argc, const char **argv);

typedef struct cli_command {
  const char *name;
  int (*run)(int argc, const char **argv);
} cli_command;
/* What a command does, in a line; "" of one that is none. */
const char *cli_summary(const char *command);
/* Finds the command that argv[1] names, or answers help, --version and mistakes. The exit code,
 * or CLI_HELPED. */
int cli_dispatch(int argc, const char **argv);

/* A model could not be opened or loaded: reports c->err, with what the model needs where --max-memory was too little.
 * The exit code. */
int cli_fail_load(cli *c, const char *path, tn_status st);

/* The folder that this program lies in, where that is a bundle (docs/bundles.md): compared with its list. Paths are
 * malloc'd; profile NULL: this is no bundle. */
typedef struct cli_bundle {
  char *profile, *plugins, *packed;
} cli_bundle;
/* 0, or an exit code (reported): the bundle is damaged. */
int cli_bundle_find(cli *c, cli_bundle *out);

enum { CLI_MAX_DIRS = 64 };
/* How a runtime is opened, and what its options point to. */
typedef struct cli_runtime {
  tn_runtime_opts o;
  cli_bundle bundle;
  const char *dirs[CLI_MAX_DIRS], *profile_dirs[2];
  char *absolute[CLI_MAX_DIRS], *path_copy, *profile_copy;
  size_t n;
  char cache[4096], moved[4096], profiles[4096], helper[4096];
} cli_runtime;
/* Options, environment, bundle -> options of a runtime. 0, or an exit code (reported). Finish in both cases. */
int cli_runtime_opts(cli *c, uint32_t flags, cli_runtime *r);
void cli_runtime_finish(cli_runtime *r);
/* TENON_PROFILE_PATH, or the profiles of the build folder that this program lies in. malloc'd, or NULL. */
char *cli_profile_dir(void);
/* A variable of the environment, NULL where it is empty or the process is privileged. */
const char *cli_env(const char *name);

/* Opens the runtime that the options ask for. 0, or an exit code (reported). */
int cli_open(cli *c, uint32_t flags);
int cli_load(cli *c, const char *path, uint32_t flags, tn_model **out);

/* One value on stdout; an object says its "schema". flags: of json_dumpf. Takes j over. */
void cli_print_json(json_t *j, size_t flags);
/* A report as it came, an object that is not empty, and what stands in more after it, with the "schema". It is not
 * parsed, as it may list a million nodes. Takes more over. */
void cli_print_report(const char *text, json_t *more);
/* Overwrites *err. Returns st. */
tn_status cli_error(tn_error *err, tn_status st, const char *where, const char *fmt, ...) TN_PRINTF(4, 5);
/* st is what writing a file that was asked for gave; cli_fail answers its TN_E_IO with EXIT_OUTPUT. Returns st. */
tn_status cli_saved(cli *c, tn_status st);
/* What config.json says of the context, for tn_model_opts.default_max_seq; 0: nothing. 0, or an exit code (reported).
 */
int cli_said_context(cli *c, const char *path, int64_t *positions);
/* m was loaded for n positions without --max-seq: how many of them memory has room for. One line on stderr where it
 * has less than n. */
int64_t cli_fit_context(cli *c, tn_model *m, int64_t n);

/* Reports c->err (text on stderr; one JSON object on stdout with --format json) and gives the exit code of st. */
int cli_fail(cli *c, tn_status st);
/* What cli_fail says, as "error" of JSON, and what it returns. */
json_t *cli_error_json(const cli *c, tn_status st);
int cli_exit_code(const cli *c, tn_status st);
/* A mistake in the command line. */
int cli_usage(cli *c, const char *fmt, ...) TN_PRINTF(2, 3);
void cli_note(const char *fmt, ...) TN_PRINTF(1, 2);

/* A table of strings: columns separated by what the format asks for. json: list of objects keyed by the header. */
typedef struct cli_table {
  const char *const *header;
  size_t n_cols;
  char **cells;
  size_t n_rows, cap;
  json_t *error; /* what the rows end with, in JSON */
} cli_table;
void cli_table_init(cli_table *t, const char *const *header, size_t n_cols);
void cli_table_add(cli_table *t, ...); /* n_cols strings */
void cli_table_print(const cli_table *t, cli_format f);
void cli_table_finish(cli_table *t);
/* Prints the rows that there are, says what failed after them (in JSON in the same object), and frees the table. The exit code. */
int cli_table_end(cli *c, cli_table *t, tn_status st);

/* All that comes, malloc'd and terminated; NULL with errno. */
char *cli_read_stream(FILE *f, size_t *n);
/* Whole file (or "-": standard input), malloc'd and terminated. */
tn_status cli_read(const char *path, char **text, size_t *n, tn_error *err);
/* The report of a model as parsed JSON, or NULL with c->err set. */
json_t *cli_report(cli *c, tn_model *m, uint32_t what);
/* The same as text, for tn_free(). */
char *cli_report_text(cli *c, tn_model *m, uint32_t what);
/* s with control characters as \xNN; malloc'd, NULL without memory. */
char *cli_escape(const char *s);
/* All strings of j. */
void cli_escape_json(json_t *j);
/* To stderr, as cli_escape does but for the ends of lines. */
void cli_vsay(const char *fmt, va_list ap) TN_PRINTF(1, 0);
/* From now on nobody waits for a pipe of stderr that is full: such lines are lost, and counted. Any thread. */
void cli_lose_unread(void);
void cli_say(const char *fmt, ...) TN_PRINTF(1, 2);
/* A text that the library wrote. NULL: without memory, and c->err says so. */
json_t *cli_parse_report(cli *c, const char *text);
/* Who takes how many nodes, a line on stderr for each phase of a check report that has a placement of its own;
 * products: and how many products with constant weights fell back to the host. */
void cli_note_phases(json_t *check, bool products);
/* The same of a model, without products. */
/* Where rows of embeddings are read, of a report of check or inspect; nothing where the profile does not ask. */
void cli_note_embeddings(const json_t *report);
void cli_note_placement(cli *c, tn_model *m);
/* What weights and caches are, a line on stderr; false where some are rounded. */
bool cli_note_weights(cli *c, tn_model *m);
/* Names every kind of weight that is not what the model stores, comparing all rows: EXIT_UNSUPPORTED, or 0. */
int cli_refuse_rounded(cli *c, tn_model *m);
/* Prints the nodes that nobody takes (text on stderr); EXIT_UNSUPPORTED. */
int cli_list_unsupported(cli *c, const char *model);

/* Of --summary: the prompt, to the first token, and the tokens after it, as the format says. tokens: of the prompt. */
struct parts;
int cli_print_parts(cli *c, struct parts *p, const char *model, uint32_t tokens);

int cmd_quantize(int argc, const char **argv);
int cmd_report(int argc, const char **argv);
int cmd_chat(int argc, const char **argv);
int cmd_serve(int argc, const char **argv);
int cmd_run(int argc, const char **argv);
int cmd_infer(int argc, const char **argv);
int cmd_verify(int argc, const char **argv);
int cmd_check(int argc, const char **argv);
int cmd_inspect(int argc, const char **argv);
int cmd_new_plugin(int argc, const char **argv);
int cmd_plugins(int argc, const char **argv);
int cmd_eval(int argc, const char **argv);
int cmd_trace(int argc, const char **argv);
int cmd_pack(int argc, const char **argv);
int cmd_bench(int argc, const char **argv);
int cmd_bundle(int argc, const char **argv);
int cmd_calibrate(int argc, const char **argv);
int cmd_classify(int argc, const char **argv);
int cmd_conform(int argc, const char **argv);
int cmd_embed(int argc, const char **argv);

#endif
