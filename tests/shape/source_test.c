/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/shape/table.h"

static const rule_case shape[] = {
    {"Shape", 15, "f32[b,?,past+seq]", "", "i64[3]={b,?,past+seq}"},
    {"Shape", 15, "f32[b,s,64]", "start=1", "i64[2]={s,64}"},
    {"Shape", 15, "f32[b,s,64]", "start=-2;end=-1", "i64[1]={s}"},
    {"Shape", 15, "f32[b,s,64]", "start=9", "i64[0]={}"},
    {"Shape", 15, "f32[b,s,64]", "end=0", "i64[0]={}"},
    {"Shape", 15, "f32[]", "", "i64[0]={}"},
    {"Shape", 15, "f32[...]", "", "i64[?]"},
    {"Size", 13, "f32[b,s,4]", "", "i64[]={4*b*s}"},
    {"Size", 13, "f32[]", "", "i64[]={1}"},
    {"Size", 13, "f32[b,?]", "", "i64[]"},
    {"EyeLike", 9, "f32[b,s]", "dtype=7", "i64[b,s]"},
    {"EyeLike", 9, "f32[b,s]", "", "f32[b,s]"},
    {"EyeLike", 9, "f32[b]", "", "!no matrix"},
    {"Bernoulli", 15, "f32[b]", "dtype=9", "bool[b]"},
    {"Bernoulli", 15, "f32[b]", "dtype=8", "!no number's"},
    {"RandomNormalLike", 1, "f32[b]", "dtype=6", "!no float"},
};

static const rule_case constant[] = {
    {"Constant", 13, "", "value=i64[2]=3,4", "i64[2]={3,4}"},
    {"Constant", 13, "", "value=f32[2,1]=3,4", "f32[2,1]"},
    {"Constant", 13, "", "value_int=5", "i64[]={5}"},
    {"Constant", 13, "", "value_ints=5,6", "i64[2]={5,6}"},
    {"Constant", 13, "", "value_float=0.5", "f32[]"},
    {"ConstantOfShape", 9, "i64[2]={b,s}", "", "f32[b,s]"},
    {"ConstantOfShape", 9, "i64[1]=3", "value=i64[1]=7", "i64[3]={7,7,7}"},
    {"ConstantOfShape", 9, "i64[0]=", "value=bool[1]=1", "bool[]={1}"},
    {"ConstantOfShape", 9, "i64[2]={b,?}", "", "f32[b,?]"},
    {"ConstantOfShape", 9, "i64[2]", "", "f32[?,?]"},
    {"ConstantOfShape", 9, "i64[n]", "", "f32[...]"},
    {"ConstantOfShape", 9, "i64[2]=2,-1", "", "!would be -1"},
};

static const rule_case range[] = {
    {"Range", 11, "i64[]=0 i64[]={s} i64[]=1", "", "i64[s]"},
    {"Range", 11, "i64[]={past} i64[]={past+seq} i64[]=1", "", "i64[seq]"},
    {"Range", 11, "i64[]={b} i64[]={s} i64[]=1", "", "i64[max(s-b,0)]"},
    {"Range", 11, "i64[]={b} i64[]={b+3} i64[]=1", "", "i64[3]={b,b+1,b+2}"},
    {"Range", 11, "i64[]=0 i64[]=7 i64[]=3", "", "i64[3]={0,3,6}"},
    {"Range", 11, "i64[]=7 i64[]=0 i64[]=-3", "", "i64[3]={7,4,1}"},
    {"Range", 11, "i64[]=7 i64[]=0 i64[]=1", "", "i64[0]={}"},
    {"Range", 11, "i64[]={s} i64[]=0 i64[]=-1", "", "i64[s]"},
    {"Range", 11, "i64[]=0 i64[]={s} i64[]=4", "", "i64[(s+3)//4]"},
    {"Range", 11, "f32[]=0 f32[]=5 f32[]=2", "", "f32[3]"},
    {"Range", 11, "i64[] i64[]=5 i64[]=2", "", "i64[y0.0]"},
    {"Range", 11, "i64[]=0 i64[]=5 i64[]=0", "", "!the step is 0"},
};

static const rule_case concrete[] = {
    {"Add", 14, "f32[2,1,4] f32[7,1]", "", "f32[2,7,4]"},
    {"Add", 14, "f32[2] f32[3]", "", "!does not broadcast"},
    {"Reshape", 14, "f32[2,6] i64[2]=-1,4", "", "f32[3,4]"},
    {"Reshape", 14, "f32[2,6] i64[2]", "", "!unsupported"},
    {"Reshape", 14, "f32[2,6] i64[1]", "", "!unsupported"},
    {"Slice", 13, "f32[2,6] i64[1]=1 i64[1]=9 i64[1]=1 i64[1]=2", "", "f32[2,3]"},
    {"Pad", 18, "f32[2,6] i64[2]=1,1 - i64[1]=0", "", "f32[4,6]"},
    {"NonZero", 13, "f32[2,6]", "", "!unsupported"},
    {"Range", 11, "i64[]=0 i64[]=6 i64[]=2", "", "i64[3]"},
    {"Range", 11, "f64[]=0 f64[]=6 f64[]=4", "", "f64[2]"},
    {"Range", 11, "i64[] i64[]=6 i64[]=2", "", "!unsupported"},
    {"ConstantOfShape", 9, "i64[2]=3,0", "value=i64[1]=7", "i64[3,0]"},
    {"MatMul", 13, "f32[2,3,4] f32[4,5]", "", "f32[2,3,5]"},
    {"TopK", 11, "f32[2,9] i64[1]=3", "", "f32[2,3] i64[2,3]"},
    {"Split", 18, "f32[2,7]", "axis=1;num_outputs=2", "f32[2,4] f32[2,3]"},
    {"Squeeze", 13, "f32[1,3,1]", "", "f32[3]"},
    {"Shape", 15, "f32[4,5]", "", "i64[2]"},
    {"Constant", 13, "", "value=i64[2]=3,4", "i64[2]"},
};

static void test_shape(void) { RUN(shape); }
static void test_constant(void) { RUN(constant); }
static void test_range(void) { RUN(range); }
static void test_concrete(void) { run_concrete(concrete, sizeof concrete / sizeof concrete[0]); }

CU_pSuite suite_source(void) {
  CU_pSuite s = CU_add_suite("source", NULL, NULL);
  if (!s || !CU_add_test(s, "shape, size", test_shape) || !CU_add_test(s, "constants", test_constant) ||
      !CU_add_test(s, "range", test_range) || !CU_add_test(s, "concrete", test_concrete)) {
    return NULL;
  }
  return s;
}
