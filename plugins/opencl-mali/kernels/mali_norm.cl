// SPDX-License-Identifier: Apache-2.0
// Normalization of one row by one work-group of 64: four elements per item, sums in float by the device's own collective.
#if !defined(__opencl_c_work_group_collective_functions) && !(__OPENCL_C_VERSION__ >= 200 && __OPENCL_C_VERSION__ < 300)
#error "the device has no work-group collectives"
#endif

/* Elements i .. i+3; `none` from D on. */
#define FOUR(T, p, i, none)                                                                                            \
  ((i) + 4 <= D ? LD4(T, p, i)                                                                                         \
                : (float4)(LD(T, p, i), (i) + 1 < D ? LD(T, p, (i) + 1) : (none),                                      \
                           (i) + 2 < D ? LD(T, p, (i) + 2) : (none), (none)))

__kernel void mali_norm(ARG(x), ARG(scale), ARG(bias), ARG(y), int rows, int D, int x_pitch, int y_pitch, int layer,
                        float eps) {
  uint row = get_group_id(0);
  int i0 = 4 * get_local_id(0), step = 4 * get_local_size(0);
  x = AT(T_X, x, x_o + (ulong)row * x_pitch);
  y = AT(T_Y, y, y_o + (ulong)row * y_pitch);
#if T_S
  scale = AT(T_S, scale, scale_o);
#endif
#if T_B
  bias = AT(T_B, bias, bias_o);
#endif
  float mean = 0;
  if (layer) {
    float4 a = 0;
    for (int i = i0; i < D; i += step) a += FOUR(T_X, x, i, 0.0f);
    mean = work_group_reduce_add(a.x + a.y + a.z + a.w) / D;
  }
  float4 a = 0;
  for (int i = i0; i < D; i += step) {
    float4 v = FOUR(T_X, x, i, mean) - mean;
    a += v * v;
  }
  float inv = 1.0f / sqrt(work_group_reduce_add(a.x + a.y + a.z + a.w) / D + eps);
  for (int i = i0; i < D; i += step) {
    float4 v = (FOUR(T_X, x, i, 0.0f) - mean) * inv;
#if T_S
    v *= FOUR(T_S, scale, i, 0.0f);
#endif
#if T_B
    v += FOUR(T_B, bias, i, 0.0f);
#endif
    if (i + 4 <= D) {
      ST4(T_Y, v, y, i);
      continue;
    }
    ST(T_Y, v.x, y, i);
    if (i + 1 < D) ST(T_Y, v.y, y, i + 1);
    if (i + 2 < D) ST(T_Y, v.z, y, i + 2);
  }
}
