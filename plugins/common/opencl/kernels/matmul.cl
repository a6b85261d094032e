// SPDX-License-Identifier: Apache-2.0
__kernel void matmul(ARG(a), ARG(b), ARG(y), int M, int N, int K, int n0, int n1, int ar, int ac, int a0, int a1, int br,
                     int bc, int b0, int b1, int y_pitch) {
  const int n = get_global_id(0), m = get_global_id(1), i = get_global_id(2);
  if (n >= N || m >= M || i >= n0 * n1) return;
  const int i0 = i / n1, i1 = i % n1;
  __global const uchar *A = AT(T_A, a, a_o), *Bm = AT(T_B, b, b_o);
  const size_t at = (size_t)i0 * a0 + (size_t)i1 * a1 + (size_t)m * ar, bt = (size_t)i0 * b0 + (size_t)i1 * b1 + (size_t)n * bc;
  float sum = 0;
  for (int k = 0; k < K; k++) sum += LD(T_A, A, at + (size_t)k * ac) * LD(T_B, Bm, bt + (size_t)k * br);
  ST(T_Y, sum, AT(T_Y, y, y_o), ((size_t)i * M + m) * y_pitch + n);
}
