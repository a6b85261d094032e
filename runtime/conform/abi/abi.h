/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of conform/abi: the family abi, what a file, a manifest, an entry and its calls must be.
 */
#ifndef TENON_CONFORM_ABI_ABI_H
#define TENON_CONFORM_ABI_ABI_H

#include "runtime/conform/case/case.h"

void tni_cf_abi_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);

#endif
