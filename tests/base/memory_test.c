/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base_test.h"

#include <tenon/plugin.h>

#include "runtime/base/arena.h"
#include "runtime/base/checked.h"
#include "runtime/base/finite.h"
#include "runtime/base/map.h"

/* Every allocation is zeroed, aligned and apart from the others, whatever the sizes. */
static void test_arena_regions(void) {
  enum { N = 3000 };
  static unsigned char *at[N];
  static size_t size[N];
  tni_arena *a = tni_arena_create();
  CU_ASSERT_PTR_NOT_NULL_FATAL(a);
  uint32_t seed = 1;
  for (size_t i = 0; i < N; i++) {
    seed = seed * 1664525u + 1013904223u;
    size_t align = (size_t)1 << (seed >> 8) % 7;
    size[i] = i % 100 == 99 ? 20000 + (seed >> 4) % 90000 : (seed >> 12) % 300;
    at[i] = tni_arena_alloc(a, size[i], align);
    CU_ASSERT_PTR_NOT_NULL_FATAL(at[i]);
    CU_ASSERT_EQUAL((uintptr_t)at[i] % align, 0);
    size_t dirty = 0;
    for (size_t k = 0; k < size[i]; k++) dirty += at[i][k] != 0;
    CU_ASSERT_EQUAL(dirty, 0);
    memset(at[i], (int)(i % 251) + 1, size[i]);
  }
  size_t wrong = 0;
  for (size_t i = 0; i < N; i++)
    for (size_t k = 0; k < size[i]; k++) wrong += at[i][k] != i % 251 + 1;
  CU_ASSERT_EQUAL(wrong, 0);
  tni_arena_destroy(a);
  tni_arena_destroy(NULL);
}

/* Sizes that no machine has give NULL, and the arena goes on. */
static void test_arena_limits(void) {
  static const struct {
    size_t count, size;
  } rows[] = {{SIZE_MAX, 1}, {SIZE_MAX / 2, 3}, {SIZE_MAX - 63, 1}, {1, SIZE_MAX - 100}, {SIZE_MAX / 8 + 2, 8}};
  tni_arena *a = tni_arena_create();
  CU_ASSERT_PTR_NOT_NULL_FATAL(a);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    CU_ASSERT_PTR_NULL(tni_arena_array(a, rows[i].count, rows[i].size, 8));
  CU_ASSERT_PTR_NOT_NULL(tni_arena_alloc(a, 0, 1));
  CU_ASSERT_PTR_NOT_NULL(tni_arena_array(a, 0, 8, 8));
  CU_ASSERT_STRING_EQUAL(tni_arena_strdup(a, "tenon"), "tenon");
  CU_ASSERT_STRING_EQUAL(tni_arena_strndup(a, "tenon", 3), "ten");
  CU_ASSERT_STRING_EQUAL(tni_arena_strndup(a, "", 0), "");
  CU_ASSERT_EQUAL(memcmp(tni_arena_memdup(a, "a\0b", 3, 64), "a\0b", 3), 0);
  tni_arena_destroy(a);
}

static void test_map(void) {
  enum { N = 20000 };
  tni_map *m = tni_map_create();
  uint64_t v = 7;
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  CU_ASSERT_FALSE(tni_map_get_str(m, "nothing", &v));
  CU_ASSERT_EQUAL(v, 7);
  char key[32];
  for (uint64_t i = 0; i < N; i++) {
    snprintf(key, sizeof key, "key-%llu", (unsigned long long)i);
    CU_ASSERT_TRUE(tni_map_put_str(m, key, i * 3));
  }
  CU_ASSERT_EQUAL(tni_map_count(m), N);
  for (uint64_t i = 0; i < N; i += 7) {
    snprintf(key, sizeof key, "key-%llu", (unsigned long long)i);
    CU_ASSERT_TRUE(tni_map_put_str(m, key, i + 1));
  }
  CU_ASSERT_EQUAL(tni_map_count(m), N);
  CU_ASSERT_TRUE(tni_map_reserve(m, 3 * N));
  CU_ASSERT_FALSE(tni_map_reserve(m, SIZE_MAX));
  size_t wrong = 0;
  for (uint64_t i = 0; i < N; i++) {
    snprintf(key, sizeof key, "key-%llu", (unsigned long long)i);
    wrong += !tni_map_get_str(m, key, &v) || v != (i % 7 ? i * 3 : i + 1);
  }
  CU_ASSERT_EQUAL(wrong, 0);
  /* Keys are bytes: zeros and lengths count, and so does the empty key. */
  CU_ASSERT_TRUE(tni_map_put(m, "a\0b", 3, 1));
  CU_ASSERT_TRUE(tni_map_put(m, "a\0c", 3, 2));
  CU_ASSERT_TRUE(tni_map_put(m, "a", 1, 3));
  CU_ASSERT_TRUE(tni_map_put(m, "", 0, 4));
  CU_ASSERT(tni_map_get(m, "a\0b", 3, &v) && v == 1);
  CU_ASSERT(tni_map_get(m, "a\0c", 3, &v) && v == 2);
  CU_ASSERT(tni_map_get(m, "a", 1, &v) && v == 3);
  CU_ASSERT(tni_map_get(m, "", 0, &v) && v == 4);
  CU_ASSERT_FALSE(tni_map_get(m, "a\0", 2, &v));
  tni_map_destroy(m);
  /* Keys that the map does not own: as the caller changes them, so does what is found. */
  char own[] = "one";
  m = tni_map_create_lent();
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  CU_ASSERT_TRUE(tni_map_put_str(m, own, 1));
  CU_ASSERT(tni_map_get_str(m, "one", &v) && v == 1);
  own[0] = 'O';
  CU_ASSERT_FALSE(tni_map_get_str(m, "one", &v));
  tni_map_destroy(m);
  tni_map_destroy(NULL);
}

static void test_checked(void) {
  static const struct {
    int64_t a, b;
    bool add, sub, mul;
  } rows[] = {
      {1, 2, true, true, true},
      {INT64_MAX, 1, false, true, true},
      {INT64_MIN, 1, true, false, true},
      {INT64_MIN, -1, false, true, false},
      {INT64_MAX, INT64_MAX, false, true, false},
      {INT64_C(1) << 32, INT64_C(1) << 31, true, true, false},
      {INT64_C(1) << 31, INT64_C(1) << 31, true, true, true},
      {0, INT64_MIN, true, false, true},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int64_t r;
    CU_ASSERT_EQUAL(tni_add_i64(rows[i].a, rows[i].b, &r), rows[i].add);
    if (rows[i].add) CU_ASSERT_EQUAL(r, rows[i].a + rows[i].b);
    CU_ASSERT_EQUAL(tni_sub_i64(rows[i].a, rows[i].b, &r), rows[i].sub);
    if (rows[i].sub) CU_ASSERT_EQUAL(r, rows[i].a - rows[i].b);
    CU_ASSERT_EQUAL(tni_mul_i64(rows[i].a, rows[i].b, &r), rows[i].mul);
    if (rows[i].mul) CU_ASSERT_EQUAL(r, rows[i].a * rows[i].b);
  }
  size_t s;
  CU_ASSERT_FALSE(tni_add_size(SIZE_MAX, 1, &s));
  CU_ASSERT_TRUE(tni_add_size(SIZE_MAX, 0, &s));
  CU_ASSERT_FALSE(tni_mul_size(SIZE_MAX / 2 + 1, 2, &s));
  CU_ASSERT_TRUE(tni_mul_size(SIZE_MAX / 2, 2, &s));
}

/* Every place in and around blocks; the largest numbers and denormals are numbers. */
static void test_finite(void) {
  enum { N = 600 };
  static float f[N];
  static uint16_t h[N];
  for (size_t n = 0; n <= N; n += 37) {
    for (size_t i = 0; i < n; i++) f[i] = i % 3 ? -FLT_MAX : 1e-44f;
    for (size_t i = 0; i < n; i++) h[i] = i % 2 ? 0xfbff : 0x7bff;
    CU_ASSERT_EQUAL(tni_first_strange(TN_DT_F32, f, n), n);
    CU_ASSERT_EQUAL(tni_first_strange(TN_DT_F16, h, n), n);
    for (size_t at = 0; at < n; at += 5) {
      f[at] = at % 2 ? NAN : -INFINITY;
      CU_ASSERT_EQUAL(tni_first_strange(TN_DT_F32, f, n), at);
      f[at] = 1;
      h[at] = at % 2 ? 0xfc00 : 0x7e01;
      CU_ASSERT_EQUAL(tni_first_strange(TN_DT_F16, h, n), at);
      CU_ASSERT_EQUAL(tni_first_strange(TN_DT_BF16, h, n), n);
      h[at] = at % 2 ? 0xff80 : 0x7fc0;
      CU_ASSERT_EQUAL(tni_first_strange(TN_DT_BF16, h, n), at);
      h[at] = 0;
    }
  }
  CU_ASSERT_EQUAL(tni_first_strange(TN_DT_I32, h, 4), 4);
}

void suite_memory(void) {
  CU_pSuite s = CU_add_suite("base: memory", NULL, NULL);
  CU_add_test(s, "numbers that are none", test_finite);
  CU_add_test(s, "arena: regions", test_arena_regions);
  CU_add_test(s, "arena: limits", test_arena_limits);
  CU_add_test(s, "map", test_map);
  CU_add_test(s, "checked arithmetic", test_checked);
}
