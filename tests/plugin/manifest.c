/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/manifest.h"

#include <stdio.h>
#include <string.h>

#include "plugin_test.h"
#include "runtime/plugin/cpu.h"

#define HEAD "name: p\nversion: 1.2.3\nabi: {min: \"1.0\", max: \"1.0\"}\narch: x86-64\n"

static tn_status parse(tni_arena *a, const char *text, tni_manifest *m, tn_error *err) {
  tni_error_init(err);
  return tni_manifest_parse(a, text, strlen(text), "d/p.yaml", m, err);
}

static void test_good(void) {
  tni_arena *a = tni_arena_create();
  tni_manifest m;
  tn_error err;
  CU_ASSERT_PTR_NOT_NULL_FATAL(a);
  CU_ASSERT_EQUAL_FATAL(
      parse(a,
            "name: cpu-x\nversion: \"2\"\nabi:\n  min: 1.0\n  max: 1.7\narch: x86-64\nlicense: Apache-2.0\n"
            "cpu: [avx2, fma]\nlibraries: [libfoo.so.1]\nformats: [w4g]\nops: [MatMul, Gemm]\nconfine: driver\n"
            "sha256: E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855\n",
            &m, &err),
      TN_OK);
  CU_ASSERT_STRING_EQUAL(m.name, "cpu-x");
  CU_ASSERT_STRING_EQUAL(m.version, "2");
  CU_ASSERT(m.abi_min.major == 1 && m.abi_min.minor == 0 && m.abi_max.minor == 7);
  CU_ASSERT_EQUAL(m.confine, TNI_CONFINE_DRIVER);
  CU_ASSERT(m.n_cpu == 2 && m.n_libraries == 1 && m.n_formats == 1 && m.n_ops == 2);
  uint8_t sum[32] = {0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
                     0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55};
  CU_ASSERT_EQUAL(tni_manifest_verify(&m, sum, &err), TN_OK);
  sum[31] ^= 1;
  CU_ASSERT_EQUAL(tni_manifest_verify(&m, sum, &err), TN_E_CORRUPT);
  CU_ASSERT_STRING_EQUAL(err.where, "d/p.yaml:13:1");
  tni_error_init(&err);
  uint64_t avx2 = tni_cpu_find("x86-64", "avx2")->bit, fma = tni_cpu_find("x86-64", "fma")->bit;
  CU_ASSERT_EQUAL(tni_manifest_check(&m, "cpu-x", "x86-64", avx2 | fma, &err), TN_OK);
  CU_ASSERT_EQUAL(tni_manifest_check(&m, "cpu-x", "x86-64", avx2, &err), TN_E_INCOMPATIBLE);
  CU_ASSERT_STRING_EQUAL(err.message, "needs processor features that are not here: fma");
  tni_error_init(&err);
  CU_ASSERT_EQUAL(tni_manifest_check(&m, "cpu-x", "aarch64", ~UINT64_C(0), &err), TN_E_INCOMPATIBLE);
  CU_ASSERT_STRING_EQUAL(err.message, "is built for x86-64, this machine is aarch64");
  CU_ASSERT_STRING_EQUAL(err.where, "d/p.yaml:6:1");
  tni_error_init(&err);
  CU_ASSERT_EQUAL(tni_manifest_check(&m, "other", "x86-64", ~UINT64_C(0), &err), TN_E_INCOMPATIBLE);
  tni_arena_destroy(a);
}

static void test_abi(void) {
  static const struct {
    const char *min, *max;
    tn_status parse, check;
  } t[] = {{"1.0", "1.0", TN_OK, TN_OK},
           {"1.0", "1.9", TN_OK, TN_OK},
           {"1.1", "1.9", TN_OK, TN_OK},
           {"1.2", "1.9", TN_OK, TN_E_INCOMPATIBLE},
           {"2.0", "2.0", TN_OK, TN_E_INCOMPATIBLE},
           {"1.0", "2.0", TN_E_INVALID, TN_OK},
           {"1.2", "1.1", TN_E_INVALID, TN_OK},
           {"1", "1.0", TN_E_INVALID, TN_OK},
           {"1.x", "1.0", TN_E_INVALID, TN_OK},
           {"1.0", "1.00000", TN_E_INVALID, TN_OK},
           {"\"\"", "1.0", TN_E_INVALID, TN_OK}};
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    tni_arena *a = tni_arena_create();
    tni_manifest m;
    tn_error err;
    char text[256];
    snprintf(text, sizeof text, "name: p\nversion: 1\nabi: {min: %s, max: %s}\narch: aarch64\n", t[i].min, t[i].max);
    tn_status st = parse(a, text, &m, &err);
    CU_ASSERT_EQUAL(st, t[i].parse);
    if (st == TN_OK) CU_ASSERT_EQUAL(tni_manifest_check(&m, "p", "aarch64", 0, &err), t[i].check);
    if (st == TN_OK && t[i].check != TN_OK) {
      char range[32];
      snprintf(range, sizeof range, "%s to %s", t[i].min, t[i].max);
      CU_ASSERT(strstr(err.message, range) && strstr(err.message, "1.0 to 1.1")); /* both ranges */
    }
    tni_arena_destroy(a);
  }
}

static void test_bad(void) {
  static const struct {
    const char *text, *where, *says;
  } t[] = {
      {"", "d/p.yaml:1:1", "empty"},
      {"[a]", "d/p.yaml:1:1", "must be a mapping"},
      {"version: 1\nabi: {min: 1.0, max: 1.0}\narch: x86-64\n", "d/p.yaml:1:1", "has no 'name'"},
      {"name: p\nabi: {min: 1.0, max: 1.0}\narch: x86-64\n", "d/p.yaml:1:1", "has no 'version'"},
      {"name: p\nversion: 1\narch: x86-64\n", "d/p.yaml:1:1", "has no 'abi'"},
      {"name: p\nversion: 1\nabi: {min: 1.0}\narch: x86-64\n", "d/p.yaml:3:6", "'abi' has no 'max'"},
      {"name: p\nversion: 1\nabi: {min: 1.0, max: 1.0}\n", "d/p.yaml:1:1", "has no 'arch'"},
      {"name: p\nversion: 1\nabi: {min: 1.0, max: 1.0}\narch: sparc\n", "d/p.yaml:4:7", "x86-64 or aarch64"},
      {HEAD "cpu: [avx3]\n", "d/p.yaml:5:7", "unknown x86-64 processor feature 'avx3': did you mean"},
      {HEAD "cpu: [neon]\n", "d/p.yaml:5:7", "unknown x86-64 processor feature 'neon'"},
      {HEAD "cpu: avx2\n", "d/p.yaml:5:6", "'cpu' must be a list"},
      {HEAD "confine: loose\n", "d/p.yaml:5:10", "must be strict or driver, not 'loose'"},
      {HEAD "sha256: abc\n", "d/p.yaml:5:9", "64 hexadecimal digits"},
      {HEAD "sha256: zz00000000000000000000000000000000000000000000000000000000000000\n", "d/p.yaml:5:9",
       "64 hexadecimal digits"},
      {HEAD "opps: []\n", "d/p.yaml:5:1", "did you mean 'ops'?"},
      {HEAD "name: q\n", "d/p.yaml:5:1", "'name' is given twice"},
  };
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    tni_arena *a = tni_arena_create();
    tni_manifest m;
    tn_error err;
    int ok = parse(a, t[i].text, &m, &err) == TN_E_INVALID && strcmp(err.where, t[i].where) == 0 &&
             strstr(err.message, t[i].says);
    if (!ok) printf("\n  case %zu: '%s' at '%s'\n", i, err.message, err.where);
    CU_ASSERT(ok);
    tni_arena_destroy(a);
  }
}

static void test_cpu(void) {
  size_t n;
  const tni_cpu_feature *t = tni_cpu_table(&n);
  uint64_t known = 0, here = tni_cpu_detect();
  for (size_t i = 0; i < n; i++)
    if (strcmp(t[i].arch, tni_cpu_arch()) == 0) known |= t[i].bit;
  CU_ASSERT_EQUAL(here & ~known, 0);
#if defined(__x86_64__)
  CU_ASSERT_EQUAL((here & tni_cpu_find("x86-64", "avx2")->bit) != 0, __builtin_cpu_supports("avx2") != 0);
  CU_ASSERT_EQUAL((here & tni_cpu_find("x86-64", "fma")->bit) != 0, __builtin_cpu_supports("fma") != 0);
  CU_ASSERT_EQUAL((here & tni_cpu_find("x86-64", "avx512f")->bit) != 0, __builtin_cpu_supports("avx512f") != 0);
  CU_ASSERT_EQUAL((here & tni_cpu_find("x86-64", "avx512vnni")->bit) != 0, __builtin_cpu_supports("avx512vnni") != 0);
#endif
}

const test_case manifest_tests[] = {
    {"good", test_good}, {"abi", test_abi}, {"bad", test_bad}, {"processor", test_cpu}, {0}};
