/* SPDX-License-Identifier: Apache-2.0
 *
 * cache: past and present become caches in place, in every layout; and what stays as it is. Every bit is kept.
 */
#include "tests/passes/forms.h"

#include "runtime/passes/decoder/decoder.h"

#define ATTENTION "y,!k,!v=Attention x z o2 - pk pv {q_num_heads=2&kv_num_heads=2}"
#define O2 "o2=Add x z; "
#define SCATTERED(k, v, m, how, y)                                                                   \
  "cache'=TensorScatter cache " k " pos {axis=1}; cache'=TensorScatter cache " v " pos {axis=1}; " y \
  "=Attention x cache' cache' " m " - - valid {scale=0 softcap=0}" how " heads=2/2"

static const form caches[] = {
    {O2 ATTENTION, "o2=Add x z; " SCATTERED("z", "o2", "-", "", "y")},
    {O2 "y,!k,!v=Attention x z o2 mp pk pv {q_num_heads=2&kv_num_heads=2&is_causal=1}",
     "o2=Add x z; " SCATTERED("z", "o2", "mp", " causal", "y")},
    {O2 "y,!k,!v=Attention x z o2 mb pk pv {q_num_heads=2&kv_num_heads=2&left_window_size=3}",
     "o2=Add x z; " SCATTERED("z", "o2", "mb", " left=3", "y")},
    {O2 "y,!k,!v=tenon.Attention x z o2 mb pk pv - sk sk {q_num_heads=2&kv_num_heads=2&is_causal=1}",
     "o2=Add x z; cache'=TensorScatter cache z pos {axis=1}; cache'=TensorScatter cache o2 pos {axis=1}; "
     "y=Attention x cache' cache' mb - - valid sk sk {scale=0 softcap=0} causal heads=2/2"},
    /* 4D; v before k among the outputs; nobody reads the result of the last */
    {"q4=Slice q #0 #4 #3; k4=Slice q #4 #8 #3; !y,!k,!v=Attention q4 k4 q4 - pk pv; i=ReduceSum x",
     "q4=Slice q #0 #4 #3; k4=Slice q #4 #8 #3; i=ReduceSum x; cache'=TensorScatter cache k4 pos {axis=2}; "
     "cache'=TensorScatter cache q4 pos {axis=2}; y=Attention q4 cache' cache' - - - valid {scale=0 softcap=0}"},
    {"q4=Slice q #0 #4 #3; k4=Slice q #4 #8 #3; y,!k,!v=Attention q4 k4 q4 - pk pv; i=ReduceSum x",
     "q4=Slice q #0 #4 #3; k4=Slice q #4 #8 #3; i=ReduceSum x; cache'=TensorScatter cache k4 pos {axis=2}; "
     "cache'=TensorScatter cache q4 pos {axis=2}"},
    /* another layout: by length, sequence first, transposed */
    {O2 "p=Transpose pl {perm=0,2,1,3}; y,k,!v=Attention x z o2 - p pv {q_num_heads=2&kv_num_heads=2}; "
        "!k0=Transpose k {perm=0,2,1,3}; w=Neg y",
     "o2=Add x z; cache'=TensorScatter cache z pos {axis=1}; cache'=TensorScatter cache o2 pos {axis=1}; "
     "y=Attention x cache' cache' - - - valid {scale=0 softcap=0} heads=2/2; w=Neg y"},
    {O2 "p=Transpose ps {perm=1,2,0,3}; y,k,!v=Attention x z o2 - p pv {q_num_heads=2&kv_num_heads=2}; "
        "!k0=Transpose k {perm=2,0,1,3}; w=Neg y",
     "o2=Add x z; cache'=TensorScatter cache z pos {axis=1}; cache'=TensorScatter cache o2 pos {axis=1}; "
     "y=Attention x cache' cache' - - - valid {scale=0 softcap=0} heads=2/2; w=Neg y"},
    {"q4=Slice q #0 #4 #3; k4=Slice q #4 #8 #3; p=Transpose pt {perm=0,1,3,2}; y,k,!v=Attention q4 k4 q4 - p pv; "
     "!k0=Transpose k {perm=0,1,3,2}; w=Neg y",
     "q4=Slice q #0 #4 #3; k4=Slice q #4 #8 #3; cache'=TensorScatter cache k4 pos {axis=2}; cache'=TensorScatter cache "
     "q4 pos {axis=2}; y=Attention q4 cache' cache' - - - valid {scale=0 softcap=0}; w=Neg y"},
    /* a Concat that is no cache, and an Attention without a past, are in nobody's way */
    {O2 "!c=Concat x z {axis=2}; a=Attention x z o2 {q_num_heads=2&kv_num_heads=2}; y,!k,!v=Attention a z o2 - pk pv "
        "{q_num_heads=2&kv_num_heads=2}; w=Neg y",
     "o2=Add x z; c=Concat x z; a=Attention x z o2 {scale=0 softcap=0} heads=2/2; cache'=TensorScatter cache z pos "
     "{axis=1}; "
     "cache'=TensorScatter cache o2 pos {axis=1}; y=Attention a cache' cache' - - - valid {scale=0 softcap=0} "
     "heads=2/2; w=Neg y"},
    /* more or fewer queries than new keys: only where nothing depends on which is the last */
    {"o2=Add v3 v3; y,!k,!v=Attention x v3 o2 - pk pv {q_num_heads=2&kv_num_heads=2}",
     "o2=Add v3 v3; " SCATTERED("v3", "o2", "-", "", "y")},
    {"o2=Add v3 v3; y,!k,!v=Attention x v3 o2 - pk pv {q_num_heads=2&kv_num_heads=2&is_causal=1}", ""},
    {"o2=Add v3 v3; y,!k,!v=Attention x v3 o2 - pk pv {q_num_heads=2&kv_num_heads=2&right_window_size=1}", ""},
    {"o2=Add v3 v3; y,!k,!v=tenon.Attention x v3 o2 - pk pv - - sk {q_num_heads=2&kv_num_heads=2}", ""},
    /* something else: present is read, past is, present is no output, or in another layout than past */
    {O2 ATTENTION "; i=ReduceSum k; w=Add y i", ""},
    {O2 ATTENTION "; i=ReduceSum pv; w=Add y i", ""},
    {O2 "y,!k,v=Attention x z o2 - pk pv {q_num_heads=2&kv_num_heads=2}", ""},
    {O2 "y,!k,-=Attention x z o2 - pk pv {q_num_heads=2&kv_num_heads=2}", ""},
    {O2 "p=Transpose pl {perm=0,2,1,3}; y,!k,!v=Attention x z o2 - p pv {q_num_heads=2&kv_num_heads=2}", ""},
    {O2 "y,k,!v=Attention x z o2 - pk pv {q_num_heads=2&kv_num_heads=2}; !k0=Transpose k {perm=0,2,1,3}; w=Neg y", ""},
    {O2 "p=Transpose ps {perm=1,2,0,3}; y,k,!v=Attention x z o2 - p pv {q_num_heads=2&kv_num_heads=2}; "
        "!k0=Transpose k {perm=1,2,0,3}; w=Neg y",
     ""},
    {O2 "p=Neg pk; y,!k,!v=Attention x z o2 - p pv {q_num_heads=2&kv_num_heads=2}", ""},
    /* a mask that the data size: such an Attention runs beside the plan */
    {O2 "m0=NonZero x; m1=Slice m0 #0 #1 #0; m2=Slice m1 #0 #1 #1; m3=Cast m2 {to=1}; y,!k,!v=Attention x z o2 m3 pk "
        "pv {q_num_heads=2&kv_num_heads=2}",
     ""},
    /* one that cannot be leaves both */
    {O2 "a,!k,!v=Attention x z o2 - pk pv {q_num_heads=2&kv_num_heads=2}; y,!k1=Attention a z o2 - px py "
        "{q_num_heads=2&kv_num_heads=2}",
     ""},
    {O2 "k4=Slice q #0 #4 #3; !c=Concat px k4 {axis=2}; " ATTENTION, ""},
    {O2 "k4=Slice q #0 #4 #3; n=Neg px; c=Concat n k4 {axis=2}; i=ReduceSum c; " ATTENTION "; w=Add y i", ""},
    {O2
     "k4=Slice q #0 #4 #3; i=ReduceSum po; y,!k,!v=Attention x z o2 - pk pv {q_num_heads=2&kv_num_heads=2}; w=Add y i",
     "o2=Add x z; i=ReduceSum po; " SCATTERED("z", "o2", "-", "", "y") "; w=Add y i"},
    /* another length */
    {O2 "a,!k,!v=Attention x z o2 - pk pv {q_num_heads=2&kv_num_heads=2}; "
        "y,!k1,!v1=Attention a z o2 - po p2 {q_num_heads=2&kv_num_heads=2}; w=Neg y",
     ""},
};

static void test_caches(void) { run_forms(caches, sizeof caches / sizeof *caches, tni_pass_cache, 0); }

CU_pSuite suite_cache(void) {
  CU_pSuite s = CU_add_suite("cache", NULL, NULL);
  return s && CU_add_test(s, "caches", test_caches) ? s : NULL;
}
