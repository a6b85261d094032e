/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights whose codes lie on the grid of the format that packs them: begin gets them with TN_QUANT_KEEP
 * (tenon/format.h), so that a format which rounds all else rounds no model twice.
 */
#ifndef TENON_PACK_KEEP_H
#define TENON_PACK_KEEP_H

#include <tenon/plugin.h>

#include "runtime/base/base.h"

/* What begin gets. Lives until end: weight.quant points to quant. */
typedef struct tni_pack_kept {
  tn_weight weight;
  tn_quant quant;
} tni_pack_kept;

/* Fills *out from *w: the same, and KEEP where f states a grid for these params that has groups of the same length and
 * holds every code, scale and zero of w. Reads scales and zeros once, and codes where the grid has fewer than their bits
 * can say. pool: whose threads read, or NULL. Fails where w's grid() does, and without memory. */
TN_MUST_CHECK tn_status tni_pack_keep(tni_pack_kept *out, const tn_format *f, const int64_t *params, uint32_t n,
                                      const tn_weight *w, tni_pool *pool);

#endif
