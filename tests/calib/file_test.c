/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calib_test.h"

static char path[64];

static int make_path(void) {
  snprintf(path, sizeof path, "/tmp/tenon-calib-%ld.yaml", (long)getpid());
  return 0;
}
static int drop_path(void) {
  (void)unlink(path);
  return 0;
}

static const float over[] = {0, 3, 0, 1e6f}, mean[] = {-1.5f, 0, 1e-30f, 123456}, square[] = {2.25f, 0, 1, 3e38f};
static const char *const weights[] = {"a.weight", "null", "1"};

static tni_calib sample(const char *name) {
  static tni_calib_entry e[2];
  for (int i = 0; i < 2; i++)
    e[i] = (tni_calib_entry){.stats = {.h = TN_HDR(tn_stats),
                                       .absmax = 0.1f,
                                       .p999 = 0.0999999f,
                                       .n = 4,
                                       .ch_over = over,
                                       .ch_mean = mean,
                                       .ch_weight = square,
                                       .rows = 1000000},
                             .name = i ? "last" : name,
                             .weights = weights,
                             .n_weights = i ? 0 : 3};
  tni_calib c = {.model_name = "m \"x\": y.onnx", .text_name = "t", .tokens = 7, .entries = e, .n_entries = 2};
  memset(c.model, 'a', TNI_CALIB_HEX);
  memset(c.text, '0', TNI_CALIB_HEX);
  return c;
}

static void test_round_trip(void) {
  static const char *const names[] = {"x",   "null",           "~",           "0x10", "a: b # c",
                                      "- -", "zwei\nZeilen\t", "h\xc3\xbcte", "%33"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    tni_calib c = sample(names[i]), *r = NULL;
    tn_error err = {0};
    CU_ASSERT_EQUAL_FATAL(tni_calib_write(&c, path, &err), TN_OK);
    const tn_status st = tni_calib_read(path, &r, &err);
    if (st != TN_OK) printf("\n  %s: %s\n", err.where, err.message);
    CU_ASSERT_EQUAL_FATAL(st, TN_OK);
    CU_ASSERT_STRING_EQUAL(r->model, c.model);
    CU_ASSERT_STRING_EQUAL(r->text, c.text);
    CU_ASSERT_STRING_EQUAL(r->model_name, c.model_name);
    CU_ASSERT_EQUAL(r->tokens, 7);
    CU_ASSERT_EQUAL_FATAL(r->n_entries, 2);
    const tni_calib_entry *e = r->entries;
    CU_ASSERT_STRING_EQUAL(e->name, names[i]);
    CU_ASSERT_EQUAL_FATAL(e->n_weights, 3);
    for (int k = 0; k < 3; k++) CU_ASSERT_STRING_EQUAL(e->weights[k], weights[k]);
    CU_ASSERT_EQUAL(e->stats.absmax, 0.1f);
    CU_ASSERT_EQUAL(e->stats.p999, 0.0999999f);
    CU_ASSERT_EQUAL(e->stats.rows, 1000000);
    CU_ASSERT_EQUAL(e->stats.h.size, sizeof(tn_stats));
    CU_ASSERT_EQUAL(memcmp(e->stats.ch_over, over, sizeof over), 0);
    CU_ASSERT_EQUAL(memcmp(e->stats.ch_mean, mean, sizeof mean), 0);
    CU_ASSERT_EQUAL(memcmp(e->stats.ch_weight, square, sizeof square), 0);
    tni_calib_destroy(r);
  }
}

static void test_write_fails(void) {
  tni_calib c = sample("x"), *r = NULL;
  tn_error err = {0};
  CU_ASSERT_EQUAL_FATAL(tni_calib_write(&c, path, NULL), TN_OK);
  c = sample("\xff\xfe");
  CU_ASSERT_EQUAL(tni_calib_write(&c, path, &err), TN_E_INVALID);
  CU_ASSERT(says(&err, "not UTF-8"));
  CU_ASSERT_EQUAL_FATAL(tni_calib_read(path, &r, NULL), TN_OK); /* the old one */
  tni_calib_destroy(r);
  char tmp[128];
  snprintf(tmp, sizeof tmp, "%s.tmp.%ld", path, (long)getpid());
  CU_ASSERT_NOT_EQUAL(access(tmp, F_OK), 0);
  err = (tn_error){0};
  CU_ASSERT_EQUAL(tni_calib_write(&c, "/nowhere/at/all.yaml", &err), TN_E_IO);
  CU_ASSERT(says(&err, "/nowhere/at/all.yaml"));
  err = (tn_error){0};
  CU_ASSERT_EQUAL(tni_calib_read("/nowhere/at/all.yaml", &r, &err), TN_E_INVALID);
  CU_ASSERT(says(&err, "/nowhere/at/all.yaml"));
}

/* One line of a good file replaced. */
typedef struct bad {
  const char *from, *to, *place, *says;
} bad;

static const char *const good_text =
    "tenon_calibration: 1\n"
    "model: {name: m, hash: 0123456789abcdef0123456789abcdef}\n"
    "text: {name: t, hash: 0123456789abcdef0123456789abcdef, tokens: 5}\n"
    "values:\n"
    "- name: x\n"
    "  weights: [w]\n"
    "  rows: 10\n"
    "  channels: 3\n"
    "  absmax: 2.5\n"
    "  p999: 2\n"
    "  over: {channels: [0, 2], counts: [1, 9]}\n"
    "  mean: [0.5, -1, 2e-3]\n"
    "  mean_square: [1, 1, 1]\n";

static const bad table[] = {
    {"tenon_calibration: 1", "tenon_calibration: 2", ":1:20", "version 2 is not one that is known"},
    {"tenon_calibration: 1\n", "", ":1:1", "'tenon_calibration' is missing"},
    {"text: {", "txt: {", ":3:1", "did you mean 'text'?"},
    {"model: {name: m, ", "model: {", ":2:8", "'model.name' is missing"},
    {"hash: 0123456789abcdef0123456789abcdef}", "hash: 0123}", ":2:24", "'model.hash' must be 32 digits"},
    {", tokens: 5", "", ":3:7", "'text.tokens' is missing"},
    {"tokens: 5", "tokens: -5", ":3:65", "out of range"},
    {"values:\n", "vals:\n", ":4:1", "did you mean 'values'?"},
    {"- name: x", "- nam: x", ":5:3", "did you mean 'name'?"},
    {"  weights: [w]\n", "", ":5:3", "'weights' is missing"},
    {"weights: [w]", "weights: w", ":6:12", "'weights' must be a list"},
    {"rows: 10", "rows: 0", ":5:3", "'rows' of activation 'x' must be 1 or more"},
    {"channels: 3", "channels: many", ":8:13", "'channels' must be a whole number"},
    {"channels: 3", "channels: 4", ":12:9", "'mean' has 3 numbers, not 4"},
    {"channels: 3", "channels: 99999999999", ":8:13", "out of range"},
    {"absmax: 2.5", "absmax: nan", ":9:11", "'absmax' must be a number"},
    {"absmax: 2.5", "absmax: -2.5", ":9:11", "out of range"},
    {"absmax: 2.5", "absmax: 1e39", ":9:11", "out of range"},
    {"p999: 2", "p999: 3", ":10:9", "out of range [0, 2.5]"},
    {"p999: 2\n", "p999: [2]\n", ":10:9", "must be a single value"},
    {"channels: [0, 2]", "channels: [0, 3]", ":11:24", "out of range [0, 2]"},
    {"channels: [0, 2]", "channels: [2, 0]", ":11:20", "that rise"},
    {"channels: [0, 2]", "channels: [0, 1.5]", ":11:20", "whole numbers"},
    {"counts: [1, 9]", "counts: [1]", ":11:36", "'over.counts' has 1 numbers, not 2"},
    {"counts: [1, 9]", "counts: [1, 11]", ":11:40", "out of range"},
    {"counts: [1, 9]", "cnt: [1, 9]", ":11:28", "unknown key 'cnt' in 'over'"},
    {"mean: [0.5, -1, 2e-3]", "mean: [0.5, x, 2e-3]", ":12:15", "'mean' must be a number, not 'x'"},
    {"mean_square: [1, 1, 1]", "mean_square: [1, 1, -1]", ":13:23", "out of range"},
    {"mean_square: [1, 1, 1]", "mean_square: [1, 1, 1", ":14:1", ""},
    {"  mean_square: [1, 1, 1]\n", "", ":5:3", "'mean_square' is missing"},
};

static tn_status read_text(const char *text, tn_error *err) {
  tni_calib *r = NULL;
  FILE *f = fopen(path, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fputs(text, f);
  fclose(f);
  const tn_status st = tni_calib_read(path, &r, err);
  if (st == TN_OK) tni_calib_destroy(r);
  return st;
}

static void test_malformed(void) {
  char text[2048];
  tn_error err = {0};
  CU_ASSERT_EQUAL_FATAL(read_text(good_text, &err), TN_OK);
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    const char *at = strstr(good_text, table[i].from);
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good_text), good_text, table[i].to, at + strlen(table[i].from));
    err = (tn_error){0};
    CU_ASSERT_EQUAL(read_text(text, &err), TN_E_INVALID);
    CU_ASSERT(says(&err, table[i].says));
    const size_t n = strlen(err.where), m = strlen(table[i].place);
    if (n < m || strcmp(err.where + n - m, table[i].place) != 0) printf("\n  row %zu: %s\n", i, err.where);
    CU_ASSERT(n >= m && strcmp(err.where + n - m, table[i].place) == 0);
  }
  snprintf(text, sizeof text, "%s%s", good_text, strstr(good_text, "- name"));
  err = (tn_error){0};
  CU_ASSERT_EQUAL(read_text(text, &err), TN_E_INVALID);
  CU_ASSERT(says(&err, "activation 'x' stands twice"));
  snprintf(text, sizeof text, "%.*s- 3\n", (int)(strstr(good_text, "- name") - good_text), good_text);
  err = (tn_error){0};
  CU_ASSERT_EQUAL(read_text(text, &err), TN_E_INVALID);
  CU_ASSERT(says(&err, "must be a mapping, not a single value"));
  err = (tn_error){0};
  CU_ASSERT_EQUAL(read_text("", &err), TN_E_INVALID);
  CU_ASSERT(says(&err, "empty"));
}

/* A file cut anywhere is refused, or reads as a shorter list; it never crashes. */
static void test_cut(void) {
  char text[2048];
  for (size_t n = 0; n < strlen(good_text); n++) {
    tn_error err = {0};
    snprintf(text, sizeof text, "%.*s", (int)n, good_text);
    const tn_status st = read_text(text, &err);
    CU_ASSERT(st == TN_OK || (st == TN_E_INVALID && err.message[0]));
  }
}

void suite_file(void) {
  CU_pSuite s = CU_add_suite("file", make_path, drop_path);
  CU_add_test(s, "round trip", test_round_trip);
  CU_add_test(s, "what cannot be written or read", test_write_fails);
  CU_add_test(s, "malformed", test_malformed);
  CU_add_test(s, "cut anywhere", test_cut);
}
