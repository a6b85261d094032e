/* SPDX-License-Identifier: Apache-2.0
 *
 * Models whose rotary tables change with the length of the whole text (LongRoPE).
 *
 * Keys that were turned by the tables of short texts are wrong in a long one. A prompt that is fed in several steps has
 * to be turned by the tables of its whole length from its first step on, and a text that grows past the limit has to be
 * run again from its beginning. Only who has the tokens can do both: it says how long the text is, and asks whether
 * what is in the caches serves.
 */
#ifndef TENON_SESSION_LONG_TEXT_H
#define TENON_SESSION_LONG_TEXT_H

#include <stdbool.h>
#include <tenon/tenon.h>

/* The steps from now on are a part of a text of n positions, or more if they go on past it. */
void tni_long_text(tn_session *s, int64_t n);
/* Whether what is in the caches is what a text of n positions has there. */
bool tni_long_serves(const tn_session *s, int64_t n);
/* The longest text that the tables of short ones are for; INT64_MAX: there is no choice. */
int64_t tni_long_limit(const tn_session *s);

/* Of a session that is about to keep its caches: where its model changes tables. */
TN_MUST_CHECK tn_status tni_long_find(tn_session *s, tn_error *err);
/* A step of n positions begins, and has run. Where it takes other tables than what is in the caches, that is said once.
 */
void tni_long_begin(tn_session *s, int64_t n);
void tni_long_ran(tn_session *s);
/* dst's caches begin with positions of src's. */
void tni_long_share(tn_session *dst, const tn_session *src);
/* The caches are what another session saved. */
void tni_long_loaded(tn_session *s);

#endif
