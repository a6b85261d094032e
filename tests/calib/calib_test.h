/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENON_TESTS_CALIB_TEST_H
#define TENON_TESTS_CALIB_TEST_H

#include <CUnit/Basic.h>

#include "runtime/calib/calib.h"

/* A graph of products "type x w y" split at ';' (types MatMul, Gemm, GemmA with transA = 1, Relu without w). Names that
 * begin with w are constants [4,4], with W [128,256]; those that begin with x are inputs, the rest activations, [2,4]
 * ([2,128] before a W). Fatal where it cannot be made. */
tni_graph *graph_of(const char *nodes);
/* Values of the constants' element i; salt changes them all. */
void salt_constants(float salt);
/* message + where hold text. */
int says(const tn_error *e, const char *text);

void suite_record(void);
void suite_file(void);
void suite_attach(void);
void suite_keep(void);

#endif
