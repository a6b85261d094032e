/* SPDX-License-Identifier: Apache-2.0
 *
 * What the CPU backends know of a weight format: enough to claim, lower, plan and run products over it; its bytes are
 * known to its packer and to the kernels only. A blob is row blocks of 16 outputs, one after the other, each a number
 * of superblocks along K. A new format is one constant here and its rows in the kernel tables.
 */
#ifndef TENON_COMMON_CPU_FORMAT_H
#define TENON_COMMON_CPU_FORMAT_H

#include <tenon/plugin.h>

enum { TNI_CLT_MAX_PARAMS = 4 };
#define TNI_CLT_MAX_DIM (INT64_C(1) << 31) /* of N and K */

/* Of a packed matrix. */
typedef struct tni_clt_geometry {
  int64_t N, K, K_padded;
  int64_t group; /* of the activations; selects kernels too */
  int64_t superblocks, row_block_bytes;
  uint64_t bytes;
  uint32_t format, reserved;      /* TNI_CLT_W4G ..: filled in by keep.h */
  uint32_t scale_bits, zero_bits; /* of grids, as kernels are told (tni_clt_act); else 0 */
} tni_clt_geometry;

typedef struct tni_clt_format tni_clt_format;
struct tni_clt_format {
  const char *option; /* value of option `format` */
  const tn_format *format;
  uint32_t id, n_params; /* TNI_CLT_W4G .. */
  /* TN_E_INVALID for params or dims that the format does not have, TN_E_LIMIT on overflow. */
  tn_status (*geometry)(const tni_clt_format *f, int64_t N, int64_t K, const int64_t *params, tni_clt_geometry *out);
};

extern const tni_clt_format tni_clt_w4g; /* params [group] */
/* Bit-serial formats, without params: of a backend that reads plain bytes, and of one that reads paired ones. */
extern const tni_clt_format tni_clt_lut1, tni_clt_lut2, tni_clt_lut3, tni_clt_lut4, tni_clt_lutt;
extern const tni_clt_format tni_clt_lut1p, tni_clt_lut2p, tni_clt_lut3p, tni_clt_lut4p, tni_clt_luttp;
/* Formats for dot products (plugins/common/formats/dot.h), without params. */
extern const tni_clt_format tni_clt_w8g, tni_clt_w3g, tni_clt_w2g, tni_clt_w1g;
extern const tni_clt_format tni_clt_tern20, tni_clt_tern17, tni_clt_pal16;
/* Levels from tables (plugins/common/formats/lev.h), without params. Of every backend. By TNI_LEV4 ..; */
enum { TNI_CLT_LEVS = 5 };
extern const tni_clt_format tni_clt_levs[TNI_CLT_LEVS];
/* Grids that models bring (plugins/common/formats/grid.h), params [group, scale, zero]: of every backend, chosen by
 * keep.h and never by an option. By bits: 2, 4, 8. */
enum { TNI_CLT_GRIDS = 3 };
extern const tni_clt_format tni_clt_grids[TNI_CLT_GRIDS];

#endif
