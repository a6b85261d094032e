/* SPDX-License-Identifier: Apache-2.0
 *
 * Filling a caller's tn_error. A call of the API empties it (tni_error_begin); inside that call the first failure wins:
 * a later tni_fail on the same error only returns its status. A tn_long_error gets the whole message, a tn_error what
 * fits.
 */
#ifndef TENON_BASE_ERROR_H
#define TENON_BASE_ERROR_H

#include <stdarg.h>

#include <tenon/types.h>

/* What reads the struct before it writes: gcc warns where nobody has filled a variable that is handed over. */
#ifdef __clang__
#define TNI_FILLED(n)
#else
#define TNI_FILLED(n) __attribute__((access(read_write, n)))
#endif

/* Empties e (NULL is fine) and stamps its header. */
void tni_error_init(tn_error *e);
void tni_long_error_init(tn_long_error *e);
/* What each call of the API does first: no error is there any more. What the caller's struct is stays. NULL is fine. */
void tni_error_begin(tn_error *e) TNI_FILLED(1);
/* The whole message where e has room for it, else what fitted; "" of NULL. */
const char *tni_error_text(const tn_error *e);
/* *to (NULL is fine) says what *from says; what kind of struct it is stays. */
void tni_error_give(tn_error *to, const tn_error *from);
/* The same of a failure st, unless *to already holds an error. Returns st. */
tn_status tni_error_pass(tn_error *to, tn_status st, const tn_error *from);
/* Sets code, where ("" or NULL: none) and message, unless e already holds an error. Returns st. e may be NULL. */
tn_status tni_fail(tn_error *e, tn_status st, const char *where, const char *fmt, ...) TN_PRINTF(4, 5) TNI_FILLED(1);
tn_status tni_vfail(tn_error *e, tn_status st, const char *where, const char *fmt, va_list ap)
    TN_PRINTF(4, 0) TNI_FILLED(1);
/* "out of memory" with where. */
tn_status tni_fail_memory(tn_error *e, const char *where) TNI_FILLED(1);
/* What an errno of open, mmap and the like is: TN_E_NO_MEMORY where memory or descriptors ran out, else other. */
tn_status tni_errno_status(int e, tn_status other);
/* Puts "PREFIX: " before the message that is there. */
void tni_error_prefix(tn_error *e, const char *fmt, ...) TN_PRINTF(2, 3);
/* Puts more behind the message that is there. */
void tni_error_append(tn_error *e, const char *fmt, ...) TN_PRINTF(2, 3);
/* "INVALID", "UNSUPPORTED", ...; an unknown number gives "INTERNAL". */
const char *tni_status_name(tn_status st);

/* *mine, a growing struct of `bytes` as this code knows it, becomes what *theirs (NULL: nothing), which another version
 * may have made, has of it; the rest is zero. TN_E_INVALID naming `what`: the size in its header is none. */
TN_MUST_CHECK tn_status tni_take(void *mine, size_t bytes, const void *theirs, const char *what, tn_error *err);

#endif
