/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/graph/graph_test.h"

static void find_by_version(void) {
  static const struct {
    const char *domain, *type;
    int64_t version;
    uint32_t id, since; /* id 0: none */
  } rows[] = {
      {"", "Add", 17, TN_OP_ADD, 6},
      {"ai.onnx", "Add", 6, TN_OP_ADD, 6},
      {"", "Add", 5, 0, 0},
      {"com.microsoft", "Add", 17, 0, 0},
      {"ai.onnx.ml", "Add", 17, 0, 0},
      {"", "add", 17, 0, 0},
      {"", "", 17, 0, 0},
      {"", "AddX", 17, 0, 0},
      {"", "Softmax", 12, TN_OP_SOFTMAX, 1},
      {"", "Softmax", 13, TN_OP_SOFTMAX, 13},
      {"", "LogSoftmax", 1, TN_OP_LOG_SOFTMAX, 1},
      {"", "Gelu", 19, 0, 0},
      {"", "Gelu", 20, TN_OP_GELU, 20},
      {"", "Gelu", 28, TN_OP_GELU, 20},
      {"", "Scan", 7, 0, 0},
      {"", "Scan", 8, TN_OP_SCAN, 8},
      {"", "Where", -1, 0, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const tni_op *op = tni_op_find(rows[i].domain, rows[i].type, rows[i].version);
    CU_ASSERT_EQUAL(op ? op->id : 0, rows[i].id);
    if (op) CU_ASSERT_EQUAL(op->since, rows[i].since);
  }
}

/* Every row is found under its own name in its own versions, and rows of one operator do not overlap. */
static void table_is_sound(void) {
  uint32_t n;
  const tni_op *t = tni_op_table(&n);
  CU_ASSERT_TRUE(n >= 98);
  for (uint32_t i = 0; i < n; i++) {
    CU_ASSERT_EQUAL(t[i].row, i);
    CU_ASSERT_PTR_EQUAL(tni_op_find(t[i].domain, t[i].name, t[i].since), &t[i]);
    CU_ASSERT_PTR_EQUAL(tni_op_find(t[i].domain, t[i].name, t[i].until ? t[i].until : 28), &t[i]);
    CU_ASSERT_TRUE(t[i].in_min <= t[i].in_max && t[i].out_min <= t[i].out_max);
    CU_ASSERT_TRUE(tni_op_by_id(t[i].id) != NULL && strcmp(tni_op_by_id(t[i].id)->name, t[i].name) == 0);
    for (uint32_t k = 0; k < i; k++)
      CU_ASSERT_EQUAL(t[k].id == t[i].id, strcmp(t[k].name, t[i].name) == 0 && strcmp(t[k].domain, t[i].domain) == 0);
  }
  CU_ASSERT_PTR_NULL(tni_op_by_id(TN_OP_UNKNOWN));
  CU_ASSERT_PTR_NULL(tni_op_by_id(9999));
}

/* The enums of ops.h are the places of these attributes. */
static void attribute_order(void) {
  static const struct {
    const char *type;
    uint32_t at;
    const char *name;
  } rows[] = {{"Gemm", TN_GEMM_ALPHA, "alpha"},        {"Gemm", TN_GEMM_BETA, "beta"},
              {"Gemm", TN_GEMM_TRANS_A, "transA"},     {"Gemm", TN_GEMM_TRANS_B, "transB"},
              {"Softmax", TN_SOFTMAX_AXIS, "axis"},    {"Softmax", TN_SOFTMAX_COERCE_2D, "coerce_2d"},
              {"Transpose", TN_TRANSPOSE_PERM, "perm"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    for (int64_t version = 12; version <= 13; version++) {
      const tni_op *op = tni_op_find("", rows[i].type, version);
      CU_ASSERT_PTR_NOT_NULL_FATAL(op);
      CU_ASSERT_TRUE_FATAL(rows[i].at < op->n_attrs);
      CU_ASSERT_STRING_EQUAL(op->attrs[rows[i].at].name, rows[i].name);
    }
  }
}

void add_op_suite(void) {
  CU_pSuite s = CU_add_suite("op table", NULL, NULL);
  CU_add_test(s, "find by version", find_by_version);
  CU_add_test(s, "table is sound", table_is_sound);
  CU_add_test(s, "attribute order", attribute_order);
}
