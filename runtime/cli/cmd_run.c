/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include <string.h>
#include <tenon/lm.h>

#include "runtime/cli/chat/chat.h"
#include "runtime/cli/generate.h"

typedef struct out {
  int ids, first;
  json_t *new_ids; /* with --format json: nothing is streamed */
  FILE *text;
} out;

static void print_id(out *o, int32_t id) {
  printf("%s%d", o->first ? "" : " ", id);
  o->first = 0;
}

static int on_token(void *user, int32_t id, const char *text, size_t n) {
  out *o = user;
  if (o->new_ids) {
    json_array_append_new(o->new_ids, json_integer(id));
    return fwrite(text, 1, n, o->text) != n;
  }
  if (o->ids)
    print_id(o, id);
  else
    fwrite(text, 1, n, stdout);
  return !cli_streams_flush();
}

/* Without a tokenizer there is nothing to print but ids. */
static tn_status has_text(const tn_lm *lm, const int32_t *ids, size_t n, tn_error *err) {
  char *text = NULL;
  size_t n_text;
  const tn_status st = tn_lm_decode(lm, ids, n, 0, &text, &n_text, err);
  tn_free(text);
  if (st != TN_E_UNAVAILABLE) return st;
  return cli_error(err, st, err->where, "tokenizer.json is missing: add --ids to print token ids");
}

static const char *stop_reason(uint32_t reason) {
  static const char *const names[] = {[TN_STOP_EOS] = "eos",
                                      [TN_STOP_LENGTH] = "length",
                                      [TN_STOP_STRING] = "stop",
                                      [TN_STOP_CALLBACK] = "cancel",
                                      [TN_STOP_CONTEXT] = "context"};
  return reason < sizeof names / sizeof *names && names[reason] ? names[reason] : "other";
}

/* Tokens and seconds of one phase. */
static json_t *phase_json(uint32_t tokens, int64_t ns, uint32_t steps) {
  const double s = (double)ns / 1e9;
  return json_pack("{s:I, s:f, s:f}", "tokens", (json_int_t)tokens, "seconds", s, "tokens_per_s",
                   s > 0 ? steps / s : 0);
}

/* A text that ends inside a letter is printed up to it: json_stringn_nocheck would take any bytes. */
static json_t *text_json(const char *text, size_t n) {
  json_t *j = NULL;
  for (size_t cut = 0; !j && cut < 4 && cut <= n; cut++) j = json_stringn(text, n - cut);
  return j ? j : json_null();
}

static void print_result(cli *c, tn_lm *lm, const int32_t *ids, size_t n, json_t *new_ids, json_t *text,
                         const tn_gen_result *r) {
  json_t *prompt = json_array(), *check = cli_report(c, tn_lm_model(lm), TN_REPORT_PLACEMENT);
  for (size_t i = 0; i < n; i++) json_array_append_new(prompt, json_integer(ids[i]));
  json_t *j = json_pack("{s:o, s:o, s:O, s:s, s:o, s:o}", "text", text, "prompt_ids", prompt, "ids", new_ids, "stopped",
                        stop_reason(r->reason), "prefill",
                        phase_json(r->prompt_tokens, (int64_t)r->prefill_ns, r->prompt_tokens), "decode",
                        phase_json(r->new_tokens, (int64_t)r->decode_ns, r->new_tokens ? r->new_tokens - 1 : 0));
  json_object_set(j, "placement", json_object_get(check, "placement"));
  cli_print_json(j, JSON_INDENT(1));
  json_decref(check);
}

static int run_generate(cli *c, tn_lm *lm, gen_opts *g, const char *prompt, size_t n) {
  tn_gen_params p;
  tn_chat *chat = NULL;
  tn_gen_result res = {.h = {sizeof res, 1, 0}};
  char *text = NULL;
  size_t n_text = 0;
  const bool json = c->format == FMT_JSON;
  out o = {.ids = g->ids, .first = 1};
  int32_t *ids = NULL;
  size_t n_ids = 0;
  int rc = gen_params(c, g, lm, &p);
  if (!rc) rc = gen_ids(c, g, lm, prompt, n, &ids, &n_ids);
  if (rc) return rc;
  tn_status st = g->ids ? TN_OK : has_text(lm, ids, n_ids, &c->err);
  if (st == TN_OK) st = tn_chat_create(lm, &chat, &c->err);
  if (st == TN_OK) st = tn_chat_draft(chat, g->sampling.draft_lm, (uint32_t)g->sampling.draft_tokens, &c->err);
  if (json) {
    o.new_ids = json_array();
    o.text = open_memstream(&text, &n_text);
    if (!o.text) st = TN_E_NO_MEMORY;
  }
  for (size_t i = 0; st == TN_OK && !json && g->ids && i < n_ids; i++) print_id(&o, ids[i]);
  cli_cancel_chat(chat);
  if (st == TN_OK) st = tn_generate_ids(chat, ids, n_ids, &p, on_token, &o, &res, &c->err);
  cli_cancel_chat(NULL);
  if (o.text) fclose(o.text);
  if (!json && (res.new_tokens || (g->ids && n_ids && !o.first))) putchar('\n');
  if (json && st == TN_OK) print_result(c, lm, ids, n_ids, o.new_ids, text_json(text, n_text), &res);
  (void)cli_streams_flush();
  if (st == TN_OK && res.reason == TN_STOP_CONTEXT)
    cli_note("stopped: the context of %lld tokens is full", (long long)tn_lm_context(lm));
  if (st == TN_OK) {
    cli_note_placement(c, tn_lm_model(lm));
    cli_note_weights(c, tn_lm_model(lm));
    gen_summary(&res);
  }
  json_decref(o.new_ids);
  free(text);
  tn_chat_destroy(chat);
  tn_free(ids);
  return st == TN_OK ? EXIT_DONE : cli_fail(c, st);
}

int cmd_run(int argc, const char **argv) {
  cli c = {.command = "run"};
  gen_opts g;
  gen_options(&g);
  char *prompt = NULL;
  size_t n = 0;
  int rc = cli_parse(&c, argc, argv,
                     &(cli_use){.usage = "MODEL -p TEXT [options]",
                                .operand = "MODEL",
                                .own = g.rows,
                                .formats = "text|json",
                                .context = true});
  tn_lm *lm = NULL;
  if (!rc) rc = gen_prompt(&c, &g, &prompt, &n);
  if (!rc) rc = cli_open(&c, 0);
  if (!rc) rc = gen_load_fit(&c, c.operand, 0, &lm);
  if (!rc) rc = run_generate(&c, lm, &g, prompt, n);
  sampling_finish(&g.sampling);
  tn_lm_destroy(lm);
  free(prompt);
  cli_finish(&c);
  return rc;
}

/* --- chat --- */

/* Options of `run` that mean something in a conversation, and --system. */
static void chat_rows(const opt_row *from, char **system, opt_row *rows) {
  *rows++ = (opt_row){"system", 's', OPT_TEXT, system, "TEXT", NULL, "what the model is told first", NULL};
  for (; from->name; from++)
    if (!strstr(" prompt file prompt-ids ids ignore-eos ", from->name)) *rows++ = *from;
  *rows = (opt_row)OPT_ROWS_END;
}

static int fail_chat(void *c, tn_status st) { return cli_fail(c, st); }

static int run_chat(cli *c, tn_lm *lm, gen_opts *g, const char *system) {
  cli_chat with = {
      .lm = lm, .system = system, .err = &c->err, .note = cli_note, .say = cli_say, .fail = fail_chat, .user = c};
  if (!tn_lm_has_template(lm))
    return cli_fail(c, cli_error(&c->err, TN_E_UNAVAILABLE, c->operand,
                                 "'%s' has no chat template; `tenon run` completes text", c->operand));
  const int rc = gen_params(c, g, lm, &with.params);
  if (rc) return rc;
  with.draft = g->sampling.draft_lm;
  with.draft_tokens = (uint32_t)g->sampling.draft_tokens;
  cli_note_weights(c, tn_lm_model(lm));
  return cli_converse(&with);
}

int cmd_chat(int argc, const char **argv) {
  cli c = {.command = "chat"};
  gen_opts g;
  opt_row rows[GEN_ROWS + 1];
  char *system = NULL;
  tn_lm *lm = NULL;
  gen_options(&g);
  g.n = 0;
  chat_rows(g.rows, &system, rows);
  int rc = cli_parse(&c, argc, argv, &(cli_use){"MODEL [options]", "MODEL", rows, .formats = "text", .context = true});
  if (!rc) rc = cli_open(&c, 0);
  if (!rc) rc = gen_load_fit(&c, c.operand, 0, &lm);
  if (!rc) rc = run_chat(&c, lm, &g, system);
  sampling_finish(&g.sampling);
  tn_lm_destroy(lm);
  cli_finish(&c);
  return rc;
}
