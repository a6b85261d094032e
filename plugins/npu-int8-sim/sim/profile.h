/* SPDX-License-Identifier: Apache-2.0
 *
 * What things cost on a simulated NPU, as named profiles. Pure arithmetic, nothing is owned, any thread.
 *
 * One matrix engine: a graph takes launch + max(weights / bandwidth, multiplications / rate). The CPU beside it is two
 * constants. Times are rounded to whole nanoseconds, half up. Every constant says where it comes from in profile.c;
 * none of them was measured by us on a device, and all times are of the simulated device's own clock, never of a wall.
 */
#ifndef TENON_NPUSIM_PROFILE_H
#define TENON_NPUSIM_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct npusim_profile {
  const char *name;
  int64_t launch_ns;     /* one execution of a graph, the engine being awake */
  int64_t wake_ns;       /* more, after the queue was idle for longer than poll_limit_ns */
  int64_t poll_limit_ns; /* so long polling keeps the engine awake */
  double weight_Bps;     /* weights streaming into the matrix engine */
  double macs_ps;        /* int8 multiplications and additions */
  double prepare_ns_per_weight;
  double cpu_ns_per_mac, cpu_ns_per_byte;
  double cpu_int8_macs_ps; /* int8 products on the CPU beside it, for placement */
  bool float_attention;
  double att_macs_ps, att_exp_ps; /* of float attention on the NPU; 0: it has none */
  int64_t att_exp_macs;           /* an exponential on the CPU, in multiplications */
  uint64_t window_bytes;          /* addressable at once */
  uint32_t tile, align;           /* rows, columns and depth of a tile; bytes that addresses are multiples of */
} npusim_profile;

/* NULL for an unknown name. */
const npusim_profile *npusim_profile_find(const char *name);
/* i-th profile, NULL past the last. */
const npusim_profile *npusim_profile_at(uint32_t i);

/* A product y[M,N] = x[M,K] w[N,K]. */
typedef struct npusim_shape {
  int64_t M, N, K;
} npusim_shape;

/* One execution of a graph of n products, M of each rounded up to whole tiles. */
int64_t npusim_graph_ns(const npusim_profile *p, const npusim_shape *s, uint32_t n);
/* Preparing it, once. */
int64_t npusim_prepare_ns(const npusim_profile *p, const npusim_shape *s, uint32_t n);
int64_t npusim_cpu_ns(const npusim_profile *p, double macs, double bytes);
/* Attention of M queries over T keys: q columns of queries, kv of keys, softmax of `heads` rows each. */
int64_t npusim_attention_ns(const npusim_profile *p, int64_t M, int64_t T, int64_t q, int64_t kv, int64_t heads);

#endif
