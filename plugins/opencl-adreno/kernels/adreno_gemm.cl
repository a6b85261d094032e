// SPDX-License-Identifier: Apache-2.0
// Eight rows and two columns per item. Products are summed in half over STEP values of k (centred weights, so that a sum
// stays near zero) and in float beyond. Rows past M repeat the last one and are not written.
#define ROWS 8
#define STEP 16
#if IMAGE
__constant sampler_t at_texel = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_NONE | CLK_FILTER_NEAREST;
#define W_ARG __read_only image2d_t w, uint w_o
#define TEXEL(col, row) read_imageui(w, at_texel, (int2)((col), (row))).x
#else
#define W_ARG ARG(w)
#define TEXEL(col, row) ((__global const uint *)(w + (ulong)w_o * 128))[(size_t)(row) * (Pn / 2) + (col)]
#endif

half4 gemm_x(__global const half *in, size_t row, int k, int end) {
  in += row + k;
  if (k + 4 <= end) return vload4(0, in);
  return (half4)(k < end ? in[0] : (half)0, k + 1 < end ? in[1] : (half)0, k + 2 < end ? in[2] : (half)0, (half)0);
}

__kernel __attribute__((reqd_work_group_size(16, 4, 1))) void adreno_gemm(ARG(x), W_ARG, ARG(s), ARG(y), int M, int N,
                                                                          int K, int Pn, int x_pitch, int y_pitch) {
  const int col = get_global_id(0), n = 2 * col, m = ROWS * get_global_id(1);
  if (n >= N || m >= M) return;
  __global const half *S = (__global const half *)(s + (ulong)s_o * 128) + 2 * n;
  __global const half *in = (__global const half *)AT(10, x, x_o);
  float2 sum[ROWS];
  for (int i = 0; i < ROWS; i++) sum[i] = 0;
  for (int g = 0; g < K; g += 128) {
    const half4 sc = vload4(0, S + (size_t)(g / 128) * 2 * Pn);
    const half2 c = sc.yw;
    const float2 scale = convert_float2(sc.xz);
    const int end = min(K, g + 128);
    for (int k0 = g; k0 < end; k0 += STEP) {
      half2 a[ROWS];
      for (int i = 0; i < ROWS; i++) a[i] = 0;
      const int stop = min(k0 + STEP, end);
      for (int k = k0; k < stop; k += UNIT) {
        uint u[WORDS];
        for (int i = 0; i < WORDS; i++) u[i] = TEXEL(col, k / UNIT * WORDS + i);
#define TAKE(q)                                                                                                        \
  {                                                                                                                    \
    const half2 w0 = as_half2(HALF(u, 4 * (q))) - c, w1 = as_half2(HALF(u, 4 * (q) + 1)) - c;                          \
    const half2 w2 = as_half2(HALF(u, 4 * (q) + 2)) - c, w3 = as_half2(HALF(u, 4 * (q) + 3)) - c;                      \
    for (int i = 0; i < ROWS; i++) {                                                                                   \
      const half4 v = gemm_x(in, (size_t)min(m + i, M - 1) * x_pitch, k + 4 * (q), end);                               \
      a[i] += v.x * w0;                                                                                                \
      a[i] += v.y * w1;                                                                                                \
      a[i] += v.z * w2;                                                                                                \
      a[i] += v.w * w3;                                                                                                \
    }                                                                                                                  \
  }
        QUADS
      }
      for (int i = 0; i < ROWS; i++) sum[i] += convert_float2(a[i]) * scale;
    }
  }
  __global uchar *out = AT(T_Y, y, y_o);
  for (int i = 0; i < ROWS; i++) {
    if (m + i >= M) return;
    ST(T_Y, sum[i].x, out, (size_t)(m + i) * y_pitch + n);
    if (n + 1 < N) ST(T_Y, sum[i].y, out, (size_t)(m + i) * y_pitch + n + 1);
  }
}
