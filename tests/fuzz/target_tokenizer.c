/* SPDX-License-Identifier: Apache-2.0
 *
 * A tokenizer.json and a text: byte 0 says which flags, byte 1 how long the text is; the text follows, then the file.
 *
 * What must hold, beside that nothing breaks: ids are below the size of the vocabulary (a template may name others, as
 * the reference takes it), the same text gives the same
 * ids again, and what is decoded id by id is what is decoded at once.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/tokenizer/tokenizer.h"
#include "tests/fuzz/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { SPECIAL = 1, SKIP = 2, MOST_IDS = 1 << 16 };

static void look_at_ids(const tni_tokenizer *t, const tni_ids *ids, bool special) {
  const uint32_t size = special ? INT32_MAX : tni_tokenizer_vocab_size(t);
  for (size_t i = 0; i < ids->n; i++) {
    if (ids->v[i] < 0 || (uint32_t)ids->v[i] >= size) fz_finding("id %d of a vocabulary of %u", ids->v[i], size);
    (void)tni_tokenizer_token(t, ids->v[i]);
    (void)tni_tokenizer_is_special(t, ids->v[i]);
  }
}

static void same_again(const tni_tokenizer *t, const char *text, size_t n, bool special, const tni_ids *want) {
  tni_ids ids = {0};
  tn_error err;
  tn_error_init(&err);
  const tn_status st = tni_tokenizer_encode(t, text, n, special, &ids, &err);
  fz_failure(st, &err);
  if (st == TN_OK && (ids.n != want->n || (ids.n && memcmp(ids.v, want->v, ids.n * sizeof *ids.v) != 0)))
    fz_finding("the same text gives %zu ids, then %zu others", want->n, ids.n);
  if (st == TN_OK) tni_ids_free(&ids);
}

/* Whether the next piece is what `whole` has at `at`. */
static void piece(const char *whole, size_t len, size_t *at, const char *text, size_t n) {
  if (n > len - *at || memcmp(whole + *at, text, n) != 0)
    fz_finding("decoded id by id: byte %zu of %zu is another", *at, len);
  *at += n;
}

static void stream(const tni_tokenizer *t, const tni_ids *ids, bool skip, const char *whole, size_t len) {
  tni_detok *d = tni_detok_create(t, skip);
  const char *text;
  size_t n, at = 0;
  tn_error err;
  tn_error_init(&err);
  tn_status st = d ? TN_OK : TN_E_NO_MEMORY;
  for (size_t i = 0; st == TN_OK && i < ids->n; i++)
    if ((st = tni_detok_push(d, ids->v[i], &text, &n, &err)) == TN_OK) piece(whole, len, &at, text, n);
  if (st == TN_OK && (st = tni_detok_finish(d, &text, &n, &err)) == TN_OK) {
    piece(whole, len, &at, text, n);
    if (at != len) fz_finding("decoded id by id: %zu bytes, at once %zu", at, len);
  }
  if (d) fz_failure(st, &err);
  tni_detok_destroy(d);
}

static void use(const tni_tokenizer *t, const char *text, size_t n, uint8_t flags, tn_error *err) {
  tni_ids ids = {0};
  char *back = NULL;
  size_t len;
  tn_status st = tni_tokenizer_encode(t, text, n, flags & SPECIAL, &ids, err);
  fz_failure(st, err);
  if (st != TN_OK) return;
  look_at_ids(t, &ids, flags & SPECIAL);
  if (ids.n <= MOST_IDS) {
    same_again(t, text, n, flags & SPECIAL, &ids);
    st = tni_tokenizer_decode(t, ids.v, ids.n, flags & SKIP, &back, &len, err);
    fz_failure(st, err);
    if (st == TN_OK) stream(t, &ids, flags & SKIP, back, len);
  }
  free(back);
  tni_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  tni_tokenizer *t = NULL;
  tn_error err;
  tn_error_init(&err);
  if (n < 2 || data[1] > n - 2) return 0;
  const size_t text = data[1], file = n - 2 - text;
  char *copy = malloc(text ? text : 1); /* of its exact size: a read past the end is seen */
  if (!copy) return 0;
  if (text) memcpy(copy, data + 2, text);
  fz_clock_start(NULL, NULL);
  const tn_status st = tni_tokenizer_parse((const char *)data + 2 + text, file, "tokenizer.json", &t, &err);
  fz_failure(st, &err);
  if (st == TN_OK) use(t, copy, text, data[0], &err);
  fz_clock_stop();
  tni_tokenizer_destroy(t);
  free(copy);
  return 0;
}
