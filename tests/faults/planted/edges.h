/* SPDX-License-Identifier: Apache-2.0
 *
 * edges.c: wrongs about large numbers, structs of other versions, and what fails. All of it does nothing for other wrongs.
 */
#ifndef TENON_TESTS_FAULTS_PLANTED_EDGES_H
#define TENON_TESTS_FAULTS_PLANTED_EDGES_H

#include <stdbool.h>

#include "tests/faults/planted/plants.h"

/* What lower says of s instead of the real one; TN_OK: nothing. */
tn_status edges_lower(const tn_subgraph *s);
/* After the real measure. */
void edges_measure(const tn_program_info *info, tn_id task, const tn_dims *dims, tn_measure *out);
/* After the real run: rows of y, [M,N]. */
void edges_rows(float *y, int64_t M, int64_t N);
/* Where a view lies. */
uint64_t edges_offset(const tn_view *v);
/* Replaces create and map of an open device, and functions of a format, whose real ones `real` has. */
void edges_plant(tn_device *d);
void edges_format(tn_format *f, const tn_format *real);
/* eval of the host that the real plugin gets. */
void edges_host(tn_host *h);
/* Whether the entry refuses this host. */
bool edges_refuses(const tn_negotiate *n);

#endif
