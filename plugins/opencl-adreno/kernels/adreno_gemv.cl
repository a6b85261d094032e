// SPDX-License-Identifier: Apache-2.0
// Two columns per item; WAVES waves of a group take alternating groups of K and are summed through local memory. Weights
// come through the texture cache (IMAGE) or from the buffer. A texel is a word of two columns: of each value of k it gives two
// halves by AND and OR (exponent bits in front of the fraction), minus the group's c, exactly.
#define LANES 64
#define WAVES 4
#if IMAGE
__constant sampler_t at_texel = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_NONE | CLK_FILTER_NEAREST;
#define W_ARG __read_only image2d_t w, uint w_o
#define TEXEL(col, row) read_imageui(w, at_texel, (int2)((col), (row))).x
#else
#define W_ARG ARG(w)
#define TEXEL(col, row) ((__global const uint *)(w + (ulong)w_o * 128))[(size_t)(row) * (Pn / 2) + (col)]
#endif

float4 gemv_x(__global const uchar *in, size_t row, int k, int end) {
  if (k + 4 <= end) return LD4(T_X, in, row + k);
  return (float4)(k < end ? LD(T_X, in, row + k) : 0.0f, k + 1 < end ? LD(T_X, in, row + k + 1) : 0.0f,
                  k + 2 < end ? LD(T_X, in, row + k + 2) : 0.0f, 0.0f);
}

__kernel __attribute__((reqd_work_group_size(LANES, WAVES, 1))) void adreno_gemv(ARG(x), W_ARG, ARG(s), ARG(y), int M, int N,
                                                                                  int K, int Pn, int x_pitch, int y_pitch) {
  __local float2 part[WAVES - 1][LANES];
  const int l = get_local_id(0), wave = get_local_id(1), col = get_global_id(0), n = 2 * col, m = get_group_id(2);
  __global const half *S = (__global const half *)(s + (ulong)s_o * 128) + 2 * n;
  __global const uchar *in = AT(T_X, x, x_o);
  const size_t row = (size_t)m * x_pitch;
  float2 sum = 0;
  for (int g = wave * 128; n < N && g < K; g += WAVES * 128) {
    const float4 sc = vload_half4(0, S + (size_t)(g / 128) * 2 * Pn);
    const int end = min(K, g + 128);
    float2 a = 0;
#if FP16
    const half2 c = convert_half2((float2)(sc.y, sc.w));
#else
    const float2 c = (float2)(1.0f - sc.y, 1.0f - sc.w);
#endif
    for (int k = g; k < end; k += UNIT) {
      uint u[WORDS];
      for (int i = 0; i < WORDS; i++) u[i] = TEXEL(col, k / UNIT * WORDS + i);
#if FP16
#define VALUES(i) convert_float2(as_half2(HALF(u, i)) - c)
#else
#define VALUES(i) (convert_float2((uint2)(CODE(u, i) & 0xffffu, CODE(u, i) >> 16)) * 0.0009765625f + c)
#endif
#define TAKE(q)                                                                                                        \
  {                                                                                                                    \
    const float4 v = gemv_x(in, row, k + 4 * (q), end);                                                                \
    a += v.x * VALUES(4 * (q));                                                                                        \
    a += v.y * VALUES(4 * (q) + 1);                                                                                    \
    a += v.z * VALUES(4 * (q) + 2);                                                                                    \
    a += v.w * VALUES(4 * (q) + 3);                                                                                    \
  }
      QUADS
    }
    sum += a * sc.xz;
  }
  if (wave > 0) part[wave - 1][l] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (wave > 0 || n >= N) return;
  for (int i = 0; i < WAVES - 1; i++) sum += part[i][l];
  __global uchar *out = AT(T_Y, y, y_o);
  ST(T_Y, sum.x, out, (size_t)m * y_pitch + n);
  if (n + 1 < N) ST(T_Y, sum.y, out, (size_t)m * y_pitch + n + 1);
}
