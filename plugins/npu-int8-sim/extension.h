/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests and reports ask of the simulator through tn_plugin.get_extension(TNI_NPU_COUNTERS, 1). Counted by the
 * simulator, not by the host.
 */
#ifndef TENON_NPU_INT8_EXTENSION_H
#define TENON_NPU_INT8_EXTENSION_H

#include <tenon/plugin.h>

#include "plugins/npu-int8-sim/sim/sim.h"

#define TNI_NPU_COUNTERS "tenon.npu-int8-sim.counters"

typedef struct tni_npu_counters {
  tn_hdr h;
  void (*count)(tn_device *d, npusim_counters *out);
  uint32_t (*trace)(tn_device *d, npusim_times *out, uint32_t cap);
} tni_npu_counters;

#endif
