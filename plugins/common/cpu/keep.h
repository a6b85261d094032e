/* SPDX-License-Identifier: Apache-2.0
 *
 * How a weight is packed: decided here only, for claim, lower and plan. A weight that the model brings quantized keeps
 * its grid, codes and zero points exactly and scales as binary16 only where that loses nothing (formats/grid.h, or w4g,
 * w8g, w2g where these hold it); floats, and grids that nothing here holds, go to the format of option `format`. Where
 * a profile names a format, that is an order: grids go to it too, and are rounded again. `auto` keeps them.
 */
#ifndef TENON_COMMON_CPU_KEEP_H
#define TENON_COMMON_CPU_KEEP_H

#include <stdbool.h>

#include "plugins/common/cpu/backend.h"

/* The grid of a weight, or of several that are packed together; bits 0: none is kept. */
typedef struct tni_clt_grid {
  uint32_t bits, group; /* of the model */
  uint32_t ours;        /* the group that it is packed with */
  uint32_t scale_bits, zero_bits;
  const tni_clt_format *levels; /* the format whose levels and steps these are; NULL: an affine grid */
} tni_clt_grid;

/* How a blob is packed. */
typedef struct tni_clt_packing {
  const tni_clt_format *f;
  const tn_format *listed; /* the same as the plugin lists it */
  int64_t params[TNI_CLT_MAX_PARAMS];
} tni_clt_packing;

/* w may be NULL. K: elements that are summed. */
tni_clt_grid tni_clt_grid_of(const tni_clt_device *d, const tn_weight *w, int64_t K);
/* a becomes the grid of both; false where they cannot be packed together, with a as it was. */
bool tni_clt_grid_join(tni_clt_grid *a, const tni_clt_grid *b);
tni_clt_packing tni_clt_packing_of(const tni_clt_device *d, const tni_clt_grid *g);
/* Geometry of [N,K] packed so. */
TN_MUST_CHECK tn_status tni_clt_geometry_of(const tni_clt_device *d, const tni_clt_grid *g, int64_t N, int64_t K,
                                            tni_clt_geometry *out);

#endif
