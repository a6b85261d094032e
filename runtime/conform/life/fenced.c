/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/life/fenced.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/conform/life/engine.h"
#include "runtime/conform/observe/observe.h"

enum { ROWS = 96, WAIT_S = 10, HOLD_MS = 30, LINE = 64, PAGE = 4096, FILL = 0xa7, GUARD = 0x5b };

/* --- words -------------------------------------------------------------------------------------------------------- */

/* Word k is the first of its line; the line after it is nobody's. */
static uint64_t *word_at(const tni_cf_fenced *b, uint32_t k) {
  return (uint64_t *)(void *)(b->page + (size_t)(2 * k + 1) * LINE);
}
static size_t page_bytes(void) { return (((size_t)2 * TNI_CF_WORDS + 2) * LINE + PAGE - 1) / PAGE * PAGE; }

static bool make_words(tni_cf_fenced *b) {
  void *p = mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  b->page = p == MAP_FAILED ? NULL : p;
  if (b->page) memset(b->page, GUARD, page_bytes());
  return b->page != NULL;
}

void tni_cf_fenced_shut(tni_cf_fenced *b) {
  tni_cf_loan_gone(b->page, page_bytes(),
                   "the word of a fence whose items are over, or whose device is closed (plugin.h, tn_fence)");
  (void)mprotect(b->page, page_bytes(), PROT_NONE);
}

static uint32_t index_of(const tni_cf_fenced *b, const tn_fence *f) {
  return (uint32_t)(((uint8_t *)f->word - b->page) / LINE / 2);
}

tn_fence tni_cf_fenced_word(tni_cf_fenced *b, uint64_t at, uint64_t value, bool told) {
  const uint32_t k = b->n_words < TNI_CF_WORDS - 1 ? b->n_words++ : b->n_words;
  __atomic_store_n(word_at(b, k), at, __ATOMIC_RELEASE);
  b->stored[k] = at;
  b->told[k] = told;
  b->largest[k] = value;
  return (tn_fence){.h = TN_HDR(tn_fence), .kind = TN_FENCE_WORD, .word = word_at(b, k), .value = value};
}

void tni_cf_fenced_store(tni_cf_fenced *b, const tn_fence *f, uint64_t value) {
  b->stored[index_of(b, f)] = value;
  __atomic_store_n(f->word, value, __ATOMIC_RELEASE);
}

uint64_t tni_cf_fenced_now(const tn_fence *f) { return __atomic_load_n(f->word, __ATOMIC_ACQUIRE); }

bool tni_cf_fenced_words(tni_cf *cf, const tni_cf_fenced *b, const char *what) {
  for (size_t i = 0; i < page_bytes(); i++) {
    const size_t line = i / LINE, k = line / 2;
    if (line % 2 && k < b->n_words && i % LINE < sizeof(uint64_t)) continue;
    if (b->page[i] != GUARD)
      return tni_cf_fail(
                 cf, "%s: memory beside the word of a fence was written: a word is 8 bytes (plugin.h, tn_fence)", what),
             false;
  }
  for (uint32_t k = 0; k < b->n_words; k++) {
    const uint64_t now = __atomic_load_n(word_at(b, k), __ATOMIC_ACQUIRE);
    if (!b->told[k] && now != b->stored[k])
      return tni_cf_fail(cf, "%s: a word that items only wait for was written (plugin.h, tn_item.waits)", what), false;
    if (b->told[k] && now > b->largest[k])
      return tni_cf_fail(cf,
                         "%s: the word of a fence holds %#llx, and the largest value of its items is %#llx: an item "
                         "stores its fence's value (plugin.h, tn_fence)",
                         what, (unsigned long long)now, (unsigned long long)b->largest[k]),
             false;
  }
  return true;
}

/* --- lanes -------------------------------------------------------------------------------------------------------- */

static bool writes_later(const tn_program_info *f, uint32_t t, uint32_t slot) {
  for (uint32_t k = t + 1; k < f->n_tasks; k++)
    for (uint32_t u = 0; u < f->tasks[k]->n_uses; u++)
      if (f->tasks[k]->uses[u].slot == slot && f->tasks[k]->uses[u].access & (TN_WRITE | TN_APPEND)) return true;
  return false;
}

/* Whether task t may run again after a whole step, and gives an output; its slots go to l. */
static bool stands_alone(tni_cf_lane *l, const tni_cf_rig *rig, uint32_t t) {
  const tn_program_info *f = rig->d.info;
  const tn_task *k = f->tasks[t];
  l->n_out = 0;
  for (uint32_t u = 0; u < k->n_uses; u++) {
    const tn_use *use = &k->uses[u];
    if (use->access & TN_APPEND || (use->access & TN_READ && use->access & TN_WRITE)) return false;
    if (writes_later(f, t, use->slot)) return false;
    if (use->access & TN_WRITE && f->slots[use->slot]->kind == TN_SLOT_OUTPUT && rig->i.slot[use->slot].bytes &&
        l->n_out < TNI_CF_ITEM_OUTS)
      l->out[l->n_out++] = use->slot;
  }
  return l->n_out > 0;
}

static bool has_lane(const tni_cf_fenced *b, uint32_t engine) {
  for (uint32_t k = 0; k < b->n_lanes; k++)
    if (b->lane[k].engine == engine) return true;
  return false;
}

/* Where an output lies for the CPU: the address that it has all the time, or a mapping, to be given back (*mapped). */
static uint8_t *output_at(tni_cf_lane *l, uint32_t i, uint32_t o, uint32_t access, bool *mapped) {
  tni_cf_memory *m = &l->rig[i].i.slot[l->out[o]];
  uint8_t *at = NULL;
  *mapped = false;
  if (!m->buffer) return m->host.p;
  if (m->mapped) return m->mapped + (m->offset - m->base);
  *mapped = tni_cf_inst_look(&l->rig[i].i, l->out[o], access, &at);
  return *mapped ? at : NULL;
}

static bool output_back(tni_cf *cf, tni_cf_lane *l, uint32_t i, uint32_t o, bool mapped) {
  if (!mapped || tni_cf_inst_release(&l->rig[i].i, l->out[o])) return true;
  return tni_cf_fail(cf, "%s", l->rig[i].i.why), false;
}

static bool keep_results(tni_cf *cf, tni_cf_lane *l, uint32_t i) {
  if (!tni_cf_rig_run(&l->rig[i], 0x5b, TNI_CF_INLINE)) return tni_cf_fail(cf, "%s", l->rig[i].why), false;
  for (uint32_t o = 0; o < l->n_out; o++) {
    bool mapped;
    const uint64_t bytes = l->rig[i].i.slot[l->out[o]].bytes;
    const uint8_t *at = output_at(l, i, o, TN_READ, &mapped);
    l->want[i][o] = at ? tni_arena_memdup(cf->arena, at, bytes, 64) : NULL;
    if (!l->want[i][o]) return tni_cf_fail(cf, "no memory for results, or no mapping: %s", l->rig[i].i.why), false;
    if (!output_back(cf, l, i, o, mapped)) return false;
  }
  return true;
}

static bool lane_fill(tni_cf *cf, tni_cf_lane *l, const tni_cf_rig *rig) {
  const uint32_t depth = rig->h->caps->engines[l->engine - 1]->depth;
  const uint32_t most = depth && depth < TNI_CF_LANE_ITEMS ? depth : TNI_CF_LANE_ITEMS;
  for (l->n = 0; l->n < most; l->n++) {
    tni_cf_rng r = tni_cf_rng_of(cf, 100 * l->engine + l->n);
    if (l->n && !tni_cf_rig_share(&l->rig[l->n], &l->rig[0], &r)) return tni_cf_fail(cf, "%s", l->rig[l->n].why), false;
    if (!keep_results(cf, l, l->n)) return false;
  }
  return true;
}

/* The claimed graph as a lane of an engine that has none yet. */
static bool try_lane(tni_cf *cf, tni_cf_fenced *b, const tni_cf_claimed *c) {
  tni_cf_lane *l = &b->lane[b->n_lanes];
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  if (!tni_cf_rig_claim(&l->rig[0], &b->h, tni_cf_graph_find(c->graph), c->phase, &r) ||
      !tni_cf_rig_prepare(&l->rig[0], ROWS, &r))
    return tni_cf_fail(cf, "%s: %s", c->graph, l->rig[0].why), false;
  const tn_program_info *f = l->rig[0].d.info;
  for (uint32_t t = 0; t < f->n_tasks; t++) {
    l->engine = f->tasks[t]->engine;
    l->task = t;
    if (!l->engine || l->engine > b->h.caps->n_engines || has_lane(b, l->engine) || !stands_alone(l, &l->rig[0], t))
      continue;
    b->n_lanes++;
    return lane_fill(cf, l, &l->rig[0]);
  }
  tni_cf_rig_finish(&l->rig[0]);
  return true;
}

/* Products first, large ones before all: their work takes a while. */
static bool find_lanes(tni_cf *cf, tni_cf_fenced *b) {
  const tni_cf_listing *list = cf->listing;
  const uint32_t most = b->h.caps->n_engines < TNI_CF_LANES ? b->h.caps->n_engines : TNI_CF_LANES;
  bool ok = true;
  for (int pass = 0; ok && pass < 2; pass++)
    for (uint32_t i = 0; ok && i < list->n_claimed && b->n_lanes < most; i++) {
      const tni_cf_claimed *c = &list->claimed[i];
      if (c->verdict == TN_YES && (pass == 0) == !strcmp(c->graph, "matmul/large")) ok = try_lane(cf, b, c);
    }
  return ok;
}

bool tni_cf_fenced_open(tni_cf *cf, tni_cf_fenced *b, const tni_cf_ask *ask) {
  const uint32_t word = 1u << TN_FENCE_WORD;
  if (!tni_cf_host_open(cf, &b->h, ask)) return false;
  const tn_caps *caps = b->h.caps;
  b->waits = TN_HAS(caps, tn_caps, wait_fences) && caps->wait_fences & word;
  b->signals = TN_HAS(caps, tn_caps, signal_fences) && caps->signal_fences & word;
  if (!make_words(b)) return tni_cf_fail(cf, "no memory for fences"), tni_cf_fenced_close(cf, b), false;
  if (!caps->n_engines)
    return tni_cf_skip(cf, "it has no engines: its tasks run on the CPU"), tni_cf_fenced_close(cf, b), false;
  if (find_lanes(cf, b)) return true;
  tni_cf_fenced_close(cf, b);
  return false;
}

void tni_cf_fenced_close(tni_cf *cf, tni_cf_fenced *b) {
  if (cf->verdict == TNI_CF_FAIL) tni_cf_leave();
  for (uint32_t k = b->n_lanes + 1; k-- > 0;)
    for (uint32_t i = TNI_CF_LANE_ITEMS; k < TNI_CF_LANES && i-- > 0;)
      if (b->lane[k].rig[i].h) tni_cf_rig_finish(&b->lane[k].rig[i]);
  tni_cf_host_close(cf, &b->h);
  if (b->page) (void)munmap(b->page, page_bytes());
  b->page = NULL;
}

/* --- items -------------------------------------------------------------------------------------------------------- */

static bool fill_outputs(tni_cf *cf, tni_cf_lane *l, uint32_t i) {
  for (uint32_t o = 0; o < l->n_out; o++) {
    bool mapped;
    uint8_t *at = output_at(l, i, o, TN_WRITE, &mapped);
    if (!at) return tni_cf_fail(cf, "%s", l->rig[i].i.why), false;
    memset(at, FILL, l->rig[i].i.slot[l->out[o]].bytes);
    if (!output_back(cf, l, i, o, mapped)) return false;
  }
  return true;
}

static void *submit_sent(void *arg) {
  tni_cf_sent *s = arg;
  tni_cf_work w[TNI_CF_LANE_ITEMS];
  tni_cf_fences f[TNI_CF_LANE_ITEMS];
  const tn_fence *list[TNI_CF_LANE_ITEMS][TNI_CF_ITEM_WAITS];
  tn_run run = tni_cf_host_run(&(tni_cf_lent){.split = TNI_CF_INLINE});
  for (uint32_t i = 0; i < s->n; i++) {
    for (uint32_t k = 0; k < s->n_waits[i]; k++) list[i][k] = &s->wait[i][k];
    w[i] = (tni_cf_work){&s->lane->rig[s->first + i].i, s->lane->task};
    f[i] = (tni_cf_fences){s->n_waits[i] ? list[i] : NULL, s->n_waits[i], s->signals[i] ? &s->signal[i] : NULL};
  }
  s->st = tni_cf_inst_submit_fenced(w, f, s->n, &run, s->ticket);
  atomic_store(&s->over, true);
  return NULL;
}

static bool has_begun(const tni_cf_sent *s) { /* a blocking engine's submit has its tickets */
  for (uint32_t i = 0; i < s->n; i++)
    if (!__atomic_load_n(&s->ticket[i], __ATOMIC_ACQUIRE)) return false;
  return true;
}

bool tni_cf_fenced_send(tni_cf *cf, tni_cf_sent *s) {
  for (uint32_t i = 0; i < s->n; i++) {
    if (!fill_outputs(cf, s->lane, s->first + i)) return false;
    s->ticket[i] = NULL;
  }
  s->blocks = tni_cf_blocking(&s->b->h, s->lane->engine);
  atomic_store(&s->over, false);
  s->started = pthread_create(&s->thread, NULL, submit_sent, s) == 0;
  if (!s->started) return tni_cf_fail(cf, "no thread"), false;
  for (int ms = 0; ms < 1000 * WAIT_S && !atomic_load(&s->over) && !(s->blocks && has_begun(s)); ms++) tni_cf_nap_ms(1);
  if (s->blocks) return true;
  if (!atomic_load(&s->over))
    return tni_cf_fail(cf,
                       "%s: submit has not come back in %d s: an item waits in its queue, and the engine is not "
                       "flagged BLOCKING (plugin.h, tn_engine)",
                       s->what, WAIT_S),
           false;
  return tni_cf_fenced_join(cf, s);
}

bool tni_cf_fenced_join(tni_cf *cf, tni_cf_sent *s) {
  if (!s->started) return true;
  for (int ms = 0; ms < 1000 * WAIT_S && !atomic_load(&s->over); ms++) tni_cf_nap_ms(1);
  if (!atomic_load(&s->over)) return tni_cf_fail(cf, "%s: submit has not come back in %d s", s->what, WAIT_S), false;
  pthread_join(s->thread, NULL);
  s->started = false;
  if (s->st == TN_OK || s->st == s->allowed) return true;
  return tni_cf_fail(cf, "%s: a submission of %u items is refused (%s): %s", s->what, s->n, tni_status_name(s->st),
                     s->lane->rig[s->first].i.why),
         false;
}

static bool is_done(struct tni_cf_ticket *k) {
  pthread_mutex_lock(&k->lock);
  const bool done = k->done > 0;
  pthread_mutex_unlock(&k->lock);
  return done;
}

/* Whether outputs are as they were filled; those that the CPU cannot see now are passed over. */
static bool is_untouched(const tni_cf_sent *s, uint32_t i) {
  for (uint32_t o = 0; o < s->lane->n_out; o++) {
    const tni_cf_memory *m = &s->lane->rig[s->first + i].i.slot[s->lane->out[o]];
    const uint8_t *at = !m->buffer ? m->host.p : m->mapped ? m->mapped + (m->offset - m->base) : NULL;
    for (uint64_t k = 0; at && k < m->bytes; k++)
      if (at[k] != FILL) return false;
  }
  return true;
}

bool tni_cf_fenced_held(tni_cf *cf, const tni_cf_sent *s, uint32_t i, const char *by) {
  const int64_t until = tni_now_ns() + HOLD_MS * INT64_C(1000000);
  while (tni_now_ns() < until && !is_done(s->ticket[i])) tni_cf_nap_ms(1);
  if (is_done(s->ticket[i]) && s->ticket[i]->st == TN_E_CANCELLED)
    return tni_cf_fail(cf, "%s: an item is cancelled that nobody named (plugin.h, tn_device.cancel)", s->what), false;
  if (is_done(s->ticket[i]))
    return tni_cf_fail(cf, "%s: an item is done before %s: it begins after its fences (plugin.h, tn_item.waits)",
                       s->what, by),
           false;
  if (!is_untouched(s, i))
    return tni_cf_fail(cf,
                       "%s: an item has written its results before %s: it begins after its fences (plugin.h, "
                       "tn_item.waits)",
                       s->what, by),
           false;
  if (s->signals[i] && tni_cf_fenced_now(&s->signal[i]) >= s->signal[i].value)
    return tni_cf_fail(cf,
                       "%s: an item has told its fence before %s: a fence is told when the item is over (plugin.h, "
                       "tn_fence)",
                       s->what, by),
           false;
  return true;
}

/* The results as they are now. */
static bool is_right(tni_cf *cf, const tni_cf_sent *s, uint32_t i, const char *when) {
  const uint32_t at = s->first + i;
  for (uint32_t o = 0; o < s->lane->n_out; o++) {
    bool mapped;
    const uint8_t *now = output_at(s->lane, at, o, TN_READ, &mapped);
    if (!now) return tni_cf_fail(cf, "%s", s->lane->rig[at].i.why), false;
    const bool same = !memcmp(now, s->lane->want[at][o], s->lane->rig[at].i.slot[s->lane->out[o]].bytes);
    if (!output_back(cf, s->lane, at, o, mapped)) return false;
    if (!same)
      return tni_cf_fail(cf, "%s: %s, the item's results were not there, or are wrong (plugin.h, tn_fence)", s->what,
                         when),
             false;
  }
  return true;
}

/* submit has taken none of the items, as it may. */
static bool is_gone(const tni_cf_sent *s) { return atomic_load(&s->over) && s->st != TN_OK && s->st == s->allowed; }

/* Waits for the word or for done; then the word has the value. */
static bool is_told(tni_cf *cf, const tni_cf_sent *s, uint32_t i, const char *of) {
  const tn_fence *f = &s->signal[i];
  const int64_t until = tni_now_ns() + WAIT_S * INT64_C(1000000000);
  while (tni_cf_fenced_now(f) < f->value && !is_done(s->ticket[i]) && !is_gone(s) && tni_now_ns() < until)
    sched_yield();
  if (tni_cf_fenced_now(f) >= f->value || is_gone(s)) return true;
  if (is_done(s->ticket[i]))
    tni_cf_fail(
        cf,
        "%s: %s is done, and its fence has %#llx, not %#llx: it is told before done, also where the item failed "
        "or was cancelled (plugin.h, tn_fence)",
        s->what, of, (unsigned long long)tni_cf_fenced_now(f), (unsigned long long)f->value);
  else
    tni_cf_fail(cf, "%s: %s is not over in %d s: neither its fence was told nor done was called", s->what, of, WAIT_S);
  return false;
}

/* done has come once; the word had its value then. */
static bool is_answered_once(tni_cf *cf, const tni_cf_sent *s, uint32_t i, const char *of) {
  struct tni_cf_ticket *k = s->ticket[i];
  const uint32_t n = tni_cf_ticket_wait(k, WAIT_S);
  if (n != 1) return tni_cf_fail(cf, "%s: %s: done was called %u times in %d s", s->what, of, n, WAIT_S), false;
  if (k->untold)
    return tni_cf_fail(
               cf,
               "%s: when done came of %s, its fence was not told yet: the value is stored before done (plugin.h, "
               "tn_fence)",
               s->what, of),
           false;
  return true;
}

bool tni_cf_fenced_right(tni_cf *cf, tni_cf_sent *s, uint32_t i) {
  if (s->signals[i] && (!is_told(cf, s, i, "an item") || !is_right(cf, s, i, "when its fence had the value")))
    return false;
  if (!is_answered_once(cf, s, i, "an item")) return false;
  if (s->ticket[i]->st != TN_OK)
    return tni_cf_fail(cf, "%s: an item says %s: %s", s->what, tni_status_name(s->ticket[i]->st),
                       s->ticket[i]->message),
           false;
  return is_right(cf, s, i, "when done came");
}

bool tni_cf_fenced_ended(tni_cf *cf, tni_cf_sent *s, uint32_t i, tn_status st, bool or_right, const char *why) {
  char of[96];
  snprintf(of, sizeof of, "an item that %s", why);
  if (s->signals[i] && !is_told(cf, s, i, of)) return false;
  if (is_gone(s)) return true;
  if (!is_answered_once(cf, s, i, of)) return false;
  const tn_status is = s->ticket[i]->st;
  if (is == st) return true;
  if (is == TN_OK && or_right) return is_right(cf, s, i, "when it said OK");
  if (is == TN_OK)
    tni_cf_fail(cf, "%s: %s says OK, and what it waits for was never over (plugin.h, tn_item.waits)", s->what, of);
  else
    tni_cf_fail(cf, "%s: %s says %s: %s", s->what, of, tni_status_name(is), s->ticket[i]->message);
  return false;
}
