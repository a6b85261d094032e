/* SPDX-License-Identifier: Apache-2.0
 *
 * How far two correct computations of attention may be from each other. Any thread; keeps nothing.
 */
#ifndef TENON_ORACLE_REFERENCE_ATTEND_H
#define TENON_ORACLE_REFERENCE_ATTEND_H

#include <stdint.h>

/* score: the largest sum of |scale q k| over a head's elements; terms: how many roundings of it add up. added: the
 * largest magnitude of what is added to scores and hides no key; v: of a value. T: keys. u: rounding of an element,
 * 2^-24 for f32; tiny: what is lost where a result is denormal. */
typedef struct tni_attend_given {
  double score, terms, added, v;
  int64_t T;
  double u, tiny;
} tni_attend_given;

/* For each element of the result (docs/conformance-numbers.md derives it). */
double tni_reference_attend(const tni_attend_given *g);

/* What graph.h (tn_layout) lets who attends over rows of a dtype round: u of each element, step where that is denormal,
 * and terms of the magnitudes of a sum of n of them (float16: up to 32 are added as halves). Of int8 all are 0: its codes
 * have a step of their own. */
typedef struct tni_kept_rounding {
  double u, step, terms;
} tni_kept_rounding;
tni_kept_rounding tni_kept_rounding_of(uint32_t dtype, int64_t n);
/* Over rows of int8: a code of a row whose largest magnitude is `most`, half a step and what float32 adds to it. */
double tni_kept_half_step(double most);

#endif
