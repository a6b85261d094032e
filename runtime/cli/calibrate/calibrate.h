/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/cli/calibrate: a text run twice through a model that records, and the file that comes of it. The
 * first pass finds maxima and percentiles, the second counts what lies above. What was recorded so far lies in
 * OUT.partial, and a call that was stopped goes on there.
 */
#ifndef TENON_CLI_CALIBRATE_H
#define TENON_CLI_CALIBRATE_H

#include <stdbool.h>
#include <tenon/lm.h>

typedef struct cli_calibration {
  tn_lm *lm; /* of a model that was loaded with TN_MODEL_CALIBRATE, and has not run */
  tn_chat *chat;
  const char *out, *file; /* file: of the text */
  const char *text;
  size_t n, piece; /* piece: tokens that run at once, BOS included */
  int max_tokens;  /* of each text; 0: all */
  void (*note)(const char *fmt, ...) TN_PRINTF(1, 2); /* a line on stderr */
} cli_calibration;

/* *tokens: of a pass. TN_E_CANCELLED after Ctrl-C: the same call goes on. *unsaved: out or OUT.partial cannot be written. */
tn_status cli_calibrate(const cli_calibration *o, uint64_t *tokens, bool *unsaved, tn_error *err);

#endif
