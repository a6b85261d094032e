/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/cli/texts: texts from a file: one text, or a .json list of strings (eval, calibrate, quantize).
 */
#ifndef TENON_CLI_TEXTS_H
#define TENON_CLI_TEXTS_H

#include <tenon/tenon.h>

/* One text: index of count, n bytes. A status other than TN_OK stops. */
typedef tn_status (*cli_text_fn)(void *user, size_t index, size_t count, const char *text, size_t n);

/* Calls fn with every text of the n bytes read from path. Ctrl-C stops with TN_E_CANCELLED. */
tn_status cli_texts_each(const char *path, const char *text, size_t n, cli_text_fn fn, void *user, tn_error *err);
/* Ids of a text with BOS in front (the tokenizer's own, else the model's). malloc'd. */
tn_status cli_text_encode(const tn_lm *lm, const char *text, size_t n, int32_t **ids, size_t *n_ids, tn_error *err);

#endif
