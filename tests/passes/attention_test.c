/* SPDX-License-Identifier: Apache-2.0
 *
 * attention: the forms that exporters write, and those that are something else.
 */
#include "tests/passes/forms.h"

#include "runtime/passes/decoder/decoder.h"
#include "runtime/passes/forms/forms.h"

#define KT "t=Transpose kk {perm=0,1,3,2}; "
#define TAIL "p=Softmax m {axis=-1}; y=MatMul p vv"
/* [b,2,s,1] of sinks [2], joined to m, and the row's maximum taken off */
#define WIDE "QS=Shape q; w0=Slice QS #0 #1; w2=Slice QS #2 #3; we=Concat w0 #2 w2 #1 {axis=0}; "
#define SINK(v) \
  "s4=Reshape " v " #1,-1,1,1; " WIDE "se=Expand s4 we; c=Concat m se {axis=-1}; x1=ReduceMax c #-1; d=Sub c x1; "
#define NOSINK "p=Slice p1 #0 #-1 #3 #1; y=MatMul p vv"
/* the last [t] of 16 columns */
#define COUNT "KS=Shape vv; n=Slice KS #2 #3; st=Sub #16 n; "
#define TAILS(x, end, axis) COUNT "a=Slice " x " st #" end " #" axis "; "
#define TAILED(x, end, axis) "?=Slice " x " step #" end " #" axis "; "
#define SQUARE "a=Slice sq_t #0,0 #3,3 #2,3; " /* [1,1,3,3] */
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
    /* keys as the product wants them already: a Transpose more */
    {"m=MatMul q q8; " TAIL, "?=Transpose q8 {perm=0,1,3,2}; y=Attention q ? vv {scale=1 softcap=0}"},
    {"a=Mul q8 0.5; m=MatMul q a; " TAIL, "?=Transpose q8 {perm=0,1,3,2}; y=Attention q ? vv {scale=0.5 softcap=0}"},
    {"z8=Transpose z {perm=2,0,1}; z9=Transpose z8 {perm=1,0,2}; m=MatMul x z9; p=Softmax m {axis=-1}; y=MatMul p z",
     "z8=Transpose z {perm=2,0,1}; z9=Transpose z8 {perm=1,0,2}; ?=Transpose z9 {perm=0,2,1}; "
     "y=Attention x ? z {scale=1 softcap=0} heads=1/1"},
    /* factors on what is masked already */
    {KT "s=MatMul q t; a=Add s mm; m=Mul a 0.5; " TAIL, "?=Mul mm const; y=Attention q kk vv ? {scale=0.5 softcap=0}"},
    {KT "s=MatMul q t; a=Mul s 0.5; c=Add a mm; d=Div c 4; m=Where bm d -inf; " TAIL,
     "?=Mul mm const; ?=Where bm ? const; y=Attention q kk vv ? {scale=0.125 softcap=0}"},
    {KT "s=MatMul q t; w=Where bm 0 -inf; a=Add s w; m=Mul a 2; " TAIL, "y=Attention q kk vv bm {scale=2 softcap=0}"},
    {KT "s=MatMul q t; w=Where bm s -3e38; m=Mul w 0.25; " TAIL,
     "?=Where bm const const; y=Attention q kk vv ? {scale=0.25 softcap=0}"},
    {KT "s=MatMul q t; w=Where bm s -3e30; m=Mul w 0.25; " TAIL, ""}, /* not low enough then */
    {KT "s=MatMul q t; a=Add s mm; m=Mul a -1; " TAIL, ""},
    {KT "s=MatMul q t; a=Add s mm; m=Mul a 0.5; p=Softmax m {axis=-1}; o=MatMul p vv; i=ReduceSum a; y=Add o i", ""},
    {KT "s=MatMul q t; d=Div s 3; h=Tanh d; c=Mul h 3; a=Add c mm; m=Mul a 0.5; " TAIL, ""}, /* over the cap */
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
    /* several of them */
    {KT "s=MatMul q t; a=Where bm s -3e38; m=Add a mm; " TAIL,
     "?=Where bm const const; ?=Add ? mm; y=Attention q kk vv ? {scale=1 softcap=0}"},
    {KT "s=MatMul q t; a=Add mm s; m=Where bm a -3e38; " TAIL,
     "?=Where bm mm const; y=Attention q kk vv ? {scale=1 softcap=0}"},
    {KT "s=MatMul q t; n=Not bm; a=Where bm -3e38 s; b=Where n a -3e37; m=Add b mm; " TAIL,
     "n=Not bm; ?=Where bm const const; ?=Where n ? const; ?=Add ? mm; y=Attention q kk vv ? {scale=1 softcap=0}"},
    {KT "s=MatMul q t; g=Greater mm -2; a=Where bm -inf s; m=Where g a -inf; p=Softmax m {axis=-1}; i=IsNaN p; "
        "w=Where i 0 p; y=MatMul w vv",
     "g=Greater mm -2; ?=Not bm; ?=And ? g; y=Attention q kk vv ? {scale=1 softcap=0}"},
    {KT "s=MatMul q t; a=Add s mm; b=Add a mm; c=Add b mm; m=Add c mm; " TAIL,
     "?=Add mm mm; ?=Add ? mm; ?=Add ? mm; y=Attention q kk vv ? {scale=1 softcap=0}"},
    {KT "s=MatMul q t; w=Where bm 1 -inf; m=Add s w; " TAIL,
     "w=Where bm 1 -inf; y=Attention q kk vv w {scale=1 softcap=0}"},
    {KT "s=MatMul q t; a=Add s mm; b=Add a mm; c=Add b mm; d=Add c mm; m=Add d mm; " TAIL, ""}, /* five */
    /* a query without keys: the guard's zeros */
    {KT "n=Not bm; s=MatMul q t; w=Where n 0 -inf; m=Add s w; p=Softmax m {axis=3}; i=IsNaN p; g=Where i 0 p; "
        "y=MatMul g vv",
     "n=Not bm; y=Attention q kk vv n {scale=1 softcap=0}"},
    /* the cap */
    {KT "s=MatMul q t; a=Mul s 0.5; d=Div a 3; h=Tanh d; c=Mul h 3; m=Add c mm; " TAIL,
     "y=Attention q kk vv mm {scale=0.5 softcap=3}"},
    {KT "s=MatMul q t; d=Mul s 0.25; h=Tanh d; m=Mul h 4; " TAIL, "y=Attention q kk vv {scale=1 softcap=4}"},
    /* a factor or a divisor per head goes to q; not one per query, nor outside of a mask */
    {KT "s=MatMul q t; m=Mul s sk4; " TAIL, "?=Mul q sk4; y=Attention ? kk vv {scale=1 softcap=0}"},
    {KT "s=MatMul q t; a=Mul s 0.5; d=Div a sk4; m=Add d mm; " TAIL,
     "?=Div q sk4; y=Attention ? kk vv mm {scale=0.5 softcap=0}"},
    {KT "g=Exp sk4; a=MatMul q t; s=Mul g a; m=Where bm s -inf; " TAIL,
     "g=Exp sk4; ?=Mul q g; y=Attention ? kk vv bm {scale=1 softcap=0}"},
    {KT "s=MatMul q t; m=Mul s mq; " TAIL, ""},
    {KT "s=MatMul q t; m=Div sk4 s; " TAIL, ""},
    {KT "s=MatMul q t; a=Add s mm; m=Mul a sk4; " TAIL, ""},
    /* the last columns of a constant; of how many there are the product with v decides */
    {KT TAILS("al_t", "9223372036854775807", "3") "s=MatMul q t; m=Add s a; " TAIL,
     TAILED("al_t", "9223372036854775807", "3") "y=Attention q kk vv ? {scale=1 softcap=0}"},
    {KT TAILS("al_t", "16", "-1") "s=MatMul q t; a2=Add a s; m=Where bm a2 -3e38; " TAIL,
     TAILED("al_t", "16", "-1") "?=Where bm ? const; y=Attention q kk vv ? {scale=1 softcap=0}"},
    /* as many keys and queries as a constant has: proved where queries are keys */
    {"t=Transpose kq {perm=0,1,3,2}; s=MatMul q t; " SQUARE "m=Where a s -3e38; p=Softmax m {axis=-1}; y=MatMul p kq",
     SQUARE "?=Where a const const; y=Attention q kq kq ? {scale=1 softcap=0}"},
    {KT "s=MatMul q t; " SQUARE "m=Where a s -3e38; " TAIL, ""},
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
    /* sinks: of a constant, a value, behind masks, without what is subtracted from a row, with repeated heads */
    {KT "s=MatMul q t; m=Add s mm; " SINK("sk") "p1=Softmax d {axis=-1}; " NOSINK,
     "y=Attention q kk vv mm - - - sk {scale=1 softcap=0}"},
    {KT "m=MatMul q t; sw=Neg sk; " SINK("sw") "p1=Softmax d {axis=3}; " NOSINK,
     "sw=Neg sk; y=Attention q kk vv - - - - sw {scale=1 softcap=0}"},
    {KT "s=MatMul q t; a=Mul s 0.5; m=Where bm a -inf; " WIDE "su=Unsqueeze sk #0,2,3; se=Expand su we; "
        "c=Concat m se {axis=3}; p1=Softmax c {axis=-1}; " NOSINK,
     "y=Attention q kk vv bm - - - sk {scale=0.5 softcap=0}"},
    {KT "m=MatMul q t; " WIDE "sr=Add sk4 sk4; se=Expand sr we; c=Concat m se {axis=3}; p1=Softmax c {axis=-1}; "
        "KS=Shape vv; n=Slice KS #2 #3; p=Slice p1 #0 n #3; y=MatMul p vv",
     "sr=Add sk4 sk4; ?=Reshape sr const; y=Attention q kk vv - - - - ? {scale=1 softcap=0}"},
    {KT "m=MatMul q t; " WIDE "se=Expand sk4 we; c=Concat m se {axis=3}; p1=Softmax c {axis=-1}; " NOSINK,
     "y=Attention q kk vv - - - - const {scale=1 softcap=0}"},
    {REPEAT("k1", "ku", "ke", "kr") REPEAT("v1", "vu", "ve", "vr") "t=Transpose kr {perm=0,1,3,2}; m=MatMul q t; " SINK(
         "sk") "p1=Softmax d {axis=-1}; p=Slice p1 #0 #-1 #3; y=MatMul p vr",
     "y=Attention q k1 v1 - - - - sk {scale=1 softcap=0}"},
    /* no sinks: the first column goes, or two; one per query; in front; what is left is read twice */
    {KT "m=MatMul q t; " SINK("sk") "p1=Softmax d {axis=-1}; p=Slice p1 #1 #9223372036854775807 #3; y=MatMul p vv", ""},
    {KT "m=MatMul q t; " SINK("sk") "p1=Softmax d {axis=2}; " NOSINK, ""},
    {KT "m=MatMul q t; se=ReduceMax q #-1; c=Concat m se {axis=-1}; p1=Softmax c {axis=-1}; " NOSINK, ""},
    {KT "m=MatMul q t; e1=Unsqueeze x #1; e2=ReduceMax e1 #-1; " WIDE "se=Expand e2 we; c=Concat m se {axis=-1}; "
        "p1=Softmax c {axis=-1}; " NOSINK,
     ""},
    {KT "m=MatMul q t; " WIDE "se=Expand sk4 we; c=Concat se m {axis=-1}; p1=Softmax c {axis=-1}; " NOSINK, ""},
    {KT "m=MatMul q t; " SINK(
         "sk") "p1=Softmax d {axis=-1}; p=Slice p1 #0 #-1 #3; y0=MatMul p vv; i=ReduceSum c; y=Add y0 i",
     ""},
    {KT "m=MatMul q t; " SINK("sk") "p1=Softmax d {axis=-1}; p=Slice p1 #0 #-1 #3; y0=MatMul p vv; y=MatMul p y0", ""},
    {KT "m=MatMul q t; " WIDE "se=Expand sk4 we; c=Concat m se {axis=-1}; x1=ReduceMax m #-1; d=Sub c x1; "
        "p1=Softmax d {axis=-1}; " NOSINK,
     ""},
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
    {KT "s=MatMul q t; m=Add s mm; p=Softmax m {axis=-1}; i=IsNaN p; g=Where i 1 p; y=MatMul g vv", ""},
};

static void test_forms(void) { run_forms(forms, sizeof forms / sizeof *forms, tni_pass_attention, 1e-5); }

#define WAVES(f) "c=Concat " f " " f " {axis=-1}; co=Cos c; si=Sin c; cu=Unsqueeze co #1; su=Unsqueeze si #1; "
#define HALVES(x) "a=Slice " x " #0 #4 #3 #1; b=Slice " x " #4 #9 #3 #1; n=Neg b; r=Concat n a {axis=-1}; "
#define TURN(x) "x1=Mul " x " cu; x2=Mul r su; "

#define TABLES(c, s, at) "co=Gather " c " " at "; si=Gather " s " " at "; cu=Unsqueeze co #1; su=Unsqueeze si #1; "
#define WOVEN(x)                                                    \
  "a=Slice " x " #0 #8 #3 #2; b=Slice " x                           \
  " #1 #8 #3 #2; n=Neg b; nu=Unsqueeze n #-1; au=Unsqueeze a #-1; " \
  "j=Concat nu au {axis=-1}; r=Reshape j #0,0,0,8; "
#define SPLIT_WAVES "co=Cos fr; si=Sin fr; cu=Unsqueeze co #1; su=Unsqueeze si #1; "
#define ROT "p1=Mul a cu; p2=Mul b su; o1=Sub p1 p2; p3=Mul b cu; p4=Mul a su; o2=Add p4 p3; "

static const form rotary[] = {
    {WAVES("fr") HALVES("q") TURN("q") "y=Add x1 x2", "?=Cos fr; ?=Sin fr; y=RotaryEmbedding q ? ? {dim=0}"},
    {WAVES("fr") HALVES("q") "x1=Mul cu q; x2=Mul su r; y=Add x2 x1",
     "?=Cos fr; ?=Sin fr; y=RotaryEmbedding q ? ? {dim=0}"},
    /* one row of positions for all batches */
    {WAVES("f1") HALVES("q") TURN("q") "y=Add x1 x2",
     "?=Cos f1; ?=Sin f1; ?=Expand ? step; ?=Expand ? step; y=RotaryEmbedding q ? ? {dim=0}"},
    /* a factor on cos and sin */
    {"c=Concat fr fr {axis=2}; co=Cos c; si=Sin c; cm=Mul co 1.5; sm=Mul si 1.5; cu=Unsqueeze cm #1; su=Unsqueeze sm "
     "#1; " HALVES("q") TURN("q") "y=Add x1 x2",
     "?=Cos fr; ?=Mul ? 1.5; ?=Sin fr; ?=Mul ? 1.5; y=RotaryEmbedding q ? ? {dim=0}"},
    {"c=Concat fr fr {axis=-1}; co=Cos c; si=Sin c; cm=Mul co 1.5; ca=Unsqueeze cm #1; cu=Mul ca 2; su=Unsqueeze si "
     "#1; " HALVES("q") TURN("q") "y=Add x1 x2",
     "?=Cos fr; ?=Mul ? 1.5; ?=Unsqueeze ? #1; ?=Mul ? 2; ?=Reshape ? step; ?=Sin fr; y=RotaryEmbedding q ? ? {dim=0}"},
    /* which table is called cos does not matter */
    {WAVES("fr") HALVES("q") "x1=Mul q su; x2=Mul r cu; y=Add x1 x2",
     "?=Sin fr; ?=Cos fr; y=RotaryEmbedding q ? ? {dim=0}"},
    /* constant tables, gathered by positions */
    {TABLES("th_c", "th_s", "as") HALVES("q") TURN("q") "y=Add x1 x2", "y=RotaryEmbedding q const const as {dim=0}"},
    {"i2=Cast as {to=6}; " TABLES("th_c", "th_s", "i2") HALVES("q") TURN("q") "y=Add x1 x2",
     "i2=Cast as {to=6}; ?=Gather const i2; ?=Gather const i2; y=RotaryEmbedding q ? ? {dim=0}"},
    {"i2=Sub as %1; co=Gather th_c as; si=Gather th_s i2; cu=Unsqueeze co #1; su=Unsqueeze si #1; " HALVES("q")
         TURN("q") "y=Add x1 x2",
     "i2=Sub as %1; ?=Gather const as; ?=Gather const i2; y=RotaryEmbedding q ? ? {dim=0}"},
    {"cs=Slice th_c #0 #3 #0; ss=Slice th_s #0 #3 #-2; " TABLES("cs", "ss", "as") HALVES("q") TURN("q") "y=Add x1 x2",
     "?=Slice const #0 #3 #0; ?=Gather ? as; ?=Slice const #0 #3 #-2; ?=Gather ? as; y=RotaryEmbedding q ? ? {dim=0}"},
    {"i2=Sub as %1; " TABLES("th_c", "th_s", "i2") HALVES("q") TURN("q") "y=Add x1 x2", /* from behind, too */
     "i2=Sub as %1; y=RotaryEmbedding q const const i2 {dim=0}"},
    /* without an axis for the heads or the batch */
    {"r1=Reshape f1 #-1,4; cu=Concat r1 r1 {axis=1}; su=Cos cu; " HALVES("q") TURN("q") "y=Add x1 x2",
     "r1=Reshape f1 #-1,4; ?=Reshape r1 step; ?=Cos r1; ?=Reshape ? step; ?=Expand ? step; ?=Expand ? step; "
     "y=RotaryEmbedding q ? ? {dim=0}"},
    /* pairs side by side */
    {TABLES("tp_c", "tp_s", "as") WOVEN("q") TURN("q") "y=Add x1 x2",
     "y=RotaryEmbedding q const const as {dim=0} interleaved"},
    {"fu=Unsqueeze fr #-1; fx=Expand fu #1,1,1,2; f8=Reshape fx #0,0,8; co=Cos f8; si=Sin f8; cu=Unsqueeze co #1; "
     "su=Unsqueeze si #1; " WOVEN("q") TURN("q") "y=Add x1 x2",
     "?=Cos fr; ?=Sin fr; y=RotaryEmbedding q ? ? {dim=0} interleaved"},
    {"fu=Unsqueeze fr #3; fx=Tile fu #1,1,1,2; f8=Reshape fx #0,0,8; co=Cos f8; si=Sin f8; cu=Unsqueeze co #1; "
     "su=Unsqueeze si #1; " WOVEN("q") TURN("q") "y=Add x1 x2",
     "?=Cos fr; ?=Sin fr; y=RotaryEmbedding q ? ? {dim=0} interleaved"},
    {"fu=Unsqueeze fr #3; fx=Concat fu fu {axis=3}; f8=Reshape fx #0,0,8; co=Cos f8; si=Sin f8; cu=Unsqueeze co #1; "
     "su=Unsqueeze si #1; " WOVEN("q") TURN("q") "y=Add x1 x2",
     "?=Cos fr; ?=Sin fr; y=RotaryEmbedding q ? ? {dim=0} interleaved"},
    /* repeat_interleave by a Gather; of half of what was doubled before: cosines are computed once */
    {"f8=Gather fr #0,0,1,1,2,2,3,3 {axis=2}; co=Cos f8; si=Sin f8; cu=Unsqueeze co #1; su=Unsqueeze si #1; " WOVEN("q")
         TURN("q") "y=Add x1 x2",
     "?=Cos fr; ?=Sin fr; y=RotaryEmbedding q ? ? {dim=0} interleaved"},
    {"f8=Gather fr #0,1,2,3,0,1,2,-1 {axis=2}; co=Cos f8; si=Sin f8; cu=Unsqueeze co #1; su=Unsqueeze si #1; " HALVES(
         "q") TURN("q") "y=Add x1 x2",
     "?=Cos fr; ?=Sin fr; y=RotaryEmbedding q ? ? {dim=0}"},
    {"c=Concat fr fr {axis=2}; c1=Cos c; s1=Sin c; h1=Slice c1 #0 #4 #2; h2=Slice s1 #4 #9 #2; "
     "co=Gather h1 #0,0,1,1,2,2,3,3 {axis=2}; si=Gather h2 #0,0,1,1,2,2,3,3 {axis=2}; cu=Unsqueeze co #1; "
     "su=Unsqueeze si #1; " WOVEN("q") TURN("q") "y=Add x1 x2",
     "?=Cos fr; ?=Sin fr; y=RotaryEmbedding q ? ? {dim=0} interleaved"},
    {"f8=Gather fr #0,0,1,1,2,2,3,2 {axis=2}; co=Cos f8; si=Sin f8; cu=Unsqueeze co #1; su=Unsqueeze si #1; " WOVEN("q")
         TURN("q") "y=Add x1 x2",
     ""},
    {TABLES("tp_c", "tp_s", "as") "qr=Slice w4 #0 #8 #3 #1; qp=Slice w4 #8 #12 #3 #1; " WOVEN("qr")
         TURN("qr") "z1=Add x1 x2; y=Concat z1 qp {axis=-1}",
     "y=RotaryEmbedding w4 const const as {dim=8} interleaved"},
    /* the two elements of a pair, turned by themselves */
    {SPLIT_WAVES HALVES("q") ROT "y=Concat o1 o2 {axis=3}", "co=Cos fr; si=Sin fr; y=RotaryEmbedding q co si {dim=0}"},
    {SPLIT_WAVES WOVEN("q") ROT
     "u1=Unsqueeze o1 #4; u2=Unsqueeze o2 #4; jj=Concat u1 u2 {axis=4}; y=Reshape jj #0,0,0,8",
     "co=Cos fr; si=Sin fr; y=RotaryEmbedding q co si {dim=0} interleaved"},
    /* heads in third place */
    {"x4=Reshape x #0,0,2,4; fw=Slice fr #0 #2 #2; c=Concat fw fw {axis=-1}; co=Cos c; si=Sin c; cu=Unsqueeze co #2; "
     "su=Unsqueeze si #2; a=Slice x4 #0 #2 #3 #1; b=Slice x4 #2 #9 #3 #1; n=Neg b; r=Concat n a {axis=-1}; " TURN(
         "x4") "y=Add x1 x2",
     "x4=Reshape x #0,0,2,4; fw=Slice fr #0 #2 #2; ?=Cos fw; ?=Sin fw; ?=Reshape x4 step; ?=RotaryEmbedding ? ? ? "
     "{dim=0} "
     "heads=2/2; y=Reshape ? step"},
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
    {WAVES("fr") "a=Slice q #0 #4 #3 #1; n=Neg a; r=Concat n a {axis=-1}; " TURN("q") "y=Add x1 x2", ""},
    {WAVES("fr") "qr=Slice w4 #0 #8 #3 #1; qp=Slice w4 #0 #4 #3 #1; " HALVES("qr")
         TURN("qr") "z1=Add x1 x2; y=Concat z1 qp {axis=-1}",
     "qr=Slice w4 #0 #8 #3 #1; qp=Slice w4 #0 #4 #3 #1; ?=Cos fr; ?=Sin fr; z1=RotaryEmbedding qr ? ? {dim=0}; "
     "y=Concat z1 qp"},
    {WAVES("fr") HALVES("q") TURN("q") "y=Sub x1 x2", ""},
    {TABLES("tn_c", "th_s", "as") HALVES("q") TURN("q") "y=Add x1 x2", ""},
    {TABLES("th_c", "tn_s", "as") HALVES("q") TURN("q") "y=Add x1 x2", ""},
    {TABLES("tp_c", "tp_s", "as") HALVES("q") TURN("q") "y=Add x1 x2", ""},
    {TABLES("th_c", "th_s", "as") WOVEN("q") TURN("q") "y=Add x1 x2", ""},
    {SPLIT_WAVES HALVES("q") ROT "y=Concat o2 o1 {axis=3}", ""},
    {SPLIT_WAVES HALVES("q") "p1=Mul a cu; p2=Mul b su; o1=Sub p1 p2; p3=Mul b su; p4=Mul a cu; o2=Add p3 p4; "
                             "y=Concat o1 o2 {axis=3}",
     ""},
    {SPLIT_WAVES HALVES("q") "p1=Mul a cu; p2=Mul b su; o1=Sub p2 p1; p3=Mul b cu; p4=Mul a su; o2=Add p3 p4; "
                             "y=Concat o1 o2 {axis=3}",
     ""},
    {SPLIT_WAVES WOVEN("q") ROT "y=Concat o1 o2 {axis=3}", ""},
    {SPLIT_WAVES HALVES(
         "q") "b2=Slice kq #4 #9 #3 #1; p1=Mul a cu; p2=Mul b su; o1=Sub p1 p2; p3=Mul b2 cu; p4=Mul a su; "
              "o2=Add p3 p4; y=Concat o1 o2 {axis=3}",
     ""},
    {SPLIT_WAVES HALVES(
         "q") "c2=Neg cu; p1=Mul a cu; p2=Mul b su; o1=Sub p1 p2; p3=Mul b c2; p4=Mul a su; o2=Add p3 p4; "
              "y=Concat o1 o2 {axis=3}",
     ""},
    {SPLIT_WAVES HALVES(
         "q") "s2=Neg su; p1=Mul a cu; p2=Mul b su; o1=Sub p1 p2; p3=Mul b cu; p4=Mul a s2; o2=Add p3 p4; "
              "y=Concat o1 o2 {axis=3}",
     ""},
    {"o3=Sub fr fs; co=Slice o3 #0 #1 #2; cu=Unsqueeze co #1; su=Neg cu; " HALVES("q") ROT "y=Concat o1 o2 {axis=3}",
     ""},
    {WAVES("fr") "b=Slice q #4 #9 #3 #1; n=Neg b; r=Concat n b {axis=-1}; " TURN("q") "y=Add x1 x2", ""},
    {WAVES("fr") "a=Slice q #1 #5 #3 #1; b=Slice q #4 #9 #3 #1; n=Neg b; r=Concat n a {axis=-1}; " TURN(
         "q") "y=Add x1 x2",
     ""},
    {WAVES("fr") "a=Slice q #0 #8 #3 #2; b=Slice q #1 #8 #3 #2; n=Neg b; r=Concat n a {axis=-1}; " TURN(
         "q") "y=Add x1 x2",
     ""},
    {"f2=Slice fr #0 #2 #2; " WAVES("f2") "a=Slice aq #0 #4 #3 #3; b=Slice aq #2 #4 #3 #1; n=Neg b; "
                                          "r=Concat n a {axis=-1}; " TURN("aq") "y=Add x1 x2",
     ""},
    {"cs=Slice th_c #0 #4 #1; ss=Slice th_s #0 #4 #1; " TABLES(
         "cs", "ss", "as") "a=Slice aq #0 #2 #3 #1; "
                           "b=Slice aq #2 #4 #3 #1; n=Neg b; r=Concat n a {axis=-1}; " TURN("aq") "y=Add x1 x2",
     ""},
    {"cs=Gather th_c #7,6,5,4,3,2,1,1 {axis=1}; " TABLES("cs", "th_s", "as") HALVES("q") TURN("q") "y=Add x1 x2", ""},
    {"ct=Transpose th_c {perm=1,0}; cg=Gather ct as; gg=Slice cg #0 #4 #2; c=Concat gg gg {axis=2}; m1=Mul x c; "
     "y=Add m1 x",
     ""},
    {"c=Concat fr fs {axis=-1}; co=Cos c; si=Sin c; cu=Unsqueeze co #1; su=Unsqueeze si #1; " HALVES("q")
         TURN("q") "y=Add x1 x2",
     ""},
};

/* einsum: attention both ways round, projections by head, and what is no product of matrices */
static const form einsum[] = {
    {"y=Einsum q kk {equation=\"bhid,bhjd->bhij\"}", "?=Transpose kk {perm=0,1,3,2}; ?=MatMul q ?; y=Identity ?"},
    {"y=Einsum q kq {equation=\"bhid,bhid->bhi\"}", ""},
    {"p=Softmax mm {axis=-1}; y=Einsum p kl {equation=\"bxij,bjxd->bixd\"}", ""}, /* one head of p, two of kl */
    {"p=Softmax q {axis=-1}; y=Einsum p q8 {equation=\"abij,abjk->aibk\"}",
     "p=Softmax q; ?=MatMul p q8; ?=Transpose ? {perm=0,2,1,3}; y=Identity ?"},
    {"y=Einsum kl q {equation=\"aecd,acbd->acbe\"}",
     "?=Transpose kl {perm=0,2,3,1}; ?=MatMul q ?; y=Identity ?"}, /* keys first */
    {"y=Einsum x w12 {equation=\"bsk,kn->bsn\"}", "?=MatMul x w12; y=Identity ?"},
    {"y=Einsum w12 x {equation=\"kn,bsk->bsn\"}", "?=MatMul x w12; y=Identity ?"},
    {"y=Einsum x w12 {equation=\"bsk,kn->bns\"}", "?=MatMul x w12; ?=Transpose ? {perm=0,2,1}; y=Identity ?"},
    {"y=Einsum x t12 {equation=\"bsk,nk->bsn\"}", "?=Transpose t12 {perm=1,0}; ?=MatMul x ?; y=Identity ?"},
    {"w=Reshape w12 #8,3,4; y=Einsum x w {equation=\"abc,cde->abde\"}",
     "w=Reshape w12 #8,3,4; ?=Reshape w const; ?=MatMul x ?; ?=Reshape ? step; y=Identity ?"},
    {"x4=Reshape x #0,0,2,4; w=Reshape w12 #2,4,12; y=Einsum x4 w {equation=\"abcd,cde->abe\"}",
     "x4=Reshape x #0,0,2,4; w=Reshape w12 #2,4,12; ?=Reshape x4 step; ?=Reshape w const; ?=MatMul ? ?; y=Identity ?"},
    {"y=Einsum x z {equation=\"...sd,...td->...st\"}", "?=Transpose z {perm=0,2,1}; ?=MatMul x ?; y=Identity ?"},
    {"y=Einsum x w {equation=\"bsd,d->bs\"}", ""},
    {"y=Einsum x z {equation=\"bsd,bsd->bsd\"}", ""},
    {"y=Einsum x w8 {equation=\"bsd,dd->bs\"}", ""},
    {"y=Einsum x w12 {equation=\"bsk,kn->bs\"}", ""},
    {"y=Einsum x {equation=\"bsd->bds\"}", ""},
};

static void test_einsum(void) { run_forms(einsum, sizeof einsum / sizeof *einsum, tni_pass_einsum, 1e-5); }

/* [b,t,2 * 8] of a head that stands twice: MultiHeadAttention of com.microsoft. */
#define JOINED(x, n) \
  REPEAT(x, "u" n, "e" n, "r" n) "t" n "=Transpose r" n " {perm=0,2,1,3}; f" n "=Reshape t" n " #0,0,16; "
#define QW "qw=Concat x z {axis=2}; "

static const form repeated[] = {
    {QW JOINED("k1", "1") JOINED("v1", "2") "y=Attention qw f1 f2 bm {q_num_heads=2&kv_num_heads=2&scale=0.5f}",
     "qw=Concat x z; ?=Reshape qw step; ?=Transpose ? {perm=0,2,1,3}; ?=Attention ? k1 v1 bm {scale=0.5 "
     "softcap=0}; "
     "?=Transpose ? {perm=0,2,1,3}; y=Reshape ? step"},
    /* only one of the two; not repeated; heads counted otherwise */
    {QW JOINED("k1", "1") "t2=Transpose v1 {perm=0,2,1,3}; t3=Concat t2 t2 {axis=2}; f2=Reshape t3 #0,0,16; "
                          "y=Attention qw f1 f2 {q_num_heads=2&kv_num_heads=2}",
     ""},
    {QW JOINED("k1", "1") JOINED("v1", "2") "y=Attention qw f1 f2 {q_num_heads=1&kv_num_heads=1}", ""},
    {QW JOINED("k1", "1") JOINED("v1", "2") "a,!p1=Attention qw f1 f2 {q_num_heads=2&kv_num_heads=2}; y=Neg a", ""},
};

static void test_repeated(void) { run_forms(repeated, sizeof repeated / sizeof *repeated, tni_pass_attention, 0); }
static void test_rotary(void) { run_forms(rotary, sizeof rotary / sizeof *rotary, tni_pass_rotary, 0); }

CU_pSuite suite_attention(void) {
  CU_pSuite s = CU_add_suite("attention", NULL, NULL);
  return s && CU_add_test(s, "attention", test_forms) && CU_add_test(s, "rotary", test_rotary) &&
                 CU_add_test(s, "repeated", test_repeated) && CU_add_test(s, "einsum", test_einsum)
             ? s
             : NULL;
}
