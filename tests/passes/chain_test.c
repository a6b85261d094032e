/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/passes/forms.h"

#include "runtime/passes/fuse/fuse.h"

static const form products[] = {
    {"p=MatMul x w8; y=Add p z", "y=FusedMatMul x w8 z {0:0+8| Add(0,1)| 2}"},
    {"p=MatMul x w8; y=Add p p", "y=FusedMatMul x w8 {0:0+8| Add(0,0)| 1}"},
    {"p=MatMul x w8; y=Sub v p", "y=FusedMatMul x w8 v {0:0+8| Sub(1,0)| 2}"},
    {"p=MatMul x w12; b=Add b12 p; y=Relu b", "y=FusedMatMul x w12 b12 {0:0+12| Add(1,0) Relu(2)| 3}"},
    {"p=MatMul x w8; n=Mul p k; y=Neg n", "y=FusedMatMul x w8 const {0:0+8| Mul(0,1) Neg(2)| 3}"}, /* [1,1,8] */
    {"p=MatMul x w8; n=Div p 0.5; t=Tanh n; y=Mul t 3",
     "y=FusedMatMul x w8 0.5 3 {0:0+8| Div(0,1) Tanh(3) Mul(4,2)| 5}"},
    {"p=MatMul x w8; n=Mul p u; y=Gelu n", "y=FusedMatMul x w8 u {0:0+8| Mul(0,1) Gelu(2)| 3}"},
    {"f=Reshape x #-1,8; p=Gemm f w8 v; y=Sigmoid p",
     "f=Reshape x #-1,8; y=FusedMatMul f w8 v {0:0+8| Add(0,1) "
     "Sigmoid(2)| 3}"},
    /* what is read outside stays a result */
    {"!p=MatMul x w8; y=Neg p", "p,y=FusedMatMul x w8 {0:0+8| Neg(0)| 0 1}"},
    {"p=MatMul x w8; !a1=Add p z; y=Mul a1 v", "a1,y=FusedMatMul x w8 z v {0:0+8| Add(0,1) Mul(3,2)| 3 4}"},
    {"p=MatMul x w8; s1=Sigmoid p; y=Mul p s1", "y=FusedMatMul x w8 {0:0+8| Sigmoid(0) Mul(0,1)| 2}"},
    /* somebody else reads it, and the operator would wait for more */
    {"!p=MatMul x w8; t=Abs z; y=Add p t", ""},
    /* would wait for itself */
    {"p=MatMul x w8; t=Abs p; y=Add p t", ""},
    /* a residual that comes from behind: the second product takes the sum */
    {"p=MatMul x w8; r=Abs p; q1=MatMul r x8; y=Add q1 p",
     "p=MatMul x w8; r=Abs p; y=FusedMatMul r x8 p {0:0+8| "
     "Add(0,1)| 2}"},
    /* does not fit */
    {"p=MatMul x w8; y=Add p a", ""}, /* [b,s,1] */
    {"p=MatMul x w8; y=Add p o", ""}, /* [1,s,8] */
    {"p=MatMul x w8; y=Add p q", ""}, /* the result is larger */
    {"p=MatMul x w8; y=Abs p", ""},   /* an operator that chains do not have */
    {"p=MatMul q q8; y=Neg p", ""},   /* no weight */
    {"p=MatMul x w8; t=Transpose p {perm=0,2,1}; y=Neg t", ""},
};

static const form runs[] = {
    {"n=Neg x; y=Relu n", "y=Elementwise x {Neg(0) Relu(1)| 2}"},
    {"n=Add x z; m=Mul n v; y=Sigmoid m", "y=Elementwise x z v {Add(0,1) Mul(3,2) Sigmoid(4)| 5}"},
    {"n=Neg x; s1=Sigmoid n; y=Mul n s1", "y=Elementwise x {Neg(0) Sigmoid(1) Mul(1,2)| 3}"},
    {"n=Neg x; y=Mul n n", "y=Elementwise x {Neg(0) Mul(1,1)| 2}"},
    {"n=Add x a; y=Neg n", "y=Elementwise x a {Add(0,1) Neg(2)| 3}"},
    {"n=Neg x; !m=Neg n; y=Abs m", "m=Elementwise x {Neg(0) Neg(1)| 2}; y=Abs m"},
    {"y=Neg x", ""},
    {"!n=Neg x; y=Neg n", ""},   /* both are read */
    {"n=Tanh v; y=Add x n", ""}, /* smaller inside: it would be computed again and again */
    {"n=Abs x; y=Neg n", ""},
    {"n=Add i i; y=Neg n", ""}, /* integers */
};

/* Rounded once, not after every operator. */
static const form halves[] = {
    {"p=MatMul h h8; n=Add p hw; y=Mul n h", "y=FusedMatMul h h8 hw h {0:0+8| Add(0,1) Mul(3,2)| 4}"},
    {"n=Neg h; y=Add n hw", "y=Elementwise h hw {Neg(0) Add(2,1)| 3}"},
};

static void test_halves(void) { run_forms(halves, sizeof halves / sizeof halves[0], tni_pass_chain, 1e-5); }
static void test_products(void) { run_forms(products, sizeof products / sizeof products[0], tni_pass_chain, 0); }

static void test_runs(void) { run_forms(runs, sizeof runs / sizeof runs[0], tni_pass_chain, 0); }

/* Both passes, until nothing fires. */
static tn_status both(tni_graph *g, uint32_t *n, tn_error *err) {
  tn_status st = TN_OK;
  uint32_t fired = 1;
  *n = 0;
  while (st == TN_OK && fired) {
    uint32_t a = 0, b = 0;
    st = tni_pass_siblings(g, &a, err);
    if (st == TN_OK) st = tni_infer_graph(g, err);
    if (st == TN_OK) st = tni_pass_chain(g, &b, err);
    if (st == TN_OK) st = tni_infer_graph(g, err);
    *n += fired = a + b;
  }
  return st;
}

static const form together[] = {
    {"g1=MatMul x w12; u1=MatMul x x12; s1=Swish g1; y=Mul s1 u1",
     "y=FusedMatMul x w12 x12 {0:0+12 1:0+12| Swish(0) Mul(2,1)| 3}"},
    {"p=MatMul x w24; a1,b1=Split p #12,12 {axis=2}; s1=Gelu a1; y=Mul b1 s1",
     "y=FusedMatMul x w24 {0:0+12 0:12+12| Gelu(0) Mul(1,2)| 3}"},
    {"q1=MatMul x w8; k1=MatMul x x8; !q2=Add q1 v; y=Add k1 w",
     "q2,y=FusedMatMul x w8 x8 v w {0:0+8 1:0+8| Add(0,2) Add(1,3)| 4 5}"},
    {"p=MatMul x w24; c=Add p b24; !a1=Slice c #0 #12 #2; y=Slice c #12 #24 #2",
     "a1,y=FusedMatMul x w24 const const {0:0+12 0:12+12| Add(0,2) Add(1,3)| 4 5}"},
    /* a sum of the second product waits for the first: they are joined, it stays outside */
    {"q1=MatMul x w8; k1=MatMul x x8; t=Abs q1; y=Add k1 t",
     "q1,k1=FusedMatMul x w8 x8 {0:0+8 1:0+8|| 0 1}; t=Abs q1; y=Add k1 t"},
};

static void test_together(void) { run_forms(together, sizeof together / sizeof together[0], both, 0); }

CU_pSuite suite_chain(void) {
  CU_pSuite s = CU_add_suite("chain", NULL, NULL);
  if (!s || !CU_add_test(s, "products", test_products) || !CU_add_test(s, "runs", test_runs)) return NULL;
  return CU_add_test(s, "halves", test_halves) && CU_add_test(s, "with siblings", test_together) ? s : NULL;
}
