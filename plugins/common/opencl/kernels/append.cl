// SPDX-License-Identifier: Apache-2.0
__kernel void append(ARG(x), ARG(pos), ARG(cache), int B, int S, int H, int D, int xb, int xs, int xh, int cb, int cs,
                     int ch, int rows) {
  const int d = get_global_id(0), h = get_global_id(1), i = get_global_id(2), b = i / S, s = i % S;
  if (d >= D || h >= H || b >= B) return;
  const long at = ((__global const long *)AT(7, pos, pos_o))[b] + s;
  if (at < 0 || at >= rows) return;
  const float v = LD(T_X, AT(T_X, x, x_o), (size_t)b * xb + (size_t)s * xs + (size_t)h * xh + d);
  ST(T_Y, v, AT(T_Y, cache, cache_o), (size_t)b * cb + (size_t)at * cs + (size_t)h * ch + d);
}
