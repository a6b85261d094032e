/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared objects through libltdl. dynlib.c is the only file that knows libltdl.
 *
 * libltdl is process-wide and not thread-safe: calls are serialised by one static mutex, init and exit are balanced per
 * open library. Our own loader opens absolute paths with RTLD_NOW|RTLD_LOCAL and keeps dlerror's text; files that it
 * refuses never reach libltdl's stock loader, which would bind them lazily and answer "file not found" to everything.
 * Closing gives libltdl's handle back but never unmaps the code: a plugin's threads or atexit handlers may still run.
 */
#ifndef TENON_PLUGIN_DYNLIB_H
#define TENON_PLUGIN_DYNLIB_H

#include "runtime/base/base.h"

typedef struct tni_dynlib tni_dynlib;

/* path is absolute. TN_E_UNAVAILABLE with the loader's own words: missing library, undefined symbol, no ELF file. */
TN_MUST_CHECK tn_status tni_dynlib_open(const char *path, tni_dynlib **out, tn_error *err);
/* Address of an exported symbol, or NULL. */
void *tni_dynlib_symbol(tni_dynlib *lib, const char *name);
void tni_dynlib_close(tni_dynlib *lib);

#endif
