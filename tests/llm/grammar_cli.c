/* SPDX-License-Identifier: Apache-2.0
 *
 * grammar-cli PROFILE MODEL: a line of JSON in, {"kind": 1, "text": SCHEMA, "max": N, "seed": S, "temperature": T}, a
 * line out: {"text": ..., "reason": ..., "tokens": ...} or {"error": ..., "status": ...}. check_grammar.py runs it.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/lm.h>

typedef struct sink {
  char *v;
  size_t n, cap;
} sink;

static void check(tn_status st, const tn_error *e) {
  if (st == TN_OK) return;
  fprintf(stderr, "grammar-cli: %s: %s\n", e->where, e->message);
  exit(1);
}

static int take(void *user, int32_t id, const char *text, size_t n) {
  sink *s = user;
  (void)id;
  if (s->n + n > s->cap) {
    s->cap = (s->n + n) * 2;
    s->v = realloc(s->v, s->cap);
    if (!s->v) abort();
  }
  if (n) memcpy(s->v + s->n, text, n);
  s->n += n;
  return 0;
}

static json_t *failed(tn_status st, const tn_error *e) {
  return json_pack("{s:s, s:s}", "error", e->message, "status", tn_status_name(st));
}

static json_t *answer(tn_lm *lm, const json_t *ask) {
  tn_error err;
  tn_error_init(&err);
  const json_t *text = json_object_get(ask, "text"), *t = json_object_get(ask, "temperature");
  const char *prompt = json_string_value(json_object_get(ask, "prompt"));
  tn_gen_params p;
  tn_gen_params_init(&p);
  p.max_tokens = (uint32_t)json_integer_value(json_object_get(ask, "max"));
  p.seed = (uint64_t)json_integer_value(json_object_get(ask, "seed"));
  if (t) p.temperature = (float)json_number_value(t);
  tn_grammar *g = NULL;
  tn_status st = tn_grammar_create(lm, (uint32_t)json_integer_value(json_object_get(ask, "kind")),
                                   json_string_value(text), json_string_length(text), &g, &err);
  if (st != TN_OK) return failed(st, &err);
  p.grammar = g;
  tn_chat *chat = NULL;
  sink s = {0};
  tn_gen_result r = {.h = {sizeof r, 1, 0}};
  check(tn_chat_create(lm, &chat, &err), &err);
  if (!prompt) prompt = "Once";
  st = tn_generate(chat, prompt, strlen(prompt), &p, take, &s, &r, &err);
  json_t *out = st == TN_OK ? json_pack("{s:s#, s:i, s:i}", "text", s.n ? s.v : "", (int)s.n, "reason", (int)r.reason,
                                        "tokens", (int)r.new_tokens)
                            : failed(st, &err);
  free(s.v);
  tn_chat_destroy(chat);
  tn_grammar_destroy(g);
  return out ? out : json_pack("{s:s, s:s}", "error", "the text is not UTF-8", "status", "INTERNAL");
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  tn_error err;
  tn_error_init(&err);
  const tn_runtime_opts ro = {.h = {sizeof ro, 1, 0}, .profile = argv[1]};
  const tn_lm_opts lo = {.h = {sizeof lo, 1, 0}, .max_seq = 1024};
  tn_runtime *rt = NULL;
  tn_lm *lm = NULL;
  check(tn_runtime_create(&ro, &rt, &err), &err);
  check(tn_lm_load(rt, argv[2], &lo, &lm, &err), &err);
  char *line = NULL;
  size_t cap = 0;
  while (getline(&line, &cap, stdin) > 0) {
    json_t *ask = json_loads(line, JSON_ALLOW_NUL, NULL),
           *out = ask ? answer(lm, ask) : json_pack("{s:s}", "error", "no JSON");
    if (!out) abort();
    json_dumpf(out, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(out);
    json_decref(ask);
  }
  free(line);
  tn_lm_destroy(lm);
  tn_runtime_destroy(rt);
  return 0;
}
