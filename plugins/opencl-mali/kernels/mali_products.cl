// SPDX-License-Identifier: Apache-2.0
// Four columns of e0m (plugins/common/formats/e0m.h): a uint holds two neighbouring columns, so three 32-bit operations give two
// weights as halves between 1 and 2. FP16 is 1 or 0.
#if FP16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half real;
typedef half4 real4;
#define TO_FLOAT4(v) convert_float4(v)
#define X4(x, i) vload4(0, (__global const half *)(x) + (i))
#define X1(x, i) (((__global const half *)(x))[i])
/* Columns n .. n+3 of value i; u: words of two uints, four columns. */
#define VALUES(u, i) values_of(HALF(u, i))
real4 values_of(uint2 h) { return (real4)(as_half2(h.x), as_half2(h.y)); }
#else
typedef float real;
typedef float4 real4;
#define TO_FLOAT4(v) (v)
#define X4(x, i) vload_half4(0, (__global const half *)(x) + (i))
#define X1(x, i) vload_half(i, (__global const half *)(x))
/* Half is storage only: the same value, 1 + code / 2^BITS, from integers. */
#define VALUES(u, i) values_of(CODE(u, i))
real4 values_of(uint2 f) {
  return 1.0f + 0.0009765625f * convert_float4((uint4)(f.x & 0xffffu, f.x >> 16, f.y & 0xffffu, f.y >> 16));
}
#endif

#define STEP 16 /* k that are summed in `real` before they go to float */

/* W[row][n .. n+3]. */
#define W4(w, row, Pn, n) vload2(0, (__global const uint *)((__global const ushort *)(w) + (size_t)(row) * (Pn) + (n)))

typedef struct scales {
  float4 s;
  real4 c;
} scales;

/* {s, c} of columns n .. n+3 in group g. */
static scales scales_of(__global const uchar *s, uint g, uint Pn, uint n) {
  scales r;
#if FP16
  half8 h = vload8(0, (__global const half *)s + 2 * ((size_t)g * Pn + n));
  r.s = convert_float4(h.even);
  r.c = h.odd;
#else
  float8 h = vload_half8(0, (__global const half *)s + 2 * ((size_t)g * Pn + n));
  r.s = h.even;
  r.c = h.odd;
#endif
  return r;
}

/* x[k .. k+3], zeros from K on. */
static real4 x_of(__global const uchar *x, int k, int K) {
  if (k + 4 <= K) return X4(x, k);
  real4 v = 0;
  if (k < K) v.x = X1(x, k);
  if (k + 1 < K) v.y = X1(x, k + 1);
  if (k + 2 < K) v.z = X1(x, k + 2);
  return v;
}

#if ROWS == 1
// One row of x times four columns per item. SLICES 2: lanes 8 to 15 of each 16 take every other step of 16 k, so that a
// wave reads whole lines of 64 bytes in two rows of W; the halves meet by a shuffle. No local memory.
#if SLICES > 1
#ifdef cl_khr_subgroup_shuffle
#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable
#endif
#ifdef cl_intel_required_subgroup_size
__attribute__((intel_reqd_sub_group_size(16)))
#endif
#endif
__kernel void mali_gemv(ARG(x), ARG(w), ARG(s), ARG(y), int M, int N, int K, int Pn, int x_pitch, int y_pitch) {
#if SLICES > 1
  uint item = get_group_id(0) * get_local_size(0) + get_sub_group_id() * get_max_sub_group_size() + get_sub_group_local_id();
  uint n = 4 * ((item & 7) | (item >> 4 << 3)), slice = (item >> 3) & 1;
#else
  uint n = 4 * get_global_id(0), slice = 0;
#endif
  int m = get_global_id(1);
  bool mine = n < (uint)N;
  if (!mine) n = 0; /* all lanes stay for the shuffle */
  x = AT(T_X, x, x_o + (ulong)m * x_pitch);
  w += (size_t)w_o * 128;
  s += (size_t)s_o * 128;
  float4 sum = 0;
  scales g = scales_of(s, 0, Pn, n);
  for (int k0 = slice * STEP; k0 < K; k0 += SLICES * STEP) {
    if ((k0 & 127) < SLICES * STEP) g = scales_of(s, k0 >> 7, Pn, n);
    real4 part = 0;
    for (int k = k0; k < k0 + STEP; k += UNIT) {
      uint2 u[WORDS];
      for (int i = 0; i < WORDS; i++) u[i] = W4(w, k / UNIT * WORDS + i, Pn, n);
#define TAKE(q)                                                                                                        \
  {                                                                                                                    \
    real4 v = x_of(x, k + 4 * (q), K);                                                                                 \
    part += v.x * (VALUES(u, 4 * (q)) - g.c);                                                                          \
    part += v.y * (VALUES(u, 4 * (q) + 1) - g.c);                                                                      \
    part += v.z * (VALUES(u, 4 * (q) + 2) - g.c);                                                                      \
    part += v.w * (VALUES(u, 4 * (q) + 3) - g.c);                                                                      \
  }
      QUADS
    }
    sum += TO_FLOAT4(part) * g.s;
  }
#if SLICES > 1
  sum.x += sub_group_shuffle_xor(sum.x, 8u);
  sum.y += sub_group_shuffle_xor(sum.y, 8u);
  sum.z += sub_group_shuffle_xor(sum.z, 8u);
  sum.w += sub_group_shuffle_xor(sum.w, 8u);
#endif
  if (!mine || slice) return;
  y = AT(T_Y, y, y_o + (ulong)m * y_pitch);
  if (n + 4 <= (uint)N) {
    ST4(T_Y, sum, y, n);
    return;
  }
  ST(T_Y, sum.x, y, n);
  if (n + 1 < (uint)N) ST(T_Y, sum.y, y, n + 1);
  if (n + 2 < (uint)N) ST(T_Y, sum.z, y, n + 2);
}
#else
// ROWS rows of x times four columns per item, in registers: no local memory. IMAGE 1: W is read as an image over its
// buffer, a texel of R32UI being two columns.
#if IMAGE
#define W_AT(row)                                                                                                      \
  (uint2)(read_imageui(w, (int2)((int)n >> 1, row)).x, read_imageui(w, (int2)(((int)n >> 1) + 1, row)).x)
#define WEIGHTS __read_only image2d_t w, uint w_o
#else
#define W_AT(row) W4(w, row, Pn, n)
#define WEIGHTS ARG(w)
#endif
__kernel void mali_gemm(ARG(x), WEIGHTS, ARG(s), ARG(y), int M, int N, int K, int Pn, int x_pitch, int y_pitch) {
  uint n = 4 * get_global_id(0);
  int m = ROWS * get_global_id(1);
  if (n >= (uint)N || m >= M) return;
#if !IMAGE
  w += (size_t)w_o * 128;
#endif
  s += (size_t)s_o * 128;
  __global const uchar *row[ROWS];
  float4 sum[ROWS];
  __attribute__((opencl_unroll_hint(ROWS))) for (int r = 0; r < ROWS; r++) {
    row[r] = AT(T_X, x, x_o + (ulong)min(m + r, M - 1) * x_pitch);
    sum[r] = 0;
  }
  for (int k0 = 0; k0 < K; k0 += STEP) {
    scales g = scales_of(s, k0 >> 7, Pn, n);
    real4 part[ROWS];
    __attribute__((opencl_unroll_hint(ROWS))) for (int r = 0; r < ROWS; r++) part[r] = 0;
    for (int k = k0; k < k0 + STEP; k += UNIT) {
      uint2 u[WORDS];
      for (int i = 0; i < WORDS; i++) u[i] = W_AT(k / UNIT * WORDS + i);
#define TAKE(q)                                                                                                        \
  {                                                                                                                    \
    real4 w0 = VALUES(u, 4 * (q)) - g.c, w1 = VALUES(u, 4 * (q) + 1) - g.c;                                            \
    real4 w2 = VALUES(u, 4 * (q) + 2) - g.c, w3 = VALUES(u, 4 * (q) + 3) - g.c;                                        \
    __attribute__((opencl_unroll_hint(ROWS))) for (int r = 0; r < ROWS; r++) {                                         \
      real4 v = x_of(row[r], k + 4 * (q), K);                                                                          \
      part[r] += v.x * w0 + v.y * w1 + v.z * w2 + v.w * w3;                                                            \
    }                                                                                                                  \
  }
      QUADS
    }
    __attribute__((opencl_unroll_hint(ROWS))) for (int r = 0; r < ROWS; r++) sum[r] += TO_FLOAT4(part[r]) * g.s;
  }
  for (int r = 0; r < ROWS && m + r < M; r++) {
    __global uchar *to = AT(T_Y, y, y_o + (ulong)(m + r) * y_pitch);
    if (n + 4 <= (uint)N) {
      ST4(T_Y, sum[r], to, n);
      continue;
    }
    ST(T_Y, sum[r].x, to, n);
    if (n + 1 < (uint)N) ST(T_Y, sum[r].y, to, n + 1);
    if (n + 2 < (uint)N) ST(T_Y, sum[r].z, to, n + 2);
  }
}
#endif
