/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/families.h"

void tni_cf_life_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) { (void)l, (void)add, (void)ctx; }
