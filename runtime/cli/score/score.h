/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/cli/score: how well a model foretells texts, alone or beside another.
 *
 * Perplexity, as the field's scripts compute it: a text begins with BOS (the tokenizer's own, else the model's) and is
 * run in windows of `window` tokens that begin `stride` tokens apart. In each window only tokens that no window before
 * has scored are scored, so every token after the first counts once (with a stride of a window, all but each window's
 * first), with at least window - stride tokens before it. The last `decode` positions of each window are computed one
 * by one, as generating does it (and on the devices of that phase).
 */
#ifndef TENON_CLI_SCORE_SCORE_H
#define TENON_CLI_SCORE_SCORE_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/lm.h>

/* Sums over all tokens that were scored. _other, kl, agree, off: with another model. */
typedef struct cli_score {
  double nll, nll_other, kl, text_means, text_means_other, off; /* off: largest difference of two logits of one row,
                                                                    relative to the row's largest |logit| */
  uint64_t predicted, agree, bytes, texts, windows;
} cli_score;

typedef struct cli_scorer {
  tn_lm *lm;
  tn_chat *chat, *other; /* other: NULL: nothing is compared */
  tn_error *err;
  size_t decode, window, stride, max_tokens; /* max_tokens: of each text; 0: all */
  double *p, *q;                             /* of the scorer, to be freed */
  size_t vocab, most_rows;
  double start; /* when the first window began */
  cli_score s;
} cli_scorer;

/* A cli_text_fn: user is a cli_scorer. Progress goes to a terminal. */
tn_status cli_score_text(void *user, size_t index, size_t count, const char *text, size_t n);

#endif
