/* SPDX-License-Identifier: Apache-2.0
 *
 * The families of cases, one file (or group of files) each, and the table of them. A family names its cases; what each
 * asks, and why, is docs/conformance.md.
 */
#ifndef TENON_CONFORM_FAMILIES_H
#define TENON_CONFORM_FAMILIES_H

#include "runtime/conform/conform.h"

void tni_cf_abi_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cf_life_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cf_life_engine_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx); /* life_engine.c: part of it */
void tni_cf_honesty_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cf_memory_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cf_numbers_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
/* replay.c: a case that `tenon verify --each-node` saved. */
void tni_cf_replay_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cf_levels_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);

/* All cases of all families, in the order in which they are shown. */
void tni_cf_all_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);

#endif
