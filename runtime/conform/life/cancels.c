/* SPDX-License-Identifier: Apache-2.0
 *
 * cancel of one engine of several: it ends what that engine has, and nothing else.
 */
#include <stdlib.h>

#include "runtime/conform/life/engine.h"
#include "runtime/conform/life/fenced.h"

enum { ROUNDS = 6 };

/* All items of a lane, each waiting for a word that is not there yet. */
static tni_cf_sent items_of(tni_cf_fenced *b, tni_cf_lane *l, const char *what) {
  tni_cf_sent s = {.b = b, .lane = l, .n = l->n, .what = what, .allowed = TN_E_CANCELLED};
  for (uint32_t i = 0; b->waits && i < s.n; i++) {
    s.wait[i][0] = tni_cf_fenced_word(b, 0, 1 + i, false);
    s.n_waits[i] = 1;
  }
  return s;
}

static void cancel(const tni_cf_fenced *b, const tni_cf_lane *l, struct tni_cf_ticket *ticket) {
  b->h.device->cancel(b->h.device, l->engine, ticket ? ticket->handle : NULL);
}

/* Of an engine whose items nobody named: they go on, and are right. */
static bool spared(tni_cf *cf, tni_cf_sent *s) {
  for (uint32_t i = 0; i < s->n; i++) {
    if (s->n_waits[i] && !tni_cf_fenced_held(cf, s, i, "its word has its value")) return false;
    if (s->n_waits[i]) tni_cf_fenced_store(s->b, &s->wait[i][0], s->wait[i][0].value);
  }
  for (uint32_t i = 0; i < s->n; i++)
    if (!tni_cf_fenced_right(cf, s, i)) return false;
  return tni_cf_fenced_join(cf, s);
}

/* cancel of engine `of`, for all that it has and for a ticket of the other's, while the other alone has items. */
static bool of_another(tni_cf *cf, tni_cf_fenced *b, uint32_t of) {
  tni_cf_sent s = items_of(b, &b->lane[!of], "cancel of another engine");
  if (!tni_cf_fenced_send(cf, &s)) return false;
  cancel(b, &b->lane[of], NULL);
  for (uint32_t i = 0; i < s.n; i++) cancel(b, &b->lane[of], s.ticket[i]);
  return spared(cf, &s);
}

/* Both have items that wait: those of the one end, then, told so, those of the other; or the other's go on. */
static bool of_one(tni_cf *cf, tni_cf_fenced *b, uint32_t of, bool both) {
  tni_cf_sent mine = items_of(b, &b->lane[of], "cancel of an engine whose items wait"),
              other = items_of(b, &b->lane[!of], "cancel of one of two engines");
  bool ok = tni_cf_fenced_send(cf, &mine) && tni_cf_fenced_send(cf, &other);
  if (ok) cancel(b, mine.lane, NULL);
  for (uint32_t i = 0; ok && i < mine.n; i++)
    ok = tni_cf_fenced_ended(cf, &mine, i, TN_E_CANCELLED, false, "its engine was told to end");
  if (!ok || !both) return ok && tni_cf_fenced_join(cf, &mine) && spared(cf, &other);
  ok = tni_cf_fenced_held(cf, &other, 0, "its word has its value");
  if (ok) cancel(b, other.lane, NULL);
  for (uint32_t i = 0; ok && i < other.n; i++)
    ok = tni_cf_fenced_ended(cf, &other, i, TN_E_CANCELLED, false, "its engine was told to end");
  return ok && tni_cf_fenced_join(cf, &mine) && tni_cf_fenced_join(cf, &other);
}

static void ask_engines(tni_cf *cf, tni_cf_fenced *b) {
  bool ok = true;
  for (uint32_t k = 0; ok && k < (b->waits ? 2 : 2 * ROUNDS); k++) ok = of_another(cf, b, k % 2);
  for (uint32_t k = 0; ok && b->waits && k < 4; k++) ok = of_one(cf, b, k / 2, k % 2);
  if (ok && !b->waits)
    tni_cf_note(cf, "its items wait for no fence: whether cancel ends what an engine has is not seen");
}

static void ask_cancels(tni_cf *cf, const void *arg) {
  tni_cf_fenced *b = calloc(1, sizeof *b);
  (void)arg;
  if (b && tni_cf_fenced_open(cf, b, NULL)) {
    if (!b->h.device->cancel)
      tni_cf_skip(cf, "it has no tn_device.cancel: its items run to their end");
    else if (b->n_lanes < 2)
      tni_cf_skip(cf, "no two engines have tasks that may run by themselves, and give an output");
    else
      ask_engines(cf, b);
    tni_cf_fenced_close(cf, b);
  }
  free(b);
}

void tni_cf_life_cancel_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"life/cancel-engines", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_cancels, NULL, 60000});
}
