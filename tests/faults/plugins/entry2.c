/* SPDX-License-Identifier: Apache-2.0
 * A plugin of the next major version: another symbol. */
__attribute__((visibility("default"))) int tenon_plugin_entry_v2(void);
int tenon_plugin_entry_v2(void) { return 0; }
