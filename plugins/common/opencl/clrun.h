/* SPDX-License-Identifier: Apache-2.0
 *
 * Launching kernels: arguments into a kernel object, and one launch over host memory for self-tests and tests.
 */
#ifndef TENON_COMMON_OPENCL_CLRUN_H
#define TENON_COMMON_OPENCL_CLRUN_H

#include "plugins/common/opencl/clkern.h"

/* One operand of a launch: memory, and where it begins in elements (w, s: units of 128 bytes; images: texels). */
typedef struct tni_cl_bound {
  cl_mem mem;
  uint32_t offset, reserved;
} tni_cl_bound;

/* Sets all arguments of a kernel object in the order of clkern.h. */
cl_int tni_cl_set_args(const tni_cl_api *a, cl_kernel kernel, const tni_cl_shape *s, const tni_cl_bound *operands);

/* An image as `flags` of the variant want it over a blob's part, W of that many rows; NULL with *code where the driver refuses. */
cl_mem tni_cl_weight_image(const tni_cl_context *c, cl_mem blob, uint64_t blob_bytes, uint32_t flags, int64_t Pn,
                           int64_t rows, cl_int *code);
/* Whether such an image is possible by the device's limits. */
bool tni_cl_image_fits(const tni_cl_info *i, uint32_t flags, uint64_t w_at, uint64_t blob_bytes, int64_t Pn, int64_t rows);

/* One launch with operands in host memory: copied to the device, run, and all of them copied back. data[i] NULL:
 * absent, or (s of a product) in the buffer of operand 1 at s_at. offset[i]: where operand i begins, in elements. Sizes
 * are the variant's; of a generated program global and local. */
typedef struct tni_cl_direct {
  tni_cl_kernels *kernels;
  const tni_cl_program *program;
  const tni_cl_shape *shape;
  void *data[TNI_CL_MAX_OPERANDS];
  uint64_t bytes[TNI_CL_MAX_OPERANDS], s_at;
  uint32_t offset[TNI_CL_MAX_OPERANDS];
  size_t global[3], local[3];
} tni_cl_direct;
/* NULL, or what failed (static text). */
const char *tni_cl_run_direct(const tni_cl_direct *d);

#endif
