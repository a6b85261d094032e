/* SPDX-License-Identifier: Apache-2.0
 *
 * What slots had and lose goes into pages (prefix.h), and from there into slots.
 *
 * Rows of a cache belong to tokens, so any beginning of a page serves. A ring has the last of them only, and a state of
 * fixed size is that of one position: a text goes on where a page has what such a model needs there.
 */
#include <string.h>

#include "runtime/llm/batch.h"

/* The session may go on elsewhere, with other bytes, after a device was lost. */
static tni_prefix *store_of(tn_batch *b) {
  tni_slot_form f;
  if (!b->session || !b->prefix.limit) return NULL;
  tni_slot_form_of(b->session, &f);
  if (f.of != b->prefix_of) tni_prefix_clear(&b->prefix);
  b->prefix_of = f.of;
  b->prefix.row_bytes = f.row_bytes;
  b->prefix.ring_bytes = f.ring_bytes;
  b->prefix.state_bytes = f.state_bytes;
  return &b->prefix;
}

/* --- from a slot -------------------------------------------------------------------------------------------------- */

typedef struct saver {
  tn_batch *b;
  tni_prefix *p;
  uint32_t row;
  const int32_t *ids;
  size_t n;     /* tokens of the slot */
  size_t back;  /* rings: first position that it can go back to */
  size_t needs; /* rings: rows from here on are of use */
} saver;

/* Whether x has all that the slot has for its n tokens. */
static bool has_rings(const saver *v, const tni_page *x, size_t n) {
  return !v->p->ring_bytes || x->at + n <= v->needs || (x->rings && x->back <= v->back);
}

static bool has_states(const saver *v, const tni_page *x, size_t n) {
  return !v->p->state_bytes || x->at + n < v->n || (x->states && x->n == n);
}

static bool put_rows(const saver *v, tni_page *x) {
  if (!tni_prefix_room(v->p, x, &x->rows, x->n * v->p->row_bytes)) return false;
  tni_slot_read(v->b->session, v->row, TNI_SLOT_ROWS, (int64_t)x->at, x->n, x->rows);
  return true;
}

static void put_rings(const saver *v, tni_page *x) {
  if (has_rings(v, x, x->n)) return;
  if (!x->rings && !tni_prefix_room(v->p, x, &x->rings, x->n * v->p->ring_bytes)) return;
  tni_slot_read(v->b->session, v->row, TNI_SLOT_RINGS, (int64_t)x->at, x->n, x->rings);
  x->back = v->back;
}

static void put_states(const saver *v, tni_page *x) {
  if (has_states(v, x, x->n)) return;
  if (!tni_prefix_room(v->p, x, &x->states, v->p->state_bytes)) return;
  tni_slot_read(v->b->session, v->row, TNI_SLOT_STATES, 0, 0, x->states);
}

/* Pages that x, which follows the same page, has all of. */
static void drop_parts(const saver *v, tni_page *x) {
  for (tni_page *y = x->parent->child, *next; y; y = next) {
    next = y->next;
    if (y == x || y->n >= x->n || tni_prefix_common(y, x->ids, x->n) < y->n) continue;
    if (!y->states && (!y->rings || (x->rings && x->back <= y->back))) tni_prefix_drop(v->p, y);
  }
}

/* The page of n tokens from of's end on, there or made. NULL: there is no room. */
static tni_page *save_page(const saver *v, tni_page *of, uint32_t n) {
  const int32_t *ids = v->ids + of->at + of->n;
  tni_page *x = NULL, *part = NULL;
  for (tni_page *y = of->child; y; y = y->next) {
    if (tni_prefix_common(y, ids, n) < n) continue;
    if (y->n == n) x = y;
    if (has_rings(v, y, n) && has_states(v, y, n)) part = y;
  }
  if (!x && part) return part; /* the end of the text is in a longer page */
  const bool made = !x;
  if (made) x = tni_prefix_add(v->p, of, ids, n);
  if (!x) return NULL;
  if (made && !put_rows(v, x)) {
    tni_prefix_drop(v->p, x);
    return NULL;
  }
  put_rings(v, x);
  put_states(v, x);
  if (made) drop_parts(v, x);
  return x;
}

void tni_batch_save(tn_batch *b, uint32_t slot) {
  const tni_text *t = &b->slots[slot];
  saver v = {.b = b, .p = store_of(b), .row = t->row, .ids = t->c->history, .n = t->c->fed};
  if (!v.p || !v.n) return;
  v.back = (size_t)tni_slot_back(b->session, v.row);
  v.needs = (size_t)tni_slot_needs(b->session, (int64_t)(v.back < v.n ? v.back : v.n));
  tni_page *of = &v.p->root, *last = of;
  while (of && of->at + of->n < v.n) {
    const size_t left = v.n - of->at - of->n;
    if ((of = save_page(&v, of, left < TNI_PAGE ? (uint32_t)left : TNI_PAGE))) last = of;
    if (of && of->n < TNI_PAGE) break; /* the end */
    if (left < TNI_PAGE) break;
  }
  tni_prefix_touch(v.p, last);
}

/* --- into a slot -------------------------------------------------------------------------------------------------- */

/* Whether a text can go on after the first `part` tokens of x. */
static bool serves(const tn_batch *b, const tni_page *x, size_t part) {
  const tni_prefix *p = &b->prefix;
  const size_t n = x->at + part;
  if (p->state_bytes && (!x->states || part < x->n)) return false;
  if (!p->ring_bytes) return true;
  const size_t needs = (size_t)tni_slot_needs(b->session, (int64_t)n);
  for (; x->n && x->at + x->n > needs; x = x->parent)
    if (!x->rings || x->back > n) return false;
  return true;
}

/* How many of ids, less than n, a slot may have from what is kept, by *page. common: how many begin something kept. */
static size_t find(tn_batch *b, const int32_t *ids, size_t n, tni_page **page, size_t *common) {
  const tni_prefix *p = store_of(b);
  size_t best = 0;
  *page = NULL;
  *common = 0;
  for (const tni_page *of = p ? &p->root : NULL, *next; of; of = next) {
    next = NULL;
    const size_t at = of->at + of->n;
    for (tni_page *x = of->child; x && at + 1 < n; x = x->next) {
      const size_t same = tni_prefix_common(x, ids + at, n - 1 - at);
      if (same && at + same > *common) *common = at + same;
      if (same == TNI_PAGE) next = x;
      if (!same || at + same <= best || !serves(b, x, same)) continue;
      best = at + same;
      *page = x;
    }
  }
  return best;
}

static void restore_page(tn_batch *b, uint32_t row, const tni_page *x, size_t n, size_t needs) {
  const int64_t at = (int64_t)x->at, part = (int64_t)(n - x->at < x->n ? n - x->at : x->n);
  tni_slot_write(b->session, row, TNI_SLOT_ROWS, at, part, x->n, x->rows);
  if (x->rings && x->at + x->n > needs) tni_slot_write(b->session, row, TNI_SLOT_RINGS, at, part, x->n, x->rings);
}

/* The slot's caches are the first n tokens up to page, which found them. */
static void restore(tn_batch *b, uint32_t slot, tni_page *page, size_t n) {
  const uint32_t row = b->slots[slot].row;
  const size_t needs = (size_t)tni_slot_needs(b->session, (int64_t)n);
  tni_prefix_touch(&b->prefix, page);
  tni_slot_begin(b->session, row, (int64_t)n);
  /* From the first page on: what of a ring is older is written over. */
  const tni_page *path = page;
  for (size_t at = 0; at < n; at += path->n) {
    for (path = page; path->at > at; path = path->parent) continue;
    restore_page(b, row, path, n, needs);
  }
  if (page->states) tni_slot_write(b->session, row, TNI_SLOT_STATES, 0, 0, 0, page->states);
}

/* --- a text begins ------------------------------------------------------------------------------------------------ */

size_t tni_text_common(const tni_text *t, const int32_t *ids, size_t n) {
  const tn_chat *c = t->c;
  size_t same = 0;
  while (same < c->fed && same + 1 < n && c->history[same] == ids[same]) same++;
  return same;
}

/* The slot's caches begin with the first n tokens of `from`'s (which may be itself): how many of them. 0: none. */
static size_t copy_slot(tn_batch *b, uint32_t slot, uint32_t from, size_t n) {
  tni_text *to = &b->slots[slot], *of = &b->slots[from];
  tn_status st;
  if (b->session)
    st = slot == from ? tn_session_slot_truncate(b->session, to->row, (int64_t)n, NULL)
                      : tn_session_slot_copy(b->session, to->row, of->row, (int64_t)n, NULL);
  else
    st = !to->c->kept ? TN_E_UNSUPPORTED : tn_session_share(to->c->session, of->c->session, (int64_t)n, NULL);
  return st == TN_OK ? n : 0;
}

void tni_batch_forget(tn_batch *b, uint32_t slot) {
  tni_text *t = &b->slots[slot];
  if (b->session)
    (void)!tn_session_slot_truncate(b->session, t->row, 0, NULL);
  else
    tn_chat_reset(t->c);
  t->c->n = t->c->fed = 0;
}

/* Tokens: for fewer that others began with too, a step does not end earlier. */
enum { LEAST_MARK = 16 };

size_t tni_batch_take(tn_batch *b, uint32_t slot, size_t had, uint32_t from, size_t same, const int32_t *ids,
                      size_t n) {
  tni_text *t = &b->slots[slot];
  tni_page *page;
  size_t alike, cached = had;
  const size_t kept = find(b, ids, n, &page, &alike);
  if (same >= kept && same > had && copy_slot(b, slot, from, same)) {
    t->restored = false;
    cached = same;
  } else if (kept > had) {
    restore(b, slot, page, kept);
    t->restored = true;
    cached = kept;
  }
  if (same > alike) alike = same;
  t->mark = b->session && b->prefix.limit && alike >= cached + LEAST_MARK ? alike : 0;
  return cached;
}

void tni_batch_begin(tn_batch *b, uint32_t slot) {
  tni_text *t = &b->slots[slot];
  tn_chat *c = t->c;
  uint32_t from = UINT32_MAX;
  size_t same = 0;
  t->begun = true;
  for (uint32_t i = 0; i < b->n; i++) {
    const size_t k = i == slot ? 0 : tni_text_common(&b->slots[i], c->history, c->n);
    if (k <= same) continue;
    same = k;
    from = i;
  }
  c->fed = t->cached = tni_batch_take(b, slot, t->cached, from, same, c->history, c->n);
}
