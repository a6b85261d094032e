/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/passes/forms.h"

#include "runtime/passes/fuse/fuse.h"

#define FLAT "f=Reshape x #-1,8; "

static const form forms[] = {
    /* one activation */
    {"!q1=MatMul x w8; !k2=MatMul x x8; y=MatMul x y8", "q1,k2,y=FusedMatMul x w8 x8 y8 {0:0+8 1:0+8 2:0+8|| 0 1 2}"},
    {"q1=MatMul x w12; k2=MatMul x w8; n=Neg q1; m=Neg k2; y=Concat n m {axis=2}",
     "q1,k2=FusedMatMul x w12 w8 {0:0+12 1:0+8|| 0 1}; n=Neg q1; m=Neg k2; y=Concat n m"},
    {FLAT "!q1=Gemm f w8; y=Gemm f x8 v", "f=Reshape x #-1,8; q1,y=FusedMatMul f w8 x8 v {0:0+8 1:0+8| Add(1,2)| 0 3}"},
    {FLAT "!q1=Gemm f t12 {transB=1}; y=Gemm f x8 v {transB=1}",
     "f=Reshape x #-1,8; q1,y=FusedMatMul f t12 x8 v {0:0+12 1:0+8T| Add(1,2)| 0 3}"},
    {"!q1=MatMul h h8; y=Neg h", ""},                     /* alone */
    {"!q1=MatMul x w8; y=MatMul z x8", ""},               /* two activations */
    {FLAT "!q1=Gemm f w8; y=Gemm f x8 {transB=1}", ""},   /* stored another way round */
    {FLAT "!q1=Gemm f w8; y=Gemm f x8 {alpha=0.5f}", ""}, /* scaled */
    {FLAT "q1=Gemm f w8; y=Gemm f x8 q1", ""},            /* reads the other's result */
    {FLAT "q1=Gemm f w8; c=Neg q1; y=Gemm f x8 c", ""},   /* waits for the other */
    /* the third waits for the first, the second does not */
    {FLAT "q1=Gemm f w8; !k2=Gemm f y8; c=Neg q1; y=Gemm f x8 c",
     "f=Reshape x #-1,8; q1,k2=FusedMatMul f w8 y8 {0:0+8 1:0+8|| 0 1}; c=Neg q1; y=Gemm f x8 c {alpha=1}"},
    /* parts of one product */
    {"p=MatMul x w24; a1,b1,c1=Split p #8,8,8 {axis=-1}; n=Add a1 b1; y=Add n c1",
     "a1,b1,c1=FusedMatMul x w24 {0:0+8 0:8+8 0:16+8|| 0 1 2}; n=Add a1 b1; y=Add n c1"},
    {"p=MatMul x w12; !a1=Slice p #0 #8 #2; y=Slice p #-4 #99 #-1 #1", "a1,y=FusedMatMul x w12 {0:0+8 0:8+4|| 0 1}"},
    {"p=MatMul x w12; y=Slice p #2 #10 #2", "y=FusedMatMul x w12 {0:2+8|| 0}"},
    {"p=MatMul x w12; !a1=Slice p #0 #8 #2; y=Slice p #0 #12 #2 #2", ""}, /* every other column */
    {"p=MatMul x w12; !a1=Slice p #0 #8 #2; y=Neg p", ""},                /* somebody wants all of it */
    {"!p=MatMul x w12; y=Slice p #0 #8 #2", ""},
    {"p=MatMul x w12; y=Slice p #0 #1 #1", ""}, /* another axis */
    /* a bias is cut too */
    {FLAT "p=Gemm f w24 b24; a1,b1,c1=Split p #8,8,8 {axis=1}; n=Add a1 b1; y=Add n c1",
     "f=Reshape x #-1,8; a1,b1,c1=FusedMatMul f w24 const const const {0:0+8 0:8+8 0:16+8| Add(0,3) Add(1,4) "
     "Add(2,5)| 6 7 8}; n=Add a1 b1; y=Add n c1"},
    {FLAT "p=Gemm f w24 u; a1,b1=Split p #12,12 {axis=1}; y=Add a1 b1",
     "f=Reshape x #-1,8; a1,b1=FusedMatMul f w24 u {0:0+12 0:12+12| Add(0,2) Add(1,2)| 3 4}; y=Add a1 b1"},
    /* between Reshapes */
    {FLAT "p=Gemm f w12 b12; s0=Shape x; s1=Slice s0 #0 #2 #0; s2=Concat s1 #12 {axis=0}; y=Reshape p s2",
     "y=FusedMatMul x w12 b12 {0:0+12| Add(0,1)| 2}"},
    {FLAT "p=MatMul f w12; s0=Shape x; s1=Slice s0 #0 #2 #0; s2=Concat s1 #12 {axis=0}; y=Reshape p s2",
     "y=MatMul x w12"},
    {FLAT "p=Gemm f t12 {transB=1}; s0=Shape x; s1=Slice s0 #0 #2 #0; s2=Concat s1 #12 {axis=0}; y=Reshape p s2",
     "y=FusedMatMul x t12 {0:0+12T|| 0}"},
    {FLAT "!p=Gemm f w12; s0=Shape x; s1=Slice s0 #0 #2 #0; s2=Concat s1 #12 {axis=0}; y=Reshape p s2", ""},
    {FLAT "p=Gemm f w12; y=Reshape p #-1,3,4", ""}, /* to something else */
};

static void test_siblings(void) { run_forms(forms, sizeof forms / sizeof forms[0], tni_pass_siblings, 0); }

CU_pSuite suite_siblings(void) {
  CU_pSuite s = CU_add_suite("siblings", NULL, NULL);
  return s && CU_add_test(s, "siblings", test_siblings) ? s : NULL;
}
