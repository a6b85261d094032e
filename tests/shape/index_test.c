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

static void test_gather(void) { RUN(gather); }

CU_pSuite suite_index(void) {
  CU_pSuite s = CU_add_suite("index", NULL, NULL);
  return s && CU_add_test(s, "gather, one_hot, non_zero", test_gather) ? s : NULL;
}
