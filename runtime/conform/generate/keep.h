/* SPDX-License-Identifier: Apache-2.0
 *
 * A recipe's graph in sessions that keep its caches in place. Private to the room.
 */
#ifndef TENON_CONFORM_GENERATE_KEEP_H
#define TENON_CONFORM_GENERATE_KEEP_H

#include "runtime/conform/generate/io.h"

/* Steps of many lengths in three sessions: one of `judged`, which captures, and two of `plain` in turns. They append to
 * caches and rings, go back, and share what another session holds. Findings are cf's. */
void tni_gen_keep(tni_cf *cf, gen_case *c, tn_model *judged, tn_model *plain);

#endif
