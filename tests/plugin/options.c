/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/options.h"

#include <stdio.h>
#include <string.h>

#include "plugin_test.h"

#define OPTION(k, t, d, ...) \
  { .h = TN_HDR(tn_option), .key = k, .type = t, .dflt = d, __VA_ARGS__ }
static const tn_option group = OPTION("group", TN_OPT_INT, "32", .choices = "32|128"),
                       depth = OPTION("depth", TN_OPT_INT, "4", .lo = 1, .hi = 16),
                       fast = OPTION("fast", TN_OPT_BOOL, "true", .reserved = 0),
                       ratio = OPTION("ratio", TN_OPT_FLOAT, "0.5", .lo = 0, .hi = 1),
                       mode = OPTION("mode", TN_OPT_STRING, "auto", .choices = "auto|gemm|gemv"),
                       path = OPTION("path", TN_OPT_STRING, NULL, .reserved = 0);
static const tn_option *const table[] = {&group, &depth, &fast, &ratio, &mode, &path};
static const tn_plugin plugin = {.h = TN_HDR(tn_plugin), .name = "p", .options = table, .n_options = 6};

static tn_status resolve(const char *options, tni_arena *a, const tni_option_value **v, tn_error *err) {
  char yaml[300];
  snprintf(yaml, sizeof yaml, "plugins:\n  - name: p\n    options: {%s}\n", options);
  tni_profile *p = NULL;
  CU_ASSERT_EQUAL_FATAL(tni_profile_parse(yaml, strlen(yaml), "o.yaml", &p, err), TN_OK);
  tn_status st = tni_options_resolve(a, &plugin, p->file, &p->plugins[0], v, err);
  if (st == TN_E_INVALID) CU_ASSERT_EQUAL(strncmp(err->where, "o.yaml:3:", 9), 0);
  tni_profile_destroy(p); /* values must not lie in it */
  return st;
}

static void test_good(void) {
  tni_arena *a = tni_arena_create();
  const tni_option_value *v;
  tn_error err = {0};
  CU_ASSERT_EQUAL_FATAL(resolve("", a, &v, &err), TN_OK);
  CU_ASSERT(v[0].i == 32 && v[1].i == 4 && v[2].i == 1 && v[3].d == 0.5);
  CU_ASSERT_STRING_EQUAL(v[4].s, "auto");
  CU_ASSERT_STRING_EQUAL(v[5].s, "");
  CU_ASSERT_EQUAL_FATAL(resolve("group: 0x80, depth: 16, fast: false, ratio: 1, mode: gemv, path: \"7\"", a, &v, &err),
                        TN_OK);
  CU_ASSERT(v[0].i == 128 && v[1].i == 16 && v[2].i == 0 && v[3].d == 1);
  CU_ASSERT_STRING_EQUAL(v[4].s, "gemv");
  CU_ASSERT_STRING_EQUAL(v[5].s, "7");
  tni_arena_destroy(a);
}

static void test_bad(void) {
  static const struct {
    const char *options, *where, *says;
  } t[] = {
      {"gruop: 32", "o.yaml:3:15", "plugin 'p' has no option 'gruop': did you mean 'group'?"},
      {"zzz: 1", "o.yaml:3:15", "plugin 'p' has no option 'zzz'"},
      {"group: 64", "o.yaml:3:22", "must be one of 32|128, not '64'"},
      {"group: many", "o.yaml:3:22", "must be a whole number, not 'many'"},
      {"group: \"32\"", "o.yaml:3:22", "must be a whole number"},
      {"depth: 0", "o.yaml:3:22", "is 0, out of range [1, 16]"},
      {"depth: 17", "o.yaml:3:22", "out of range"},
      {"depth: 1.5", "o.yaml:3:22", "whole number"},
      {"fast: 1", "o.yaml:3:21", "must be true or false"},
      {"fast: yes", "o.yaml:3:21", "must be true or false"},
      {"ratio: 1.01", "o.yaml:3:22", "out of range [0, 1]"},
      {"ratio: x", "o.yaml:3:22", "must be a number"},
      {"mode: fast", "o.yaml:3:21", "must be one of auto|gemm|gemv"},
      {"mode: aut", "o.yaml:3:21", "must be one of"},
  };
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    tni_arena *a = tni_arena_create();
    const tni_option_value *v;
    tn_error err = {0};
    int ok = resolve(t[i].options, a, &v, &err) == TN_E_INVALID && strcmp(err.where, t[i].where) == 0 &&
             strstr(err.message, t[i].says);
    if (!ok) printf("\n  %s: '%s' at '%s'\n", t[i].options, err.message, err.where);
    CU_ASSERT(ok);
    tni_arena_destroy(a);
  }
}

const test_case options_tests[] = {{"good", test_good}, {"bad", test_bad}, {0}};
