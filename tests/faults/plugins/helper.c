/* SPDX-License-Identifier: Apache-2.0
 * The library that missing.c needs and that is not where the test puts missing.so. */
__attribute__((visibility("default"))) int tenon_test_helper(void);
int tenon_test_helper(void) { return 1; }
