/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizers for check_oom.py: TOKENIZER.json...: each encodes a text and decodes its ids.
 */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/llm/tokenizer/tokenizer.h"

static tn_status there_and_back(const char *path, tn_error *err) {
  static const char said[] = "a big dog, a Bi\xcc\x82g dog \xe2\x82\xac: a dog that barks, and two small dogs that bark; a cat, six mice and the dog";
  tni_tokenizer *t = NULL;
  tni_ids ids = {0};
  char *text = NULL;
  size_t n = 0;
  tn_status st = tni_tokenizer_load(path, &t, err);
  if (st == TN_OK) st = tni_tokenizer_encode(t, said, sizeof said - 1, true, &ids, err);
  if (st == TN_OK) st = tni_tokenizer_decode(t, ids.v, ids.n, false, &text, &n, err);
  for (size_t i = 0; st == TN_OK && i < ids.n; i++) printf("%d ", ids.v[i]);
  if (st == TN_OK) printf("'%.*s'\n", (int)n, text);
  free(text);
  tni_ids_free(&ids);
  tni_tokenizer_destroy(t);
  return st;
}

int main(int argc, char **argv) {
  tn_error err;
  tni_error_init(&err);
  tn_status st = TN_OK;
  for (int i = 1; i < argc && st == TN_OK; i++) st = there_and_back(argv[i], &err);
  if (st != TN_OK) fprintf(stderr, "tokenizers: %s: %s: %s\n", tni_status_name(st), err.where, err.message);
  return st == TN_OK ? 0 : st == TN_E_NO_MEMORY ? 5 : 3;
}
