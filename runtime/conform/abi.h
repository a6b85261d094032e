/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the family abi.
 */
#ifndef TENON_CONFORM_ABI_H
#define TENON_CONFORM_ABI_H

#include "runtime/conform/families.h"

void tni_cf_abi_file_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);  /* abi_file.c */
void tni_cf_abi_entry_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx); /* abi_entry.c */
void tni_cf_abi_calls_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx); /* abi_calls.c */

#endif
