/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/formats/act8.h"

#define NUMERICS(of_act, of_sum, scales)                                                                \
  {                                                                                                     \
    .h = TN_HDR(tn_numerics), .act_dtype = TN_DT_I8, .act_group = of_act, .act_scheme = TN_ACT_ABSMAX,  \
    .act_round = TN_ROUND_HALF_EVEN, .act_max = 127.0f, .acc_inner = TN_DT_I32, .acc_outer = TN_DT_F32, \
    .scale_dtype = scales, .denormals = TN_DENORM_FLUSH, .nan = TN_NAN_UNDEFINED, .finite_max = 1e28,   \
    .acc_group = of_sum,                                                                                \
  }
#define GROUPS(group, scales) NUMERICS(group, 0, scales)
#define ROW(group, scales) NUMERICS(0, group, scales)
#define EACH(F)                                                                                                  \
  {                                                                                                              \
    F(16, TN_DT_F16), F(32, TN_DT_F16), F(64, TN_DT_F16), F(128, TN_DT_F16), F(16, TN_DT_F32), F(32, TN_DT_F32), \
        F(64, TN_DT_F32), F(128, TN_DT_F32)                                                                      \
  }
const tn_numerics tni_act8_table[TNI_ACT8_KINDS] = EACH(GROUPS);
static const tn_numerics by_row[TNI_ACT8_KINDS] = EACH(ROW);

const tn_numerics *tni_act8_numerics(int64_t group, uint32_t scales) {
  for (int i = 0; i < TNI_ACT8_KINDS; i++)
    if (tni_act8_table[i].act_group == group && tni_act8_table[i].scale_dtype == scales) return &tni_act8_table[i];
  return NULL;
}

const tn_numerics *tni_act8_by_row(const tn_numerics *num) {
  for (int i = 0; i < TNI_ACT8_KINDS; i++)
    if (num == &tni_act8_table[i]) return &by_row[i];
  return NULL;
}
