/* SPDX-License-Identifier: Apache-2.0
 *
 * One recipe through the runtime. Private to the room.
 */
#ifndef TENON_CONFORM_GENERATE_RUN_H
#define TENON_CONFORM_GENERATE_RUN_H

#include "runtime/conform/generate/recipe.h"

/* Loads the recipe's graph twice, once with every task of the plugin judged by the format reference and once as an
 * application does, and runs both: several lengths, two sessions in turns; caches in place too, where it has some.
 * Findings are cf's; a skip: the plugin takes nothing of it. For a process of its own. */
void tni_gen_run(tni_cf *cf, const tni_gen_recipe *g);

#endif
