/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversation twice, and as a file: what follows is what the first one says. Damaged files.
 */
#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "tests/llm/lm_kit.h"

enum { SAID = 24, FLIPS = 400 };

static void go_on_alike(tn_chat *a, tn_chat *b) {
  const tn_gen_params p = kit_greedy(SAID);
  kit_sink *s = calloc(2, sizeof *s);
  CU_ASSERT_FATAL(s != NULL);
  kit_say(a, " and then", &p, &s[0]);
  kit_say(b, " and then", &p, &s[1]);
  CU_ASSERT(s[0].n == s[1].n && s[0].n > 0 && memcmp(s[0].ids, s[1].ids, s[0].n * sizeof *s[0].ids) == 0);
  CU_ASSERT_STRING_EQUAL(s[0].text, s[1].text);
  free(s);
}

static void test_fork(void) {
  tn_lm *lm = kit_load("lm/stories260k-onnx");
  tn_chat *c = kit_talk(lm), *d = NULL, *e = NULL, *empty = kit_talk(lm);
  const tn_gen_params p = kit_greedy(SAID);
  kit_sink *s = calloc(1, sizeof *s);
  tn_error err;
  tn_error_init(&err);
  kit_say(c, "Once upon a time", &p, s);
  const size_t n = tn_chat_length(c);
  CU_ASSERT_EQUAL(tn_chat_fork(c, n + 1, &d, &err), TN_E_INVALID);
  CU_ASSERT_EQUAL_FATAL(tn_chat_fork(c, SIZE_MAX, &d, &err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_chat_fork(c, 7, &e, &err), TN_OK);
  CU_ASSERT(tn_chat_length(d) == n && tn_chat_length(e) == 7);
  go_on_alike(c, d);
  /* The first tokens alone, beside a conversation that never had others. */
  int32_t *ids = NULL;
  size_t n_ids = 0;
  CU_ASSERT_EQUAL_FATAL(tn_lm_encode(lm, s->text, s->text_n, 0, &ids, &n_ids, &err), TN_OK);
  tn_free(ids);
  CU_ASSERT_EQUAL_FATAL(tn_lm_encode(lm, "Once upon a time", 16, 1, &ids, &n_ids, &err), TN_OK);
  CU_ASSERT_FATAL(n_ids < 7);
  memset(s, 0, sizeof *s);
  const tn_gen_params few = kit_greedy((uint32_t)(7 - n_ids));
  CU_ASSERT_EQUAL_FATAL(tn_generate_ids(empty, ids, n_ids, &few, kit_take, s, NULL, &err), TN_OK);
  CU_ASSERT_EQUAL(tn_chat_length(empty), 7);
  go_on_alike(e, empty);
  tn_free(ids);
  tn_chat_destroy(c);
  tn_chat_destroy(d);
  tn_chat_destroy(e);
  tn_chat_destroy(empty);
  free(s);
  tn_lm_destroy(lm);
}

static unsigned char *slurp(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  CU_ASSERT_FATAL(f != NULL && fseek(f, 0, SEEK_END) == 0);
  *n = (size_t)ftell(f);
  rewind(f);
  unsigned char *p = malloc(*n + 1);
  CU_ASSERT_FATAL(p != NULL && fread(p, 1, *n, f) == *n);
  fclose(f);
  return p;
}

static void spill(const char *path, const void *p, size_t n) {
  FILE *f = fopen(path, "wb");
  CU_ASSERT_FATAL(f != NULL && fwrite(p, 1, n, f) == n && fclose(f) == 0);
}

/* The head's checksums as they must be for these bytes: head [0, 88), hash of the body at 80, of the head at 88. */
static void mend(unsigned char *p, size_t n) {
  const uint64_t bytes = n - 96, body = XXH3_64bits(p + 96, bytes);
  memcpy(p + 72, &bytes, 8);
  memcpy(p + 80, &body, 8);
  const uint64_t head = XXH3_64bits(p, 88);
  memcpy(p + 88, &head, 8);
}

/* Damage that the checksums see, and damage whose checksums were made to fit: a status, and never a crash. */
static void damage(tn_chat *c, const char *path, const unsigned char *good, size_t n) {
  unsigned char *p = malloc(n + 8);
  uint32_t state = 12345;
  tn_error err;
  CU_ASSERT_FATAL(p != NULL);
  for (int i = 0; i < FLIPS; i++) {
    state = state * 1664525u + 1013904223u;
    /* Half of them where structure is: head, note, first records. */
    const size_t at = (state >> 8) % (i % 2 ? n : n < 1200 ? n : 1200);
    size_t len = n;
    memcpy(p, good, n);
    if (i % 5 == 4)
      len = at;
    else
      p[at] ^= (unsigned char)(1u << (state >> 28) % 8);
    if (i % 4 > 1 && len >= 96) mend(p, len);
    spill(path, p, len);
    tn_error_init(&err);
    const tn_status st = tn_chat_load(c, path, &err);
    if (st != TN_OK) CU_ASSERT(err.message[0] != '\0');
    if (i % 4 <= 1) CU_ASSERT_EQUAL(st, TN_E_CORRUPT);
  }
  free(p);
}

static void test_saved(void) {
  tn_lm *lm = kit_load("lm/stories260k-onnx"), *demo = kit_load_demo();
  tn_chat *c = kit_talk(lm), *d = kit_talk(lm), *of_demo = kit_talk(demo);
  const tn_gen_params p = kit_greedy(SAID);
  kit_sink *s = calloc(1, sizeof *s);
  char path[] = "/tmp/tenon-chat-XXXXXX";
  size_t n;
  tn_error err;
  tn_error_init(&err);
  const int fd = mkstemp(path);
  CU_ASSERT_FATAL(s != NULL && fd >= 0);
  close(fd);
  CU_ASSERT_EQUAL(tn_chat_save(c, "/no/such/folder/x", &err), TN_E_IO);
  CU_ASSERT_EQUAL(tn_chat_load(c, "/no/such/file", &err), TN_E_UNAVAILABLE);
  CU_ASSERT_EQUAL_FATAL(tn_chat_save(c, path, &err), TN_OK); /* empty */
  CU_ASSERT_EQUAL_FATAL(tn_chat_load(d, path, &err), TN_OK);
  CU_ASSERT_EQUAL(tn_chat_length(d), 0);
  kit_say(c, "Once upon a time", &p, s);
  kit_say(d, "The dog", &p, s);
  CU_ASSERT_EQUAL_FATAL(tn_chat_save(c, path, &err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_chat_load(d, path, &err), TN_OK);
  CU_ASSERT_EQUAL(tn_chat_length(d), tn_chat_length(c));
  go_on_alike(c, d);
  const size_t before = tn_chat_length(d);
  CU_ASSERT_EQUAL(tn_chat_load(of_demo, path, &err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "another model"));
  unsigned char *good = slurp(path, &n);
  good[n / 2] ^= 4;
  spill(path, good, n);
  CU_ASSERT_EQUAL(tn_chat_load(d, path, &err), TN_E_CORRUPT); /* d goes on as it was */
  CU_ASSERT_EQUAL(tn_chat_length(d), before);
  go_on_alike(c, d);
  good[n / 2] ^= 4;
  damage(d, path, good, n);
  spill(path, good, n);
  CU_ASSERT_EQUAL_FATAL(tn_chat_load(d, path, &err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_chat_load(c, path, &err), TN_OK);
  go_on_alike(c, d);
  unlink(path);
  free(good);
  free(s);
  tn_chat_destroy(c);
  tn_chat_destroy(d);
  tn_chat_destroy(of_demo);
  tn_lm_destroy(lm);
  tn_lm_destroy(demo);
}

int main(void) {
  const int ready = kit_begin();
  if (ready) return ready;
  CU_initialize_registry();
  CU_pSuite s = CU_add_suite("states of conversations", NULL, NULL);
  CU_add_test(s, "twice", test_fork);
  CU_add_test(s, "as a file", test_saved);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failed = CU_get_number_of_failures();
  CU_cleanup_registry();
  tn_runtime_destroy(kit_rt);
  return failed != 0;
}
