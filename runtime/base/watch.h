/* SPDX-License-Identifier: Apache-2.0
 *
 * Mappings of files that others may write to or cut short while they are in use.
 *
 * A page after the end of a file that shrank is SIGBUS. Where the process lets it (tni_watch_guard), a handler puts
 * zeros there instead, within watched mappings only: whoever computes with them goes on, and then looks here before it
 * believes a result. Any thread.
 */
#ifndef TENON_BASE_WATCH_H
#define TENON_BASE_WATCH_H

#include <stdbool.h>

#include "runtime/base/error.h"

/* A watched mapping; it holds a descriptor of its own of the file. */
typedef struct tni_watch tni_watch;

/* Watches [at, at + bytes), a mapping of fd. NULL: errno says why. */
tni_watch *tni_watch_add(const void *at, uint64_t bytes, int fd);
/* Before the mapping goes. NULL is fine. */
void tni_watch_remove(tni_watch *w);

/* What is asked: no page was lost and the size is as it was; the content too, as the time of the last write says; or
 * nothing at all but its names. */
enum { TNI_WATCH_SIZE = 0, TNI_WATCH_CONTENT = 1, TNI_WATCH_ALL = 2 };
/* TN_E_IO with path and what to do, where it is not so. NULL: TN_OK. */
TN_MUST_CHECK tn_status tni_watch_check(const tni_watch *w, const char *path, uint32_t what, tn_error *err);

/* Installs the handler for the process, once; a SIGBUS that is not of a watched mapping goes to the handler that was
 * there. false: the system refuses. */
bool tni_watch_guard(void);

#endif
