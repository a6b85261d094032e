/* SPDX-License-Identifier: Apache-2.0
 *
 * Stop strings in a stream of text. Text that may be the beginning of a stop string is held back until that is decided;
 * the stop string itself never comes out. Of several, the one that is complete first counts (then the longest), however
 * the text is cut into pieces. One thread at a time.
 */
#ifndef TENON_LLM_STOP_H
#define TENON_LLM_STOP_H

#include <stdbool.h>

#include "runtime/base/base.h"

typedef struct tni_stop tni_stop;

/* Strings are copied. At most 256, each 1..65536 bytes: else TN_E_INVALID naming stop[i]. n 0: everything passes. */
TN_MUST_CHECK tn_status tni_stop_create(const char *const *strings, size_t n, tni_stop **out, tn_error *err);
void tni_stop_destroy(tni_stop *s);
/* *out (until the next call) is text that is sure. *hit: a stop string was found; what follows it is dropped, further
 * pushes give nothing. */
TN_MUST_CHECK tn_status tni_stop_push(tni_stop *s, const char *text, size_t n, const char **out, size_t *len, bool *hit,
                                      tn_error *err);
/* The stream is over: gives what is held back. */
void tni_stop_finish(tni_stop *s, const char **out, size_t *len);

#endif
