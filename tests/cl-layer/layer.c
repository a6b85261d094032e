/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ICD loader calls.
 */
#include "layer.h"

#include <stdlib.h>
#include <string.h>

layer_state L = {.lock = PTHREAD_MUTEX_INITIALIZER};

#define EXPORT __attribute__((visibility("default")))

EXPORT cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t size, void *value, size_t *ret) {
  static const char name[] = "tenon test layer";
  cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  const void *from = what == CL_LAYER_API_VERSION ? (const void *)&version : name;
  size_t n = what == CL_LAYER_API_VERSION ? sizeof version : sizeof name;
  if (what != CL_LAYER_API_VERSION && what != CL_LAYER_NAME) return CL_INVALID_VALUE;
  if (value && size < n) return CL_INVALID_VALUE;
  if (value) memcpy(value, from, n);
  if (ret) *ret = n;
  return CL_SUCCESS;
}

EXPORT cl_int CL_API_CALL clInitLayer(cl_uint n, const cl_icd_dispatch *next, cl_uint *n_ret,
                                      const cl_icd_dispatch **mine) {
  if (!next || !n_ret || !mine || n < sizeof(cl_icd_dispatch) / sizeof(void *)) return CL_INVALID_VALUE;
  const char *words = getenv("TENON_CL_LAYER");
  L.next = L.mine = *next;
  layer_configure(words ? words : "as=plain");
  layer_hook_info(&L.mine);
  layer_hook_memory(&L.mine);
  layer_hook_map(&L.mine);
  layer_hook_program(&L.mine);
  layer_hook_queue(&L.mine);
  if (L.set.log[0]) L.log = layer_open(L.set.log);
  atexit(layer_at_exit);
  *n_ret = sizeof L.mine / sizeof(void *);
  *mine = &L.mine;
  return CL_SUCCESS;
}

/* For tests in the same process, by dlsym: the value of a counter, UINT64_MAX for a name that there is not. */
EXPORT uint64_t tenon_cl_layer_counter(const char *name);
uint64_t tenon_cl_layer_counter(const char *name) {
#define FIND(field) \
  if (!strcmp(name, #field)) return atomic_load(&L.count.field);
  TN_LAYER_COUNTERS(FIND)
#undef FIND
  return UINT64_MAX;
}

/* For tests in the same process, with nothing of OpenCL open: the accidents of `words` instead of what was set before, on a
 * device that is whole again; objects, kernels and builds are counted from 1. */
EXPORT void tenon_cl_layer_again(const char *words);
void tenon_cl_layer_again(const char *words) {
  layer_settings *s = &L.set;
  s->fail_alloc = s->fail_alloc_from = s->lose = s->lose_event = 0;
  s->fail_build = s->crash_build = (layer_which){0};
  s->wrong[0] = s->wrong_optimized[0] = '\0';
  s->late = false;
  atomic_store(&L.count.objects, 0);
  atomic_store(&L.count.kernels_run, 0);
  atomic_store(&L.builds, 0);
  atomic_store(&L.lost, false);
  atomic_store(&L.spoilt, false);
  layer_configure(words);
}
