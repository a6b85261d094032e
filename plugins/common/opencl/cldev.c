/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/opencl/cldev.h"

#include <stdio.h>
#include <string.h>

/* Numbers of vendor extensions, from their texts in the Khronos registry. */
enum { CONTEXT_PRIORITY_HINT_QCOM = 0x40C9, PRIORITY_HINT_LOW_QCOM = 0x40CC };
enum { MAX_PLATFORMS = 16, MAX_DEVICES = 16 };

typedef struct picker {
  const tni_cl_api *api;
  const tni_cl_wish *wish;
  tni_cm_mem *mem;
} picker;

static void platform_text(const picker *p, cl_platform_id id, cl_platform_info what, char *out, size_t size) {
  memset(out, 0, size);
  if (p->api->GetPlatformInfo(id, what, size - 1, out, NULL) != CL_SUCCESS) out[0] = 0;
}

static void device_text(const picker *p, cl_device_id id, cl_device_info what, char *out, size_t size) {
  memset(out, 0, size);
  if (p->api->GetDeviceInfo(id, what, size - 1, out, NULL) != CL_SUCCESS) out[0] = 0;
}

/* Numbers of 4 or 8 bytes, whatever the size of the driver's type; 0 where it does not know. */
static uint64_t device_number(const picker *p, cl_device_id id, cl_device_info what) {
  uint64_t v = 0;
  size_t n = 0;
  if (p->api->GetDeviceInfo(id, what, sizeof v, &v, &n) != CL_SUCCESS) return 0;
  return n == 4 ? (uint32_t)v : v;
}

static bool read_extensions(const picker *p, tni_cl_info *i) {
  size_t n = 0;
  if (p->api->GetDeviceInfo(i->id, CL_DEVICE_EXTENSIONS, 0, NULL, &n) != CL_SUCCESS || n > 1 << 20) n = 0;
  char *e = tni_cm_new(p->mem, n + 4, 1);
  if (!e) return false;
  e[0] = ' ';
  if (n && p->api->GetDeviceInfo(i->id, CL_DEVICE_EXTENSIONS, n, e + 1, NULL) != CL_SUCCESS) e[1] = 0;
  size_t end = strlen(e);
  e[end] = ' ';
  e[end + 1] = 0;
  i->extensions = e;
  return true;
}

static bool has_cl_extension(const tni_cl_info *i, const char *extension) {
  size_t n = strlen(extension);
  for (const char *at = i->extensions; (at = strstr(at, extension)); at += n)
    if (at[-1] == ' ' && at[n] == ' ') return true;
  return false;
}

static uint32_t features_of(const picker *p, const tni_cl_info *i) {
  static const struct {
    const char *extension;
    uint32_t bit;
  } known[] = {{"cl_khr_fp16", TNI_CLF_FP16},
               {"cl_khr_subgroups", TNI_CLF_SUBGROUPS},
               {"cl_khr_subgroup_shuffle", TNI_CLF_SUBGROUP_SHUFFLE},
               {"cl_khr_integer_dot_product", TNI_CLF_INT_DOT},
               {"cl_khr_priority_hints", TNI_CLF_PRIORITY_KHR},
               {"cl_qcom_priority_hint", TNI_CLF_PRIORITY_QCOM},
               {"cl_qcom_reqd_sub_group_size", TNI_CLF_QCOM_SUBGROUP_SIZE},
               {"cl_arm_import_memory_host", TNI_CLF_ARM_IMPORT}};
  uint32_t f = 0;
  for (size_t k = 0; k < sizeof known / sizeof *known; k++)
    if (has_cl_extension(i, known[k].extension)) f |= known[k].bit;
  if (device_number(p, i->id, CL_DEVICE_IMAGE_SUPPORT)) f |= TNI_CLF_IMAGES;
  if ((f & TNI_CLF_IMAGES) && i->pitch_px && has_cl_extension(i, "cl_khr_image2d_from_buffer"))
    f |= TNI_CLF_IMAGE2D_BUF;
  if (device_number(p, i->id, CL_DEVICE_HOST_UNIFIED_MEMORY)) f |= TNI_CLF_UNIFIED;
  if (device_number(p, i->id, CL_DEVICE_LOCAL_MEM_TYPE) == CL_LOCAL) f |= TNI_CLF_LOCAL;
  return f & p->wish->mask;
}

uint64_t tni_cl_fnv(uint64_t h, const void *data, size_t n) {
  for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)data)[i]) * UINT64_C(0x100000001b3);
  return h;
}

/* Over the strings that compiled kernels depend on, their ends too, four lanes with different starts. */
static void make_key(tni_cl_info *i) {
  const char *parts[] = {i->name, i->driver, i->version, i->platform_version};
  for (uint32_t lane = 0; lane < 4; lane++) {
    uint64_t h = TNI_CL_FNV + lane * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) h = tni_cl_fnv(h, parts[p], strlen(parts[p]) + 1);
    memcpy(i->key + 8 * lane, &h, 8);
  }
}

static void read_limits(const picker *p, tni_cl_info *i) {
  cl_device_id id = i->id;
  i->base_align = (uint32_t)device_number(p, id, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8;
  i->pitch_px = (uint32_t)device_number(p, id, CL_DEVICE_IMAGE_PITCH_ALIGNMENT);
  i->base_px = (uint32_t)device_number(p, id, CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT);
  i->image2d_w = device_number(p, id, CL_DEVICE_IMAGE2D_MAX_WIDTH);
  i->image2d_h = device_number(p, id, CL_DEVICE_IMAGE2D_MAX_HEIGHT);
  i->image_buffer_px = device_number(p, id, CL_DEVICE_IMAGE_MAX_BUFFER_SIZE);
  i->max_alloc = device_number(p, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  i->global_bytes = device_number(p, id, CL_DEVICE_GLOBAL_MEM_SIZE);
  i->local_bytes = device_number(p, id, CL_DEVICE_LOCAL_MEM_SIZE);
  i->units = (uint32_t)device_number(p, id, CL_DEVICE_MAX_COMPUTE_UNITS);
  i->max_group = (uint32_t)device_number(p, id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
  if (i->base_align == 0 || (i->base_align & (i->base_align - 1))) i->base_align = 128;
}

static bool fill_device_info(const picker *p, cl_platform_id platform, cl_device_id id, tni_cl_info *i) {
  memset(i, 0, sizeof *i);
  i->platform = platform;
  i->id = id;
  i->type = device_number(p, id, CL_DEVICE_TYPE);
  device_text(p, id, CL_DEVICE_NAME, i->name, sizeof i->name);
  device_text(p, id, CL_DRIVER_VERSION, i->driver, sizeof i->driver);
  device_text(p, id, CL_DEVICE_VERSION, i->version, sizeof i->version);
  device_text(p, id, CL_DEVICE_OPENCL_C_VERSION, i->c_version, sizeof i->c_version);
  platform_text(p, platform, CL_PLATFORM_VERSION, i->platform_version, sizeof i->platform_version);
  if (sscanf(i->version, "OpenCL %u.%u", &i->cl_major, &i->cl_minor) != 2) i->cl_major = i->cl_minor = 0;
  read_limits(p, i);
  if (!read_extensions(p, i)) return false;
  i->features = features_of(p, i);
  make_key(i);
  return true;
}

/* The kinds that an option names, best first; 0 ends them. */
static void types_of(const char *text, cl_device_type types[4]) {
  const cl_device_type any[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_CPU, 0};
  memset(types, 0, 4 * sizeof *types);
  if (!strcmp(text, "any"))
    memcpy(types, any, sizeof any);
  else
    types[0] = !strcmp(text, "cpu")           ? CL_DEVICE_TYPE_CPU
               : !strcmp(text, "accelerator") ? CL_DEVICE_TYPE_ACCELERATOR
                                              : CL_DEVICE_TYPE_GPU;
}

/* NULL, or why this device will not do. */
static const char *why_unfit(const picker *p, const tni_cl_info *i) {
  if (p->wish->name && *p->wish->name && !strstr(i->name, p->wish->name)) return "another name than option device";
  if (i->cl_major * 10 + i->cl_minor < 12) return "older than OpenCL 1.2";
  if (!i->max_group || !i->max_alloc) return "the driver states no limits";
  return NULL;
}

static tn_status search_platforms(const picker *p, tni_cl_info *out, tn_error *err) {
  cl_platform_id platforms[MAX_PLATFORMS];
  cl_device_id devices[MAX_DEVICES];
  cl_device_type types[4];
  cl_uint np = 0, nd = 0, seen = 0;
  const char *why = "";
  cl_int code = p->api->GetPlatformIDs(MAX_PLATFORMS, platforms, &np);
  if (code != CL_SUCCESS || np == 0) {
    char buf[32];
    return tni_cm_fail(err, TN_E_UNAVAILABLE, p->api->path, "the driver has no platform (%s)",
                       code == CL_SUCCESS ? "none listed" : tni_cl_error(code, buf));
  }
  types_of(p->wish->type, types);
  for (const cl_device_type *t = types; *t; t++)
    for (cl_uint a = 0; a < np && a < MAX_PLATFORMS; a++) {
      if (p->api->GetDeviceIDs(platforms[a], *t, MAX_DEVICES, devices, &nd) != CL_SUCCESS) continue;
      for (cl_uint d = 0; d < nd && d < MAX_DEVICES; d++) {
        if (!fill_device_info(p, platforms[a], devices[d], out))
          return tni_cm_fail(err, TN_E_NO_MEMORY, "opencl", "out of memory");
        const char *no = why_unfit(p, out);
        if (!no) return TN_OK;
        why = no;
        seen++;
      }
    }
  if (seen)
    return tni_cm_fail(err, TN_E_UNAVAILABLE, out->name, "%u OpenCL device(s), none fits: %s", (unsigned)seen, why);
  return tni_cm_fail(err, TN_E_UNAVAILABLE, "device_type", "no OpenCL device of type '%s' (%s)", p->wish->type,
                     p->api->path);
}

tn_status tni_cl_pick(const tni_cl_api *api, const tni_cl_wish *wish, tni_cm_mem *mem, tni_cl_info *out,
                      tn_error *err) {
  picker p = {api, wish, mem};
  return search_platforms(&p, out, err);
}

/* --- context ---------------------------------------------------------------------------------------------------- */

static cl_context make_context(const tni_cl_context *c, bool low, cl_int *code) {
  cl_context_properties props[8] = {CL_CONTEXT_PLATFORM, (cl_context_properties)c->info->platform, 0};
  if (low && (c->info->features & TNI_CLF_PRIORITY_QCOM)) {
    props[2] = CONTEXT_PRIORITY_HINT_QCOM;
    props[3] = PRIORITY_HINT_LOW_QCOM;
  }
  return c->api->CreateContext(props, 1, &c->info->id, NULL, NULL, code);
}

static cl_command_queue make_queue(tni_cl_context *c, bool low, cl_int *code) {
  if (low && (c->info->features & TNI_CLF_PRIORITY_KHR) && c->api->CreateCommandQueueWithProperties) {
    const cl_queue_properties props[] = {CL_QUEUE_PRIORITY_KHR, CL_QUEUE_PRIORITY_LOW_KHR, 0};
    cl_command_queue q = c->api->CreateCommandQueueWithProperties(c->context, c->info->id, props, code);
    if (q) {
      c->low_priority = true;
      return q;
    }
  }
  return c->api->CreateCommandQueue(c->context, c->info->id, 0, code);
}

tn_status tni_cl_context_init(tni_cl_context *c, const tni_cl_api *api, const tni_cl_info *info, const tn_host *host,
                              bool low, tn_error *err) {
  cl_int code = CL_SUCCESS;
  *c = (tni_cl_context){.api = api, .info = info, .host = host};
  c->context = make_context(c, low, &code);
  c->low_priority = c->context && low && (info->features & TNI_CLF_PRIORITY_QCOM);
  if (!c->context && low) c->context = make_context(c, false, &code);
  if (!c->context) return tni_cl_fail(err, code, info->name, "clCreateContext");
  c->queue = make_queue(c, low, &code);
  if (c->queue) return TN_OK;
  tni_cl_context_finish(c);
  return tni_cl_fail(err, code, info->name, "clCreateCommandQueue");
}

void tni_cl_context_finish(tni_cl_context *c) {
  if (c->queue) {
    c->api->Finish(c->queue);
    c->api->ReleaseCommandQueue(c->queue);
  }
  if (c->context) c->api->ReleaseContext(c->context);
  c->queue = NULL;
  c->context = NULL;
}
