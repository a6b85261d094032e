/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels for Adreno, best first; plugins/common/opencl/clkern.h says what each kind computes and how arguments lie.
 */
#ifndef TENON_OPENCL_ADRENO_VARIANTS_H
#define TENON_OPENCL_ADRENO_VARIANTS_H

#include "plugins/common/opencl/opencl.h"

enum { TNI_ADRENO_N_VARIANTS = 4 };
extern const tni_cl_variant tni_adreno_variants[TNI_ADRENO_N_VARIANTS];

#endif
