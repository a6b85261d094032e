/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kernel on values worked out by hand or with NumPy. Inputs lie at odd addresses.
 */
#include <stdio.h>
#include <string.h>

#include "ops_test.h"

typedef struct row {
  const char *op, *attrs;
  const char *in[6], *out[3]; /* a NULL behind the last input */
  int64_t version;            /* 0: 25 */
  double rel;                 /* 0: 1e-6 */
  tn_status status;           /* expected when out[0] is NULL */
  const char *says;           /* part of the message */
} row;

static const row unary[] = {
    {.op = "Neg", .attrs = NULL, .in = {"f32[3] 1 -2 0"}, .out = {"f32[3] -1 2 0"}},
    {.op = "Neg", .attrs = NULL, .in = {"i8[3] 1 -128 5"}, .out = {"i8[3] -1 -128 -5"}},
    {.op = "Neg", .attrs = NULL, .in = {"i64[2] -9223372036854775808 7"}, .out = {"i64[2] -9223372036854775808 -7"}},
    {.op = "Abs", .attrs = NULL, .in = {"i32[3] -5 5 -2147483648"}, .out = {"i32[3] 5 5 -2147483648"}},
    {.op = "Abs", .attrs = NULL, .in = {"f16[2] -1.5 2"}, .out = {"f16[2] 1.5 2"}},
    {.op = "Abs", .attrs = NULL, .in = {"u8[2] 200 3"}, .out = {"u8[2] 200 3"}},
    {.op = "Sign", .attrs = NULL, .in = {"i16[3] -7 0 9"}, .out = {"i16[3] -1 0 1"}},
    {.op = "Sign", .attrs = NULL, .in = {"f32[4] -7 0 9 nan"}, .out = {"f32[4] -1 0 1 nan"}},
    {.op = "Relu", .attrs = NULL, .in = {"i32[2] -7 9"}, .out = {"i32[2] 0 9"}},
    {.op = "Relu", .attrs = NULL, .in = {"f32[3] -7 9 nan"}, .out = {"f32[3] 0 9 nan"}},
    {.op = "Sqrt", .attrs = NULL, .in = {"f32[3] 4 2 -1"}, .out = {"f32[3] 2 1.41421356 nan"}},
    {.op = "Exp",
     .attrs = NULL,
     .in = {"f32[6] 0 1 -1 100 -200 nan"},
     .out = {"f32[6] 1 2.71828183 0.36787944 inf 0 nan"}},
    {.op = "Exp",
     .attrs = NULL,
     .in = {"f64[2] 1 -745"},
     .out = {"f64[2] 2.718281828459045 4.9406564584124654e-324"},
     .rel = 1e-15},
    {.op = "Exp", .attrs = NULL, .in = {"bf16[2] 0 1"}, .out = {"bf16[2] 1 2.71875"}},
    {.op = "Log", .attrs = NULL, .in = {"f32[3] 1 10 0"}, .out = {"f32[3] 0 2.30258509 -inf"}},
    {.op = "Sin", .attrs = NULL, .in = {"f32[2] 0 1"}, .out = {"f32[2] 0 0.84147098"}},
    {.op = "Cos", .attrs = NULL, .in = {"f32[2] 0 1"}, .out = {"f32[2] 1 0.54030231"}},
    {.op = "Tan", .attrs = NULL, .in = {"f64[1] 1"}, .out = {"f64[1] 1.5574077246549023"}, .rel = 1e-14},
    {.op = "Tanh",
     .attrs = NULL,
     .in = {"f32[6] 0 0.1 -0.5 2 -50 inf"},
     .out = {"f32[6] 0 0.0996679946 -0.462117157 0.96402758 -1 1"}},
    {.op = "Sigmoid", .attrs = NULL, .in = {"f32[4] 0 2 -200 200"}, .out = {"f32[4] 0.5 0.880797078 0 1"}},
    {.op = "Erf", .attrs = NULL, .in = {"f32[2] 0.5 -1"}, .out = {"f32[2] 0.520499878 -0.842700793"}},
    {.op = "Reciprocal", .attrs = NULL, .in = {"f32[2] 4 -0.5"}, .out = {"f32[2] 0.25 -2"}},
    {.op = "Floor", .attrs = NULL, .in = {"f32[2] -1.5 2.7"}, .out = {"f32[2] -2 2"}},
    {.op = "Ceil", .attrs = NULL, .in = {"f32[2] -1.5 2.2"}, .out = {"f32[2] -1 3"}},
    {.op = "Round", .attrs = NULL, .in = {"f32[5] 0.5 1.5 2.5 -0.5 -2.6"}, .out = {"f32[5] 0 2 2 0 -3"}},
    {.op = "Softplus",
     .attrs = NULL,
     .in = {"f32[3] 0 100 -100"},
     .out = {"f32[3] 0.693147181 100 3.7835059e-44"},
     .rel = 1e-2},
    {.op = "Gelu", .attrs = NULL, .in = {"f32[2] 1 -2"}, .out = {"f32[2] 0.841344746 -0.0455002639"}},
    {.op = "Gelu",
     .attrs = "approximate='tanh'",
     .in = {"f32[2] 1 -2"},
     .out = {"f32[2] 0.841191991 -0.0454023059"},
     .rel = 1e-5},
    {.op = "Swish", .attrs = "alpha=2f", .in = {"f32[2] 1 -1"}, .out = {"f32[2] 0.880797078 -0.119202922"}},
    {.op = "LeakyRelu", .attrs = "alpha=0.5f", .in = {"f32[2] -4 3"}, .out = {"f32[2] -2 3"}},
    {.op = "LeakyRelu", .attrs = NULL, .in = {"f32[1] -4"}, .out = {"f32[1] -0.04"}},
    {.op = "Elu", .attrs = "alpha=2f", .in = {"f32[2] -1 3"}, .out = {"f32[2] -1.26424112 3"}},
    {.op = "HardSigmoid", .attrs = NULL, .in = {"f32[3] -9 0 1"}, .out = {"f32[3] 0 0.5 0.7"}},
    {.op = "HardSwish", .attrs = NULL, .in = {"f32[3] -4 1 4"}, .out = {"f32[3] 0 0.666666667 4"}},
    {.op = "Not", .attrs = NULL, .in = {"bool[2] 1 0"}, .out = {"bool[2] 0 1"}},
    {.op = "IsNaN", .attrs = NULL, .in = {"f16[3] nan 1 inf"}, .out = {"bool[3] 1 0 0"}},
    {.op = "IsInf", .attrs = NULL, .in = {"f32[3] -inf inf 1"}, .out = {"bool[3] 1 1 0"}},
    {.op = "IsInf", .attrs = "detect_negative=0", .in = {"f32[3] -inf inf nan"}, .out = {"bool[3] 0 1 0"}},
    {.op = "Dropout", .attrs = NULL, .in = {"f32[2] 3 4"}, .out = {"f32[2] 3 4", "bool[2] 1 1"}},
    {.op = "Dropout",
     .attrs = NULL,
     .in = {"f32[1] 3", "f32[] 0.5", "bool[] 1"},
     .out = {NULL},
     .status = TN_E_UNSUPPORTED,
     .says = "training"},
    {.op = "Clip", .attrs = NULL, .in = {"f32[4] -5 0 5 nan", "f32[] -1", "f32[] 2"}, .out = {"f32[4] -1 0 2 nan"}},
    {.op = "Clip", .attrs = NULL, .in = {"i32[3] -5 0 5", "-", "i32[] 2"}, .out = {"i32[3] -5 0 2"}},
    {.op = "Clip", .attrs = NULL, .in = {"bf16[2] -5 5", "bf16[] -1"}, .out = {"bf16[2] -1 5"}},
    {.op = "Identity", .attrs = NULL, .in = {"u64[1] 18446744073709551615"}, .out = {"u64[1] 18446744073709551615"}},
    {.op = "Exp", .attrs = NULL, .in = {"f32[0,3]"}, .out = {"f32[0,3]"}},
};

static const row casts[] = {
    {.op = "Cast",
     .attrs = "to=6",
     .in = {"f32[7] 1.9 -1.9 3e9 -3e9 nan inf 2147483520"},
     .out = {"i32[7] 1 -1 2147483647 -2147483648 0 2147483647 2147483520"}},
    {.op = "Cast", .attrs = "to=2", .in = {"f32[4] -1 255 256 3.7"}, .out = {"u8[4] 0 255 255 3"}},
    {.op = "Cast",
     .attrs = "to=7",
     .in = {"f64[3] 1e30 -1e30 -5.5"},
     .out = {"i64[3] 9223372036854775807 -9223372036854775808 -5"}},
    {.op = "Cast", .attrs = "to=13", .in = {"f64[2] 1e30 -1"}, .out = {"u64[2] 18446744073709551615 0"}},
    {.op = "Cast", .attrs = "to=3", .in = {"i32[3] 300 -1 127"}, .out = {"i8[3] 44 -1 127"}},
    {.op = "Cast", .attrs = "to=9", .in = {"f32[4] 0 -0.0 0.1 nan"}, .out = {"bool[4] 0 0 1 1"}},
    {.op = "Cast", .attrs = "to=1", .in = {"bool[2] 1 0"}, .out = {"f32[2] 1 0"}},
    {.op = "Cast", .attrs = "to=1", .in = {"u64[1] 18446744073709551615"}, .out = {"f32[1] 18446744073709551616"}},
    {.op = "Cast",
     .attrs = "to=10",
     .in = {"f32[6] 1.5 65520 65519 5.9604645e-8 2.9e-8 -1e9"},
     .out = {"f16[6] 1.5 inf 65504 5.9604645e-8 0 -inf"}},
    {.op = "Cast",
     .attrs = "to=1",
     .in = {"f16[3] 5.9604645e-8 -0.333251953 65504"},
     .out = {"f32[3] 5.9604645e-8 -0.333251953 65504"}},
    {.op = "Cast", .attrs = "to=16", .in = {"f32[3] 1.00390625 1.01171875 nan"}, .out = {"bf16[3] 1 1.015625 nan"}},
    {.op = "Cast", .attrs = "to=11", .in = {"f16[1] 0.5"}, .out = {"f64[1] 0.5"}},
};

static const row edges[] = {
    {.op = "Cast",
     .attrs = "to=7",
     .in = {"f32[2] 9223372036854775808 -9223372036854775808"},
     .out = {"i64[2] 9223372036854775807 -9223372036854775808"}},
    {.op = "Cast",
     .attrs = "to=10",
     .in = {"f32[3] 1.00048828125 1.00146484375 6.1035156e-5"},
     .out = {"f16[3] 1 1.001953125 6.1035156e-5"},
     .rel = 1e-9},
    {.op = "Softmax",
     .attrs = "axis=1",
     .in = {"f32[2,1,2] 0 0 0 0"},
     .out = {"f32[2,1,2] 0.5 0.5 0.5 0.5"},
     .version = 11},
    {.op = "Softmax",
     .attrs = "axis=0",
     .in = {"f32[2,1,2] 0 0 0 0"},
     .out = {"f32[2,1,2] 0.25 0.25 0.25 0.25"},
     .version = 11},
};

static const row binary[] = {
    {.op = "Add",
     .attrs = NULL,
     .in = {"f32[2,3] 1 2 3 4 5 6", "f32[3] 10 20 30"},
     .out = {"f32[2,3] 11 22 33 14 25 36"}},
    {.op = "Add", .attrs = NULL, .in = {"f32[2,1] 1 2", "f32[1,3] 10 20 30"}, .out = {"f32[2,3] 11 21 31 12 22 32"}},
    {.op = "Add", .attrs = NULL, .in = {"f32[] 1", "f32[2] 1 2"}, .out = {"f32[2] 2 3"}},
    {.op = "Add", .attrs = NULL, .in = {"f32[0,3]", "f32[1,3] 1 2 3"}, .out = {"f32[0,3]"}},
    {.op = "Add", .attrs = NULL, .in = {"i32[2] 2147483647 1", "i32[2] 1 1"}, .out = {"i32[2] -2147483648 2"}},
    {.op = "Add", .attrs = NULL, .in = {"f16[2] 1 2048", "f16[1] 1"}, .out = {"f16[2] 2 2048"}},
    {.op = "Sub", .attrs = NULL, .in = {"u8[2] 3 200", "u8[1] 5"}, .out = {"u8[2] 254 195"}},
    {.op = "Mul",
     .attrs = NULL,
     .in = {"i64[2] 4611686018427387904 3", "i64[2] 2 -4"},
     .out = {"i64[2] -9223372036854775808 -12"}},
    {.op = "Mul", .attrs = NULL, .in = {"u16[1] 65535", "u16[1] 65535"}, .out = {"u16[1] 1"}},
    {.op = "Mul",
     .attrs = NULL,
     .in = {"f32[2,2,2] 1 2 3 4 5 6 7 8", "f32[2,1,2] 1 2 3 4"},
     .out = {"f32[2,2,2] 1 4 3 8 15 24 21 32"}},
    {.op = "Div",
     .attrs = NULL,
     .in = {"i32[5] 7 -7 7 -2147483648 5", "i32[5] 2 2 -2 -1 0"},
     .out = {"i32[5] 3 -3 -3 -2147483648 0"}},
    {.op = "Div", .attrs = NULL, .in = {"f32[3] 1 -1 0", "f32[1] 0"}, .out = {"f32[3] inf -inf nan"}},
    {.op = "Pow", .attrs = NULL, .in = {"f32[3] 2 -3 4", "i64[] 2"}, .out = {"f32[3] 4 9 16"}},
    {.op = "Pow", .attrs = NULL, .in = {"f32[2] 2 -3", "f32[] 3"}, .out = {"f32[2] 8 -27"}},
    {.op = "Pow", .attrs = NULL, .in = {"f32[2] 4 9", "f32[2] 0.5 -0.5"}, .out = {"f32[2] 2 0.333333333"}},
    {.op = "Pow", .attrs = NULL, .in = {"i32[4] 2 -3 7 2", "i32[4] 10 3 0 -1"}, .out = {"i32[4] 1024 -27 1 0"}},
    {.op = "Pow", .attrs = NULL, .in = {"i64[2] 4 9", "f32[] 0.5"}, .out = {"i64[2] 2 3"}},
    {.op = "Pow", .attrs = NULL, .in = {"i64[1] 3", "i64[] 39"}, .out = {"i64[1] 4052555153018976267"}},
    {.op = "Mod", .attrs = NULL, .in = {"i32[4] 7 -7 7 -7", "i32[4] 3 3 -3 -3"}, .out = {"i32[4] 1 2 -2 -1"}},
    {.op = "Mod", .attrs = "fmod=1", .in = {"i32[4] 7 -7 7 -7", "i32[4] 3 3 -3 -3"}, .out = {"i32[4] 1 -1 1 -1"}},
    {.op = "Mod", .attrs = "fmod=1", .in = {"f32[2] 5.5 -5.5", "f32[] 2"}, .out = {"f32[2] 1.5 -1.5"}},
    {.op = "Mod", .attrs = NULL, .in = {"u64[1] 18446744073709551615", "u64[1] 10"}, .out = {"u64[1] 5"}},
    {.op = "Mod", .attrs = NULL, .in = {"i64[2] 5 -9223372036854775808", "i64[2] 0 -1"}, .out = {"i64[2] 0 0"}},
    {.op = "PRelu", .attrs = NULL, .in = {"f32[2,2] -1 2 -3 4", "f32[2] 0.5 0.25"}, .out = {"f32[2,2] -0.5 2 -1.5 4"}},
    {.op = "Min", .attrs = NULL, .in = {"f32[3] 1 5 nan", "f32[] 3", "f32[3] 4 2 1"}, .out = {"f32[3] 1 2 nan"}},
    {.op = "Max", .attrs = NULL, .in = {"i64[2,1] 1 5", "i64[2] 3 4"}, .out = {"i64[2,2] 3 4 5 5"}},
    {.op = "Max",
     .attrs = NULL,
     .in = {"u64[1] 18446744073709551615", "u64[1] 1"},
     .out = {"u64[1] 18446744073709551615"}},
    {.op = "Max", .attrs = NULL, .in = {"f16[2] 1 3"}, .out = {"f16[2] 1 3"}},
    {.op = "Sum",
     .attrs = NULL,
     .in = {"f32[2] 1 2", "f32[1] 10", "f32[2,1] 100 200"},
     .out = {"f32[2,2] 111 112 211 212"}},
    {.op = "Mean", .attrs = NULL, .in = {"f32[2] 1 2", "f32[2] 3 5"}, .out = {"f32[2] 2 3.5"}},
    {.op = "Mean", .attrs = NULL, .in = {"f16[2] 1 2", "f16[2] 3 5"}, .out = {"f16[2] 2 3.5"}},
    {.op = "And", .attrs = NULL, .in = {"bool[2,1] 1 0", "bool[2] 1 0"}, .out = {"bool[2,2] 1 0 0 0"}},
    {.op = "Or", .attrs = NULL, .in = {"bool[2,1] 1 0", "bool[2] 1 0"}, .out = {"bool[2,2] 1 1 1 0"}},
    {.op = "Xor", .attrs = NULL, .in = {"bool[2,1] 1 0", "bool[2] 1 0"}, .out = {"bool[2,2] 0 1 1 0"}},
    {.op = "Equal", .attrs = NULL, .in = {"bool[2] 1 0", "bool[2] 1 1"}, .out = {"bool[2] 1 0"}},
    {.op = "Equal", .attrs = NULL, .in = {"f32[2] nan 1", "f32[2] nan 1"}, .out = {"bool[2] 0 1"}},
    {.op = "Equal", .attrs = NULL, .in = {"u16[2] 65535 1", "u16[1] 65535"}, .out = {"bool[2] 1 0"}},
    {.op = "Greater", .attrs = NULL, .in = {"u64[1] 18446744073709551615", "u64[1] 1"}, .out = {"bool[1] 1"}},
    {.op = "GreaterOrEqual", .attrs = NULL, .in = {"i32[3] 1 2 3", "i32[] 2"}, .out = {"bool[3] 0 1 1"}},
    {.op = "Less", .attrs = NULL, .in = {"f16[3] 1 2 3", "f16[] 2"}, .out = {"bool[3] 1 0 0"}},
    {.op = "LessOrEqual", .attrs = NULL, .in = {"i8[3] -1 2 3", "i8[] 2"}, .out = {"bool[3] 1 1 0"}},
    {.op = "Where", .attrs = NULL, .in = {"bool[2,1] 1 0", "f32[2] 1 2", "f32[] 9"}, .out = {"f32[2,2] 1 2 9 9"}},
    {.op = "Where", .attrs = NULL, .in = {"bool[3] 1 0 1", "i64[3] 1 2 3", "i64[3] 4 5 6"}, .out = {"i64[3] 1 5 3"}},
    {.op = "Where", .attrs = NULL, .in = {"bool[1] 0", "u8[] 1", "u8[2] 4 5"}, .out = {"u8[2] 4 5"}},
};

static const row movement[] = {
    {.op = "Constant", .attrs = "value={f32[2] 1 2}", .in = {NULL}, .out = {"f32[2] 1 2"}},
    {.op = "Constant", .attrs = "value_int=-7", .in = {NULL}, .out = {"i64[] -7"}},
    {.op = "Constant", .attrs = "value_ints=[3,4]", .in = {NULL}, .out = {"i64[2] 3 4"}},
    {.op = "Constant", .attrs = "value_float=0.5f", .in = {NULL}, .out = {"f32[] 0.5"}},
    {.op = "Shape",
     .attrs = "start=1",
     .in = {"f32[2,3,4] 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"},
     .out = {"i64[2] 3 4"}},
    {.op = "Shape", .attrs = "start=-1 end=-5", .in = {"f32[2,3] 0 0 0 0 0 0"}, .out = {"i64[0]"}},
    {.op = "Size", .attrs = NULL, .in = {"f32[2,3] 0 0 0 0 0 0"}, .out = {"i64[] 6"}},
    {.op = "ConstantOfShape", .attrs = "value={i32[1] 7}", .in = {"i64[2] 2 2"}, .out = {"i32[2,2] 7 7 7 7"}},
    {.op = "ConstantOfShape", .attrs = NULL, .in = {"i64[1] 2"}, .out = {"f32[2] 0 0"}},
    {.op = "Range", .attrs = NULL, .in = {"i64[] 10", "i64[] 3", "i64[] -3"}, .out = {"i64[3] 10 7 4"}},
    {.op = "Range", .attrs = NULL, .in = {"f32[] 0", "f32[] 1", "f32[] 0.25"}, .out = {"f32[4] 0 0.25 0.5 0.75"}},
    {.op = "Range", .attrs = NULL, .in = {"i32[] 3", "i32[] 3", "i32[] 1"}, .out = {"i32[0]"}},
    {.op = "Reshape", .attrs = NULL, .in = {"f32[2,3] 1 2 3 4 5 6", "i64[2] 3 -1"}, .out = {"f32[3,2] 1 2 3 4 5 6"}},
    {.op = "Reshape", .attrs = NULL, .in = {"f32[0,3]", "i64[2] 0 -1"}, .out = {"f32[0,3]"}},
    {.op = "Flatten", .attrs = "axis=2", .in = {"u8[2,1,2] 1 2 3 4"}, .out = {"u8[2,2] 1 2 3 4"}},
    {.op = "Squeeze", .attrs = NULL, .in = {"f32[1,2] 1 2", "i64[1] 0"}, .out = {"f32[2] 1 2"}},
    {.op = "Unsqueeze", .attrs = NULL, .in = {"f32[2] 1 2", "i64[2] 0 2"}, .out = {"f32[1,2,1] 1 2"}},
    {.op = "Transpose", .attrs = NULL, .in = {"f32[2,3] 1 2 3 4 5 6"}, .out = {"f32[3,2] 1 4 2 5 3 6"}},
    {.op = "Transpose",
     .attrs = "perm=[1,0,2]",
     .in = {"i64[2,2,2] 1 2 3 4 5 6 7 8"},
     .out = {"i64[2,2,2] 1 2 5 6 3 4 7 8"}},
    {.op = "Transpose",
     .attrs = "perm=[2,0,1]",
     .in = {"u8[2,2,2] 1 2 3 4 5 6 7 8"},
     .out = {"u8[2,2,2] 1 3 5 7 2 4 6 8"}},
    {.op = "Transpose",
     .attrs = "perm=[0,2,1,3]",
     .in = {"u16[1,2,3,1] 1 2 3 4 5 6"},
     .out = {"u16[1,3,2,1] 1 4 2 5 3 6"}},
    {.op = "Transpose", .attrs = NULL, .in = {"f32[0,3]"}, .out = {"f32[3,0]"}},
    {.op = "Concat", .attrs = "axis=1", .in = {"f32[2,1] 1 2", "f32[2,2] 3 4 5 6"}, .out = {"f32[2,3] 1 3 4 2 5 6"}},
    {.op = "Concat", .attrs = "axis=-2", .in = {"f32[1,0,2]", "f32[1,2,2] 1 2 3 4"}, .out = {"f32[1,2,2] 1 2 3 4"}},
    {.op = "Concat", .attrs = "axis=0", .in = {"i64[1] 5"}, .out = {"i64[1] 5"}},
    {.op = "Split",
     .attrs = "axis=1",
     .in = {"f32[2,3] 1 2 3 4 5 6", "i64[2] 1 2"},
     .out = {"f32[2,1] 1 4", "f32[2,2] 2 3 5 6"}},
    {.op = "Split", .attrs = "num_outputs=2", .in = {"i32[3] 1 2 3"}, .out = {"i32[2] 1 2", "i32[1] 3"}},
    {.op = "Slice", .attrs = NULL, .in = {"f32[5] 0 1 2 3 4", "i64[1] 1", "i64[1] 4"}, .out = {"f32[3] 1 2 3"}},
    {.op = "Slice",
     .attrs = NULL,
     .in = {"f32[5] 0 1 2 3 4", "i64[1] -1", "i64[1] -100", "i64[1] 0", "i64[1] -2"},
     .out = {"f32[3] 4 2 0"}},
    {.op = "Slice",
     .attrs = NULL,
     .in = {"f32[2,3] 1 2 3 4 5 6", "i64[2] 1 0", "i64[2] 100 -1", "i64[2] -2 -1"},
     .out = {"f32[1,2] 4 5"}},
    {.op = "Slice", .attrs = NULL, .in = {"i32[3] 1 2 3", "i32[1] 2", "i32[1] 1"}, .out = {"i32[0]"}},
    {.op = "Slice",
     .attrs = NULL,
     .in = {"i32[3] 1 2 3", "i64[1] 0", "i64[1] 3", "i64[1] 0", "i64[1] 1099511627776"},
     .out = {"i32[1] 1"}},
    {.op = "Gather", .attrs = "axis=1", .in = {"f32[2,3] 1 2 3 4 5 6", "i64[2] -1 0"}, .out = {"f32[2,2] 3 1 6 4"}},
    {.op = "Gather", .attrs = NULL, .in = {"i64[3] 5 6 7", "i32[] 2"}, .out = {"i64[] 7"}},
    {.op = "Gather", .attrs = NULL, .in = {"f16[2,2] 1 2 3 4", "i64[2,1] 1 1"}, .out = {"f16[2,1,2] 3 4 3 4"}},
    {.op = "Gather",
     .attrs = NULL,
     .in = {"f32[2,2] 1 2 3 4", "i64[1] 2"},
     .out = {NULL},
     .status = TN_E_INVALID,
     .says = "index 2"},
    {.op = "Gather",
     .attrs = NULL,
     .in = {"f32[2,2] 1 2 3 4", "i64[1] -3"},
     .out = {NULL},
     .status = TN_E_INVALID,
     .says = "index -3"},
    {.op = "Gather", .attrs = NULL, .in = {"f32[2,2] 1 2 3 4", "i64[0]"}, .out = {"f32[0,2]"}},
    {.op = "GatherElements",
     .attrs = "axis=1",
     .in = {"f32[2,2] 1 2 3 4", "i64[2,2] 0 0 -1 0"},
     .out = {"f32[2,2] 1 1 4 3"}},
    {.op = "GatherElements",
     .attrs = "axis=1",
     .in = {"f32[1,2] 1 2", "i64[1,1] 5"},
     .out = {NULL},
     .status = TN_E_INVALID,
     .says = "index 5"},
    {.op = "GatherND", .attrs = NULL, .in = {"f32[2,2] 0 1 2 3", "i64[2,2] 0 0 1 1"}, .out = {"f32[2] 0 3"}},
    {.op = "GatherND",
     .attrs = "batch_dims=1",
     .in = {"f32[2,2,2] 0 1 2 3 4 5 6 7", "i64[2,1] 1 0"},
     .out = {"f32[2,2] 2 3 4 5"}},
    {.op = "ScatterND",
     .attrs = NULL,
     .in = {"f32[4] 1 2 3 4", "i64[2,1] 1 -1", "f32[2] 9 8"},
     .out = {"f32[4] 1 9 3 8"}},
    {.op = "ScatterND",
     .attrs = "reduction='add'",
     .in = {"i32[3] 1 2 3", "i64[2,1] 1 1", "i32[2] 5 6"},
     .out = {"i32[3] 1 13 3"}},
    {.op = "ScatterND",
     .attrs = "reduction='max'",
     .in = {"f16[2] 1 9", "i64[2,1] 0 1", "f16[2] 5 6"},
     .out = {"f16[2] 5 9"}},
    {.op = "ScatterND",
     .attrs = NULL,
     .in = {"f32[2] 1 2", "i64[1,1] 2", "f32[1] 9"},
     .out = {NULL},
     .status = TN_E_INVALID,
     .says = "index 2"},
    {.op = "ScatterElements",
     .attrs = "axis=1",
     .in = {"f32[1,3] 1 2 3", "i64[1,2] 2 0", "f32[1,2] 9 8"},
     .out = {"f32[1,3] 8 2 9"}},
    {.op = "ScatterElements",
     .attrs = "reduction='mul'",
     .in = {"f32[3] 1 2 3", "i64[2] 1 1", "f32[2] 5 2"},
     .out = {"f32[3] 1 20 3"}},
    {.op = "Expand",
     .attrs = NULL,
     .in = {"f32[2,1] 1 2", "i64[3] 2 1 3"},
     .out = {"f32[2,2,3] 1 1 1 2 2 2 1 1 1 2 2 2"}},
    {.op = "Expand", .attrs = NULL, .in = {"i64[1] 4", "i64[1] 0"}, .out = {"i64[0]"}},
    {.op = "Tile",
     .attrs = NULL,
     .in = {"f32[2,2] 1 2 3 4", "i64[2] 2 2"},
     .out = {"f32[4,4] 1 2 1 2 3 4 3 4 1 2 1 2 3 4 3 4"}},
    {.op = "Tile", .attrs = NULL, .in = {"u8[2] 1 2", "i64[1] 0"}, .out = {"u8[0]"}},
    {.op = "Trilu", .attrs = NULL, .in = {"f32[2,3] 1 2 3 4 5 6"}, .out = {"f32[2,3] 1 2 3 0 5 6"}},
    {.op = "Trilu", .attrs = "upper=0", .in = {"i64[2,3] 1 2 3 4 5 6", "i64[] -1"}, .out = {"i64[2,3] 0 0 0 4 0 0"}},
    {.op = "Trilu",
     .attrs = NULL,
     .in = {"f32[2,2] 1 2 3 4", "i64[] 9223372036854775807"},
     .out = {"f32[2,2] 0 0 0 0"}},
    {.op = "Pad", .attrs = NULL, .in = {"f32[2] 1 2", "i64[2] 1 2", "f32[] 9"}, .out = {"f32[5] 9 1 2 9 9"}},
    {.op = "Pad", .attrs = NULL, .in = {"f32[2,2] 1 2 3 4", "i64[4] 0 -1 1 0"}, .out = {"f32[3,1] 2 4 0"}},
    {.op = "Pad", .attrs = "mode='reflect'", .in = {"f32[3] 1 2 3", "i64[2] 2 1"}, .out = {"f32[6] 3 2 1 2 3 2"}},
    {.op = "Pad", .attrs = "mode='edge'", .in = {"i32[3] 1 2 3", "i64[2] 2 1"}, .out = {"i32[6] 1 1 1 2 3 3"}},
    {.op = "Pad", .attrs = "mode='wrap'", .in = {"f32[3] 1 2 3", "i64[2] 2 1"}, .out = {"f32[6] 2 3 1 2 3 1"}},
    {.op = "Pad", .attrs = NULL, .in = {"f32[1,2] 1 2", "i64[2] 1 1", "-", "i64[1] 1"}, .out = {"f32[1,4] 0 1 2 0"}},
    {.op = "OneHot", .attrs = NULL, .in = {"i64[2] 1 -1", "i64[] 3", "f32[2] 0 5"}, .out = {"f32[2,3] 0 5 0 0 0 5"}},
    {.op = "OneHot", .attrs = "axis=0", .in = {"i64[2] 1 7", "i64[] 2", "i32[2] 0 1"}, .out = {"i32[2,2] 0 0 1 0"}},
    {.op = "EyeLike", .attrs = "k=1", .in = {"f32[2,3] 0 0 0 0 0 0"}, .out = {"f32[2,3] 0 1 0 0 0 1"}},
    {.op = "EyeLike", .attrs = "dtype=7", .in = {"f32[2,2] 0 0 0 0"}, .out = {"i64[2,2] 1 0 0 1"}},
};

static const row reductions[] = {
    {.op = "ReduceSum", .attrs = "keepdims=0", .in = {"f32[2,3] 1 2 3 4 5 6", "i64[1] 1"}, .out = {"f32[2] 6 15"}},
    {.op = "ReduceSum", .attrs = NULL, .in = {"f32[2,3] 1 2 3 4 5 6", "i64[1] 0"}, .out = {"f32[1,3] 5 7 9"}},
    {.op = "ReduceSum", .attrs = NULL, .in = {"f32[2,2,2] 1 2 3 4 5 6 7 8", "i64[2] 0 2"}, .out = {"f32[1,2,1] 14 22"}},
    {.op = "ReduceSum",
     .attrs = "keepdims=0",
     .in = {"f32[2,2,2] 1 2 3 4 5 6 7 8", "i64[1] 1"},
     .out = {"f32[2,2] 4 6 12 14"}},
    {.op = "ReduceSum", .attrs = NULL, .in = {"i32[2,2] 1 2 3 4"}, .out = {"i32[1,1] 10"}},
    {.op = "ReduceSum", .attrs = "noop_with_empty_axes=1", .in = {"f32[2] 1 2"}, .out = {"f32[2] 1 2"}},
    {.op = "ReduceSum", .attrs = "keepdims=0", .in = {"f32[2,0]", "i64[1] 1"}, .out = {"f32[2] 0 0"}},
    {.op = "ReduceSum", .attrs = "keepdims=0", .in = {"f32[0,2]", "i64[1] 1"}, .out = {"f32[0]"}},
    {.op = "ReduceSum",
     .attrs = NULL,
     .in = {"f32[2,2] 1 2 3 4", "i64[1] 2"},
     .out = {NULL},
     .status = TN_E_INVALID,
     .says = "axis 2"},
    {.op = "ReduceMean", .attrs = NULL, .in = {"f32[2,2] 1 2 3 4", "i64[1] -1"}, .out = {"f32[2,1] 1.5 3.5"}},
    {.op = "ReduceMean", .attrs = "keepdims=0", .in = {"f16[2,2] 1 2 3 4", "i64[1] 0"}, .out = {"f16[2] 2 3"}},
    {.op = "ReduceMean",
     .attrs = "keepdims=0",
     .in = {"u64[2] 18446744073709551614 0"},
     .out = {"u64[] 9223372036854775807"}},
    {.op = "ReduceMax", .attrs = "keepdims=0", .in = {"f32[2,2] 1 nan 3 4", "i64[1] 1"}, .out = {"f32[2] nan 4"}},
    {.op = "ReduceMax", .attrs = "keepdims=0", .in = {"i64[0]"}, .out = {"i64[] -9223372036854775808"}},
    {.op = "ReduceMax", .attrs = "keepdims=0", .in = {"bool[2] 0 1"}, .out = {"bool[] 1"}},
    {.op = "ReduceMax",
     .attrs = "keepdims=0",
     .in = {"u64[2] 1 18446744073709551615"},
     .out = {"u64[] 18446744073709551615"}},
    {.op = "ReduceMin", .attrs = "keepdims=0", .in = {"f32[2,2] 1 -2 3 4", "i64[1] 0"}, .out = {"f32[2] 1 -2"}},
    {.op = "ReduceMin", .attrs = "keepdims=0", .in = {"f32[0]"}, .out = {"f32[] inf"}},
    {.op = "ReduceProd", .attrs = "keepdims=0", .in = {"i8[3] 2 -3 5"}, .out = {"i8[] -30"}},
    {.op = "ReduceProd", .attrs = "keepdims=0", .in = {"f64[3] 2 -3 5"}, .out = {"f64[] -30"}},
    {.op = "ReduceSumSquare", .attrs = "keepdims=0", .in = {"f32[2,2] 1 2 3 4", "i64[1] 1"}, .out = {"f32[2] 5 25"}},
    {.op = "ReduceL2", .attrs = "keepdims=0", .in = {"f32[2] 3 4"}, .out = {"f32[] 5"}},
    {.op = "ReduceL2", .attrs = "keepdims=0", .in = {"u32[2] 4294967295 3"}, .out = {"u32[] 4294967295"}},
    {.op = "ArgMax", .attrs = "axis=1 keepdims=0", .in = {"f32[2,3] 1 5 5 7 2 3"}, .out = {"i64[2] 1 0"}},
    {.op = "ArgMax",
     .attrs = "axis=1 keepdims=0 select_last_index=1",
     .in = {"f32[2,3] 1 5 5 7 2 3"},
     .out = {"i64[2] 2 0"}},
    {.op = "ArgMax", .attrs = "axis=0", .in = {"i64[2,2] 1 9 3 4"}, .out = {"i64[1,2] 1 0"}},
    {.op = "ArgMin", .attrs = "axis=-1 keepdims=0", .in = {"f16[3] 3 1 2"}, .out = {"i64[] 1"}},
    {.op = "CumSum", .attrs = NULL, .in = {"f32[3] 1 2 3", "i64[] 0"}, .out = {"f32[3] 1 3 6"}},
    {.op = "CumSum", .attrs = "exclusive=1 reverse=1", .in = {"i32[3] 1 2 3", "i32[] 0"}, .out = {"i32[3] 5 3 0"}},
    {.op = "CumSum", .attrs = NULL, .in = {"f16[2,2] 1 2 3 4", "i64[] 0"}, .out = {"f16[2,2] 1 2 4 6"}},
    {.op = "Softmax", .attrs = NULL, .in = {"f32[2,2] 0 0 1 2"}, .out = {"f32[2,2] 0.5 0.5 0.268941421 0.731058579"}},
    {.op = "Softmax",
     .attrs = "axis=0",
     .in = {"f32[2,2] 0 1 0 2"},
     .out = {"f32[2,2] 0.5 0.268941421 0.5 0.731058579"}},
    {.op = "Softmax", .attrs = NULL, .in = {"f32[3] -inf 0 1000"}, .out = {"f32[3] 0 0 1"}},
    {.op = "Softmax", .attrs = NULL, .in = {"f32[2,0]"}, .out = {"f32[2,0]"}},
    {.op = "Softmax",
     .attrs = NULL,
     .in = {"f64[2] 1 2"},
     .out = {"f64[2] 0.2689414213699951 0.7310585786300049"},
     .rel = 1e-15},
    {.op = "Softmax", .attrs = NULL, .in = {"f16[2] 1 2"}, .out = {"f16[2] 0.268941421 0.731058579"}},
    {.op = "Softmax",
     .attrs = "axis=1",
     .in = {"f32[1,2,2] 0 0 0 0"},
     .out = {"f32[1,2,2] 0.25 0.25 0.25 0.25"},
     .version = 11},
    {.op = "Softmax",
     .attrs = "axis=1",
     .in = {"f32[1,2,2] 0 0 0 0"},
     .out = {"f32[1,2,2] 0.5 0.5 0.5 0.5"},
     .version = 13},
    {.op = "LogSoftmax", .attrs = NULL, .in = {"f32[2] 1 2"}, .out = {"f32[2] -1.31326169 -0.313261688"}},
    {.op = "LayerNormalization",
     .attrs = "epsilon=0f",
     .in = {"f32[2,2] 1 3 2 2.5", "f32[2] 1 2", "f32[2] 0 10"},
     .out = {"f32[2,2] -1 12 -1 12", "f32[2,1] 2 2.25", "f32[2,1] 1 4"}},
    {.op = "LayerNormalization",
     .attrs = "epsilon=0f axis=0",
     .in = {"f32[2,1] 1 3", "f32[2,1] 1 2"},
     .out = {"f32[2,1] -1 2"}},
    {.op = "LayerNormalization", .attrs = "epsilon=0f", .in = {"f16[2] 1 3", "f16[2] 1 2"}, .out = {"f16[2] -1 2"}},
    {.op = "LayerNormalization", .attrs = "epsilon=0f", .in = {"f64[2] 1 3", "f64[1] 2"}, .out = {"f64[2] -2 2"}},
    {.op = "LayerNormalization", .attrs = NULL, .in = {"f32[0,2]", "f32[2] 1 2"}, .out = {"f32[0,2]"}},
    {.op = "RMSNormalization",
     .attrs = "epsilon=0f",
     .in = {"f32[2] 3 4", "f32[2] 1 2"},
     .out = {"f32[2] 0.848528137 2.2627417"}},
    {.op = "TopK", .attrs = NULL, .in = {"f32[4] 1 4 4 2", "i64[1] 3"}, .out = {"f32[3] 4 4 2", "i64[3] 1 2 3"}},
    {.op = "TopK",
     .attrs = "axis=0 largest=0",
     .in = {"i64[3,2] 5 1 3 2 4 0", "i64[1] 2"},
     .out = {"i64[2,2] 3 0 4 1", "i64[2,2] 1 2 2 0"}},
    {.op = "TopK", .attrs = NULL, .in = {"f32[2] 1 2", "i64[1] 0"}, .out = {"f32[0]", "i64[0]"}},
};

static const row products[] = {
    {.op = "MatMul", .attrs = NULL, .in = {"f32[2,2] 1 2 3 4", "f32[2,2] 5 6 7 8"}, .out = {"f32[2,2] 19 22 43 50"}},
    {.op = "MatMul", .attrs = NULL, .in = {"f32[2] 1 2", "f32[2,2] 5 6 7 8"}, .out = {"f32[2] 19 22"}},
    {.op = "MatMul", .attrs = NULL, .in = {"f32[2,2] 5 6 7 8", "f32[2] 1 2"}, .out = {"f32[2] 17 23"}},
    {.op = "MatMul", .attrs = NULL, .in = {"f32[2] 1 2", "f32[2] 3 4"}, .out = {"f32[] 11"}},
    {.op = "MatMul", .attrs = NULL, .in = {"i32[1,2] 100000 2", "i32[2,1] 100000 3"}, .out = {"i32[1,1] 1410065414"}},
    {.op = "MatMul", .attrs = NULL, .in = {"f64[1,2] 1 2", "f64[2,1] 3 4"}, .out = {"f64[1,1] 11"}},
    {.op = "MatMul", .attrs = NULL, .in = {"f16[1,2] 1 2", "f16[2,1] 3 4"}, .out = {"f16[1,1] 11"}},
    {.op = "MatMul", .attrs = NULL, .in = {"bf16[2,2] 1 2 3 4", "bf16[2,2] 5 6 7 8"}, .out = {"bf16[2,2] 19 22 43 50"}},
    {.op = "MatMul", .attrs = NULL, .in = {"f32[2,1,2] 1 2 3 4", "f32[2,2,1] 1 1 2 2"}, .out = {"f32[2,1,1] 3 14"}},
    {.op = "MatMul",
     .attrs = NULL,
     .in = {"f32[2,1,1,2] 1 2 3 4", "f32[1,2,2,1] 1 1 2 2"},
     .out = {"f32[2,2,1,1] 3 6 7 14"}},
    {.op = "MatMul", .attrs = NULL, .in = {"f32[2,0]", "f32[0,2]"}, .out = {"f32[2,2] 0 0 0 0"}},
    {.op = "MatMul", .attrs = NULL, .in = {"f32[1,0]", "f32[0,2]"}, .out = {"f32[1,2] 0 0"}},
    {.op = "MatMul", .attrs = NULL, .in = {"i64[1,0]", "i64[0,2]"}, .out = {"i64[1,2] 0 0"}},
    {.op = "MatMul", .attrs = NULL, .in = {"f32[0,2]", "f32[2,2] 1 2 3 4"}, .out = {"f32[0,2]"}},
    {.op = "MatMul", .attrs = NULL, .in = {"f32[2,2] 1 2 3 4", "f32[2,0]"}, .out = {"f32[2,0]"}},
    {.op = "Gemm",
     .attrs = "transB=1 alpha=2f beta=0.5f",
     .in = {"f32[1,2] 1 2", "f32[2,2] 5 6 7 8", "f32[2] 10 20"},
     .out = {"f32[1,2] 39 56"}},
    {.op = "Gemm",
     .attrs = "transA=1",
     .in = {"f32[2,1] 1 2", "f32[2,2] 5 6 7 8", "f32[1,1] 1"},
     .out = {"f32[1,2] 20 23"}},
    {.op = "Gemm",
     .attrs = NULL,
     .in = {"f32[2,2] 1 2 3 4", "f32[2,2] 1 0 0 1", "f32[2,1] 10 20"},
     .out = {"f32[2,2] 11 12 23 24"}},
    {.op = "Gemm",
     .attrs = "transA=1 transB=1",
     .in = {"i32[2,2] 1 2 3 4", "i32[2,2] 5 6 7 8", "i32[] 1"},
     .out = {"i32[2,2] 24 32 35 47"}},
    {.op = "Gemm", .attrs = "beta=0f", .in = {"f64[1,1] 3", "f64[1,1] 4", "f64[1] 100"}, .out = {"f64[1,1] 12"}},
    {.op = "Gemm", .attrs = NULL, .in = {"f32[2,0]", "f32[0,1]", "f32[1] 7"}, .out = {"f32[2,1] 7 7"}},
};

static bool check(const row *r, tn_run *run) {
  ht_node n;
  tni_tensor out[HT_IO], want;
  uint32_t n_out = 0;
  while (n_out < 3 && r->out[n_out]) n_out++;
  const bool made = ht_node_make(&n, r->op, r->version, r->attrs, r->in, n_out ? n_out : 1);
  tn_status st = made ? tni_ops_eval(run, n.node, n.ptr, n.n_in, out, n.n_out, n.g->arena, &n.err) : n.err.code;
  bool ok = made && (n_out ? st == TN_OK : st == r->status);
  if (ok && r->says) ok = strstr(n.err.message, r->says) && strstr(n.err.where, "the node");
  for (uint32_t i = 0; ok && i < n_out; i++)
    ok = ht_tensor(n.g->arena, r->out[i], &want) && ht_same(&out[i], &want, r->rel ? r->rel : 1e-6);
  if (!ok)
    printf("\n    %s(%s) on %s: status %d %s %s", r->op, r->attrs ? r->attrs : "", r->in[0] ? r->in[0] : "nothing", st,
           n.err.where, n.err.message);
  ht_node_free(&n);
  return ok;
}

static void run_rows(const row *rows, size_t n) {
  tni_pool *pool = tni_pool_create(3);
  tni_pool_run run;
  tni_pool_run_init(&run, pool, NULL);
  for (size_t i = 0; i < n; i++) {
    CU_ASSERT(check(&rows[i], NULL));
    CU_ASSERT(check(&rows[i], &run.run));
  }
  tni_pool_destroy(pool);
}
#define SUITE(name) \
  static void test_##name(void) { run_rows(name, sizeof name / sizeof *name); }
SUITE(unary)
SUITE(casts)
SUITE(edges)
SUITE(binary)
SUITE(movement)
SUITE(reductions)
SUITE(products)

/* Every row of the op table but control flow has a kernel, and accepts() speaks for it. */
static void test_table(void) {
  uint32_t n, missing = 0;
  const tni_op *ops = tni_op_table(&n);
  for (uint32_t i = 0; i < n; i++) {
    tn_node node = {.h = TN_HDR(tn_node), .op = ops[i].id};
    char why[120];
    const bool control = (ops[i].flags & TNI_OPF_CONTROL) != 0;
    CU_ASSERT((tni_ops_kernel(&ops[i]) == NULL) == control);
    if (!control && ops[i].id != TN_OP_CAST && !tni_ops_accepts(&node, NULL, 0, why, sizeof why)) {
      CU_ASSERT(strstr(why, ops[i].name) != NULL);
      missing++;
    }
  }
  CU_ASSERT_EQUAL(missing, 0);
}

/* Dtypes that no kernel takes are refused with a reason, not computed. */
static void test_accepts(void) {
  static const struct {
    const char *op;
    uint32_t dtype[3];
    bool ok;
  } rows[] = {{"Add", {TN_DT_F32, TN_DT_F32}, true},
              {"Add", {TN_DT_F32, TN_DT_F64}, false},
              {"Add", {TN_DT_BOOL, TN_DT_BOOL}, false},
              {"MatMul", {TN_DT_U4, TN_DT_U4}, false},
              {"Gather", {TN_DT_F8E5M2, TN_DT_I32}, true},
              {"Gather", {TN_DT_F32, TN_DT_F32}, false},
              {"Where", {TN_DT_BOOL, TN_DT_F16, TN_DT_F16}, true},
              {"Where", {TN_DT_F32, TN_DT_F16, TN_DT_F16}, false},
              {"Identity", {TN_DT_STRING}, false},
              {"Pow", {TN_DT_F32, TN_DT_I64}, true},
              {"Softmax", {TN_DT_I32}, false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tn_value v[3];
    const tn_value *p[3];
    char why[120];
    uint32_t n = 0;
    for (; n < 3 && rows[i].dtype[n]; n++) {
      v[n] = (tn_value){.h = TN_HDR(tn_value), .dtype = rows[i].dtype[n]};
      p[n] = &v[n];
    }
    const tni_op *op = tni_op_find("", rows[i].op, 25);
    const tn_node node = {.h = TN_HDR(tn_node), .op = op->id};
    CU_ASSERT_EQUAL(tni_ops_accepts(&node, p, n, why, sizeof why), rows[i].ok);
    CU_ASSERT_EQUAL(why[0] == 0, rows[i].ok);
  }
}

bool ht_add_kernels(void) {
  CU_pSuite s = CU_add_suite("host kernels", NULL, NULL);
  return s && CU_add_test(s, "unary", test_unary) && CU_add_test(s, "casts", test_casts) &&
         CU_add_test(s, "edges", test_edges) && CU_add_test(s, "binary", test_binary) &&
         CU_add_test(s, "movement", test_movement) && CU_add_test(s, "reductions", test_reductions) &&
         CU_add_test(s, "products", test_products) && CU_add_test(s, "table", test_table) &&
         CU_add_test(s, "accepts", test_accepts);
}
