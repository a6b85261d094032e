/* SPDX-License-Identifier: Apache-2.0
 *
 * `--model M` in the family honesty: a language model in the real host.
 */
#ifndef TENON_CONFORM_LIFE_MODEL_H
#define TENON_CONFORM_LIFE_MODEL_H

#include "runtime/conform/case/case.h"

/* honesty/model: nothing where no model was named. */
void tni_cf_model_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);

#endif
