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

#endif
