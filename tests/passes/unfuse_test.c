/* SPDX-License-Identifier: Apache-2.0
 *
 * There and back: both passes, then every fused node taken apart.
 */
#include "runtime/passes/fuse/fuse.h"
#include "tests/passes/forms.h"

static tn_status fuse(tni_graph *g, tn_error *err) {
  tn_status st = TN_OK;
  uint32_t fired = 1;
  while (st == TN_OK && fired) {
    uint32_t a = 0, b = 0;
    st = tni_pass_siblings(g, &a, err);
    if (st == TN_OK) st = tni_infer_graph(g, err);
    if (st == TN_OK) st = tni_pass_chain(g, &b, err);
    if (st == TN_OK) st = tni_infer_graph(g, err);
    fired = a + b;
  }
  return st;
}

static tn_status there_and_back(tni_graph *g, uint32_t *n, uint32_t how, tn_error *err) {
  tni_unfused parts;
  tn_status st = fuse(g, err);
  const uint32_t n_nodes = g->n_nodes;
  *n = 0;
  for (tn_id i = 0; st == TN_OK && i < n_nodes; i++) {
    if (g->nodes[i]->dead) continue;
    st = tni_unfuse_node(g, i, how, &parts, err);
    *n += parts.n_products + parts.n_ops;
    CU_ASSERT_EQUAL(g->nodes[i]->dead, parts.n_products + parts.n_ops > 0);
  }
  return st;
}

static tn_status all(tni_graph *g, uint32_t *n, tn_error *err) { return there_and_back(g, n, TNI_UNFUSE_ALL, err); }
static tn_status chain(tni_graph *g, uint32_t *n, tn_error *err) { return there_and_back(g, n, TNI_UNFUSE_CHAIN, err); }

static const form plain[] = {
    {"p=MatMul x w8; y=Add p z", "?=MatMul x w8; y=Add ? z"},
    {"!q1=MatMul x w8; y=MatMul x x8", "q1=MatMul x w8; y=MatMul x x8"},
    {"g1=MatMul x w12; u1=MatMul x x12; s1=Swish g1; y=Mul s1 u1",
     "?=MatMul x w12; ?=Swish ? {alpha=1}; ?=MatMul x x12; y=Mul ? ?"},
    {"p=MatMul x w8; n=Gelu p {approximate=\"tanh\"}; y=Gelu n",
     "?=MatMul x w8; ?=Gelu ? {approximate=tanh}; y=Gelu ? {approximate=none}"},
    {"p=MatMul x w24; a1,b1,c1=Split p #8,8,8 {axis=-1}; n=Abs a1; m=Abs b1; !o1=Mul n m; y=Abs c1",
     "?=MatMul x w24; a1,b1,c1=Split ? const; n=Abs a1; m=Abs b1; o1=Mul n m; y=Abs c1"},
    {"p=MatMul x w12; !a1=Slice p #0 #7 #2; y=Slice p #8 #99 #-1 #1",
     "?=MatMul x w12; a1=Slice ? const const const; y=Slice ? const const const"},
    {"p=MatMul x w24; c=Add p b24; !a1=Slice c #0 #12 #2; y=Slice c #12 #24 #2",
     "?=MatMul x w24; ?,?=Split ? const; a1=Add ? const; y=Add ? const"},
    {"f=Reshape x #-1,8; p=Gemm f t12 b12 {transB=1}; y=Neg p",
     "f=Reshape x #-1,8; ?=Gemm f t12 {alpha=1}; ?=Add ? b12; y=Neg ?"},
    {"f=Reshape x #-1,8; p=Gemm f t12 {transB=1}; s0=Shape x; s1=Slice s0 #0 #2 #0; s2=Concat s1 #12 {axis=0}; "
     "r=Reshape p "
     "s2; y=Neg r",
     "?=Reshape x const; ?=Gemm ? t12 {alpha=1}; ?=Reshape ? step; "
     "y=Neg ?"},
    {"!p=MatMul x w8; y=Neg p", "p=MatMul x w8; y=Neg p"},
    {"n=Add x z; m=Mul n v; y=Sigmoid m", "?=Add x z; ?=Mul ? v; y=Sigmoid ?"},
};

static const form joined[] = {
    {"p=MatMul x w8; y=Add p z", "?=MatMul x w8; y=Add ? z"},
    {"g1=MatMul x w12; u1=MatMul x x12; s1=Swish g1; y=Mul s1 u1",
     "?,?=FusedMatMul x w12 x12 {0:0+12 1:0+12|| 0 1}; ?=Swish ? {alpha=1}; y=Mul ? ?"},
    {"q1=MatMul x w8; k1=MatMul x x8; !q2=Add q1 v; y=Abs k1",
     "?,k1=FusedMatMul x w8 x8 {0:0+8 1:0+8|| 0 1}; y=Abs k1; q2=Add ? v"},
};

static void test_all(void) { run_forms(plain, sizeof plain / sizeof plain[0], all, 0); }
static void test_joined(void) { run_forms(joined, sizeof joined / sizeof joined[0], chain, 0); }

CU_pSuite suite_unfuse(void) {
  CU_pSuite s = CU_add_suite("unfuse", NULL, NULL);
  return s && CU_add_test(s, "everything", test_all) && CU_add_test(s, "chains", test_joined) ? s : NULL;
}
