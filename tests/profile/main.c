/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profile_test.h"
#include "runtime/profile/device_profile.h"
#include "runtime/profile/suggest.h"
#include "runtime/profile/yamltree.h"

static tni_profile *good(const char *text) {
  tni_profile *p = NULL;
  tn_error err = {0};
  tn_status st = tni_profile_parse(text, strlen(text), "/etc/t/p.yaml", &p, &err);
  if (st != TN_OK) printf("\n  %s: %s\n", err.where, err.message);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  return p;
}

static void test_full(void) {
  tni_profile *p = good(
      "plugins:\n"
      "  - cpu-avx2-lut\n"
      "  - name: npu-int8-sim\n"
      "    optional: true\n"
      "    options: {group: 32, table: \"a b\", ratio: 0.5}\n"
      "  - host\n"
      "phases: {prefill: [npu-int8-sim, host], decode: [cpu-avx2-lut]}\n"
      "require: [cpu-avx2-lut]\n"
      "threads: 3\n"
      "max_seq: 2048\n"
      "prefill_chunk: 0\n"
      "bucket: 64\n"
      "plugin_path: [plugins, /opt/p]\n"
      "cache: {dir: ../c, max_bytes: 8G}\n"
      "checked: true\n"
      "calibration: c/demo.yaml\n");
  CU_ASSERT_STRING_EQUAL(p->name, "p");
  CU_ASSERT_STRING_EQUAL(p->calibration, "/etc/t/c/demo.yaml");
  CU_ASSERT_STRING_EQUAL(p->file, "/etc/t/p.yaml");
  CU_ASSERT_EQUAL_FATAL(p->n_plugins, 3);
  CU_ASSERT_STRING_EQUAL(p->plugins[0].name, "cpu-avx2-lut");
  CU_ASSERT_FALSE(p->plugins[0].optional);
  CU_ASSERT_EQUAL(p->plugins[0].line, 2);
  const tni_profile_plugin *q = &p->plugins[1];
  CU_ASSERT_STRING_EQUAL(q->name, "npu-int8-sim");
  CU_ASSERT_TRUE(q->optional);
  CU_ASSERT_EQUAL(q->line, 3);
  CU_ASSERT_EQUAL(q->column, 5);
  CU_ASSERT_EQUAL_FATAL(q->n_options, 3);
  CU_ASSERT_STRING_EQUAL(q->options[0].key, "group");
  CU_ASSERT_STRING_EQUAL(q->options[0].value, "32");
  CU_ASSERT_EQUAL(q->options[0].line, 5);
  CU_ASSERT_EQUAL(q->options[0].column, 15);
  CU_ASSERT_EQUAL(q->options[0].value_column, 22);
  CU_ASSERT_FALSE(q->options[0].quoted);
  CU_ASSERT_STRING_EQUAL(q->options[1].value, "a b");
  CU_ASSERT_TRUE(q->options[1].quoted);
  CU_ASSERT_TRUE(p->has_phases);
  CU_ASSERT_EQUAL_FATAL(p->n_prefill, 2);
  CU_ASSERT_STRING_EQUAL(p->prefill[0], "npu-int8-sim");
  CU_ASSERT_STRING_EQUAL(p->prefill[1], "host");
  CU_ASSERT_EQUAL_FATAL(p->n_decode, 1);
  CU_ASSERT_STRING_EQUAL(p->decode[0], "cpu-avx2-lut");
  CU_ASSERT_EQUAL_FATAL(p->n_require, 1);
  CU_ASSERT_STRING_EQUAL(p->require[0], "cpu-avx2-lut");
  CU_ASSERT_EQUAL(p->threads, 3);
  CU_ASSERT_EQUAL(p->max_seq, 2048);
  CU_ASSERT_EQUAL(p->prefill_chunk, 0);
  CU_ASSERT_EQUAL(p->bucket, 64);
  CU_ASSERT_EQUAL_FATAL(p->n_plugin_path, 2);
  CU_ASSERT_STRING_EQUAL(p->plugin_path[0], "/etc/t/plugins");
  CU_ASSERT_STRING_EQUAL(p->plugin_path[1], "/opt/p");
  CU_ASSERT_STRING_EQUAL(p->cache_dir, "/etc/t/../c");
  CU_ASSERT_EQUAL(p->cache_max_bytes, UINT64_C(8) << 30);
  CU_ASSERT_TRUE(p->checked);
  tni_profile_destroy(p);
}

static void test_defaults(void) {
  tni_profile *p = good("{}\n");
  CU_ASSERT_EQUAL(p->n_plugins, 0);
  CU_ASSERT_FALSE(p->has_phases);
  CU_ASSERT_PTR_NULL(p->cache_dir);
  CU_ASSERT_EQUAL(p->cache_max_bytes, 0);
  CU_ASSERT_EQUAL(p->max_seq, 0);
  CU_ASSERT_EQUAL(p->prefill_chunk, 512);
  CU_ASSERT_FALSE(p->chunk_said);
  CU_ASSERT_EQUAL(p->timeout_ms, 60000);
  CU_ASSERT_EQUAL(p->priority, 0); /* normal */
  CU_ASSERT_EQUAL(p->watch, 16);
  CU_ASSERT_EQUAL(p->bucket, 0);
  CU_ASSERT_FALSE(p->checked);
  CU_ASSERT_EQUAL(p->kv, TN_DT_UNDEFINED);
  CU_ASSERT_TRUE(p->kv_ring);
  CU_ASSERT_FALSE(p->packed_embeddings);
  CU_ASSERT_EQUAL(CPU_COUNT(&p->cpus), 0);
  tni_profile_destroy(p);

  p = good("cpus: big\n");
  CU_ASSERT(p->cpus_big && CPU_COUNT(&p->cpus) == 0);
  tni_profile_destroy(p);
  static const char *const cpus[] = {"cpus: [0, 2-3]\n", "cpus: 0,2-3\n", "cpus: '2-3, 0'\n",
                                     "cpus:\n  - 0,2\n  - 3\n"};
  for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++) {
    p = good(cpus[i]);
    CU_ASSERT_EQUAL(CPU_COUNT(&p->cpus), 3);
    CU_ASSERT_FALSE(p->cpus_big);
    CU_ASSERT(CPU_ISSET(0, &p->cpus) && CPU_ISSET(2, &p->cpus) && CPU_ISSET(3, &p->cpus));
    CU_ASSERT_EQUAL(p->cpus_line, i == 3 ? 2 : 1);
    tni_profile_destroy(p);
  }

  p = good("embeddings: packed\n");
  CU_ASSERT_TRUE(p->packed_embeddings);
  tni_profile_destroy(p);
  p = good("kv: int8\nkv_ring: false\n");
  CU_ASSERT_EQUAL(p->kv, TN_DT_I8);
  CU_ASSERT_FALSE(p->kv_ring);
  tni_profile_destroy(p);

  p = good("plugins: [a, b]\nphases: {decode: [b]}\n"); /* the phase that is not said has the plugins' order */
  CU_ASSERT_EQUAL_FATAL(p->n_prefill, 2);
  CU_ASSERT_STRING_EQUAL(p->prefill[1], "b");
  CU_ASSERT_EQUAL(p->n_decode, 1);
  tni_profile_destroy(p);

  p = good("plugins: [host]\n");
  CU_ASSERT_EQUAL_FATAL(p->n_plugins, 1);
  CU_ASSERT_STRING_EQUAL(p->plugins[0].name, "host");
  tni_profile_destroy(p);
}

static void test_sizes(void) {
  static const struct {
    const char *text;
    uint64_t bytes;
  } t[] = {{"0", 0},
           {"4096", 4096},
           {"512K", 512 << 10},
           {"512M", 512 << 20},
           {"8G", UINT64_C(8) << 30},
           {"2T", UINT64_C(2) << 40}};
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    char text[64];
    snprintf(text, sizeof text, "memory: %s\n", t[i].text);
    tni_profile *p = good(text);
    CU_ASSERT_EQUAL(p->memory, t[i].bytes);
    tni_profile_destroy(p);
  }
}

/* Every file of configs. */
static void test_shipped(void) {
  const char *root = getenv("TENON_TEST_SOURCE");
  char dir[4096], name[256];
  snprintf(dir, sizeof dir, "%s/configs", root ? root : ".");
  const char *const dirs[] = {"/nonexistent", dir};
  DIR *d = opendir(dir);
  uint32_t checked = 0;
  CU_ASSERT_PTR_NOT_NULL_FATAL(d);
  for (struct dirent *e; (e = readdir(d));) {
    const size_t n = strlen(e->d_name);
    if (n < 6 || n >= sizeof name || strcmp(e->d_name + n - 5, ".yaml") != 0) continue;
    memcpy(name, e->d_name, n - 5);
    name[n - 5] = 0;
    tni_profile *p = NULL;
    tn_error err = {0};
    CU_ASSERT_EQUAL(tni_profile_load(name, dirs, 2, &p, &err), TN_OK);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    CU_ASSERT_STRING_EQUAL(p->name, name);
    CU_ASSERT_STRING_EQUAL(p->plugins[p->n_plugins - 1].name, "host");
    for (uint32_t j = 0; strcmp(name, "default") == 0 && j + 1 < p->n_plugins; j++)
      CU_ASSERT_TRUE(p->plugins[j].optional);
    if (strncmp(name, "cpu-", 4) == 0) CU_ASSERT_EQUAL(p->n_require, 1);
    tni_profile_destroy(p);
    checked++;
  }
  closedir(d);
  CU_ASSERT(checked > 20);
}

static void test_lookup(void) {
  const char *root = getenv("TENON_TEST_SOURCE");
  char dir[4096], file[5000];
  snprintf(dir, sizeof dir, "%s/configs", root ? root : ".");
  snprintf(file, sizeof file, "%s/host.yaml", dir);
  const char *const dirs[] = {dir};
  tni_profile *p = NULL;
  tn_error err = {0};
  CU_ASSERT_EQUAL(tni_profile_load(file, NULL, 0, &p, &err), TN_OK);
  tni_profile_destroy(p);
  p = NULL;
  CU_ASSERT_EQUAL(tni_profile_load("defualt", dirs, 1, &p, &err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "did you mean 'default'?"));
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, dir));
  tni_error_init(&err);
  CU_ASSERT_EQUAL(tni_profile_load("..", dirs, 1, &p, &err), TN_E_INVALID);
  tni_error_init(&err);
  CU_ASSERT_EQUAL(tni_profile_load("", dirs, 1, &p, &err), TN_E_INVALID);
  tni_error_init(&err);
  CU_ASSERT_EQUAL(tni_profile_load("./nothing.yaml", dirs, 1, &p, &err), TN_E_INVALID);
  CU_ASSERT_EQUAL(err.code, TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "./nothing.yaml"));
  tni_error_init(&err);
  CU_ASSERT_EQUAL(tni_profile_load(dir[0] == '/' ? dir : "/", dirs, 1, &p, &err), TN_E_INVALID); /* a folder */
  CU_ASSERT_PTR_NULL(p);
}

/* Paths of a profile that is named by a relative path are still absolute. */
static void test_relative_file(void) {
  char tmp[] = "/tmp/tenon-profile-XXXXXX", old[4096], want[4200];
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(tmp));
  CU_ASSERT_PTR_NOT_NULL_FATAL(getcwd(old, sizeof old));
  CU_ASSERT_EQUAL_FATAL(chdir(tmp), 0);
  FILE *f = fopen("r.yaml", "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fputs("plugin_path: [sub]\n", f);
  fclose(f);
  tni_profile *p = NULL;
  tn_error err = {0};
  CU_ASSERT_EQUAL(tni_profile_load("r.yaml", NULL, 0, &p, &err), TN_OK);
  snprintf(want, sizeof want, "%s/sub", tmp);
  if (p) CU_ASSERT_STRING_EQUAL(p->plugin_path[0], want);
  tni_profile_destroy(p);
  f = fopen("big.yaml", "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  for (int i = 0; i < 300 * 1024; i++) fputc('#', f);
  fclose(f);
  tni_error_init(&err);
  CU_ASSERT_EQUAL(tni_profile_load("big.yaml", NULL, 0, &p, &err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "too large"));
  unlink("big.yaml");
  unlink("r.yaml");
  CU_ASSERT_EQUAL(chdir(old), 0);
  rmdir(tmp);
}

static void test_nearest(void) {
  static const char *const words[] = {"threads", "max_seq", "a"};
  CU_ASSERT_STRING_EQUAL(tni_nearest("thraeds", words, 3), "threads");
  CU_ASSERT_STRING_EQUAL(tni_nearest("maxseq", words, 3), "max_seq");
  CU_ASSERT_PTR_NULL(tni_nearest("checked", words, 3));
  CU_ASSERT_PTR_NULL(tni_nearest("", words, 3));
}

static void test_texts(void) {
  int64_t i = 0;
  double d = 0;
  CU_ASSERT(tni_text_int("-12", &i) && i == -12);
  CU_ASSERT(tni_text_int("0x1F", &i) && i == 31);
  CU_ASSERT_FALSE(tni_text_int("", &i));
  CU_ASSERT_FALSE(tni_text_int("0x", &i));
  CU_ASSERT_FALSE(tni_text_int("1 ", &i));
  CU_ASSERT_FALSE(tni_text_int("+-1", &i));
  CU_ASSERT_FALSE(tni_text_int("9223372036854775808", &i));
  CU_ASSERT(tni_text_float("2.5e-1", &d) && d == 0.25);
  CU_ASSERT_FALSE(tni_text_float("1e999", &d));
  CU_ASSERT_FALSE(tni_text_float("nan", &d));
  CU_ASSERT_FALSE(tni_text_float("1e", &d));
}

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite s = CU_add_suite("profile", NULL, NULL);
  if (!s || !CU_add_test(s, "all keys", test_full) || !CU_add_test(s, "defaults", test_defaults) ||
      !CU_add_test(s, "sizes", test_sizes) || !CU_add_test(s, "shipped profiles", test_shipped) ||
      !CU_add_test(s, "look-up", test_lookup) || !CU_add_test(s, "relative file", test_relative_file) ||
      !CU_add_test(s, "nearest", test_nearest) || !CU_add_test(s, "texts", test_texts) || !add_bad_suite())
    return 1;
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  int failed = CU_get_number_of_failures() != 0;
  CU_cleanup_registry();
  return failed;
}
