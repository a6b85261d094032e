/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of conform/numbers: the family numbers, whether results lie within the bounds of what is declared.
 */
#ifndef TENON_CONFORM_NUMBERS_NUMBERS_H
#define TENON_CONFORM_NUMBERS_NUMBERS_H

#include "runtime/conform/case/case.h"

void tni_cf_numbers_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);

#endif
