/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks in memory and in a file: whatever is done to them, they hold their bytes; parts of the file are used again; a
 * full disk is a status, after which all goes on.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "quant_test.h"
#include "runtime/quantize/spill/spill.h"

enum { BLOCKS = 40, MOST = 60000 };

static uint64_t seed = 11;

static uint32_t any(uint32_t below) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33) % below;
}

static char folder[64], path[96];

static void make_folder(void) {
  snprintf(folder, sizeof folder, "/tmp/spill-test.XXXXXX");
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/values", folder);
}

static uint8_t byte_of(uint32_t id, uint64_t i) { return (uint8_t)(id * 31 + i * 7 + (i >> 8)); }

static bool holds(const tni_spill *s, const tni_spill_block *b, uint32_t id) {
  uint8_t *got = malloc(b->n + 1);
  bool ok = got && tni_spill_read(s, b, got, NULL) == TN_OK;
  for (uint64_t i = 0; ok && i < b->n; i++) ok = got[i] == byte_of(id, i) && (!b->p || ((uint8_t *)b->p)[i] == got[i]);
  free(got);
  return ok;
}

static void make(tni_spill *s, uint32_t id, uint64_t n, tni_spill_block *out) {
  uint8_t *from = malloc(n + 1);
  CU_ASSERT_PTR_NOT_NULL_FATAL(from);
  for (uint64_t i = 0; i < n; i++) from[i] = byte_of(id, i);
  CU_ASSERT_EQUAL_FATAL(tni_spill_make(s, n ? from : NULL, n, out, NULL), TN_OK);
  free(from);
}

static void check(const tni_spill *s, const tni_spill_block *b, const uint32_t *id) {
  uint64_t held = 0, filed = 0, gaps = 0;
  for (int i = 0; i < BLOCKS; i++) {
    if (!id[i]) continue;
    CU_ASSERT(holds(s, &b[i], id[i]));
    held += b[i].p ? b[i].n : 0;
    filed += b[i].at == TNI_SPILL_UNFILED ? 0 : (b[i].n + 4095) / 4096 * 4096;
  }
  for (uint32_t i = 0; i < s->n_gaps; i++) {
    gaps += s->gaps[i].n;
    CU_ASSERT(s->gaps[i].n > 0 && s->gaps[i].at + s->gaps[i].n < (i + 1 < s->n_gaps ? s->gaps[i + 1].at : s->end));
  }
  CU_ASSERT_EQUAL(s->held, held);
  CU_ASSERT_EQUAL(s->end, filed + gaps);
  CU_ASSERT_EQUAL(tni_spill_is_full(s), held > s->most);
}

static void test_blocks(void) {
  tni_spill s;
  tni_spill_block b[BLOCKS] = {0};
  uint32_t id[BLOCKS] = {0};
  struct stat sb;
  make_folder();
  CU_ASSERT_EQUAL_FATAL(tni_spill_init(&s, path, 500000, NULL), TN_OK);
  for (uint32_t step = 1; step < 4000; step++) {
    const uint32_t i = any(BLOCKS), from = any(BLOCKS), what = any(4);
    tn_status st = TN_OK;
    if (!id[i] && id[from] && what == 0) {
      st = tni_spill_copy(&s, &b[from], &b[i], NULL);
      id[i] = id[from];
    } else if (!id[i]) {
      make(&s, id[i] = step, any(MOST), &b[i]);
    } else if (what == 0) {
      tni_spill_drop(&s, &b[i]);
      id[i] = 0;
    } else {
      st = what == 1 ? tni_spill_in(&s, &b[i], NULL) : tni_spill_out(&s, &b[i], NULL);
      CU_ASSERT_EQUAL(b[i].p != NULL, what == 1 || !b[i].n);
    }
    CU_ASSERT_EQUAL(st, TN_OK);
    if (step % 100 == 0) check(&s, b, id);
  }
  CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0); /* who is killed leaves nothing */
  CU_ASSERT_EQUAL(fstat(s.fd, &sb), 0);
  CU_ASSERT(sb.st_size <= 2 * BLOCKS * (MOST + 4096)); /* many more bytes than that went through it */
  for (int i = 0; i < BLOCKS; i++)
    if (id[i]) tni_spill_drop(&s, &b[i]);
  CU_ASSERT(s.held == 0 && s.end == 0 && s.n_gaps == 0);
  tni_spill_finish(&s);
  CU_ASSERT_EQUAL(rmdir(folder), 0);
}

static void test_full_disk(void) {
  tni_spill s;
  tni_spill_block one, two;
  tn_error err;
  struct rlimit old, small;
  make_folder();
  CU_ASSERT_EQUAL_FATAL(tni_spill_init(&s, path, 1000, NULL), TN_OK);
  make(&s, 1, 50000, &one);
  make(&s, 2, 50000, &two);
  CU_ASSERT_EQUAL(tni_spill_out(&s, &one, NULL), TN_OK);
  CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_FSIZE, &old), 0);
  small = (struct rlimit){60000, old.rlim_max};
  CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_FSIZE, &small), 0); /* SIGXFSZ would end us */
  tni_error_init(&err);
  CU_ASSERT_EQUAL(tni_spill_out(&s, &two, &err), TN_E_IO);
  CU_ASSERT_EQUAL(setrlimit(RLIMIT_FSIZE, &old), 0);
  CU_ASSERT_STRING_EQUAL(err.where, path);
  CU_ASSERT_PTR_NOT_NULL(two.p);
  CU_ASSERT(holds(&s, &one, 1) && holds(&s, &two, 2));
  CU_ASSERT_EQUAL(s.held, 50000);
  CU_ASSERT_EQUAL(tni_spill_out(&s, &two, NULL), TN_OK);
  CU_ASSERT(holds(&s, &one, 1) && holds(&s, &two, 2));
  tni_spill_drop(&s, &one);
  tni_spill_drop(&s, &two);
  tni_spill_finish(&s);
  CU_ASSERT_EQUAL(rmdir(folder), 0);
}

static void test_no_folder(void) {
  tni_spill s;
  tni_spill_block b;
  tn_error err;
  make_folder();
  CU_ASSERT_EQUAL(rmdir(folder), 0);
  CU_ASSERT_EQUAL_FATAL(tni_spill_init(&s, path, 0, NULL), TN_OK);
  make(&s, 3, 5000, &b);
  tni_error_init(&err);
  CU_ASSERT_EQUAL(tni_spill_out(&s, &b, &err), TN_E_IO);
  CU_ASSERT_STRING_EQUAL(err.where, path);
  CU_ASSERT(holds(&s, &b, 3));
  tni_spill_drop(&s, &b);
  tni_spill_finish(&s);
}

void spill_tests(CU_pSuite s) {
  CU_add_test(s, "whatever is done to blocks, they hold their bytes", test_blocks);
  CU_add_test(s, "a full disk is a status", test_full_disk);
  CU_add_test(s, "so is a folder that is gone", test_no_folder);
}
