/* SPDX-License-Identifier: Apache-2.0
 *
 * Drives the tokenizer from check_tokenizer.py over files of records {uint32 bytes, bytes}:
 *   tok-cli TOKENIZER.json encode IN OUT [special [LIMIT]]   texts -> int32 ids, at most LIMIT
 *   tok-cli TOKENIZER.json decode IN OUT [skip]      int32 ids -> texts
 *   tok-cli TOKENIZER.json stream IN OUT [skip]      the same, id by id
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/llm/tokenizer/tokenizer.h"

static int fail(const tn_error *e) {
  fprintf(stderr, "%s: %s: %s\n", tni_status_name(e->code), e->where, e->message);
  return 1;
}

static void record(FILE *out, const void *v, size_t n) {
  uint32_t n32 = (uint32_t)n;
  fwrite(&n32, sizeof n32, 1, out);
  if (n) fwrite(v, 1, n, out);
}

static tn_status encode(const tni_tokenizer *t, const char *text, size_t n, bool flag, FILE *out, tn_error *err) {
  tni_ids ids = {0};
  tn_status st = tni_tokenizer_encode(t, text, n, flag, &ids, err);
  if (st == TN_OK) record(out, ids.v, ids.n * sizeof *ids.v);
  tni_ids_free(&ids);
  return st;
}

static tn_status decode(const tni_tokenizer *t, const int32_t *ids, size_t n, bool flag, FILE *out, tn_error *err) {
  char *text = NULL;
  size_t len = 0;
  tn_status st = tni_tokenizer_decode(t, ids, n, flag, &text, &len, err);
  if (st == TN_OK) record(out, text, len);
  free(text);
  return st;
}

static tn_status stream(const tni_tokenizer *t, const int32_t *ids, size_t n, bool skip, FILE *out, tn_error *err) {
  tni_detok *d = tni_detok_create(t, skip);
  const char *text;
  char *all = NULL;
  size_t len, sum = 0;
  tn_status st = d ? TN_OK : tni_fail_memory(err, "stream");
  FILE *mem = open_memstream(&all, &sum);
  for (size_t i = 0; i <= n && st == TN_OK; i++) {
    st = i < n ? tni_detok_push(d, ids[i], &text, &len, err) : tni_detok_finish(d, &text, &len, err);
    if (st == TN_OK) fwrite(text, 1, len, mem);
  }
  fclose(mem);
  if (st == TN_OK) record(out, all, sum);
  free(all);
  tni_detok_destroy(d);
  return st;
}

static tn_status each(const tni_tokenizer *t, const char *mode, bool flag, const tni_file *in, FILE *out,
                      tn_error *err) {
  const char *p = in->data, *end = p + in->bytes;
  tn_status st = TN_OK;
  while (p < end && st == TN_OK) {
    uint32_t n;
    if (end - p < 4) return tni_fail(err, TN_E_INVALID, "records", "cut");
    memcpy(&n, p, 4);
    p += 4;
    if ((size_t)(end - p) < n) return tni_fail(err, TN_E_INVALID, "records", "cut");
    char *copy = malloc(n ? n : 1); /* exact size and aligned: a read past the end is seen */
    if (!copy) return tni_fail_memory(err, "records");
    memcpy(copy, p, n);
    if (strcmp(mode, "encode") == 0)
      st = encode(t, copy, n, flag, out, err);
    else if (strcmp(mode, "stream") == 0)
      st = stream(t, (const int32_t *)(void *)copy, n / 4, flag, out, err);
    else
      st = decode(t, (const int32_t *)(void *)copy, n / 4, flag, out, err);
    free(copy);
    p += n;
  }
  return st;
}

int main(int argc, char **argv) {
  if (argc < 5) return 2;
  tn_error err;
  tni_error_init(&err);
  tni_tokenizer *t = NULL;
  tni_file in;
  if (tni_tokenizer_load(argv[1], &t, &err) != TN_OK || tni_file_map(argv[3], &in, &err) != TN_OK) return fail(&err);
  if (argc > 6) tni_tokenizer_limit(t, (size_t)atoi(argv[6]));
  FILE *out = fopen(argv[4], "wb");
  if (!out) return 2;
  int64_t t0 = tni_now_ns();
  tn_status st = each(t, argv[2], argc > 5, &in, out, &err);
  printf("%.2f\n", (double)(tni_now_ns() - t0) / 1e9);
  if (fclose(out) != 0) return 2;
  tni_file_unmap(&in);
  tni_tokenizer_destroy(t);
  return st == TN_OK ? 0 : fail(&err);
}
