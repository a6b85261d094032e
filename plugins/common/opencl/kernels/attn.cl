// SPDX-License-Identifier: Apache-2.0
// One group per query and head: 64 keys at a time, each lane one score, then each lane some columns of the values.
// Masked keys have probability 0 without an infinity anywhere, so that relaxed arithmetic may be used.
// No loop is left by some lanes only: Intel's vectorizer was seen to give other results then, from run to run.
#define LANES 64
#define MAX_D 256
#define OUT (MAX_D / LANES)

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void attn(
    ARG(q), ARG(k), ARG(v), ARG(mask), ARG(valid), ARG(y), int B, int S, int H, int KVH, int D, int DV, int T, int qb, int qs,
    int qh, int kb, int ks, int kh, int vb, int vs, int vh, int mb, int mh, int ms, int mask_len, int yb, int ys, int yh,
    int causal, int left, int right, int past, float scale, float cap) {
  __local float lq[MAX_D], p[LANES], top[LANES];
  const int l = get_local_id(0), s = get_group_id(0), h = get_group_id(1), b = get_group_id(2);
  const int kv = h / (H / KVH);
  __global const uchar *K = AT(T_K, k, k_o), *V = AT(T_V, v, v_o);
  const size_t k_at = (size_t)b * kb + (size_t)kv * kh, v_at = (size_t)b * vb + (size_t)kv * vh;
  int end = T, offset = past;
#if T_VALID
  end = (int)clamp(((__global const long *)AT(7, valid, valid_o))[b], (long)0, (long)T);
  offset = end - S;
#endif
  const int at = s + offset;
  int lo = 0, hi = end;
  if (causal) hi = min(hi, at + 1);
  if (right >= 0) hi = min(hi, at + right + 1);
  if (left >= 0) lo = max(lo, at - left);
  for (int d = l; d < D; d += LANES)
    lq[d] = LD(T_Q, AT(T_Q, q, q_o), (size_t)b * qb + (size_t)s * qs + (size_t)h * qh + d) * scale;
  float o[OUT], m = -1e30f, sum = 0;
  for (int i = 0; i < OUT; i++) o[i] = 0;
  for (int t0 = lo; t0 < hi; t0 += LANES) {
    bool seen = t0 + l < hi;
    const int t = seen ? t0 + l : hi - 1;
    float score = -1e30f;
    barrier(CLK_LOCAL_MEM_FENCE);
    {
      const size_t row = k_at + (size_t)t * ks;
      float4 acc = 0;
      int d = 0;
      for (; d + 4 <= D; d += 4) acc += vload4(0, lq + d) * LD4(T_K, K, row + d);
      score = acc.x + acc.y + acc.z + acc.w;
      for (; d < D; d++) score += lq[d] * LD(T_K, K, row + d);
      if (cap > 0) score = tanh(score / cap) * cap;
#if T_M
      const size_t mi = (size_t)b * mb + (size_t)h * mh + (size_t)s * ms + t;
      if (t >= mask_len) {
        seen = false;
      } else {
#if T_M == 9
        seen = seen && LD(T_M, AT(T_M, mask, mask_o), mi) != 0;
#else
        const float bias = LD(T_M, AT(T_M, mask, mask_o), mi);
        seen = seen && bias > -1e30f;
        score += seen ? bias : 0;
#endif
      }
#endif
      if (!seen) score = -1e30f;
    }
    top[l] = score;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int n = LANES / 2; n > 0; n /= 2) {
      if (l < n) top[l] = fmax(top[l], top[l + n]);
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    const float now = fmax(m, top[0]), decay = exp(m - now);
    p[l] = seen ? exp(score - now) : 0.0f;
    m = now;
    barrier(CLK_LOCAL_MEM_FENCE);
    const int count = min(LANES, hi - t0);
    float add = 0;
    for (int j = 0; j < count; j++) add += p[j];
    sum = sum * decay + add;
    for (int i = 0; i < OUT && i * LANES < DV; i++) {
      const int d = min(l + i * LANES, DV - 1);
      float acc = o[i] * decay;
      for (int j = 0; j < count; j++) acc += p[j] * LD(T_V, V, v_at + (size_t)(t0 + j) * vs + d);
      o[i] = acc;
    }
  }
  const float inv = sum > 0 ? 1.0f / sum : 0.0f;
  for (int i = 0; i < OUT; i++) {
    const int d = l + i * LANES;
    if (d < DV) ST(T_Y, o[i] * inv, AT(T_Y, y, y_o), (size_t)b * yb + (size_t)s * ys + (size_t)h * yh + d);
  }
}
