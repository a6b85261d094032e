/* SPDX-License-Identifier: Apache-2.0
 *
 * A device and the small host that kernels are built with, for tests of plugins/common/opencl.
 */
#ifndef TENON_TESTS_OPENCL_RIG_H
#define TENON_TESTS_OPENCL_RIG_H

#include "plugins/common/opencl/clkern.h"

typedef struct rig {
  tn_host host; /* keeps no blobs */
  tni_cl_api api;
  tni_cl_info info;
  tni_cl_context context;
  tni_cm_mem mem;
} rig;

/* The first device of a library; false, said on stdout, where there is none. */
bool rig_open(rig *r, const char *library);
void rig_close(rig *r);

#endif
