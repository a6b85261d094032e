/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the findings of a case go. Private to the room.
 */
#ifndef TENON_CONFORM_CASE_SINK_H
#define TENON_CONFORM_CASE_SINK_H

#include <stdio.h>

typedef struct tni_cf_sink {
  FILE *out;
  unsigned n_lines;
} tni_cf_sink;

#endif
