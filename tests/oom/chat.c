/* SPDX-License-Identifier: Apache-2.0
 *
 * tn_lm and tn_chat as an application uses them, for failures of memory: prints what it got, and exits as `tenon` does.
 * Usage: oom-chat MODEL PROFILE
 */
#include <stdio.h>
#include <string.h>

#include <tenon/tenon.h>

static int print_token(void *user, int32_t id, const char *text, size_t n) {
  (void)user;
  printf("%d:%.*s ", (int)id, (int)n, text);
  return 0;
}

static tn_status talk(tn_lm *lm, tn_chat *c, tn_error *err) {
  tn_gen_params p;
  tn_gen_result r = {.h = {sizeof r, 1, 0}};
  int32_t *ids = NULL;
  size_t n = 0, n_text = 0, rows = 0, vocab = 0;
  char *text = NULL;
  const float *logits = NULL;
  tn_lm_gen_defaults(lm, &p);
  p.temperature = 0;
  p.max_tokens = 3;
  tn_status st = tn_generate(c, "Once upon", 9, &p, print_token, NULL, &r, err);
  if (st == TN_OK) st = tn_generate(c, " a day", 6, &p, print_token, NULL, &r, err);
  if (st == TN_OK) st = tn_lm_encode(lm, "the big dog", 11, 0, &ids, &n, err);
  if (st == TN_OK) st = tn_lm_decode(lm, ids, n, 1, &text, &n_text, err);
  if (st == TN_OK) st = tn_chat_score(c, ids, n, &logits, &rows, &vocab, err);
  if (st == TN_OK)
    printf("\n%zu ids, '%.*s', %zu rows of %zu, first %.4f\n", n, (int)n_text, text, rows, vocab, logits[0]);
  tn_free(ids);
  tn_free(text);
  return st;
}

int main(int argc, char **argv) {
  tn_long_error e;
  tn_runtime *rt = NULL;
  tn_lm *lm = NULL;
  tn_chat *c = NULL;
  if (argc != 3) return 2;
  tn_long_error_init(&e);
  const tn_runtime_opts o = {.h = {sizeof o, 1, 0}, .profile = argv[2], .threads = 1};
  tn_status st = tn_runtime_create(&o, &rt, &e.error);
  if (st == TN_OK) st = tn_lm_load(rt, argv[1], NULL, &lm, &e.error);
  if (st == TN_OK) st = tn_chat_create(lm, &c, &e.error);
  if (st == TN_OK) st = talk(lm, c, &e.error);
  if (st != TN_OK) fprintf(stderr, "chat: %s: %s\n", tn_status_name(st), tn_error_text(&e.error));
  tn_chat_destroy(c);
  tn_lm_destroy(lm);
  tn_runtime_destroy(rt);
  return st == TN_OK ? 0 : st == TN_E_NO_MEMORY ? 5 : 3;
}
