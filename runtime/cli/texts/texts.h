/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/cli/texts: texts from a file (eval, calibrate, quantize). FILE.json is a list, FILE.jsonl has a value on
 * each line, any other file is one text. A value is a string, an object with "text", or a conversation: a list of messages, or an
 * object with "messages". The model's chat template makes its text.
 */
#ifndef TENON_CLI_TEXTS_H
#define TENON_CLI_TEXTS_H

#include <tenon/tenon.h>

/* One text: index of count, n bytes. A status other than TN_OK stops. */
typedef tn_status (*cli_text_fn)(void *user, size_t index, size_t count, const char *text, size_t n);

/* Calls fn with every text of the n bytes read from path. lm: whose template is taken; NULL: conversations are refused. Ctrl-C
 * stops with TN_E_CANCELLED. */
tn_status cli_texts_each(const tn_lm *lm, const char *path, const char *text, size_t n, cli_text_fn fn, void *user,
                         tn_error *err);
/* Nonzero: a value is a conversation. */
int cli_texts_chats(const char *path, const char *text, size_t n);
/* Ids of a text with BOS in front (the tokenizer's own, else the model's). malloc'd. */
tn_status cli_text_encode(const tn_lm *lm, const char *text, size_t n, int32_t **ids, size_t *n_ids, tn_error *err);

#endif
