/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of plugins/common/opencl: a plugin states a tni_cl_vendor with its kernel variants and passes it to
 * tni_cl_entry.
 */
#ifndef TENON_COMMON_OPENCL_OPENCL_H
#define TENON_COMMON_OPENCL_OPENCL_H

#include "plugins/common/opencl/clkern.h"
#include "plugins/common/opencl/clplugin.h"

#endif
