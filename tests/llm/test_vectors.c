/* SPDX-License-Identifier: Apache-2.0
 *
 * 47 strings with the ids that the models' own tokenizers give, and War and Peace there and back.
 */
#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/llm/tokenizer.h"

static const char *data;

static tni_tokenizer *load(const char *name) {
  char path[512];
  tni_tokenizer *t = NULL;
  tn_error err;
  tni_error_init(&err);
  snprintf(path, sizeof path, "%s/tokenizers/%s/tokenizer.json", data, name);
  if (tni_tokenizer_load(path, &t, &err) != TN_OK) printf("\n  %s: %s", err.where, err.message);
  CU_ASSERT_PTR_NOT_NULL_FATAL(t);
  return t;
}

static tni_file map(const char *format, const char *name) {
  char path[512], tail[256];
  tni_file f = {0};
  snprintf(tail, sizeof tail, format, name);
  snprintf(path, sizeof path, "%s/%s", data, tail);
  CU_ASSERT_EQUAL_FATAL(tni_file_map(path, &f, NULL), TN_OK);
  return f;
}

/* Ids of one line; returns where the next begins. */
static const char *read_line(const char *p, const char *end, int32_t *ids, size_t *n) {
  *n = 0;
  while (p < end && *p != '\n') {
    if (*p >= '0' && *p <= '9')
      ids[(*n)++] = (int32_t)strtol(p, (char **)(void *)&p, 10);
    else
      p++;
  }
  return p + 1;
}

static void vectors(const char *name, const char *file) {
  static const char mark[] = "\n__ggml_vocab_test__\n";
  tni_tokenizer *t = load(file);
  tni_file in = map("tokenizers/vectors/strings.%s", "inp");
  tni_file out = map("tokenizers/vectors/%s.out", name);
  const char *p = in.data, *end = p + in.bytes, *q = out.data, *out_end = q + out.bytes;
  int32_t want[512];
  unsigned good = 0, all = 0;
  while (p) {
    size_t n, len;
    const char *next = memmem(p, (size_t)(end - p), mark, sizeof mark - 1);
    len = (size_t)((next ? next : end) - p);
    q = read_line(q, out_end, want, &n);
    tni_ids ids = {0};
    CU_ASSERT_EQUAL(tni_tokenizer_encode(t, p, len, false, &ids, NULL), TN_OK);
    bool same = ids.n == n && (n == 0 || memcmp(ids.v, want, n * sizeof *want) == 0);
    if (!same) printf("\n  %s: vector %u differs", name, all);
    good += same;
    all++;
    tni_ids_free(&ids);
    p = next ? next + sizeof mark - 1 : NULL;
  }
  CU_ASSERT_EQUAL(all, 47);
  CU_ASSERT_EQUAL(good, 47);
  tni_file_unmap(&in);
  tni_file_unmap(&out);
  tni_tokenizer_destroy(t);
}

static void test_gpt2(void) { vectors("gpt-2", "gpt2"); }
static void test_mistral(void) { vectors("mistral", "mistral"); }
static void test_bert(void) { vectors("bert-bge", "bert"); }

static void test_book(void) {
  static const char *const files[] = {"gpt2", "mistral"};
  tni_file book = map("text/%s.txt", "war-and-peace");
  for (size_t i = 0; i < 2; i++) {
    tni_tokenizer *t = load(files[i]);
    tni_ids ids = {0};
    char *back = NULL;
    size_t n = 0;
    CU_ASSERT_EQUAL(tni_tokenizer_encode(t, book.data, book.bytes, false, &ids, NULL), TN_OK);
    CU_ASSERT_EQUAL(tni_tokenizer_decode(t, ids.v, ids.n, false, &back, &n, NULL), TN_OK);
    CU_ASSERT(n == book.bytes && memcmp(back, book.data, n) == 0);
    free(back);
    tni_ids_free(&ids);
    tni_tokenizer_destroy(t);
  }
  tni_file_unmap(&book);
}

int main(void) {
  char probe[512];
  data = getenv("TENON_TEST_DATA");
  snprintf(probe, sizeof probe, "%s/tokenizers/vectors/strings.inp", data ? data : "");
  if (!data || access(probe, R_OK) != 0) {
    printf("skipped: no tokenizer vectors (TENON_TEST_DATA)\n");
    return 77;
  }
  if (CU_initialize_registry() != CUE_SUCCESS) return 2;
  CU_pSuite s = CU_add_suite("tokenizer vectors", NULL, NULL);
  CU_add_test(s, "gpt-2", test_gpt2);
  CU_add_test(s, "mistral", test_mistral);
  CU_add_test(s, "bert-bge", test_bert);
  CU_add_test(s, "War and Peace and back", test_book);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned failed = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failed != 0;
}
