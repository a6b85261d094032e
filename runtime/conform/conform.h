/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of conform: all cases of all families. Who writes cases starts at case/case.h; what each asks, and why, is
 * docs/conformance.md.
 */
#ifndef TENON_CONFORM_CONFORM_H
#define TENON_CONFORM_CONFORM_H

#include "runtime/conform/case/case.h"

/* In the order in which they are shown. */
void tni_cf_all_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);

#endif
