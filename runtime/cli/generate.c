/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cli/generate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void gen_options(gen_opts *g) {
  *g = (gen_opts){.n = 128};
  const opt_row rows[] = {
      {"prompt", 'p', OPT_TEXT, &g->prompt, "TEXT", NULL, "the prompt", NULL},
      {"file", 'f', OPT_TEXT, &g->file, "FILE", NULL, "read the prompt from FILE, or '-' for standard input", NULL},
      {"prompt-ids", 0, OPT_TEXT, &g->prompt_ids, "LIST", NULL,
       "the prompt as token ids, such as 1,15,7: no tokenizer is needed", NULL},
      {"predict", 'n', OPT_INT, &g->n, "N", "0..", "tokens to generate at most; 0: until the end", NULL},
      {"ids", 0, OPT_FLAG, &g->ids, NULL, NULL, "print token ids, the prompt's first, instead of text", NULL}};
  enum { OWN = sizeof rows / sizeof *rows };
  _Static_assert(OWN + SAMPLING_ROWS < GEN_ROWS, "GEN_ROWS is too small");
  memcpy(g->rows, rows, sizeof rows);
  g->rows[OWN + sampling_rows(&g->sampling, g->rows + OWN)] = (opt_row)OPT_ROWS_END;
}

int gen_prompt(cli *c, const gen_opts *g, char **text, size_t *n) {
  if (!!g->prompt + !!g->file + !!g->prompt_ids > 1) return cli_usage(c, "-p, -f and --prompt-ids exclude each other");
  if (!g->prompt && !g->file && !g->prompt_ids)
    return cli_usage(c, "a prompt is needed: -p TEXT, -f FILE or --prompt-ids LIST");
  if (g->prompt_ids) return 0;
  if (g->file) {
    tn_status st = cli_read(g->file, text, n, &c->err);
    return st == TN_OK ? 0 : cli_fail(c, st);
  }
  *text = strdup(g->prompt);
  *n = strlen(g->prompt);
  return *text ? 0 : cli_fail(c, TN_E_NO_MEMORY);
}

/* The end of one id of a list; NULL: there is none. */
static const char *read_id(const char *s, int32_t *id) {
  char *end;
  errno = 0;
  const long long v = strtoll(s, &end, 10);
  if (end == s || errno || v < 0 || v > INT32_MAX || (*end && *end != ',') || (*end && !end[1])) return NULL;
  *id = (int32_t)v;
  return *end ? end + 1 : end;
}

/* Where tn_free releases them, as it does tn_lm_encode's. */
static int listed_ids(cli *c, const char *list, int32_t **ids, size_t *n_ids) {
  size_t most = 1;
  for (const char *s = list; *s; s++) most += *s == ',';
  int32_t *v = malloc(most * sizeof *v);
  if (!v) return cli_fail(c, TN_E_NO_MEMORY);
  *n_ids = 0;
  for (const char *s = list; *s && (s = read_id(s, &v[*n_ids]));) (*n_ids)++;
  if (*n_ids != most) {
    free(v);
    return cli_usage(c, "--prompt-ids takes token ids with commas between them, such as 1,15,7; not '%s'", list);
  }
  *ids = v;
  return 0;
}

int gen_ids(cli *c, const gen_opts *g, const tn_lm *lm, const char *text, size_t n, int32_t **ids, size_t *n_ids) {
  if (g->prompt_ids) return listed_ids(c, g->prompt_ids, ids, n_ids);
  const tn_status st = tn_lm_encode(lm, text, n, 1, ids, n_ids, &c->err);
  return st == TN_OK ? 0 : cli_fail(c, st);
}

int gen_params(cli *c, gen_opts *g, const tn_lm *lm, tn_gen_params *p) {
  tn_status st = sampling_params(&g->sampling, lm, p, &c->err);
  p->max_tokens = (uint32_t)g->n;
  if (*g->sampling.why) return cli_usage(c, "%s", g->sampling.why);
  if (st == TN_OK) st = sampling_draft(&g->sampling, c->rt, lm, &c->err);
  return st == TN_OK ? 0 : cli_fail(c, st);
}

int gen_load(cli *c, const char *path, uint32_t flags, tn_lm **lm) { return gen_load_for(c, path, flags, 0, lm); }

static int load_lm(cli *c, const char *path, tn_lm_opts o, tn_lm **lm) {
  o.h = (tn_hdr){sizeof o, 1, 0};
  o.order_seed = (uint64_t)c->order_seed;
  if (!c->unwatched) cli_cancel_load(c->rt);
  tn_status st = tn_lm_load(c->rt, path, &o, lm, &c->err);
  if (!c->unwatched) cli_cancel_load(NULL);
  if (st == TN_E_UNSUPPORTED) return cli_list_unsupported(c, path);
  return st == TN_OK ? 0 : cli_fail_load(c, path, st);
}

int gen_load_for(cli *c, const char *path, uint32_t flags, int64_t max_seq, tn_lm **lm) {
  const int64_t most = c->max_seq > max_seq ? c->max_seq : max_seq;
  const int rc = load_lm(c, path, (tn_lm_opts){.model_flags = flags, .max_seq = most}, lm);
  if (!rc && c->max_seq && tn_lm_context(*lm) < c->max_seq)
    cli_note("context: %lld positions, as config.json says; --max-seq %lld is more", (long long)tn_lm_context(*lm),
             c->max_seq);
  return rc;
}

int gen_load_fit(cli *c, const char *path, uint32_t flags, tn_lm **lm) {
  int64_t said = 0;
  if (c->max_seq) return gen_load_for(c, path, flags, 0, lm);
  int rc = cli_said_context(c, path, &said);
  if (!rc) rc = load_lm(c, path, (tn_lm_opts){.model_flags = flags, .default_max_seq = said}, lm);
  if (rc) return rc;
  const int64_t fit = cli_fit_context(c, tn_lm_model(*lm), tn_lm_context(*lm));
  if (fit == tn_lm_context(*lm)) return 0;
  tn_lm_destroy(*lm);
  *lm = NULL;
  return load_lm(c, path, (tn_lm_opts){.model_flags = flags, .max_seq = fit}, lm);
}

void gen_summary(const tn_gen_result *r) {
  double pre = (double)r->prefill_ns / 1e9, dec = (double)r->decode_ns / 1e9;
  /* The first new token comes out of the prefill. */
  uint32_t steps = r->new_tokens ? r->new_tokens - 1 : 0;
  cli_note("prefill: %u tokens, %.1f tokens/s; decode: %u tokens, %.1f tokens/s", r->prompt_tokens,
           pre > 0 ? r->prompt_tokens / pre : 0, r->new_tokens, dec > 0 ? steps / dec : 0);
}
