/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/conform/observe/observe.h"
#include "runtime/place/place.h"

tni_dev *tni_cf_only_device(tn_runtime *rt, const char *plugin, uint32_t index) {
  tni_dev *only = NULL;
  uint32_t seen = 0;
  for (uint32_t d = 0; d < rt->n_devs; d++)
    if (!rt->devs[d].is_host && !strcmp(rt->devs[d].name, plugin) && seen++ == index) only = &rt->devs[d];
  for (uint32_t phase = 0; only && phase < sizeof rt->order / sizeof *rt->order; phase++) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < rt->n_order[phase]; i++) {
      const tni_dev *dev = &rt->devs[rt->order[phase][i]];
      if (dev == only || strcmp(dev->name, plugin) != 0) rt->order[phase][n++] = rt->order[phase][i];
    }
    rt->n_order[phase] = n;
  }
  return only;
}
