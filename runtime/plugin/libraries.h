/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether shared libraries are there, without loading them: in the plugin's folder, where the system's loader looks
 * (LD_LIBRARY_PATH and its own folders), or in its cache file. Where the C library does not tell, every name counts as
 * there: the loader decides later.
 */
#ifndef TENON_PLUGIN_LIBRARIES_H
#define TENON_PLUGIN_LIBRARIES_H

#include <stdbool.h>

/* names: one, or some joined by '|', of which one must be there. folder may be NULL. */
bool tni_library_is_there(const char *names, const char *folder);

#endif
