/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENON_TESTS_PROFILE_TEST_H
#define TENON_TESTS_PROFILE_TEST_H

#include <CUnit/Basic.h>

/* Adds the table of bad profiles to a suite of its own. false: CUnit failed. */
int add_bad_suite(void);

#endif
