/* SPDX-License-Identifier: Apache-2.0
 *
 * Damaged files: whatever is wrong, an open gives the right bytes, and the next one finds everything again.
 */
#include <CUnit/Basic.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "runtime/pack/layout.h"
#include "tests/pack/fixture.h"

static fx_model m;
static char dir[256], path[512];
static tni_pool *pool;
static uint8_t *good; /* the file as it was packed */
static size_t n_good;

static void start(void) {
  tni_pack_store *s = NULL;
  struct stat st;
  fx_temp_dir(dir, sizeof dir);
  fx_model_init(&m, dir);
  pool = tni_pool_create(2);
  fx_reset_counts();
  fx_log_clear();
  CU_ASSERT_EQUAL_FATAL(fx_open(&m, FX_ITEMS, pool, &s), TN_OK);
  tni_pack_store_close(s);
  CU_ASSERT_TRUE_FATAL(fx_pack_file(m.cache, path, sizeof path) && stat(path, &st) == 0);
  n_good = (size_t)st.st_size;
  good = malloc(n_good);
  int fd = open(path, O_RDONLY);
  CU_ASSERT_EQUAL_FATAL(pread(fd, good, n_good, 0), (ssize_t)n_good);
  close(fd);
}

static void stop(void) {
  free(good);
  fx_model_finish(&m);
  tni_pool_destroy(pool);
  fx_remove_dir(dir);
}

static void put_file(const void *p, size_t n) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  CU_ASSERT_EQUAL_FATAL(write(fd, p, n), (ssize_t)n);
  close(fd);
}

/* Right now, and whole again afterwards. Gives how many segments were repaired, and packed in all. */
static uint64_t recover(uint64_t *packed) {
  tni_pack_store *s = NULL;
  CU_ASSERT_EQUAL_FATAL(fx_open(&m, FX_ITEMS, pool, &s), TN_OK);
  CU_ASSERT_TRUE(fx_right(&m, FX_ITEMS, s));
  CU_ASSERT_EQUAL(tni_pack_store_stats(s)->cached, 1);
  uint64_t repaired = tni_pack_store_stats(s)->repaired_segments;
  *packed = tni_pack_store_stats(s)->packed_segments;
  tni_pack_store_close(s);
  CU_ASSERT_EQUAL_FATAL(fx_open(&m, FX_ITEMS, pool, &s), TN_OK);
  CU_ASSERT_EQUAL(tni_pack_store_stats(s)->packed_segments, 0);
  tni_pack_store_close(s);
  return repaired;
}

/* One byte in each MiB, then one in each segment's first and last byte, then all over the tables. */
static void flip_at(size_t at, bool in_segment) {
  uint64_t packed = 0;
  uint8_t *bad = malloc(n_good);
  memcpy(bad, good, n_good);
  bad[at] ^= 1 << (at % 8);
  put_file(bad, n_good);
  uint64_t repaired = recover(&packed);
  if (in_segment && (repaired != 1 || packed != 1)) printf("\n  byte %zu: %d repaired\n", at, (int)repaired);
  if (in_segment) CU_ASSERT_TRUE(repaired == 1 && packed == 1);
  free(bad);
}

static void test_flips(void) {
  start();
  tni_pk_header h;
  memcpy(&h, good, sizeof h);
  CU_ASSERT_EQUAL_FATAL(h.n_segments, FX_ITEMS);
  for (size_t at = 12345; at < n_good; at += 1 << 20) flip_at(at, false);
  for (uint32_t i = 0; i < h.n_segments; i++) {
    tni_pk_segment g;
    memcpy(&g, good + h.segments_at + i * sizeof g, sizeof g);
    flip_at(g.offset, true);
    flip_at(g.offset + g.bytes - 1, true);
    for (uint64_t at = 777; at < g.bytes; at += 1 << 20) flip_at(g.offset + at, true);
  }
  CU_ASSERT_TRUE(fx_logged("wrong checksum") > FX_ITEMS);
  for (size_t at = 0; at < h.data_at && at < 6000; at += at < sizeof h ? 5 : 97) flip_at(at, false);
  stop();
}

/* The checksums of header and table are what finds damage there, before anything else stumbles over it. */
static void test_tables(void) {
  start();
  tni_pk_header h;
  memcpy(&h, good, sizeof h);
  const struct {
    size_t at;
    const char *said;
  } rows[] = {{20, "header's checksum"},
              {offsetof(tni_pk_header, table_hash), "header's checksum"},
              {h.segments_at + offsetof(tni_pk_segment, format), "table's checksum"},
              {h.sums_at + 3, "table's checksum"},
              {0, "not a packed-weight file"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fx_log_clear();
    flip_at(rows[i].at, false);
    CU_ASSERT_EQUAL(fx_logged(rows[i].said), 1);
  }
  stop();
}

/* Two segments at once; and every segment. */
static void test_many_flips(void) {
  start();
  tni_pk_header h;
  uint64_t packed = 0;
  uint8_t *bad = malloc(n_good);
  memcpy(&h, good, sizeof h);
  memcpy(bad, good, n_good);
  for (uint32_t i = 0; i < h.n_segments; i++) {
    tni_pk_segment g;
    memcpy(&g, good + h.segments_at + i * sizeof g, sizeof g);
    bad[g.offset + 70] ^= 0x10;
    if (i == 1) {
      put_file(bad, n_good);
      CU_ASSERT_EQUAL(recover(&packed), 2);
      CU_ASSERT_EQUAL(packed, 2);
    }
  }
  put_file(bad, n_good);
  CU_ASSERT_EQUAL(recover(&packed), FX_ITEMS);
  free(bad);
  stop();
}

static void test_truncated(void) {
  start();
  uint64_t packed = 0;
  for (size_t n = 0; n < n_good; n += n < 200 ? 13 : n < 70000 ? 4099 : 131071) {
    put_file(good, n);
    recover(&packed);
    CU_ASSERT_EQUAL(packed, FX_ITEMS);
  }
  put_file(good, n_good - 1);
  recover(&packed);
  CU_ASSERT_EQUAL(packed, FX_ITEMS);
  uint8_t *longer = calloc(1, n_good + 5);
  memcpy(longer, good, n_good);
  put_file(longer, n_good + 5);
  recover(&packed);
  CU_ASSERT_EQUAL(packed, FX_ITEMS);
  CU_ASSERT_TRUE(fx_logged("not used and packed again") > 10);
  free(longer);
  stop();
}

static void test_garbage(void) {
  start();
  uint64_t packed = 0, x = 1234567;
  uint8_t *junk = malloc(n_good);
  for (size_t n = 1; n <= n_good; n *= 3) {
    for (size_t i = 0; i < n; i++) {
      x = x * 6364136223846793005u + 1442695040888963407u;
      junk[i] = (uint8_t)(x >> 56);
    }
    if (n % 2) memcpy(junk, TNI_PK_MAGIC, n < 8 ? n : 8);
    put_file(junk, n);
    recover(&packed);
    CU_ASSERT_EQUAL(packed, FX_ITEMS);
  }
  memset(junk, 0, n_good);
  put_file(junk, n_good);
  recover(&packed);
  CU_ASSERT_EQUAL(packed, FX_ITEMS);
  free(junk);
  stop();
}

static void put_hashed(uint8_t *bad, tni_pk_header *h) {
  if (h->stamps_at[0] <= n_good && h->segments_at <= h->stamps_at[0])
    h->table_hash = XXH3_64bits(bad + h->segments_at, h->stamps_at[0] - h->segments_at);
  h->header_hash = XXH3_64bits(h, offsetof(tni_pk_header, header_hash));
  memcpy(bad, h, sizeof *h);
  put_file(bad, n_good);
}

/* Wrong numbers under right checksums: structure is not believed either. */
static void test_forged(void) {
  static const uint64_t values[] = {0, 1, 7, 8, 96, 4096, 65536, 1u << 31, UINT64_MAX, UINT64_MAX - 15, INT64_MAX};
  start();
  uint8_t *bad = malloc(n_good);
  uint64_t packed = 0;
  tni_pk_header h;
  for (size_t field = 8; field < offsetof(tni_pk_header, table_hash); field += field < 24 ? 4 : 8)
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
      memcpy(bad, good, n_good);
      memcpy(&h, good, sizeof h);
      memcpy((uint8_t *)&h + field, &values[v], field < 24 ? 4 : 8);
      put_hashed(bad, &h);
      recover(&packed);
    }
  memcpy(&h, good, sizeof h);
  for (size_t field = 0; field < sizeof(tni_pk_segment); field += 8)
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
      memcpy(bad, good, n_good);
      memcpy(bad + h.segments_at + sizeof(tni_pk_segment) + field, &values[v], 8);
      put_hashed(bad, &h);
      recover(&packed);
    }
  free(bad);
  stop();
}

/* Torn stamps: content is hashed, nothing is packed, and the slot is written again. */
static void test_torn_slots(void) {
  start();
  tni_pk_header h;
  uint64_t packed = 1;
  uint8_t *bad = malloc(n_good);
  memcpy(&h, good, sizeof h);
  memcpy(bad, good, n_good);
  memset(bad + h.stamps_at[0] + 40, 0x5a, 100);
  put_file(bad, n_good);
  fx_reset_counts();
  CU_ASSERT_EQUAL(recover(&packed), 0);
  CU_ASSERT_EQUAL(packed, 0);
  CU_ASSERT_TRUE(fx_count.source_rows > 0);
  fx_reset_counts();
  recover(&packed);
  CU_ASSERT_EQUAL(fx_count.source_rows, 0);
  free(bad);
  stop();
}

void test_damage_suite(void) {
  CU_pSuite s = CU_add_suite("pack damage", NULL, NULL);
  CU_add_test(s, "flipped bytes", test_flips);
  CU_add_test(s, "flipped tables", test_tables);
  CU_add_test(s, "many flipped bytes", test_many_flips);
  CU_add_test(s, "truncated", test_truncated);
  CU_add_test(s, "garbage", test_garbage);
  CU_add_test(s, "forged", test_forged);
  CU_add_test(s, "torn slots", test_torn_slots);
}
