/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands behind tni_cf in a worker: findings go out at once, one JSON object a line, so that a crash loses none.
 *   {"fail": TEXT} {"skip": TEXT} {"note": TEXT} ... {"end": "pass"|"fail"|"skip"}
 * Without the last line the process was ended by what it tested.
 */
#ifndef TENON_CONFORM_CASE_H
#define TENON_CONFORM_CASE_H

#include <stdio.h>

#include "runtime/base/process.h"
#include "runtime/conform/conform.h"

/* Descriptor that a worker reports on: standard output and error are the plugin's. */
enum { TNI_CF_REPORT_FD = TNI_SPAWN_CHANNEL };
/* Lines of one kind that a case may write; the rest are counted. */
enum { TNI_CF_MAX_LINES = 12 };

typedef struct tni_cf_sink {
  FILE *out;
  unsigned n_lines;
} tni_cf_sink;

/* Runs c and writes its last line. seed: of the command line. */
void tni_cf_run_case(const tni_cf_case *c, const tni_cf_listing *l, uint64_t seed, FILE *out);

#endif
