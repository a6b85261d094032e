/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/shape/table.h"

static const rule_case conv[] = {
    {"Conv", 22, "f32[b,3,h,w] f32[8,3,3,3]", "", "f32[b,8,h-2,w-2]"},
    {"Conv", 22, "f32[b,3,h,w] f32[8,3,3,3] f32[8]", "pads=1,1,1,1", "f32[b,8,h,w]"},
    {"Conv", 22, "f32[b,3,h,w] f32[8,3,3,3]", "pads=1,1,1,1;strides=2,2", "f32[b,8,floor((h+1)/2),floor((w+1)/2)]"},
    {"Conv", 22, "f32[b,3,h,w] f32[8,3,3,3]", "dilations=2,3", "f32[b,8,h-4,w-6]"},
    {"Conv", 22, "f32[b,3,h,w] f32[8,3,3,3]", "auto_pad=\"SAME_UPPER\";strides=2,3",
     "f32[b,8,floor((h+1)/2),floor((w+2)/3)]"},
    {"Conv", 22, "f32[b,3,h,w] f32[8,3,3,3]", "auto_pad=\"VALID\"", "f32[b,8,h-2,w-2]"},
    {"Conv", 22, "f32[b,4,n] f32[m,2,5]", "group=2", "f32[b,m,n-4]"},
    {"Conv", 22, "f32[b,3,h,w] f32[8,3,?,3]", "", "f32[b,8,?,?]"},
    {"Conv", 22, "f32[b,3,h,w] f32[8,3,?,3]", "kernel_shape=3,3", "f32[b,8,h-2,w-2]"},
    {"Conv", 22, "f32[...] f32[8,3,3,3]", "", "f32[?,8,?,?]"},
    {"Conv", 22, "f32[1,3,2,9] f32[8,3,3,3]", "", "f32[1,8,0,7]"},
    {"Conv", 22, "f32[1,3,1,9] f32[8,3,3,3]", "", "!would be -1"},
    {"Conv", 22, "f32[b,3,h,w] f32[8,4,3,3]", "", "!3 channels, not 1 groups of 4"},
    {"Conv", 22, "f32[b,4,h,w] f32[9,2,3,3]", "group=2", "!9 outputs in 2 groups"},
    {"Conv", 22, "f32[b,4,h,w] f32[9,2,3,3]", "group=0", "!'group' is 0"},
    {"Conv", 22, "f32[b,3,h,w] f32[8,3,3,3]", "strides=0,1", "!'strides' is 0, must be at least 1"},
    {"Conv", 22, "f32[b,3,h,w] f32[8,3,3,3]", "dilations=1,", "!'dilations' has 1 elements, not 2"},
    {"Conv", 22, "f32[b,3,h,w] f32[8,3,3,3]", "pads=-1,0,0,0", "!'pads' has the element -1"},
    {"Conv", 22, "f32[b,3,h,w] f32[8,3,3,3]", "pads=0,0,9223372036854775807,0", "!'pads' has the element"},
    {"Conv", 22, "f32[b,3,h,w] f32[8,3,3,3]", "kernel_shape=3,5", "!says 5, the weight 3"},
    {"Conv", 22, "f32[b,3,h,w] f32[8,3,3,3]", "auto_pad=\"WIDE\"", "!'auto_pad' is 'WIDE'"},
    {"Conv", 22, "f32[b,3,h,w] f32[8,3,3,3] f32[7]", "", "!bias does not fit"},
    {"Conv", 22, "f32[b,3,h,w] f32[8,3,3]", "", "!different ranks"},
    {"ConvTranspose", 22, "f32[b,4,h,w] f32[4,3,3,3]", "", "f32[b,3,h+2,w+2]"},
    {"ConvTranspose", 22, "f32[b,4,h,w] f32[4,3,2,2]", "strides=2,2;group=2", "f32[b,6,2*h,2*w]"},
    {"ConvTranspose", 22, "f32[b,4,h,w] f32[4,3,3,3]", "strides=2,2;pads=1,1,1,1;output_padding=1,1",
     "f32[b,3,2*h,2*w]"},
    {"ConvTranspose", 22, "f32[b,4,h,w] f32[4,3,3,3]", "strides=2,3;auto_pad=\"SAME_LOWER\"", "f32[b,3,2*h,3*w]"},
    {"ConvTranspose", 22, "f32[b,4,h,w] f32[4,3,3,3]", "output_shape=10,11", "f32[b,3,10,11]"},
    {"ConvTranspose", 22, "f32[b,5,h,w] f32[4,3,3,3]", "", "!differ in channels"},
    {"DeformConv", 22, "f32[b,3,h,w] f32[8,3,3,3] f32[b,18,h,w]", "pads=1,1,1,1", "f32[b,8,h,w]"},
};

static const rule_case pool[] = {
    {"MaxPool", 22, "f32[b,c,h,w]", "kernel_shape=2,2;strides=2,2", "f32[b,c,floor(h/2),floor(w/2)]"},
    {"AveragePool", 22, "f32[b,c,h]", "kernel_shape=3,;pads=1,1;strides=2,", "f32[b,c,floor((h+1)/2)]"},
    /* a window that would begin behind the input and its first padding is none */
    {"MaxPool", 22, "f32[b,c,5]", "kernel_shape=1,;strides=2,;ceil_mode=1", "f32[b,c,3]"},
    {"MaxPool", 22, "f32[b,c,6]", "kernel_shape=3,;strides=3,;ceil_mode=1;pads=0,2", "f32[b,c,2]"},
    {"MaxPool", 22, "f32[b,c,h]", "kernel_shape=2,;strides=2,;ceil_mode=1", "f32[b,c,floor((h+1)/2)]"},
    {"MaxPool", 22, "f32[b,c,5]", "kernel_shape=7,", "!a window of 7 does not fit into 5"},
    {"MaxPool", 22, "f32[b,c,5]", "kernel_shape=6,", "!a window of 6 does not fit into 5"}, /* not an empty tensor */
    {"MaxPool", 22, "f32[b,c,5]", "kernel_shape=7,;pads=1,1", "f32[b,c,1]"},
    {"MaxPool", 22, "f32[b,c,0]", "kernel_shape=1,", "f32[b,c,0]"},
    {"LpPool", 22, "f32[b,c]", "kernel_shape=2,", "!rank 2"},
    {"GlobalAveragePool", 22, "f32[b,c,h,w]", "", "f32[b,c,1,1]"},
    {"GlobalMaxPool", 22, "f32[...]", "", "f32[...]"},
    {"MaxUnpool", 22, "f32[b,c,h,w] i64[b,c,h,w]", "kernel_shape=2,2;strides=2,2", "f32[b,c,2*h,2*w]"},
    {"MaxUnpool", 22, "f32[b,c,h,w] i64[b,c,h,w] i64[4]={b,c,p,q}", "kernel_shape=2,2", "f32[b,c,p,q]"},
};

static const rule_case norm[] = {
    {"BatchNormalization", 15, "f32[b,c,h] f32[c] f32[c] f32[c] f32[c]", "", "f32[b,c,h]"},
    {"BatchNormalization", 15, "f32[b,3,h] f32[4] f32[3] f32[3] f32[3]", "", "!operand 1 does not fit the channels"},
    {"InstanceNormalization", 22, "f32[b,c,h] f32[c] f32[c]", "", "f32[b,c,h]"},
    {"GroupNormalization", 21, "f32[b,c,h] f32[c] f32[c,1]", "num_groups=1", "!operand 2 has rank 2"},
};

static const rule_case image[] = {
    {"Resize", 19, "f32[b,3,h,w] - f32[4]=1,1,2,2", "", "f32[b,3,2*h,2*w]"},
    {"Resize", 19, "f32[b,3,h,w] - f32[4]=1,1,0.5,1.25", "", "f32[b,3,floor(h/2),floor(5*w/4)]"},
    {"Resize", 19, "f32[b,3,h,w] - f32[2]=3,2", "axes=3,2", "f32[b,3,2*h,3*w]"},
    {"Resize", 19, "f32[b,3,h,w] - f32[4]=1,1,0.3,1", "", "f32[b,3,?,w]"},
    {"Resize", 19, "f32[1,1,10,3] - f32[4]=1,1,0.7,1", "", "f32[1,1,7,3]"}, /* 10 * 0.7f is 7 in f32 only */
    {"Resize", 19, "f32[b,3,h,w] - - i64[4]={b,3,2*h,p}", "", "f32[b,3,2*h,p]"},
    {"Resize", 19, "f32[1,3,4,8] - - i64[2]=9,9", "axes=2,3;keep_aspect_ratio_policy=\"not_larger\"", "f32[1,3,5,9]"},
    {"Resize", 19, "f32[1,3,4,8] - - i64[2]=9,9", "axes=2,3;keep_aspect_ratio_policy=\"not_smaller\"", "f32[1,3,9,18]"},
    {"Resize", 19, "f32[b,3,h,w] - f32[3]=1,1,2", "", "!3 scales for 4 axes"},
    {"Resize", 19, "f32[b,3,h,w]", "", "!neither scales nor sizes"},
    {"Resize", 19, "f32[b,3,h,w] - f32[2]=3,2", "axes=3,3", "!axis 3 stands twice"},
    {"Resize", 19, "f32[b,3,h,w] - f32[2]=3,2", "axes=3,4", "!outside rank 4"},
    {"GridSample", 22, "f32[b,c,h,w] f32[b,p,q,2]", "", "f32[b,c,p,q]"},
    {"GridSample", 22, "f32[b,c,d,h,w] f32[b,p,q,2]", "", "!ranks that do not fit"},
    {"AffineGrid", 20, "f32[b,2,3] i64[4]={b,c,h,w}", "", "f32[b,h,w,2]"},
    {"AffineGrid", 20, "f32[b,3,4] i64[5]", "", "f32[?,?,?,?,3]"},
    {"DepthToSpace", 13, "f32[b,12,h,w]", "blocksize=2", "f32[b,3,2*h,2*w]"},
    {"DepthToSpace", 13, "f32[b,10,h,w]", "blocksize=2", "!does not divide"},
    {"SpaceToDepth", 13, "f32[b,3,h,w]", "blocksize=2", "f32[b,12,floor(h/2),floor(w/2)]"},
    {"SpaceToDepth", 13, "f32[b,3,h,w]", "blocksize=9223372036854775807", "!'blocksize' is"},
    {"Col2Im", 18, "f32[b,12,n] i64[2]={h,w} i64[2]=2,2", "", "f32[b,3,h,w]"},
    {"Col2Im", 18, "f32[b,12,n] i64[2]={h,w} i64[2]=2,0", "", "!without elements"},
    {"CenterCropPad", 18, "f32[b,3,h] i64[1]={p}", "axes=-1,", "f32[b,3,p]"},
    {"RoiAlign", 22, "f32[b,c,h,w] f32[n,4] i64[n]", "output_height=7;output_width=5", "f32[n,c,7,5]"},
    {"RoiAlign", 22, "f32[b,c,h,w] f32[n,4] i64[n]", "output_height=-1", "!'output_height' is -1, must be at least 1"},
    {"MaxRoiPool", 22, "f32[b,c,h,w] f32[n,5]", "pooled_shape=2,3", "f32[n,c,2,3]"},
    {"MaxRoiPool", 22, "f32[b,c,h,w] f32[n,5]", "pooled_shape=2,", "!not two elements"},
    {"NonMaxSuppression", 11, "f32[b,n,4] f32[b,c,n] i64[1]=3", "", "i64[y0.0,3]"},
};

static void test_conv(void) { RUN(conv); }
static void test_pool(void) { RUN(pool); }
static void test_norm(void) { RUN(norm); }
static void test_image(void) { RUN(image); }

CU_pSuite suite_image(void) {
  CU_pSuite s = CU_add_suite("images", NULL, NULL);
  return s && CU_add_test(s, "convolutions", test_conv) && CU_add_test(s, "pooling", test_pool) &&
                 CU_add_test(s, "normalizations", test_norm) && CU_add_test(s, "images", test_image)
             ? s
             : NULL;
}
