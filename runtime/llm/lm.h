/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of tn_lm and tn_chat: what a model's inputs and outputs mean (lm_io.c), one step over the public session API
 * (chat.c), and the loop above it (generate.c).
 *
 * A step feeds tokens [fed, fed + n) of the history, and a failed step changes nothing. Where the session can keep the
 * caches it does, and long prompts are fed in chunks (chat_keep.c). Otherwise, with past inputs, the present.* outputs
 * are copied into memory of the chat that grows geometrically and become the next past; without them, the whole history
 * is run again.
 */
#ifndef TENON_LLM_LM_H
#define TENON_LLM_LM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <tenon/tenon.h>

#include "runtime/base/base.h"
#include "runtime/llm/config.h"
#include "runtime/llm/inputs.h"
#include "runtime/llm/pace.h"
#include "runtime/llm/template.h"
#include "runtime/llm/tokenizer/tokenizer.h"

typedef struct tni_in {
  const tn_io_info *info;
  tni_input role;
  uint32_t axis;    /* Past: the axis that grows */
  uint32_t present; /* Past: which output continues it. Source: which output of the source's model makes it */
} tni_in;

typedef struct tni_lm_io {
  tni_in *in;
  uint32_t n_in, n_past;
  uint32_t logits; /* output index */
  const tn_io_info *logits_info;
  bool after_source; /* the decoder of an encoder-decoder */
} tni_lm_io;

struct tn_lm {
  int32_t holders; /* chats; atomic. The last of them and of tn_lm_destroy frees it */
  tn_model *model;
  tn_model *source;   /* what comes before the decoder (source.c), or NULL */
  tni_tokenizer *tok; /* NULL: no tokenizer.json, ids only */
  tni_folder folder;
  struct tni_spelling *spelling; /* for grammars (spelling.h) */
  char *tok_path;
  int32_t *marks; /* [n_marks] of tn_lm_marks */
  size_t n_marks;
  tni_lm_config config;
  tni_templates templates;
  tni_lm_io io;
  int64_t context;
  int32_t bos;
};

/* TN_E_UNSUPPORTED names the input or output that nobody here knows how to feed or read. */
TN_MUST_CHECK tn_status tni_lm_io_read(tn_model *m, tni_lm_io *io, tn_error *err);
void tni_lm_io_finish(tni_lm_io *io);
size_t tni_lm_elem_bytes(tn_dtype dt); /* 0: not a type that inputs or logits have here */

/* What an encoder-decoder's conversation has of its source (source.c). */
typedef struct tni_source tni_source;

/* Growing bytes. */
typedef struct tni_chat_mem {
  void *v;
  size_t cap;
} tni_chat_mem;

struct tn_chat {
  tn_lm *lm;
  tn_session *session;
  tni_source *source; /* of an encoder-decoder, or NULL */
  int32_t *history;
  size_t n, cap, fed; /* tokens; those in the cache */
  size_t whole;       /* tokens of the text that those are a part of, where n hides some (batch_run.c); else 0 */
  int64_t context;    /* positions that it may have */
  tni_pace pace;      /* of guesses of a text alone */
  tni_chat_mem *feed; /* [n_in] what each input points to */
  tn_tensor *in, *out;
  const tn_tensor **in_ptr;
  tni_chat_mem logits; /* when they are not f32, or of several chunks */
  bool kept;           /* the session keeps the caches (chat_keep.c) */
  int64_t chunk;       /* then: most tokens of one step */
  tn_chat *draft;      /* NULL: none (draft.h) */
  uint32_t draft_most; /* its guesses of a step */
  tn_tensor **out_ptr; /* then: [outputs of the model], all NULL but the logits' */
  atomic_bool cancelled;
};

int64_t tni_lm_vocabulary(const tn_lm *lm); /* tokens the model knows; 0: not said */
/* Appends to the history (not run yet). TN_E_LIMIT with both lengths, TN_E_INVALID for ids outside the vocabulary. */
TN_MUST_CHECK tn_status tni_chat_append(tn_chat *c, const int32_t *ids, size_t n, tn_error *err);
/* Runs what is not fed yet. *rows logits rows of *vocab each; the last belongs to the last token. last_only: *rows
 * is 1. */
TN_MUST_CHECK tn_status tni_chat_step(tn_chat *c, bool last_only, const float **logits, size_t *rows, size_t *vocab,
                                      tn_error *err);
/* The same two on a session that keeps its caches. */
TN_MUST_CHECK tn_status tni_chat_keep(tn_chat *c, tn_error *err);
TN_MUST_CHECK tn_status tni_chat_keep_step(tn_chat *c, bool last_only, const float **logits, size_t *rows,
                                           size_t *vocab, tn_error *err);
/* At most n guesses: none brings the text past a limit where all of it is run again (runtime/session/long_text.h). */
size_t tni_chat_may_guess(const tn_chat *c, size_t n);
/* Pieces that both ways share. run: the session's step or run. put_ints: n integers of a model's type, src[i] or base +
 * i. */
TN_MUST_CHECK tn_status tni_chat_run(tn_chat *c, uint32_t phase, bool last_only, tn_error *err);
void tni_put_ints(void *dst, tn_dtype dt, size_t n, const int32_t *src, int64_t base);
TN_MUST_CHECK bool tni_chat_mem_grow(tni_chat_mem *m, size_t bytes);
/* Rows [have - want, have) of logits [1, have, V] or [1, V] as f32 at dst, [want, V]. */
void tni_logits_to_f32(const tn_tensor *o, size_t have, size_t want, size_t vocab, float *dst);
/* Ids of a prompt for this conversation: template and BOS only at its start. malloc'd. */
TN_MUST_CHECK tn_status tni_lm_prompt(const tn_lm *lm, const char *text, size_t n, bool special, tni_ids *out,
                                      tn_error *err);

/* lm->source where the decoder needs one; o: as the decoder's. */
TN_MUST_CHECK tn_status tni_source_load(tn_lm *lm, tn_runtime *rt, const tn_model_opts *o, tn_error *err);
TN_MUST_CHECK tn_status tni_source_create(tn_chat *c, tn_error *err);
void tni_source_destroy(tn_chat *c);
/* ids through the encoder. The decoder's inputs of role SOURCE point to what it gives until the next call; a
 * conversation with it has no tokens yet. */
TN_MUST_CHECK tn_status tni_source_run(tn_chat *c, const int32_t *ids, size_t n, tn_error *err);
tn_session *tni_source_session(const tn_chat *c); /* NULL: none */
bool tni_is_of_source(const tni_in *in);
/* The token that config files want at the next position, -1: any. last: no other follows. */
int32_t tni_source_forced(const tn_chat *c, bool last);

/* A conversation without a session, for who runs its tokens elsewhere (batch.c); tn_chat_destroy. NULL: no memory. */
tn_chat *tni_chat_bare(tn_lm *lm, int64_t context);

/* The loop of tn_generate_ids in pieces: what comes after the tokens of c. p: NULL is the model's defaults; copied, with
 * its stop strings. */
typedef struct tni_gen tni_gen;
TN_MUST_CHECK tn_status tni_gen_create(tn_chat *c, const tn_gen_params *p, tn_token_fn fn, void *user, tni_gen **out,
                                       tn_error *err);
void tni_gen_destroy(tni_gen *g);
/* From now on tokens are those of c, which has the same. */
void tni_gen_belongs(tni_gen *g, tn_chat *c);
/* The next token, from the logits of the last one: appended to the conversation and given to fn. */
TN_MUST_CHECK tn_status tni_gen_token(tni_gen *g, const float *logits, size_t vocab, tn_error *err);
/* At most `most` ids (LOOKUP_MOST at ids are enough) that may come next: what followed before, else, where draft is true,
 * what the conversation's draft finds likely. What followed a single token comes least often (tni_gen_single), and is not
 * taken where there is a draft. */
TN_MUST_CHECK tn_status tni_gen_guess(tni_gen *g, size_t most, bool draft, int32_t *ids, size_t *n, tn_error *err);
bool tni_gen_single(const tni_gen *g); /* the last guesses followed where a single token stood before */
/* The next tokens, from n + 1 rows of logits: that of the last token, and those after each of n guesses. A row's token is
 * drawn as if no guess were there, so a text is what it is without them, sampled ones too; rows after the first guess
 * that did not come mean nothing. */
TN_MUST_CHECK tn_status tni_gen_take_rows(tni_gen *g, const int32_t *guess, size_t n, const float *logits, size_t vocab,
                                     tn_error *err);
/* Guesses so far, and those that came. */
void tni_gen_guesses(const tni_gen *g, uint64_t *tried, uint64_t *came);
/* reason 0: it goes on. Times are not filled. */
const tn_gen_result *tni_gen_result(const tni_gen *g);

/* One holder less. */
void tni_lm_release(tn_lm *lm);

#endif
