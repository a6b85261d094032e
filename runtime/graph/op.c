/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/graph/op.h"

#include <string.h>

#include "runtime/graph/op_attrs.h"

enum {
#define TNI_OP(id, domain, name, since, until, attrs, in_min, in_max, out_min, out_max, shape_in, shape, kernel, \
               flags)                                                                                            \
  ROW_##id##_##since,
#include "runtime/graph/ops.def"
#undef TNI_OP
  N_ROWS
};

static const tni_op op_rows[N_ROWS] = {
#define TNI_OP(id, domain, name, since, until, attrs, in_min, in_max, out_min, out_max, shape_in, shape, kernel, \
               flags)                                                                                            \
  {TN_OP_##id, domain, name,    since,   until,    tni_attrs_##attrs, tni_n_attrs_##attrs,                       \
   in_min,     in_max, out_min, out_max, shape_in, (uint32_t)(flags), ROW_##id##_##since},
#include "runtime/graph/ops.def"
#undef TNI_OP
};

/* One byte a row: a look-up reads two cache lines and compares the few names of equal length. */
static const uint8_t name_bytes[N_ROWS] = {
#define TNI_OP(id, domain, name, since, until, attrs, in_min, in_max, out_min, out_max, shape_in, shape, kernel, \
               flags)                                                                                            \
  sizeof name - 1,
#include "runtime/graph/ops.def"
#undef TNI_OP
};

const tni_op *tni_op_find(const char *domain, const char *type, int64_t version) {
  size_t n = strlen(type);
  if (strcmp(domain, "ai.onnx") == 0) domain = "";
  for (uint32_t i = 0; i < N_ROWS; i++) {
    if (name_bytes[i] != n || memcmp(op_rows[i].name, type, n) != 0 || strcmp(op_rows[i].domain, domain) != 0) continue;
    if (version >= op_rows[i].since && (op_rows[i].until == 0 || version <= op_rows[i].until)) return &op_rows[i];
  }
  return NULL;
}

const tni_op *tni_op_table(uint32_t *n) {
  *n = N_ROWS;
  return op_rows;
}

/* The last row of each operator: its rows stand together. 0 is also what says nothing. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
static const uint16_t row_of[] = {
#define TNI_OP(id, domain, name, since, until, attrs, in_min, in_max, out_min, out_max, shape_in, shape, kernel, \
               flags)                                                                                            \
  [TN_OP_##id] = ROW_##id##_##since,
#include "runtime/graph/ops.def"
#undef TNI_OP
};
#pragma GCC diagnostic pop

const tni_op *tni_op_by_id(uint32_t id) {
  if (id >= sizeof row_of / sizeof *row_of) return NULL;
  uint32_t i = row_of[id];
  if (op_rows[i].id != id) return NULL;
  while (i && op_rows[i - 1].id == id) i--;
  return &op_rows[i];
}
