/* SPDX-License-Identifier: Apache-2.0
 *
 * The cases of the family life that ask engines. Private to the room.
 */
#ifndef TENON_CONFORM_LIFE_ENGINE_H
#define TENON_CONFORM_LIFE_ENGINE_H

#include "runtime/conform/case/case.h"

void tni_cf_life_engine_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);

#endif
