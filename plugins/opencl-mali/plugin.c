/* SPDX-License-Identifier: Apache-2.0
 *
 * Mali: what plugins/common/opencl/clplugin.h is told. Drivers' names as an engine that runs on such phones lists them.
 */
#include "plugins/common/opencl/opencl.h"
#include "plugins/opencl-mali/variants.h"

#define LIBRARIES                                                                                             \
  "libOpenCL.so:libOpenCL.so.1:/system/vendor/lib64/libOpenCL.so:/system/lib64/libOpenCL.so:libGLES_mali.so:" \
  "libmali.so:/system/vendor/lib64/egl/libGLES_mali.so:libOpenCL-pixel.so:"                                   \
  "/vendor/lib64/chipsetsdk/libhvgr_v200.so:/vendor/lib64/chipsetsdk/libGLES_mali.so"

enum { FLUSH_EVERY = 24 }; /* kernels: the pool that the driver keeps for what is not flushed grows with it */

static tn_status mali_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  static const tni_cl_vendor vendor = {.name = "opencl-mali",
                                       .version = "0.1.0",
                                       .libraries = LIBRARIES,
                                       .variants = tni_mali_variants,
                                       .n_variants = TNI_MALI_N_VARIANTS,
                                       .flush_every = FLUSH_EVERY,
                                       .images = true,
                                       .import = true};
  return tni_cl_plugin_entry(&vendor, host, neg, out);
}

TN_PLUGIN(opencl_mali, mali_entry)
