/* SPDX-License-Identifier: Apache-2.0
 *
 * One OpenCL device: choice, what it can do, context, queue, memory.
 *
 * Facts are asked of the *device*, never of the platform: a platform lists extensions that one of its devices lacks.
 * Threads: as tn_device says; the callback of events comes on any thread.
 */
#ifndef TENON_COMMON_OPENCL_CLDEV_H
#define TENON_COMMON_OPENCL_CLDEV_H

#include <stdbool.h>

#include "plugins/common/base/base.h"
#include "plugins/common/opencl/cl.h"

/* Features; a kernel variant names those that it needs. */
enum {
  TNI_CLF_FP16 = 1,        /* cl_khr_fp16: arithmetic in half; without it half is storage (vload_half) */
  TNI_CLF_IMAGES = 2,      /* images at all, 1D images over buffers included */
  TNI_CLF_IMAGE2D_BUF = 4, /* cl_khr_image2d_from_buffer, pitch and base alignment known */
  TNI_CLF_SUBGROUPS = 8,   /* cl_khr_subgroups or OpenCL C 3.0's */
  TNI_CLF_PRIORITY_QCOM = 16,
  TNI_CLF_PRIORITY_KHR = 32,
  TNI_CLF_UNIFIED = 64, /* CL_DEVICE_HOST_UNIFIED_MEMORY */
  TNI_CLF_LOCAL = 128,  /* local memory is real, not ordinary cached memory */
  TNI_CLF_SUBGROUP_SHUFFLE = 256,
  TNI_CLF_INT_DOT = 512,
  TNI_CLF_ARM_IMPORT = 1024,
  TNI_CLF_QCOM_SUBGROUP_SIZE = 2048
};

typedef struct tni_cl_info {
  cl_platform_id platform;
  cl_device_id id;
  cl_device_type type;
  char name[128], driver[128], version[128], platform_version[192], c_version[64];
  char *extensions;  /* with a space at both ends */
  uint32_t features; /* TNI_CLF_* */
  uint32_t cl_major, cl_minor;
  uint32_t base_align;        /* bytes, of sub-buffers */
  uint32_t pitch_px, base_px; /* of 2D images over buffers; 0: none */
  uint64_t image2d_w, image2d_h, image_buffer_px, max_alloc, global_bytes, local_bytes;
  uint32_t units, max_group, reserved;
  uint8_t key[32]; /* of driver, device and platform version: compiled kernels depend on it */
} tni_cl_info;

/* How the device is picked and opened; filled from options. */
typedef struct tni_cl_wish {
  const char *libraries, *type; /* gpu, cpu, accelerator, any */
  const char *name;             /* part of the device's name, or "" */
  uint32_t mask;                /* features that may be used: ~0, or less in tests */
  bool low_priority;
} tni_cl_wish;

/* Fills info of the first device that fits. TN_E_UNAVAILABLE with the reason where there is none. Memory from mem. */
TN_MUST_CHECK tn_status tni_cl_pick(const tni_cl_api *api, const tni_cl_wish *wish, tni_cm_mem *mem, tni_cl_info *out,
                                    tn_error *err);

typedef struct tni_cl_context {
  const tni_cl_api *api;
  const tni_cl_info *info;
  const tn_host *host;
  cl_context context;
  cl_command_queue queue; /* in order */
  bool low_priority;      /* the driver took the hint */
} tni_cl_context;

/* Context and queue; the priority hint is passed only where the device advertises it, and left out where the driver
 * refuses it all the same. */
TN_MUST_CHECK tn_status tni_cl_context_init(tni_cl_context *c, const tni_cl_api *api, const tni_cl_info *info,
                                            const tn_host *host, bool low_priority, tn_error *err);
void tni_cl_context_finish(tni_cl_context *c);

/* --- memory --- */

typedef struct tni_cl_buffer {
  tn_buffer pub; /* first */
  const tni_cl_context *c;
  cl_mem mem;
  cl_mem image; /* a view made over it by somebody who is not the owner of `mem`; released with it. NULL: none */
  void *user;   /* the caller's memory that was taken over, or NULL */
  bool imported;
} tni_cl_buffer;

/* NEW: a buffer of the device (TN_BUF_ZERO: filled with zeros; TN_BUF_HOST: allocated where the host can map it).
 * HOST_PTR: over req->ptr without a copy, TN_E_UNSUPPORTED where the driver will not have it. */
TN_MUST_CHECK tn_status tni_cl_create(tn_device *d, const tni_cl_context *c, const tn_buffer_req *req, tn_buffer **out,
                                      tn_error *err);
TN_MUST_CHECK tn_status tni_cl_share(tn_buffer *b, uint32_t kind, tn_buffer_req *out, tn_error *err);
void tni_cl_destroy(tn_buffer *b);
TN_MUST_CHECK tn_status tni_cl_map(tn_buffer *b, uint64_t offset, uint64_t n, uint32_t access, void **ptr,
                                   tn_error *err);
TN_MUST_CHECK tn_status tni_cl_unmap(tn_buffer *b, void *ptr, tn_error *err);

/* FNV-1a of n bytes, going on from h; TNI_CL_FNV: from the start. */
#define TNI_CL_FNV UINT64_C(0xcbf29ce484222325)
uint64_t tni_cl_fnv(uint64_t h, const void *data, size_t n);

#endif
