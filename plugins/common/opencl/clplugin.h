/* SPDX-License-Identifier: Apache-2.0
 *
 * An OpenCL plugin but for its kernels: entry, options, devices, claims, lowering, plans, submission. A plugin states a
 * tni_cl_vendor and calls tni_cl_plugin_entry; nothing here knows which plugin it is.
 */
#ifndef TENON_COMMON_OPENCL_CLPLUGIN_H
#define TENON_COMMON_OPENCL_CLPLUGIN_H

#include "plugins/common/opencl/clkern.h"
#include "plugins/common/formats/formats.h"

typedef struct tni_cl_vendor {
  const char *name, *version;
  const char *libraries; /* default of option `libraries`: drivers' names, ':' between them */
  const tni_cl_variant *variants;
  uint32_t n_variants;
  uint32_t flush_every;            /* kernels between two clFlush; 0: one per submission */
  bool images;                     /* weights may be read through images */
  bool import;                     /* host memory is taken over without a copy where the driver does it */
  const tn_option *const *options; /* of its own, beside the common ones */
  uint32_t n_options;
} tni_cl_vendor;

/* The common options: libraries, device_type, device, priority, min_k, min_n, fp16, images, self_test, format,
 * zero_exact, flush_every. */
TN_MUST_CHECK tn_status tni_cl_plugin_entry(const tni_cl_vendor *v, const tn_host *host, tn_negotiate *neg,
                                            tn_plugin **out);

#endif
