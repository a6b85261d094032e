/* SPDX-License-Identifier: Apache-2.0
 *
 * Adreno: what plugins/common/opencl/clplugin.h is told.
 */
#include "plugins/common/opencl/opencl.h"
#include "plugins/opencl-adreno/variants.h"

/* Where Debian and Android keep it. */
#define LIBRARIES                                                                             \
  "libOpenCL.so:libOpenCL.so.1:/vendor/lib64/libOpenCL.so:/system/vendor/lib64/libOpenCL.so:" \
  "/system/lib64/libOpenCL.so:/vendor/lib64/libOpenCL_adreno.so"

static tn_status adreno_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  static const tni_cl_vendor vendor = {.name = "opencl-adreno",
                                       .version = "0.1.0",
                                       .libraries = LIBRARIES,
                                       .variants = tni_adreno_variants,
                                       .n_variants = TNI_ADRENO_N_VARIANTS,
                                       .images = true,
                                       .import = true};
  return tni_cl_plugin_entry(&vendor, host, neg, out);
}

TN_PLUGIN(opencl_adreno, adreno_entry)
