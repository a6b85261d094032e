/* SPDX-License-Identifier: Apache-2.0
 *
 * The plainest quantizer of as many bits as a format has: what the format may lose is measured by what that one loses.
 * docs/conformance-numbers.md states it. Private to the room.
 */
#ifndef TENON_CONFORM_NUMBERS_PLAIN_H
#define TENON_CONFORM_NUMBERS_PLAIN_H

#include <stdbool.h>
#include <tenon/plugin.h>

/* Levels around zero, times a scale that a group's largest weight gives. */
typedef struct tni_cn_plain {
  double n_uniform;  /* that many, side by side at one distance; 0: the levels below */
  double level[256]; /* ascending */
  uint32_t n;
  double reach;      /* the largest of them that has its like on the other side of zero, or lies beyond that */
  bool powers;       /* scales are powers of two */
} tni_cn_plain;

/* Of a format's bits alone: as many levels as they have, less one, around zero, and 3 at least. */
tni_cn_plain tni_cn_plain_of_bits(uint32_t bits);
/* Of its levels, where they are fixed and known: those that its grid states for these params (one weight a code), or
 * those of OCP's microscaling formats where the numerics say that scales are powers of two (TN_DT_F8E8M0), which no grid
 * can state. Else of its bits. */
tni_cn_plain tni_cn_plain_of(const tn_format *f, const int64_t *params, uint32_t n, const tn_numerics *num);

/* What it may be off by at most, of a group's largest. */
double tni_cn_plain_half(const tni_cn_plain *p);
/* w as it gives it, in a group whose largest magnitude is top. */
double tni_cn_plain_round(const tni_cn_plain *p, double w, double top);

#endif
