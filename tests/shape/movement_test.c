/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/shape/table.h"

static const rule_case reshape[] = {
    {"Reshape", 14, "f32[1,N,4096] i64[4]=1,-1,32,128", "", "f32[1,N,32,128]"},
    {"Reshape", 14, "f32[b,s,64] i64[4]={b,s,-1,16}", "", "f32[b,s,4,16]"},
    {"Reshape", 14, "f32[b,s,64] i64[3]=0,0,-1", "", "f32[b,s,64]"},
    {"Reshape", 14, "f32[b,?,64] i64[4]=0,0,4,-1", "", "f32[b,?,4,16]"},
    {"Reshape", 14, "f32[b,s,64] i64[2]=-1,64", "", "f32[b*s,64]"},
    {"Reshape", 14, "f32[b,?,64] i64[2]=-1,64", "", "f32[?,64]"},
    {"Reshape", 14, "f32[...] i64[2]=-1,64", "", "f32[?,64]"},
    {"Reshape", 14, "f32[...] i64[2]=0,64", "", "f32[?,64]"},
    {"Reshape", 14, "f32[b,6] i64[3]", "", "f32[?,?,?]"},
    {"Reshape", 14, "f32[b,6] i64[n]", "", "f32[...]"},
    {"Reshape", 14, "f32[b,6] i64[2]={?,3}", "", "f32[2*b,3]"},
    {"Reshape", 14, "f32[b,6] i64[2]={?,-1}", "", "f32[?,?]"},
    {"Reshape", 14, "f32[b,6] i64[2]={s-1,3}", "", "f32[2*b,3]"}, /* may be -1: what is left is right either way */
    {"Reshape", 14, "f32[b,past,6] i64[3]={b,past,-1}", "", "f32[b,past,6]"},
    {"Reshape", 14, "f32[a,b] i64[3]={a,4%a,-1}", "", "f32[a,?,?]"}, /* 0 for a = 2 and 4: copies an axis then */
    {"Reshape", 14, "f32[a,b] i64[3]={a,max(b-3,0),-1}", "", "f32[a,max(b-3,0),exactdiv(b,max(b-3,0))]"}, /* a size */
    {"Reshape", 14, "f32[1] i64[2]={a/4,1}", "", "f32[1,1]"}, /* 0 for a = 3 can be no size of one element */
    {"Reshape", 14, "f32[a%b] i64[2]=0,2", "", "f32[a%b,2]"}, /* 0 elements on both sides where b divides a */
    {"Reshape", 14, "f32[b,?,4] i64[2]=0,0", "", "f32[b,?]"}, /* nothing where the unknown axis is 0 */
    {"Reshape", 14, "f32[2,0] i64[2]=0,5", "allowzero=1", "f32[0,5]"},
    {"Reshape", 14, "f32[2,3,0] i64[2]=3,0", "allowzero=1", "f32[3,0]"},
    {"Reshape", 14, "f32[] i64[2]=1,1", "", "f32[1,1]"},
    {"Reshape", 14, "f32[1,1] i64[0]=", "", "f32[]"},
    {"Reshape", 14, "i64[4]={a,b,c,d} i64[2]=2,-1", "", "i64[2,2]={a,b,c,d}"},
    {"Reshape", 14, "f32[2,3] i64[2]=4,-1", "", "!do not divide by 4"},
    {"Reshape", 14, "f32[2,3] i64[1]=5", "", "!6 are not 5"},
    {"Reshape", 14, "f32[b,6] i64[2]={b,5}", "", "!6 are not 5"},
    {"Reshape", 14, "f32[2,3] i64[2]=-1,0", "allowzero=1", "!open axis"},
    {"Reshape", 14, "f32[b,3] i64[2]=-1,0", "allowzero=1", "f32[?,0]"},
    {"Reshape", 14, "f32[2] i64[2]=4294967296,4294967296", "", "!too large"},
    {"Reshape", 14, "f32[2,3] i64[2]=-1,-1", "", "!-1 twice"},
    {"Reshape", 14, "f32[2,3] i64[2]=-2,3", "", "!the target has -2"},
    {"Reshape", 14, "f32[2,3] i64[3]=2,3,0", "", "!copies axis 2"},
    {"Reshape", 14, "f32[2,3] i64[1,1]=6", "", "!not a vector"},
};

static const rule_case flat[] = {
    {"Flatten", 13, "f32[b,s,4]", "", "f32[b,4*s]"},
    {"Flatten", 13, "f32[b,s,4]", "axis=0", "f32[1,4*b*s]"},
    {"Flatten", 13, "f32[b,s,4]", "axis=-1", "f32[b*s,4]"},
    {"Flatten", 13, "f32[b,s,4]", "axis=3", "f32[4*b*s,1]"},
    {"Flatten", 13, "f32[...]", "", "f32[?,?]"},
    {"Flatten", 13, "f32[b,?,4]", "axis=2", "f32[?,4]"},
    {"Flatten", 13, "f32[b,s]", "axis=4", "!outside rank 2"},
    {"Squeeze", 13, "f32[1,b,1] i64[1]=0", "", "f32[b,1]"},
    {"Squeeze", 13, "f32[1,b,1] i64[2]=-1,0", "", "f32[b]"},
    {"Squeeze", 13, "f32[1,p+1,1]", "", "f32[p+1]"},
    {"Squeeze", 13, "f32[1,b,1]", "", "f32[...]"}, /* b may be 1 */
    {"Squeeze", 13, "f32[1,b] i64[1]", "", "f32[...]"},
    {"Squeeze", 13, "f32[1,3,1] i64[0]", "", "f32[3]"},
    {"Squeeze", 13, "f32[1,b] i64[n]", "", "f32[...]"},
    {"Squeeze", 13, "i64[1]={b} i64[1]=0", "", "i64[]={b}"},
    {"Squeeze", 13, "f32[2,3] i64[1]=0", "", "!axis 0 is not 1"},
    {"Squeeze", 13, "f32[1,3] i64[1]=2", "", "!axis 2 is outside rank 2"},
    {"Squeeze", 13, "f32[1,1] i64[2]=0,-2", "", "!stands twice"},
    {"Unsqueeze", 13, "f32[b,s] i64[2]=0,-1", "", "f32[1,b,s,1]"},
    {"Unsqueeze", 13, "f32[b,s] i64[1]", "", "f32[?,?,?]"},
    {"Unsqueeze", 13, "f32[...] i64[1]=0", "", "f32[...]"},
    {"Unsqueeze", 13, "i64[]={past+seq} i64[1]=0", "", "i64[1]={past+seq}"},
    {"Unsqueeze", 13, "f32[b,s] i64[1]=3", "", "!axis 3 is outside rank 3"},
    {"Unsqueeze", 13, "f32[b,s] i64[2]=0,0", "", "!stands twice"},
    {"Unsqueeze", 13, "f32[1,2,3,4,5,6,7,8] i64[1]=0", "", "!rank 9"},
    {"Transpose", 13, "f32[b,s,4]", "perm=0,2,1", "f32[b,4,s]"},
    {"Transpose", 13, "f32[b,?,4]", "", "f32[4,?,b]"},
    {"Transpose", 13, "f32[...]", "perm=0,2,1", "f32[...]"},
    {"Transpose", 13, "i64[2,3]={a,b,c,d,e,f}", "", "i64[3,2]={a,d,b,e,c,f}"},
    {"Transpose", 13, "f32[b,s]", "perm=0,2,1", "!perm has 3 entries"},
    {"Transpose", 13, "f32[b,s]", "perm=1,1", "!no permutation"},
    {"Transpose", 13, "f32[b,s]", "perm=0,-1", "!no permutation"},
};

static const rule_case repeat[] = {
    {"Expand", 13, "f32[b,1,4] i64[3]={b,s,4}", "", "f32[b,s,4]"},
    {"Expand", 13, "f32[1,1] i64[4]={b,2,s,1}", "", "f32[b,2,s,1]"},
    {"Expand", 13, "f32[b,4] i64[1]=1", "", "f32[b,4]"},
    {"Expand", 13, "f32[3,4] i64[2]={?,?}", "", "f32[3,4]"},
    {"Expand", 13, "f32[1,4] i64[2]={?,1}", "", "f32[?,4]"},
    {"Expand", 13, "f32[1,4] i64[2]", "", "f32[?,4]"},
    {"Expand", 13, "f32[1,4] i64[n]", "", "f32[...]"},
    {"Expand", 13, "i64[1]={b} i64[1]=3", "", "i64[3]={b,b,b}"},
    {"Expand", 13, "i64[2,1]={a,b} i64[2]=2,2", "", "i64[2,2]={a,a,b,b}"},
    {"Expand", 13, "f32[3] i64[1]=4", "", "!does not broadcast"},
    {"Tile", 13, "f32[b,4] i64[2]={2,s}", "", "f32[2*b,4*s]"},
    {"Tile", 13, "f32[b,4] i64[2]", "", "f32[?,?]"},
    {"Tile", 13, "i64[2]={a,b} i64[1]=2", "", "i64[4]={a,b,a,b}"},
    {"Tile", 13, "i64[2,1]={a,b} i64[2]=1,2", "", "i64[2,2]={a,a,b,b}"},
    {"Tile", 13, "f32[b,4] i64[1]=2", "", "!1 repeats for rank 2"},
    {"Pad", 18, "f32[b,4] i64[4]=1,0,0,2", "", "f32[b+1,6]"},
    {"Pad", 18, "f32[b,4] i64[2]={s,1} - i64[1]=-1", "", "f32[b,s+5]"},
    {"Pad", 18, "f32[b,4] i64[4]", "", "f32[?,?]"},
    {"Pad", 18, "f32[4] i64[2]=-3,-2", "", "!would be -1"},
    {"Pad", 18, "f32[b,4] i64[3]=1,0,0", "", "!3 pads for 2 axes"},
};

static const rule_case join[] = {
    {"Concat", 13, "f32[b,s-min(s,1)+1,4] f32[b,s,4]", "axis=2", "f32[b,s,8]"}, /* x[:, 1:] and a row of padding */
    {"Concat", 13, "f32[b,s,4] f32[b,s-min(s,1)+1,4]", "axis=2", "f32[b,s,8]"},
    {"Concat", 13, "f32[sumN-N,1,2,128] f32[N,1,2,128]", "axis=0", "f32[sumN,1,2,128]"},
    {"Concat", 13, "f32[b,2,past,16] f32[b,2,seq,16]", "axis=2", "f32[b,2,past+seq,16]"},
    {"Concat", 13, "f32[b,?] f32[3,1]", "axis=-1", "f32[3,?]"},
    {"Concat", 13, "f32[b,2] f32[...]", "axis=1", "f32[b,?]"},
    {"Concat", 13, "f32[...] f32[...]", "axis=1", "f32[...]"},
    {"Concat", 13, "i64[1]={b} i64[1]=-1 i64[1] i64[2]={s,4}", "axis=0", "i64[5]={b,-1,?,s,4}"},
    {"Concat", 13, "i64[2,1]={a,b} i64[2,2]={c,d,e,f}", "axis=1", "i64[2,3]={a,c,d,b,e,f}"},
    {"Concat", 13, "f32[2,3] f32[3,3]", "axis=1", "!operand 1 differs from the others on axis 0"},
    {"Concat", 13, "f32[b,3] f32[b+1,3]", "axis=1", "!differs"},
    {"Concat", 13, "f32[2,3] f32[2]", "axis=0", "!operand 1 has rank 1, not 2"},
    {"Concat", 13, "f32[2,3] f32[2,3]", "axis=2", "!axis 2 is outside rank 2"},
    {"Concat", 13, "f32[2] i64[2]", "axis=0", "!operand 1 is int64"},
    {"Split", 18, "f32[b,s,192] i64[3]=64,64,64", "axis=2", "f32[b,s,64] f32[b,s,64] f32[b,s,64]"},
    {"Split", 13, "f32[b,6]", "axis=1", "f32[b,3] f32[b,3]"},
    {"Split", 18, "f32[b,7]", "axis=-1;num_outputs=3", "f32[b,3] f32[b,3] f32[b,1]"},
    {"Split", 18, "f32[4*b]", "num_outputs=2", "f32[2*b] f32[2*b]"},
    {"Split", 18, "f32[b,6] i64[2]", "axis=1", "f32[b,?] f32[b,?]"},
    {"Split", 18, "f32[...] i64[2]=1,2", "", "f32[...] f32[...]"},
    {"Split", 18, "i64[4]={a,b,c,d} i64[2]=1,3", "", "i64[1]={a} i64[3]={b,c,d}"},
    {"Split", 18, "i64[2,2]={a,b,c,d} i64[2]=1,1", "axis=1", "i64[2,1]={a,c} i64[2,1]={b,d}"},
    {"Split", 18, "f32[b,6] i64[2]=3,4", "axis=1", "!!do not add up"},
    {"Split", 18, "f32[b,6] i64[3]=2,2,2", "axis=1", "!3 sizes for 1 outputs"},
    {"Split", 13, "f32[b,7]", "axis=3", "!axis 3 is outside rank 2"},
};

static const rule_case slice[] = {
    {"Slice", 13, "f32[b,s,8] i64[1]=0 i64[1]=4 i64[1]=2", "", "f32[b,s,4]"},
    {"Slice", 13, "f32[b,s,8] i64[1]=4 i64[1]=9223372036854775807 i64[1]=-1", "", "f32[b,s,4]"},
    {"Slice", 13, "f32[b,s,8] i64[2]=0,0 i64[2]=1,2147483647", "", "f32[min(b,1),s,8]"},
    {"Slice", 13, "f32[p,s] i64[1]=0 i64[1]=1 i64[1]=0", "", "f32[1,s]"},
    {"Slice", 13, "f32[p,s] i64[1]=-1 i64[1]=9223372036854775807 i64[1]=0", "", "f32[1,s]"},
    {"Slice", 13, "f32[s] i64[1]=0 i64[1]=-1", "", "f32[max(s-1,0)]"},
    {"Slice", 13, "f32[past+seq] i64[1]={past} i64[1]={past+seq}", "", "f32[seq]"},
    {"Slice", 13, "f32[past+seq] i64[1]=0 i64[1]=2147483647", "", "f32[past+seq]"},
    {"Slice", 13, "f32[1,1,1024,1024] i64[1]=0 i64[1]={seq} i64[1]=2", "", "f32[1,1,min(seq,1024),1024]"},
    {"Slice", 13, "f32[b] i64[1]=0 i64[1]={s-4}", "", "f32[?]"}, /* its sign is not known */
    /* The last s, which of 0 are all. */
    {"Slice", 13, "f32[s] i64[1]={-s} i64[1]=9223372036854775807", "", "f32[s]"},
    {"Slice", 13, "f32[past+seq] i64[1]={-seq} i64[1]=2147483647", "", "f32[past+seq-min(seq,1)*past]"},
    {"Slice", 13, "f32[p] i64[1]={-s} i64[1]=2147483647", "", "f32[max(p-min(s,1)*max(p-s,0),0)]"},
    {"Slice", 13, "f32[past+seq] i64[1]=0 i64[1]={-seq}", "", "f32[min(seq,1)*past]"},
    {"Slice", 13, "f32[b] i64[1] i64[1]=4", "", "f32[?]"},
    {"Slice", 13, "f32[b,3] i64[1] i64[1] i64[1]=0", "", "f32[?,3]"},
    {"Slice", 13, "f32[b,3] i64[1] i64[1] i64[1]", "", "f32[?,?]"},
    {"Slice", 13, "f32[7] i64[1]=1 i64[1]=7 i64[1]=0 i64[1]=2", "", "f32[3]"},
    {"Slice", 13, "f32[s] i64[1]=0 i64[1]=9223372036854775807 i64[1]=0 i64[1]=2", "", "f32[(s+1)//2]"},
    {"Slice", 13, "f32[7] i64[1]=-1 i64[1]=-9223372036854775807 i64[1]=0 i64[1]=-1", "", "f32[7]"},
    {"Slice", 13, "f32[7] i64[1]=5 i64[1]=1 i64[1]=0 i64[1]=-2", "", "f32[2]"},
    {"Slice", 13, "f32[s] i64[1]=-1 i64[1]=-9223372036854775807 i64[1]=0 i64[1]=-1", "", "f32[s]"},
    {"Slice", 13, "f32[5] i64[1]=3 i64[1]=2", "", "f32[0]"},
    {"Slice", 13, "f32[5] i64[1]=-9 i64[1]=99", "", "f32[5]"},
    {"Slice", 13, "f32[...] i64[1]=0 i64[1]=1", "", "f32[...]"},
    {"Slice", 13, "i64[4]={a,b,c,d} i64[1]=-2 i64[1]=9223372036854775807", "", "i64[2]={c,d}"},
    {"Slice", 13, "i64[4]={a,b,c,d} i64[1]=3 i64[1]=-9 i64[1]=0 i64[1]=-1", "", "i64[4]={d,c,b,a}"},
    {"Slice", 13, "i64[2,3]={a,b,c,d,e,f} i64[2]=0,1 i64[2]=2,3", "", "i64[2,2]={b,c,e,f}"},
    {"Slice", 13, "f32[5] i64[1]=0 i64[1]=1 i64[1]=0 i64[1]=0", "", "!the step on axis 0 is 0"},
    {"Slice", 13, "f32[5] i64[1]=0 i64[1]=1 i64[1]=1", "", "!axis 1 is outside rank 1"},
    {"Slice", 13, "f32[5] i64[2]=0,0 i64[2]=1,1", "", "!2 starts for rank 1"},
    {"Slice", 13, "f32[5,5] i64[2]=0,0 i64[1]=1", "", "!2 starts and 1 ends"},
    {"Slice", 13, "f32[5,5] i64[2]=0,0 i64[2]=1,1 i64[2]=0,-2", "", "!stands twice"},
};

static void test_reshape(void) { RUN(reshape); }
static void test_flat(void) { RUN(flat); }
static void test_repeat(void) { RUN(repeat); }
static void test_join(void) { RUN(join); }
static void test_slice(void) { RUN(slice); }

CU_pSuite suite_movement(void) {
  CU_pSuite s = CU_add_suite("movement", NULL, NULL);
  if (!s || !CU_add_test(s, "reshape", test_reshape) || !CU_add_test(s, "flatten, squeeze, transpose", test_flat) ||
      !CU_add_test(s, "expand, tile, pad", test_repeat) || !CU_add_test(s, "concat, split", test_join) ||
      !CU_add_test(s, "slice", test_slice)) {
    return NULL;
  }
  return s;
}
