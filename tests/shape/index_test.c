/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/shape/table.h"

static const rule_case gather[] = {
    {"Gather", 13, "f32[512,64] i64[b,s]", "", "f32[b,s,64]"},
    {"Gather", 13, "f32[b,s,64] i64[]=0", "axis=1", "f32[b,64]"},
    {"Gather", 13, "f32[b,s] i64[3]", "axis=-1", "f32[b,3]"},
    {"Gather", 13, "f32[...] i64[3]", "", "f32[...]"},
    {"Gather", 13, "i64[3]={b,past+seq,64} i64[]=1", "", "i64[]={past+seq}"},
    {"Gather", 13, "i64[3]={b,s,64} i64[2]=-1,0", "", "i64[2]={64,b}"},
    {"Gather", 13, "i64[3]={b,s,64} i64[2]={?,0}", "", "i64[2]={?,b}"},
    {"Gather", 13, "i64[2,2]={a,b,c,d} i64[1]=1", "axis=1", "i64[2,1]={b,d}"},
    {"Gather", 13, "i64[3]={b,s,64} i64[]=3", "", "!index 3 is outside the axis of 3"},
    {"Gather", 13, "f32[b,s] i64[3]", "axis=2", "!axis 2 is outside rank 2"},
    {"Gather", 13, "f32[1,2,3,4,5,6] i64[1,2,3,4]", "", "!rank 9"},
    {"GatherElements", 13, "f32[b,9] i64[b,s]", "axis=1", "f32[b,s]"},
    {"GatherElements", 13, "f32[b,9] i64[s]", "axis=1", "!differ in rank"},
    {"GatherND", 13, "f32[b,s,64] i64[n,2]", "", "f32[n,64]"},
    {"GatherND", 13, "f32[b,s,64] i64[b,n,1]", "batch_dims=1", "f32[b,n,64]"},
    {"GatherND", 13, "f32[b,s,64] i64[n,k]", "", "f32[...]"},
    {"GatherND", 13, "f32[b,s,64] i64[n,4]", "", "!do not fit"},
    {"OneHot", 11, "i64[b,s] i64[]=7 f32[2]", "", "f32[b,s,7]"},
    {"OneHot", 11, "i64[b,s] f32[]=7 i8[2]", "axis=0", "i8[7,b,s]"},
    {"OneHot", 11, "i64[b,s] i64[] f32[2]", "", "f32[b,s,?]"},
    {"OneHot", 11, "i64[b,s] i64[]=7 f32[2]", "axis=3", "!outside rank 3"},
    {"NonZero", 13, "f32[b,s]", "", "i64[2,y0.1]"},
    {"NonZero", 13, "f32[...]", "", "i64[?,y0.1]"},
};

static const rule_case attention[] = {
    {"TensorScatter", 24, "f32[b,t,8] f32[b,s,8] i64[b]", "axis=1", "f32[b,t,8]"},
    {"TensorScatter", 24, "f32[b,2,t,8] f32[b,2,s,8]", "", "f32[b,2,t,8]"},
    {"TensorScatter", 24, "f32[...] f32[b,s,8] i64[b]", "axis=1", "f32[...]"},
    {"TensorScatter", 24, "f32[b,t,8] f32[...]", "axis=-2;mode=\"circular\"", "f32[b,t,8]"},
    {"TensorScatter", 24, "f32[b,t,8] f32[b,s,8]", "axis=0", "!no axis of the cache"},
    {"TensorScatter", 24, "f32[b,t,8] f32[b,s,8]", "axis=3", "!no axis of the cache"},
    {"TensorScatter", 24, "f32[b,t,8] f32[b,s]", "axis=1", "!differ in rank"},
    {"TensorScatter", 24, "f32[b,t,8] f32[b,s,9]", "axis=1", "!differ in axis 2"},
    {"TensorScatter", 24, "f32[b,t,8] f32[b,s,8] i64[b,1]", "axis=1", "!one axis"},
    {"TensorScatter", 24, "f32[2,t,8] f32[2,s,8] i64[3]", "axis=1", "!one element per batch"},
    /* past and present; three axes */
    {"Attention", 24, "f32[b,s,8] f32[b,s,4] f32[b,s,6] - f32[b,2,p,2] f32[b,2,p,3]", "q_num_heads=4;kv_num_heads=2",
     "f32[b,s,12] f32[b,2,p+s,2] f32[b,2,p+s,3]"},
    {"tenon.Attention", 1, "f32[b,4,s,2] f32[b,2,s,2] f32[b,2,s,3] - - - - f32[4] f32[h]", "", "f32[b,4,s,3]"},
    {"tenon.Attention", 1, "f32[b,s,8] f32[b,s,4] f32[b,s,6] - f32[b,2,p,2] f32[b,2,p,3] - - f32[4]",
     "q_num_heads=4;kv_num_heads=2", "f32[b,s,12] f32[b,2,p+s,2] f32[b,2,p+s,3]"},
    {"tenon.Attention", 1, "f32[b,4,s,2] f32[b,2,s,2] f32[b,2,s,2] - - - - f32[2]", "", "!operand 7"},
    {"tenon.Attention", 1, "f32[b,4,s,2] f32[b,2,s,2] f32[b,2,s,2] - - - - - f32[4,1]", "", "!operand 8"},
    {"Attention", 24, "f32[b,s,8] f32[b,t,4] f32[b,t,4] - - - i64[b]", "q_num_heads=4;kv_num_heads=2", "f32[b,s,8]"},
    {"Attention", 24, "f32[b,4,s,2] f32[b,2,s,2] f32[b,2,s,2] - f32[b,3,p,2] f32[b,2,p,2]", "", "!operand 4"},
};

static void test_attention(void) { RUN(attention); }
static void test_gather(void) { RUN(gather); }

CU_pSuite suite_index(void) {
  CU_pSuite s = CU_add_suite("index", NULL, NULL);
  return s && CU_add_test(s, "gather, one_hot, non_zero", test_gather) && CU_add_test(s, "attention", test_attention)
             ? s
             : NULL;
}
