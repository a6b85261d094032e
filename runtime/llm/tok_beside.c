/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/tok_beside.h"

static void *read_file(void *arg) {
  tni_tok_beside *b = arg;
  b->st = tni_tokenizer_load(b->path, &b->tok, &b->err.error);
  return NULL;
}

void tni_tok_begin(tni_tok_beside *b, const char *path) {
  *b = (tni_tok_beside){.path = path};
  tni_long_error_init(&b->err);
  b->threaded = tni_quiet_thread(&b->thread, read_file, b) == 0;
  if (!b->threaded) read_file(b);
}

tn_status tni_tok_end(tni_tok_beside *b, tni_tokenizer **out, tn_error *err) {
  if (b->threaded) pthread_join(b->thread, NULL);
  if (b->st == TN_OK)
    *out = b->tok;
  else
    (void)tni_error_pass(err, b->st, &b->err.error);
  return b->st;
}
