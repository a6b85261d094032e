/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ops/arith/chain.h"

_Static_assert(TNI_CHAIN_ROOM / (sizeof(double) * (TN_CHAIN_MAX_OPS + TN_CHAIN_MAX_INPUTS + TN_FUSED_MAX_PARTS)) >= 16,
               "the longest chain has pieces");

void tni_chain_begin(const tni_chain *c, uint32_t work, tni_chain_room *room) {
  const int64_t registers = (int64_t)c->n_ops + c->n_in, fit = TNI_CHAIN_ROOM / (registers * tni_elem_size(work));
  room->n_ops = c->n_ops;
  room->piece = fit < TNI_CHAIN_PIECE ? fit / 16 * 16 : TNI_CHAIN_PIECE;
}

float *tni_chain_widened(tni_chain_room *room, uint32_t i) {
  return (float *)(void *)room->cells + (room->n_ops + i) * room->piece;
}

void tni_chain_run(const tni_chain *c, const uint32_t *group, uint32_t which, tni_registers *r, void *const *dst,
                   tni_chain_room *room, int64_t n) {
  const size_t bytes = (size_t)room->piece * tni_elem_size(r->work);
  for (uint32_t i = 0; i < c->n_ops; i++) {
    const tni_instr *op = &c->ops[i];
    const uint32_t out = c->n_in + i;
    if (group && group[out] != which) continue;
    const bool two = op->b != UINT32_MAX;
    const void *src[2] = {r->reg[op->a], two ? r->reg[op->b] : NULL};
    const int64_t step[2] = {r->step[op->a], two ? r->step[op->b] : 0};
    /* One element with one element is one element; the loops below take at least one whole operand. */
    const bool whole = step[0] || step[1];
    void *to = dst && dst[i] && whole ? dst[i] : (char *)room->cells + i * bytes;
    if (two) {
      static const int64_t ones[2] = {1, 1};
      tni_binary_real(op->op, r->work, to, src, whole ? step : ones, whole ? n : 1);
    } else {
      tni_unary_real(op->op, r->work, op->value, to, src[0], whole ? n : 1);
    }
    r->reg[out] = to;
    r->step[out] = whole;
  }
}

void tni_chain_store(const tni_registers *r, uint32_t reg, uint32_t dtype, void *dst, int64_t first, int64_t n) {
  const uint32_t size = tni_elem_size(dtype);
  char *to = (char *)dst + first * size;
  const bool whole = r->step[reg] != 0;
  const int64_t m = whole ? n : n > 0;
  if (to == r->reg[reg]) return;
  if (r->work == dtype)
    memcpy(to, r->reg[reg], (size_t)(m * size));
  else
    tni_store_f32(dtype, dst, first, m, r->reg[reg]);
  for (int64_t i = 1; !whole && i < n; i++) memcpy(to + i * size, to, size);
}
