/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of conform/generate: the family generated, random legal graphs that the runtime runs with the plugin.
 */
#ifndef TENON_CONFORM_GENERATE_GENERATE_H
#define TENON_CONFORM_GENERATE_GENERATE_H

#include "runtime/conform/case/case.h"

void tni_cf_generated_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);

#endif
