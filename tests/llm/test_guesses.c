/* SPDX-License-Identifier: Apache-2.0
 *
 * Guesses, of lookup and of a draft: ids and texts are those without, greedy and sampled with the same seed, and steps are
 * fewer. Equal ids for every seed is more than an equal distribution.
 * test-guesses [PROFILE PLUGINS]: the draft is the same model with the weights of that profile.
 */
#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/lm.h"
#include "tests/llm/lm_kit.h"

static const char *draft_profile, *draft_plugins;

typedef struct text {
  kit_sink got;
  size_t steps;
  uint32_t last; /* step */
} text;

static void count_steps(void *user, const tn_trace_event *e) {
  text *t = user;
  if (!t->steps || e->step != t->last) t->steps++;
  t->last = e->step;
}

static text say(tn_lm *lm, tn_lm *draft, uint32_t n, const char *prompt, const tn_gen_params *p) {
  text t = {.steps = 0};
  tn_chat *c = kit_talk(lm);
  c->pace.even = true; /* how many are tried is no matter of how busy the machine is */
  CU_ASSERT_EQUAL_FATAL(tn_chat_draft(c, draft, n, NULL), TN_OK);
  tn_chat_trace(c, count_steps, &t);
  CU_ASSERT_EQUAL_FATAL(tn_generate(c, prompt, strlen(prompt), p, kit_take, &t.got, NULL, NULL), TN_OK);
  tn_chat_destroy(c);
  return t;
}

static void compare(const text *a, const text *b) {
  CU_ASSERT_EQUAL_FATAL(a->got.n, b->got.n);
  CU_ASSERT_EQUAL(memcmp(a->got.ids, b->got.ids, a->got.n * sizeof *a->got.ids), 0);
  CU_ASSERT_STRING_EQUAL(a->got.text, b->got.text);
}

/* How texts are chosen: greedy, and with what changes from token to token. */
static tn_gen_params way(int i, uint32_t tokens) {
  tn_gen_params p = kit_greedy(tokens);
  p.seed = (uint64_t)(i + 1);
  if (i) p.temperature = i % 2 ? 1 : 0.5f;
  if (i == 2) p.mirostat_tau = 3;
  if (i == 3) p.repeat_penalty = 1.2f, p.top_k = 20;
  if (i == 4) p.frequency_penalty = 0.3f, p.top_p = 0.9f, p.min_tokens = 10;
  if (i == 5) p.dry = 0.8f, p.typical_p = 0.9f;
  return p;
}
enum { WAYS = 10, TOKENS = 60 };

static const char repeats[] = "Tom saw a cat. Tom saw a dog. Tom saw a cat. Tom saw a dog. Tom saw a cat. Tom saw a";

static void lookup(void) {
  tn_lm *lm = kit_load("lm/stories260k-onnx");
  size_t without = 0, with = 0;
  for (int i = 0; i < WAYS; i++)
    for (uint32_t n = 1; n <= 16; n *= 4) {
      tn_gen_params p = way(i, TOKENS);
      const text plain = say(lm, NULL, 0, repeats, &p);
      p.lookup = n;
      const text guessed = say(lm, NULL, 0, repeats, &p);
      compare(&plain, &guessed);
      CU_ASSERT(guessed.steps <= plain.steps);
      if (!i) without += plain.steps, with += guessed.steps;
    }
  printf("(%zu steps, %zu without) ", with, without);
  CU_ASSERT(with * 20 < without * 19);
  tn_lm_destroy(lm);
}

/* A draft that is the model itself is right whenever it is sure. */
static void draft_of_itself(void) {
  tn_lm *lm = kit_load("lm/stories260k-onnx");
  for (int i = 0; i < WAYS; i++)
    for (uint32_t n = 1; n <= 16; n *= 4) {
      tn_gen_params p = way(i, TOKENS);
      const text plain = say(lm, NULL, 0, "Once upon a time", &p), guessed = say(lm, lm, n, "Once upon a time", &p);
      compare(&plain, &guessed);
      if (!i) CU_ASSERT(guessed.steps * 4 < plain.steps * 3);
      p.lookup = 4;
      const text both = say(lm, lm, n, "Once upon a time", &p);
      compare(&plain, &both);
    }
  tn_lm_destroy(lm);
}

/* Turns of one conversation: the draft follows what it did not see. */
static void conversation(void) {
  tn_lm *lm = kit_load("lm/stories260k-onnx");
  tn_chat *a = kit_talk(lm), *b = kit_talk(lm);
  CU_ASSERT_EQUAL_FATAL(tn_chat_draft(b, lm, 8, NULL), TN_OK);
  for (int i = 0; i < 6; i++) {
    kit_sink x = {.n = 0}, y = {.n = 0};
    const tn_gen_params p = way(i % 2, 12);
    if (i == 3) CU_ASSERT_EQUAL(tn_chat_draft(b, NULL, 0, NULL), TN_OK);
    if (i == 4) CU_ASSERT_EQUAL(tn_chat_draft(b, lm, 3, NULL), TN_OK);
    (void)kit_say(a, " Then", &p, &x);
    (void)kit_say(b, " Then", &p, &y);
    CU_ASSERT_EQUAL(x.n, y.n);
    CU_ASSERT_EQUAL(memcmp(x.ids, y.ids, x.n * sizeof *x.ids), 0);
    if (i == 2) tn_chat_reset(a), tn_chat_reset(b);
  }
  tn_chat_destroy(a);
  tn_lm_destroy(lm); /* b and its draft hold it */
  tn_chat_destroy(b);
}

static void refusals(void) {
  tn_lm *lm = kit_load("lm/stories260k-onnx"), *demo = kit_load_demo();
  tn_chat *c = kit_talk(lm);
  tn_error err;
  tn_error_init(&err);
  CU_ASSERT_EQUAL(tn_chat_draft(c, lm, TN_DRAFT_MOST + 1, &err), TN_E_LIMIT);
  CU_ASSERT_EQUAL(tn_chat_draft(c, demo, 4, &err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "vocabulary"));
  CU_ASSERT_EQUAL(tn_chat_draft(NULL, lm, 4, &err), TN_E_INVALID);
  tn_chat_destroy(c);
  tn_lm_destroy(lm);
  tn_lm_destroy(demo);
}

static void draft_with_other_weights(void) {
  const tn_runtime_opts o = {.h = TN_API_HDR(tn_runtime_opts), .profile = draft_profile, .plugin_dirs = &draft_plugins,
                             .n_plugin_dirs = 1, .flags = TN_RT_TEST_WRITABLE | TN_RT_NO_PROBE};
  tn_runtime *host = kit_rt, *rt = NULL;
  tn_lm *lm = kit_load_demo();
  CU_ASSERT_EQUAL_FATAL(tn_runtime_create(&o, &rt, NULL), TN_OK);
  kit_rt = rt;
  tn_lm *draft = kit_load_demo();
  kit_rt = host;
  for (int i = 0; i < 3; i++) {
    const tn_gen_params p = way(i, 40);
    const text plain = say(lm, NULL, 0, "Once upon a time", &p), guessed = say(lm, draft, 6, "Once upon a time", &p);
    compare(&plain, &guessed);
    CU_ASSERT(guessed.steps <= plain.steps);
    if (!i) CU_ASSERT(guessed.steps * 4 < plain.steps * 3);
  }
  tn_lm_destroy(draft);
  tn_lm_destroy(lm);
  tn_runtime_destroy(rt);
}

int main(int argc, char **argv) {
  const int rc = kit_begin();
  if (rc) return rc;
  CU_pSuite s = CU_initialize_registry() == CUE_SUCCESS ? CU_add_suite("guesses", NULL, NULL) : NULL;
  if (argc == 3) {
    draft_profile = argv[1];
    draft_plugins = argv[2];
    if (!s || !CU_add_test(s, "a draft with other weights", draft_with_other_weights)) return 1;
  } else if (!s || !CU_add_test(s, "lookup", lookup) || !CU_add_test(s, "a draft of itself", draft_of_itself) ||
             !CU_add_test(s, "a conversation", conversation) || !CU_add_test(s, "refusals", refusals)) {
    return 1;
  }
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failed = CU_get_number_of_failures();
  CU_cleanup_registry();
  tn_runtime_destroy(kit_rt);
  return failed > 0;
}
