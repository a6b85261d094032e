/* SPDX-License-Identifier: Apache-2.0
 * A shared object that is no plugin. */
__attribute__((visibility("default"))) int tenon_test_not_a_plugin(void);
int tenon_test_not_a_plugin(void) { return 1; }
