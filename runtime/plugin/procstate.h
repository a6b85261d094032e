/* SPDX-License-Identifier: Apache-2.0
 *
 * What of its process a plugin must leave as it found it, and cannot be held to by a return value: floating-point mode,
 * blocked signals, handlers of its own, working folder, umask, locale, affinity, limits, timers, and the descriptors
 * that were open before. (Not the environment: drivers that a plugin loads write into it.) After shutdown also: no
 * descriptor, thread or child process more than before.
 *
 * Taken and compared in the probe and in the vendor kit, where the process is the plugin's alone: it costs about 100 us
 * (directories in /proc), and in a host with threads of its own the answer would be about them too.
 */
#ifndef TENON_PLUGIN_PROCSTATE_H
#define TENON_PLUGIN_PROCSTATE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tni_procstate tni_procstate;

/* NULL without memory. */
tni_procstate *tni_procstate_take(void);
void tni_procstate_destroy(tni_procstate *s);
/* Whether something differs that must not; text is the first such thing, as "leaves signal 10 blocked". path: the
 * plugin's file; a handler counts where its code lies in it (drivers install handlers of their own: docs/security.md).
 * ended: `now` was taken after shutdown, and nothing of the plugin was said to stay. */
bool tni_procstate_differs(const tni_procstate *before, const tni_procstate *now, const char *path, bool ended,
                           char *text, size_t size);

#endif
