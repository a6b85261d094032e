// SPDX-License-Identifier: Apache-2.0
// Attention of one query and head by 16 lanes, a wave of Mali: each lane holds every sixteenth group of four elements of
// q and of the result, keys come one row after another, the softmax runs along in float. No local memory.
#define LANES 16
#define GROUPS 4 /* of four elements per lane: D and DV up to 256 */
#define LOW -1e30f /* no infinity, so that relaxed arithmetic may be used */

#ifdef cl_intel_required_subgroup_size
__attribute__((intel_reqd_sub_group_size(16)))
#endif
__kernel void mali_attention(ARG(q), ARG(k), ARG(v), ARG(mask), ARG(valid), ARG(y), int B, int S, int H, int KVH, int D, int DV,
                             int T, int qb, int qs, int qh, int kb, int ks, int kh, int vb, int vs, int vh, int mb, int mh,
                             int ms, int mask_len, int yb, int ys, int yh, int causal, int left, int right, int past,
                             float scale, float cap) {
  int lane = get_sub_group_local_id(), h = get_global_id(1), row = get_global_id(2);
  int b = row / S, s = row % S, kvh = h / (H / KVH);
  q = AT(T_Q, q, q_o + (ulong)b * qb + (ulong)s * qs + (ulong)h * qh);
  y = AT(T_Y, y, y_o + (ulong)b * yb + (ulong)s * ys + (ulong)h * yh);
  k = AT(T_K, k, k_o + (ulong)b * kb + (ulong)kvh * kh);
  v = AT(T_V, v, v_o + (ulong)b * vb + (ulong)kvh * vh);
  int end = T, at = past + s;
#if T_VALID
  end = (int)clamp(((__global const long *)valid)[valid_o + b], (long)0, (long)T);
  at = end - S + s;
#endif
  int begin = left >= 0 ? max(0, at - left) : 0;
  if (causal) end = min(end, at + 1);
  if (right >= 0) end = min(end, at + right + 1);
  float4 x[GROUPS], sum[GROUPS];
  for (int j = 0; j < GROUPS; j++) {
    int e = 4 * (lane + LANES * j);
    x[j] = e < D ? LD4(T_Q, q, e) * scale : (float4)0;
    sum[j] = 0;
  }
  float most = LOW, total = 0;
  for (int t = begin; t < end; t++) {
#if T_M
    size_t m_at = (size_t)b * mb + (size_t)h * mh + (size_t)s * ms + t;
    float add = 0;
    if (t >= mask_len) break;
#if T_M == 9
    if (!LD(T_M, AT(T_M, mask, mask_o), m_at)) continue;
#else
    add = LD(T_M, AT(T_M, mask, mask_o), m_at);
    if (!(add > LOW)) continue;
#endif
#endif
    float dot4 = 0;
    for (int j = 0; j < GROUPS; j++) {
      int e = 4 * (lane + LANES * j);
      if (e < D) dot4 += dot(x[j], LD4(T_K, k, (size_t)t * ks + e));
    }
    float score = sub_group_reduce_add(dot4);
    if (cap > 0) score = cap * tanh(score / cap);
#if T_M
    score += add;
#endif
    float top = fmax(most, score), keep = exp(most - top), p = exp(score - top);
    most = top;
    total = total * keep + p;
    for (int j = 0; j < GROUPS; j++) {
      int e = 4 * (lane + LANES * j);
      if (e < DV) sum[j] = sum[j] * keep + p * LD4(T_V, v, (size_t)t * vs + e);
    }
  }
  float inv = total > 0 ? 1.0f / total : 0.0f;
  for (int j = 0; j < GROUPS; j++) {
    int e = 4 * (lane + LANES * j);
    if (e < DV) ST4(T_Y, sum[j] * inv, y, e);
  }
}
