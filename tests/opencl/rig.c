/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/opencl/rig.h"

#include <stdio.h>
#include <stdlib.h>

static void *host_alloc(tn_host_ctx *c, size_t n, size_t align, uint32_t tag) {
  (void)c, (void)tag;
  return aligned_alloc(align < 64 ? 64 : align, (n + 127) / 64 * 64);
}
static void host_free(tn_host_ctx *c, void *p) {
  (void)c;
  free(p);
}
static void host_log(tn_host_ctx *c, uint32_t level, const char *line) {
  (void)c;
  if (level <= TN_LOG_WARN) fprintf(stderr, "%s\n", line);
}
static tn_status no_get(tn_host_ctx *c, const void *k, uint64_t nk, const void **d, uint64_t *n) {
  (void)c, (void)k, (void)nk, (void)d, (void)n;
  return TN_E_UNAVAILABLE;
}
static tn_status no_put(tn_host_ctx *c, const void *k, uint64_t nk, const void *d, uint64_t n) {
  (void)c, (void)k, (void)nk, (void)d, (void)n;
  return TN_OK;
}

bool rig_open(rig *r, const char *library) {
  tn_error err = {.h = TN_HDR(tn_error)};
  *r = (rig){.host = {.h = TN_HDR(tn_host),
                      .max_workers = 1,
                      .alloc = host_alloc,
                      .free = host_free,
                      .log = host_log,
                      .cache_get = no_get,
                      .cache_put = no_put}};
  r->mem.host = &r->host;
  const tni_cl_wish wish = {.libraries = library, .type = "any", .name = "", .mask = ~0u};
  tn_status st = tni_cl_open(library, &r->api, &err);
  if (st == TN_OK) st = tni_cl_pick(&r->api, &wish, &r->mem, &r->info, &err);
  if (st == TN_OK) st = tni_cl_context_init(&r->context, &r->api, &r->info, &r->host, false, &err);
  if (st == TN_OK) return true;
  printf("no OpenCL device: %s\n", err.message);
  tni_cm_free(&r->mem);
  return false;
}

void rig_close(rig *r) {
  tni_cl_context_finish(&r->context);
  tni_cm_free(&r->mem);
}
