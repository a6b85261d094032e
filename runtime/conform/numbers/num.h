/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the numbers family share: values, references, bounds. docs/conformance-numbers.md states every
 * bound and where it comes from. Private to the room.
 */
#ifndef TENON_CONFORM_NUMBERS_NUM_H
#define TENON_CONFORM_NUMBERS_NUM_H

#include "runtime/conform/drive/drive.h"

/* --- values (values.c) --- */

/* Patterns of activations and weights. Each is meant to break something: rounding (TIES), range (HUGE, DENORMAL),
 * scales (OUTLIER, TINY_MIXED), signs (ONE_SIGN, NEG_ZERO), groups of one value (EQUAL), zeros. */
enum {
  TNI_CN_NORMAL,
  TNI_CN_ZERO,
  TNI_CN_MAX,
  TNI_CN_ALTERNATING,
  TNI_CN_DENORMAL,
  TNI_CN_HUGE,
  TNI_CN_OUTLIER,
  TNI_CN_TINY_MIXED,
  TNI_CN_ONE_SIGN,
  TNI_CN_NEG_ZERO,
  TNI_CN_TIES,
  TNI_CN_EQUAL,
  TNI_CN_TINY_SCALE,
  TNI_CN_PATTERNS
};
const char *tni_cn_pattern(int p);
/* n values; group: how many make one group (EQUAL, OUTLIER, TIES); top: none is larger in magnitude. */
void tni_cn_fill(float *x, size_t n, int pattern, int64_t group, double top, tni_cf_rng *r);

/* --- references (judge.c) --- */

/* Unit of the last place of a float dtype, relative: 2^-24, 2^-11, 2^-8. */
double tni_cn_unit(uint32_t dtype);
/* Smallest positive normal and denormal number. */
double tni_cn_tiny(uint32_t dtype, bool flush);

typedef struct tni_cn_found {
  int64_t bad, first;             /* elements outside; index of the first */
  double got, want, bound, worst; /* of the first; largest |difference| / bound */
} tni_cn_found;
/* got against want element by element; bound [n]; both NaN is fine where nan_fine. Infinite bounds are passed over. */
tni_cn_found tni_cn_compare(const float *got, const float *want, const float *bound, int64_t n);
/* "results are outside the bound: WHERE: 12 of 51 elements, first [7]: 1.25 instead of 1.5 (allowed 1e-06)" */
void tni_cn_complain(tni_cf *cf, const char *where, const tni_cn_found *f, int64_t n);

/* Asks a format for these params whether it keeps what lies on its grid (kept.c). text names it. */
void tni_cn_ask_kept(tni_cf *cf, const tn_host *host, const char *text, const tn_format *f, const int64_t *params,
                     uint32_t n);

/* --- the groups of cases; each names its own --- */
void tni_cn_format_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cn_chain_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cn_product_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cn_op_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cn_cache_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cn_model_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);

#endif
