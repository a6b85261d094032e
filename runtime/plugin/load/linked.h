/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins that are linked into the program (tn_static_plugin). A program made by `tenon bundle --static` brings a table
 * of its own; everywhere else it is empty. The table stands in a file of its own (linked_none.c), so that a linker that
 * finds another one first takes nothing from the archive.
 */
#ifndef TENON_PLUGIN_LOAD_LINKED_H
#define TENON_PLUGIN_LOAD_LINKED_H

#include <tenon/plugin.h>

/* Ended by NULL. */
extern const tn_static_plugin *const tni_linked_plugins[];

/* By name, or NULL. */
const tn_static_plugin *tni_linked_find(const char *name);

#endif
