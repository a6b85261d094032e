/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels for Mali, best first; plugins/common/opencl/clkern.h says what each kind computes and how arguments lie.
 *
 * What they have in common (Arm's OpenCL and Valhall guides; tuning files of engines that ran on such devices): four
 * neighbouring elements per item, since the load unit hands out one line of 64 bytes per clock to neighbouring lanes; a
 * wave is 16 lanes; accumulators that fit 32 registers, or 64 where the tile is worth it; no __local memory, which is
 * ordinary cached memory there; sums that cross lanes go by shuffles or by the device's own collectives.
 */
#ifndef TENON_OPENCL_MALI_VARIANTS_H
#define TENON_OPENCL_MALI_VARIANTS_H

#include "plugins/common/opencl/opencl.h"

enum { TNI_MALI_N_VARIANTS = 9 };
extern const tni_cl_variant tni_mali_variants[TNI_MALI_N_VARIANTS];

#endif
