/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cli/generate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void gen_options(cli *c, gen_opts *g, struct poptOption *t) {
  *g = (gen_opts){.n = 128, .top_k = -1, .temp = -1, .top_p = -1, .min_p = -1, .repeat = -1};
  const struct poptOption table[GEN_OPTIONS] = {
      {"prompt", 'p', POPT_ARG_STRING, &g->prompt, 0, "the prompt", "TEXT"},
      {"file", 'f', POPT_ARG_STRING, &g->file, 0, "read the prompt from FILE, or '-' for standard input", "FILE"},
      {"predict", 'n', POPT_ARG_INT, &g->n, 0, "tokens to generate at most (default 128; 0: until the end)", "N"},
      {"temp", 0, POPT_ARG_DOUBLE, &g->temp, 0, "temperature; 0 is greedy", "T"},
      {"top-k", 0, POPT_ARG_INT, &g->top_k, 0, "keep the K most likely; 0: off", "K"},
      {"top-p", 0, POPT_ARG_DOUBLE, &g->top_p, 0, "keep the smallest set with this probability", "P"},
      {"min-p", 0, POPT_ARG_DOUBLE, &g->min_p, 0, "drop what is less likely than P x the most likely", "P"},
      {"repeat-penalty", 0, POPT_ARG_DOUBLE, &g->repeat, 0, "penalty for tokens seen before; 1: off", "R"},
      {"seed", 0, POPT_ARG_STRING, &g->seed, 0, "seed of the sampler (default 0)", "S"},
      {"stop", 0, POPT_ARG_ARGV, &g->stop, 0, "stop where this text appears (repeatable)", "STR"},
      {"ignore-eos", 0, POPT_ARG_NONE, &g->ignore_eos, 0, "go on after an end-of-sequence token", NULL},
      {"ids", 0, POPT_ARG_NONE, &g->ids, 0, "print token ids, the prompt's first, instead of text", NULL},
      CLI_MODEL_FILE(*c),
      POPT_TABLEEND};
  memcpy(t, table, sizeof table);
}

void gen_options_finish(gen_opts *g) {
  free(g->prompt);
  free(g->file);
  free(g->seed);
  for (char **s = g->stop; s && *s; s++) free(*s);
  free(g->stop);
}

int gen_prompt(cli *c, const gen_opts *g, char **text, size_t *n) {
  if (g->prompt && g->file) return cli_usage(c, "-p and -f exclude each other");
  if (!g->prompt && !g->file) return cli_usage(c, "a prompt is needed: -p TEXT or -f FILE");
  if (g->file) {
    tn_error_init(&c->err);
    tn_status st = cli_read(g->file, text, n, &c->err);
    return st == TN_OK ? 0 : cli_fail(c, st);
  }
  *text = strdup(g->prompt);
  *n = strlen(g->prompt);
  return *text ? 0 : cli_fail(c, TN_E_NO_MEMORY);
}

int gen_params(cli *c, const gen_opts *g, const tn_lm *lm, tn_gen_params *p) {
  tn_gen_params_init(p);
  tn_lm_gen_defaults(lm, p);
  if (g->n < 0) return cli_usage(c, "-n takes 0 or more");
  p->max_tokens = (uint32_t)g->n;
  if (g->temp >= 0) p->temperature = (float)g->temp;
  if (g->top_k >= 0) p->top_k = (uint32_t)g->top_k;
  if (g->top_p >= 0) p->top_p = (float)g->top_p;
  if (g->min_p >= 0) p->min_p = (float)g->min_p;
  if (g->repeat >= 0) p->repeat_penalty = (float)g->repeat;
  if (p->top_p > 1 || p->min_p > 1) return cli_usage(c, "--top-p and --min-p take 0 to 1");
  if (p->repeat_penalty <= 0) return cli_usage(c, "--repeat-penalty takes more than 0");
  if (g->seed) {
    char *end;
    errno = 0;
    p->seed = strtoull(g->seed, &end, 10);
    if (*end || errno) return cli_usage(c, "--seed takes a whole number, not '%s'", g->seed);
  }
  p->stop = (const char *const *)g->stop;
  while (g->stop && g->stop[p->n_stop]) p->n_stop++;
  if (g->ignore_eos) p->flags |= TN_GEN_IGNORE_EOS;
  return 0;
}

int gen_load(cli *c, const char *path, uint32_t flags, tn_lm **lm) { return gen_load_for(c, path, flags, 0, lm); }

int gen_load_for(cli *c, const char *path, uint32_t flags, int64_t max_seq, tn_lm **lm) {
  tn_lm_opts o = {
      .h = {sizeof o, 1, 0}, .model_flags = flags, .max_seq = max_seq, .order_seed = (uint64_t)c->order_seed};
  tn_error_init(&c->err);
  cli_cancel_load(c->rt);
  tn_status st = tn_lm_load(c->rt, path, &o, lm, &c->err);
  cli_cancel_load(NULL);
  if (st == TN_E_UNSUPPORTED) return cli_list_unsupported(c, path);
  return st == TN_OK ? 0 : cli_fail(c, st);
}

void gen_summary(const tn_gen_result *r) {
  double pre = (double)r->prefill_ns / 1e9, dec = (double)r->decode_ns / 1e9;
  /* The first new token comes out of the prefill. */
  uint32_t steps = r->new_tokens ? r->new_tokens - 1 : 0;
  cli_note("prefill: %u tokens, %.1f tokens/s; decode: %u tokens, %.1f tokens/s", r->prompt_tokens,
           pre > 0 ? r->prompt_tokens / pre : 0, r->new_tokens, dec > 0 ? steps / dec : 0);
}
