/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cli/generate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void gen_options(gen_opts *g) {
  *g = (gen_opts){.n = 128, .top_k = -1, .temp = -1, .top_p = -1, .min_p = -1, .repeat = -1};
  static const char unset[] = "what the model says";
  const opt_row rows[] = {
      {"prompt", 'p', OPT_TEXT, &g->prompt, "TEXT", NULL, "the prompt", NULL},
      {"file", 'f', OPT_TEXT, &g->file, "FILE", NULL, "read the prompt from FILE, or '-' for standard input", NULL},
      {"prompt-ids", 0, OPT_TEXT, &g->prompt_ids, "LIST", NULL,
       "the prompt as token ids, such as 1,15,7: no tokenizer is needed", NULL},
      {"predict", 'n', OPT_INT, &g->n, "N", "0..", "tokens to generate at most; 0: until the end", NULL},
      {"temp", 0, OPT_REAL, &g->temp, "T", "0..", "temperature; 0 is greedy", unset},
      {"top-k", 0, OPT_INT, &g->top_k, "K", "0..", "keep the K most likely; 0: off", unset},
      {"top-p", 0, OPT_REAL, &g->top_p, "P", ">0..1", "keep the smallest set with this probability", unset},
      {"min-p", 0, OPT_REAL, &g->min_p, "P", "0..1", "drop what is less likely than P x the most likely", unset},
      {"repeat-penalty", 0, OPT_REAL, &g->repeat, "R", ">0", "penalty for tokens seen before; 1: off", unset},
      {"seed", 0, OPT_TEXT, &g->seed, "S", NULL, "seed of the sampler", "0"},
      {"stop", 0, OPT_LIST, &g->stop, "STR", NULL, "stop where this text appears", NULL},
      {"ignore-eos", 0, OPT_FLAG, &g->ignore_eos, NULL, NULL, "go on after an end-of-sequence token", NULL},
      {"ids", 0, OPT_FLAG, &g->ids, NULL, NULL, "print token ids, the prompt's first, instead of text", NULL},
      OPT_ROWS_END};
  _Static_assert(sizeof rows <= sizeof g->rows, "GEN_ROWS is too small");
  memcpy(g->rows, rows, sizeof rows);
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

int gen_params(cli *c, const gen_opts *g, const tn_lm *lm, tn_gen_params *p) {
  tn_gen_params_init(p);
  tn_lm_gen_defaults(lm, p);
  p->max_tokens = (uint32_t)g->n;
  if (g->temp >= 0) p->temperature = (float)g->temp;
  if (g->top_k >= 0) p->top_k = (uint32_t)g->top_k;
  if (g->top_p >= 0) p->top_p = (float)g->top_p;
  if (g->min_p >= 0) p->min_p = (float)g->min_p;
  if (g->repeat >= 0) p->repeat_penalty = (float)g->repeat;
  if (g->seed) {
    char *end;
    errno = 0;
    p->seed = strtoull(g->seed, &end, 10);
    if (*g->seed < '0' || *g->seed > '9' || *end || errno)
      return cli_usage(c, "--seed takes a whole number, not '%s'", g->seed);
  }
  p->stop = (const char *const *)g->stop;
  while (g->stop && g->stop[p->n_stop]) p->n_stop++;
  if (g->ignore_eos) p->flags |= TN_GEN_IGNORE_EOS;
  return 0;
}

int gen_load(cli *c, const char *path, uint32_t flags, tn_lm **lm) { return gen_load_for(c, path, flags, 0, lm); }

static int load_lm(cli *c, const char *path, tn_lm_opts o, tn_lm **lm) {
  o.h = (tn_hdr){sizeof o, 1, 0};
  o.order_seed = (uint64_t)c->order_seed;
  cli_cancel_load(c->rt);
  tn_status st = tn_lm_load(c->rt, path, &o, lm, &c->err);
  cli_cancel_load(NULL);
  if (st == TN_E_UNSUPPORTED) return cli_list_unsupported(c, path);
  return st == TN_OK ? 0 : cli_fail(c, st);
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
