/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of plugins/common/cpu/kernels: what kernels take, by which rows they are chosen, the scalar references, and
 * the CPU's features. Beside it only *_template.h are for others: a kernel's body, included after its macros.
 */
#ifndef TENON_COMMON_CPU_KERNELS_KERNELS_H
#define TENON_COMMON_CPU_KERNELS_KERNELS_H

#include "plugins/common/cpu/kernels/cpu_features.h"
#include "plugins/common/cpu/kernels/dot_kernels.h"
#include "plugins/common/cpu/kernels/grid_kernels.h"
#include "plugins/common/cpu/kernels/kernel.h"
#include "plugins/common/cpu/kernels/lev_kernels.h"
#include "plugins/common/cpu/kernels/lut_kernels.h"

#endif
