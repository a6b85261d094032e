/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of code that may not come back: a plugin's, in this process.
 *
 * A thread of its own does the work while the caller waits and looks whether one call has gone on for too long. A thread
 * that hangs there cannot be ended. It is left to itself, with all that it holds, and should that call ever come back,
 * it goes no further than tni_call_end.
 *
 * What is called in between needs no clock and no lock: two atomic writes each, nothing outside of tni_bounded_do.
 */
#ifndef TENON_BASE_BOUNDED_H
#define TENON_BASE_BOUNDED_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tni_bounded tni_bounded;

/* NULL: no memory or no thread. */
tni_bounded *tni_bounded_create(void);
/* Ends its thread, or leaves it where it hangs. NULL is fine. */
void tni_bounded_destroy(tni_bounded *b);

/* What hangs: the device (or whatever was named) and what was called. */
typedef struct tni_hung {
  const void *whom;
  const char *what;
} tni_hung;

/* fn(arg) on b's thread, or, where b is NULL or this is such a thread already, here. False: one call of a plugin's went
 * on for ns; *out says which. Then arg is the thread's for ever, and b does nothing more. One caller at a time. */
bool tni_bounded_do(tni_bounded *b, void (*fn)(void *arg), void *arg, int64_t ns, tni_hung *out);

/* Around each call into a plugin's code, locks that only such calls hold included. what: a constant text. They do not
 * nest. */
void tni_call_begin(const void *whom, const char *what);
void tni_call_end(void);

#endif
