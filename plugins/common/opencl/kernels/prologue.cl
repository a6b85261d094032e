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
// Codes of BITS bits (plugins/common/formats/e0m.h). UNIT values of k are WORDS uints of two columns, u; QUADS does TAKE(q)
// for each four of them. HALF(u, i): of value i the two columns' halves between 1 and 2, by a shift, AND and OR; COLUMN0 and
// COLUMN1: of values 4 q .. 4 q + 3 one column's, less 1, as floats.
#if BITS
#define UNIT (BITS == 3 ? 16 : BITS == 2 ? 8 : 4)
#define WORDS (UNIT * BITS / 16)
#define FRACTION (10 - BITS)
#define CODES ((((1u << BITS) - 1) << FRACTION) * 0x10001u)
#define MOVED(u, at) ((at) < FRACTION ? (u) << ((FRACTION - (at)) & 31) : (u) >> (((at) - FRACTION) & 31))
#if BITS == 3
#define SPREAD(u)                                                                                                      \
  (((u)[0] >> 8 & 0x00800080u) | ((u)[1] >> 7 & 0x01000100u) | ((u)[2] >> 6 & 0x02000200u))
#define CODE(u, i) ((i) < 15 ? MOVED((u)[(i) % 15 / 5], (i) % 15 % 5 * 3) & CODES : SPREAD(u))
#else
#define CODE(u, i) (MOVED((u)[(i) / (16 / BITS)], (i) % (16 / BITS) * BITS) & CODES)
#endif
#define HALF(u, i) (CODE(u, i) | 0x3c003c00u)
#define FRACTIONS(u, q) (uint4)(CODE(u, 4 * (q)), CODE(u, 4 * (q) + 1), CODE(u, 4 * (q) + 2), CODE(u, 4 * (q) + 3))
#define COLUMN0(u, q) (convert_float4(FRACTIONS(u, q) & 0xffffu) * 0.0009765625f)
#define COLUMN1(u, q) (convert_float4(FRACTIONS(u, q) >> 16) * 0.0009765625f)
#if BITS == 3
#define QUADS TAKE(0) TAKE(1) TAKE(2) TAKE(3)
#elif BITS == 2
#define QUADS TAKE(0) TAKE(1)
#else
#define QUADS TAKE(0)
#endif
#endif
