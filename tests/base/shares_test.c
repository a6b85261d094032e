/* SPDX-License-Identifier: Apache-2.0
 *
 * Forks in virtual time: workers of given speeds take runs, and the one that is free first takes the next. Counted in
 * pieces, so that the machine and its load do not matter.
 */
#include <math.h>
#include <string.h>

#include "base_test.h"
#include "runtime/base/shares.h"

enum { MOST = 8 };

typedef struct cores {
  uint32_t n;
  double speed[MOST];
} cores;

typedef struct outcome {
  double time; /* of the fork, in pieces of a worker at full speed */
  double wait; /* of the others for the last, in pieces of the last; 0 if that is as fast as any */
  uint32_t done[MOST];
  uint32_t pieces; /* all that were done */
} outcome;

static int64_t first_free(const cores *c, const double *free_at, const bool *gone) {
  int64_t w = -1;
  for (uint32_t i = 0; i < c->n; i++)
    if (!gone[i] && (w < 0 || free_at[i] < free_at[w])) w = i;
  return w;
}

/* As pool.c does: who gets none is gone, but for the caller (0), which stays while there is something left. */
static outcome play_fork(tni_shares *s, const cores *c, uint32_t pieces) {
  outcome o = {.time = 0};
  double free_at[MOST] = {0}, before = 0;
  uint32_t last_of = 0;
  bool gone[MOST] = {0};
  tni_shares_begin(s, pieces);
  for (int64_t w; (w = first_free(c, free_at, gone)) >= 0;) {
    uint32_t first, last;
    if (!tni_shares_take(s, (uint32_t)w, false, &first, &last)) {
      gone[w] = true;
      continue;
    }
    o.done[w] += last - first;
    o.pieces += last - first;
    free_at[w] += (last - first) / c->speed[w];
  }
  for (uint32_t i = 0; i < c->n; i++) {
    if (free_at[i] > free_at[last_of]) last_of = i;
    if (s->learning) tni_shares_done(s, i, o.done[i], (int64_t)(free_at[i] * 1000));
  }
  double most = 0;
  for (uint32_t i = 0; i < c->n; i++) {
    most = fmax(most, c->speed[i]);
    if (i != last_of) before = fmax(before, free_at[i]);
  }
  tni_shares_end(s);
  o.time = free_at[last_of];
  o.wait = c->speed[last_of] < most ? (o.time - before) * c->speed[last_of] : 0;
  return o;
}

static const cores kinds[] = {{4, {1, 1, 0.5, 0.3}},         {4, {0.3, 0.5, 1, 1}},
                              {4, {1, 1, 1, 0.1}},           {8, {1, 0.8, 0.8, 0.8, 0.2, 0.2, 0.2, 0.2}},
                              {4, {1, 0.2, 0.2, 0.2}},       {2, {1, 0.07}},
                              {8, {1, 1, 1, 1, 1, 1, 1, 1}}, {3, {0.5, 0.5, 0.5}}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void learn(tni_shares *s, const cores *c) {
  for (int i = 0; i < 300; i++) (void)play_fork(s, c, 257);
}

/* Nobody waits for more than one piece, and forks take what the speeds give, up to the pieces at the end. */
static void test_wait(void) {
  static const uint32_t pieces[] = {1, 2, 3, 4, 7, 8, 16, 33, 64, 250, 1024, 5000};
  for (size_t k = 0; k < KINDS; k++) {
    tni_share of[MOST];
    tni_shares s;
    double sum = 0;
    tni_shares_init(&s, of, kinds[k].n);
    learn(&s, &kinds[k]);
    for (uint32_t i = 0; i < kinds[k].n; i++) sum += kinds[k].speed[i];
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
      tni_shares now = s;
      tni_share copies[MOST];
      memcpy(copies, of, sizeof copies);
      now.of = copies;
      const outcome o = play_fork(&now, &kinds[k], pieces[p]);
      const bool right = o.pieces == pieces[p] && o.wait <= 1.0001 && o.time <= pieces[p] / sum + 2.0001 / 0.3;
      if (!right)
        printf("\n    kind %zu, %u pieces: %u done in %.2f of %.2f, wait %.2f\n", k, pieces[p], o.pieces, o.time,
               pieces[p] / sum, o.wait);
      CU_ASSERT(right);
    }
  }
}

/* Few pieces are no more than what the cores can do in whole ones: two that are full take six each in the time in which
 * one at half speed takes three. */
static void test_few_pieces(void) {
  static const struct {
    cores c;
    uint32_t pieces;
    double time;
  } cases[] = {{{4, {1, 1, 0.5, 0.3}}, 16, 6},
               {{2, {1, 0.5}}, 12, 8},
               {{4, {1, 0.2, 0.2, 0.2}}, 8, 5},
               {{4, {1, 1, 0.5, 0.3}}, 4, 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tni_share of[MOST];
    tni_shares s;
    tni_shares_init(&s, of, cases[i].c.n);
    learn(&s, &cases[i].c);
    const outcome o = play_fork(&s, &cases[i].c, cases[i].pieces);
    CU_ASSERT_EQUAL(o.pieces, cases[i].pieces);
    CU_ASSERT_DOUBLE_EQUAL(o.time, cases[i].time, 1e-9);
  }
}

/* Weights are the speeds; workers that are about equal have all the same. */
static void test_learnt(void) {
  for (size_t k = 0; k < KINDS; k++) {
    tni_share of[MOST];
    tni_shares s;
    double most = 0;
    bool slow = false;
    tni_shares_init(&s, of, kinds[k].n);
    CU_ASSERT_FALSE(s.uneven);
    learn(&s, &kinds[k]);
    for (uint32_t i = 0; i < kinds[k].n; i++) most = fmax(most, kinds[k].speed[i]);
    for (uint32_t i = 0; i < kinds[k].n; i++) {
      const double want = kinds[k].speed[i] / most, got = of[i].weight / (double)TNI_SHARE_FULL;
      slow |= want < 0.55;
      CU_ASSERT(want < 0.65 || of[i].weight == TNI_SHARE_FULL);
      CU_ASSERT(want > 0.55 || fabs(got - want) < 0.02 + 0.1 * want);
    }
    CU_ASSERT_EQUAL(s.uneven, slow);
  }
}

/* A core that is fast again gets its part again, also where it had none. */
static void test_recovers(void) {
  const cores slow = {4, {1, 1, 1, 0.02}}, even = {4, {1, 1, 1, 1}};
  tni_share of[MOST];
  tni_shares s;
  tni_shares_init(&s, of, 4);
  for (int i = 0; i < 20000; i++) (void)play_fork(&s, &slow, 16);
  CU_ASSERT(of[3].weight < TNI_SHARE_FULL / 8);
  CU_ASSERT_EQUAL(play_fork(&s, &slow, 6).done[3], 0);
  for (int i = 0; i < 50000; i++) (void)play_fork(&s, &even, 16);
  CU_ASSERT_FALSE(s.uneven);
  CU_ASSERT_EQUAL(play_fork(&s, &even, 16).done[3], 4);
}

/* What the system says beforehand counts from the first fork on. */
static void test_scaled(void) {
  const cores c = {3, {1, 0.25, 0.5}};
  tni_share of[MOST];
  tni_shares s;
  tni_shares_init(&s, of, 3);
  tni_shares_scale(&s, 1, 0.25f);
  tni_shares_scale(&s, 2, 0.5f);
  CU_ASSERT(s.uneven);
  const outcome o = play_fork(&s, &c, 700);
  CU_ASSERT(o.wait <= 1);
  CU_ASSERT(o.done[0] >= 395 && o.done[0] <= 405 && o.done[1] >= 95 && o.done[1] <= 105);
  tni_shares_scale(&s, 1, 4);
  tni_shares_scale(&s, 2, 2);
  CU_ASSERT_FALSE(s.uneven);
}

/* A slow worker that is alone takes all where it must, and none of the last pieces where it need not. */
static void test_must(void) {
  tni_share of[2];
  tni_shares s;
  uint32_t first, last, done = 0;
  tni_shares_init(&s, of, 2);
  tni_shares_scale(&s, 0, 0.1f);
  tni_shares_begin(&s, 4);
  CU_ASSERT_FALSE(tni_shares_take(&s, 0, false, &first, &last));
  CU_ASSERT_TRUE(tni_shares_rest(&s));
  while (tni_shares_take(&s, 0, true, &first, &last)) {
    CU_ASSERT_EQUAL(last - first, 1);
    done += last - first;
  }
  CU_ASSERT_EQUAL(done, 4);
  CU_ASSERT_FALSE(tni_shares_rest(&s));
}

void suite_shares(void) {
  CU_pSuite s = CU_add_suite("base: shares", NULL, NULL);
  CU_add_test(s, "nobody waits for more than a piece", test_wait);
  CU_add_test(s, "few pieces", test_few_pieces);
  CU_add_test(s, "speeds are learnt", test_learnt);
  CU_add_test(s, "a core that is fast again", test_recovers);
  CU_add_test(s, "speeds said beforehand", test_scaled);
  CU_add_test(s, "who must take", test_must);
}
