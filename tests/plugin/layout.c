/* SPDX-License-Identifier: Apache-2.0
 *
 * Where fields of growing structs lie in version 1. What stands here does not move; new fields are added behind.
 */
#include <tenon/plugin.h>

#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field)

AT(tn_numerics, act_dtype, 8);
AT(tn_numerics, act_group, 12);
AT(tn_numerics, act_scheme, 16);
AT(tn_numerics, act_round, 20);
AT(tn_numerics, act_max, 24);
AT(tn_numerics, acc_inner, 28);
AT(tn_numerics, acc_outer, 32);
AT(tn_numerics, scale_dtype, 36);
AT(tn_numerics, denormals, 40);
AT(tn_numerics, nan, 44);
AT(tn_numerics, finite_max, 48);
AT(tn_numerics, act_run, 56);
AT(tn_numerics, act_scale, 60);
AT(tn_layout, dtype, 8);
AT(tn_layout, rank, 12);
AT(tn_layout, order, 16);
AT(tn_layout, inner_align, 24);
AT(tn_layout, pitch_align, 28);
AT(tn_layout, flags, 32);
AT(tn_state, axis, 8);
AT(tn_state, flags, 12);
AT(tn_state, capacity, 16);
AT(tn_state, heads, 32);
AT(tn_quant, bits, 8);
AT(tn_quant, codes, 24);
AT(tn_quant, ctx, 48);
AT(tn_quant, grid, 56);
AT(tn_stats, absmax, 8);
AT(tn_stats, p999, 12);
AT(tn_stats, n, 16);
AT(tn_stats, ch_over, 24);
AT(tn_stats, ch_mean, 32);
AT(tn_stats, ch_weight, 40);
AT(tn_stats, rows, 48);
_Static_assert(TN_ACT_NONE == 0 && TN_ACT_ABSMAX == 1 && TN_ACT_RUNSUM == 2 && TN_ACT_STATIC == 3, "schemes");
_Static_assert(TN_STATE_CIRCULAR == 1 && TN_LAYOUT_CIRCULAR == 1, "rings");
#undef AT
