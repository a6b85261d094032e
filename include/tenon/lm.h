/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon/lm.h: messages for language models, beside tenon.h, whose rules on errors, ownership and threads hold here too.
 *
 * A model that was trained on conversations comes with a chat template (docs/chat-templates.md). tn_lm_apply makes text
 * and ids of messages with it, as transformers' apply_chat_template does; tn_chat_rewind and tn_generate_ids then run
 * what a conversation does not hold yet.
 */
#ifndef TENON_LM_H
#define TENON_LM_H

#include <tenon/tenon.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A conversation, as JSON texts. They need live during the call only. */
typedef struct tn_messages {
  tn_hdr h;
  uint32_t flags, reserved; /* TN_MESSAGES_* */
  const char *messages;     /* a list of objects with "role", "content" and what else the template reads */
  const char *tools;        /* a list, as in OpenAI's API; NULL: none */
  const char *variables;    /* an object: more variables of the template ("enable_thinking"); NULL: none */
  const char *name;         /* of several templates; NULL: "tool_use" where there are tools and it is there, else "default" */
  int64_t now;              /* seconds since 1970 that strftime_now tells; 0: the clock's */
} tn_messages;
enum { TN_MESSAGES_PROMPT = 1 /* add_generation_prompt: the text ends where the assistant's answer begins */ };

/* Nonzero: the model's folder has a chat template (chat_template.jinja, chat_template.json, tokenizer_config.json,
 * genai_config.json, additional_chat_templates/). */
TN_API int tn_lm_has_template(const tn_lm *lm);
/* text: n_text bytes, terminated; ids: those of the tokenizer, without its own template of special tokens. Either may be
 * NULL: not wanted. tn_free both. Special tokens count where the template wrote them or has them from bos_token and the
 * like; those that stand inside of messages, tools or variables are text. TN_E_UNAVAILABLE: no template, or none of that
 * name; TN_E_INVALID: no JSON, or the template refuses the messages, with its line; TN_E_LIMIT: it takes too long. Any
 * thread. */
TN_API TN_MUST_CHECK tn_status tn_lm_apply(const tn_lm *lm, const tn_messages *m, char **text, size_t *n_text,
                                           int32_t **ids, size_t *n_ids, tn_error *err);
/* c forgets what differs from ids: *kept tokens stay, those that it has in common with ids from the beginning, less than
 * n of them. Generating from ids + *kept goes on from there. Where a model's state cannot go back (tn_session_truncate)
 * all is forgotten and *kept is 0. */
TN_API TN_MUST_CHECK tn_status tn_chat_rewind(tn_chat *c, const int32_t *ids, size_t n, size_t *kept, tn_error *err);
/* Tokens that c holds. */
TN_API size_t tn_chat_length(const tn_chat *c);

/* --- a conversation twice, and as a file (docs/chat.md) ---------------------------------------------------------- */

/* *out: a conversation of its own that begins with the first n tokens of c (SIZE_MAX: all of them), whose caches are
 * copied. Where they cannot be taken apart there (tn_session_truncate), or the model keeps none, the tokens run again with
 * the next call. c is only read. TN_E_INVALID: c has fewer tokens. TN_E_UNSUPPORTED: an encoder-decoder. */
TN_API TN_MUST_CHECK tn_status tn_chat_fork(tn_chat *c, size_t n, tn_chat **out, tn_error *err);
/* Writes tokens and caches of c as one file; statuses of tn_session_save. TN_E_UNSUPPORTED: the model is an
 * encoder-decoder, or its caches are not kept by sessions (tn_model_has_cache). */
TN_API TN_MUST_CHECK tn_status tn_chat_save(tn_chat *c, const char *path, tn_error *err);
/* c becomes the conversation of the file, and what it had is gone. What follows has the ids that it would have had
 * without the file. TN_E_UNSUPPORTED, and the statuses of tn_session_load, after which c is as it was; empty where a device
 * failed, and where the file is one that tn_session_save wrote for somebody else (TN_E_CORRUPT). */
TN_API TN_MUST_CHECK tn_status tn_chat_load(tn_chat *c, const char *path, tn_error *err);

#ifdef __cplusplus
}
#endif
#endif
