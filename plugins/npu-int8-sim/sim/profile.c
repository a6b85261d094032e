/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/npu-int8-sim/sim/profile.h"

#include <stddef.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)

/* Sources.
 * qnn-2024: a phone of 2023/24 behind a static-graph runtime, fitted to a paper on prefill with int8 NPUs (its table of
 * end-to-end times of four models and one throughput).
 *   launch 1.5 ms: fit, plausible from 0.85 to 2.6; parts of it seen in public threads of ggml ports: a call 0.16 ms,
 *     local memory 0.84, power-on 1.12 ms. wake 1.15 ms: difference between cold and warm there; polling avoids it for
 *     up to 10 ms. 4.9 TOPS: slope of that table, within 20 %; data sheets say 34 to 73. 26 GB/s: vector loads with
 *     prefetch on a Snapdragon 8 Gen 3, in such a thread. CPU: the paper's "half of the time" for float work, 222
 *     GFLOP/s in attention, 8 GB/s effective; int8 products: 142 tokens a second with 1.21 G weights, by MNN there.
 * hmx-2026: what threads of 2025/26 about Hexagon matrix units say.
 *   launch 35 us: a call through dspqueue, 11 to 35 us. 10 TMAC/s: one fp16 product 2048 x 6144 x 742 in 891 us; whole
 *     models reach a quarter of it; the int8 rate is not public and taken as equal. 50 GB/s: DMA, assumed. CPU: 2.2 and
 *     3 times the older one, within 50 %.
 * hmx-2026-fa: the same with float attention on the NPU, at half the rate and 8e9 exponentials a second: an assumption.
 * All: prepare 6 ns per weight: a 2-billion model's 11.9 s, one 2048 x 2048 layer in 22.7 ms; other reports are twice
 *   that. Window: 3.2 GiB, the default limit of a ggml port on devices that address 4 GiB. Tiles of 32: the matrix
 * unit. Alignment 128: its vectors. */
static const npusim_profile npu_profiles[] = {
    {.name = "qnn-2024",
     .launch_ns = 1500000,
     .wake_ns = 1150000,
     .poll_limit_ns = 10000000,
     .weight_Bps = 26e9,
     .macs_ps = 2.45e12,
     .prepare_ns_per_weight = 6,
     .cpu_ns_per_mac = 0.009,
     .cpu_ns_per_byte = 0.12,
     .cpu_int8_macs_ps = 1.7e11,
     .att_exp_macs = 16,
     .window_bytes = 16 * GIB / 5,
     .tile = 32,
     .align = 128},
    {.name = "hmx-2026",
     .launch_ns = 35000,
     .poll_limit_ns = 10000000,
     .weight_Bps = 50e9,
     .macs_ps = 1e13,
     .prepare_ns_per_weight = 6,
     .cpu_ns_per_mac = 0.004,
     .cpu_ns_per_byte = 0.04,
     .cpu_int8_macs_ps = 5e11,
     .att_macs_ps = 5e12,
     .att_exp_ps = 8e9,
     .att_exp_macs = 16,
     .window_bytes = 16 * GIB / 5,
     .tile = 32,
     .align = 128},
    {.name = "hmx-2026-fa",
     .launch_ns = 35000,
     .poll_limit_ns = 10000000,
     .weight_Bps = 50e9,
     .macs_ps = 1e13,
     .prepare_ns_per_weight = 6,
     .cpu_ns_per_mac = 0.004,
     .cpu_ns_per_byte = 0.04,
     .cpu_int8_macs_ps = 5e11,
     .float_attention = true,
     .att_macs_ps = 5e12,
     .att_exp_ps = 8e9,
     .att_exp_macs = 16,
     .window_bytes = 16 * GIB / 5,
     .tile = 32,
     .align = 128},
};

const npusim_profile *npusim_profile_at(uint32_t i) {
  return i < sizeof npu_profiles / sizeof *npu_profiles ? &npu_profiles[i] : NULL;
}

const npusim_profile *npusim_profile_find(const char *name) {
  for (uint32_t i = 0; name && npusim_profile_at(i); i++)
    if (!strcmp(npu_profiles[i].name, name)) return &npu_profiles[i];
  return NULL;
}

static int64_t rounded_ns(double ns) { return (int64_t)(ns + 0.5); }
static double larger_ns(double a, double b) { return a > b ? a : b; }

int64_t npusim_graph_ns(const npusim_profile *p, const npusim_shape *s, uint32_t n) {
  double weights = 0, macs = 0;
  for (uint32_t i = 0; i < n; i++) {
    double w = (double)s[i].N * (double)s[i].K;
    weights += w;
    macs += (double)((s[i].M + p->tile - 1) / p->tile * p->tile) * w;
  }
  return p->launch_ns + rounded_ns(1e9 * larger_ns(weights / p->weight_Bps, macs / p->macs_ps));
}

int64_t npusim_prepare_ns(const npusim_profile *p, const npusim_shape *s, uint32_t n) {
  double weights = 0;
  for (uint32_t i = 0; i < n; i++) weights += (double)s[i].N * (double)s[i].K;
  return rounded_ns(p->prepare_ns_per_weight * weights);
}

int64_t npusim_cpu_ns(const npusim_profile *p, double macs, double bytes) {
  return rounded_ns(macs * p->cpu_ns_per_mac + bytes * p->cpu_ns_per_byte);
}

/* Queries, keys and values are rotated and appended on the way: 4 M (q + 2 kv) bytes in, 9 M q out with the scale of
 * what follows, 4 M kv appended, 4 T kv of the cache read. */
int64_t npusim_attention_ns(const npusim_profile *p, int64_t M, int64_t T, int64_t q, int64_t kv, int64_t heads) {
  double m = (double)M, t = (double)T, macs = 2 * m * t * (double)q, exps = m * t * (double)heads;
  double bytes = 4 * m * (double)(q + 2 * kv) + 9 * m * (double)q + 4 * (m + t) * (double)kv;
  if (!p->float_attention) return npusim_cpu_ns(p, macs + (double)p->att_exp_macs * exps, bytes);
  return p->launch_ns +
         rounded_ns(1e9 * (larger_ns(macs / p->att_macs_ps, exps / p->att_exp_ps) + bytes / p->weight_Bps));
}
