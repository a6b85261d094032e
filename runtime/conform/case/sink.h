/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the findings of a case go. Private to the room.
 */
#ifndef TENON_CONFORM_CASE_SINK_H
#define TENON_CONFORM_CASE_SINK_H

#include <stdio.h>

enum { TNI_CF_SAYS_FAIL, TNI_CF_SAYS_SKIP, TNI_CF_SAYS_NOTE, TNI_CF_SAYS };

typedef struct tni_cf_sink {
  FILE *out;
  unsigned n_lines[TNI_CF_SAYS]; /* of each kind */
} tni_cf_sink;

#endif
