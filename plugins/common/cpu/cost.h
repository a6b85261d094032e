/* SPDX-License-Identifier: Apache-2.0
 *
 * Rough costs, ns: the larger of moving the weights and of the arithmetic, plus a fork. Only their order matters.
 */
#ifndef TENON_COMMON_CPU_COST_H
#define TENON_COMMON_CPU_COST_H

double tni_clt_cost_packed(double rows, double N, double K, double weight_bytes);
double tni_clt_cost_float(double macs);

#endif
