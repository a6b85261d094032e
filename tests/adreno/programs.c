/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of OpenCL plugins, over a host whose cache is a list in memory: built once and then taken as binaries; a
 * build that failed, or that a process died in, is skipped at the next start; a kernel that computes something else
 * than C is found by its self-test and the next variant is taken; what the device lacks is a reason, not a crash.
 */
#include <CUnit/Basic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/opencl/clkern.h"
#include "plugins/opencl-adreno/variants.h"

enum { MAX_ENTRIES = 64 };
typedef struct entry {
  char *key, *data;
  uint64_t nkey, n;
} entry;
static entry cache[MAX_ENTRIES];
static uint32_t n_entries;

static void *host_alloc(tn_host_ctx *c, size_t n, size_t align, uint32_t tag) {
  (void)c, (void)tag;
  return aligned_alloc(align < 64 ? 64 : align, (n + 255) / 128 * 128);
}
static void host_free(tn_host_ctx *c, void *p) {
  (void)c;
  free(p);
}
static void host_log(tn_host_ctx *c, uint32_t level, const char *line) { (void)c, (void)level, (void)line; }

static tn_status get(tn_host_ctx *c, const void *key, uint64_t nkey, const void **data, uint64_t *n) {
  (void)c;
  for (uint32_t i = 0; i < n_entries; i++)
    if (cache[i].nkey == nkey && !memcmp(cache[i].key, key, nkey)) {
      *data = cache[i].data;
      *n = cache[i].n;
      return TN_OK;
    }
  return TN_E_UNAVAILABLE;
}

static tn_status put(tn_host_ctx *c, const void *key, uint64_t nkey, const void *data, uint64_t n) {
  const void *old;
  uint64_t n_old;
  entry *e = &cache[n_entries];
  (void)c;
  if (get(c, key, nkey, &old, &n_old) == TN_OK) {
    for (uint32_t i = 0; i < n_entries; i++)
      if (cache[i].data == old) e = &cache[i];
  } else if (n_entries++ == MAX_ENTRIES) {
    abort();
  }
  free(e->key);
  free(e->data);
  *e = (entry){memcpy(malloc(nkey), key, nkey), memcpy(malloc(n + 1), data, n), nkey, n};
  return TN_OK;
}

static void forget(void) {
  for (uint32_t i = 0; i < n_entries; i++) {
    free(cache[i].key);
    free(cache[i].data);
    cache[i] = (entry){0};
  }
  n_entries = 0;
}

static const tn_host host = {
    .h = TN_HDR(tn_host), .alloc = host_alloc, .free = host_free, .log = host_log, .cache_get = get, .cache_put = put};
static tni_cl_api api;
static tni_cl_info info;
static tni_cl_context context;
static tni_cm_mem memory = {.host = &host};

static tni_cl_kernels kernels_of(const tni_cl_variant *const *tables, const uint32_t *n) {
  return (tni_cl_kernels){.c = &context,
                          .host = &host,
                          .tables = tables,
                          .n = n,
                          .mem = {.host = &host},
                          .features = info.features,
                          .self_test = true};
}

static const tni_cl_shape gemv = {.kind = TNI_CLK_GEMV,
                                  .bits = 4,
                                  .n_operands = 4,
                                  .types = {TN_DT_F16, TN_DT_U8, TN_DT_U8, TN_DT_F16},
                                  .ints = {1, 131, 301, 256, 304, 132}};

/* --- tests ------------------------------------------------------------------------------------------------------- */

static void built_once(void) {
  const tni_cl_variant *const tables[2] = {tni_adreno_variants, tni_cl_floor};
  const uint32_t n[2] = {TNI_ADRENO_N_VARIANTS, tni_cl_n_floor};
  for (int start = 0; start < 2; start++) {
    tni_cl_kernels k = kernels_of(tables, n);
    tni_cl_program *p = NULL, *again = NULL;
    tn_error err = {.h = TN_HDR(tn_error)};
    CU_ASSERT_FATAL(tni_cl_kernel_for(&k, &gemv, &p, &err) == TN_OK);
    CU_ASSERT(tni_cl_kernel_for(&k, &gemv, &again, &err) == TN_OK && again == p);
    CU_ASSERT(k.source_builds == (start == 0) && k.binary_builds == (start == 1));
    tni_cl_kernels_finish(&k);
  }
  forget();
}

static void failed_build(void) {
  const uint32_t n[2] = {0, 0};
  const tni_cl_variant *const tables[2] = {NULL, NULL};
  for (int start = 0; start < 2; start++) {
    tni_cl_kernels k = kernels_of(tables, n);
    tni_cl_program *p = NULL;
    tn_error err = {.h = TN_HDR(tn_error)};
    CU_ASSERT(tni_cl_kernel_of_source(&k, "broken", "__kernel void broken() { no such thing; }", "", &p, &err) ==
              TN_E_UNAVAILABLE);
    CU_ASSERT(strstr(err.message, "broken") != NULL);
    CU_ASSERT(k.source_builds == (start == 0) && k.skipped == (start == 1));
    tni_cl_kernels_finish(&k);
  }
  forget();
}

/* What is left in the cache where the process ended during a build: nothing but "building", by a process that is gone.
 */
static void crashed_build(void) {
  const uint32_t n[2] = {0, 0};
  const tni_cl_variant *const tables[2] = {NULL, NULL};
  const char *source = "__kernel void fine(__global int *p) { p[0] = 1; }";
  tni_cl_program *p = NULL;
  tn_error err = {.h = TN_HDR(tn_error)};
  tni_cl_kernels k = kernels_of(tables, n);
  CU_ASSERT(tni_cl_kernel_of_source(&k, "fine", source, "", &p, &err) == TN_OK);
  tni_cl_kernels_finish(&k);
  bool found = false;
  for (uint32_t i = 0; i < n_entries; i++) {
    if (strcmp(cache[i].key, "state")) continue;
    const uint32_t building[2] = {1, 0x7ffffff0}; /* the first is what, the second a process */
    memcpy(cache[i].data, building, sizeof building);
    found = true;
  }
  CU_ASSERT(found);
  k = kernels_of(tables, n);
  CU_ASSERT(tni_cl_kernel_of_source(&k, "fine", source, "", &p, &err) == TN_E_UNAVAILABLE);
  CU_ASSERT(k.source_builds == 0 && k.binary_builds == 0 && k.skipped == 1 && strstr(err.message, "crashed"));
  tni_cl_kernels_finish(&k);
  forget();
}

/* The plugin's own kernel with one constant changed. */
static void wrong_kernel(void) {
  tni_cl_variant broken = tni_adreno_variants[1];
  char *source = strdup(broken.source);
  CU_ASSERT_FATAL(source != NULL);
  char *at = strstr(source, "WAVES * 128");
  CU_ASSERT_FATAL(at != NULL);
  memcpy(at, "WAVES * 256", 11); /* leaves groups of K out */
  broken.source = source;
  const tni_cl_variant *const tables[2] = {&broken, tni_cl_floor};
  const uint32_t n[2] = {1, tni_cl_n_floor};
  for (int start = 0; start < 2; start++) {
    tni_cl_kernels k = kernels_of(tables, n);
    tni_cl_program *p = NULL;
    tn_error err = {.h = TN_HDR(tn_error)};
    CU_ASSERT_FATAL(tni_cl_kernel_for(&k, &gemv, &p, &err) == TN_OK);
    CU_ASSERT(!strcmp(p->name, "gemv")); /* the floor's */
    CU_ASSERT(k.skipped == (start == 1));
    tni_cl_kernels_finish(&k);
  }
  forget();
  free(source);
}

static void lacking_features(void) {
  tni_cl_variant v = tni_adreno_variants[0];
  v.needs = UINT32_C(1) << 31;
  const tni_cl_variant *const tables[2] = {&v, NULL};
  const uint32_t n[2] = {1, 0};
  tni_cl_kernels k = kernels_of(tables, n);
  tni_cl_program *p = NULL;
  tn_error err = {.h = TN_HDR(tn_error)};
  CU_ASSERT(tni_cl_kernel_for(&k, &gemv, &p, &err) == TN_E_UNAVAILABLE);
  CU_ASSERT(strstr(err.message, "lacks") != NULL);
  tni_cl_kernels_finish(&k);
}

static void no_driver(void) {
  tni_cl_api none;
  tn_error err = {.h = TN_HDR(tn_error)};
  CU_ASSERT(tni_cl_open("libno-such-driver.so:/nowhere/libOpenCL.so", &none, &err) == TN_E_UNAVAILABLE);
  CU_ASSERT(strstr(err.message, "libno-such-driver.so") != NULL);
  err = (tn_error){.h = TN_HDR(tn_error)};
  CU_ASSERT(tni_cl_open("", &none, &err) == TN_E_UNAVAILABLE);
  err = (tn_error){.h = TN_HDR(tn_error)};
  CU_ASSERT(tni_cl_open("libm.so.6", &none, &err) == TN_E_UNAVAILABLE && strstr(err.message, "clGet") != NULL);
}

static void refused_memory(void) {
  tn_device d = {.h = TN_HDR(tn_device)};
  tn_buffer *b = NULL;
  tn_error err = {.h = TN_HDR(tn_error)};
  tn_buffer_req req = {.h = TN_HDR(tn_buffer_req), .bytes = info.max_alloc + 1, .fd = -1};
  CU_ASSERT(tni_cl_create(&d, &context, &req, &b, &err) == TN_E_NO_MEMORY && strstr(err.message, "at most"));
  void *p = NULL;
  req.bytes = 0; /* what a value of no elements takes */
  CU_ASSERT_FATAL(tni_cl_create(&d, &context, &req, &b, &err) == TN_OK);
  CU_ASSERT(tni_cl_map(b, 0, 1, TN_READ, &p, NULL) == TN_E_INVALID);
  CU_ASSERT_FATAL(tni_cl_map(b, 0, 0, TN_READ, &p, &err) == TN_OK);
  CU_ASSERT(tni_cl_unmap(b, p, &err) == TN_OK);
  tni_cl_destroy(b);
  req = (tn_buffer_req){
      .h = TN_HDR(tn_buffer_req), .bytes = 64, .kind = TN_MEM_HOST_PTR, .ptr = (char *)&req + 1, .fd = -1};
  CU_ASSERT(tni_cl_create(&d, &context, &req, &b, NULL) == TN_E_UNSUPPORTED);
  req = (tn_buffer_req){.h = TN_HDR(tn_buffer_req), .bytes = 4096, .flags = TN_BUF_ZERO, .fd = -1};
  CU_ASSERT_FATAL(tni_cl_create(&d, &context, &req, &b, &err) == TN_OK);
  CU_ASSERT(tni_cl_map(b, 4000, 97, TN_READ, &p, NULL) == TN_E_INVALID);
  CU_ASSERT_FATAL(tni_cl_map(b, 0, 4096, TN_READ | TN_WRITE, &p, &err) == TN_OK);
  int64_t sum = 0;
  for (int i = 0; i < 4096; i++) sum += ((unsigned char *)p)[i];
  CU_ASSERT(sum == 0);
  CU_ASSERT(tni_cl_unmap(b, p, &err) == TN_OK);
  tni_cl_destroy(b);
}

int main(void) {
  const tni_cl_wish wish = {.type = "any", .mask = UINT32_MAX};
  tn_error err = {.h = TN_HDR(tn_error)};
  tn_status st = tni_cl_open("libOpenCL.so.1", &api, &err);
  if (st == TN_OK) st = tni_cl_pick(&api, &wish, &memory, &info, &err);
  if (st == TN_OK) st = tni_cl_context_init(&context, &api, &info, &host, false, &err);
  if (st != TN_OK) {
    printf("skipped: %s\n", err.message);
    return 77;
  }
  CU_TestInfo tests[] = {{"built once", built_once},
                         {"failed build", failed_build},
                         {"crashed build", crashed_build},
                         {"wrong kernel", wrong_kernel},
                         {"lacking features", lacking_features},
                         {"no driver", no_driver},
                         {"refused memory", refused_memory},
                         CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"programs", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  if (CU_initialize_registry() != CUE_SUCCESS || CU_register_suites(suites) != CUE_SUCCESS) return 2;
  printf("%s\n", info.name);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failed = CU_get_number_of_failures(), ran = CU_get_number_of_tests_run();
  CU_cleanup_registry();
  tni_cl_context_finish(&context);
  tni_cm_free(&memory);
  return failed || !ran;
}
