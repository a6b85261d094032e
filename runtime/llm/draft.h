/* SPDX-License-Identifier: Apache-2.0
 *
 * Guesses of a smaller model beside a conversation (tn_chat_draft, tn_batch_draft).
 */
#ifndef TENON_LLM_DRAFT_H
#define TENON_LLM_DRAFT_H

#include "runtime/llm/lm.h"

/* c guesses with draft from now on; draft NULL or n 0: no more. check: whether its tokens are those of c's model. */
TN_MUST_CHECK tn_status tni_draft_make(tn_chat *c, tn_lm *draft, uint32_t n, bool check, tn_error *err);
/* *near: the draft, which c has, has read all but `most` tokens of c. Where not, it reads so many more. */
TN_MUST_CHECK tn_status tni_draft_near(tn_chat *c, size_t most, bool *near, tn_error *err);
/* The draft reads what it has not seen of c. Nothing where c has none. */
TN_MUST_CHECK tn_status tni_draft_follow(tn_chat *c, tn_error *err);
/* At most `most` ids that the draft finds likely after those of c; *n: how many, 0 without a draft. */
TN_MUST_CHECK tn_status tni_draft_guess(tn_chat *c, size_t most, int32_t *ids, size_t *n, tn_error *err);

#endif
