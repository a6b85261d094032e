/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX backend test cases: what lies in a case's folder, the ways to run one, what was made of it, and how that
 * compares with the stored outputs.
 *
 * A case is ROOT/KIND/NAME with model.onnx and test_data_set_0, 1, ... as make_cases.py writes them; its full name is
 * "KIND/NAME". Everything here is used by one thread.
 */
#ifndef TENON_TESTS_CONFORMANCE_CASE_H
#define TENON_TESTS_CONFORMANCE_CASE_H

#include "runtime/base/arena.h"
#include "runtime/graph/ir.h"

enum { CASE_PATH = 1024, CASE_MAX_IO = 256 };

/* One input or output. Sequences hold items that are never sequences themselves. */
typedef enum value_kind { VALUE_TENSOR, VALUE_SEQUENCE, VALUE_NONE } value_kind;
typedef struct case_value {
  value_kind kind;
  const char *name; /* as the file says, or NULL */
  tni_tensor tensor;
  tni_tensor *items; /* VALUE_SEQUENCE */
  uint32_t n_items;
} case_value;

typedef struct case_set {
  case_value in[CASE_MAX_IO], out[CASE_MAX_IO];
  uint32_t n_in, n_out;
} case_set;

/* What became of a case. REFUSED: the runtime understands that it cannot run this. */
typedef enum verdict { PASSED, REFUSED, FAILED } verdict;

typedef struct test_case {
  const char *kind, *name;
  char dir[CASE_PATH];
  double rtol, atol;
  tni_arena *arena; /* of this case */
  tn_error err;
  char why[320]; /* of a verdict that is not PASSED */
} test_case;

/* Sets why and returns v. */
verdict case_give_up(test_case *c, verdict v, const char *fmt, ...) TN_PRINTF(3, 4);
/* REFUSED where st says so, else FAILED; the message comes from c->err. */
verdict case_status(test_case *c, tn_status st, const char *what);

/* Reads `tolerance`; without one, rtol and atol stay as they are. */
void case_read_tolerance(test_case *c);
/* Reads data set i. *there false: no such folder. */
verdict case_load_set(test_case *c, uint32_t i, case_set *s, bool *there);
/* got against s->out[i]: dtype and dims equal; floats as numpy.testing.assert_allclose with the case's rtol and atol
 * (halves: at least two of their steps, as ONNX's runner does for bfloat16); everything else bit by bit. */
verdict case_compare(test_case *c, const case_value *got, const case_value *want, uint32_t i);
/* Position of input k of set among names[n]: by its name, else k. UINT32_MAX: none. */
uint32_t case_input_index(const case_set *s, uint32_t k, const char *const *names, uint32_t n);

/* --- ways to run all data sets of a case */
typedef struct way {
  const char *name;
  void *(*open)(void);
  verdict (*run)(void *state, test_case *c);
  void (*close)(void *state);
} way;

/* The runtime as an application has it: profile "host", passes, plan, session. */
extern const way way_run;
/* Node by node with concrete inference and the host's kernel, without passes, plan or session. */
extern const way way_kernels;

#endif
