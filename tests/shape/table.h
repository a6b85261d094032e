/* SPDX-License-Identifier: Apache-2.0
 *
 * Shape rules as tables: one line builds a graph of one node, infers it and compares.
 *
 * Operands and results are words "DTYPE[dims]" or "DTYPE[dims]={elements}", separated by spaces; dims and elements are
 * expressions ("past+seq"), "?" is unknown, "[...]" an unknown rank, "-" an absent operand. An operand
 * "DTYPE[dims]=v,v" (without braces) is a constant. dtypes: f32 f64 i32 i64 u8 i8 bool. A result "!text" is
 * TN_E_INVALID with text in the message ("!!text": of a node with two outputs). Symbols are >= 0; those named p*, but
 * not past*, are >= 1.
 */
#ifndef TENON_TESTS_SHAPE_TABLE_H
#define TENON_TESTS_SHAPE_TABLE_H

#include <CUnit/CUnit.h>

#include "runtime/shape/infer.h"

typedef struct rule_case {
  const char *op;
  int version;
  const char *in;
  const char *attrs; /* "axis=1;perm=1,0;to=7;mode=\"edge\"" or "" */
  const char *out;
} rule_case;

/* Runs all rows; a failing one prints itself. */
void run_cases(const rule_case *c, size_t n);
/* The same rows without symbols through tni_infer_concrete: only dims and dtype are compared. */
void run_concrete(const rule_case *c, size_t n);

/* Adds a value from a word; TN_NONE for "-". kind INPUT, or CONST. */
tn_id add_word(tni_graph *g, const char *name, const char *word);
/* Adds a node (op: "Name", or "tenon.Name") with outputs named out ("a b"); operands by name ("x - y"). */
tn_status add_op(tni_graph *g, const char *op, int version, const char *in, const char *out, const char *attrs,
                 tn_error *err);
/* Whether value v is what word says. */
bool matches(const tni_graph *g, const tni_value *v, const char *word);

CU_pSuite suite_elementwise(void);
CU_pSuite suite_movement(void);
CU_pSuite suite_image(void);
CU_pSuite suite_index(void);
CU_pSuite suite_source(void);
CU_pSuite suite_reduce(void);
CU_pSuite suite_sequence(void);
CU_pSuite suite_graph(void);
CU_pSuite suite_passes(void);

#define RUN(table) run_cases(table, sizeof table / sizeof table[0])

#endif
