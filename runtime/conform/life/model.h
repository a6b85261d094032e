/* SPDX-License-Identifier: Apache-2.0
 *
 * The real host with this plugin and the built-in device, in checked mode: `--model M` in the family honesty, and
 * `--replay DIR`, a case that `tenon verify --each-node` saved.
 */
#ifndef TENON_CONFORM_LIFE_MODEL_H
#define TENON_CONFORM_LIFE_MODEL_H

#include <tenon/tenon.h>

#include "runtime/conform/case/case.h"

/* honesty/model: nothing where no model was named. */
void tni_cf_model_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);

/* fn with a runtime of this plugin and the host; what keeps it from opening is a failure of the case. */
void tni_cf_with_runtime(tni_cf *cf, void (*fn)(tni_cf *cf, tn_runtime *rt));

/* What a session that captures has found so far: a task of the plugin that left the bound of the declared numerics is a
 * finding. each: a note for every task, not only for the worst. False: no task of the plugin has run. */
bool tni_cf_judge_session(tni_cf *cf, tn_session *s, bool each);

#endif
