/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/cli/generate.h"

typedef struct out {
  int ids, first;
} out;

static void print_id(out *o, int32_t id) {
  printf("%s%d", o->first ? "" : " ", id);
  o->first = 0;
}

static int on_token(void *user, int32_t id, const char *text, size_t n) {
  out *o = user;
  if (o->ids)
    print_id(o, id);
  else
    fwrite(text, 1, n, stdout);
  fflush(stdout);
  return ferror(stdout);
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

static int run_generate(cli *c, tn_lm *lm, const gen_opts *g, const char *prompt, size_t n) {
  tn_gen_params p;
  tn_chat *chat = NULL;
  tn_gen_result res = {.h = {sizeof res, 1, 0}};
  out o = {g->ids, 1};
  int32_t *ids = NULL;
  size_t n_ids = 0;
  int rc = gen_params(c, g, lm, &p);
  if (!rc) rc = gen_ids(c, g, lm, prompt, n, &ids, &n_ids);
  if (rc) return rc;
  tn_status st = g->ids ? TN_OK : has_text(lm, ids, n_ids, &c->err);
  if (st == TN_OK) st = tn_chat_create(lm, &chat, &c->err);
  for (size_t i = 0; st == TN_OK && g->ids && i < n_ids; i++) print_id(&o, ids[i]);
  cli_cancel_chat(chat);
  if (st == TN_OK) st = tn_generate_ids(chat, ids, n_ids, &p, on_token, &o, &res, &c->err);
  cli_cancel_chat(NULL);
  if (res.new_tokens || (g->ids && n_ids && !o.first)) putchar('\n');
  fflush(stdout);
  if (st == TN_OK && res.reason == TN_STOP_CONTEXT)
    cli_note("stopped: the context of %lld tokens is full", (long long)tn_lm_context(lm));
  if (st == TN_OK) {
    cli_note_placement(c, tn_lm_model(lm));
    gen_summary(&res);
  }
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
  int rc =
      cli_parse(&c, argc, argv,
                &(cli_use){.usage = "MODEL -p TEXT [options]", .operand = "MODEL", .own = g.rows, .context = true});
  tn_lm *lm = NULL;
  if (!rc) rc = gen_prompt(&c, &g, &prompt, &n);
  if (!rc) rc = cli_open(&c, 0);
  if (!rc) rc = gen_load_fit(&c, c.operand, 0, &lm);
  if (!rc) rc = run_generate(&c, lm, &g, prompt, n);
  tn_lm_destroy(lm);
  free(prompt);
  cli_finish(&c);
  return rc;
}
