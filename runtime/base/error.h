/* SPDX-License-Identifier: Apache-2.0
 *
 * Filling a caller's tn_error. The first failure wins: a later tni_fail on the same error only returns its status.
 */
#ifndef TENON_BASE_ERROR_H
#define TENON_BASE_ERROR_H

#include <stdarg.h>

#include <tenon/types.h>

/* Empties e (NULL is fine) and stamps its header. */
void tni_error_init(tn_error *e);
/* Sets code, where ("" or NULL: none) and message, unless e already holds an error. Returns st. e may be NULL. */
tn_status tni_fail(tn_error *e, tn_status st, const char *where, const char *fmt, ...) TN_PRINTF(4, 5);
tn_status tni_vfail(tn_error *e, tn_status st, const char *where, const char *fmt, va_list ap) TN_PRINTF(4, 0);
/* "out of memory" with where. */
tn_status tni_fail_memory(tn_error *e, const char *where);
/* Puts "PREFIX: " before the message that is there. */
void tni_error_prefix(tn_error *e, const char *fmt, ...) TN_PRINTF(2, 3);
/* "INVALID", "UNSUPPORTED", ...; an unknown number gives "INTERNAL". */
const char *tni_status_name(tn_status st);

/* *mine, a growing struct of `bytes` as this code knows it, becomes what *theirs (NULL: nothing), which another version
 * may have made, has of it; the rest is zero. TN_E_INVALID naming `what`: the size in its header is none. */
TN_MUST_CHECK tn_status tni_take(void *mine, size_t bytes, const void *theirs, const char *what, tn_error *err);

#endif
