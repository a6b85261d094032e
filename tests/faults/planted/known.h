/* SPDX-License-Identifier: Apache-2.0
 *
 * What planted.c knows of arguments.
 */
#ifndef TENON_TESTS_FAULTS_PLANTED_KNOWN_H
#define TENON_TESTS_FAULTS_PLANTED_KNOWN_H

#include <stdbool.h>

#include "tests/faults/planted/plants.h"

/* The first input of a task's arguments, as the device has it. False: it has none. */
bool known_input(const tn_args *a, tn_view *out);

#endif
