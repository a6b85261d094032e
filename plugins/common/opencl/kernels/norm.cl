// SPDX-License-Identifier: Apache-2.0
// One group per row.
#ifndef NORM_GROUP
#define NORM_GROUP 64
#endif
float norm_sum(float v, __local float *part) {
  const int l = get_local_id(0);
  part[l] = v;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int n = NORM_GROUP / 2; n > 0; n /= 2) {
    if (l < n) part[l] += part[l + n];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const float s = part[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return s;
}

__kernel __attribute__((reqd_work_group_size(NORM_GROUP, 1, 1))) void norm(ARG(x), ARG(scale), ARG(bias), ARG(y),
                                                                            int rows, int D, int x_pitch, int y_pitch,
                                                                            int layer, float eps) {
  __local float part[NORM_GROUP];
  const int r = get_group_id(0), l = get_local_id(0);
  __global const uchar *in = AT(T_X, x, x_o);
  const size_t at = (size_t)r * x_pitch;
  float mean = 0, sum = 0;
  if (layer) {
    for (int d = l; d < D; d += NORM_GROUP) sum += LD(T_X, in, at + d);
    mean = norm_sum(sum, part) / (float)D;
  }
  sum = 0;
  for (int d = l; d < D; d += NORM_GROUP) {
    const float v = LD(T_X, in, at + d) - mean;
    sum += v * v;
  }
  const float inv = 1.0f / sqrt(norm_sum(sum, part) / (float)D + eps);
  for (int d = l; d < D; d += NORM_GROUP) {
    float v = (LD(T_X, in, at + d) - mean) * inv;
#if T_S
    v *= LD(T_S, AT(T_S, scale, scale_o), d);
#endif
#if T_B
    v += LD(T_B, AT(T_B, bias, bias_o), d);
#endif
    ST(T_Y, v, AT(T_Y, y, y_o), (size_t)r * y_pitch + d);
  }
}
