/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight formats of a model side by side, as a page.
 */
#include <stdio.h>
#include <unistd.h>

#include "runtime/cli/cli.h"
#include "runtime/cli/page/page.h"

enum { MOST_SHARED = 24 };

static void show_progress(const char *id, int done, int count) {
  if (!isatty(STDERR_FILENO)) return;
  fprintf(stderr, "\r%*s\r", 78, "");
  if (id && count)
    fprintf(stderr, "%d of %d: %s", done + 1, count, id);
  else if (id)
    fprintf(stderr, "%s", id);
}

/* What was given of the options that every command takes. */
static void share_options(const cli *c, char *threads, const char **to) {
  const char *const values[][2] = {
      {"--cpus", c->cpus}, {"--cache-dir", c->cache_dir}, {"--threads", *threads ? threads : NULL}};
  for (size_t i = 0; i < 3; i++)
    if (values[i][1]) *to++ = values[i][0], *to++ = values[i][1];
  for (char **d = c->plugin_dirs; d && *d && d < c->plugin_dirs + 8; d++) *to++ = "--plugin-dir", *to++ = *d;
  *to = NULL;
}

static int show(cli *c, json_t *figures) {
  const int failed = (int)json_integer_value(json_object_get(figures, "failed"));
  const char *page = json_string_value(json_object_get(figures, "page"));
  if (c->format != FMT_JSON) printf("%s: %zu rows\n", page, json_array_size(json_object_get(figures, "rows")));
  if (failed) cli_note("%d commands failed; '%s' says why", failed, page);
  if (c->format == FMT_JSON)
    cli_print_json(figures, JSON_INDENT(1));
  else
    json_decref(figures);
  return EXIT_DONE;
}

int cmd_report(int argc, const char **argv) {
  cli c = {.command = "report"};
  char **weights = NULL, *out = NULL, *text = NULL, *calibrate = NULL, *work = NULL, *prompt = NULL, threads[16] = "";
  const char *shared[MOST_SHARED];
  cli_page p = {.max_tokens = 512, .sample = 64, .n_prompt = 256, .n_gen = 64, .rounds = 3};
  const opt_row own[] = {
      {"output", 'o', OPT_TEXT, &out, "FILE.html", NULL, "the page to write", NULL},
      {"text", 0, OPT_TEXT, &text, "FILE", NULL, "quality: a text, or a .json list or .jsonl lines of texts or chats", "no quality"},
      {"calibrate", 0, OPT_TEXT, &calibrate, "FILE", NULL, "rows of `tenon quantize` on this text, and sensitivities",
       "none"},
      {"weights", 0, OPT_LIST, &weights, "F", NULL, "a weight format, NAME or NAME:GROUP", "the usual ones"},
      {"prompt", 'p', OPT_TEXT, &prompt, "TEXT", NULL, "of the samples", "Once upon a time"},
      {"predict", 'n', OPT_INT, &p.sample, "N", "1..4096", "tokens of a sample", NULL},
      {"max-tokens", 0, OPT_INT, &p.max_tokens, "N", "0..", "first N tokens of each text; 0: all", NULL},
      {"n-prompt", 0, OPT_INT, &p.n_prompt, "N", "1..", "tokens of a timed prompt", NULL},
      {"n-gen", 0, OPT_INT, &p.n_gen, "N", "1..", "tokens of timed decoding", NULL},
      {"repetitions", 'r', OPT_INT, &p.rounds, "N", "1..1000", "rounds of timing", NULL},
      {"work", 0, OPT_TEXT, &work, "DIR", NULL, "keeps what commands gave; a later call takes it", "FILE.html.partial"},
      OPT_ROWS_END};
  json_t *figures = NULL;
  int rc = cli_parse(&c, argc, argv,
                     &(cli_use){.usage = "MODEL -o FILE.html [options]", .operand = "MODEL", .own = own, .formats = "text|json"});
  if (!rc && (!out || !*out)) rc = cli_usage(&c, "-o FILE.html is needed");
  if (!rc) {
    if (c.threads) snprintf(threads, sizeof threads, "%d", c.threads);
    share_options(&c, threads, shared);
    p.model = c.operand, p.out = out, p.work = work, p.text = text, p.calibration = calibrate, p.profile = c.profile;
    p.prompt = prompt ? prompt : "Once upon a time", p.progress = show_progress, p.shared = shared;
    p.weights = (const char *const *)weights;
    const tn_status st = cli_page_make(&p, &figures, &c.err);
    rc = st == TN_OK ? show(&c, figures) : cli_fail(&c, st == TN_E_IO ? cli_saved(&c, st) : st);
  }
  cli_finish(&c);
  return rc;
}
