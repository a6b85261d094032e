/* SPDX-License-Identifier: Apache-2.0 */
#include <CUnit/Basic.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../plugins/common/plugdir.h"
#include "runtime/plugin/fpmode.h"
#include "runtime/plugin/load/registry.h"

typedef struct fault {
  const char *name; /* of the plugin; the file is fault-NAME.so */
  tn_status status;
  const char *says; /* part of the message */
} fault;

static const fault contract[] = {
    {"abi-newer", TN_E_INCOMPATIBLE, "has ABI 1.3 to 1.5, this host 1.0 to 1.1: update the host"},
    {"abi-liar", TN_E_INCOMPATIBLE, "has ABI 1.3 to 1.5, this host 1.0 to 1.1"},
    {"major", TN_E_INCOMPATIBLE, "tn_plugin is of ABI 2.1, this host has 1.0 to 1.1"},
    {"size-zero", TN_E_INCOMPATIBLE, "tn_plugin has size 0"},
    {"size-huge", TN_E_INCOMPATIBLE, "tn_plugin has an absurd size of 4294967295 bytes"},
    {"size-small", TN_E_INCOMPATIBLE, "tn_plugin has 24 bytes, ABI 1.0 needs"},
    {"null-function", TN_E_INTERNAL, "tn_plugin->enumerate is NULL"},
    {"null-plugin", TN_E_INTERNAL, "its entry said OK and gave no plugin"},
    {"wild-pointer", TN_E_INTERNAL, "tn_plugin is a misaligned pointer"},
    {"entry-status", TN_E_INTERNAL, "tenon_plugin_entry_v1 returned the unknown status 4711: something else"},
    {"enumerate-status", TN_E_INTERNAL, "enumerate returned the unknown status -77: the driver said so"},
    {"open-status", TN_E_UNAVAILABLE, "open failed (UNAVAILABLE): firmware is too old"},
    {"bad-text", TN_E_UNAVAILABLE, "enumerate failed (UNAVAILABLE): ????"},
    {"no-devices", TN_E_UNAVAILABLE, "has no device here: no board answers on the bus"},
    {"no-devices-silent", TN_E_UNAVAILABLE, "has no device here: it gave no reason"},
    {"many-devices", TN_E_INTERNAL, "enumerate gave 1000000 devices where 16 were asked for"},
    {"device-null", TN_E_INTERNAL, "open said OK and gave no device"},
    {"device-size-zero", TN_E_INCOMPATIBLE, "tn_device has size 0"},
    {"device-size-huge", TN_E_INCOMPATIBLE, "tn_device has an absurd size"},
    {"device-null-function", TN_E_INTERNAL, "tn_device->lower is NULL"},
    {"device-no-caps", TN_E_INTERNAL, "tn_caps is NULL"},
    {"caps-size-zero", TN_E_INCOMPATIBLE, "tn_caps has size 0"},
    {"caps-engines-null", TN_E_INTERNAL, "tn_caps->engines: 2 entries at (nil)"},
    {"caps-engine", TN_E_INTERNAL, "engine 1: tn_engine->name is missing"},
    {"caps-align", TN_E_INTERNAL, "an alignment is no power of two (align 48"},
    {"no-submit", TN_E_INTERNAL, "tn_device->submit is NULL"},
    {"option-default", TN_E_INTERNAL, "the default of its option 'group' must be a whole number, not 'many'"},
    {"option-table", TN_E_INTERNAL, "option 'group' has unknown type 99"},
    {"option-twice", TN_E_INTERNAL, "option 'group' is declared twice"},
    {"options-null", TN_E_INTERNAL, "tn_plugin->options: 7 entries at (nil)"},
    {"format", TN_E_INTERNAL, "format 'broken': tn_format->numerics is NULL"},
    {"other-name", TN_E_INCOMPATIBLE, "calls itself 'somebody-else', its file 'other-name'"},
    {"no-version", TN_E_INTERNAL, "tn_plugin->version is NULL"},
    {"fpmode-enumerate", TN_E_INTERNAL, "enumerate changes the floating-point mode"},
    {"noentry", TN_E_INCOMPATIBLE, "is no plugin: it exports no tenon_plugin_entry_v1"},
    {"entry2", TN_E_INCOMPATIBLE, "exports tenon_plugin_entry_v2: it is of ABI 2, this host has 1.0 to 1.1"},
    {"undefined", TN_E_UNAVAILABLE, "undefined symbol: tenon_test_nobody_has_this"},
};

static plugdir dir;

static int setup(void) { return plugdir_create(&dir) ? 0 : 1; }
static int teardown(void) {
  plugdir_remove(&dir);
  return 0;
}

static const char *lib_path(const char *name) {
  static char path[4096];
  const char *at = getenv("TENON_FAULT_DIR");
  snprintf(path, sizeof path, "%s/fault-%s.so", at ? at : ".", name);
  return path;
}

static tn_status make(const char *yaml, const char *const *dirs, uint32_t n_dirs, bool shared, tni_registry **r,
                      tn_error *err) {
  tni_profile *p = NULL;
  tn_status st = tni_profile_parse(yaml, strlen(yaml), "t.yaml", &p, err);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  tni_registry_opts o = {.dirs = dirs,
                         .n_dirs = n_dirs,
                         .max_workers = 2,
                         .allow_shared_writable = shared,
                         .host_entry = plugdir_host_entry};
  st = tni_registry_create(&o, p, r, err);
  tni_profile_destroy(p);
  return st;
}

static void expect(const char *name, int ok, const char *what, tn_status st, const tn_error *e) {
  if (!ok) printf("\n  %s: %s: status %d, '%s' at '%s'\n", name, what, st, e->message, e->where);
  CU_ASSERT(ok);
}

/* The three questions of the README. */
static void refused(const char *name, tn_status status, const char *says, bool shared) {
  const char *const dirs[] = {dir.path};
  char yaml[256];
  tni_registry *r = NULL;
  tn_error err = {0};
  uint64_t mode = tni_fpmode_get();
  snprintf(yaml, sizeof yaml, "plugins: [{name: %s, optional: true}]", name);
  tn_status st = make(yaml, dirs, 1, shared, &r, &err);
  expect(name, st == TN_OK && r, "optional", st, &err);
  if (r) {
    const tni_plugin_info *i = tni_registry_find(r, name), *host = tni_registry_find(r, "host");
    CU_ASSERT_PTR_NOT_NULL_FATAL(i);
    expect(name, i->n_devices == 0 && i->why.code == status && strstr(i->why.message, says) && i->why.where[0],
           "reason", i->why.code, &i->why);
    CU_ASSERT(host && host->builtin && host->loaded && host->n_devices == 1);
    CU_ASSERT_EQUAL(tni_registry_count(r), 2);
  }
  tni_registry_destroy(r);
  CU_ASSERT_EQUAL(tni_fpmode_get(), mode);

  r = NULL;
  tni_error_init(&err);
  snprintf(yaml, sizeof yaml, "plugins: [%s]", name);
  st = make(yaml, dirs, 1, shared, &r, &err);
  expect(name, st == status && !r && err.code == status && strstr(err.message, name) && err.where[0], "mandatory", st,
         &err);
  tni_registry_destroy(r);

  r = NULL;
  tni_error_init(&err);
  snprintf(yaml, sizeof yaml, "plugins: [{name: %s, optional: true}]\nrequire: [%s]", name, name);
  st = make(yaml, dirs, 1, shared, &r, &err);
  expect(name, st == status && !r, "required", st, &err);
  tni_registry_destroy(r);
}

static void install(const char *name) {
  char file[128];
  snprintf(file, sizeof file, "%s.so", name);
  if (!plugdir_copy(&dir, lib_path(name), file)) printf("\n  no %s\n", lib_path(name));
  CU_ASSERT_FATAL(plugdir_copy(&dir, lib_path(name), file));
  CU_ASSERT_FATAL(plugdir_manifest(&dir, name, NULL));
}

static void test_contract(void) {
  for (size_t i = 0; i < sizeof contract / sizeof *contract; i++) {
    install(contract[i].name);
    refused(contract[i].name, contract[i].status, contract[i].says, false);
  }
}

/* The corpus starts from a plugin that is in order: if that failed, every case above would pass for the wrong reason.
 */
static void test_control(void) {
  const char *const dirs[] = {dir.path};
  tni_registry *r = NULL;
  tn_error err = {0};
  install("none");
  tn_status st = make("plugins: [none]", dirs, 1, false, &r, &err);
  expect("none", st == TN_OK, "control", st, &err);
  if (r) CU_ASSERT_EQUAL(tni_registry_find(r, "none")->n_devices, 1);
  tni_registry_destroy(r);
}

/* One device twice: the second is refused, the first stays. */
static void test_twice(void) {
  const char *const dirs[] = {dir.path};
  tni_registry *r = NULL;
  tn_error err = {0};
  install("device-twice");
  CU_ASSERT_EQUAL_FATAL(make("plugins: [device-twice]", dirs, 1, false, &r, &err), TN_OK);
  CU_ASSERT_EQUAL(tni_registry_find(r, "device-twice")->n_devices, 1);
  tni_registry_destroy(r);
}

/* Constructors run at the first load of a process only, so this one is asked once. */
static void test_fastmath(void) {
  const char *const dirs[] = {dir.path};
  tni_registry *r = NULL;
  tn_error err = {0};
  uint64_t mode = tni_fpmode_get();
  install("fastmath");
  tn_status st = make("plugins: [fastmath]", dirs, 1, false, &r, &err);
  expect("fastmath", st == TN_E_INTERNAL && strstr(err.message, "loading it changes the floating-point mode"), "load",
         st, &err);
  CU_ASSERT_EQUAL(tni_fpmode_get(), mode);
  tni_registry_destroy(r);
}

static void put(const char *name, const void *data, size_t n) {
  char file[128];
  snprintf(file, sizeof file, "%s.so", name);
  CU_ASSERT_FATAL(plugdir_write(&dir, file, data, n, 0755));
  CU_ASSERT_FATAL(plugdir_manifest(&dir, name, NULL));
}

/* The build may leave a run path to the library, so its name is changed where the plugin asks for it. */
static void test_missing_library(void) {
  static const char name[] = "libtenon-test-helper.so";
  size_t n;
  char *so = plugdir_read(lib_path("missing"), &n);
  CU_ASSERT_PTR_NOT_NULL_FATAL(so);
  put("missing", so, n);
  const char *const dirs[] = {dir.path};
  tni_registry *r = NULL;
  tn_error err = {0};
  tn_status st = make("plugins: [missing]", dirs, 1, false, &r, &err);
  expect("missing", st == TN_OK, "with its library", st, &err);
  tni_registry_destroy(r);
  char *at = memmem(so, n, name, sizeof name);
  CU_ASSERT_PTR_NOT_NULL_FATAL(at);
  at[3] = 'X';
  put("missing2", so, n);
  free(so);
  refused("missing2", TN_E_UNAVAILABLE, "libXenon-test-helper.so: cannot open shared object file", false);
}

static void test_files(void) {
  static const char text[] = "#!/bin/sh\necho this is no shared object, whatever its name says, and not a short one\n";
  put("text-file", text, sizeof text - 1);
  refused("text-file", TN_E_INCOMPATIBLE, "is no shared object (no ELF header)", false);
  put("empty-file", "", 0);
  refused("empty-file", TN_E_INCOMPATIBLE, "is no shared object", false);

  size_t n;
  unsigned char *so = plugdir_read(lib_path("none"), &n);
  CU_ASSERT_PTR_NOT_NULL_FATAL(so);
  Elf64_Ehdr *h = (Elf64_Ehdr *)(void *)so;
  uint16_t machine = h->e_machine;
  h->e_machine = machine == EM_X86_64 ? EM_AARCH64 : EM_X86_64;
  put("wrong-arch", so, n);
  refused("wrong-arch", TN_E_INCOMPATIBLE, machine == EM_X86_64 ? "is built for aarch64" : "is built for x86-64",
          false);
  h->e_machine = machine;
  h->e_ident[EI_CLASS] = ELFCLASS32;
  put("wrong-class", so, n);
  refused("wrong-class", TN_E_INCOMPATIBLE, "class 1", false);
  h->e_ident[EI_CLASS] = ELFCLASS64;
  h->e_type = ET_EXEC;
  put("program", so, n);
  refused("program", TN_E_INCOMPATIBLE, "but no shared object", false);
  h->e_type = ET_DYN;

  for (size_t cut = 1; cut < n; cut += n / 40 + 1) { /* mapped, not read: what is missing would fault */
    char file[64] = "cut.so";
    CU_ASSERT_FATAL(plugdir_write(&dir, file, so, cut, 0755) && plugdir_manifest(&dir, "cut", NULL));
    const char *const dirs[] = {dir.path};
    tni_registry *r = NULL;
    tn_error err = {0};
    tn_status st = make("plugins: [{name: cut, optional: true}]", dirs, 1, false, &r, &err);
    CU_ASSERT_EQUAL(st, TN_OK);
    if (r) CU_ASSERT(tni_registry_find(r, "host")->n_devices == 1);
    tni_registry_destroy(r);
  }
  size_t last = 0;
  for (uint32_t i = 0; i < h->e_phnum; i++) {
    const Elf64_Phdr *ph = (const Elf64_Phdr *)(const void *)(so + h->e_phoff) + i;
    if (ph->p_type == PT_LOAD) last = (size_t)(ph->p_offset + ph->p_filesz);
  }
  CU_ASSERT_FATAL(last > 1 && plugdir_write(&dir, "cut.so", so, last - 1, 0755));
  refused("cut", TN_E_INCOMPATIBLE, "is truncated", false);
  free(so);
}

static void test_trust(void) {
  char path[600], link[600];
  install("none");
  snprintf(path, sizeof path, "%s/none.so", dir.path);
  CU_ASSERT_EQUAL(chmod(path, 0777), 0);
  refused("none", TN_E_UNAVAILABLE, "the file is writable by others (mode 0777)", false);
  const char *const dirs[] = {dir.path};
  tni_registry *r = NULL;
  tn_error err = {0};
  CU_ASSERT_EQUAL(make("plugins: [none]", dirs, 1, true, &r, &err), TN_OK); /* allow_shared_writable */
  tni_registry_destroy(r);
  CU_ASSERT_EQUAL(chmod(path, 0755), 0);

  snprintf(path, sizeof path, "%s/none.yaml", dir.path);
  CU_ASSERT_EQUAL(chmod(path, 0664), 0);
  refused("none", TN_E_UNAVAILABLE, "the file is writable by others (mode 0664)", false);
  CU_ASSERT_EQUAL(chmod(path, 0644), 0);

  CU_ASSERT_EQUAL(chmod(dir.path, 0775), 0);
  refused("none", TN_E_UNAVAILABLE, "the folder is writable by others (mode 0775)", false);
  CU_ASSERT_EQUAL(chmod(dir.path, 01777), 0);
  refused("none", TN_E_UNAVAILABLE, "the folder is writable by others (mode 1777)", false);
  CU_ASSERT_EQUAL(chmod(dir.path, 0755), 0);

  snprintf(path, sizeof path, "%s/linked.so", dir.path);
  CU_ASSERT_EQUAL(symlink(lib_path("none"), path), 0);
  CU_ASSERT(plugdir_manifest(&dir, "linked", NULL));
  refused("linked", TN_E_UNAVAILABLE, "is a symbolic link", false);

  snprintf(link, sizeof link, "%s/pipe.so", dir.path);
  CU_ASSERT_EQUAL(mkfifo(link, 0644), 0);
  CU_ASSERT(plugdir_manifest(&dir, "pipe", NULL));
  refused("pipe", TN_E_UNAVAILABLE, "is not a regular file", false);

  if (geteuid() == 0) { /* only root can give files away */
    install("none");
    snprintf(path, sizeof path, "%s/none.so", dir.path);
    CU_ASSERT_EQUAL(chown(path, 12345, 12345), 0);
    refused("none", TN_E_UNAVAILABLE, "belongs to user 12345", false);
  }
}

static void test_manifest(void) {
  char path[600];
  install("none");
  snprintf(path, sizeof path, "%s/none.yaml", dir.path);
  unlink(path);
  refused("none", TN_E_UNAVAILABLE, "has no manifest beside it", false);
  CU_ASSERT(
      plugdir_manifest(&dir, "none", "sha256: 00000000000000000000000000000000000000000000000000000000000000ff\n"));
  refused("none", TN_E_CORRUPT, "the manifest says 00000000", false);
  CU_ASSERT(plugdir_manifest(&dir, "none", "cpuu: [avx2]\n"));
  refused("none", TN_E_INCOMPATIBLE, "did you mean 'cpu'?", false);
  CU_ASSERT(plugdir_manifest(&dir, "only-manifest", NULL));
  refused("only-manifest", TN_E_UNAVAILABLE, "cannot be opened: No such file", false);
  refused("nowhere", TN_E_UNAVAILABLE, "is in none of the plugin folders", false);
}

static void test_folders(void) {
  tni_registry *r = NULL;
  tn_error err = {0};
  const char *const relative[] = {"plugins"};
  CU_ASSERT_EQUAL(make("{}", relative, 1, false, &r, &err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "absolute path"));
  /* The first folder that has the plugin decides, even if it is refused there. */
  plugdir good;
  CU_ASSERT_FATAL(plugdir_create(&good));
  install("none");
  CU_ASSERT(plugdir_copy(&good, lib_path("none"), "none.so") && plugdir_manifest(&good, "none", NULL));
  CU_ASSERT(plugdir_write(&dir, "none.so", "x", 1, 0755));
  const char *const two[] = {"/nonexistent", dir.path, good.path}, *const other[] = {good.path, dir.path};
  tni_error_init(&err);
  CU_ASSERT_EQUAL(make("plugins: [none]", two, 3, false, &r, &err), TN_E_INCOMPATIBLE);
  CU_ASSERT_PTR_NULL(r);
  tni_error_init(&err);
  CU_ASSERT_EQUAL(make("plugins: [none]", other, 2, false, &r, &err), TN_OK);
  tni_registry_destroy(r);
  plugdir_remove(&good);
}

/* Everything broken at once in one folder, as `tenon plugins` sees it. */
static void test_scan(void) {
  const char *const dirs[] = {dir.path};
  for (size_t i = 0; i < sizeof contract / sizeof *contract; i++) install(contract[i].name);
  install("none");
  CU_ASSERT(plugdir_write(&dir, "Not A Name.so", "x", 1, 0644));
  tni_registry *r = NULL;
  tn_error err = {0};
  CU_ASSERT_EQUAL_FATAL(make("{}", dirs, 1, false, &r, &err), TN_OK);
  CU_ASSERT_EQUAL(tni_registry_count(r), 1);
  CU_ASSERT_EQUAL(tni_registry_scan(r, &err), TN_OK);
  CU_ASSERT(tni_registry_count(r) > sizeof contract / sizeof *contract);
  CU_ASSERT(tni_registry_get(r, 0)->builtin);
  for (uint32_t i = 2; i < tni_registry_count(r); i++)
    CU_ASSERT(strcmp(tni_registry_get(r, i - 1)->name, tni_registry_get(r, i)->name) < 0);
  for (size_t i = 0; i < sizeof contract / sizeof *contract; i++) {
    const tni_plugin_info *p = tni_registry_find(r, contract[i].name);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    CU_ASSERT_EQUAL(p->why.code, contract[i].status);
    CU_ASSERT_TRUE(p->optional);
  }
  CU_ASSERT_EQUAL(tni_registry_find(r, "none")->n_devices, 1);
  CU_ASSERT_PTR_NULL(tni_registry_get(r, tni_registry_count(r)));
  uint32_t before = tni_registry_count(r);
  CU_ASSERT_EQUAL(tni_registry_scan(r, &err), TN_OK); /* again: nothing new */
  CU_ASSERT_EQUAL(tni_registry_count(r), before);
  tni_registry_destroy(r);
}

int main(void) {
  static const struct {
    const char *name;
    CU_TestFunc fn;
  } tests[] = {{"control", test_control},
               {"contract", test_contract},
               {"device twice", test_twice},
               {"fast-math", test_fastmath},
               {"missing library", test_missing_library},
               {"files", test_files},
               {"trust", test_trust},
               {"manifest", test_manifest},
               {"folders", test_folders},
               {"scan", test_scan}};
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) { /* a suite each: its own folder */
    CU_pSuite s = CU_add_suite(tests[i].name, setup, teardown);
    if (!s || !CU_add_test(s, tests[i].name, tests[i].fn)) return 1;
  }
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  int failed = CU_get_number_of_failures() != 0 || CU_get_number_of_suites_failed() != 0;
  CU_cleanup_registry();
  return failed;
}
