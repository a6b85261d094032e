/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of a plugin before it gets its process: the manifest, and its hash. And what is not: quarantine.
 */
#include <unistd.h>

#include "isolate_test.h"

static char folder[] = "/tmp/tenon-isolate-start-XXXXXX";

static bool copy(const char *from, const char *to) {
  char buf[65536];
  FILE *a = fopen(from, "rb"), *b = fopen(to, "wb");
  bool ok = a && b;
  for (size_t n; ok && (n = fread(buf, 1, sizeof buf, a)) > 0;) ok = fwrite(buf, 1, n, b) == n;
  if (a) fclose(a);
  return b && fclose(b) == 0 && ok;
}

/* The plugin of the corpus in the folder, with a manifest of ours. */
static bool place(const char *name, const char *arch, const char *more) {
  char from[1024], to[128];
  snprintf(from, sizeof from, "%s/%s.so", getenv("TENON_FAULT_CORPUS"), name);
  snprintf(to, sizeof to, "%s/%s.so", folder, name);
  if (!copy(from, to)) return false;
  snprintf(to, sizeof to, "%s/%s.yaml", folder, name);
  FILE *f = fopen(to, "w");
  if (!f) return false;
  fprintf(f, "name: %s\nversion: 0.0.1\nabi: {min: \"1.0\", max: \"1.0\"}\narch: %s\nlicense: Apache-2.0\n%s", name,
          arch, more);
  return fclose(f) == 0;
}

static void remove_all(const char *name) {
  static const char *const ends[] = {".so", ".yaml"};
  char path[128];
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ends[i]);
    (void)unlink(path);
  }
}

static tn_status try(const char *name, const char *keys, lab *l) {
  const char *const dirs[] = {folder, NULL};
  char profile[512];
  snprintf(profile, sizeof profile, "isolation: process\ntimeout_ms: 5000\nplugins:\n  - name: %s\n%s  - host\n", name,
           keys);
  return lab_open(l, profile, dirs, NULL);
}

#if defined(__aarch64__)
static const char here[] = "aarch64", elsewhere[] = "x86-64";
#else
static const char here[] = "x86-64", elsewhere[] = "aarch64";
#endif

/* A plugin whose code ends the process when it is loaded: what the manifest forbids is said, so the code did not run.
 */
static void test_manifest(void) {
  static const struct {
    const char *arch, *more;
    tn_status st;
    const char *says;
  } wrongs[] = {
      {elsewhere, "", TN_E_INCOMPATIBLE, "arch"},
      {here, "cpu: [no-such-feature]\n", TN_E_INCOMPATIBLE, "no-such-feature"},
      {here, "libraries: [libno-such-thing.so.9]\n", TN_E_UNAVAILABLE, "libno-such-thing"},
      {here, "sha256: 0000000000000000000000000000000000000000000000000000000000000000\n", TN_E_CORRUPT, "SHA-256"},
      {here, "colour: red\n", TN_E_INCOMPATIBLE, "colour"}};
  for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
    lab l;
    CU_ASSERT(place("constructor-crash", wrongs[i].arch, wrongs[i].more));
    const tn_status st = try("constructor-crash", "", &l);
    const bool right = st == wrongs[i].st && strstr(l.err.message, wrongs[i].says);
    if (!right) printf("\n    %s: %d %s", wrongs[i].more, st, l.err.message);
    CU_ASSERT(right);
    lab_close(&l);
  }
  lab l;
  CU_ASSERT(place("constructor-crash", here, ""));
  CU_ASSERT_NOT_EQUAL(try("constructor-crash", "", &l), TN_OK); /* and with a right one it does run */
  /* A signal, or what a sanitizer makes of it. */
  CU_ASSERT(strstr(l.err.message, "SIG") != NULL || strstr(l.err.message, "exit status") != NULL);
  lab_close(&l);
  remove_all("constructor-crash");
}

/* Its process is the probe: what it did there is not remembered, and it gets its process again each time. */
static void test_quarantine(void) {
  CU_ASSERT(place("open-exit", here, ""));
  for (int i = 0; i < 2; i++) {
    lab l;
    CU_ASSERT_NOT_EQUAL(try("open-exit", "    probe: isolated\n", &l), TN_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(l.err.message, "exit status 0"));
    CU_ASSERT_PTR_NULL(strstr(l.err.message, "quarantine"));
    lab_close(&l);
  }
  remove_all("open-exit");
}

static int init(void) { return mkdtemp(folder) ? 0 : 1; }
static int finish(void) { return rmdir(folder); }

void suite_start(void) {
  CU_pSuite s = CU_add_suite("isolate: its start", init, finish);
  CU_add_test(s, "manifest before process", test_manifest);
  CU_add_test(s, "no quarantine", test_quarantine);
}
