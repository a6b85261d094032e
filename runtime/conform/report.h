/* SPDX-License-Identifier: Apache-2.0
 *
 * The runner's report in the forms that people and machines read.
 */
#ifndef TENON_CONFORM_REPORT_H
#define TENON_CONFORM_REPORT_H

#include <stdio.h>

#include "runtime/conform/run.h"

/* What the forms say of the subject. replay: the command line without --case and --seed. */
typedef struct tni_cf_about {
  const char *plugin, *level, *replay;
  bool verbose;
} tni_cf_about;

/* Failures with what was found and how to ask again, skips by reason, a line per family, a summary. */
void tni_cf_report_text(const tni_cf_report *r, const tni_cf_about *a, FILE *f);
/* A new object. */
json_t *tni_cf_report_json(const tni_cf_report *r, const tni_cf_about *a);
/* JUnit XML: a suite per family. 0, or errno. */
int tni_cf_report_junit(const tni_cf_report *r, const tni_cf_about *a, const char *file);

#endif
