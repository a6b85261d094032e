/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts that are generated together: each is the text that it is alone, whoever comes and goes beside it.
 * test-batch [PROFILE PLUGINS]
 */
#include <CUnit/Basic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/llm/lm_kit.h"

enum { PROMPTS = 8, LONG = 30, MOST = 4, ROUNDS = 12 };

static const char *const prompts[PROMPTS] = {
    "Once upon a time, there was",
    "Once upon a time, there was a little dog who could not find the way home",
    "a",
    "In the beginning",
    "The big red ball rolled down the hill, and the children ran after it as fast as they could, until",
    "Once upon a time, there was a little dog who could not",
    "One day, Tom and his mother went to the park. Tom saw a cat. He",
    "They"};

static bool rounded; /* weights or caches: other texts, in which less repeats */
static const char repeats[] = "Tom saw a cat. Tom saw a dog. Tom saw a cat. Tom saw a dog. Tom saw a cat. Tom saw a";

typedef struct want {
  int32_t *ids; /* the prompt's */
  size_t n;
  tn_gen_params p;
  kit_sink alone;
  tn_gen_result res;
} want;

/* Greedy but for two, that sample; one that ends at a string, one of a grammar, which is the caller's. */
static tn_grammar *alone(tn_lm *lm, want *w) {
  static const char *const stops[] = {" and"};
  static const char form[] = "(( the| a| big| dog| cat){1,4}[,.]){3,9}";
  tn_grammar *g = NULL;
  CU_ASSERT_EQUAL_FATAL(tn_grammar_create(lm, TN_GRAMMAR_REGEX, form, sizeof form - 1, &g, NULL), TN_OK);
  for (size_t i = 0; i < PROMPTS; i++) {
    tn_chat *c = kit_talk(lm);
    CU_ASSERT_EQUAL_FATAL(tn_lm_encode(lm, prompts[i], strlen(prompts[i]), 1, &w[i].ids, &w[i].n, NULL), TN_OK);
    w[i].p = kit_greedy((uint32_t)(LONG - 3 * (int)i));
    if (i == 3) w[i].p.temperature = 0.9f, w[i].p.seed = 7;
    if (i == 6) w[i].p.stop = stops, w[i].p.n_stop = 1;
    if (i == 7) w[i].p.grammar = g, w[i].p.max_tokens = LONG;
    if (i == 2) w[i].p.temperature = 1, w[i].p.seed = 3, w[i].p.repeat_penalty = 1.2f;
    w[i].res = (tn_gen_result){.h = TN_API_HDR(tn_gen_result)};
    CU_ASSERT_EQUAL_FATAL(tn_generate_ids(c, w[i].ids, w[i].n, &w[i].p, kit_take, &w[i].alone, &w[i].res, NULL), TN_OK);
    tn_chat_destroy(c);
  }
  return g;
}

/* How steps guess. */
typedef struct guessing {
  uint32_t lookup, draft;
} guessing;

typedef struct running {
  const want *w;
  kit_sink got;
  bool leaves; /* in the middle */
} running;

static uint32_t draw(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void compare(const running *r, bool whole) {
  const kit_sink *a = &r->w->alone;
  CU_ASSERT(whole ? r->got.n == a->n : r->got.n <= a->n);
  CU_ASSERT_EQUAL(memcmp(r->got.ids, a->ids, r->got.n * sizeof *a->ids), 0);
  CU_ASSERT_EQUAL(memcmp(r->got.text, a->text, r->got.text_n), 0);
  if (whole) CU_ASSERT_EQUAL(r->got.text_n, a->text_n);
}

/* A text that has ended, or leaves. */
static void give_back(tn_batch *b, uint32_t slot, running **r, size_t *cached) {
  tn_gen_result res = {.h = TN_API_HDR(tn_gen_result)};
  size_t had = 0;
  CU_ASSERT_EQUAL(tn_batch_result(b, slot, &res, &had, NULL), TN_OK);
  compare(*r, res.reason != 0);
  CU_ASSERT_EQUAL(res.new_tokens, (*r)->got.n);
  CU_ASSERT_EQUAL(res.prompt_tokens, (*r)->w->n);
  if (res.reason) CU_ASSERT_EQUAL(res.reason, (*r)->w->res.reason);
  *cached += had;
  tn_batch_stop(b, slot);
  CU_ASSERT_EQUAL(tn_batch_result(b, slot, &res, NULL, NULL), TN_E_INVALID);
  free(*r);
  *r = NULL;
}

static void start(tn_batch *b, const want *w, uint32_t lookup, running **r, uint32_t slots, bool leaves) {
  tn_error err;
  uint32_t slot = UINT32_MAX;
  running *m = calloc(1, sizeof *m);
  CU_ASSERT_FATAL(m != NULL);
  m->w = w;
  m->leaves = leaves;
  tn_error_init(&err);
  tn_gen_params p = w->p;
  p.lookup = lookup;
  const tn_status st = tn_batch_start(b, w->ids, w->n, &p, kit_take, &m->got, &slot, &err);
  if (st != TN_OK) printf("\n  start: %s", err.message);
  CU_ASSERT_FATAL(st == TN_OK && slot < slots && !r[slot]);
  r[slot] = m;
}

/* Texts come and go at random until ROUNDS have been started. Tokens of prompts that did not run. */
static size_t mix(tn_lm *lm, const want *w, const tn_batch_opts *o, const guessing *how, uint32_t state) {
  tn_batch_guesses g = {.h = TN_API_HDR(tn_batch_guesses)};
  tn_batch *b = NULL;
  running *r[MOST] = {NULL};
  uint32_t live = 0, n = 0;
  size_t cached = 0;
  tn_error err;
  tn_error_init(&err);
  CU_ASSERT_EQUAL_FATAL(tn_batch_create(lm, o, &b, &err), TN_OK);
  kit_untimed(b);
  CU_ASSERT_EQUAL(tn_batch_shares(b) != 0, !(o->flags & TN_BATCH_EXACT));
  CU_ASSERT_EQUAL_FATAL(tn_batch_draft(b, how->draft ? lm : NULL, how->draft, &err), TN_OK);
  for (int started = 0; started < ROUNDS || live;) {
    for (; started < ROUNDS && live < o->slots && (!live || draw(&state) % 3 == 0); started++, live++)
      start(b, &w[draw(&state) % PROMPTS], how->lookup, r, o->slots, draw(&state) % 5 == 0);
    const tn_status st = tn_batch_step(b, &n, &err);
    if (st != TN_OK) printf("\n  step: %s", err.message);
    CU_ASSERT_EQUAL_FATAL(st, TN_OK);
    for (uint32_t i = 0; i < o->slots; i++) {
      tn_gen_result res = {.h = TN_API_HDR(tn_gen_result)};
      if (!r[i]) continue;
      CU_ASSERT_EQUAL_FATAL(tn_batch_result(b, i, &res, NULL, NULL), TN_OK);
      if (!res.reason && !(r[i]->leaves && draw(&state) % 8 == 0)) continue;
      give_back(b, i, &r[i], &cached);
      live--;
    }
  }
  CU_ASSERT_EQUAL(tn_batch_guess_counts(b, TN_BATCH_ALL, &g, NULL), TN_OK);
  CU_ASSERT(g.came <= g.tried && (how->draft || (how->lookup && !rounded) ? g.came > 0 : how->lookup || !g.tried));
  tn_batch_destroy(b);
  return cached;
}

static void check_model(tn_lm *lm) {
  static const struct {
    uint32_t slots, flags;
    int64_t chunk;
    guessing how;
  } ways[] = {{4, 0, 0, {0, 0}}, {3, 0, 5, {0, 0}}, {2, 0, 1, {0, 0}}, {1, 0, 0, {0, 0}}, {3, TN_BATCH_EXACT, 0, {0, 0}},
              {4, 0, 0, {8, 0}}, {2, 0, 5, {16, 0}}, {2, 0, 7, {0, 4}}, {3, 0, 0, {2, 8}}, {1, 0, 0, {0, 20}},
              {2, TN_BATCH_EXACT, 0, {16, 4}}};
  want *w = calloc(PROMPTS, sizeof *w);
  CU_ASSERT_FATAL(w != NULL);
  tn_grammar *g = alone(lm, w);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    const tn_batch_opts o = {.h = TN_API_HDR(tn_batch_opts),
                             .slots = ways[i].slots,
                             .flags = ways[i].flags,
                             .chunk = ways[i].chunk,
                             .context = 160};
    CU_ASSERT(mix(lm, w, &o, &ways[i].how, (uint32_t)(i + 1)) > 0);
  }
  for (size_t i = 0; i < PROMPTS; i++) tn_free(w[i].ids);
  free(w);
  tn_grammar_destroy(g);
  tn_lm_destroy(lm);
}

/* n texts at once, alike but for their seeds: how many steps they take; *came: guesses that came. */
static size_t count_steps(tn_lm *lm, uint32_t n, const guessing *how, uint32_t flags, uint64_t *tried, uint64_t *came,
                          kit_sink *got) {
  const tn_batch_opts o = {.h = TN_API_HDR(tn_batch_opts), .slots = n, .flags = flags, .context = 200};
  tn_batch *b = NULL;
  int32_t *ids;
  size_t n_ids, steps = 0;
  uint32_t slot, goes = 1;
  CU_ASSERT_EQUAL_FATAL(tn_lm_encode(lm, repeats, sizeof repeats - 1, 1, &ids, &n_ids, NULL), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_batch_create(lm, &o, &b, NULL), TN_OK);
  kit_untimed(b);
  CU_ASSERT_EQUAL_FATAL(tn_batch_draft(b, lm, how->draft, NULL), TN_OK);
  for (uint32_t i = 0; i < n; i++) {
    tn_gen_params p = kit_greedy(40);
    p.lookup = how->lookup;
    got[i].n = got[i].text_n = 0;
    CU_ASSERT_EQUAL_FATAL(tn_batch_start(b, ids, n_ids, &p, kit_take, &got[i], &slot, NULL), TN_OK);
  }
  for (; goes; steps++) CU_ASSERT_EQUAL_FATAL(tn_batch_step(b, &goes, NULL), TN_OK);
  *tried = *came = 0;
  for (uint32_t i = 0; i < n; i++) {
    tn_batch_guesses g = {.h = TN_API_HDR(tn_batch_guesses)};
    CU_ASSERT_EQUAL(tn_batch_guess_counts(b, i, &g, NULL), TN_OK);
    *tried += g.tried;
    *came += g.came;
  }
  tn_batch_destroy(b);
  tn_free(ids);
  return steps;
}

/* Each guess that came is a step less; sixteen rows and half of them guesses are the limit. */
static void test_steps(void) {
  static const struct {
    guessing how;
    uint32_t n, flags;
  } ways[] = {{{16, 0}, 1, 0}, {{0, 8}, 1, 0}, {{16, 0}, 1, TN_BATCH_EXACT}, {{0, 8}, 1, TN_BATCH_EXACT}};
  tn_lm *lm = kit_load("lm/stories260k-onnx");
  kit_sink *got = calloc(MOST + 1, sizeof *got), *plain = &got[MOST];
  uint64_t tried, came;
  CU_ASSERT_FATAL(got != NULL);
  const size_t without = count_steps(lm, 1, &(guessing){0, 0}, 0, &tried, &came, plain);
  CU_ASSERT(without >= 40 && !tried);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    const size_t with = count_steps(lm, ways[i].n, &ways[i].how, ways[i].flags, &tried, &came, got);
    CU_ASSERT_EQUAL(with + came, without);
    CU_ASSERT(came >= (rounded && !ways[i].how.draft ? 0 : 4) && came <= tried);
    CU_ASSERT(got[0].n == 40 && memcmp(got[0].ids, plain->ids, 40 * sizeof *plain->ids) == 0);
  }
  /* A draft does not guess for three; lookup does. */
  (void)count_steps(lm, 3, &(guessing){0, 8}, 0, &tried, &came, got);
  CU_ASSERT(tried <= 15 + 2 * 7); /* while the others read their prompts */
  const size_t four = count_steps(lm, 4, &(guessing){0, 0}, 0, &tried, &came, got);
  CU_ASSERT(count_steps(lm, 4, &(guessing){16, 0}, 0, &tried, &came, got) < four + rounded);
  CU_ASSERT(came > 12 || rounded);
  for (int i = 0; i < MOST; i++) CU_ASSERT_EQUAL(memcmp(got[i].ids, plain->ids, 40 * sizeof *plain->ids), 0);
  free(got);
  tn_lm_destroy(lm);
}

static void test_stories(void) { check_model(kit_load("lm/stories260k-onnx")); }
static void test_demo(void) { check_model(kit_load_demo()); }

/* --- bits -------------------------------------------------------------------------------------------------------- */

enum { WIDE = 9, STEPS = 6, MAX_IO = 64 };

typedef struct stepper {
  tn_session *s;
  tn_tensor in[MAX_IO], logits;
  const tn_tensor *in_ptr[MAX_IO];
  tn_tensor *out_ptr[MAX_IO];
  int64_t ids[WIDE], pos[WIDE];
} stepper;

static void open_stepper(stepper *x, tn_model *m) {
  const tn_keep_opts o = {.h = TN_API_HDR(tn_keep_opts), .batch = WIDE, .capacity = 64, .flags = TN_KEEP_SLOTS};
  CU_ASSERT_EQUAL_FATAL(tn_session_create(m, &x->s, NULL), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_session_keep(x->s, &o, NULL), TN_OK);
  x->logits.h = (tn_hdr)TN_API_HDR(tn_tensor);
  for (uint32_t i = 0; i < tn_model_n_outputs(m); i++)
    if (strcmp(tn_model_output(m, i)->name, "logits") == 0) x->out_ptr[i] = &x->logits;
  for (uint32_t i = 0; i < tn_model_n_inputs(m); i++) {
    const tn_io_info *io = tn_model_input(m, i);
    const bool ids = strcmp(io->name, "input_ids") == 0;
    if (!ids && strcmp(io->name, "position_ids") != 0) continue;
    x->in[i] = (tn_tensor){
        .h = TN_API_HDR(tn_tensor), .name = io->name, .dtype = TN_DT_I64, .rank = 2, .data = ids ? x->ids : x->pos};
    x->in_ptr[i] = &x->in[i];
  }
}

/* A token of slots [first, first + count): slot b is b tokens ahead. Rows of logits to dst. */
static void step_rows(stepper *x, tn_model *m, uint32_t first, uint32_t count, float *dst) {
  for (uint32_t r = 0; r < count; r++) {
    x->pos[r] = tn_session_slot_length(x->s, first + r);
    x->ids[r] = 5 + (x->pos[r] * 37 + (first + r) * 11) % 200;
  }
  for (uint32_t i = 0; i < tn_model_n_inputs(m); i++) {
    x->in[i].dims[0] = count;
    x->in[i].dims[1] = 1;
    x->in[i].bytes = count * sizeof(int64_t);
  }
  CU_ASSERT_EQUAL_FATAL(tn_session_step_slots(x->s, first, count, x->in_ptr, x->out_ptr, 1, NULL), TN_OK);
  memcpy(dst, x->logits.data, x->logits.bytes);
}

/* Rows of 1 to 9 texts in one step are those of each alone, bit for bit. */
static void test_bits(void) {
  tn_lm *lm = kit_load_demo();
  tn_model *m = tn_lm_model(lm);
  stepper *x = calloc(2, sizeof *x);
  const size_t v = 8192;
  float *one = calloc(v, sizeof *one), *all = calloc(WIDE * v, sizeof *all);
  CU_ASSERT_FATAL(x && one && all);
  open_stepper(&x[0], m);
  open_stepper(&x[1], m);
  for (uint32_t b = 0; b < WIDE; b++)
    for (uint32_t k = 0; k <= b; k++)
      for (int i = 0; i < 2; i++) step_rows(&x[i], m, b, 1, one);
  for (uint32_t count = 1; count <= WIDE; count++) {
    uint32_t differ = 0;
    for (int k = 0; k < STEPS / 2; k++) {
      step_rows(&x[0], m, 0, count, all);
      for (uint32_t b = 0; b < count; b++) {
        step_rows(&x[1], m, b, 1, one);
        const size_t vocab = (size_t)x[1].logits.dims[x[1].logits.rank - 1];
        CU_ASSERT_FATAL(vocab <= v);
        differ += memcmp(one, all + b * vocab, vocab * sizeof *one) != 0;
      }
    }
    if (differ) printf("\n  %u texts: %u of %u rows differ", count, differ, count * STEPS / 2);
    CU_ASSERT_EQUAL(differ, 0);
  }
  for (int i = 0; i < 2; i++) tn_session_destroy(x[i].s);
  free(x);
  free(one);
  free(all);
  tn_lm_destroy(lm);
}

static void test_refused(void) {
  tn_lm *lm = kit_load("lm/stories260k-onnx");
  tn_batch *b = NULL;
  tn_error err;
  tn_gen_result res = {.h = TN_API_HDR(tn_gen_result)};
  tn_batch_opts o = {.h = TN_API_HDR(tn_batch_opts), .slots = 1, .context = 24};
  int32_t ids[30];
  uint32_t slot = 7, n;
  for (int i = 0; i < 30; i++) ids[i] = 1 + i % 9;
  tn_error_init(&err);
  tn_batch_opts bad = o;
  bad.slots = 65;
  CU_ASSERT_EQUAL(tn_batch_create(lm, &bad, &b, &err), TN_E_INVALID);
  bad = o;
  bad.flags = 8;
  CU_ASSERT_EQUAL(tn_batch_create(lm, &bad, &b, &err), TN_E_INVALID);
  bad = o;
  bad.context = INT64_MAX;
  CU_ASSERT_EQUAL(tn_batch_create(lm, &bad, &b, &err), TN_E_INVALID);
  CU_ASSERT_EQUAL_FATAL(tn_batch_create(lm, &o, &b, &err), TN_OK);
  CU_ASSERT_EQUAL(tn_batch_start(b, ids, 0, NULL, NULL, NULL, &slot, &err), TN_E_INVALID);
  CU_ASSERT_EQUAL(tn_batch_start(b, ids, 30, NULL, NULL, NULL, &slot, &err), TN_E_LIMIT);
  ids[2] = 1 << 30;
  CU_ASSERT_EQUAL(tn_batch_start(b, ids, 5, NULL, NULL, NULL, &slot, &err), TN_E_INVALID);
  ids[2] = 3;
  tn_gen_params p = kit_greedy(0);
  p.top_p = -1;
  CU_ASSERT_EQUAL(tn_batch_start(b, ids, 5, &p, NULL, NULL, &slot, &err), TN_E_INVALID);
  CU_ASSERT_EQUAL(slot, 7);
  CU_ASSERT_EQUAL(tn_batch_result(b, 0, &res, NULL, &err), TN_E_INVALID);
  tn_batch_guesses g = {.h = TN_API_HDR(tn_batch_guesses)};
  CU_ASSERT_EQUAL(tn_batch_guess_counts(b, 0, &g, &err), TN_E_INVALID);
  CU_ASSERT_EQUAL(tn_batch_guess_counts(b, TN_BATCH_ALL, NULL, &err), TN_E_INVALID);
  CU_ASSERT_EQUAL(tn_batch_draft(b, lm, TN_DRAFT_MOST + 1, &err), TN_E_LIMIT);
  tn_lm *demo = kit_load_demo();
  CU_ASSERT_EQUAL(tn_batch_draft(b, demo, 4, &err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "vocabulary"));
  tn_lm_destroy(demo);
  p = kit_greedy(0);
  p.flags = TN_GEN_IGNORE_EOS;
  CU_ASSERT_EQUAL_FATAL(tn_batch_start(b, ids, 5, &p, NULL, NULL, &slot, &err), TN_OK);
  CU_ASSERT_EQUAL(tn_batch_start(b, ids, 5, &p, NULL, NULL, &slot, &err), TN_E_LIMIT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "slots"));
  tn_batch_cancel(b);
  CU_ASSERT_EQUAL(tn_batch_step(b, &n, &err), TN_E_CANCELLED);
  while (tn_batch_step(b, &n, &err) == TN_OK && n) continue;
  CU_ASSERT_EQUAL(tn_batch_result(b, 0, &res, NULL, &err), TN_OK);
  CU_ASSERT(res.reason == TN_STOP_CONTEXT && res.new_tokens == 24 - 5);
  tn_batch_stop(b, 0);
  tn_batch_stop(b, 0);
  tn_batch_stop(b, 99);
  tn_batch_destroy(b);
  tn_batch_destroy(NULL);
  tn_lm_destroy(lm);
}

int main(int argc, char **argv) {
  rounded = argc > 1;
  const int ready = argc > 1 ? kit_begin_with(argv[1], argc > 2 ? argv[2] : NULL) : kit_begin();
  if (ready) return ready;
  CU_initialize_registry();
  CU_pSuite s = CU_add_suite("texts together", NULL, NULL);
  CU_add_test(s, "stories260k", test_stories);
  CU_add_test(s, "demo", test_demo);
  CU_add_test(s, "bits of rows", test_bits);
  CU_add_test(s, "guesses save steps", test_steps);
  CU_add_test(s, "refusals, the end of the context, cancelling", test_refused);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failed = CU_get_number_of_failures();
  CU_cleanup_registry();
  tn_runtime_destroy(kit_rt);
  return failed != 0;
}
