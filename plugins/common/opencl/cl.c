/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/opencl/cl.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "plugins/common/base/base.h"

/* NULL, or the name of a function that the library lacks. */
static const char *bind_functions(void *lib, tni_cl_api *a) {
#define X(f)                                     \
  *(void **)(void *)&a->f = dlsym(lib, "cl" #f); \
  if (!a->f) return "cl" #f;
  TNI_CL_FUNCTIONS(X)
#undef X
#define X(f) *(void **)(void *)&a->f = dlsym(lib, "cl" #f);
  TNI_CL_OPTIONAL(X)
#undef X
  return NULL;
}

/* What does not fit is cut off. */
static void add_reason(char *text, size_t size, const char *name, const char *why) {
  const size_t n = strlen(text);
  if (n + 1 < size && snprintf(text + n, size - n, "%s%s: %s", n ? "; " : "", name, why) < 0) text[n] = 0;
}

static bool try_library(const char *name, tni_cl_api *out, char *reasons, size_t size) {
  void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!lib) {
    const char *why = dlerror();
    add_reason(reasons, size, name, why ? why : "cannot be opened");
    return false;
  }
  tni_cl_api a = {.lib = lib};
  const char *missing = bind_functions(lib, &a);
  if (missing) {
    add_reason(reasons, size, name, "lacks");
    add_reason(reasons, size, "function", missing);
    dlclose(lib);
    return false;
  }
  snprintf(a.path, sizeof a.path, "%s", name);
  *out = a;
  return true;
}

tn_status tni_cl_open(const char *list, tni_cl_api *out, tn_error *err) {
  char reasons[224] = "", name[256];
  while (list && *list) {
    const char *end = strchrnul(list, ':');
    size_t n = (size_t)(end - list);
    if (n > 0 && n < sizeof name) {
      memcpy(name, list, n);
      name[n] = 0;
      if (try_library(name, out, reasons, sizeof reasons)) return TN_OK;
    }
    list = *end ? end + 1 : end;
  }
  return tni_cm_fail(err, TN_E_UNAVAILABLE, "libraries", "no OpenCL driver: %s", *reasons ? reasons : "empty list");
}

/* Drivers leave threads and exit handlers behind; unmapping their code has crashed in every engine that tried. */
void tni_cl_close(tni_cl_api *api) { memset(api, 0, sizeof *api); }

const char *tni_cl_error(cl_int code, char buf[32]) {
  static const struct {
    cl_int code;
    const char *name;
  } names[] = {{CL_DEVICE_NOT_FOUND, "CL_DEVICE_NOT_FOUND"},
               {CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE"},
               {CL_COMPILER_NOT_AVAILABLE, "CL_COMPILER_NOT_AVAILABLE"},
               {CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
               {CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES"},
               {CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY"},
               {CL_IMAGE_FORMAT_NOT_SUPPORTED, "CL_IMAGE_FORMAT_NOT_SUPPORTED"},
               {CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE"},
               {CL_MAP_FAILURE, "CL_MAP_FAILURE"},
               {CL_INVALID_VALUE, "CL_INVALID_VALUE"},
               {CL_INVALID_DEVICE, "CL_INVALID_DEVICE"},
               {CL_INVALID_CONTEXT, "CL_INVALID_CONTEXT"},
               {CL_INVALID_QUEUE_PROPERTIES, "CL_INVALID_QUEUE_PROPERTIES"},
               {CL_INVALID_COMMAND_QUEUE, "CL_INVALID_COMMAND_QUEUE"},
               {CL_INVALID_MEM_OBJECT, "CL_INVALID_MEM_OBJECT"},
               {CL_INVALID_BINARY, "CL_INVALID_BINARY"},
               {CL_INVALID_BUILD_OPTIONS, "CL_INVALID_BUILD_OPTIONS"},
               {CL_INVALID_PROGRAM_EXECUTABLE, "CL_INVALID_PROGRAM_EXECUTABLE"},
               {CL_INVALID_KERNEL_NAME, "CL_INVALID_KERNEL_NAME"},
               {CL_INVALID_KERNEL_ARGS, "CL_INVALID_KERNEL_ARGS"},
               {CL_INVALID_ARG_INDEX, "CL_INVALID_ARG_INDEX"},
               {CL_INVALID_ARG_SIZE, "CL_INVALID_ARG_SIZE"},
               {CL_INVALID_WORK_GROUP_SIZE, "CL_INVALID_WORK_GROUP_SIZE"},
               {CL_INVALID_OPERATION, "CL_INVALID_OPERATION"},
               {CL_INVALID_BUFFER_SIZE, "CL_INVALID_BUFFER_SIZE"},
               {CL_INVALID_IMAGE_SIZE, "CL_INVALID_IMAGE_SIZE"},
               {CL_INVALID_PROPERTY, "CL_INVALID_PROPERTY"},
               {CL_PLATFORM_NOT_FOUND_KHR, "CL_PLATFORM_NOT_FOUND_KHR"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].code == code) return names[i].name;
  snprintf(buf, 32, "error %d", code);
  return buf;
}

tn_status tni_cl_status(cl_int code) {
  switch (code) {
    case CL_SUCCESS:
      return TN_OK;
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_INVALID_BUFFER_SIZE:
      return TN_E_NO_MEMORY;
    case CL_DEVICE_NOT_FOUND:
    case CL_COMPILER_NOT_AVAILABLE:
    case CL_PLATFORM_NOT_FOUND_KHR:
      return TN_E_UNAVAILABLE;
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_OUT_OF_RESOURCES:
    case CL_INVALID_COMMAND_QUEUE:
    case CL_INVALID_CONTEXT:
      return TN_E_DEVICE_LOST;
    default:
      return TN_E_INTERNAL;
  }
}

tn_status tni_cl_fail(tn_error *err, cl_int code, const char *where, const char *call) {
  char buf[32];
  tn_status st = tni_cl_status(code);
  if (err && TN_HAS(err, tn_error, vendor_code)) err->vendor_code = code;
  return tni_cm_fail(err, st, where, "%s: %s", call, tni_cl_error(code, buf));
}
