/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon/power.h: wishes about power and clocks, an extension of the vendor ABI.
 *
 * A plugin whose driver takes votes (performance profiles of an NPU, DVFS of a GPU, a thread's uclamp) gives this table
 * for get_extension(p, TN_POWER, 1). Profiles say `power: MODE`; where they do not, nothing is asked.
 *
 * The host votes when the first session of a device is made, and takes the vote back (TN_POWER_NONE) when the last one
 * is destroyed, so that a model that only lies in memory keeps no clock up. A device that is closed takes its votes back
 * by itself. A vote that is not granted is a line in the log, never an error of the session.
 */
#ifndef TENON_POWER_H
#define TENON_POWER_H

#include <tenon/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_POWER "tenon.power"

/* NONE: no wish, as if nobody had voted. SAVE: least energy, latency does not count. BALANCED: the driver's own choice
 * between both. SUSTAINED: the highest clocks that hold without throttling. BURST: the highest there are, for seconds. */
enum { TN_POWER_NONE = 0, TN_POWER_SAVE = 1, TN_POWER_BALANCED = 2, TN_POWER_SUSTAINED = 3, TN_POWER_BURST = 4 };

typedef struct tn_power {
  tn_hdr h;
  /* mode: TN_POWER_*. It takes the place of the vote before. Returns at once; one call at a time per device, beside run
   * and submit. TN_E_UNSUPPORTED with a text: the driver knows no such mode. */
  tn_status (*vote)(tn_device *d, uint32_t mode, tn_error *err);
} tn_power;

#ifdef __cplusplus
}
#endif
#endif
