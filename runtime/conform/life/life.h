/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of conform/life: the families that ask how a plugin behaves over its life.
 */
#ifndef TENON_CONFORM_LIFE_LIFE_H
#define TENON_CONFORM_LIFE_LIFE_H

#include "runtime/conform/case/case.h"

void tni_cf_life_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cf_honesty_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
/* Parts of memory and honesty, which these families add themselves: exact.c, refusals.c, reasons.c. */
void tni_cf_memory_operator_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx); /* operators.c */
void tni_cf_memory_exact_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cf_memory_shared_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx); /* shared.c */
void tni_cf_memory_refusal_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cf_honesty_reason_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cf_memory_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cf_levels_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
/* A case that `tenon verify --each-node` saved. */
void tni_cf_replay_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);

#endif
