/* SPDX-License-Identifier: Apache-2.0
 *
 * Language models of the test data on the host device, conversations with them, and what these say.
 */
#ifndef TENON_TESTS_LM_KIT_H
#define TENON_TESTS_LM_KIT_H

#include <tenon/lm.h>

extern const char *kit_data; /* the folder of test data */
extern tn_runtime *kit_rt;

/* 0, or the exit code: 77 where there are no models. */
int kit_begin(void);
/* The same with another profile; plugins: a folder of them, or NULL. */
int kit_begin_with(const char *profile, const char *plugins);

/* Tokens and text; stop_after: so many tokens are enough (0: never); cancel: cancelled at the third token. */
typedef struct kit_sink {
  int32_t ids[512];
  size_t n, text_n, stop_after;
  char text[8192];
  tn_chat *cancel;
} kit_sink;
int kit_take(void *user, int32_t id, const char *text, size_t n); /* a tn_token_fn for it */

/* By path; by name in the test data; the demo model. Fatal where it fails. */
tn_lm *kit_load_at(const char *path);
tn_lm *kit_load(const char *name);
tn_lm *kit_load_demo(void);
tn_chat *kit_talk(tn_lm *lm);
tn_gen_params kit_greedy(uint32_t n);
tn_gen_result kit_say(tn_chat *c, const char *prompt, const tn_gen_params *p, kit_sink *s);

/* How many guesses b tries hangs on what comes of them, not on how fast the machine is. */
void kit_untimed(tn_batch *b);

#endif
