// SPDX-License-Identifier: Apache-2.0
// New rows into a cache, four elements per item.
__kernel void mali_append(ARG(x), ARG(pos), ARG(cache), int B, int S, int H, int D, int xb, int xs, int xh, int cb, int cs,
                          int ch, int rows) {
  int i = 4 * get_global_id(0), h = get_global_id(1), row = get_global_id(2);
  if (i >= D || h >= H || row >= B * S) return;
  int b = row / S, s = row % S;
  long at = ((__global const long *)pos)[pos_o + b] + s;
  if (at < 0 || at >= rows) return;
  float4 v = LD4(T_X, AT(T_X, x, x_o), (size_t)b * xb + (size_t)s * xs + (size_t)h * xh + i);
  ST4(T_Y, v, AT(T_Y, cache, cache_o), (size_t)b * cb + (size_t)at * cs + (size_t)h * ch + i);
}
