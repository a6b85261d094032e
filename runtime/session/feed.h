/* SPDX-License-Identifier: Apache-2.0
 *
 * What a keeping session feeds to the model's inputs: copies of the caller's numbers for a piece of a step, and inputs
 * over the whole context, [batch, total], of which the caller gives the entries of a step only. Each piece of a prompt
 * that is in flight has a set of its own (tni_fed [n_inputs]); the session's own holds the entries of all positions in
 * the caches, and zeros after them. Not thread-safe.
 */
#ifndef TENON_SESSION_FEED_H
#define TENON_SESSION_FEED_H

#include "runtime/session/keep.h"

uint64_t tni_feed_elem(const tn_tensor *t);
/* The axis of a plain input that has an entry per position of the step; its rank where there is none. */
uint32_t tni_feed_axis(const tn_model *m, uint32_t i);
/* A plain input that has no such axis: what was given holds for later steps. */
bool tni_feed_stays(const tn_model *m, uint32_t i);

/* [n_inputs] on the session's arena; their data is malloc'd. */
TN_MUST_CHECK tn_status tni_feed_make(const tn_session *s, tni_fed **out, tn_error *err);
void tni_feed_release(const tn_model *m, tni_fed *fed);
/* Dims and room of plain inputs for n positions. */
TN_MUST_CHECK tn_status tni_feed_size(const tn_session *s, tni_fed *fed, int64_t n, tn_error *err);
/* s->dims for n positions per sequence at a context of `total`, from the inputs' dims as they would be; s->inputs are
 * fed. */
TN_MUST_CHECK tn_status tni_feed_bind(tn_session *s, tni_fed *fed, int64_t n, int64_t total, int64_t rows, int64_t end,
                                      tn_error *err);
/* Positions [from, from + count) of a step of n into the plain inputs, padded to `length` with the last of them. */
TN_MUST_CHECK tn_status tni_feed_take(const tn_session *s, tni_fed *fed, const tn_tensor *const *in, int64_t n,
                                      int64_t from, int64_t count, int64_t length, tn_error *err);

/* A context input moves its rows to their new distance; entries from the session's length on are 0. */
TN_MUST_CHECK tn_status tni_feed_lay(const tni_keep *k, tni_fed *f, int64_t total, tn_error *err);
/* The entries of positions [from, from + count) of a step of n, after the session's length; in[i] NULL: ones. fed is
 * not the session's own: it gets what that has before them. */
void tni_feed_context(const tn_session *s, tni_fed *fed, const tn_tensor *const *in, int64_t n, int64_t from,
                      int64_t count);
/* Whether the step's entries of an input over the whole context hold a zero. */
bool tni_feed_has_zero(const tn_session *s, const tn_tensor *const *in);
/* Ones for the first n entries of sequence b of an input over the whole context, then zeros. */
void tni_feed_ones(tni_fed *f, int64_t b, int64_t n);
/* The same of all entries that the session holds. */
bool tni_feed_has_gaps(const tn_session *s);
/* Zeros from the session's length on. */
void tni_feed_clear(const tn_session *s);

/* What input i, which has no axis of positions, is from now on. */
TN_MUST_CHECK tn_status tni_feed_give(tn_session *s, uint32_t i, const tn_tensor *t, tn_error *err);
/* dst's entries of inputs over the whole context begin with the first n of src's; both keep, with one batch. */
TN_MUST_CHECK tn_status tni_feed_share(tn_session *dst, const tn_session *src, int64_t n, tn_error *err);

#endif
