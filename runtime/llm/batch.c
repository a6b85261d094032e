/* SPDX-License-Identifier: Apache-2.0
 *
 * Several conversations at once: which slot takes a text, and what a step runs.
 *
 * A text is a chat (its tokens; where steps are shared, without a session) and the loop that samples for it (tni_gen).
 * It waits while more than one of its tokens is to be run: its prompt, a piece in each step. After that one token of it
 * is to be run, together with those of all others that are so far. How steps run is batch_run.c's.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/llm/batch.h"

/* --- life -------------------------------------------------------------------------------------------------------- */

static tn_status check_opts(const tn_lm *lm, const tn_batch_opts *o, tn_batch_opts *mine, tn_error *err) {
  tn_status st = tni_take(mine, sizeof *mine, o, "tn_batch_opts", err);
  if (st == TN_OK) st = tni_known_bits(mine->flags, TN_BATCH_EXACT, "tn_batch_opts.flags", err);
  if (st != TN_OK) return st;
  if (!o) mine->slots = 4;
  if (!mine->context) mine->context = lm->context;
  if (mine->slots < 1 || mine->slots > TN_BATCH_MOST)
    return tni_fail(err, TN_E_INVALID, "slots", "%u slots; a batch has 1 to %d", mine->slots, (int)TN_BATCH_MOST);
  if (mine->context < 1 || mine->context > lm->context)
    return tni_fail(err, TN_E_INVALID, "context", "%lld positions; the model has %lld", (long long)mine->context,
                    (long long)lm->context);
  if (mine->chunk < 0) return tni_fail(err, TN_E_INVALID, "chunk", "%lld", (long long)mine->chunk);
  if (lm->source) return tni_fail(err, TN_E_UNSUPPORTED, "batch", "the model is an encoder-decoder");
  return TN_OK;
}

tn_status tn_batch_create(tn_lm *lm, const tn_batch_opts *o, tn_batch **out, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(lm);
  TNI_NOT_NULL(out);
  tn_batch_opts mine;
  tn_status st = check_opts(lm, o, &mine, err);
  if (st != TN_OK) return st;
  tn_batch *b = calloc(1, sizeof *b);
  if (!b) return tni_fail_memory(err, "batch");
  b->lm = lm;
  __atomic_fetch_add(&lm->holders, 1, __ATOMIC_ACQ_REL);
  b->n = mine.slots;
  b->context = mine.context;
  b->chunk = mine.chunk;
  b->prefix.limit = mine.prefix_bytes;
  atomic_init(&b->cancelled, false);
  b->slots = calloc(b->n, sizeof *b->slots);
  st = b->slots ? tni_batch_open(b, !(mine.flags & TN_BATCH_EXACT), err) : tni_fail_memory(err, "batch");
  if (st != TN_OK) {
    tn_batch_destroy(b);
    return st;
  }
  *out = b;
  return TN_OK;
}

void tn_batch_destroy(tn_batch *b) {
  if (!b) return;
  for (uint32_t i = 0; b->slots && i < b->n; i++) {
    tni_gen_destroy(b->slots[i].gen);
    tn_chat_destroy(b->slots[i].c);
  }
  tni_batch_close(b);
  tni_prefix_clear(&b->prefix);
  free(b->slots);
  tni_lm_release(b->lm);
  free(b);
}

int tn_batch_shares(const tn_batch *b) { return b && b->session; }

void tn_batch_cancel(tn_batch *b) {
  if (!b) return;
  atomic_store(&b->cancelled, true);
  if (b->session) tn_session_cancel(b->session);
  for (uint32_t i = 0; !b->session && i < b->n; i++) tn_chat_cancel(b->slots[i].c);
}

/* --- texts ------------------------------------------------------------------------------------------------------- */

/* The free slot to take, and *from: the slot whose first *same tokens it goes on after. What would be lost of the
 * slot's own tokens counts: one that agrees little keeps its own for others. */
static uint32_t choose_slot(const tn_batch *b, const int32_t *ids, size_t n, uint32_t *from, size_t *same) {
  uint32_t mine = UINT32_MAX, oldest = UINT32_MAX;
  size_t best = 0;
  *from = UINT32_MAX;
  *same = 0;
  for (uint32_t i = 0; i < b->n; i++) {
    const tni_text *t = &b->slots[i];
    const size_t k = tni_text_common(t, ids, n);
    if (k > *same) {
      *same = k;
      *from = i;
    }
    if (t->used) continue;
    if (oldest == UINT32_MAX || t->left < b->slots[oldest].left) oldest = i;
    if (k && 2 * k >= t->c->fed && (mine == UINT32_MAX || k > best)) {
      mine = i;
      best = k;
    }
  }
  if (mine != UINT32_MAX && best >= *same) *from = mine;
  return mine != UINT32_MAX && best >= *same ? mine : oldest;
}

/* The slot's conversation becomes ids, of which the first t->cached are in its caches. */
static tn_status take_ids(tn_batch *b, uint32_t slot, uint32_t from, size_t same, const int32_t *ids, size_t n,
                          tn_error *err) {
  tni_text *t = &b->slots[slot];
  if (from != slot || same < t->c->fed) tni_batch_save(b, slot);
  t->cached = tni_batch_take(b, slot, 0, from, same, ids, n);
  if (!t->cached) tni_batch_forget(b, slot);
  t->c->n = t->c->fed = 0;
  const tn_status st = tni_chat_append(t->c, ids, n, err);
  if (st == TN_OK)
    t->c->fed = t->cached;
  else
    tni_batch_forget(b, slot);
  return st;
}

static tn_status check_start(const int32_t *ids, size_t n, const tn_gen_params *p, tn_error *err) {
  if (!n || !ids) return tni_fail(err, TN_E_INVALID, "ids", "there is no token to begin with");
  return p ? tni_sized(&p->h, sizeof p->h, "tn_gen_params", err) : TN_OK;
}

tn_status tn_batch_start(tn_batch *b, const int32_t *ids, size_t n, const tn_gen_params *p, tn_token_fn fn, void *user,
                         uint32_t *slot, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(b);
  TNI_NOT_NULL(slot);
  uint32_t from;
  size_t same;
  tn_status st = check_start(ids, n, p, err);
  if (st != TN_OK) return st;
  /* Ids and parameters are looked at before a slot loses what it holds. */
  tn_chat *trial = tni_chat_bare(b->lm, b->context);
  tni_gen *gen = NULL;
  st = trial ? tni_chat_append(trial, ids, n, err) : tni_fail_memory(err, "batch");
  if (st == TN_OK) st = tni_gen_create(trial, p, fn, user, &gen, err);
  const uint32_t i = st == TN_OK ? choose_slot(b, ids, n, &from, &same) : 0;
  if (st == TN_OK && i == UINT32_MAX) st = tni_fail(err, TN_E_LIMIT, "slots", "all %u slots have a text", b->n);
  if (st == TN_OK) st = take_ids(b, i, from, same, ids, n, err);
  if (st != TN_OK) {
    tni_gen_destroy(gen);
    tn_chat_destroy(trial);
    return st;
  }
  tni_text *t = &b->slots[i];
  tni_gen_destroy(t->gen);
  tni_gen_belongs(gen, t->c);
  tn_chat_destroy(trial);
  t->gen = gen;
  t->used = true;
  t->odds = (tni_pace_odds){0};
  t->begun = false;
  t->order = ++b->clock;
  t->st = TN_OK;
  t->begun_ns = tni_now_ns();
  t->first_ns = t->last_ns = 0;
  *slot = i;
  return TN_OK;
}

tn_status tn_batch_step(tn_batch *b, uint32_t *running, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(b);
  TNI_NOT_NULL(running);
  tn_error local;
  if (!err) {
    tni_error_init(&local);
    err = &local;
  }
  tn_status st = atomic_load(&b->cancelled) ? tni_fail(err, TN_E_CANCELLED, "batch", "cancelled") : TN_OK;
  if (st == TN_OK) st = tni_batch_run(b, err);
  if (st == TN_E_CANCELLED) tni_batch_go_on(b);
  if (st != TN_OK) return st;
  *running = 0;
  for (uint32_t i = 0; i < b->n; i++) *running += tni_text_runs(&b->slots[i]);
  return TN_OK;
}

static void give(void *to, const void *of, size_t bytes, size_t room) {
  memcpy((char *)to + sizeof(tn_hdr), (const char *)of + sizeof(tn_hdr),
         (room < bytes ? room : bytes) - sizeof(tn_hdr));
}

tn_status tn_batch_result(tn_batch *b, uint32_t slot, tn_gen_result *res, size_t *cached, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(b);
  TNI_NOT_NULL(res);
  const tn_status sized = tni_sized(&res->h, sizeof res->h, "tn_gen_result", err);
  if (sized != TN_OK) return sized;
  const tni_text *t = slot < b->n ? &b->slots[slot] : NULL;
  if (!t || !t->used) return tni_fail(err, TN_E_INVALID, "slot", "no text was started in slot %u", slot);
  if (t->st != TN_OK) return tni_error_pass(err, t->st, &t->why.error);
  tn_gen_result r = *tni_gen_result(t->gen);
  const int64_t now = t->first_ns ? t->first_ns : tni_now_ns();
  r.prefill_ns = now - t->begun_ns;
  r.decode_ns = t->first_ns ? t->last_ns - t->first_ns : 0;
  give(res, &r, sizeof r, res->h.size);
  if (cached) *cached = t->cached;
  return TN_OK;
}

tn_status tn_batch_prefix_counts(const tn_batch *b, tn_batch_prefixes *out, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(b);
  TNI_NOT_NULL(out);
  const tn_status st = tni_sized(&out->h, sizeof out->h, "tn_batch_prefixes", err);
  if (st != TN_OK) return st;
  tn_batch_prefixes c = b->counts;
  c.bytes = b->prefix.bytes;
  c.dropped = b->prefix.dropped;
  give(out, &c, sizeof c, out->h.size);
  return TN_OK;
}

static void add_guesses(const tni_text *t, tn_batch_guesses *g) {
  uint64_t tried = 0, came = 0;
  if (t->gen) tni_gen_guesses(t->gen, &tried, &came);
  g->tried += tried;
  g->came += came;
}

tn_status tn_batch_guess_counts(const tn_batch *b, uint32_t slot, tn_batch_guesses *out, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(b);
  TNI_NOT_NULL(out);
  tn_status st = tni_sized(&out->h, sizeof out->h, "tn_batch_guesses", err);
  const bool all = slot == TN_BATCH_ALL;
  if (st == TN_OK && !all && (slot >= b->n || !b->slots[slot].used))
    st = tni_fail(err, TN_E_INVALID, "slot", "no text was started in slot %u", slot);
  if (st != TN_OK) return st;
  tn_batch_guesses g = {.tried = 0};
  if (all) g = b->guesses;
  for (uint32_t i = all ? 0 : slot; i < (all ? b->n : slot + 1); i++) add_guesses(&b->slots[i], &g);
  give(out, &g, sizeof g, out->h.size);
  return TN_OK;
}

void tn_batch_stop(tn_batch *b, uint32_t slot) {
  if (!b || slot >= b->n || !b->slots[slot].used) return;
  tni_text *t = &b->slots[slot];
  add_guesses(t, &b->guesses);
  t->used = false;
  t->left = ++b->clock;
  t->c->n = t->c->fed; /* what never ran serves nobody */
  tni_gen_destroy(t->gen);
  t->gen = NULL;
}
