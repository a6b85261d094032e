/* SPDX-License-Identifier: Apache-2.0
 *
 * last_rows: where the cut goes, what stays whole, and that a cut run gives the last rows of a whole one.
 */
#include <string.h>

#include "tests/passes/forms.h"

#include "runtime/passes/decoder/decoder.h"

#define BEFORE "t,!ka,!va=Attention x z z - pk pv {q_num_heads=2&kv_num_heads=2}; "
#define AFTER                                                                                            \
  "cache'=TensorScatter cache z pos {axis=1}; cache'=TensorScatter cache z pos {axis=1}; t=Attention x " \
  "cache' cache' - - - valid {scale=0 softcap=0} heads=2/2; "
#define NORM "n=RMSNormalization t w; "
#define NORMED "n=RMSNormalization t w {epsilon=1e-05}; "
#define CUT_NORM "?=Slice t step step const; n=RMSNormalization ? w {epsilon=1e-05}; "
#define BYTES "q,s,o=DynamicQuantizeLinear n; "
#define CUT_BYTES "?=Slice q step step const; y=MatMulIntegerToFloat ? wi s o"
#define CUT "?=Slice t step step const; "

static const form forms[] = {
    {BEFORE NORM "y=MatMul n w8", AFTER CUT_NORM "y=MatMul n w8"},
    {BEFORE "y=MatMul t w8", AFTER CUT "y=MatMul ? w8"},
    /* a bias and a cap; a scale between norm and product */
    {BEFORE NORM "m=MatMul n w8; c=Add w m; d=Div c 30; h=Tanh d; y=Mul h 30",
     AFTER CUT_NORM "m=MatMul n w8; c=Add w m; d=Div c 30; h=Tanh d; y=Mul h 30"},
    {BEFORE "n=LayerNormalization t w v; s=Mul n k; y=MatMul s w8",
     AFTER CUT "n=LayerNormalization ? w v {epsilon=1e-05}; s=Mul n k; y=MatMul s w8"},
    /* bytes: their range is that of all rows */
    {BEFORE NORM BYTES "y=tenon.MatMulIntegerToFloat q wi s o", AFTER NORMED BYTES CUT_BYTES},
    /* a norm that something else reads, or over other axes */
    {BEFORE NORM "!o=Neg n; y=MatMul n w8", AFTER NORMED "o=Neg n; ?=Slice n step step const; y=MatMul ? w8"},
    {BEFORE "n=LayerNormalization t w {axis=1}; y=MatMul n w8",
     AFTER "n=LayerNormalization t w {epsilon=1e-05}; ?=Slice n step step const; y=MatMul ? w8"},
    /* something else: read by others, two of them, several rows at once, another length */
    {BEFORE "!m=MatMul t w8; y=ReduceMax m", AFTER "m=MatMul t w8; y=ReduceMax m"},
    {BEFORE "!m=MatMul t w8; y=MatMul x w8", AFTER "m=MatMul t w8; y=MatMul x w8"},
    {BEFORE "m=MatMul t w8; y=Add m x", AFTER "m=MatMul t w8; y=Add m x"},
    {BEFORE "m=MatMul t w8; y=Add x m", AFTER "m=MatMul t w8; y=Add x m"},
    {BEFORE "m=MatMul t w8; y=Softmax m {axis=1}", AFTER "m=MatMul t w8; y=Softmax m"},
    {BEFORE "r=Transpose t {perm=0,2,1}; y=MatMul t r", AFTER "r=Transpose t {perm=0,2,1}; y=MatMul t r"},
    {BEFORE "c=Concat t t {axis=1}; y=MatMul c w8", AFTER "c=Concat t t; y=MatMul c w8"},
    /* without caches nobody says how many */
    {"t=Neg x; y=MatMul t w8", ""},
};

/* The cut comes behind the cache: both, as run.c has them. */
static tn_status cut(tni_graph *g, uint32_t *n, tn_error *err) {
  uint32_t caches = 0, rows = 0;
  tn_status st = tni_pass_cache(g, &caches, err);
  if (st == TN_OK) st = tni_infer_graph(g, err);
  if (st == TN_OK) st = tni_pass_last_rows(g, &rows, err);
  *n = caches + rows;
  return st;
}

static void test_forms(void) { run_forms(forms, sizeof forms / sizeof *forms, cut, 0); }

/* One row, and two, of a run of four: the bits of the whole run's last ones. rows_limit is the length. */
static void check_rows(const char *text, int64_t columns) {
  tn_error err;
  uint32_t n;
  tni_error_init(&err);
  tni_graph *g = form_graph(text, &err), *plain = form_graph(text, &err);
  tni_arena *a = tni_arena_create();
  CU_ASSERT_EQUAL_FATAL(cut(g, &n, &err), TN_OK);
  CU_ASSERT_EQUAL(tni_pass_last_rows(g, &n, &err), TN_OK); /* a second time there is nothing to do */
  CU_ASSERT_EQUAL(n, 0);
  CU_ASSERT_EQUAL_FATAL(tni_infer_graph(g, &err), TN_OK);
  CU_ASSERT_FATAL(g->rows_symbol != TN_NONE);
  CU_ASSERT_EQUAL(g->rows_limit, g->values[tni_graph_find(g, "x")]->pub.dims[1]);
  for (int64_t rows = 1; rows < 3; rows++) {
    const form_sizes z = {.b = 2, .s = 4, .past = 5, .rows = rows};
    tni_tensor whole[FORM_OUTPUTS], some[FORM_OUTPUTS];
    form_run(plain, &z, a, whole);
    form_run(g, &z, a, some);
    CU_ASSERT_EQUAL_FATAL(some[2].dims[1], rows);
    for (int64_t b = 0; b < 2; b++)
      CU_ASSERT(memcmp((const float *)some[2].data + b * rows * columns,
                       (const float *)whole[2].data + (b * 4 + 4 - rows) * columns,
                       (size_t)(rows * columns) * sizeof(float)) == 0);
    CU_ASSERT(form_same(&whole[0], &some[0], 0) && form_same(&whole[1], &some[1], 0));
  }
  tni_arena_destroy(a);
  tni_graph_destroy(g);
  tni_graph_destroy(plain);
}

static void test_rows(void) {
  check_rows(BEFORE NORM "m=MatMul n w8; y=Add m w", 8);
  check_rows(BEFORE NORM BYTES "y=tenon.MatMulIntegerToFloat q wi s o", 12);
}

/* The model has a symbol of the new one's name. */
static void test_symbol(void) {
  tn_error err;
  uint32_t n;
  tn_id theirs;
  tni_error_init(&err);
  tni_graph *g = form_graph(BEFORE "y=MatMul t w8", &err);
  CU_ASSERT(tni_ex_is_sym(g->exprs, tni_ex_sym(g->exprs, "rows"), &theirs));
  CU_ASSERT_EQUAL(cut(g, &n, &err), TN_OK);
  CU_ASSERT(g->rows_symbol != TN_NONE && g->rows_symbol != theirs);
  tni_graph_destroy(g);
}

CU_pSuite suite_last_rows(void) {
  CU_pSuite s = CU_add_suite("last rows", NULL, NULL);
  return s && CU_add_test(s, "forms", test_forms) && CU_add_test(s, "rows", test_rows) &&
                 CU_add_test(s, "symbol", test_symbol)
             ? s
             : NULL;
}
