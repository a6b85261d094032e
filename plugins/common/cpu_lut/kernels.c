/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/cpu_lut/kernels.h"

const tni_clt_kernel *tni_clt_select(const tni_clt_table *t, uint32_t op, uint32_t format, uint32_t group,
                                     uint32_t features, int64_t M) {
  const tni_clt_kernel *best = NULL;
  for (uint32_t i = 0; t && i < t->n; i++) {
    const tni_clt_kernel *k = &t->rows[i];
    if (k->op == op && k->format == format && k->group == group && !(k->features & ~features) && k->min_m <= M)
      best = k;
  }
  return best;
}

/* Rows of codes are set off by a cache line, so that several of them do not fall into the same sets. */
tni_clt_act_room tni_clt_act_room_of(uint32_t layout, size_t K_padded, size_t group) {
  size_t groups = K_padded / group;
  switch (layout) {
    case TNI_CLT_TILES8:
      return (tni_clt_act_room){
          .rows = 8, .q_stride = 8 * K_padded + 64, .s_stride = 16 * groups, .z_stride = 16 * groups};
    case TNI_CLT_ROWS_S32:
      return (tni_clt_act_room){.rows = 1, .q_stride = K_padded + 64, .s_stride = groups, .z_stride = 4 * groups};
    case TNI_CLT_TABLES:
      return (tni_clt_act_room){.rows = 1, .q_stride = 4 * K_padded + 64, .s_stride = groups, .z_stride = groups};
    case TNI_CLT_ROWS_SUM:
      return (tni_clt_act_room){.rows = 1, .q_stride = K_padded + 64, .s_stride = groups, .z_stride = groups};
    case TNI_CLT_Q16:
      return (tni_clt_act_room){.rows = 1, .q_stride = 2 * K_padded + 64, .s_stride = groups, .z_stride = 0};
    default:
      return (tni_clt_act_room){
          .rows = 1, .q_stride = K_padded + 64, .s_stride = groups, .z_stride = K_padded / (group == 32 ? 32 : 64)};
  }
}
