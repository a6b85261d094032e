/* SPDX-License-Identifier: Apache-2.0
 *
 * lanes, norms of heads, and movement of axes of one element. Every bit is kept.
 */
#include "tests/passes/forms.h"

#include "runtime/passes/decoder/decoder.h"
#include "runtime/passes/forms/forms.h"

#define TURN(x, y) y "=Transpose " x " {perm=0,2,1,3}; "

static const form lanes[] = {
    /* q, k and v of each head side by side (BLOOM) */
    {"p=MatMul x w24; r=Reshape p #0,0,2,3,4; a0=Gather r %0 {axis=3}; a1=Gather r %1 {axis=3}; a2=Gather r %2 "
     "{axis=-2}; " TURN("a0", "q4") TURN("a1", "k4") TURN("a2", "v4") "y=Attention q4 k4 v4",
     "?=MatMul x const; ?=Reshape ? const; ?=Transpose ? {perm=0,2,1,3}; ?=MatMul x const; ?=Reshape ? const; "
     "?=Transpose ? {perm=0,2,1,3}; ?=MatMul x const; ?=Reshape ? const; ?=Transpose ? {perm=0,2,1,3}; y=Attention ? ? "
     "? {scale=0 softcap=0}"},
    /* the same with a bias, cut by Slices of transposed heads (GPT-NeoX) */
    {"m=MatMul x w24; p=Add m b24; r=Reshape p #0,0,2,12; " TURN("r",
                                                                 "t") "q4=Slice t #0 #4 #3; k4=Slice t #4 #8 #3; "
                                                                      "v4=Slice t #8 #12 #-1; y=Attention q4 k4 v4",
     "?=MatMul x const; ?=Add ? const; ?=Reshape ? const; ?=Transpose ? {perm=0,2,1,3}; ?=MatMul x const; ?=Add ? "
     "const; ?=Reshape ? const; ?=Transpose ? {perm=0,2,1,3}; ?=MatMul x const; ?=Add ? const; ?=Reshape ? const; "
     "?=Transpose ? {perm=0,2,1,3}; y=Attention ? ? ? {scale=0 softcap=0}"},
    /* one head of k and of v behind those of q (Falcon): Slices */
    {"p=MatMul x w24; r=Reshape p #0,0,6,4; a0=Slice r #0 #4 #2; a1=Gather r #4 {axis=2}; a2=Gather r #-1 "
     "{axis=2}; " TURN("a0", "q4") TURN("a1", "k4") TURN("a2", "v4") "y=Attention q4 k4 v4",
     "p=MatMul x w24; ?=Slice p const const const const; ?=Reshape ? const; ?=Transpose ? {perm=0,2,1,3}; ?=Slice p "
     "const const const const; ?=Reshape ? const; ?=Transpose ? {perm=0,2,1,3}; ?=Slice p const const const const; "
     "?=Reshape ? const; ?=Transpose ? {perm=0,2,1,3}; y=Attention ? ? ? {scale=0 softcap=0}"},
    /* something else: the product is read whole as well; one part is read twice; the weight is no constant */
    {"p=MatMul x w24; s=ReduceSum p; r=Reshape p #0,0,2,3,4; a0=Gather r %0 {axis=3}; a1=Gather r %1 {axis=3}; "
     "a2=Gather r %2 {axis=3}; " TURN("a0", "q4") TURN("a1", "k4") TURN("a2", "v4") "a=Attention q4 k4 v4; y=Add a s",
     ""},
    {"p=MatMul x w24; r=Reshape p #0,0,2,12; " TURN(
         "r", "t") "q4=Slice t #0 #8 #3; k4=Slice t #0 #8 #3; v4=Slice t #4 #12 #3; "
                   "y=Attention q4 k4 v4",
     ""},
    {"g=Neg w24; p=MatMul x g; r=Reshape p #0,0,2,12; " TURN("r", "t") "q4=Slice t #0 #4 #3; k4=Slice t #4 #8 #3; "
                                                                       "v4=Slice t #8 #12 #3; y=Attention q4 k4 v4",
     ""},
    /* heads that are there already */
    {"r=Reshape x #0,0,2,4; " TURN("r", "q4") "y=Attention q4 q4 q4", ""},
};

static const form norms[] = {
    {"r=Reshape x #0,0,2,4; y=RMSNormalization r c1 {epsilon=0.5f}",
     "?=RMSNormalization x c1 {epsilon=0.5} heads=2/2; y=Reshape ? #0,0,2,4"},
    {"r=Reshape x #0,-1,4; y=LayerNormalization r c1 c2",
     "?=LayerNormalization x c1 c2 {epsilon=1e-05} heads=2/2; y=Reshape ? #0,-1,4"},
    {"r=Reshape x #0,0,2,4; t=Transpose r {perm=0,2,1,3}; y=RMSNormalization t c1",
     "r=Reshape x #0,0,2,4; ?=RMSNormalization r c1 {epsilon=1e-05}; y=Transpose ? {perm=0,2,1,3}"},
    /* a scale per head, which has its place in the order of the axes */
    {"r=Reshape x #0,0,2,4; t=Transpose r {perm=0,2,1,3}; y=RMSNormalization t sk4", ""},
    {"r=Reshape x #0,0,2,4; t=Transpose r {perm=0,2,1,3}; y=LayerNormalization t c1 sk4", ""},
    /* a row is all of the last axis */
    {"r=Reshape x #-1,8; y=RMSNormalization r w", ""},
};

static const form unit[] = {
    {"m=MatMul mq af; y=Neg m", "m=Mul mq af; y=Neg m"},
    {"t=Transpose a {perm=0,2,1}; y=Neg t", "t=Reshape a step; y=Neg t"},
    {"u=Unsqueeze as #1; c=Cast u {to=1}; y=Reshape c #0,-1,1", "u=Unsqueeze as #1; ?=Reshape u step; y=Cast ? {to=1}"},
    {"r=Reshape am #0,1,1,-1; y=Neg r", "r=Unsqueeze am const; y=Neg r"},
    {"t=Transpose x {perm=0,2,1}; y=Neg t", ""},
};

static const form turn[] = {
    {"m=Mul a k; t=Transpose m {perm=0,2,1}; y=Neg t", "?=Reshape a step; ?=Reshape k const; t=Mul ? ?; y=Neg t"},
    /* the angles of rotary embeddings, as ONNX Runtime's optimizer leaves them */
    {"m=Mul a k; j=Concat m m {axis=2}; c=Cos j; t=Transpose c {perm=0,2,1}; y=Neg t",
     "?=Reshape a step; ?=Reshape k const; ?=Mul ? ?; ?=Concat ? ?; t=Cos ?; y=Neg t"},
    {"u=Transpose x {perm=0,2,1}; c=Cos u; t=Transpose c {perm=0,2,1}; y=Neg t",
     "u=Transpose x {perm=0,2,1}; ?=Transpose u {perm=0,2,1}; t=Cos ?; y=Neg t"},
    {"u=Transpose fr {perm=2,1,0}; p=Gather u #0,0,1,1 {axis=0}; t=Transpose p {perm=2,1,0}; y=Neg t",
     "u=Transpose fr {perm=2,1,0}; ?=Transpose u {perm=2,1,0}; t=Gather ? #0,0,1,1; y=Neg t"},
    {"u=Transpose fr {perm=2,1,0}; p=Gather u %1 {axis=0}; t=Transpose p {perm=1,0}; y=Neg t", ""}, /* an axis goes */
    /* a bias per head, of relative positions */
    {"p=Gather w8 as {axis=0}; t=Transpose p {perm=2,0,1}; y=Neg t",
     "?=Transpose w8 {perm=1,0}; t=Gather ? as; y=Neg t"},
    {"p=Gather w8 as {axis=0}; t=Transpose p {perm=2,1,0}; y=Neg t", ""},
    {"p=Gather w8 as {axis=1}; t=Transpose p {perm=2,0,1}; y=Neg t", ""},
    /* what is broadcast anyway needs no Expand; where one of both must stay, it does */
    {"ea=Expand cx #4,1,8; eb=Expand k #4,1,8; m=Mul ea eb; t=Transpose m {perm=2,1,0}; y=Neg t",
     "?=Reshape cx const; ?=Reshape k const; t=Mul ? ?; y=Neg t"},
    {"sb=Reshape sk #1,2,1; ea=Expand k #4,2,8; eb=Expand sb #4,2,8; m=Add ea eb; t=Transpose m {perm=0,2,1}; y=Neg t",
     ""},
    {"ea=Expand k #4,2,8; m=Mul ea ea; t=Transpose m {perm=0,2,1}; y=Neg t", ""},
    {"c=Cos x; t=Transpose c {perm=0,2,1}; y=Neg t", ""},
    {"m=Mul x k; t=Transpose m {perm=0,2,1}; y=Neg t", ""},
};

static void test_turn(void) { run_forms(turn, sizeof turn / sizeof *turn, tni_pass_turn, 0); }
static void test_lanes(void) { run_forms(lanes, sizeof lanes / sizeof *lanes, tni_pass_lanes, 0); }
static void test_norms(void) { run_forms(norms, sizeof norms / sizeof *norms, tni_pass_heads, 0); }
static void test_unit(void) { run_forms(unit, sizeof unit / sizeof *unit, tni_pass_unit, 0); }

CU_pSuite suite_lanes(void) {
  CU_pSuite s = CU_add_suite("lanes", NULL, NULL);
  return s && CU_add_test(s, "lanes", test_lanes) && CU_add_test(s, "norms of heads", test_norms) &&
                 CU_add_test(s, "axes of one element", test_unit) && CU_add_test(s, "turn", test_turn)
             ? s
             : NULL;
}
