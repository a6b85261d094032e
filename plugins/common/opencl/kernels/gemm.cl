// SPDX-License-Identifier: Apache-2.0
// Four rows and two columns per item; rows beyond M repeat the last one and are not written.
float4 gemm_x(__global const uchar *in, size_t row, int k, int end) {
  if (k + 4 <= end) return LD4(T_X, in, row + k);
  return (float4)(k < end ? LD(T_X, in, row + k) : 0.0f, k + 1 < end ? LD(T_X, in, row + k + 1) : 0.0f,
                  k + 2 < end ? LD(T_X, in, row + k + 2) : 0.0f, 0.0f);
}

__kernel void gemm(ARG(x), ARG(w), ARG(s), ARG(y), int M, int N, int K, int Pn, int x_pitch, int y_pitch) {
  const int n = 2 * get_global_id(0), m = 4 * get_global_id(1);
  if (n >= N || m >= M) return;
  __global const uint *W = (__global const uint *)(w + (ulong)w_o * 128) + n / 2;
  __global const half *S = (__global const half *)(s + (ulong)s_o * 128) + 2 * n;
  __global const uchar *in = AT(T_X, x, x_o);
  const size_t step = Pn / 2;
  const size_t r0 = (size_t)m * x_pitch, r1 = (size_t)min(m + 1, M - 1) * x_pitch, r2 = (size_t)min(m + 2, M - 1) * x_pitch,
               r3 = (size_t)min(m + 3, M - 1) * x_pitch;
  float4 y0 = 0, y1 = 0;
  for (int g = 0; g < K; g += 128) {
    const float4 sc = vload_half4(0, S + (size_t)(g / 128) * 2 * Pn);
    const float c0 = 1.0f - sc.y, c1 = 1.0f - sc.w;
    const int end = min(K, g + 128);
    float4 a0 = 0, a1 = 0;
    for (int k = g; k < end; k += UNIT) {
      uint u[WORDS];
      for (int i = 0; i < WORDS; i++) u[i] = W[(size_t)(k / UNIT * WORDS + i) * step];
#define ROW(r, q, part)                                                                                                \
  v = gemm_x(in, r, k + 4 * (q), end);                                                                                 \
  a0.part += dot(v, h0);                                                                                               \
  a1.part += dot(v, h1);
#define TAKE(q)                                                                                                        \
  {                                                                                                                    \
    const float4 h0 = COLUMN0(u, q) + c0, h1 = COLUMN1(u, q) + c1;                                                     \
    float4 v;                                                                                                          \
    ROW(r0, q, x) ROW(r1, q, y) ROW(r2, q, z) ROW(r3, q, w)                                                            \
  }
      QUADS
    }
    y0 += a0 * sc.x;
    y1 += a1 * sc.z;
  }
  __global uchar *out = AT(T_Y, y, y_o);
  const float r[8] = {y0.x, y1.x, y0.y, y1.y, y0.z, y1.z, y0.w, y1.w};
  for (int i = 0; i < 4; i++) {
    if (m + i >= M) return;
    ST(T_Y, r[2 * i], out, (size_t)(m + i) * y_pitch + n);
    if (n + 1 < N) ST(T_Y, r[2 * i + 1], out, (size_t)(m + i) * y_pitch + n + 1);
  }
}
