/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/cpu/kernels/kernel.h"

#include "plugins/common/formats/formats.h"

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

/* Tiles of so many rows of `bytes` each; every group has 16 scales and, with words, as many of those. */
static void tile_room(tni_clt_act_room *r, size_t rows, size_t bytes, size_t groups, bool words) {
  r->rows = rows;
  r->q_stride = rows * bytes + 64;
  r->s_stride = 16 * groups;
  r->z_stride = words ? r->s_stride : 0;
}

/* Rows of codes are set off by a cache line, so that several of them do not fall into the same sets. */
tni_clt_act_room tni_clt_act_room_of(uint32_t layout, size_t K_padded, size_t group) {
  const size_t groups = K_padded / group;
  tni_clt_act_room r = {.layout = layout, .rows = 1, .q_stride = K_padded + 64, .s_stride = groups, .z_stride = groups};
  switch (layout) {
    case TNI_CLT_TILES8:
      tile_room(&r, 8, 1 * K_padded, groups, true);
      break;
    case TNI_CLT_ROWS_S32:
      r.z_stride = 4 * groups;
      break;
    case TNI_CLT_TABLES:
      r.q_stride = 4 * K_padded + 64;
      break;
    case TNI_CLT_ROWS_SUM:
      break;
    case TNI_CLT_Q16:
      r.q_stride = 2 * K_padded + 64;
      r.z_stride = 0;
      break;
    case TNI_CLT_HALVES:
      r.q_stride = 2 * K_padded + 64;
      r.z_stride = 0;
      break;
    case TNI_CLT_HALVES8:
      tile_room(&r, 8, 2 * K_padded, groups, false);
      break;
    case TNI_CLT_TILES16:
      tile_room(&r, 16, 1 * K_padded, groups, true);
      break;
    case TNI_CLT_HALVES16:
      tile_room(&r, 16, 2 * K_padded, groups, false);
      break;
    case TNI_CLT_SLABS:
      r.q_stride = K_padded;
      r.z_stride = 0;
      break;
    default:
      r.z_stride = K_padded / (group == 32 ? 32 : 64);
  }
  return r;
}

tni_clt_act tni_clt_act_of(const tni_clt_act_room *room, size_t M, void *q, void *scale, void *zero) {
  tni_clt_act a = {.q = q,
                   .scale = scale,
                   .zero = zero,
                   .runs = TNI_LUT_WIDE,
                   .q_stride = room->q_stride,
                   .s_stride = room->s_stride,
                   .z_stride = room->z_stride};
  if (room->layout == TNI_CLT_SLABS) {
    a.q_stride = TNI_CLT_SLAB_K;
    a.s_stride = 1;
    a.slab_stride = M * TNI_CLT_SLAB_K;
    a.group_stride = M;
  }
  return a;
}
