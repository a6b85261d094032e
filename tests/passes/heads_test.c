/* SPDX-License-Identifier: Apache-2.0
 *
 * heads: 3D rotary and attention, past and present inside attention, and what is something else. Every bit is kept.
 */
#include "tests/passes/forms.h"

#include "runtime/passes/decoder/decoder.h"

#define BY_HEAD(x, r, y) r "=Reshape " x " #0,0,2,4; " y "=Transpose " r " {perm=0,2,1,3}; "
#define QKV BY_HEAD("x", "qr", "q4") BY_HEAD("z", "kr", "k4") BY_HEAD("o2", "vr", "v4")
#define O2 "o2=Add x z; "
#define WAVES "c=Cos fw; n=Sin fw; "

static const form rotary[] = {
    {"fw=Slice fr #0 #2 #2; " WAVES BY_HEAD("x", "r", "q4") "y=RotaryEmbedding q4 c n",
     "fw=Slice fr #0 #2 #2; c=Cos fw; n=Sin fw; ?=RotaryEmbedding x c n {dim=0} heads=2/2; ?=Reshape ? #0,0,2,4; "
     "y=Transpose ? {perm=0,2,1,3}"},
    /* part of a head */
    {"fw=Slice fr #0 #1 #2; " WAVES BY_HEAD("x", "r", "q4") "y=RotaryEmbedding q4 c n {rotary_embedding_dim=2}",
     "fw=Slice fr #0 #1 #2; c=Cos fw; n=Sin fw; ?=RotaryEmbedding x c n {dim=2} heads=2/2; ?=Reshape ? #0,0,2,4; "
     "y=Transpose ? {perm=0,2,1,3}"},
    /* one head: only an axis more */
    {"fw=Slice fr #0 #2 #2; " WAVES "q4=Unsqueeze fr #1; y=RotaryEmbedding q4 c n",
     "fw=Slice fr #0 #2 #2; c=Cos fw; n=Sin fw; ?=RotaryEmbedding fr c n {dim=0} heads=1/1; y=Unsqueeze ? #1"},
    /* something else */
    {"fw=Slice fr #0 #2 #2; " WAVES "r=Reshape x #0,2,-1,4; q4=Transpose r {perm=0,1,2,3}; y=RotaryEmbedding q4 c n",
     ""},
    {"fw=Slice fr #0 #2 #2; " WAVES "t=Transpose x {perm=0,2,1}; r=Reshape t #0,2,4,-1; q4=Transpose r {perm=0,1,3,2}; "
     "y=RotaryEmbedding q4 c n",
     ""},
    {"fw=Slice fr #0 #2 #2; " WAVES
     "s=Transpose q {perm=0,2,1,3}; q4=Transpose s {perm=0,2,1,3}; h4=Slice q4 #0 #4 #3; "
     "y=RotaryEmbedding h4 c n",
     ""},
};

static const form attention[] = {
    {O2 QKV "a=Attention q4 k4 v4 {is_causal=1}; t=Transpose a {perm=0,2,1,3}; y=Reshape t #0,0,8",
     "o2=Add x z; ?=Attention x z o2 {scale=0 softcap=0} causal heads=2/2; ?=Reshape ? const; a=Transpose ? "
     "{perm=0,2,1,3}; "
     "t=Transpose a {perm=0,2,1,3}; y=Reshape t #0,0,8"},
    /* fewer heads of k and v; a mask and a scale stay */
    {BY_HEAD("x", "qr", "q4") "k4=Unsqueeze fr #1; v4=Unsqueeze fs #1; y=Attention q4 k4 v4 m2 {scale=0.5f}",
     "?=Attention x fr fs m2 {scale=0.5 softcap=0} heads=2/1; ?=Reshape ? const; y=Transpose ? {perm=0,2,1,3}"},
    /* heads by length that nothing flat stands behind: only a Reshape is left */
    {BY_HEAD("x", "qr", "q4") BY_HEAD("z", "kr", "k4") "v0=Mul kr kr; v4=Transpose v0 {perm=0,2,1,3}; "
                                                       "y=Attention q4 k4 v4",
     "kr=Reshape z #0,0,2,4; v0=Mul kr kr; ?=Reshape v0 const; ?=Attention x z ? {scale=0 softcap=0} heads=2/2; "
     "?=Reshape ? const; y=Transpose ? {perm=0,2,1,3}"},
    /* keys and values that are given by heads: only the queries are flat */
    {BY_HEAD("x", "qr", "q4") "y=Attention q4 pk pv {scale=0.5f}",
     "?=Attention x pk pv {scale=0.5 softcap=0} heads=2/2; ?=Reshape ? const; y=Transpose ? {perm=0,2,1,3}"},
    {BY_HEAD("x", "qr", "q4") "n=Neg pk; y=Attention q4 n pv", ""},
    {BY_HEAD("x", "qr", "q4") "y=Attention q4 px py - pk pv", ""},
    {BY_HEAD("x", "qr", "q4") "y,-,-,!q2=Attention q4 pk pv", ""},
    /* something else */
    {BY_HEAD("x", "qr", "q4") BY_HEAD("z", "kr", "k4") "v0=Reshape x #0,2,-1,4; y=Attention q4 k4 v0", ""},
    {"y=Attention q kk vv", ""},
};

#define K4 BY_HEAD("x", "kr", "k4")
#define V4 BY_HEAD("z", "vr", "v4")
#define Q4 BY_HEAD("o2", "qr", "q4")
#define JOIN "!k=Concat pk k4 {axis=2}; !v=Concat pv v4 {axis=-2}; "

static const form caches[] = {
    /* sinks stay; slopes count from the past's end, where there is one */
    {O2 Q4 K4 V4 JOIN "y=tenon.Attention q4 k v mp - - - sk",
     "o2=Add x z; ?,k,v=Attention o2 x z mp pk pv - sk {scale=0 softcap=0} heads=2/2; ?=Reshape ? const; "
     "y=Transpose ? {perm=0,2,1,3}"},
    {"k=Concat pk ak {axis=2}; v=Concat pv av {axis=2}; y=tenon.Attention aq k v - - - - - sk", ""},
    {O2 Q4 K4 V4 JOIN "y=Attention q4 k v mp",
     "o2=Add x z; ?,k,v=Attention o2 x z mp pk pv {scale=0 softcap=0} heads=2/2; ?=Reshape ? const; "
     "y=Transpose ? {perm=0,2,1,3}"},
    /* nobody wants present */
    {O2 Q4 K4 V4 "k=Concat pk k4 {axis=2}; v=Concat pv v4 {axis=-2}; y=Attention q4 k v",
     "o2=Add x z; ?,-,-=Attention o2 x z - pk pv {scale=0 softcap=0} heads=2/2; ?=Reshape ? const; "
     "y=Transpose ? {perm=0,2,1,3}"},
    /* 4D where 3D is not proved */
    {"q4=Slice q #0 #4 #3; k4=Slice q #4 #8 #3; v4=Slice kq #0 #4 #3; " JOIN "y=Attention q4 k v mb",
     "q4=Slice q #0 #4 #3; k4=Slice q #4 #8 #3; v4=Slice kq #0 #4 #3; y,k,v=Attention q4 k4 v4 mb pk pv {scale=0 "
     "softcap=0}"},
    /* other layouts: by length, and transposed keys */
    {O2 Q4 "kr=Reshape x #0,0,2,4; " V4 "!k0=Concat pl kr {axis=1}; k=Transpose k0 {perm=0,2,1,3}; "
           "!v=Concat pv v4 {axis=2}; y=Attention q4 k v",
     "o2=Add x z; ?=Transpose pl {perm=0,2,1,3}; ?,k,v=Attention o2 x z - ? pv {scale=0 softcap=0} heads=2/2; "
     "k0=Transpose k {perm=0,2,1,3}; ?=Reshape ? const; y=Transpose ? {perm=0,2,1,3}"},
    {O2 Q4 K4 "kt=Transpose k4 {perm=0,1,3,2}; " V4 "!k0=Concat pt kt {axis=3}; k=Transpose k0 {perm=0,1,3,2}; "
              "!v=Concat pv v4 {axis=2}; y=Attention q4 k v",
     "o2=Add x z; qr=Reshape o2 #0,0,2,4; q4=Transpose qr {perm=0,2,1,3}; kr=Reshape x #0,0,2,4; k4=Transpose kr "
     "{perm=0,2,1,3}; kt=Transpose k4 {perm=0,1,3,2}; vr=Reshape z #0,0,2,4; v4=Transpose vr {perm=0,2,1,3}; "
     "?=Transpose kt {perm=0,1,3,2}; ?=Transpose pt {perm=0,1,3,2}; y,k,v=Attention q4 ? v4 - ? pv {scale=0 "
     "softcap=0}; k0=Transpose k {perm=0,1,3,2}"},
    {O2 Q4 BY_HEAD("v3", "vr",
                   "v4") "kr=Reshape z3 #0,0,2,4; !k0=Concat ps kr {axis=0}; k=Transpose k0 {perm=1,2,0,3}; "
                         "!v=Concat pv v4 {axis=2}; y=Attention q4 k v",
     "o2=Add x z; qr=Reshape o2 #0,0,2,4; q4=Transpose qr {perm=0,2,1,3}; vr=Reshape v3 #0,0,2,4; v4=Transpose vr "
     "{perm=0,2,1,3}; kr=Reshape z3 #0,0,2,4; ?=Transpose kr {perm=1,2,0,3}; ?=Transpose ps {perm=1,2,0,3}; "
     "y,k,v=Attention q4 ? v4 - ? pv {scale=0 softcap=0}; k0=Transpose k {perm=2,0,1,3}"},
    /* something else: k read twice */
    {O2 Q4 K4 "!k=Concat pk k4 {axis=2}; y=Attention q4 k k", ""},
    {O2 Q4 K4 V4 JOIN "a=Attention q4 k v; y=Attention a k v", ""},
    {O2 Q4 K4 V4 JOIN "i=ReduceSum v; a=Attention q4 k v; y=Add a i", ""},
    {O2 Q4 BY_HEAD("v3", "vr",
                   "v4") "kr=Reshape z3 #0,0,2,4; !k0=Concat ps kr {axis=0}; k=Transpose k0 {perm=1,2,0,3}; "
                         "!v=Concat pv v4 {axis=2}; i=ReduceSum k; a=Attention q4 k v; y=Add a i",
     ""},
    /* past read twice, made by a node, or behind what is new */
    {O2 Q4 K4 V4 JOIN "i=ReduceSum pk; a=Attention q4 k v; y=Add a i", ""},
    {O2 Q4 K4 V4 "p=Neg pk; !k=Concat p k4 {axis=2}; !v=Concat pv v4 {axis=2}; y=Attention q4 k v", ""},
    {O2 Q4 K4 V4 "!k=Concat k4 pk {axis=2}; !v=Concat pv v4 {axis=2}; y=Attention q4 k v", ""},
    /* only one of the two */
    {O2 Q4 K4 V4 "!k=Concat pk k4 {axis=2}; v=Concat v4 v4 {axis=2}; v5=Slice v #0 #3 #2; k5=Slice k #0 #3 #2; "
                 "y=Attention q4 k5 v5",
     ""},
    /* joined over something that is no sequence */
    {O2 Q4 K4 "qq=Concat q4 k4 {axis=1}; !k=Concat pk px {axis=1}; !v=Concat pv py {axis=1}; y=Attention qq k v", ""},
    /* causal and windows count from the end of the past */
    {O2 Q4 K4 V4 JOIN "y=Attention q4 k v {is_causal=1}", ""},
    {O2 Q4 K4 V4 JOIN "y=Attention q4 k v - {left_window_size=2}", ""},
    /* two names of one length: k and v of an Attention are as long */
    {O2 Q4 K4 V4 "!k=Concat pk k4 {axis=2}; !v=Concat po v4 {axis=2}; y=Attention q4 k v",
     "o2=Add x z; ?,k,v=Attention o2 x z - pk po {scale=0 softcap=0} heads=2/2; ?=Reshape ? const; "
     "y=Transpose ? {perm=0,2,1,3}"},
};

static const form joined[] = {
    {BY_HEAD("x", "r1", "q4") BY_HEAD("z", "r2", "k4") "y=Concat q4 k4 {axis=3}",
     "?=ConcatHeads x z heads=2/2; ?=Reshape ? const; y=Transpose ? {perm=0,2,1,3}"},
    /* one head for all, first or last */
    {BY_HEAD("x", "r1", "q4") "u=Unsqueeze fr #1; ex=Expand u #1,2,1,1; y=Concat q4 ex {axis=-1}",
     "?=ConcatHeads x fr heads=2/2; ?=Reshape ? const; y=Transpose ? {perm=0,2,1,3}"},
    {BY_HEAD("x", "r1", "q4") "u=Unsqueeze fr #1; ex=Expand u #1,2,1,1; y=Concat ex q4 ex {axis=-1}",
     "?=ConcatHeads fr x fr heads=2/2; ?=Reshape ? const; y=Transpose ? {perm=0,2,1,3}"},
    /* another axis; not split off; heads that are not one */
    {BY_HEAD("x", "r1", "q4") BY_HEAD("z", "r2", "k4") "y=Concat q4 k4 {axis=1}", ""},
    {BY_HEAD("x", "r1", "q4") "y=Concat q4 aq {axis=3}", ""},
    {"u=Unsqueeze fr #1; v1=Unsqueeze fs #1; y=Concat u v1 {axis=3}", ""},
};

static void test_joined(void) { run_forms(joined, sizeof joined / sizeof *joined, tni_pass_heads, 0); }
static void test_rotary(void) { run_forms(rotary, sizeof rotary / sizeof *rotary, tni_pass_heads, 0); }
static void test_attention(void) { run_forms(attention, sizeof attention / sizeof *attention, tni_pass_heads, 0); }
static void test_caches(void) { run_forms(caches, sizeof caches / sizeof *caches, tni_pass_heads, 0); }

CU_pSuite suite_heads(void) {
  CU_pSuite s = CU_add_suite("heads", NULL, NULL);
  return s && CU_add_test(s, "rotary", test_rotary) && CU_add_test(s, "attention", test_attention) &&
                 CU_add_test(s, "caches", test_caches) && CU_add_test(s, "joined", test_joined)
             ? s
             : NULL;
}
