/* SPDX-License-Identifier: Apache-2.0
 *
 * A JUnit file, written as the cases come.
 */
#ifndef TENON_TESTS_CONFORMANCE_JUNIT_H
#define TENON_TESTS_CONFORMANCE_JUNIT_H

#include <stdio.h>

typedef enum junit_result { JUNIT_PASSED, JUNIT_SKIPPED, JUNIT_FAILED } junit_result;

/* NULL where path is NULL or cannot be written; the functions below take NULL. */
FILE *junit_open(const char *path, const char *suite);
/* why: NULL for JUNIT_PASSED. */
void junit_case(FILE *f, const char *kind, const char *name, double seconds, junit_result r, const char *why);
/* False: the file is not whole. */
int junit_close(FILE *f);

#endif
