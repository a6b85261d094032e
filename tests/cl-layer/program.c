/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs and kernels: who builds from source, who from a binary, and builds that fail or take the process with them.
 */
#include <stdlib.h>
#include <string.h>

#include "layer.h"

static const char build_log[] = "layer: this build is to fail";

/* Programs that were made from a binary, or whose build was made to fail, and what kernels their source has. */
typedef struct made {
  struct made *next;
  cl_program program;
  bool binary, failed;
  char *source;
} made;

static made *programs; /* under L.lock; entries live until the process ends */

static made *find(cl_program p) {
  made *m = programs;
  while (m && m->program != p) m = m->next;
  return m;
}

static void remember(cl_program p, bool binary, char *source) {
  pthread_mutex_lock(&L.lock);
  made *m = find(p); /* a handle may come again */
  if (!m) {
    m = calloc(1, sizeof *m);
    if (!m) abort();
    m->next = programs;
    programs = m;
  }
  free(m->source);
  m->program = p;
  m->binary = binary;
  m->failed = false;
  m->source = source;
  pthread_mutex_unlock(&L.lock);
  COUNT(programs, 1);
}

static char *join(cl_uint n, const char **strings, const size_t *lengths) {
  size_t bytes = 1;
  for (cl_uint i = 0; i < n; i++) bytes += lengths && lengths[i] ? lengths[i] : strlen(strings[i]);
  char *all = malloc(bytes), *at = all;
  if (!all) abort();
  for (cl_uint i = 0; i < n; i++) {
    size_t len = lengths && lengths[i] ? lengths[i] : strlen(strings[i]);
    memcpy(at, strings[i], len);
    at += len;
  }
  *at = 0;
  return all;
}

static cl_program CL_API_CALL with_source(cl_context c, cl_uint n, const char **strings, const size_t *lengths,
                                          cl_int *err) {
  cl_program p = layer_lost() ? NULL : L.next.clCreateProgramWithSource(c, n, strings, lengths, err);
  if (p)
    remember(p, false, join(n, strings, lengths));
  else if (err && layer_lost())
    *err = LAYER_LOST;
  return p;
}

static cl_program CL_API_CALL with_binary(cl_context c, cl_uint n, const cl_device_id *devices, const size_t *lengths,
                                          const unsigned char **binaries, cl_int *status, cl_int *err) {
  cl_program p = layer_lost() ? NULL : L.next.clCreateProgramWithBinary(c, n, devices, lengths, binaries, status, err);
  if (p)
    remember(p, true, NULL);
  else if (err && layer_lost())
    *err = LAYER_LOST;
  return p;
}

typedef void(CL_CALLBACK *built_fn)(cl_program, void *);

static cl_int CL_API_CALL build(cl_program p, cl_uint n, const cl_device_id *devices, const char *options,
                                built_fn done, void *user) {
  if (layer_lost()) return LAYER_LOST;
  uint64_t nth = atomic_fetch_add(&L.builds, 1) + 1;
  pthread_mutex_lock(&L.lock);
  made *m = find(p);
  bool binary = m && m->binary, fails = !binary && layer_is(&L.set.fail_build, nth, m ? m->source : NULL);
  bool crashes = !binary && layer_is(&L.set.crash_build, nth, m ? m->source : NULL);
  if (m) m->failed = fails;
  pthread_mutex_unlock(&L.lock);
  if (binary)
    COUNT(binary_builds, 1);
  else
    COUNT(source_builds, 1);
  if (crashes) {
    layer_at_exit();
    abort();
  }
  cl_int st = fails ? CL_BUILD_PROGRAM_FAILURE : L.next.clBuildProgram(p, n, devices, options, done, user);
  if (st != CL_SUCCESS) COUNT(builds_failed, 1);
  return st;
}

static cl_int CL_API_CALL build_info(cl_program p, cl_device_id d, cl_program_build_info what, size_t size, void *value,
                                     size_t *ret) {
  pthread_mutex_lock(&L.lock);
  made *m = find(p);
  bool failed = m && m->failed;
  pthread_mutex_unlock(&L.lock);
  if (!failed || what != CL_PROGRAM_BUILD_LOG) return L.next.clGetProgramBuildInfo(p, d, what, size, value, ret);
  if (value && size < sizeof build_log) return CL_INVALID_VALUE;
  if (value) memcpy(value, build_log, sizeof build_log);
  if (ret) *ret = sizeof build_log;
  return CL_SUCCESS;
}

static cl_kernel CL_API_CALL create_kernel(cl_program p, const char *name, cl_int *err) {
  cl_kernel k = layer_lost() ? NULL : L.next.clCreateKernel(p, name, err);
  if (k)
    COUNT(kernels, 1);
  else if (err && layer_lost())
    *err = LAYER_LOST;
  return k;
}

static cl_int CL_API_CALL set_arg(cl_kernel k, cl_uint i, size_t n, const void *value) {
  if (layer_lost()) return LAYER_LOST;
  COUNT(args_set, 1);
  return L.next.clSetKernelArg(k, i, n, value);
}

static cl_int CL_API_CALL group_info(cl_kernel k, cl_device_id d, cl_kernel_work_group_info what, size_t size,
                                     void *value, size_t *ret) {
  cl_int st = L.next.clGetKernelWorkGroupInfo(k, d, what, size, value, ret);
  if (st == CL_SUCCESS && what == CL_KERNEL_WORK_GROUP_SIZE && value && L.set.as.max_group &&
      *(size_t *)value > L.set.as.max_group)
    *(size_t *)value = L.set.as.max_group;
  return st;
}

void layer_hook_program(cl_icd_dispatch *t) {
  t->clCreateProgramWithSource = with_source;
  t->clCreateProgramWithBinary = with_binary;
  t->clBuildProgram = build;
  t->clGetProgramBuildInfo = build_info;
  t->clCreateKernel = create_kernel;
  t->clSetKernelArg = set_arg;
  t->clGetKernelWorkGroupInfo = group_info;
}
