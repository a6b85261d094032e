/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes before a plugin's code runs in the host: the manifest inside the file, the libraries it needs, the probe
 * in a child and what is remembered of it.
 */
#include <CUnit/Basic.h>
#include <dirent.h>
#include <elf.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../plugins/common/plugdir.h"
#include "runtime/plugin/child.h"
#include "runtime/plugin/elfnote.h"
#include "runtime/plugin/load/registry.h"
#include "runtime/plugin/trust.h"

static plugdir dir, cache;
static char logged[4096];

static int setup(void) { return plugdir_create(&dir) && plugdir_create(&cache) ? 0 : 1; }
static int teardown(void) {
  char cmd[400];
  plugdir_remove(&dir);
  snprintf(cmd, sizeof cmd, "rm -rf %s", cache.path);
  return system(cmd) != 0;
}

static const char *at(const char *variable, const char *name) {
  static char path[4096];
  const char *folder = getenv(variable);
  snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", name);
  return path;
}

static void on_log(void *user, uint32_t level, const char *line) {
  (void)user, (void)level;
  const size_t n = strlen(logged);
  snprintf(logged + n, sizeof logged - n, "%s\n", line);
}

typedef struct start {
  const char *yaml, *retry, *cache, *helper, *dir;
  bool no_cache;
  int64_t probe_ms;
} start;

/* One start of an application. The caller destroys the registry, which is always made: plugins are optional. */
static tni_registry *begin(start s) {
  const char *const dirs[] = {s.dir ? s.dir : dir.path};
  static const bool probe[] = {true};
  const tni_log log = {on_log, NULL, TN_LOG_DEBUG};
  tni_profile *p = NULL;
  tni_registry *r = NULL;
  tn_error err;
  tni_error_init(&err);
  CU_ASSERT_EQUAL_FATAL(tni_profile_parse(s.yaml, strlen(s.yaml), "t.yaml", &p, &err), TN_OK);
  const tni_registry_opts o = {.dirs = dirs,
                               .n_dirs = 1,
                               .max_workers = 1,
                               .log = &log,
                               .cache_dir = s.no_cache ? NULL
                                            : s.cache  ? s.cache
                                                       : cache.path,
                               .probe = probe,
                               .retry = s.retry,
                               .probe_ms = s.probe_ms,
                               .helper = s.helper ? s.helper : getenv("TENON_FAULT_HELPER"),
                               .host_entry = plugdir_host_entry};
  logged[0] = '\0';
  if (tni_registry_create(&o, p, &r, &err) != TN_OK) printf("\n  %s\n", err.message);
  CU_ASSERT_PTR_NOT_NULL_FATAL(r);
  tni_profile_destroy(p);
  return r;
}

static void install(const char *name) {
  char file[128];
  snprintf(file, sizeof file, "%s.so", name);
  CU_ASSERT_FATAL(plugdir_copy(&dir, at("TENON_FAULT_CORPUS", file), file) && plugdir_manifest(&dir, name, NULL));
}

static const char bad_yaml[] = "plugins: [{name: enumerate-abort, optional: true}]";

typedef struct seen {
  bool loaded, probed, remembered, quarantined;
  char message[256];
} seen;

static seen look(start s, const char *name) {
  tni_registry *r = begin(s);
  const tni_plugin_info *i = tni_registry_find(r, name);
  CU_ASSERT_PTR_NOT_NULL_FATAL(i);
  seen out = {i->n_devices == 1, i->probed, i->remembered, i->quarantined, ""};
  snprintf(out.message, sizeof out.message, "%s", i->why.message);
  CU_ASSERT_PTR_NOT_NULL(tni_registry_find(r, "host"));
  tni_registry_destroy(r);
  return out;
}

/* -------------------------------------------------------------------------------------------------------- memory */

static void test_quarantine(void) {
  const start s = {.yaml = bad_yaml};
  install("enumerate-abort");
  seen a = look(s, "enumerate-abort");
  CU_ASSERT(!a.loaded && a.probed && !a.remembered && a.quarantined);
  CU_ASSERT_PTR_NOT_NULL(strstr(a.message, "SIGABRT"));
  a = look(s, "enumerate-abort"); /* not a second time */
  CU_ASSERT(!a.loaded && a.remembered && a.quarantined);
  CU_ASSERT(strstr(a.message, "SIGABRT") && strstr(a.message, "in quarantine since 20"));
  a = look((start){.yaml = bad_yaml, .retry = "somebody-else"}, "enumerate-abort");
  CU_ASSERT(a.remembered);
  a = look((start){.yaml = bad_yaml, .retry = "enumerate-abort"}, "enumerate-abort");
  CU_ASSERT(!a.remembered && a.quarantined); /* tried again, and it did it again */
  /* Another file of that name is another plugin; so is another manifest. */
  CU_ASSERT_FATAL(plugdir_manifest(&dir, "enumerate-abort", "# a comment\n"));
  a = look(s, "enumerate-abort");
  CU_ASSERT(!a.remembered && a.quarantined);
  size_t n;
  char *so = plugdir_read(at("TENON_FAULT_CORPUS", "enumerate-abort.so"), &n);
  CU_ASSERT_FATAL(so && plugdir_write(&dir, "enumerate-abort.so", so, n + 1, 0755)); /* read gives one byte more */
  a = look(s, "enumerate-abort");
  CU_ASSERT(a.remembered && a.quarantined); /* what is loaded of it is the same */
  so[offsetof(Elf64_Ehdr, e_flags)] ^= 1;   /* which means nothing here */
  CU_ASSERT_FATAL(plugdir_write(&dir, "enumerate-abort.so", so, n, 0755));
  free(so);
  a = look(s, "enumerate-abort");
  CU_ASSERT(!a.remembered && a.quarantined);
}

/* A path is bytes: these are no UTF-8, and a line break. */
static void test_bytes(void) {
  char folder[300], kept[300], cmd[800];
  install("good");
  snprintf(folder, sizeof folder, "%s/d\351e\n", dir.path);
  snprintf(kept, sizeof kept, "%s/\377c", cache.path);
  snprintf(cmd, sizeof cmd, "cp %s/good.* '%s'", dir.path, folder);
  CU_ASSERT_FATAL(mkdir(folder, 0755) == 0 && mkdir(kept, 0755) == 0 && system(cmd) == 0);
  const start s = {.yaml = "plugins: [{name: good, optional: true}]", .dir = folder, .cache = kept};
  seen a = look(s, "good");
  if (!a.loaded) printf("\n  %s\n", a.message);
  CU_ASSERT(a.loaded && a.probed && !a.remembered);
  a = look(s, "good");
  CU_ASSERT(a.loaded && a.remembered);
  snprintf(cmd, sizeof cmd, "rm -rf '%s'", folder);
  CU_ASSERT_EQUAL(system(cmd), 0);
}

static void test_passed(void) {
  const start s = {.yaml = "plugins: [{name: good, optional: true}]"};
  install("good");
  seen a = look(s, "good");
  CU_ASSERT(a.loaded && a.probed && !a.remembered && !a.quarantined);
  a = look(s, "good");
  CU_ASSERT(a.loaded && a.probed && a.remembered);
  a = look((start){.yaml = "plugins: [{name: good, optional: true, probe: inprocess}]"}, "good");
  CU_ASSERT(a.loaded && !a.probed);
}

/* Refusals are answers, not misconduct: the next start asks again. */
static void test_refusal(void) {
  const start s = {.yaml = "plugins: [{name: good, optional: true, options: {nonsense: 1}}]"};
  install("good");
  tni_profile *p = NULL;
  CU_ASSERT_EQUAL_FATAL(tni_profile_parse(s.yaml, strlen(s.yaml), "t.yaml", &p, NULL), TN_OK);
  const char *const dirs[] = {dir.path};
  static const bool probe[] = {true};
  const tni_registry_opts o = {.dirs = dirs,
                               .n_dirs = 1,
                               .max_workers = 1,
                               .cache_dir = cache.path,
                               .probe = probe,
                               .helper = getenv("TENON_FAULT_HELPER"),
                               .host_entry = plugdir_host_entry};
  for (int i = 0; i < 2; i++) {
    tni_registry *r = NULL;
    tn_error err;
    tni_error_init(&err);
    CU_ASSERT_EQUAL(tni_registry_create(&o, p, &r, &err), TN_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "nonsense"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.where, "t.yaml:1:50")); /* the child knows the profile's places */
    tni_registry_destroy(r);
  }
  tni_profile_destroy(p);
  CU_ASSERT(look((start){.yaml = "plugins: [{name: good, optional: true}]"}, "good").loaded);
}

/* What is not loaded of the file counts for the manifest's SHA-256, and none of it is kept in memory. */
static void test_sum_of_tail(void) {
  enum { TAIL = 100000 };
  const start s = {.yaml = "plugins: [{name: good, optional: true, probe: inprocess}]", .no_cache = true};
  char yaml[128] = "sha256: ";
  uint8_t sum[32];
  size_t n;
  SHA2_CTX h;
  char *so = plugdir_read(at("TENON_FAULT_CORPUS", "good.so"), &n), *more = calloc(1, n + TAIL);
  CU_ASSERT_FATAL(so && more);
  memcpy(more, so, n);
  memset(more + n, 7, TAIL);
  SHA256Init(&h);
  SHA256Update(&h, (const uint8_t *)more, n + TAIL);
  SHA256Final(sum, &h);
  for (int i = 0; i < 32; i++) sprintf(yaml + 8 + 2 * i, "%02x", sum[i]);
  strcat(yaml, "\n");
  CU_ASSERT_FATAL(plugdir_write(&dir, "good.so", more, n + TAIL, 0755) && plugdir_manifest(&dir, "good", yaml));
  CU_ASSERT(look(s, "good").loaded);
  more[n + TAIL - 1] = 8;
  CU_ASSERT_FATAL(plugdir_write(&dir, "good.so", more, n + TAIL, 0755));
  const seen a = look(s, "good");
  CU_ASSERT(!a.loaded && strstr(a.message, "the file was changed or is damaged"));
  free(so);
  free(more);
}

/* A manifest that is no text for a person is not read. */
static void test_large_manifest(void) {
  char path[400];
  install("good");
  snprintf(path, sizeof path, "%s/good.yaml", dir.path);
  CU_ASSERT_EQUAL_FATAL(truncate(path, INT64_C(1) << 40), 0);
  const seen a = look((start){.yaml = "plugins: [{name: good, optional: true}]", .no_cache = true}, "good");
  CU_ASSERT(!a.loaded && strstr(a.message, "is too large for a manifest (1099511627776 bytes, at most 262144)"));
  install("good");
}

static void test_no_memory_of_it(void) {
  install("enumerate-abort");
  install("good");
  for (int i = 0; i < 2; i++) {
    seen a = look((start){.yaml = bad_yaml, .cache = "/proc/nowhere"}, "enumerate-abort");
    CU_ASSERT(!a.remembered && a.quarantined);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged, "is not remembered"));
    a = look((start){.yaml = "plugins: [good]", .no_cache = true}, "good");
    CU_ASSERT(a.loaded && !a.remembered);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged, "there is no cache folder"));
  }
}

static void test_helper(void) {
  install("good");
  static const char yaml[] = "plugins: [{name: good, optional: true}]";
  seen a = look((start){.yaml = yaml, .helper = "/nonexistent/tenon-helper"}, "good");
  CU_ASSERT(!a.loaded && !a.quarantined);
  CU_ASSERT(strstr(a.message, "'good' is probed in a process of its own") &&
            strstr(a.message, "tenon-helper is not there"));
  char shared[300];
  CU_ASSERT_FATAL(plugdir_write(&dir, "tenon-helper", "#!/bin/sh\n", 10, 0777));
  snprintf(shared, sizeof shared, "%s/tenon-helper", dir.path);
  CU_ASSERT_PTR_NOT_NULL(strstr(look((start){.yaml = yaml, .helper = shared}, "good").message, "others may write"));
  CU_ASSERT_EQUAL(chmod(shared, 0755), 0); /* a program that answers nothing */
  a = look((start){.yaml = yaml, .helper = shared}, "good");
  CU_ASSERT(!a.loaded && !a.quarantined);
  CU_ASSERT_PTR_NOT_NULL(strstr(a.message, "tenon-helper did not start: exit status 0"));
}

/* What the helper needs to come up is not the plugin's time, and its end before that not the plugin's doing. */
static void test_slow_helper(void) {
  install("good");
  static const char good[] = "plugins: [{name: good, optional: true}]";
  char script[600], path[300];
  const int n =
      snprintf(script, sizeof script, "#!/bin/sh\nsleep 2.2\nexec '%s' \"$@\"\n", getenv("TENON_FAULT_HELPER"));
  snprintf(path, sizeof path, "%s/tenon-helper", dir.path);
  CU_ASSERT_FATAL(plugdir_write(&dir, "tenon-helper", script, (size_t)n, 0755));
  seen a = look((start){.yaml = good, .helper = path, .no_cache = true, .probe_ms = 2000}, "good");
  if (!a.loaded) printf("\n  %s\n", a.message);
  CU_ASSERT(a.loaded && a.probed);
  static const char killed[] = "#!/bin/sh\nkill -9 $$\n";
  CU_ASSERT_FATAL(plugdir_write(&dir, "tenon-helper", killed, sizeof killed - 1, 0755));
  a = look((start){.yaml = good, .helper = path, .retry = "good"}, "good");
  CU_ASSERT(!a.loaded && !a.quarantined && strstr(a.message, "did not start: SIGKILL"));
  CU_ASSERT(look((start){.yaml = good}, "good").loaded); /* nothing is remembered of it */
}

/* A verdict with any byte changed is none: the plugin is probed anew, or it still says the same. */
static void test_damaged(void) {
  const start s = {.yaml = bad_yaml};
  char folder[400], path[800] = "";
  install("enumerate-abort");
  look(s, "enumerate-abort");
  snprintf(folder, sizeof folder, "%s/plugins/enumerate-abort", cache.path);
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
  if (d) closedir(d);
  size_t n;
  int anew = 0;
  char *intact = plugdir_read(path, &n);
  CU_ASSERT_FATAL(intact && n > 128);
  for (size_t i = 0; i < n; i += n / 40) {
    FILE *f = fopen(path, "wb");
    intact[i] ^= (char)(1 << i % 8);
    CU_ASSERT_FATAL(f && fwrite(intact, 1, n, f) == n && fclose(f) == 0);
    intact[i] ^= (char)(1 << i % 8);
    const seen a = look(s, "enumerate-abort");
    CU_ASSERT(!a.loaded && a.quarantined);
    anew += !a.remembered;
  }
  CU_ASSERT(anew >= 30); /* the others were padding */
  free(intact);
}

static void test_environment(void) {
  static const char *const pass[] = {"PATH=/bin", "LC_ALL=C", "OCL_ICD_VENDORS=/x", "ADSP_LIBRARY_PATH=/y",
                                     "HOME=/root"},
                           *const stay[] = {"AWS_SECRET_ACCESS_KEY=x",
                                            "HF_TOKEN=x",
                                            "SSH_AUTH_SOCK=/s",
                                            "PATHS=/bin",
                                            "HOMEWORK=1",
                                            "no assignment"};
  for (size_t i = 0; i < sizeof pass / sizeof *pass; i++) CU_ASSERT(tni_child_env(pass[i]));
  for (size_t i = 0; i < sizeof stay / sizeof *stay; i++) CU_ASSERT(!tni_child_env(stay[i]));
}

/* ------------------------------------------------------------------------------------------- before code runs */

static void test_libraries(void) {
  install("good");
  static const char yaml[] = "plugins: [{name: good, optional: true}]";
  CU_ASSERT_FATAL(plugdir_manifest(&dir, "good", "libraries: [libc.so.6, libnobody-has-this.so.9]\n"));
  const seen a = look((start){.yaml = yaml}, "good");
  if (!strstr(a.message, "needs")) printf("\n  %s\n", a.message);
  CU_ASSERT(!a.loaded && !a.probed && strstr(a.message, "needs libnobody-has-this.so.9, which is not here"));
  CU_ASSERT_FATAL(plugdir_manifest(&dir, "good", "libraries: [libc.so.6, libnobody-has-this.so.9|libm.so.6]\n"));
  CU_ASSERT(look((start){.yaml = yaml}, "good").loaded);
}

static const char noted_yaml[] = "plugins: [{name: noted, optional: true, probe: inprocess}]";

static char *read_noted(const char *name, size_t *n) { return plugdir_read(at("TENON_FAULT_DIR", name), n); }

static void put(const char *file, const char *so, size_t n) {
  char path[400];
  snprintf(path, sizeof path, "%s/noted.so", dir.path);
  unlink(path);
  CU_ASSERT_FATAL(plugdir_write(&dir, file, so, n, 0755));
}

static void test_note(void) {
  static const char *const files[] = {"fault-noted.so", "fault-noted-stamped.so", "fault-noted-stripped.so"};
  size_t n;
  for (size_t i = 0; i < 3; i++) {
    char *so = read_noted(files[i], &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(so);
    put("noted.so", so, n);
    const seen a = look((start){.yaml = noted_yaml}, "noted");
    if (!a.loaded) printf("\n  %s: %s\n", files[i], a.message);
    CU_ASSERT(a.loaded);
    free(so);
  }
  /* As phones ship it. */
  char *so = read_noted("fault-noted-stripped.so", &n);
  CU_ASSERT_PTR_NOT_NULL_FATAL(so);
  put("libnoted.so", so, n);
  CU_ASSERT(look((start){.yaml = noted_yaml}, "noted").loaded);
  /* A manifest beside it goes before; the hash inside counts all the same. */
  CU_ASSERT_FATAL(plugdir_manifest(&dir, "noted", "cpu: [nothing-has-this]\n"));
  CU_ASSERT(!look((start){.yaml = noted_yaml}, "noted").loaded);
  CU_ASSERT_FATAL(plugdir_manifest(&dir, "noted", NULL));
  tni_elfnote note;
  const tni_file f = {.data = so, .bytes = n};
  CU_ASSERT_FATAL(tni_elfnote_find(&f, &note) && note.has_hash);
  so[note.hash_at] ^= 1;
  put("noted.so", so, n);
  CU_ASSERT_PTR_NOT_NULL(strstr(look((start){.yaml = noted_yaml}, "noted").message, "its note says"));
  free(so);
}

/* Whether the byte is one that the system's loader reads nothing from. */
static bool is_idle(const char *so, size_t n, size_t i) {
  Elf64_Ehdr h;
  memcpy(&h, so, sizeof h);
  if (i < sizeof h)
    return (i >= offsetof(Elf64_Ehdr, e_shoff) && i < offsetof(Elf64_Ehdr, e_flags)) ||
           i >= offsetof(Elf64_Ehdr, e_shentsize);
  (void)n;
  for (uint32_t k = 0; k < h.e_phnum; k++) {
    Elf64_Phdr p;
    memcpy(&p, so + h.e_phoff + k * sizeof p, sizeof p);
    if (p.p_type == PT_LOAD && i >= p.p_offset && i < p.p_offset + p.p_filesz) return false;
  }
  return i < h.e_phoff || i >= h.e_phoff + h.e_phnum * sizeof(Elf64_Phdr);
}

static void flip_all(const char *name) {
  size_t n, accepted = 0, loads = 0;
  char *so = read_noted(name, &n);
  CU_ASSERT_PTR_NOT_NULL_FATAL(so);
  for (size_t i = 0; i < n; i++) {
    tni_elfnote note;
    const tni_file f = {.data = so, .bytes = n};
    tn_error err;
    tni_error_init(&err);
    const bool idle = is_idle(so, n, i);
    so[i] ^= (char)(1 << (i * 5 + i / 8) % 8);
    const bool ok = tni_elf_check(&f, name, &err) == TN_OK && tni_elfnote_find(&f, &note) &&
                    tni_elfnote_verify(&f, &note, name, &err) == TN_OK;
    if (ok != idle) printf("\n  %s: byte %zu is %s\n", name, i, ok ? "accepted" : "refused");
    CU_ASSERT_EQUAL_FATAL(ok, idle);
    if (ok && accepted++ % (n / 32 + 1) == 0) { /* what is harmless does no harm */
      put("noted.so", so, n);
      CU_ASSERT(look((start){.yaml = "plugins: [{name: noted, optional: true}]"}, "noted").loaded);
      loads++;
    }
    so[i] ^= (char)(1 << (i * 5 + i / 8) % 8);
  }
  printf("\n  %s: %zu bytes, %zu of them idle, %zu loaded", name, n, accepted, loads);
  CU_ASSERT(loads > 0);
  free(so);
}

static void test_flips(void) {
  flip_all("fault-noted-stamped.so");
  flip_all("fault-noted-stripped.so");
}

int main(void) {
  static const struct {
    const char *name;
    CU_TestFunc fn;
  } tests[] = {{"quarantine", test_quarantine},
               {"passed", test_passed},
               {"paths that are no UTF-8", test_bytes},
               {"refusal", test_refusal},
               {"nowhere to remember", test_no_memory_of_it},
               {"sum of the tail", test_sum_of_tail},
               {"large manifest", test_large_manifest},
               {"helper", test_helper},
               {"slow helper", test_slow_helper},
               {"damaged verdict", test_damaged},
               {"environment", test_environment},
               {"libraries", test_libraries},
               {"note", test_note},
               {"flipped bytes", test_flips}};
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    CU_pSuite s = CU_add_suite(tests[i].name, setup, teardown);
    if (!s || !CU_add_test(s, tests[i].name, tests[i].fn)) return 1;
  }
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const int failed = CU_get_number_of_failures() != 0 || CU_get_number_of_suites_failed() != 0;
  CU_cleanup_registry();
  return failed;
}
