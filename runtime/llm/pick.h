/* SPDX-License-Identifier: Apache-2.0
 *
 * All that stands between logits and the next token (tn_sampler of tenon/lm.h; the order is in docs/sampling.md).
 */
#ifndef TENON_LLM_PICK_H
#define TENON_LLM_PICK_H

#include <tenon/lm.h>

#include "runtime/base/base.h"

/* What tn_sampler_create asks of p, without making anything. */
TN_MUST_CHECK tn_status tni_pick_check(const tn_gen_params *p, tn_error *err);
/* The next token is id, whatever the logits are. */
TN_MUST_CHECK tn_status tni_pick_forced(tn_sampler *s, int32_t id, tn_error *err);

#endif
