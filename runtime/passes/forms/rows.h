/* SPDX-License-Identifier: Apache-2.0
 *
 * What the pass `rows` knows of operators: which work row by row on values [rows, ..].
 */
#ifndef TENON_PASSES_FORMS_ROWS_H
#define TENON_PASSES_FORMS_ROWS_H

#include "runtime/passes/build/build.h"

typedef struct tni_flat {
  tni_graph *g;
  uint64_t given; /* symbols that are known before the step */
  tn_expr rows, lead[TN_MAX_RANK];
  uint32_t n_lead;
  uint8_t *is_row; /* by value that was there at the start: it is of the region */
  tn_id *to;       /* by such a value: its copy with the leading axes */
  tn_id *row, *node;
  uint32_t n_values, n_rows, n_nodes, n_exits;
  tn_error *err;
} tni_flat;

/* ENTRY and EXIT: the Reshapes that flatten the leading axes and put them back. */
typedef enum { TNI_FLAT_NONE, TNI_FLAT_ENTRY, TNI_FLAT_INSIDE, TNI_FLAT_EXIT } tni_flat_kind;

/* n flattens leading axes: they and their product are those of the region from now on. */
bool tni_flat_start(tni_flat *r, const tni_node *n);
/* What n is to a region with these axes. */
tni_flat_kind tni_flat_read(const tni_flat *r, const tni_node *n);
/* v was there at the start and its first axis is the rows. */
bool tni_flat_has(const tni_flat *r, tn_id v);
/* Which operand of n is a vector of axes, or a shape: UINT32_MAX for none. */
uint32_t tni_flat_axes_at(const tni_node *n);
uint32_t tni_flat_shape_at(const tni_node *n);
/* The attribute axis where n's operator has one. */
bool tni_flat_axis(const tni_node *n, int64_t *axis);
/* The version of n's copy. */
int64_t tni_flat_version(const tni_node *n);

#endif
