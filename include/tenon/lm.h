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
/* Special tokens are left out of the text that a tn_token_fn gets. Those of these texts are not: marks such as
 * "<|channel|>" or "[TOOL_CALLS]", by which one tells apart what a model says. Texts that are no token of it are passed
 * over. For generations of lm that begin later; while none begins. TN_E_INVALID: NULL. */
TN_API TN_MUST_CHECK tn_status tn_lm_marks(tn_lm *lm, const char *const *marks, uint32_t n, tn_error *err);
/* c forgets what differs from ids: *kept tokens stay, those that it has in common with ids from the beginning, less than
 * n of them. Generating from ids + *kept goes on from there. Where a model's state cannot go back (tn_session_truncate)
 * all is forgotten and *kept is 0. */
TN_API TN_MUST_CHECK tn_status tn_chat_rewind(tn_chat *c, const int32_t *ids, size_t n, size_t *kept, tn_error *err);
/* c guesses with a smaller model: each step tries up to n tokens that draft finds most likely after those of c, fewer where
 * it is not sure. Texts are those that c makes without, greedy or sampled with the same seed, as far as the devices
 * compute rows together with the bits of rows alone (docs/batching.md). draft NULL or n 0: no more guesses. The draft has
 * caches of its own, as long as its context; beyond that nothing is guessed. draft may be destroyed before c.
 * TN_E_INVALID: another vocabulary; TN_E_LIMIT: n above TN_DRAFT_MOST; TN_E_UNSUPPORTED: an encoder-decoder, or caches that
 * sessions do not keep (tn_model_has_cache). Not while c generates. */
TN_API TN_MUST_CHECK tn_status tn_chat_draft(tn_chat *c, tn_lm *draft, uint32_t n, tn_error *err);
enum { TN_DRAFT_MOST = 64 };
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

/* --- several conversations at once (docs/batching.md) ------------------------------------------------------------ */

/* Up to `slots` texts that are generated together: each step makes a token of every one that is past its prompt, over
 * weights that are read once. Texts come and go between steps. Each is what tn_generate_ids makes of the same ids and
 * params alone; docs/batching.md says where that holds bit for bit. One thread at a time, but for tn_batch_cancel. */
typedef struct tn_batch tn_batch;
typedef struct tn_batch_opts {
  tn_hdr h;
  uint32_t slots, flags; /* slots: 1 to TN_BATCH_MOST; flags: TN_BATCH_* */
  int64_t context;       /* positions of each; 0: tn_lm_context, which is the most */
  int64_t chunk;         /* most positions of a prompt that one step runs; 0: as many as a chat's step */
  uint64_t prefix_bytes; /* most bytes of beginnings that are kept after their slot went to another text; 0: none are */
} tn_batch_opts;
enum {
  TN_BATCH_MOST = 64,
  TN_BATCH_EXACT = 1 /* every text on a step of its own: bits of texts alone on every device, and no weight is shared */
};
/* TN_E_NO_MEMORY: the caches of all slots are made here. o: NULL is 4 slots. Models whose sequences cannot have lengths
 * of their own (tn_model_has_slots) are run as with TN_BATCH_EXACT. TN_E_UNSUPPORTED: an encoder-decoder. */
TN_API TN_MUST_CHECK tn_status tn_batch_create(tn_lm *lm, const tn_batch_opts *o, tn_batch **out, tn_error *err);
/* Before lm. NULL is fine. */
TN_API void tn_batch_destroy(tn_batch *b);
/* Nonzero: texts share their steps. */
TN_API int tn_batch_shares(const tn_batch *b);
/* A text that begins with ids, n of them, in a free slot; *slot says which. Nothing runs yet. The slot is chosen, and
 * copied from others or from what prefix_bytes keep, so that as much as possible of ids need not run again. p: NULL is the model's defaults; it is
 * copied with its stop strings, and what else it points to lives until the slot is given back. fn is called with user
 * for each token, in tn_batch_step; it must not call b. TN_E_LIMIT: no slot is free, or ids do not fit the context.
 * TN_E_INVALID: ids or params. */
TN_API TN_MUST_CHECK tn_status tn_batch_start(tn_batch *b, const int32_t *ids, size_t n, const tn_gen_params *p,
                                              tn_token_fn fn, void *user, uint32_t *slot, tn_error *err);
/* Runs a piece of the prompt that waits longest, and a token of every text that is past its prompt. *running: texts that
 * go on. What is wrong with one text (its sampler, its memory) ends that text alone: tn_batch_result tells. A failure
 * returned here is the model's; a text that got no token in it goes on with the next call. After TN_E_DEVICE_LOST what
 * texts have so far is run again. */
TN_API TN_MUST_CHECK tn_status tn_batch_step(tn_batch *b, uint32_t *running, tn_error *err);
/* What became of the text in a slot: its own failure, or TN_OK and *res, whose reason is 0 while it goes on; prefill_ns
 * and decode_ns are times from its start to the first token, and from there. cached (may be NULL): tokens of the prompt
 * that did not run. TN_E_INVALID: nothing was started there. */
TN_API TN_MUST_CHECK tn_status tn_batch_result(tn_batch *b, uint32_t slot, tn_gen_result *res, size_t *cached,
                                               tn_error *err);
/* Beginnings of texts that did not run again, since the batch was made. */
typedef struct tn_batch_prefixes {
  tn_hdr h;
  uint64_t from_slots, from_store;               /* texts whose beginning a slot had, or was kept outside of slots */
  uint64_t tokens_from_slots, tokens_from_store; /* their tokens */
  uint64_t bytes, dropped; /* of what is kept now, tn_batch_opts.prefix_bytes at most; pieces that made room for others */
} tn_batch_prefixes;
/* TN_E_INVALID: b or out is NULL, or out->h is not one of tn_batch_prefixes. */
TN_API TN_MUST_CHECK tn_status tn_batch_prefix_counts(const tn_batch *b, tn_batch_prefixes *out, tn_error *err);
/* Texts of b guess with a smaller model, as in tn_chat_draft; what a text's tn_gen_params.lookup finds is tried first.
 * Guesses make no step of texts that decode longer than 16 positions, and a draft guesses while one or two do
 * (docs/batching.md). Each slot gets caches of the draft. draft NULL or n 0: no more guesses. Not while texts run. Statuses
 * of tn_chat_draft and, for the caches, of tn_chat_create; after a failure there is no draft. */
TN_API TN_MUST_CHECK tn_status tn_batch_draft(tn_batch *b, tn_lm *draft, uint32_t n, tn_error *err);
/* Tokens that steps tried beside the last one of a text, and those of them that the text then had. */
typedef struct tn_batch_guesses {
  tn_hdr h;
  uint64_t tried, came;
} tn_batch_guesses;
enum { TN_BATCH_ALL = 0x7fffffff /* in place of a slot: all texts since the batch was made */ };
/* Of the text in a slot. TN_E_INVALID: nothing was started there; b or out is NULL, or out->h is not one of
 * tn_batch_guesses. */
TN_API TN_MUST_CHECK tn_status tn_batch_guess_counts(const tn_batch *b, uint32_t slot, tn_batch_guesses *out,
                                                     tn_error *err);
/* Gives the slot back, whether its text has ended or not. What it holds may serve other texts. */
TN_API void tn_batch_stop(tn_batch *b, uint32_t slot);
/* From any thread: the running step, or the next one, returns TN_E_CANCELLED soon; texts may go on after it. */
TN_API void tn_batch_cancel(tn_batch *b);

/* --- structured output (docs/structured-output.md) -------------------------------------------------------------- */

/* What a text must be, for the tokenizer of one model; tn_gen_params.grammar takes it. Any number of chats, samplers
 * and threads may use one at a time: what they find out of it is kept for all. */
typedef struct tn_grammar tn_grammar;
enum {
  TN_GRAMMAR_JSON_SCHEMA = 1, /* a JSON Schema (2020-12); "{}" is any JSON value */
  TN_GRAMMAR_REGEX = 2,       /* a regular expression, ECMA-262's syntax, that the whole text matches */
  TN_GRAMMAR_GBNF = 3         /* rules in GBNF's syntax; the text is a "root" */
};
/* text: n bytes of UTF-8. TN_E_INVALID: not of that syntax, or no text can be so; TN_E_UNSUPPORTED: it asks for what
 * cannot be decided token by token; TN_E_LIMIT: it is too large. The message names the key ("schema:
 * properties.age.minimum: ...") or the column. TN_E_UNAVAILABLE: no tokenizer. Destroy it after whoever uses it; it
 * may outlive lm. */
TN_API TN_MUST_CHECK tn_status tn_grammar_create(const tn_lm *lm, uint32_t kind, const char *text, size_t n,
                                                 tn_grammar **out, tn_error *err);
TN_API void tn_grammar_destroy(tn_grammar *g);

/* Tokens from logits, for who runs sessions himself: all of tn_gen_params but stop and lookup. One thread at a time. */
typedef struct tn_sampler tn_sampler;
/* p: NULL: the model's defaults. What it points to is copied, but for the grammar, which lives on, and hook_user. ids:
 * n tokens that the conversation has already. */
TN_API TN_MUST_CHECK tn_status tn_sampler_create(const tn_lm *lm, const tn_gen_params *p, const int32_t *ids, size_t n,
                                                 tn_sampler **out, tn_error *err);
TN_API void tn_sampler_destroy(tn_sampler *s);
/* The next token of the conversation. logits: [vocab], not changed; vocab is the same in each call. left: tokens that
 * may follow, this one included; UINT32_MAX: no limit. Near its end the grammar takes the shortest way out;
 * TN_E_LIMIT: not even that fits. TN_E_INVALID: NaN, or no token is possible. */
TN_API TN_MUST_CHECK tn_status tn_sampler_pick(tn_sampler *s, const float *logits, size_t vocab, uint32_t left,
                                               int32_t *id, tn_error *err);
/* Of the grammar and the text so far: 0 it is not whole, or there is no grammar; 1 it is whole and may go on; 2 nothing
 * can follow: the text ends here, without an EOS. */
TN_API int tn_sampler_whole(const tn_sampler *s);

#ifdef __cplusplus
}
#endif
#endif
