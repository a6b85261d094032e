/* SPDX-License-Identifier: Apache-2.0
 *
 * ahead.c: wrongs about compiled blobs, and packing that ends late. All of it does nothing for other wrongs.
 */
#ifndef TENON_TESTS_FAULTS_PLANTED_AHEAD_H
#define TENON_TESTS_FAULTS_PLANTED_AHEAD_H

#include "tests/faults/planted/plants.h"

/* What get_extension gives in place of the real table. */
const void *ahead_extension(const tn_host *h, const char *name, const void *theirs);
/* Within bind; what results are multiplied by because of it. */
void ahead_bind(const tn_host *h);
float ahead_gain(void);
/* Replaces functions of a format, whose real ones `real` has. */
void ahead_format(tn_format *f, const tn_format *real);

#endif
