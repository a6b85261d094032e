/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cli/sampling/sampling.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"

size_t sampling_rows(sampling_opts *s, opt_row *rows) {
  static const char unset[] = "what the model says";
  *s = (sampling_opts){.top_k = -1, .temp = -1, .top_p = -1, .min_p = -1, .repeat = -1};
  const opt_row all[] = {
      {"temp", 0, OPT_REAL, &s->temp, "T", "0..", "temperature; 0 is greedy", unset},
      {"top-k", 0, OPT_INT, &s->top_k, "K", "0..", "keep the K most likely; 0: off", unset},
      {"top-p", 0, OPT_REAL, &s->top_p, "P", ">0..1", "keep the smallest set with this probability", unset},
      {"min-p", 0, OPT_REAL, &s->min_p, "P", "0..1", "drop what is less likely than P x the most likely", unset},
      {"typical-p", 0, OPT_REAL, &s->typical, "P", "0..1", "keep the most typical with this probability", NULL},
      {"mirostat", 0, OPT_REAL, &s->mirostat, "TAU", "0..", "Mirostat 2 with this surprise in bits; 0: off", NULL},
      {"repeat-penalty", 0, OPT_REAL, &s->repeat, "R", ">0", "penalty for tokens seen before; 1: off", unset},
      {"frequency-penalty", 0, OPT_REAL, &s->frequency, "F", NULL, "for each time that the answer has a token", NULL},
      {"presence-penalty", 0, OPT_REAL, &s->presence, "F", NULL, "once, for tokens that the answer has", NULL},
      {"dry", 0, OPT_REAL, &s->dry, "M", "0..", "penalty for tokens that make a repeat longer; 0: off", NULL},
      {"dry-length", 0, OPT_INT, &s->dry_length, "N", "0..", "from repeats of N tokens on; 0: 2", NULL},
      {"seed", 0, OPT_TEXT, &s->seed, "S", NULL, "seed of the sampler", "0"},
      {"stop", 0, OPT_LIST, &s->stop, "STR", NULL, "stop where this text appears", NULL},
      {"min-tokens", 0, OPT_INT, &s->min_tokens, "N", "0..", "no end of sequence before N tokens", NULL},
      {"ignore-eos", 0, OPT_FLAG, &s->ignore_eos, NULL, NULL, "go on after an end-of-sequence token", NULL},
      {"json-schema", 0, OPT_TEXT, &s->schema, "SCHEMA", NULL, "the text is JSON of this schema: a file, or {...}",
       NULL},
      {"grammar", 0, OPT_TEXT, &s->grammar_file, "FILE", NULL, "the text is of this grammar, in GBNF's syntax", NULL},
      {"regex", 0, OPT_TEXT, &s->regex, "R", NULL, "the text matches this regular expression", NULL},
      {"lookup", 0, OPT_INT, &s->lookup, "N", "0..64", "try N tokens at once that followed before", NULL},
      {"draft", 0, OPT_TEXT, &s->draft, "MODEL", NULL, "try tokens that this smaller model finds likely", NULL},
      {"draft-tokens", 0, OPT_INT, &s->draft_tokens, "N", "1..64", "at most N of them at once", "8"}};
  _Static_assert(sizeof all / sizeof *all <= SAMPLING_ROWS, "SAMPLING_ROWS is too small");
  memcpy(rows, all, sizeof all);
  return sizeof all / sizeof *all;
}

static tn_status read_all(const char *path, char **text, size_t *n, tn_error *err) {
  FILE *f = fopen(path, "r");
  size_t cap = 0;
  *text = NULL;
  const ssize_t got = f ? getdelim(text, &cap, 0, f) : -1;
  const int e = errno;
  const bool empty = f && got < 0 && feof(f);
  if (f) fclose(f);
  if (got < 0 && !empty)
    return tni_fail(err, tni_errno_status(e, TN_E_IO), path, "'%s' cannot be read: %s", path, strerror(e));
  *n = got > 0 ? (size_t)got : 0;
  return TN_OK;
}

static tn_status make_grammar(sampling_opts *s, const tn_lm *lm, tn_error *err) {
  const char *given = s->schema ? s->schema : s->grammar_file ? s->grammar_file : s->regex;
  const uint32_t kind = s->schema ? TN_GRAMMAR_JSON_SCHEMA : s->grammar_file ? TN_GRAMMAR_GBNF : TN_GRAMMAR_REGEX;
  const bool is_text = s->regex || (s->schema && *given == '{');
  char *read = NULL;
  size_t n = strlen(given);
  tn_status st = is_text ? TN_OK : read_all(given, &read, &n, err);
  if (st == TN_OK) st = tn_grammar_create(lm, kind, is_text ? given : read ? read : "", n, &s->grammar, err);
  free(read);
  return st;
}

static bool read_seed(const char *text, uint64_t *seed) {
  char *end;
  errno = 0;
  *seed = strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && !*end && !errno;
}

tn_status sampling_params(sampling_opts *s, const tn_lm *lm, tn_gen_params *p, tn_error *err) {
  tn_lm_gen_defaults(lm, p);
  if (s->temp >= 0) p->temperature = (float)s->temp;
  if (s->top_k >= 0) p->top_k = (uint32_t)s->top_k;
  if (s->top_p >= 0) p->top_p = (float)s->top_p;
  if (s->min_p >= 0) p->min_p = (float)s->min_p;
  if (s->repeat >= 0) p->repeat_penalty = (float)s->repeat;
  p->typical_p = (float)s->typical;
  p->mirostat_tau = (float)s->mirostat;
  p->frequency_penalty = (float)s->frequency;
  p->presence_penalty = (float)s->presence;
  p->dry = (float)s->dry;
  p->dry_length = (uint32_t)s->dry_length;
  p->min_tokens = (uint32_t)s->min_tokens;
  p->lookup = (uint32_t)s->lookup;
  p->stop = (const char *const *)s->stop;
  while (s->stop && s->stop[p->n_stop]) p->n_stop++;
  if (s->ignore_eos) p->flags |= TN_GEN_IGNORE_EOS;
  if (s->seed && !read_seed(s->seed, &p->seed))
    (void)snprintf(s->why, sizeof s->why, "--seed takes a whole number, not '%.60s'", s->seed);
  else if (!!s->schema + !!s->grammar_file + !!s->regex > 1)
    (void)snprintf(s->why, sizeof s->why, "--json-schema, --grammar and --regex exclude each other");
  else if (s->draft_tokens && !s->draft)
    (void)snprintf(s->why, sizeof s->why, "--draft-tokens goes with --draft MODEL");
  if (*s->why) return TN_E_INVALID;
  const bool formed = s->schema || s->grammar_file || s->regex;
  const tn_status st = formed && !s->grammar ? make_grammar(s, lm, err) : TN_OK;
  p->grammar = s->grammar;
  return st;
}

tn_status sampling_draft(sampling_opts *s, tn_runtime *rt, const tn_lm *lm, tn_error *err) {
  const tn_lm_opts o = {.h = {sizeof o, 1, 0}, .default_max_seq = tn_lm_context(lm)};
  if (!s->draft) return TN_OK;
  if (!s->draft_tokens) s->draft_tokens = 8;
  return tn_lm_load(rt, s->draft, &o, &s->draft_lm, err);
}

void sampling_finish(sampling_opts *s) {
  tn_lm_destroy(s->draft_lm);
  s->draft_lm = NULL;
  tn_grammar_destroy(s->grammar);
  s->grammar = NULL;
}
