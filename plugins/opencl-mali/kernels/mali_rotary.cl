// SPDX-License-Identifier: Apache-2.0
// Rotary embedding, one item per pair and head; elements behind the rotated ones are copied by the same items.
__kernel void mali_rotary(ARG(x), ARG(cosines), ARG(sines), ARG(pos), ARG(y), int B, int S, int H, int D, int R,
                          int interleaved, int xb, int xs, int xh, int yb, int ys, int yh, int cb, int cs, int pos_rows) {
  int i = get_global_id(0), h = get_global_id(1), row = get_global_id(2);
  int half_d = (D + 1) / 2;
  if (i >= half_d || h >= H || row >= B * S) return;
  int b = row / S, s = row % S;
  x = AT(T_X, x, x_o + (ulong)b * xb + (ulong)s * xs + (ulong)h * xh);
  y = AT(T_Y, y, y_o + (ulong)b * yb + (ulong)s * ys + (ulong)h * yh);
#if T_P
  long p = LD(T_P, AT(T_P, pos, pos_o), (size_t)b * S + s);
  size_t at = (size_t)clamp(p, (long)0, (long)(pos_rows - 1)) * cs;
#else
  size_t at = (size_t)b * cb + (size_t)s * cs;
#endif
  if (i < R) {
    int a = interleaved ? 2 * i : i, z = interleaved ? 2 * i + 1 : i + R;
    float c = LD(T_C, AT(T_C, cosines, cosines_o), at + i), t = LD(T_S, AT(T_S, sines, sines_o), at + i);
    float u = LD(T_X, x, a), v = LD(T_X, x, z);
    ST(T_Y, u * c - v * t, y, a);
    ST(T_Y, u * t + v * c, y, z);
  }
  for (int k = 2 * R + i; k < D; k += half_d) ST(T_Y, LD(T_X, x, k), y, k);
}
