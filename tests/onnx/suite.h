/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the suites of this folder.
 */
#ifndef TENON_TESTS_ONNX_SUITE_H
#define TENON_TESTS_ONNX_SUITE_H

#include <CUnit/Basic.h>

#include "runtime/onnx/import.h"
#include "wire.h"

/* Register their tests; nonzero on failure. */
int suite_scan(void);
int suite_tensor(void);
int suite_external(void);
int suite_graph(void);
int suite_function(void);
int suite_upgrade(void);
int suite_real(void);
int suite_fuzz(void);
int suite_memory(void);

/* Imports m (freed) with the defaults. st must be expected; for a failure its message must contain `part` (NULL: any
 * text). The model on success, else NULL. */
tni_model *import_expect(wbuf m, tn_status expected, const char *part, const char *label);
/* NULL where TENON_TEST_DATA is not set; DIR/name otherwise, in a buffer that the next call reuses. */
const char *data_path(const char *name);
/* Whole file; NULL where it cannot be read. */
uint8_t *read_file(const char *path, size_t *n);

const tni_value *value_named(const tni_graph *g, const char *name);
const tni_node *node_named(const tni_graph *g, const char *name);

#endif
