/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/cpu/cost.h"

static const double bytes_per_ns = 20, int8_macs_per_ns = 100, f32_macs_per_ns = 20, fork_ns = 1000;

double tni_clt_cost_packed(double rows, double N, double K, double weight_bytes) {
  double move = weight_bytes / bytes_per_ns, compute = rows * N * K / int8_macs_per_ns;
  return fork_ns + (move > compute ? move : compute);
}

double tni_clt_cost_float(double macs) { return fork_ns + macs / f32_macs_per_ns; }
