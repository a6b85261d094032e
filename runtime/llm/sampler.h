/* SPDX-License-Identifier: Apache-2.0
 *
 * The next token from logits.
 *
 * Order of application, as in Hugging Face generate() where that has it: repetition penalty over every id seen (a
 * positive logit is divided, a negative one multiplied); frequency and presence penalty over ids counted; amounts of
 * tni_sampler_lower; then temperature; top-k; typical-p (tokens whose surprise is nearest to the expected one, the
 * fewest whose probability within the top-k reaches p); top-p (the fewest most likely tokens whose probability within
 * what is left reaches p, at least one); min-p (tokens at least p times as likely as the best of them). Equal logits
 * are ordered by id, and exactly k pass top-k. Temperature 0 is greedy: the largest logit after the penalties, the
 * lowest id among equals. Mirostat 2 (Basu et al. 2021) comes in the place of all from top-k on: tokens with a surprise
 * of at most mu bits, at least the best; mu begins at 2 tau and loses eta times what the chosen token's surprise among
 * these is above tau.
 *
 * Draws come from PCG32 (O'Neill 2014, XSH RR 64/32): the same seed gives the same numbers everywhere. Nothing is
 * allocated after creation. One thread at a time.
 */
#ifndef TENON_LLM_SAMPLER_H
#define TENON_LLM_SAMPLER_H

#include "runtime/base/base.h"

typedef struct tni_sampler tni_sampler;

typedef struct tni_sampler_params {
  float temperature;    /* >= 0; 0: greedy */
  float top_p;          /* (0, 1]; 1: off */
  float min_p;          /* [0, 1]; 0: off */
  float repeat_penalty; /* > 0; 1: off */
  uint32_t top_k;       /* 0: off */
  uint64_t seed;
  float frequency, presence; /* 0: off */
  float typical_p;           /* (0, 1); 0 and 1: off */
  float mirostat_tau;        /* > 0, bits; 0: off */
  float mirostat_eta;        /* >= 0; 0: 0.1 */
} tni_sampler_params;

/* vocab: logits per call, at least 1. TN_E_INVALID names the parameter. */
TN_MUST_CHECK tn_status tni_sampler_create(size_t vocab, const tni_sampler_params *p, tni_sampler **out, tn_error *err);
void tni_sampler_destroy(tni_sampler *s);
/* The id counts for the repetition penalty from now on; ids outside the vocabulary are passed over. */
void tni_sampler_see(tni_sampler *s, int32_t id);
/* The id was generated: it counts once more for the frequency and presence penalties. */
void tni_sampler_count(tni_sampler *s, int32_t id);
/* The id's next logit, once, is lower by `amount`, of several the largest. */
void tni_sampler_lower(tni_sampler *s, int32_t id, float amount);
/* logits: [vocab]. NaN, or no finite logit at all, is TN_E_INVALID; +infinity wins. */
TN_MUST_CHECK tn_status tni_sampler_pick(tni_sampler *s, const float *logits, int32_t *id, tn_error *err);

#endif
