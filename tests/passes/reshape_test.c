/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/passes/forms.h"

#include "runtime/passes/forms/forms.h"

#define REPEATS "f=Shape x; f1=Slice f #0 #1 #0; rp=Concat f1 #1,1 {axis=0}; "

static const form forms[] = {
    /* reshapes */
    {"r=Reshape w #2,4; y=Reshape r #4,2", "y=Reshape w const"},
    {"r=Unsqueeze x #0; y=Unsqueeze r #4", "y=Reshape x step"},
    {"r=Reshape x #0,0,2,4; t=Abs r; y=Reshape t #0,0,8", ""},
    {"r=Reshape x #0,0,2,4; y=Reshape r #0,0,8", "y=Reshape x step"}, /* identity's, next round */
    {"r=Reshape x #0,0,2,4; y=Reshape r #0,0,4,2", "y=Reshape x step"},
    {"r=Unsqueeze w #0; f=Flatten r; y=Squeeze f #0", "y=Reshape w const"},
    {"r=Unsqueeze x #1; t=Neg r; y=Add t r", ""},
    {"r=Unsqueeze x #1; t=Squeeze r #1; y=Add t r", "r=Unsqueeze x #1; t=Reshape x step; y=Add t r"},
    /* transposes */
    {"t=Transpose q {perm=0,2,1,3}; y=Transpose t {perm=0,1,3,2}", "y=Transpose q {perm=0,2,3,1}"},
    {"t=Transpose q {perm=1,2,3,0}; y=Transpose t {perm=1,2,3,0}", "y=Transpose q {perm=2,3,0,1}"},
    {"t=Transpose q; y=Transpose t {perm=0,2,1,3}", "y=Transpose q {perm=3,1,2,0}"},
    {"t=Transpose q; y=Transpose t", "y=Transpose q {perm=0,1,2,3}"},
    {"t=Transpose q; f=Neg t; y=Transpose f", ""},
    /* casts */
    {"c=Cast i {to=7}; y=Cast c {to=6}", "y=Cast i {to=6}"},
    {"c=Cast i {to=7}; y=Cast c {to=1}", "y=Cast i {to=1}"},
    {"c=Cast i {to=7}; y=Cast c {to=2}", "y=Cast i {to=2}"},
    {"c=Cast i {to=11}; y=Cast c {to=6}", "y=Cast i {to=6}"},
    {"c=Cast h {to=1}; y=Cast c {to=11}", "y=Cast h {to=11}"},
    {"c=Cast h {to=1}; y=Cast c {to=10}", "y=Cast h {to=10}"},
    {"c=Cast x {to=10}; y=Cast c {to=1}", ""},
    {"c=Cast l {to=6}; y=Cast c {to=7}", ""},
    {"c=Cast i {to=1}; y=Cast c {to=6}", ""},
    {"c=Cast i {to=9}; y=Cast c {to=6}", ""},
    {"c=Cast i {to=11}; y=Cast c {to=1}", ""}, /* rounds once either way, but that is not proved here */
    {"c=Cast x {to=11}; y=Cast c {to=10}", ""},
    {"c=Cast h {to=16}; y=Cast c {to=1}", ""},
    /* expands */
    {"f=Shape x; g=Expand o f; y=Add g x", "y=Add o x"},
    {"f=Shape x; g=Expand o f; y=Mul x g", "y=Mul x o"},
    {"f=Shape x; g=Expand a f; y=Sub x g", "y=Sub x a"},
    {"f=Shape x; g=Expand w f; y=Sub x g", "y=Sub x w"},
    {REPEATS "g=Tile o rp; y=Add g x", "y=Add o x"},
    {REPEATS "g=Tile x rp; c1=Concat x x {axis=0}; y=Mul g c1", ""}, /* b times b rows */
    {"f=Shape x; g=Expand o f; y=Add g w", ""},                      /* nobody else spans b */
    {"f=Shape x; g=Expand o f; y=Neg g", ""},
    {"g=Expand a #1,1,1,8; y=Add x g", ""}, /* a fourth axis that x does not have */
    {"f=Shape x; g=Expand o f; j=Expand a f; c=Less g j; y=Where c x z",
     "f=Shape x; j=Expand a f; c=Less o j; y=Where c x z"},
    {"f=Shape x; g=Expand o f; c=Less g x; y=Where c x z", "c=Less o x; y=Where c x z"},
};

#define XZ "t=Transpose z {perm=0,2,1}; m=MatMul x t; "
#define UNFOLD(v) "Reshape " v " #0,1,0,-1"
#define LIFTED "?=Reshape x step; ?=Reshape z step; ?=Transpose ? {perm=0,1,3,2}; ?=MatMul ? ?; "

static const form unflatten[] = {
    {XZ "y=" UNFOLD("m"), LIFTED "y=Identity ?"},
    {XZ "a=Mul m 0.5; c=Add a m3; p=Softmax c {axis=-1}; y=" UNFOLD("p"),
     LIFTED "?=Mul ? 0.5; ?=Add ? m3; ?=Softmax ?; y=Identity ?"},
    {XZ "p=Softmax m {axis=2}; o=MatMul p x; y=Reshape o #0,1,-1,8",
     LIFTED "?=Softmax ?; ?=Reshape x step; ?=MatMul ? ?; y=Identity ?"},
    {XZ "u=MatMul z t; e=Exp u; c=Sub m2 m; d=Div c e; y=" UNFOLD("d"),
     "t=Transpose z {perm=0,2,1}; u=MatMul z t; e=Exp u; " LIFTED
     "?=Sub m2 ?; ?=Reshape e step; ?=Div ? ?; y=Identity ?"},
    /* a transposed operand: from before it was flattened, or reshaped where that has other dims */
    {"u=Unsqueeze x #1; r=Reshape u #0,-1,8; t=Transpose r {perm=0,2,1}; y=Reshape t #0,1,8,-1",
     "u=Unsqueeze x #1; y=Transpose u {perm=0,1,3,2}"},
    {"u=Unsqueeze x #2; r=Reshape u #0,-1,8; t=Transpose r {perm=0,2,1}; y=Reshape t #0,1,8,-1",
     "u=Unsqueeze x #2; r=Reshape u #0,-1,8; ?=Reshape r step; y=Transpose ? {perm=0,1,3,2}"},
    {"t=Transpose x {perm=0,2,1}; y=Reshape t #0,1,8,-1", ""},
    {"r=Reshape q #-1,2,8; t=Transpose r {perm=1,0,2}; y=Reshape t #0,1,-1,8", ""},
    /* something else */
    {"m=MatMul x x8; y=" UNFOLD("m"), ""},
    {"e=Exp x; y=" UNFOLD("e"), ""},
    {XZ "p=Softmax m {axis=1}; y=" UNFOLD("p"), ""},
    {XZ "e=Exp m; y=" UNFOLD("e"), ""},
    {XZ "r=" UNFOLD("m") "; n=Neg m; y=Add r n", ""},
    {XZ "y=Reshape m #0,0,1,-1", ""},
    {XZ "y=Reshape m #0,-1", ""},
};

#define COPIES "t=Transpose fr {perm=2,1,0}; u=Unsqueeze t #1; ex=Expand u #1,2,1,1; "

static const form repeat[] = {
    {COPIES "y=GatherND ex pp_i", "t=Transpose fr {perm=2,1,0}; u=Unsqueeze t #1; ?=Squeeze u const; y=Gather ? const"},
    {COPIES "y=GatherND ex pp_n", "t=Transpose fr {perm=2,1,0}; u=Unsqueeze t #1; ?=Squeeze u const; y=Gather ? const"},
    /* what is repeated is another axis, or the copies are not the same */
    {"t=Transpose fr {perm=2,1,0}; u=Unsqueeze t #0; ex=Expand u #2,1,1,1; y=GatherND ex pp_t", ""},
    {"t=Transpose fr {perm=2,1,0}; u=Unsqueeze t #1; ex=Concat u u {axis=1}; y=GatherND ex pp_i", ""},
    {"t=Transpose f1 {perm=2,1,0}; u=Unsqueeze t #1; ex=Expand u #1,2,1,3; y=GatherND ex pp_i", ""},
    {"u=Unsqueeze a #3; ex=Expand u #1,1,1,3; y=Reshape ex #0,-1,3", "y=Gather a const"},
    {"u=Unsqueeze x #-1; ex=Expand u #1,1,1,3; y=Reshape ex #0,0,24", "y=Gather x const"},
    {"u=Unsqueeze x #2; ex=Expand u #1,1,3,1; y=Reshape ex #0,0,24", ""}, /* the whole row again and again */
    {"u=Unsqueeze a #3; ex=Expand u #1,1,2,3; y=Reshape ex #0,0,6", ""},
    {COPIES "i2=Add pp_i #0; y=GatherND ex i2", ""}, /* no constant yet */
};

/* Tokens flattened, and put back. */
#define FLAT "f=Reshape x #-1,8; "
#define BACK(v) "c=Shape x; y=Reshape " v " c"

static const form rows[] = {
    {FLAT "m=MatMul f w8; a=Add m w; " BACK("a"), "?=MatMul x w8; ?=Add ? w; y=Identity ?"},
    {FLAT "m=Gemm f w8 v; r=Relu m; s=Add r f; " BACK("s"),
     "?=MatMul x w8; ?=Add ? v; ?=Relu ?; ?=Add ? x; y=Identity ?"},
    {FLAT "m=Gemm f w8 v {transB=1}; " BACK("m"), "?=Transpose w8 {perm=1,0}; ?=MatMul x ?; ?=Add ? v; y=Identity ?"},
    {FLAT "m=Gemm f w8; " BACK("m"), "?=MatMul x w8; y=Identity ?"},
    {FLAT "l=LayerNormalization f w v; " BACK("l"), "?=LayerNormalization x w v {epsilon=1e-05}; y=Identity ?"},
    {FLAT "s=Softmax f {axis=1}; " BACK("s"), "?=Softmax x; y=Identity ?"},
    /* two ways in, two out */
    {FLAT "g=Reshape z #-1,8; m=Mul f g; k=Neg m; c=Shape x; !q1=Reshape m c; y=Reshape k c",
     "?=Mul x z; ?=Neg ?; q1=Identity ?; y=Identity ?"},
    /* a router: the best two of eight, their weights scattered among zeros */
    {FLAT "t1,t2=TopK f #2 {axis=-1}; p=Softmax t1 {axis=-1}; o0=Mul f 0; m=ScatterElements o0 t2 p {axis=1}; "
          "s1,s2=Split m #4,4 {axis=1}; j=Concat s2 s1 {axis=1}; " BACK("j"),
     "?,?=TopK x #2; ?=Softmax ?; ?=Mul x 0; ?=ScatterElements ? ? ?; ?,?=Split ? #4,4; ?=Concat ? ?; y=Identity ?"},
    {FLAT "h2=ReduceSum f #1; e2=Sub f h2; i2=Slice e2 #0 #8 #1; " BACK("i2"),
     "?=ReduceSum x const; ?=Sub x ?; ?=Slice ? #0 #8 const; y=Identity ?"},
    /* a row's own axes */
    {FLAT "r=Reshape f #-1,2,4; p=Softmax r {axis=2}; b2=Reshape p #-1,8; " BACK("b2"),
     "?=Reshape x step; ?=Softmax ?; ?=Reshape ? step; y=Identity ?"},
    {FLAT "u1=Unsqueeze f #1; n=Neg u1; s=Squeeze n #1; " BACK("s"),
     "?=Unsqueeze x const; ?=Neg ?; ?=Squeeze ? const; y=Identity ?"},
    /* rows meet each other, leave, or come from elsewhere */
    {FLAT "s=Softmax f {axis=0}; " BACK("s"), ""},
    {FLAT "h2=ReduceSum f #0; e2=Sub f h2; " BACK("e2"), ""},
    {FLAT "t=Transpose f; n=Transpose t; m=Neg n; " BACK("m"), ""},
    {FLAT "!n=Neg f; " BACK("n"), ""},
    {FLAT "n=Neg f; y=Reshape n #-1,2,4", ""},
    {FLAT "fs=Shape f; r2=Reshape z #8,-1; t=Transpose r2; m=Add f t; " BACK("m"), ""},
    {FLAT "m=Gemm f w8 v {alpha=2.0}; " BACK("m"), ""},
    {"f=Reshape x #-1,4; n=Neg f; " BACK("n"), ""}, /* half a row */
};

/* A scale of its own for every row, of eight. */
static const form row_scales[] = {
    {FLAT "l=LayerNormalization f w8; " BACK("l"), ""},
    {FLAT "l=RMSNormalization f w8; " BACK("l"), ""},
};

static void test_row_scales(void) {
  static const form_sizes eight = {.b = 2, .s = 4};
  run_forms_at(row_scales, sizeof row_scales / sizeof row_scales[0], tni_pass_rows, 1e-6, &eight);
}

static void test_repeat(void) { run_forms(repeat, sizeof repeat / sizeof repeat[0], tni_pass_repeat, 0); }
static void test_rows(void) { run_forms(rows, sizeof rows / sizeof rows[0], tni_pass_rows, 1e-6); }
static void test_forms(void) { run_forms(forms, sizeof forms / sizeof forms[0], tni_pass_reshape, 0); }
static void test_unflatten(void) {
  run_forms(unflatten, sizeof unflatten / sizeof unflatten[0], tni_pass_unflatten, 0);
}

CU_pSuite suite_reshape(void) {
  CU_pSuite s = CU_add_suite("movement", NULL, NULL);
  return s && CU_add_test(s, "reshape", test_forms) && CU_add_test(s, "unflatten", test_unflatten) &&
                 CU_add_test(s, "repeat", test_repeat) && CU_add_test(s, "rows", test_rows) &&
                 CU_add_test(s, "rows of their own scale", test_row_scales)
             ? s
             : NULL;
}
