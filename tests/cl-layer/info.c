/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device and its platform say of themselves; contexts and queues, whose properties depend on it.
 */
#include <stdlib.h>
#include <string.h>

#include "layer.h"

#define QCOM_PRIORITY_HINT 0x40C9 /* cl_qcom_priority_hint: context property; values 0x40CA high .. 0x40CC low */
#define QCOM_PERF_HINT 0x40C2     /* cl_qcom_perf_hint: values 0x40C3 .. 0x40C5 */

enum { MAX_EXTENSIONS = 8192 };

static cl_int answer(const void *data, size_t n, size_t size, void *value, size_t *ret) {
  if (value && size < n) return CL_INVALID_VALUE;
  if (value) memcpy(value, data, n);
  if (ret) *ret = n;
  return CL_SUCCESS;
}

static cl_int answer_text(const char *t, size_t size, void *value, size_t *ret) {
  return answer(t, strlen(t) + 1, size, value, ret);
}

static bool has_word(const char *list, const char *word, size_t n) {
  for (const char *at = list; (at = strstr(at, word)); at += n)
    if ((at == list || at[-1] == ' ' || at[-1] == ',') && (at[n] == ' ' || at[n] == ',' || !at[n])) return true;
  return false;
}

static bool starts(const char *word, const char *with) { return !strncmp(word, with, strlen(with)); }

static bool hidden(const char *word) {
  const layer_settings *s = &L.set;
  if (s->no_fp16 && !strcmp(word, "cl_khr_fp16")) return true;
  if (s->no_subgroups && (starts(word, "cl_khr_subgroup") || strstr(word, "sub_group") || strstr(word, "intel_sub")))
    return true;
  if (s->no_images && strstr(word, "image")) return true;
  if (s->no_priority && strstr(word, "priority_hint")) return true;
  return s->hide[0] && has_word(s->hide, word, strlen(word));
}

/* Whether the driver can do what the name promises; vendors' own ones are played here. */
static bool backed(const char *word, const char *real) {
  /* Intel's driver has sub-groups as OpenCL 2.1 has them and names only its own extension. */
  if (!strcmp(word, "cl_khr_subgroups") && has_word(real, "cl_intel_subgroups", 18)) return true;
  return !starts(word, "cl_khr_") || !strcmp(word, "cl_khr_priority_hints") || has_word(real, word, strlen(word));
}

static cl_int extensions(cl_device_id d, char *out) {
  static const char none[] = "";
  char real[MAX_EXTENSIONS], all[MAX_EXTENSIONS], *save = NULL;
  cl_int st = L.next.clGetDeviceInfo(d, CL_DEVICE_EXTENSIONS, sizeof real, real, NULL);
  if (st != CL_SUCCESS) return st;
  const char *wanted = L.set.as.extensions ? L.set.as.extensions : real;
  snprintf(all, sizeof all, "%s", wanted ? wanted : none);
  *out = 0;
  for (char *w = strtok_r(all, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
    if (hidden(w) || !backed(w, real)) continue;
    if (*out) strcat(out, " ");
    strcat(out, w);
  }
  return CL_SUCCESS;
}

static bool advertises(cl_device_id d, const char *word) {
  char list[MAX_EXTENSIONS];
  return extensions(d, list) == CL_SUCCESS && has_word(list, word, strlen(word));
}

static const char *device_text(cl_device_info what) {
  const layer_profile *p = &L.set.as;
  switch (what) {
    case CL_DEVICE_NAME:
      return p->device;
    case CL_DEVICE_VENDOR:
      return p->vendor;
    case CL_DEVICE_VERSION:
      return p->version;
    case CL_DRIVER_VERSION:
      return p->driver;
    case CL_DEVICE_OPENCL_C_VERSION:
      return p->c_version;
    default:
      return NULL;
  }
}

/* Numbers of 4 and 8 bytes; false where the driver is to be asked. */
static bool device_number(cl_device_info what, uint64_t *v, size_t *bytes) {
  const layer_settings *s = &L.set;
  const layer_profile *p = &s->as;
  const struct {
    cl_device_info what;
    bool use;
    uint64_t value;
    size_t bytes;
  } table[] = {
      {CL_DEVICE_VENDOR_ID, p->vendor_id != 0, p->vendor_id, 4},
      {CL_DEVICE_MEM_BASE_ADDR_ALIGN, p->align != 0, p->align * 8, 4},
      {CL_DEVICE_MAX_MEM_ALLOC_SIZE, p->max_alloc != 0, p->max_alloc, 8},
      {CL_DEVICE_MAX_WORK_GROUP_SIZE, p->max_group != 0, p->max_group, sizeof(size_t)},
      {CL_DEVICE_IMAGE_PITCH_ALIGNMENT, p->pitch != 0 && !s->no_images, p->pitch, 4},
      {CL_DEVICE_IMAGE_PITCH_ALIGNMENT, s->no_images, 0, 4},
      {CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT, s->no_images, 0, 4},
      {CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT, p->pitch != 0, p->pitch, 4},
      {CL_DEVICE_IMAGE_SUPPORT, s->no_images, CL_FALSE, 4},
      {CL_DEVICE_LOCAL_MEM_TYPE, p->local_is_global, CL_GLOBAL, 4},
      {CL_DEVICE_LOCAL_MEM_TYPE, p->extensions && !p->local_is_global, CL_LOCAL, 4},
      {CL_DEVICE_LOCAL_MEM_SIZE, p->extensions != NULL, 32768, 8},
      {CL_DEVICE_HOST_UNIFIED_MEMORY, s->discrete || p->extensions, !s->discrete, 4},
      {CL_DEVICE_TYPE, p->extensions != NULL, CL_DEVICE_TYPE_GPU, 8},
      {CL_DEVICE_HALF_FP_CONFIG, s->no_fp16, 0, 8},
      {CL_DEVICE_PREFERRED_VECTOR_WIDTH_HALF, s->no_fp16, 0, 4},
      {CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF, s->no_fp16, 0, 4},
      {CL_DEVICE_MAX_NUM_SUB_GROUPS, s->no_subgroups, 0, 4},
      {CL_DEVICE_SVM_CAPABILITIES, s->discrete || p->extensions, 0, 8},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (table[i].what == what && table[i].use) {
      *v = table[i].value;
      *bytes = table[i].bytes;
      return true;
    }
  return false;
}

static cl_int CL_API_CALL device_info(cl_device_id d, cl_device_info what, size_t size, void *value, size_t *ret) {
  uint64_t v;
  size_t bytes;
  const char *t = device_text(what);
  if (t) return answer_text(t, size, value, ret);
  if (device_number(what, &v, &bytes)) return answer(&v, bytes, size, value, ret); /* little endian */
  if (what == CL_DEVICE_EXTENSIONS) {
    char list[MAX_EXTENSIONS];
    cl_int st = extensions(d, list);
    return st == CL_SUCCESS ? answer_text(list, size, value, ret) : st;
  }
  return L.next.clGetDeviceInfo(d, what, size, value, ret);
}

/* The platform lists every extension that the driver has, as drivers do: a program has to ask the device. */
static cl_int CL_API_CALL platform_info(cl_platform_id p, cl_platform_info what, size_t size, void *value,
                                        size_t *ret) {
  const layer_profile *as = &L.set.as;
  const char *t = what == CL_PLATFORM_NAME      ? as->platform
                  : what == CL_PLATFORM_VENDOR  ? as->platform_vendor
                  : what == CL_PLATFORM_VERSION ? as->platform_version
                                                : NULL;
  if (t) return answer_text(t, size, value, ret);
  if (what != CL_PLATFORM_EXTENSIONS || !as->extensions) return L.next.clGetPlatformInfo(p, what, size, value, ret);
  return answer_text("cl_khr_icd cl_khr_fp16 cl_khr_priority_hints cl_qcom_priority_hint cl_arm_import_memory", size,
                     value, ret);
}

static cl_int CL_API_CALL device_ids(cl_platform_id p, cl_device_type type, cl_uint cap, cl_device_id *out,
                                     cl_uint *n) {
  if (L.set.no_devices) {
    if (n) *n = 0;
    return CL_DEVICE_NOT_FOUND;
  }
  /* The driver underneath is a CPU; what looks like a GPU has to be found as one. */
  if (L.set.as.extensions) {
    if (!(type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT)) && type != CL_DEVICE_TYPE_ALL) {
      if (n) *n = 0;
      return CL_DEVICE_NOT_FOUND;
    }
    type = CL_DEVICE_TYPE_ALL;
  }
  return L.next.clGetDeviceIDs(p, type, cap, out, n);
}

/* Copies properties (pairs, then 0) without those that are played here; CL_SUCCESS or the error a device without the
 * extension gives. */
static cl_int strip(cl_device_id d, const intptr_t *in, intptr_t *out, size_t cap) {
  size_t n = 0;
  for (; in && in[0]; in += 2) {
    const char *needs = in[0] == QCOM_PRIORITY_HINT      ? "cl_qcom_priority_hint"
                        : in[0] == QCOM_PERF_HINT        ? "cl_qcom_perf_hint"
                        : in[0] == CL_QUEUE_PRIORITY_KHR ? "cl_khr_priority_hints"
                                                         : NULL;
    if (!needs) {
      if (n + 3 > cap) return CL_INVALID_PROPERTY;
      out[n++] = in[0];
      out[n++] = in[1];
      continue;
    }
    bool range = in[0] == QCOM_PRIORITY_HINT ? in[1] >= 0x40CA && in[1] <= 0x40CC : true;
    if (!advertises(d, needs) || !range) {
      COUNT(priority_errors, 1);
      return CL_INVALID_PROPERTY;
    }
    COUNT(priority_hints, in[0] != QCOM_PERF_HINT);
  }
  out[n] = 0;
  return CL_SUCCESS;
}

typedef void(CL_CALLBACK *notify_fn)(const char *, const void *, size_t, void *);

static cl_context CL_API_CALL create_context(const cl_context_properties *props, cl_uint n, const cl_device_id *devices,
                                             notify_fn notify, void *user, cl_int *err) {
  intptr_t kept[64];
  cl_int st = n ? strip(devices[0], props, kept, 64) : CL_SUCCESS;
  if (layer_lost()) st = LAYER_LOST;
  if (st != CL_SUCCESS) {
    if (err) *err = st;
    return NULL;
  }
  COUNT(contexts, 1);
  return L.next.clCreateContext(props ? kept : NULL, n, devices, notify, user, err);
}

static cl_command_queue CL_API_CALL create_queue_with(cl_context c, cl_device_id d, const cl_queue_properties *props,
                                                      cl_int *err) {
  intptr_t kept[64];
  cl_int st = strip(d, (const intptr_t *)props, kept, 64);
  if (layer_lost()) st = LAYER_LOST;
  if (st != CL_SUCCESS) {
    if (err) *err = st == CL_INVALID_PROPERTY ? CL_INVALID_VALUE : st;
    return NULL;
  }
  return L.next.clCreateCommandQueueWithProperties(c, d, props ? (cl_queue_properties *)kept : NULL, err);
}

static void *CL_API_CALL extension_function(cl_platform_id p, const char *name) {
  if (L.set.as.import_arm && !strcmp(name, "clImportMemoryARM")) return (void *)(uintptr_t)layer_import;
  return L.next.clGetExtensionFunctionAddressForPlatform(p, name);
}

void layer_hook_info(cl_icd_dispatch *t) {
  t->clGetDeviceInfo = device_info;
  t->clGetPlatformInfo = platform_info;
  t->clGetDeviceIDs = device_ids;
  t->clCreateContext = create_context;
  t->clCreateCommandQueueWithProperties = create_queue_with;
  t->clGetExtensionFunctionAddressForPlatform = extension_function;
}
