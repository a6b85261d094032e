/* SPDX-License-Identifier: Apache-2.0
 *
 * formats.c: wrongs of weight formats, and formats of other kinds. The real ones are changed in place.
 */
#ifndef TENON_TESTS_FAULTS_PLANTED_FORMATS_H
#define TENON_TESTS_FAULTS_PLANTED_FORMATS_H

#include "tests/faults/planted/plants.h"

void formats_plant(const tn_format *const *list, uint32_t n);
/* As they were. */
void formats_restore(void);

#endif
