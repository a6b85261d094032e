/* SPDX-License-Identifier: Apache-2.0
 *
 * Fences of items (plugin.h, tn_fence): what is told, when, and what waits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/life/engine.h"
#include "runtime/conform/life/fenced.h"

/* Values with and without bits above 32, each larger than the one before. */
static const uint64_t values[] = {
    1, 2, 1000, (UINT64_C(1) << 32) - 1, (UINT64_C(1) << 32) + 1, (UINT64_C(1) << 40) + 5};
enum { N_VALUES = sizeof values / sizeof *values, ROUNDS = 4 };

static tni_cf_sent sent_of(tni_cf_fenced *b, tni_cf_lane *l, uint32_t first, uint32_t n, const char *what) {
  return (tni_cf_sent){.b = b, .lane = l, .first = first, .n = n, .what = what};
}

static void add_wait(tni_cf_sent *s, uint32_t i, tn_fence f) { s->wait[i][s->n_waits[i]++] = f; }
static void add_signal(tni_cf_sent *s, uint32_t i, tn_fence f) { s->signal[i] = f, s->signals[i] = true; }
/* A fence of its own for item i, where the device has such. */
static void add_own_signal(tni_cf_sent *s, uint32_t i, uint64_t value) {
  if (s->b->signals) add_signal(s, i, tni_cf_fenced_word(s->b, 0, value, true));
}

static bool finish(tni_cf *cf, tni_cf_sent *s) {
  return tni_cf_fenced_join(cf, s) && tni_cf_fenced_words(cf, s->b, s->what);
}

/* --- signals ------------------------------------------------------------------------------------------------------ */

/* A word for each item. */
static bool own_words(tni_cf *cf, tni_cf_fenced *b, tni_cf_lane *l, int round) {
  tni_cf_sent s = sent_of(b, l, 0, round % 2 ? l->n : 1, "a word for each item");
  for (uint32_t i = 0; i < s.n; i++) add_own_signal(&s, i, values[((uint32_t)round + i) % N_VALUES]);
  bool ok = tni_cf_fenced_send(cf, &s);
  for (uint32_t i = 0; ok && i < s.n; i++) ok = tni_cf_fenced_right(cf, &s, i);
  return ok && finish(cf, &s);
}

/* One word for all: each item adds to it. */
static bool shared_word(tni_cf *cf, tni_cf_fenced *b, tni_cf_lane *l) {
  const tn_fence f = tni_cf_fenced_word(b, 0, values[N_VALUES - 1], true);
  bool ok = true;
  for (uint32_t at = 0; ok && at < N_VALUES;) {
    const uint32_t n = N_VALUES - at < l->n ? N_VALUES - at : at ? l->n : 1;
    tni_cf_sent s = sent_of(b, l, 0, n, "one word for several items");
    for (uint32_t i = 0; i < n; i++) add_signal(&s, i, f), s.signal[i].value = values[at + i];
    b->largest[b->n_words - 1] = values[at + n - 1];
    ok = tni_cf_fenced_send(cf, &s);
    for (uint32_t i = 0; ok && i < n; i++) ok = tni_cf_fenced_right(cf, &s, i);
    ok = ok && finish(cf, &s);
    at += n;
  }
  return ok;
}

/* --- waits -------------------------------------------------------------------------------------------------------- */

/* One item that waits for `n` words, opened in this order; `past` more are over before it comes. */
static bool waits_for(tni_cf *cf, tni_cf_fenced *b, tni_cf_lane *l, uint32_t n, uint32_t past, bool backwards) {
  char what[96];
  snprintf(what, sizeof what, "an item that waits for %u words, and %u that are past their values", n, past);
  tni_cf_sent s = sent_of(b, l, 0, 1, what);
  for (uint32_t k = 0; k < past; k++) add_wait(&s, 0, tni_cf_fenced_word(b, values[k + 3] + k, values[k + 3], false));
  for (uint32_t k = 0; k < n; k++) add_wait(&s, 0, tni_cf_fenced_word(b, 0, values[N_VALUES - 1 - k], false));
  add_own_signal(&s, 0, 7);
  bool ok = tni_cf_fenced_send(cf, &s);
  for (uint32_t k = 0; ok && k < n; k++) {
    const tn_fence *f = &s.wait[0][past + (backwards ? n - 1 - k : k)];
    ok = tni_cf_fenced_held(cf, &s, 0, k ? "each word that it waits for has its value" : "its word has its value");
    /* More in its lower half, and less in all. */
    if (ok && f->value >> 32) {
      tni_cf_fenced_store(b, f, UINT64_C(0xffffffff));
      ok = tni_cf_fenced_held(cf, &s, 0, "all 64 bits of its word have their value");
    }
    tni_cf_fenced_store(b, f, k % 2 ? f->value + 3 : f->value);
  }
  return ok && tni_cf_fenced_right(cf, &s, 0) && finish(cf, &s);
}

/* What comes after a held item on its engine is held too. */
static bool in_order(tni_cf *cf, tni_cf_fenced *b, tni_cf_lane *l) {
  tni_cf_sent s = sent_of(b, l, 0, l->n, "items after one that waits, on its engine");
  add_wait(&s, 0, tni_cf_fenced_word(b, 0, 9, false));
  for (uint32_t i = 0; i < l->n; i++) add_own_signal(&s, i, 3 + i);
  bool ok = tni_cf_fenced_send(cf, &s);
  for (uint32_t i = 0; ok && i < l->n; i++)
    ok = tni_cf_fenced_held(cf, &s, i, "the first has its word: an engine is in order");
  tni_cf_fenced_store(b, &s.wait[0][0], 9);
  for (uint32_t i = 0; ok && i < l->n; i++) ok = tni_cf_fenced_right(cf, &s, i);
  return ok && finish(cf, &s);
}

/* Items [at, n) of one submission, each with a word of its own; they are stored one after the other. */
static bool each_waits(tni_cf *cf, tni_cf_fenced *b, tni_cf_lane *l, uint32_t at) {
  tni_cf_sent s = sent_of(b, l, 0, l->n, at ? "later items of a submission wait" : "each item of a submission waits");
  for (uint32_t i = 0; i < s.n; i++) {
    if (i >= at) add_wait(&s, i, tni_cf_fenced_word(b, 0, values[i], false));
    add_own_signal(&s, i, 3 + i);
  }
  bool ok = tni_cf_fenced_send(cf, &s);
  for (uint32_t i = 0; ok && i < s.n; i++) {
    ok = i < at || tni_cf_fenced_held(cf, &s, i, "its own word has its value, though those before it are over");
    if (i >= at) tni_cf_fenced_store(b, &s.wait[i][0], values[i]);
    ok = ok && tni_cf_fenced_right(cf, &s, i);
  }
  return ok && finish(cf, &s);
}

/* An item with a word of its own is submitted while another is held. */
static bool comes_while_held(tni_cf *cf, tni_cf_fenced *b, tni_cf_lane *l) {
  tni_cf_sent one = sent_of(b, l, 0, 1, "an item that waits, and another is submitted after it"),
              two = sent_of(b, l, 1, 1, "an item that waits, submitted after another that waits");
  add_wait(&one, 0, tni_cf_fenced_word(b, 0, 4, false));
  add_wait(&two, 0, tni_cf_fenced_word(b, 0, 6, false));
  add_own_signal(&one, 0, 1);
  add_own_signal(&two, 0, 2);
  bool ok = tni_cf_fenced_send(cf, &one) && tni_cf_fenced_send(cf, &two) &&
            tni_cf_fenced_held(cf, &one, 0, "its word has its value");
  tni_cf_fenced_store(b, &one.wait[0][0], 4);
  ok = ok && tni_cf_fenced_right(cf, &one, 0) &&
       tni_cf_fenced_held(cf, &two, 0, "its own word has its value, though the item before it is over");
  tni_cf_fenced_store(b, &two.wait[0][0], 6);
  return ok && tni_cf_fenced_right(cf, &two, 0) && finish(cf, &one) && finish(cf, &two);
}

/* An item of one engine waits for one of the other, which is submitted after it. */
static bool across(tni_cf *cf, tni_cf_fenced *b, uint32_t waiter) {
  const tn_fence f = tni_cf_fenced_word(b, 0, 5, true);
  tni_cf_sent w = sent_of(b, &b->lane[waiter], 0, 1, "an item that waits for another engine's, submitted before it"),
              s = sent_of(b, &b->lane[!waiter], 0, 1, w.what);
  add_wait(&w, 0, f);
  add_own_signal(&w, 0, 1);
  add_signal(&s, 0, f);
  return tni_cf_fenced_send(cf, &w) && tni_cf_fenced_held(cf, &w, 0, "the other engine's item is there") &&
         tni_cf_fenced_send(cf, &s) && tni_cf_fenced_right(cf, &s, 0) && tni_cf_fenced_right(cf, &w, 0) &&
         finish(cf, &w) && finish(cf, &s);
}

/* --- ends --------------------------------------------------------------------------------------------------------- */

/* Items whose words never come, told to end: the first by its ticket, or all of the engine. */
static bool told_to_end(tni_cf *cf, tni_cf_fenced *b, tni_cf_lane *l, bool all) {
  tn_device *d = b->h.device;
  tni_cf_sent s = sent_of(b, l, 0, all ? l->n : 1, "cancel of items that wait");
  s.allowed = TN_E_CANCELLED; /* of an engine that blocks */
  for (uint32_t i = 0; i < s.n; i++) {
    add_wait(&s, i, tni_cf_fenced_word(b, 0, 1, false));
    add_own_signal(&s, i, values[i + 3]);
  }
  bool ok = tni_cf_fenced_send(cf, &s) && tni_cf_fenced_held(cf, &s, 0, "its word has its value");
  if (ok) d->cancel(d, l->engine, all ? NULL : s.ticket[0]->handle);
  for (uint32_t i = 0; ok && i < s.n; i++)
    ok = tni_cf_fenced_ended(cf, &s, i, TN_E_CANCELLED, false, "was told to end while it waited");
  return ok && finish(cf, &s) && own_words(cf, b, l, 1);
}

/* The second of two items that share a word is told to end while the first waits: its value is the first one's too, and
 * may not be there before the first is over. */
static bool second_told_to_end(tni_cf *cf, tni_cf_fenced *b, tni_cf_lane *l) {
  tn_device *d = b->h.device;
  tni_cf_sent s = sent_of(b, l, 0, 2, "cancel of the second of two items that tell one word");
  const tn_fence told = tni_cf_fenced_word(b, 0, 8, true);
  for (uint32_t i = 0; i < s.n; i++) {
    add_wait(&s, i, tni_cf_fenced_word(b, 0, 1, false));
    add_signal(&s, i, told), s.signal[i].value = 4 * (i + 1);
  }
  bool ok = tni_cf_fenced_send(cf, &s);
  if (ok) d->cancel(d, l->engine, s.ticket[1]->handle);
  ok = ok && tni_cf_fenced_held(cf, &s, 0, "its word has its value");
  tni_cf_fenced_store(b, &s.wait[0][0], 1);
  ok = ok && tni_cf_fenced_right(cf, &s, 0) &&
       tni_cf_fenced_ended(cf, &s, 1, TN_E_CANCELLED, false, "was told to end while it waited");
  return ok && finish(cf, &s);
}

/* The device is lost under the first of them; the last waits for what never comes. */
static bool lost_under(tni_cf *cf, tni_cf_fenced *b, tni_cf_lane *l, bool wait) {
  tni_cf_sent s = sent_of(b, l, 0, l->n, wait ? "the device is lost while an item waits" : "the device is lost");
  s.allowed = TN_E_DEVICE_LOST;
  for (uint32_t i = 0; i < s.n; i++) add_own_signal(&s, i, values[i + 3]);
  if (wait) add_wait(&s, s.n - 1, tni_cf_fenced_word(b, 0, 1, false));
  bool ok = tni_cf_fenced_send(cf, &s);
  for (uint32_t i = 0; ok && i < s.n; i++)
    ok = tni_cf_fenced_ended(cf, &s, i, TN_E_DEVICE_LOST, !wait || i + 1 < s.n, "a lost device still has");
  return ok && finish(cf, &s);
}

/* A life in which the first item after those that make the lanes is lost. */
static void ask_lost(tni_cf *cf, uint32_t items, uint32_t lane, bool wait) {
  tni_cf_fenced *b = calloc(1, sizeof *b);
  char option[32];
  snprintf(option, sizeof option, "fault=lost:%u", items + 1);
  if (b && tni_cf_fenced_open(cf, b, &(tni_cf_ask){.option = tni_arena_strdup(cf->arena, option)})) {
    fprintf(stderr, "%s, engine %u\n", option, b->lane[lane].engine);
    (void)lost_under(cf, b, &b->lane[lane], wait && b->waits && b->lane[lane].n > 1);
    tni_cf_fenced_close(cf, b);
  }
  free(b);
}

/* --- the case ----------------------------------------------------------------------------------------------------- */

static bool ask_waits(tni_cf *cf, tni_cf_fenced *b, tni_cf_lane *l) {
  bool ok = waits_for(cf, b, l, 1, 0, false) && waits_for(cf, b, l, 0, 2, false) && waits_for(cf, b, l, 1, 2, false) &&
            waits_for(cf, b, l, 2, 0, false) && waits_for(cf, b, l, 3, 1, true);
  const bool several = l->n > 1, cancels = b->h.device->cancel != NULL;
  ok = ok && (!several || (in_order(cf, b, l) && each_waits(cf, b, l, 0) && each_waits(cf, b, l, 1) &&
                           each_waits(cf, b, l, l->n - 1)));
  ok = ok && (!several || tni_cf_blocking(&b->h, l->engine) || comes_while_held(cf, b, l));
  ok = ok && (!cancels || (told_to_end(cf, b, l, false) && told_to_end(cf, b, l, true)));
  ok = ok && (!cancels || !several || !b->signals || second_told_to_end(cf, b, l));
  return ok;
}

static void ask_all(tni_cf *cf, tni_cf_fenced *b) {
  bool ok = true;
  for (uint32_t k = 0; ok && k < b->n_lanes; k++) {
    tni_cf_lane *l = &b->lane[k];
    for (int round = 0; ok && b->signals && round < ROUNDS; round++) ok = own_words(cf, b, l, round);
    ok = ok && (!b->signals || shared_word(cf, b, l));
    ok = ok && (!b->waits || ask_waits(cf, b, l));
  }
  for (uint32_t w = 0; ok && b->n_lanes > 1 && b->waits && b->signals && w < 2; w++) ok = across(cf, b, w);
}

static void ask_fences(tni_cf *cf, const void *arg) {
  tni_cf_fenced *b = calloc(1, sizeof *b);
  uint32_t items = 0, lanes = 0;
  bool able = false;
  (void)arg;
  if (b && tni_cf_fenced_open(cf, b, NULL)) {
    lanes = b->n_lanes;
    items = b->h.next_ticket;
    able = b->signals && tni_cf_can_lose(b->h.p.plugin);
    if (!b->waits && !b->signals)
      tni_cf_skip(cf, "its caps name no fence that is a word in memory");
    else if (!lanes)
      tni_cf_skip(cf, "no task of an engine may run by itself, and gives an output");
    else
      ask_all(cf, b);
    if (lanes && cf->verdict == TNI_CF_PASS)
      tni_cf_note(cf, "%u of %u engines; waits: %s, signals: %s, cancel: %s, lost: %s", lanes, b->h.caps->n_engines,
                  b->waits ? "yes" : "no", b->signals ? "yes" : "no", b->h.device->cancel ? "yes" : "no",
                  able ? "yes" : "no");
    tni_cf_fenced_close(cf, b);
  }
  free(b);
  for (uint32_t k = 0; able && k < 2 * lanes && cf->verdict == TNI_CF_PASS; k++) ask_lost(cf, items, k / 2, k % 2);
}

void tni_cf_life_fence_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"life/fences", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_fences, NULL, 60000});
}
