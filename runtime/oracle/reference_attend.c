/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oracle/reference_attend.h"

#include <tenon/types.h>

enum { MOST_HALVES = 32 };
enum { MORE_TERMS = 244 }; /* of the exponential, the sum's rescaling and the division */

/* A score is off by ds, so its weight by 2 ds of itself, and the mixture by that times the largest value. */
double tni_reference_attend(const tni_attend_given *g) {
  const double ds = g->terms * g->u * g->score + 4 * g->u * (g->score + g->added);
  return (2 * ds + ((double)g->T + MORE_TERMS) * g->u) * g->v + 4 * g->tiny;
}

tni_kept_rounding tni_kept_rounding_of(uint32_t dtype, int64_t n) {
  if (dtype == TN_DT_I8) return (tni_kept_rounding){0};
  if (dtype == TN_DT_F16)
    return (tni_kept_rounding){0x1p-11, 0x1p-14, (double)(n < MOST_HALVES ? n : MOST_HALVES) * 0x1p-11};
  return (tni_kept_rounding){.u = dtype == TN_DT_BF16 ? 0x1p-8 : 0x1p-24, .step = 0x1p-126};
}

double tni_kept_half_step(double most) { return (0.5 + 0x1p-12) * most / 127; }
