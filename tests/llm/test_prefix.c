/* SPDX-License-Identifier: Apache-2.0
 *
 * Beginnings that are kept when slots go to other texts: what follows is what the whole text gives, and not more of it
 * runs than must. test-prefix [VOCAB KIND FOLDER]: a model without a tokenizer (check_prefix.py). KIND: rows, rings,
 * states.
 */
#include <CUnit/Basic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/batch.h"
#include "tests/llm/lm_kit.h"

enum { SAID = 6, MOST = 160, SYSTEMS = 5, ROUNDS = 40, MEGABYTE = 1 << 20 };

static const char *folder, *kind = "rows";
static uint32_t vocab = 500;

typedef struct text {
  int32_t ids[MOST], said[SAID];
  size_t n;
} text;

static tn_lm *load(void) { return folder ? kit_load_at(folder) : kit_load("lm/stories260k-onnx"); }

static tn_batch *make(tn_lm *lm, uint32_t slots, int64_t chunk, uint64_t bytes) {
  const tn_batch_opts o = {
      .h = TN_API_HDR(tn_batch_opts), .slots = slots, .chunk = chunk, .context = 200, .prefix_bytes = bytes};
  tn_batch *b = NULL;
  CU_ASSERT_EQUAL_FATAL(tn_batch_create(lm, &o, &b, NULL), TN_OK);
  CU_ASSERT_TRUE(tn_batch_shares(b));
  return b;
}

/* n tokens that go on by themselves: system `which`, then `tail` of their own. */
static text compose(uint32_t which, size_t system, uint32_t own, size_t tail) {
  text t = {.n = system + tail};
  for (size_t i = 0; i < t.n; i++) {
    const uint32_t x = (i < system ? which * 977 : 50000 + own * 131) + (uint32_t)(i * (i + 7));
    t.ids[i] = (int32_t)(3 + x % (vocab - 3));
  }
  return t;
}

static uint32_t start(tn_batch *b, const text *t, kit_sink *s) {
  tn_gen_params p = kit_greedy(SAID);
  p.flags |= TN_GEN_IGNORE_EOS;
  uint32_t slot = 0;
  tn_error err;
  tn_error_init(&err);
  memset(s, 0, sizeof *s);
  const tn_status st = tn_batch_start(b, t->ids, t->n, &p, kit_take, s, &slot, &err);
  if (st != TN_OK) printf("\n  start: %s", err.message);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  return slot;
}

static tn_batch_prefixes counts(const tn_batch *b, uint64_t limit) {
  tn_batch_prefixes c = {.h = TN_API_HDR(tn_batch_prefixes)};
  CU_ASSERT_EQUAL(tn_batch_prefix_counts(b, &c, NULL), TN_OK);
  CU_ASSERT(c.bytes <= limit);
  return c;
}

/* To its end, alone: what it said, and how much of it did not run. */
static size_t run(tn_batch *b, const text *t, kit_sink *s) {
  uint32_t running = 1;
  size_t cached = 0;
  tn_gen_result r = {.h = TN_API_HDR(tn_gen_result)};
  const uint32_t slot = start(b, t, s);
  while (running) CU_ASSERT_EQUAL_FATAL(tn_batch_step(b, &running, NULL), TN_OK);
  CU_ASSERT_EQUAL(tn_batch_result(b, slot, &r, &cached, NULL), TN_OK);
  CU_ASSERT_EQUAL(s->n, SAID);
  tn_batch_stop(b, slot);
  return cached;
}

/* What it says where nothing is kept. */
static void alone(tn_lm *lm, text *t) {
  kit_sink *s = calloc(1, sizeof *s);
  tn_batch *b = make(lm, 1, 0, 0);
  CU_ASSERT_FATAL(s != NULL);
  CU_ASSERT_EQUAL(run(b, t, s), 0);
  memcpy(t->said, s->ids, sizeof t->said);
  tn_batch_destroy(b);
  free(s);
}

/* How much of it did not run; it says what it says alone. */
static size_t again(tn_batch *b, const text *t) {
  kit_sink *s = calloc(1, sizeof *s);
  CU_ASSERT_FATAL(s != NULL);
  const size_t cached = run(b, t, s);
  CU_ASSERT_EQUAL(memcmp(s->ids, t->said, sizeof t->said), 0);
  free(s);
  return cached;
}

static bool is(const char *what) { return strcmp(kind, what) == 0; }

/* One slot that goes from text to text: what it had before comes back. */
static void test_comes_back(void) {
  tn_lm *lm = load();
  text a = compose(1, 70, 1, 60), b = compose(2, 45, 2, 20), c = compose(1, 70, 3, 12), d = compose(1, 70, 4, 5);
  text longer = a, shorter = compose(1, 40, 0, 0);
  text *all[] = {&a, &b, &c, &d, &shorter};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) alone(lm, all[i]);
  memcpy(longer.ids + a.n, a.said, sizeof a.said);
  longer.n = a.n + SAID;
  longer.ids[longer.n++] = 9; /* the second turn */
  alone(lm, &longer);
  tn_batch *x = make(lm, 1, 16, MEGABYTE);
  CU_ASSERT_EQUAL(again(x, &a), 0);
  CU_ASSERT_EQUAL(again(x, &b), 0);
  CU_ASSERT_EQUAL(again(x, &longer), a.n + SAID - 1); /* the last one that was said never ran */
  const size_t second = again(x, &b);                 /* earlier than where it ended */
  CU_ASSERT(is("rows") ? second == b.n - 1 : is("states") ? second == 0 : second < b.n);
  const size_t third = again(x, &c), fourth = again(x, &d);
  CU_ASSERT_EQUAL(third, is("rows") ? 70 : 0);
  CU_ASSERT_EQUAL(fourth, 70); /* by now others left at 70 what goes on there */
  /* A prompt that another begins with. */
  const size_t part = again(x, &shorter);
  CU_ASSERT(is("rows") ? part == shorter.n - 1 : part < shorter.n);
  const tn_batch_prefixes n = counts(x, MEGABYTE);
  CU_ASSERT(n.from_store >= 2 && n.bytes > 0 && n.dropped == 0);
  if (is("rows")) CU_ASSERT_EQUAL(n.from_slots, 2); /* the fourth, and what is shorter: the slot has it */
  tn_batch_destroy(x);
  tn_lm_destroy(lm);
}

/* Clients that begin with one system prompt at the same time: it runs once. */
static void test_shared(void) {
  enum { CLIENTS = 4 };
  tn_lm *lm = load();
  text t[CLIENTS];
  kit_sink *s = calloc(CLIENTS, sizeof *s);
  uint32_t slot[CLIENTS], running = 1;
  size_t cached[CLIENTS], ran = 0;
  CU_ASSERT_FATAL(s != NULL);
  for (uint32_t i = 0; i < CLIENTS; i++) {
    t[i] = compose(3, 100, i, 5 + i);
    alone(lm, &t[i]);
  }
  tn_batch *b = make(lm, CLIENTS, 16, MEGABYTE);
  for (uint32_t i = 0; i < CLIENTS; i++) slot[i] = start(b, &t[i], &s[i]);
  while (running) CU_ASSERT_EQUAL_FATAL(tn_batch_step(b, &running, NULL), TN_OK);
  for (uint32_t i = 0; i < CLIENTS; i++) {
    tn_gen_result r = {.h = TN_API_HDR(tn_gen_result)};
    CU_ASSERT_EQUAL(tn_batch_result(b, slot[i], &r, &cached[i], NULL), TN_OK);
    CU_ASSERT_EQUAL(memcmp(s[i].ids, t[i].said, sizeof t[i].said), 0);
    ran += t[i].n - cached[i];
  }
  CU_ASSERT_EQUAL(cached[0], 0);
  if (is("rows")) {
    CU_ASSERT_EQUAL(ran, 100 + 5 + 6 + 7 + 8);
  } else { /* the first that is alike runs all once more, and leaves what goes on there */
    CU_ASSERT(cached[2] == 100 && cached[3] == 100);
  }
  tn_batch_destroy(b);
  free(s);
  tn_lm_destroy(lm);
}

/* Texts with beginnings in common come at random; nothing is ever said otherwise, and the bound holds. */
static void mix(tn_lm *lm, uint32_t slots, int64_t chunk, uint64_t limit, uint64_t *found, uint64_t *dropped) {
  static const size_t systems[SYSTEMS] = {33, 64, 90, 31, 70};
  tn_batch *b = make(lm, slots, chunk, limit);
  uint32_t state = 5;
  for (int i = 0; i < ROUNDS; i++) {
    state = state * 1664525u + 1013904223u;
    const uint32_t which = (state >> 8) % SYSTEMS, own = (state >> 12) % 7;
    text t = compose(which, systems[which] - (state >> 16) % 3, own, (state >> 20) % 30 + 1);
    alone(lm, &t);
    (void)again(b, &t);
    (void)counts(b, limit);
  }
  const tn_batch_prefixes n = counts(b, limit);
  *found = n.from_store;
  *dropped = n.dropped;
  tn_batch_destroy(b);
}

static void test_mix(void) {
  tn_lm *lm = load();
  uint64_t found, dropped;
  mix(lm, 1, 16, 64 * MEGABYTE, &found, &dropped);
  CU_ASSERT(found > ROUNDS / 8 && dropped == 0);
  mix(lm, 2, 7, 64 * MEGABYTE, &found, &dropped);
  CU_ASSERT(found > 0 && dropped == 0);
  tn_batch *b = make(lm, 1, 16, 64 * MEGABYTE);
  const text t = compose(0, 64, 0, 0);
  kit_sink *s = calloc(1, sizeof *s);
  CU_ASSERT_FATAL(s != NULL);
  (void)run(b, &t, s);
  const text u = compose(1, 3, 0, 1);
  (void)run(b, &u, s); /* the first one is kept now: two pages and a bit */
  const uint64_t few = counts(b, 64 * MEGABYTE).bytes;
  free(s);
  tn_batch_destroy(b);
  mix(lm, 2, 16, 3 * few, &found, &dropped);
  CU_ASSERT(dropped > 0);
  mix(lm, 2, 16, few / 2, &found, &dropped);
  mix(lm, 2, 16, 100, &found, &dropped); /* no page fits */
  CU_ASSERT(found == 0 && dropped == 0);
  tn_lm_destroy(lm);
}

enum { TEXTS = 3, LONG = 60 };

/* Texts that run together, with guesses: how many of those came. */
static uint64_t say(tn_lm *lm, uint32_t flags, uint32_t lookup, kit_sink *s) {
  const tn_batch_opts o = {.h = TN_API_HDR(tn_batch_opts), .slots = TEXTS, .flags = flags, .chunk = 16, .context = 200};
  tn_batch_guesses g = {.h = TN_API_HDR(tn_batch_guesses)};
  tn_gen_params p = kit_greedy(LONG);
  tn_batch *b = NULL;
  uint32_t slot, running = 1;
  p.flags |= TN_GEN_IGNORE_EOS;
  p.lookup = lookup;
  CU_ASSERT_EQUAL_FATAL(tn_batch_create(lm, &o, &b, NULL), TN_OK);
  kit_untimed(b);
  CU_ASSERT_EQUAL(tn_batch_draft(b, lm, 4, NULL), is("states") && !flags ? TN_E_UNSUPPORTED : TN_OK);
  CU_ASSERT_EQUAL(tn_batch_draft(b, NULL, 0, NULL), TN_OK);
  for (uint32_t i = 0; i < TEXTS; i++) {
    const text t = compose(i, 30 + 9 * i, i, 4);
    s[i].n = s[i].text_n = 0;
    CU_ASSERT_EQUAL_FATAL(tn_batch_start(b, t.ids, t.n, &p, kit_take, &s[i], &slot, NULL), TN_OK);
  }
  while (running) CU_ASSERT_EQUAL_FATAL(tn_batch_step(b, &running, NULL), TN_OK);
  CU_ASSERT_EQUAL(tn_batch_guess_counts(b, TN_BATCH_ALL, &g, NULL), TN_OK);
  tn_batch_destroy(b);
  return g.tried ? g.came + 1 : 0;
}

/* Caches that are rings go back as far as a step; a state of fixed size does not, and is run again. */
static void test_guesses(void) {
  tn_lm *lm = load();
  kit_sink *plain = calloc(2 * TEXTS, sizeof *plain), *got = plain + TEXTS;
  CU_ASSERT_FATAL(plain != NULL);
  CU_ASSERT_EQUAL(say(lm, 0, 0, plain), 0);
  for (uint32_t flags = 0; flags <= TN_BATCH_EXACT; flags++) {
    const uint64_t came = say(lm, flags, 12, got);
    CU_ASSERT(is("states") && !flags ? came == 0 : is("states") ? came > 0 : came > 4);
    for (int i = 0; i < TEXTS; i++)
      CU_ASSERT(got[i].n == LONG && memcmp(got[i].ids, plain[i].ids, LONG * sizeof *plain->ids) == 0);
  }
  free(plain);
  tn_lm_destroy(lm);
}

/* What a lost device does to a step: it fails, and no slot has any position left. */
static void lose_all(tn_batch *b) {
  for (uint32_t row = 0; row <= b->n; row++)
    CU_ASSERT_EQUAL(tn_session_slot_truncate(b->session, row, 0, NULL), TN_OK);
  tn_batch_cancel(b);
  CU_ASSERT_EQUAL(tni_batch_run(b, NULL), TN_E_CANCELLED);
  tni_batch_go_on(b);
}

/* A text that has a beginning from a slot, and waits for another prompt, when the device goes. */
static void test_lost(void) {
  tn_lm *lm = load();
  text first = compose(1, 70, 1, 0), longer = compose(2, 45, 2, 60), waits = compose(1, 70, 3, 12);
  kit_sink *s = calloc(2, sizeof *s);
  uint32_t running = 1;
  size_t cached = 1;
  tn_gen_result r = {.h = TN_API_HDR(tn_gen_result)};
  CU_ASSERT_FATAL(s != NULL);
  alone(lm, &first);
  alone(lm, &longer);
  alone(lm, &waits);
  tn_batch *b = make(lm, 2, 16, 0);
  (void)again(b, &first);
  (void)start(b, &longer, &s[0]);
  const uint32_t slot = start(b, &waits, &s[1]);
  if (is("rows")) CU_ASSERT_EQUAL(b->slots[slot].cached, 70);
  CU_ASSERT_EQUAL_FATAL(tn_batch_step(b, &running, NULL), TN_OK);
  lose_all(b);
  while (running) CU_ASSERT_EQUAL_FATAL(tn_batch_step(b, &running, NULL), TN_OK);
  CU_ASSERT_EQUAL(memcmp(s[0].ids, longer.said, sizeof longer.said), 0);
  CU_ASSERT_EQUAL(memcmp(s[1].ids, waits.said, sizeof waits.said), 0);
  CU_ASSERT_EQUAL(tn_batch_result(b, slot, &r, &cached, NULL), TN_OK);
  CU_ASSERT_EQUAL(cached, 0);
  tn_batch_destroy(b);
  free(s);
  tn_lm_destroy(lm);
}

static void test_refused(void) {
  tn_lm *lm = load();
  tn_batch *b = make(lm, 1, 0, 0);
  tn_batch_prefixes c = {.h = TN_API_HDR(tn_batch_prefixes)};
  tn_error err;
  tn_error_init(&err);
  CU_ASSERT_EQUAL(tn_batch_prefix_counts(NULL, &c, &err), TN_E_INVALID);
  CU_ASSERT_EQUAL(tn_batch_prefix_counts(b, NULL, &err), TN_E_INVALID);
  c.h.size = 3;
  CU_ASSERT_EQUAL(tn_batch_prefix_counts(b, &c, &err), TN_E_INVALID);
  tn_batch_destroy(b);
  tn_lm_destroy(lm);
}

int main(int argc, char **argv) {
  const int ready = kit_begin();
  if (ready) return ready;
  if (argc > 3) {
    vocab = (uint32_t)atoi(argv[1]);
    kind = argv[2];
    folder = argv[3];
  }
  CU_initialize_registry();
  CU_pSuite s = CU_add_suite("beginnings", NULL, NULL);
  CU_add_test(s, "come back", test_comes_back);
  CU_add_test(s, "of four at once", test_shared);
  CU_add_test(s, "at random, under a bound", test_mix);
  CU_add_test(s, "guesses", test_guesses);
  CU_add_test(s, "a device that is lost", test_lost);
  CU_add_test(s, "refused", test_refused);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failed = CU_get_number_of_failures();
  CU_cleanup_registry();
  tn_runtime_destroy(kit_rt);
  return failed != 0;
}
