// SPDX-License-Identifier: Apache-2.0
__kernel void rotary(ARG(x), ARG(cos_), ARG(sin_), ARG(pos), ARG(y), int B, int S, int H, int D, int R, int interleaved,
                     int xb, int xs, int xh, int yb, int ys, int yh, int cb, int cs, int pos_rows) {
  const int d = get_global_id(0), h = get_global_id(1), i = get_global_id(2), b = i / S, s = i % S;
  if (d >= D || h >= H || b >= B) return;
  __global const uchar *in = AT(T_X, x, x_o);
  const size_t at = (size_t)b * xb + (size_t)s * xs + (size_t)h * xh;
  float v = LD(T_X, in, at + d);
  if (d < 2 * R) {
    const int pair = interleaved ? d / 2 : d % R, second = interleaved ? d & 1 : d >= R;
    const int other = interleaved ? d ^ 1 : second ? d - R : d + R;
    size_t row = (size_t)b * cb + (size_t)s * cs;
#if T_P
    const long p = LD(T_P, AT(T_P, pos, pos_o), (size_t)b * S + s);
    row = (size_t)clamp(p, (long)0, (long)(pos_rows - 1)) * cs;
#endif
    const float c = LD(T_C, AT(T_C, cos_, cos__o), row + pair), t = LD(T_S, AT(T_S, sin_, sin__o), row + pair);
    const float o = LD(T_X, in, at + other);
    v = second ? o * t + v * c : v * c - o * t;
  }
  ST(T_Y, v, AT(T_Y, y, y_o), (size_t)b * yb + (size_t)s * ys + (size_t)h * yh + d);
}
