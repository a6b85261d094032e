/* SPDX-License-Identifier: Apache-2.0
 *
 * `--model M` in the family honesty: the real host with this plugin and the built-in device, in checked mode.
 */
#ifndef TENON_CONFORM_MODEL_H
#define TENON_CONFORM_MODEL_H

#include "runtime/conform/conform.h"

/* honesty/model: nothing where no model was named. */
void tni_cf_model_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);

#endif
