// SPDX-License-Identifier: Apache-2.0
// Two columns and one row per item, weights from the buffer, sums in float: what every device can do.
float4 gemv_x(__global const uchar *in, size_t row, int k, int end) {
  if (k + 4 <= end) return LD4(T_X, in, row + k);
  return (float4)(k < end ? LD(T_X, in, row + k) : 0.0f, k + 1 < end ? LD(T_X, in, row + k + 1) : 0.0f,
                  k + 2 < end ? LD(T_X, in, row + k + 2) : 0.0f, 0.0f);
}

__kernel void gemv(ARG(x), ARG(w), ARG(s), ARG(y), int M, int N, int K, int Pn, int x_pitch, int y_pitch) {
  const int n = 2 * get_global_id(0), m = get_global_id(1);
  if (n >= N || m >= M) return;
  __global const uint *W = (__global const uint *)(w + (ulong)w_o * 128) + n / 2;
  __global const half *S = (__global const half *)(s + (ulong)s_o * 128) + 2 * n;
  __global const uchar *in = AT(T_X, x, x_o);
  const size_t row = (size_t)m * x_pitch, step = Pn / 2;
  float y0 = 0, y1 = 0;
  for (int g = 0; g < K; g += 128) {
    const float4 sc = vload_half4(0, S + (size_t)(g / 128) * 2 * Pn);
    const float c0 = 1.0f - sc.y, c1 = 1.0f - sc.w;
    const int end = min(K, g + 128);
    float a0 = 0, a1 = 0;
    for (int k = g; k < end; k += UNIT) {
      uint u[WORDS];
      for (int i = 0; i < WORDS; i++) u[i] = W[(size_t)(k / UNIT * WORDS + i) * step];
#define TAKE(q)                                                                                                        \
  {                                                                                                                    \
    const float4 v = gemv_x(in, row, k + 4 * (q), end);                                                                \
    a0 += dot(v, COLUMN0(u, q) + c0);                                                                                  \
    a1 += dot(v, COLUMN1(u, q) + c1);                                                                                  \
  }
      QUADS
    }
    y0 += a0 * sc.x;
    y1 += a1 * sc.z;
  }
  __global uchar *out = AT(T_Y, y, y_o);
  ST(T_Y, y0, out, (size_t)m * y_pitch + n);
  if (n + 1 < N) ST(T_Y, y1, out, (size_t)m * y_pitch + n + 1);
}
