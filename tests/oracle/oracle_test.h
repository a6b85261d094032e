/* SPDX-License-Identifier: Apache-2.0
 *
 * Suites of the format reference.
 */
#ifndef TENON_TESTS_ORACLE_H
#define TENON_TESTS_ORACLE_H

void suite_reference(void);
void suite_fused(void);
void suite_attend(void);
void suite_capture(void);

#endif
