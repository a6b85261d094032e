/* SPDX-License-Identifier: Apache-2.0
 *
 * Numerics of formats whose activations are int8: s = absmax / 127, q = round_half_even(x * (127 / absmax)), and zeros
 * where s would be denormal. Products with the codes of a group of weights are exact sums in s32, which f32 adds up.
 */
#ifndef TENON_COMMON_FORMATS_ACT8_H
#define TENON_COMMON_FORMATS_ACT8_H

#include <tenon/plugin.h>

/* One scale for each group of weights. group: 16, 32, 64 or 128; scales: what those of weights are stored in, TN_DT_F16
 * or TN_DT_F32. NULL for others. */
const tn_numerics *tni_act8_numerics(int64_t group, uint32_t scales);
#define TNI_ACT8_G32_F16 (tni_act8_table + 1)
#define TNI_ACT8_G128_F16 (tni_act8_table + 3)
#define TNI_ACT8_G16_F32 (tni_act8_table + 4)
#define TNI_ACT8_G32_F32 (tni_act8_table + 5)
#define TNI_ACT8_G128_F32 (tni_act8_table + 7)
/* The same weights with one scale for a row of x: y = s * sum of (float)sum * weight scale. NULL where num is no row of
 * the table. */
const tn_numerics *tni_act8_by_row(const tn_numerics *num);

enum { TNI_ACT8_KINDS = 8 };
extern const tn_numerics tni_act8_table[TNI_ACT8_KINDS];

#endif
