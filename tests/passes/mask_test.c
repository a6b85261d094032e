/* SPDX-License-Identifier: Apache-2.0
 *
 * mask: what says something about positions, written in every way that exporters know, and near misses.
 */
#include <float.h>

#include "tests/passes/forms.h"

#include "runtime/passes/mask/mask.h"
#include "runtime/passes/passes.h"

/* A row is a mean of at most 8 keys: sums of 8 products, and scores of 4. */
#define BOUND ((8 + 4) * (double)FLT_EPSILON)

/* P, T: past and past + s as scalars, P1, S1, T1 as vectors. */
#define DIMS                                                                                                   \
  "PS=Shape pk; AS=Shape aq; P1=Slice PS #2 #3; S1=Slice AS #2 #3; T1=Add P1 S1; P=Squeeze P1; T=Squeeze T1; " \
  "S=Squeeze S1; "
#define I "qi=Range P T %1; QI=Unsqueeze qi #1; "
#define J "KJ=Range %0 T %1; "
#define Z "zs=Concat S1 T1 {axis=0}; z0=ConstantOfShape zs; "
#define CAUSAL "C=LessOrEqual KJ QI; "
#define PAD "ac=Cast am {to=9}; PA=Unsqueeze ac #1,2; "
#define ATT "y=Attention aq ak av M pk pv"
#define DONE "y=Attention aq ak av - pk pv {scale=0 softcap=0} causal"
#define DONE_PAD "?=Cast am {to=9}; ?=Reshape ? step; y=Attention aq ak av ? pk pv {scale=0 softcap=0} causal"
/* conditions that nothing but positions decide */
static const form positions[] = {
    {DIMS I J "M=LessOrEqual KJ QI; " ATT, DONE},
    {DIMS I J "M=GreaterOrEqual QI KJ; " ATT, DONE},
    {DIMS I J "N=Greater KJ QI; M=Not N; " ATT, DONE},
    {DIMS I J "N=Less QI KJ; M=Not N; " ATT, DONE},
    {DIMS I J "Q1=Add QI %1; M=Less KJ Q1; " ATT, DONE},
    {DIMS I J "D=Sub KJ QI; M=LessOrEqual D %0; " ATT, DONE},
    {DIMS I J "a=Unsqueeze KJ #0; b1=Neg QI; d=Add a b1; M=Less d %1; " ATT, DONE},
    /* queries count from 0 */
    {DIMS J "qi=Range %0 S %1; q0=Add qi P; QI=Reshape q0 #-1,1; M=LessOrEqual KJ QI; " ATT, DONE},
    /* 4 axes, expanded */
    {DIMS I J "c=LessOrEqual KJ QI; e4=Unsqueeze c #0,1; B=Shape am; b1=Slice B #0 #1; w1=Concat b1 #1,1,1 {axis=0}; "
              "M=Expand e4 w1; " ATT,
     DONE},
    /* triangles */
    {DIMS
     "ST=Concat S1 T1 {axis=0}; f=ConstantOfShape ST {value=f32[1]=1}; t=Trilu f P {upper=0}; M=Cast t {to=9}; " ATT,
     DONE},
    {DIMS "ST=Concat S1 T1 {axis=0}; f=ConstantOfShape ST {value=f32[1]=1}; P2=Add P %1; t=Trilu f P2 {upper=1}; "
          "n=Cast t {to=9}; M=Not n; " ATT,
     DONE},
    {DIMS "T2=Concat T1 T1 {axis=0}; f=ConstantOfShape T2 {value=f32[1]=1}; t=Trilu f {upper=0}; c=Cast t {to=9}; "
          "M=Slice c P1 T1 #0; " ATT,
     DONE},
    /* a constant triangle, sliced; that it is long enough is what the Add says */
    {DIMS Z "r=Slice sq_t P1 T1 #2; c=Slice r #0 T1 #3; w1=Where c 0 -inf; M=Add w1 z0; " ATT, DONE},
    {DIMS Z "ST=Concat P1 #0 {axis=0}; E1=Concat T1 T1 {axis=0}; c=Slice sq_t ST E1 #2,3; w1=Where c 0 -inf; "
            "M=Add z0 w1; " ATT,
     DONE},
    {DIMS Z "r=Slice sq_b P1 T1 #2; c=Slice r #0 T1 #3; w1=Where c 0 -inf; M=Add w1 z0; " ATT,
     "y=Attention aq ak av - pk pv {scale=0 softcap=0} causal left=2"},
    /* windows */
    {DIMS I J CAUSAL "Q3=Sub QI %3; w1=Greater KJ Q3; M=And C w1; " ATT,
     "y=Attention aq ak av - pk pv {scale=0 softcap=0} causal left=2"},
    {DIMS I J CAUSAL "D=Sub QI KJ; w1=Less D %3; M=And w1 C; " ATT,
     "y=Attention aq ak av - pk pv {scale=0 softcap=0} causal left=2"},
    {DIMS I J "D=Sub QI KJ; w1=LessOrEqual D %2; M=Cast w1 {to=9}; " ATT,
     "y=Attention aq ak av - pk pv {scale=0 softcap=0} left=2"},
    {DIMS I J "D=Sub KJ QI; w1=Less D %2; n=Neg D; w2=Less n %4; M=And w1 w2; " ATT,
     "y=Attention aq ak av - pk pv {scale=0 softcap=0} left=3 right=1"},
    /* all of them */
    {DIMS I J "M=GreaterOrEqual T KJ; " ATT, "y=Attention aq ak av - pk pv {scale=0 softcap=0}"},
    {DIMS I J CAUSAL "x1=Less QI T; x2=Or x1 C; M=And C x2; " ATT, DONE},
    /* the past is nobody's: queries and keys begin together */
    {"AS=Shape aq; S1=Slice AS #2 #3; S=Squeeze S1; r=Range %0 S %1; QI=Unsqueeze r #1; M=LessOrEqual r QI; "
     "y=Attention aq ak av M",
     "y=Attention aq ak av {scale=0 softcap=0} causal"},
    {DIMS I J "c=LessOrEqual KJ QI; M=Where c 0 -inf; " ATT, DONE},
    {DIMS I J "c=Greater KJ QI; M=Where c -3.4028235e38 0; " ATT, DONE},
    {DIMS I J "c=Greater KJ QI; f=Cast c {to=1}; M=Mul f -3.4028235e38; " ATT, DONE},
    {DIMS "ST=Concat S1 T1 {axis=0}; f=Expand -3.4028235e38 ST; P2=Add P %1; M=Trilu f P2; " ATT, DONE},
    {DIMS I J "c=LessOrEqual KJ QI; f=Cast c {to=1}; n=Sub 1 f; M=Mul n -1e38; " ATT, DONE},
    /* by GatherND, put back where it was by ScatterND, and joined of two parts */
    {DIMS I J
     "c=LessOrEqual KJ QI; ST=Concat S1 T1 {axis=0}; r0=Range %0 S %1; r1=Unsqueeze r0 #1; e0=Expand r1 ST; "
     "e1=Expand KJ ST; u0=Unsqueeze e0 #-1; u1=Unsqueeze e1 #-1; ix=Concat u0 u1 {axis=-1}; M=GatherND c ix; " ATT,
     DONE},
    {DIMS I J "c=LessOrEqual KJ QI; ST=Concat S1 T1 {axis=0}; r0=Range %0 S %1; r1=Unsqueeze r0 #1; e0=Expand r1 ST; "
              "e1=Expand KJ ST; u0=Unsqueeze e0 #-1; u1=Unsqueeze e1 #-1; ix=Concat u0 u1 {axis=-1}; n=Not c; "
              "M=ScatterND n ix c; " ATT,
     DONE},
    {DIMS
     "SP=Concat S1 P1 {axis=0}; SS=Concat S1 S1 {axis=0}; a=ConstantOfShape SP {value=f32[1]=1}; "
     "b1=ConstantOfShape SS {value=f32[1]=1}; b2=Trilu b1 {upper=0}; j=Concat a b2 {axis=1}; M=Cast j {to=9}; " ATT,
     DONE},
};

/* conditions on keys beside them */
static const form padding[] = {
    {DIMS I J CAUSAL PAD "M=And C PA; " ATT, DONE_PAD},
    /* gathered by b * T + j, as exporters index attention_mask[b, j] */
    {DIMS I J CAUSAL "ac=Cast am {to=9}; fl=Flatten ac {axis=2}; AM=Shape am; b0=Slice AM #0 #1; B=Squeeze b0; "
                     "br=Range %0 B %1; bu=Unsqueeze br #1,2,3; bt=Mul bu T1; ix=Add KJ bt; g=Gather fl ix; "
                     "g4=Squeeze g #4; M=And C g4; " ATT,
     DONE_PAD},
    {DIMS I J CAUSAL
     "ac=Cast am {to=9}; AM=Shape am; b0=Slice AM #0 #1; B=Squeeze b0; br=Range %0 B %1; "
     "bu=Unsqueeze br #1,2,3; w1=Concat b0 #1,1 T1 {axis=0}; e0=Expand bu w1; e1=Expand KJ w1; "
     "u0=Unsqueeze e0 #-1; u1=Unsqueeze e1 #-1; ix=Concat u0 u1 {axis=-1}; g=GatherND ac ix; M=And C g; " ATT,
     DONE_PAD},
    {DIMS I J CAUSAL "ab4=Unsqueeze ab #1,2; M=And ab4 C; " ATT,
     "?=Reshape ab step; y=Attention aq ak av ? pk pv {scale=0 softcap=0} causal"},
    {DIMS I J CAUSAL "eq=Equal am %1; PA=Unsqueeze eq #1,2; M=And C PA; " ATT,
     "?=Equal am const; ?=Reshape ? step; y=Attention aq ak av ? pk pv {scale=0 softcap=0} causal"},
    {DIMS I J CAUSAL "gt=Greater am %0; PA=Unsqueeze gt #1,2; M=And C PA; " ATT,
     "?=GreaterOrEqual am const; ?=Reshape ? step; y=Attention aq ak av ? pk pv {scale=0 softcap=0} causal"},
    {DIMS I J CAUSAL "i6=Cast ai {to=7}; lt=Less i6 %1; n=Not lt; PA=Unsqueeze n #1,2; M=And C PA; " ATT,
     "?=GreaterOrEqual ai const; ?=Reshape ? step; y=Attention aq ak av ? pk pv {scale=0 softcap=0} causal"},
    /* 1 - mask, filled where it is not 0 */
    {DIMS I J CAUSAL "u4=Unsqueeze am #1,2; f=Cast u4 {to=1}; iv=Sub 1 f; bo=Cast iv {to=9}; lo=Where bo -3.4e38 iv; "
                     "c2=Where C 0 -3.4e38; M=Add c2 lo; " ATT,
     "?=Equal am const; ?=Reshape ? step; y=Attention aq ak av ? pk pv {scale=0 softcap=0} causal"},
    /* triangle + mask == 0, as GPT-2 fills it */
    {DIMS I J "u4=Unsqueeze am #1,2; f=Cast u4 {to=1}; g=Greater KJ QI; gf=Cast g {to=1}; tr=Mul gf -3.4028235e38; "
              "s4=Add tr f; z0=Equal s4 0; M=Where z0 -3.4028235e38 tr; " ATT,
     DONE_PAD},
    /* two of them */
    {DIMS I J CAUSAL PAD "p2=Unsqueeze ab #1,2; c2=And C PA; M=And c2 p2; " ATT,
     "?=Cast am {to=9}; ?=Reshape ? step; ?=Reshape ab step; ?=And ? ?; y=Attention aq ak av ? pk pv {scale=0 "
     "softcap=0} "
     "causal"},
    /* a bias that does not depend on the query */
    {DIMS I J CAUSAL "M=Where C af -inf; " ATT, "y=Attention aq ak av af pk pv {scale=0 softcap=0} causal"},
    {DIMS I J CAUSAL "kf=Cast KJ {to=1}; al=Mul e kf; c2=Where C 0 -3.4028235e38; M=Add c2 al; " ATT,
     "y=Attention aq ak av - pk pv - - const {scale=0 softcap=0} causal"},
    /* keys alone: a mask of one row; finite numbers stay */
    {DIMS PAD "B=Shape am; b1=Slice B #0 #1; w1=Concat b1 #1 S1 T1 {axis=0}; M=Expand PA w1; " ATT,
     "?=Cast am {to=9}; ?=Reshape ? step; y=Attention aq ak av ? pk pv {scale=0 softcap=0}"},
    {DIMS PAD "B=Shape am; b1=Slice B #0 #1; w1=Concat b1 #1 S1 T1 {axis=0}; e4=Expand PA w1; M=Where e4 0 -1e38; " ATT,
     "?=Cast am {to=9}; ?=Reshape ? step; ?=Where ? const const; y=Attention aq ak av ? pk pv {scale=0 softcap=0}"},
    {DIMS PAD "B=Shape am; b1=Slice B #0 #1; w1=Concat b1 #1 S1 T1 {axis=0}; e4=Expand PA w1; M=Where e4 0 -inf; " ATT,
     "?=Cast am {to=9}; ?=Reshape ? step; y=Attention aq ak av ? pk pv {scale=0 softcap=0}"},
    {PAD "y=Attention aq ak av PA pk pv", ""},
    /* a comparison that is only read as itself: floats do not tell these integers apart */
    {DIMS I J CAUSAL "f=Cast am {to=1}; eq=Equal f 16777216; PA=Unsqueeze eq #1,2; M=And C PA; " ATT,
     "f=Cast am {to=1}; eq=Equal f 16777216; ?=Reshape eq step; y=Attention aq ak av ? pk pv {scale=0 softcap=0} "
     "causal"},
    {DIMS I J CAUSAL "iv=Sub %1 am; ge=GreaterOrEqual iv %0; PA=Unsqueeze ge #1,2; M=And C PA; " ATT,
     "?=GreaterOrEqual am const; ?=Not ?; ?=Reshape ? step; y=Attention aq ak av ? pk pv {scale=0 softcap=0} causal"},
};

/* near misses */
static const form misses[] = {
    {DIMS I J "M=Less KJ QI; " ATT, ""},
    {DIMS I J "M=GreaterOrEqual KJ QI; " ATT, "y=Attention aq ak av - pk pv {scale=0 softcap=0} left=0"},
    {DIMS I J "M=Greater KJ QI; " ATT, ""},
    {DIMS J "qi=Range %0 S %1; QI=Unsqueeze qi #1; M=LessOrEqual KJ QI; " ATT, ""},
    {DIMS I J "Q1=Add QI %1; M=LessOrEqual KJ Q1; " ATT, "y=Attention aq ak av - pk pv {scale=0 softcap=0} right=1"},
    {DIMS I J "K2=Mul KJ %2; M=LessOrEqual K2 QI; " ATT, ""},
    {DIMS I J "M=Equal KJ QI; " ATT, "y=Attention aq ak av - pk pv {scale=0 softcap=0} causal left=0"},
    {DIMS I J CAUSAL "first=Less KJ %2; Q3=Sub QI %3; w1=Greater KJ Q3; o1=Or first w1; M=And C o1; " ATT, ""},
    {DIMS I J CAUSAL "M=Where C 0 -9; " ATT, ""},
    {DIMS PAD "B=Shape am; b1=Slice B #0 #1; w1=Concat b1 #1 S1 T1 {axis=0}; e4=Expand PA w1; lo=Where e4 0 -1e38; "
              "p2=Unsqueeze ab #1,2; l2=Where p2 0 -1e35; M=Add lo l2; " ATT,
     ""},
    {DIMS I J CAUSAL "T3=Sub T %1; R=Sub T3 KJ; ac=Cast am {to=9}; g=Gather ac R {axis=1}; PA=Unsqueeze g #1,2; "
                     "M=And C PA; " ATT,
     ""},
    {DIMS I J "c=LessOrEqual KJ QI; ST=Concat S1 T1 {axis=0}; r0=Range %0 S %1; r1=Unsqueeze r0 #1; e0=Expand r1 ST; "
              "T3=Sub T %1; R=Sub T3 KJ; e1=Expand R ST; u0=Unsqueeze e0 #-1; u1=Unsqueeze e1 #-1; "
              "ix=Concat u0 u1 {axis=-1}; n=Not c; M=ScatterND n ix c; " ATT,
     ""},
    /* an axis that may be 1 or 8 */
    {"KS=Shape a8; n8=Slice KS #2 #3; b1=Slice KS #0 #1; w1=Concat b1 #1,1 n8 {axis=0}; u4=Unsqueeze ae #1,2; "
     "M=Expand u4 w1; y=Attention aq a8 a8 M",
     ""},
    {DIMS I J CAUSAL "M=Where C 1 -inf; " ATT, ""},
    {DIMS I J CAUSAL "M=Where C mp -inf; " ATT, ""},
    {DIMS I J CAUSAL "e1=Equal mp 0; M=And C e1; " ATT, ""},
    {DIMS I J CAUSAL "r=Cast as {to=9}; R=Unsqueeze r #1,3; M=And C R; " ATT, ""},
    {DIMS I J CAUSAL PAD "M=Or C PA; " ATT, ""},
    {DIMS "r=Slice sq_n P1 T1 #2; M=Slice r #0 T1 #3; " ATT, ""},
    {DIMS "P2=Sub P1 #1; T2=Sub T1 #1; r=Slice sq_t P2 T2 #2; M=Slice r #0 T1 #3; " ATT, ""},
    /* keys that were joined before: is_causal would count from 0 */
    {DIMS I J "M=LessOrEqual KJ QI; k=Concat pk ak {axis=2}; v=Concat pv av {axis=2}; y=Attention aq k v M", ""},
    {DIMS "T2=Concat T1 T1 {axis=0}; f=ConstantOfShape T2 {value=f32[1]=1}; t=Trilu f {upper=0}; c=Cast t {to=9}; "
          "tt=Transpose c {perm=1,0}; M=Slice tt P1 T1 #0; " ATT,
     "y=Attention aq ak av - pk pv {scale=0 softcap=0} left=0"},
};

/* sums: positions go, one row for all queries stays */
#define LOW(c) "u4=Unsqueeze am #1,2; f=Cast u4 {to=1}; iv=Sub 1 f; lo=Mul iv " c "; "
static const form sums[] = {
    {DIMS I J CAUSAL LOW("-9") "c2=Where C 0 -3.4e38; M=Add c2 lo; " ATT,
     LOW("-9") "y=Attention aq ak av lo pk pv {scale=0 softcap=0} causal"},
    {DIMS I J CAUSAL "u4=Unsqueeze ao #1,2; f=Cast u4 {to=1}; iv=Sub 1 f; lo=Mul iv -3.4e38; c2=Where C 0 -3.4e38; "
                     "M=Add lo c2; " ATT,
     "u4=Unsqueeze ao #1,2; f=Cast u4 {to=1}; iv=Sub 1 f; lo=Mul iv -3.4e38; y=Attention aq ak av lo pk pv {scale=0 "
     "softcap=0} causal"},
    {DIMS I J CAUSAL LOW("-9") "c2=Where C 0 -inf; m1=Add lo af; M=Add m1 c2; " ATT,
     LOW("-9") "?=Add lo af; y=Attention aq ak av ? pk pv {scale=0 softcap=0} causal"},
    {DIMS I J CAUSAL LOW("-9") "D=Sub QI KJ; w1=Less D %3; w2=Where w1 0 -inf; c2=Where C 0 -3.4e38; m1=Add w2 lo; "
                               "M=Add m1 c2; " ATT,
     LOW("-9") "y=Attention aq ak av lo pk pv {scale=0 softcap=0} causal left=2"},
    /* conditions on keys within the same part, with and without another that stays */
    {DIMS I J CAUSAL LOW("-9") "p2=Unsqueeze ab #1,2; cp=And C p2; c2=Where cp 0 -inf; M=Add c2 lo; " ATT,
     LOW("-9") "?=Reshape ab step; ?=Where ? const const; ?=Add ? lo; y=Attention aq ak av ? pk pv {scale=0 "
               "softcap=0} causal"},
    {DIMS I J CAUSAL "p2=Unsqueeze ab #1,2; cp=And C p2; c2=Where cp 0 -inf; su=Reshape sk #2,1,1; kf=Cast KJ {to=1}; "
                     "al=Mul su kf; M=Add c2 al; " ATT,
     "?=Reshape ab step; y=Attention aq ak av ? pk pv - - sk {scale=0 softcap=0} causal"},
    /* near misses: what stays has a row for each query, or one number for all keys, which a mask would not broadcast;
     * not low enough; nothing about positions */
    {DIMS I J CAUSAL "c2=Where C 0 -inf; M=Add c2 mp; " ATT, ""},
    {DIMS I J CAUSAL "c2=Where C 0 -inf; M=Add c2 sk4; " ATT, ""},
    {DIMS I J CAUSAL "c2=Where C 0 -inf; s3=Reshape sk #2,1,1; M=Add c2 s3; " ATT, ""},
    {DIMS I J CAUSAL "c2=Where C 0 -inf; M=Add c2 u; " ATT, ""},
    {DIMS I J CAUSAL PAD LOW(
         "-9") "B=Shape am; b1=Slice B #0 #1; w1=Concat b1 #1 S1 T1 {axis=0}; e4=Expand PA w1; "
               "p2=Unsqueeze ab #1,2; l2=Where p2 -1e35 -1e38; l3=Where e4 0 l2; c2=Where C 0 -inf; "
               "m1=Add c2 l3; M=Add m1 lo; " ATT,
     ""},
    {DIMS I J CAUSAL LOW("-9") "c2=Where C 0 -9; M=Add c2 lo; " ATT, ""},
    {DIMS I J CAUSAL LOW("-9") "c2=Where C 1 -inf; M=Add c2 lo; " ATT, ""},
    {DIMS LOW("-9") "M=Add lo af; " ATT, ""},
    {DIMS I J LOW("-9") "c=Less KJ QI; c2=Where c 0 -inf; M=Add c2 lo; " ATT, ""},
    {DIMS I J CAUSAL LOW("-9") "c2=Where C 0 -inf; M=Sub c2 lo; " ATT, ""},
};

/* ALiBi */
#define SLOPE "su=Reshape sk #2,1,1; "
#define SLOPED "y=Attention aq ak av - pk pv - - sk {scale=0 softcap=0} causal"
static const form slopes[] = {
    {DIMS I J CAUSAL SLOPE "kf=Cast KJ {to=1}; al=Mul su kf; M=Where C al -inf; " ATT, SLOPED},
    {DIMS I J CAUSAL SLOPE "kf=Cast KJ {to=1}; al=Mul kf su; c2=Where C 0 -3.4e38; M=Add al c2; " ATT, SLOPED},
    {DIMS I J CAUSAL SLOPE "d=Sub KJ QI; df=Cast d {to=1}; al=Mul su df; c2=Where C 0 -3.4e38; M=Add al c2; " ATT,
     SLOPED},
    /* positions subtracted as floats; from T back; [1,heads,1,1] */
    {DIMS I J CAUSAL SLOPE "kf=Cast KJ {to=1}; qf=Cast QI {to=1}; d=Sub kf qf; al=Mul su d; M=Where C al -inf; " ATT,
     SLOPED},
    {DIMS I J CAUSAL SLOPE "nT=Sub %1 T; r=Range nT %1 %1; rf=Cast r {to=1}; al=Mul su rf; a4=Unsqueeze al #0; "
                           "M=Where C a4 -inf; " ATT,
     SLOPED},
    {DIMS I J CAUSAL "kf=Cast KJ {to=1}; k1=Sub kf 1; al=Mul sk4 k1; M=Where C al -inf; " ATT,
     "y=Attention aq ak av - pk pv - - const {scale=0 softcap=0} causal"},
    /* falling with the distance */
    {DIMS I J CAUSAL SLOPE "d=Sub QI KJ; df=Cast d {to=1}; al=Mul su df; M=Where C al -inf; " ATT,
     "?=Mul sk const; y=Attention aq ak av - pk pv - - ? {scale=0 softcap=0} causal"},
    {DIMS I J CAUSAL "sn=Neg sk4; kf=Cast KJ {to=1}; al=Mul sn kf; M=Where C al -inf; " ATT,
     "sn=Neg sk4; ?=Reshape sn const; y=Attention aq ak av - pk pv - - ? {scale=0 softcap=0} causal"},
    /* a constant table, its first T columns, or those behind the first */
    {DIMS I J CAUSAL "T2=Add T1 #1; al=Slice al_t #1 T2 #3; c2=Where C 0 -3.4e38; M=Add al c2; " ATT,
     "y=Attention aq ak av - pk pv - - const {scale=0 softcap=0} causal"},
    {DIMS I J CAUSAL "al=Slice al_t #0 T1 #3; c2=Where C 0 -3.4e38; M=Add al c2; " ATT,
     "y=Attention aq ak av - pk pv - - const {scale=0 softcap=0} causal"},
    /* with keys that are hidden, and without any condition */
    {DIMS I J CAUSAL PAD SLOPE "kf=Cast KJ {to=1}; al=Mul su kf; cp=And C PA; M=Where cp al -inf; " ATT,
     "?=Cast am {to=9}; ?=Reshape ? step; y=Attention aq ak av ? pk pv - - sk {scale=0 softcap=0} causal"},
    {DIMS J SLOPE "kf=Cast KJ {to=1}; M=Mul su kf; " ATT, "y=Attention aq ak av - pk pv - - sk {scale=0 softcap=0}"},
    {DIMS I J CAUSAL SLOPE LOW(
         "-9") "kf=Cast KJ {to=1}; al=Mul su kf; c2=Where C 0 -3.4e38; m1=Add al lo; M=Add m1 c2; " ATT,
     LOW("-9") "y=Attention aq ak av lo pk pv - - sk {scale=0 softcap=0} causal"},
    /* near misses: no line; slopes of queries; two of them (the second stays); where sinks see more than differences */
    {DIMS J SLOPE "kf=Cast KJ {to=1}; k2=Mul kf kf; M=Mul su k2; " ATT, ""},
    {DIMS J SLOPE "kf=Cast KJ {to=1}; al=Mul su kf; T3=Sub T %1; R=Sub T3 KJ; M=Gather al R {axis=2}; " ATT, ""},
    {DIMS I J SLOPE "qf=Cast QI {to=1}; kf=Cast KJ {to=1}; d=Mul qf kf; M=Mul su d; " ATT, ""},
    {DIMS I J CAUSAL "al=Slice al_n #0 T1 #3; c2=Where C 0 -3.4e38; M=Add al c2; " ATT,
     "PS=Shape pk; AS=Shape aq; P1=Slice PS #2 #3; S1=Slice AS #2 #3; T1=Add P1 S1; al=Slice al_n #0 T1 #3; "
     "y=Attention aq ak av al pk pv {scale=0 softcap=0} causal"},
    {DIMS J SLOPE "kf=Cast KJ {to=1}; a1=Mul su kf; a2=Mul sk4 kf; M=Add a1 a2; " ATT,
     "PS=Shape pk; AS=Shape aq; P1=Slice PS #2 #3; S1=Slice AS #2 #3; T1=Add P1 S1; "
     "T=Squeeze T1; KJ=Range %0 T %1; kf=Cast KJ {to=1}; a2=Mul sk4 kf; y=Attention aq ak av a2 pk pv - - sk {scale=0 "
     "softcap=0}"},
    {DIMS J SLOPE "kf=Cast KJ {to=1}; M=Mul su kf; y=tenon.Attention aq ak av M pk pv - sk", ""},
};

/* Scores are sums of 4 products below 9 and slopes below 3 times 8 positions, rounded before and after. */
#define SLOPES_BOUND ((8 + 4 * (4 * 9 + 3 * 8)) * (double)FLT_EPSILON)

/* A triangle of this run's positions, stretched to the past too: a prompt without one, or one position at a time. */
#define TRIANGLE "r=Range %0 S %1; r1=Add r %1; R=Unsqueeze r1 #1; c=Less r R; "

static const form stretched[] = {
    {DIMS TRIANGLE "w1=Where c 0 -inf; e4=Unsqueeze w1 #0,1; M=Add e4 af; " ATT,
     "y=Attention aq ak av af pk pv {scale=0 softcap=0} causal"},
    {DIMS TRIANGLE "ST=Concat S1 T1 {axis=0}; M=Expand c ST; " ATT, DONE},
    {DIMS TRIANGLE "ST=Concat S1 T1 {axis=0}; n=Not c; x1=Expand n ST; M=Not x1; " ATT, DONE},
    {DIMS "r=Range %0 S %1; R=Unsqueeze r #1; D=Sub R r; w1=Less D %2; c=LessOrEqual r R; m1=And w1 c; "
          "ST=Concat S1 T1 {axis=0}; M=Expand m1 ST; " ATT,
     ""},
    /* without the diagonal a single position sees nothing, whatever the past */
    {DIMS "r=Range %0 S %1; R=Unsqueeze r #1; c=Less r R; n=Not c; ST=Concat S1 T1 {axis=0}; M=Expand c ST; " ATT, ""},
    /* keys that a tensor hides are of this run */
    {DIMS TRIANGLE "ak1=Cast as {to=9}; k1=Unsqueeze ak1 #1; m1=And c k1; sh=Shape mb; "
                   "PB=Concat sh #0 {axis=0}; ST=Concat S1 T1 {axis=0}; M=Expand m1 ST; " ATT,
     ""},
};

static void test_stretched(void) {
  static const form_sizes prompt = {.b = 2, .s = 3, .past = 0}, step = {.b = 2, .s = 1, .past = 5};
  run_forms_at(stretched, sizeof stretched / sizeof *stretched, tni_pass_mask, BOUND, &prompt);
  run_forms_at(stretched, sizeof stretched / sizeof *stretched, tni_pass_mask, BOUND, &step);
}

static void test_sums(void) { run_forms(sums, sizeof sums / sizeof *sums, tni_pass_mask, SLOPES_BOUND); }
static void test_slopes(void) { run_forms(slopes, sizeof slopes / sizeof *slopes, tni_pass_mask, SLOPES_BOUND); }

static void test_positions(void) { run_forms(positions, sizeof positions / sizeof *positions, tni_pass_mask, BOUND); }
static void test_padding(void) { run_forms(padding, sizeof padding / sizeof *padding, tni_pass_mask, BOUND); }
static void test_misses(void) { run_forms(misses, sizeof misses / sizeof *misses, tni_pass_mask, BOUND); }

/* From primitives through all passes but the cache's. */
static void from_primitives(const char *text, uint32_t op, uint32_t n_in, bool mask, int64_t left) {
  static const char *const off[] = {"cache"};
  const tni_passes_options opt = {.disabled = off, .n_disabled = 1};
  const form_sizes sizes = {.b = 2, .s = 3, .past = 5};
  tni_tensor x[FORM_OUTPUTS], y[FORM_OUTPUTS];
  uint32_t n = 0;
  tn_error err;
  tni_error_init(&err);
  tni_graph *g = form_graph(text, &err), *plain = form_graph(text, &err);
  tni_arena *a = tni_arena_create();
  CU_ASSERT_EQUAL(tni_passes_run(g, &opt, NULL, NULL, NULL, &err), TN_OK);
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const tni_node *node = g->nodes[i];
    const tn_id m = tni_match_in(node, 3);
    if (!tni_is_attention(node->pub.op)) continue;
    n++;
    CU_ASSERT_EQUAL(node->pub.op, op);
    CU_ASSERT_EQUAL(node->pub.n_in, n_in);
    CU_ASSERT_NOT_EQUAL(tni_match_in(node, n_in - 1), TN_NONE);
    CU_ASSERT_NOT_EQUAL(tni_match_in(node, 4), TN_NONE);
    CU_ASSERT_EQUAL(tni_attr_i(&node->pub, "is_causal", 0), 1);
    CU_ASSERT_EQUAL(tni_attr_i(&node->pub, "left_window_size", -1), left);
    CU_ASSERT_EQUAL(m != TN_NONE, mask);
    if (m != TN_NONE) CU_ASSERT_EQUAL(tni_graph_value(g, m)->pub.dims[2], tni_ex_const(g->exprs, 1));
  }
  CU_ASSERT_EQUAL(n, 1);
  form_run(plain, &sizes, a, x);
  form_run(g, &sizes, a, y);
  CU_ASSERT_TRUE(form_same(&x[0], &y[0], SLOPES_BOUND));
  tni_arena_destroy(a);
  tni_graph_destroy(g);
  tni_graph_destroy(plain);
}

#define JOINED \
  "k=Concat pk ak {axis=2}; v0=Concat pv av {axis=2}; kt=Transpose k {perm=0,1,3,2}; s0=MatMul aq kt; s1=Div s0 2; "

static void test_from_primitives(void) {
  /* GPT-2 as it was written for years: a constant triangle, sliced and filled in before a second mask is added */
  from_primitives(DIMS JOINED "r=Slice sq_t P1 T1 #2; c=Slice r #0 T1 #3; s2=Where c s1 -3.4028235e38; " PAD
                              "l0=Where PA 0 -3.4028235e38; s3=Add s2 l0; p0=Softmax s3 {axis=-1}; y=MatMul p0 v0",
                  TN_OP_ATTENTION, 6, true, -1);
  /* the same with a mask that is multiplied */
  from_primitives(DIMS JOINED
                  "r=Slice sq_t P1 T1 #2; c=Slice r #0 T1 #3; s2=Where c s1 -3.4028235e38; "
                  "u4=Unsqueeze ao #1,2; f=Cast u4 {to=1}; iv=Sub 1 f; lo=Mul iv -3.4028235e38; "
                  "s3=Add s2 lo; p0=Softmax s3 {axis=-1}; y=MatMul p0 v0",
                  TN_OP_ATTENTION, 6, true, -1);
  /* sinks behind a window, as gpt-oss has them */
  from_primitives(DIMS I J CAUSAL JOINED
                  "Q3=Sub QI %3; w1=Greater KJ Q3; cw=And C w1; m0=Where cw 0 -3.4028235e38; s2=Add s1 m0; "
                  "s4=Reshape sk #1,-1,1,1; b0=Slice AS #0 #1; we=Concat b0 #2 S1 #1 {axis=0}; se=Expand s4 we; "
                  "cs=Concat s2 se {axis=-1}; x1=ReduceMax cs #-1; d=Sub cs x1; p1=Softmax d {axis=-1}; "
                  "p0=Slice p1 #0 #-1 #3; y=MatMul p0 v0",
                  TN_OP_TENON_ATTENTION, 8, false, 2);
  /* ALiBi and both masks, added one behind another */
  from_primitives(DIMS I J CAUSAL JOINED SLOPE LOW(
                      "-9") "kf=Cast KJ {to=1}; qf=Cast QI {to=1}; d=Sub kf qf; al=Mul su d; s2=Add s1 al; "
                            "m0=Where C 0 -3.4028235e38; s3=Add s2 m0; s4=Add s3 lo; p0=Softmax s4 {axis=-1}; "
                            "y=MatMul p0 v0",
                  TN_OP_TENON_ATTENTION, 9, true, -1);
}

void test_mask_random(void);

CU_pSuite suite_mask(void) {
  CU_pSuite s = CU_add_suite("mask", NULL, NULL);
  if (!s || !CU_add_test(s, "positions", test_positions) || !CU_add_test(s, "padding", test_padding) ||
      !CU_add_test(s, "near misses", test_misses) || !CU_add_test(s, "stretched", test_stretched) ||
      !CU_add_test(s, "sums", test_sums) || !CU_add_test(s, "slopes", test_slopes) ||
      !CU_add_test(s, "from primitives", test_from_primitives) || !CU_add_test(s, "random masks", test_mask_random))
    return NULL;
  return s;
}
