// SPDX-License-Identifier: Apache-2.0
// Stands before every kernel. T is a TN_DT_* (1 float32, 6 int32, 7 int64, 9 bool, 10 float16) given as a macro.
#if FP16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
#define LD_1(p, i) (((__global const float *)(p))[i])
#define LD_6(p, i) (((__global const int *)(p))[i])
#define LD_7(p, i) (((__global const long *)(p))[i])
#define LD_9(p, i) (((__global const uchar *)(p))[i])
#define LD_10(p, i) vload_half((i), (__global const half *)(p))
#define LD4_1(p, i) vload4(0, (__global const float *)(p) + (i))
#define LD4_10(p, i) vload_half4(0, (__global const half *)(p) + (i))
#define ST_1(v, p, i) ((__global float *)(p))[i] = (v)
#define ST_6(v, p, i) ((__global int *)(p))[i] = (int)(v)
#define ST_7(v, p, i) ((__global long *)(p))[i] = (long)(v)
#define ST_9(v, p, i) ((__global uchar *)(p))[i] = (v) != 0
#define ST_10(v, p, i) vstore_half((v), (i), (__global half *)(p))
#define ST4_1(v, p, i) vstore4((v), 0, (__global float *)(p) + (i))
#define ST4_10(v, p, i) vstore_half4((v), 0, (__global half *)(p) + (i))
#define BYTES_0 1
#define BYTES_1 4
#define BYTES_6 4
#define BYTES_7 8
#define BYTES_9 1
#define BYTES_10 2
#define LD__(T, p, i) LD_##T(p, i)
#define LD(T, p, i) LD__(T, p, i)
#define LD4__(T, p, i) LD4_##T(p, i)
#define LD4(T, p, i) LD4__(T, p, i)
#define ST__(T, v, p, i) ST_##T(v, p, i)
#define ST(T, v, p, i) ST__(T, v, p, i)
#define ST4__(T, v, p, i) ST4_##T(v, p, i)
#define ST4(T, v, p, i) ST4__(T, v, p, i)
#define AT__(T, p, o) ((p) + (ulong)(o) * BYTES_##T)
#define AT(T, p, o) AT__(T, p, o)
#define ARG(p) __global uchar *p, uint p##_o
