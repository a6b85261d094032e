/* SPDX-License-Identifier: Apache-2.0
 *
 * Fills the listing: loads the plugin, looks at its table, opens a device, asks for claims of all generated graphs.
 */
#ifndef TENON_CONFORM_SURVEY_H
#define TENON_CONFORM_SURVEY_H

#include "runtime/conform/case/case.h"

/* What cannot be done is l->why; the rest is left zero. */
void tni_cf_survey(tni_cf_listing *l);

#endif
