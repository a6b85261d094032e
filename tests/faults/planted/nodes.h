/* SPDX-License-Identifier: Apache-2.0
 *
 * nodes.c: which tasks a wrong is about, where that is said by the attributes and inputs of their nodes.
 */
#ifndef TENON_TESTS_FAULTS_PLANTED_NODES_H
#define TENON_TESTS_FAULTS_PLANTED_NODES_H

#include <stdbool.h>

#include "tests/faults/planted/plants.h"

/* A program was lowered from s. */
void nodes_note(const tn_host *h, const tn_subgraph *s, const tn_program *p, const tn_program_info *info);
/* The wrong is about this task. */
bool nodes_wrong(const tn_program *p, tn_id task);

#endif
