/* SPDX-License-Identifier: Apache-2.0
 *
 * attention: the forms that exporters write, and those that are something else.
 */
#include "tests/passes/forms.h"

#define KT "t=Transpose kk {perm=0,1,3,2}; "
#define TAIL "p=Softmax m {axis=-1}; y=MatMul p vv"
#define REPEAT(x, u, e, r) u "=Unsqueeze " x " #2; " e "=Expand " u " #1,1,2,1,8; " r "=Reshape " e " #0,2,-1,8; "

static const form forms[] = {
    /* the scale, wherever it stands */
    {KT "m=MatMul q t; " TAIL, "y=Attention q kk vv {scale=1 softcap=0}"},
    {KT "s=MatMul q t; m=Mul s 0.25; " TAIL, "y=Attention q kk vv {scale=0.25 softcap=0}"},
    {KT "s=MatMul q t; m=Div s 4; " TAIL, "y=Attention q kk vv {scale=0.25 softcap=0}"},
    {KT "a=Mul 0.5 q; b=Mul t 0.5; m=MatMul a b; " TAIL, "y=Attention q kk vv {scale=0.25 softcap=0}"},
    {"k2=Mul kk 0.5; t=Transpose k2 {perm=0,1,3,2}; a=Div q 2; m=MatMul a t; " TAIL,
     "y=Attention q kk vv {scale=0.25 softcap=0}"},
    /* keys by length: a Transpose remains */
    {"t=Transpose kl {perm=0,2,3,1}; s=MatMul q t; m=Mul s 0.5; " TAIL,
     "?=Transpose kl {perm=0,2,1,3}; y=Attention q ? vv {scale=0.5 softcap=0}"},
    /* masks */
    {KT "s=MatMul q t; m=Add s mm; " TAIL, "y=Attention q kk vv mm {scale=1 softcap=0}"},
    {KT "s=MatMul q t; m=Add mm s; " TAIL, "y=Attention q kk vv mm {scale=1 softcap=0}"},
    {KT "s=MatMul q t; m=Where bm s -inf; " TAIL, "y=Attention q kk vv bm {scale=1 softcap=0}"},
    {KT "s=MatMul q t; w=Where bm 0 -inf; m=Add s w; " TAIL, "y=Attention q kk vv bm {scale=1 softcap=0}"},
    {KT "s=MatMul q t; m=Where bm s -3e38; " TAIL, "?=Where bm const const; y=Attention q kk vv ? {scale=1 softcap=0}"},
    {KT "s=MatMul q t; m=Where bm -3e38 s; " TAIL, "?=Where bm const const; y=Attention q kk vv ? {scale=1 softcap=0}"},
    {KT "s=MatMul q t; m=Where bm -inf s; p=Softmax m {axis=-1}; i=IsNaN p; g=Where i 0 p; y=MatMul g vv",
     "?=Not bm; y=Attention q kk vv ? {scale=1 softcap=0}"},
    {KT "s=MatMul q t; w=Where bm 0 -9; m=Add s w; " TAIL,
     "w=Where bm 0 -9; y=Attention q kk vv w {scale=1 softcap=0}"},
    /* a query without keys: the guard's zeros */
    {KT "n=Not bm; s=MatMul q t; w=Where n 0 -inf; m=Add s w; p=Softmax m {axis=3}; i=IsNaN p; g=Where i 0 p; "
        "y=MatMul g vv",
     "n=Not bm; y=Attention q kk vv n {scale=1 softcap=0}"},
    /* the cap */
    {KT "s=MatMul q t; a=Mul s 0.5; d=Div a 3; h=Tanh d; c=Mul h 3; m=Add c mm; " TAIL,
     "y=Attention q kk vv mm {scale=0.5 softcap=3}"},
    {KT "s=MatMul q t; d=Mul s 0.25; h=Tanh d; m=Mul h 4; " TAIL, "y=Attention q kk vv {scale=1 softcap=4}"},
    /* heads: repeated, and broadcast by MatMul */
    {REPEAT("k1", "ku", "ke", "kr") REPEAT(
         "v1", "vu", "ve", "vr") "t=Transpose kr {perm=0,1,3,2}; m=MatMul q t; p=Softmax m {axis=-1}; y=MatMul p vr",
     "y=Attention q k1 v1 {scale=1 softcap=0}"},
    {"t=Transpose k1 {perm=0,1,3,2}; m=MatMul q t; p=Softmax m {axis=-1}; y=MatMul p v1",
     "y=Attention q k1 v1 {scale=1 softcap=0}"},
    {REPEAT("k1", "ku", "ke", "kr") "t=Transpose kr {perm=0,1,3,2}; m=MatMul q t; " TAIL,
     "ku=Unsqueeze k1 #2; ke=Expand ku #1,1,2,1,8; kr=Reshape ke #0,2,-1,8; y=Attention q kr vv {scale=1 softcap=0}"},
    /* one head without an axis of its own */
    {"t=Transpose z {perm=0,2,1}; s=MatMul x t; m=Div s 2; p=Softmax m {axis=2}; y=MatMul p x",
     "y=Attention x z x {scale=0.5 softcap=0} heads=1/1"},
    {"t=Transpose z3 {perm=1,2,0}; m=MatMul x t; p=Softmax m {axis=2}; y=MatMul p v3",
     "?=Transpose z3 {perm=1,0,2}; y=Attention x ? v3 {scale=1 softcap=0} heads=1/1"},
    {"t=Transpose z {perm=0,2,1}; s=MatMul x t; m=Add s m2; p=Softmax m {axis=2}; y=MatMul p x",
     "y=Attention x z x m2 {scale=1 softcap=0} heads=1/1"},
    {"t=Transpose z {perm=0,2,1}; s=MatMul x t; m=Add s m3; p=Softmax m {axis=2}; y=MatMul p x", ""},
    /* something else */
    {KT "m=MatMul q t; p=Softmax m {axis=2}; y=MatMul p vv", ""},
    {KT "m=MatMul q t; p=Softmax m {axis=-1}; o=MatMul p vv; y=MatMul p o", ""}, /* probabilities are read */
    {KT "m=MatMul q t; p=Softmax m {axis=-1}; o=MatMul p vv; y=MatMul m o", ""}, /* scores are read */
    {KT "s=MatMul q t; m=Where bm s -9; " TAIL, ""},                             /* not low enough */
    {KT "s=MatMul q t; m=Add s mq; " TAIL, ""},                                  /* the mask has no keys */
    {KT "s=MatMul q t; m=Mul s mm; " TAIL, ""},
    {KT "s=MatMul q t; d=Div s 3; h=Tanh d; m=Mul h 2; " TAIL, ""}, /* no cap */
    {KT "s=MatMul q t; d=Mul s 0.5; h=Tanh d; m=Mul h 4; " TAIL, ""},
    {KT "s=MatMul q t; m=Mul s -1; " TAIL, ""},
    {"m=MatMul q q8; " TAIL, ""},
    {KT "s=MatMul q t; m=Add s mm; p=Softmax m {axis=-1}; i=IsNaN p; g=Where i 1 p; y=MatMul g vv", ""},
};

static void test_forms(void) { run_forms(forms, sizeof forms / sizeof *forms, tni_pass_attention, 1e-5); }

#define WAVES(f) "c=Concat " f " " f " {axis=-1}; co=Cos c; si=Sin c; cu=Unsqueeze co #1; su=Unsqueeze si #1; "
#define HALVES(x) "a=Slice " x " #0 #4 #3 #1; b=Slice " x " #4 #9 #3 #1; n=Neg b; r=Concat n a {axis=-1}; "
#define TURN(x) "x1=Mul " x " cu; x2=Mul r su; "

static const form rotary[] = {
    {WAVES("fr") HALVES("q") TURN("q") "y=Add x1 x2", "?=Cos fr; ?=Sin fr; y=RotaryEmbedding q ? ? {dim=0}"},
    {WAVES("fr") HALVES("q") "x1=Mul cu q; x2=Mul su r; y=Add x2 x1",
     "?=Cos fr; ?=Sin fr; y=RotaryEmbedding q ? ? {dim=0}"},
    /* one row of positions for all batches */
    {WAVES("f1") HALVES("q") TURN("q") "y=Add x1 x2",
     "?=Cos f1; ?=Expand ? step; ?=Sin f1; ?=Expand ? step; y=RotaryEmbedding q ? ? {dim=0}"},
    /* a factor on cos and sin */
    {"c=Concat fr fr {axis=2}; co=Cos c; si=Sin c; cm=Mul co 1.5; sm=Mul si 1.5; cu=Unsqueeze cm #1; su=Unsqueeze sm "
     "#1; " HALVES("q") TURN("q") "y=Add x1 x2",
     "?=Cos fr; ?=Mul ? const; ?=Sin fr; ?=Mul ? const; y=RotaryEmbedding q ? ? {dim=0}"},
    /* part of the head is turned */
    {WAVES("fr") "qr=Slice w4 #0 #8 #3 #1; qp=Slice w4 #8 #12 #3 #1; " HALVES("qr")
         TURN("qr") "z1=Add x1 x2; y=Concat z1 qp {axis=-1}",
     "?=Cos fr; ?=Sin fr; y=RotaryEmbedding w4 ? ? {dim=8}"},
    {WAVES("fr") "qp=Slice q #8 #9 #3 #1; " HALVES("q") TURN("q") "z1=Add x1 x2; y=Concat z1 qp {axis=-1}",
     "?=Cos fr; ?=Sin fr; y=RotaryEmbedding q ? ? {dim=0}"},
    /* something else */
    {WAVES("fr") "a=Slice q #0 #4 #3 #1; b=Slice q #4 #9 #3 #1; n=Neg b; r=Concat a n {axis=-1}; " TURN(
         "q") "y=Add x1 x2",
     ""},
    {WAVES("fr") "a=Slice q #0 #4 #3 #1; b=Slice q #4 #9 #3 #1; n=Neg a; r=Concat n b {axis=-1}; " TURN(
         "q") "y=Add x1 x2",
     ""},
    {WAVES("fr") HALVES("kq") TURN("q") "y=Add x1 x2", ""},
    {WAVES("fr") HALVES("q") "x1=Mul q su; x2=Mul r cu; y=Add x1 x2", ""},
    {WAVES("fr") "a=Slice q #0 #4 #3 #1; n=Neg a; r=Concat n a {axis=-1}; " TURN("q") "y=Add x1 x2", ""},
    {"c=Concat fr fr {axis=-1}; co=Cos c; si=Sin c; cm=Mul co 1.5; ca=Unsqueeze cm #1; cu=Mul ca 2; su=Unsqueeze si "
     "#1; " HALVES("q") TURN("q") "y=Add x1 x2",
     ""},
    {WAVES("fr") "qr=Slice w4 #0 #8 #3 #1; qp=Slice w4 #0 #4 #3 #1; " HALVES("qr")
         TURN("qr") "z1=Add x1 x2; y=Concat z1 qp {axis=-1}",
     "qr=Slice w4 #0 #8 #3 #1; qp=Slice w4 #0 #4 #3 #1; ?=Cos fr; ?=Sin fr; z1=RotaryEmbedding qr ? ? {dim=0}; "
     "y=Concat z1 qp"},
    {WAVES("fr") HALVES("q") TURN("q") "y=Sub x1 x2", ""},
    {"c=Concat fr fs {axis=-1}; co=Cos c; si=Sin c; cu=Unsqueeze co #1; su=Unsqueeze si #1; " HALVES("q")
         TURN("q") "y=Add x1 x2",
     ""},
};

static void test_rotary(void) { run_forms(rotary, sizeof rotary / sizeof *rotary, tni_pass_rotary, 0); }

CU_pSuite suite_attention(void) {
  CU_pSuite s = CU_add_suite("attention", NULL, NULL);
  return s && CU_add_test(s, "attention", test_forms) && CU_add_test(s, "rotary", test_rotary) ? s : NULL;
}
