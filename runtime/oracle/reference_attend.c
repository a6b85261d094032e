/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oracle/reference_attend.h"

enum { MORE_TERMS = 244 }; /* of the exponential, the sum's rescaling and the division */

/* A score is off by ds, so its weight by 2 ds of itself, and the mixture by that times the largest value. */
double tni_reference_attend(const tni_attend_given *g) {
  const double ds = g->terms * g->u * g->score + 4 * g->u * (g->score + g->added);
  return (2 * ds + ((double)g->T + MORE_TERMS) * g->u) * g->v + 4 * g->tiny;
}
