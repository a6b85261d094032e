/* SPDX-License-Identifier: Apache-2.0
 *
 * Structs as a host of another version would lend them, and what a plugin's own say of theirs.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "runtime/conform/observe/layer.h"

static atomic_uint lent_as;

void tni_cf_observe_structs(uint32_t as) { atomic_store(&lent_as, as); }

void *tni_obs_lend_struct(tni_cf_loan *l, const void *p, size_t oldest) {
  tn_hdr h;
  const uint32_t as = atomic_load(&lent_as);
  if (!p) return NULL;
  memcpy(&h, p, sizeof h);
  uint8_t *copy = tni_cf_loan_copy(l, p, h.size);
  if (!copy) return NULL;
  if (as == TNI_CF_STRUCTS_NEWER) {
    uint8_t more[TNI_OBS_MORE];
    memset(more, 0xee, sizeof more);
    const size_t gap = (16 - h.size % 16) % 16; /* between this copy and the next */
    uint8_t *next = tni_cf_loan_copy(l, more, sizeof more);
    if (!next) return NULL;
    memset(copy + h.size, 0xee, gap);
    h.size += TNI_OBS_MORE;
    h.minor = TN_ABI_MINOR + 1;
  } else if (as == TNI_CF_STRUCTS_OLDER && oldest < h.size) {
    memset(copy + oldest, 0xdb, h.size - oldest);
    h.size = (uint32_t)oldest;
    h.minor = 0;
  }
  memcpy(copy, &h, sizeof h);
  return copy;
}

bool tni_obs_is_old(void) { return atomic_load(&lent_as) == TNI_CF_STRUCTS_OLDER; }

const void *tni_obs_keep_struct(const void *p, size_t oldest) {
  static tni_cf_loan kept;
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  if (!p || atomic_load(&lent_as) == TNI_CF_STRUCTS_OURS) return p;
  pthread_mutex_lock(&lock);
  const void *copy = kept.map || tni_cf_loan_begin(&kept, "set", 1 << 20) ? tni_obs_lend_struct(&kept, p, oldest) : NULL;
  pthread_mutex_unlock(&lock);
  return copy ? copy : p;
}

bool tni_cf_header_wrong(const void *p, const char *what, size_t oldest, size_t now, char *text, size_t n) {
  tn_hdr h = {0};
  if (p) memcpy(&h, p, sizeof h);
  if (p && h.major == TN_ABI_MAJOR && (h.minor > TN_ABI_MINOR ? h.size >= now : h.size == now || h.size == oldest))
    return false;
  if (!p)
    snprintf(text, n, "%s is NULL", what);
  else
    snprintf(text, n,
             "%s says in its header that it has %u bytes and is of ABI %u.%u; that struct has %zu bytes (plugin.h, TN_HDR)",
             what, h.size, h.major, h.minor, h.minor ? now : oldest);
  return true;
}

void tni_obs_header(layer *l, const void *p, const char *what, size_t oldest, size_t now) {
  char text[256];
  if (tni_cf_header_wrong(p, what, oldest, now, text, sizeof text)) tni_obs_wrong(l, "%s", text);
}

void tni_obs_reserved(layer *l, const char *what, uint32_t now) {
  if (now) tni_obs_wrong(l, "%s: %#x stands in a reserved field, which is written 0 (plugin.h, rule 2)", what, now);
}

void tni_obs_program(layer *l, const tn_program_info *f) {
  tni_obs_header(l, f, "tn_program_info", sizeof *f, sizeof *f);
  for (uint32_t i = 0; f && f->needs && i < f->n_needs; i++)
    tni_obs_header(l, f->needs[i], "tn_need", TN_UPTO(tn_need, flags), sizeof(tn_need));
  for (uint32_t i = 0; f && f->slots && i < f->n_slots; i++)
    tni_obs_header(l, f->slots[i], "tn_slot", sizeof(tn_slot), sizeof(tn_slot)),
        tni_obs_reserved(l, "tn_slot", f->slots[i] ? f->slots[i]->reserved | f->slots[i]->reserved2 : 0);
  for (uint32_t i = 0; f && f->tasks && i < f->n_tasks; i++)
    tni_obs_header(l, f->tasks[i], "tn_task", sizeof(tn_task), sizeof(tn_task)),
        tni_obs_reserved(l, "tn_task", f->tasks[i] ? f->tasks[i]->reserved | f->tasks[i]->flags : 0);
  for (uint32_t i = 0; f && f->tasks && f->slots && i < f->n_tasks; i++)
    for (uint32_t u = 0; u < f->tasks[i]->n_uses; u++) {
      const tn_id slot = f->tasks[i]->uses[u].slot;
      const uint32_t engine = f->tasks[i]->engine;
      if (slot < f->n_slots && engine < 32 && !(f->slots[slot]->engines & 1u << engine))
        tni_obs_wrong(l, "task %u runs on engine %u and uses slot %u, whose `engines` do not have it (plugin.h, tn_slot)", i,
                      engine, slot);
    }
  for (uint32_t i = 0; f && f->needs && i < f->n_needs; i++)
    if (f->needs[i] && TN_HAS(f->needs[i], tn_need, reserved)) tni_obs_reserved(l, "tn_need", f->needs[i]->reserved);
  if (f) tni_obs_reserved(l, "tn_program_info", f->reserved);
}

static bool lies_in(const tni_cf_loan *l, const void *p) {
  const uint8_t *at = p;
  return l->map && at && at >= l->map && at < l->end;
}

void tni_obs_own(layer *l, const tni_cf_loan *lent, const tn_program_info *f) {
  const char *what = NULL;
  uint32_t at = 0;
  for (uint32_t i = 0; f->tasks && !what && i < f->n_tasks; i++) {
    const tn_task *t = f->tasks[at = i];
    what = !t                        ? NULL
           : lies_in(lent, t->name)  ? "the name of task"
           : lies_in(lent, t->uses)  ? "the uses of task"
           : lies_in(lent, t->deps)  ? "the deps of task"
           : lies_in(lent, t->nodes) ? "the nodes of task"
                                     : NULL;
  }
  for (uint32_t i = 0; f->slots && !what && i < f->n_slots; i++)
    if (f->slots[i] && lies_in(lent, f->slots[i]->name)) what = "the name of slot", at = i;
  for (uint32_t i = 0; f->needs && !what && i < f->n_needs; i++)
    if (f->needs[i] && (lies_in(lent, f->needs[i]->values) || lies_in(lent, f->needs[i]->params)))
      what = "what belongs to need", at = i;
  if (what)
    tni_obs_wrong(l,
                  "%s %u lies in what was lent to lower, which goes when lower is over: what hangs on a program lives as long "
                  "as the program (plugin.h, rule 4)",
                  what, at);
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

static const char earlier_text[] = "what an earlier call wrote here";

/* What an earlier call wrote, and a call that fails overwrites. */
static void write_earlier(tn_error *e) {
  memset(e, 0, sizeof *e);
  e->code = TN_E_IO;
  e->vendor_code = 4711;
  e->node = e->task = TN_NONE;
  strcpy(e->message, earlier_text);
  strcpy(e->where, "earlier");
}

static bool is_earlier(const tn_error *e) {
  tn_error was;
  write_earlier(&was);
  return e->code == was.code && !memcmp(e->message, was.message, sizeof was.message);
}

tn_error *tni_obs_error(tni_obs_lent_error *e, const tn_error *err) {
  static atomic_uint lent;
  memset(e, 0xa7, sizeof *e);
  write_earlier(&e->error);
  e->error.h = (tn_hdr)TN_HDR(tn_error);
  /* Every other one is of a later minor: longer, and what comes after `where` is not the plugin's. */
  if (atomic_fetch_add(&lent, 1) % 2) e->error.h = (tn_hdr){sizeof *e, TN_ABI_MAJOR, TN_ABI_MINOR + 1};
  e->lent = e->error.h;
  return err ? &e->error : NULL;
}

void tni_obs_error_over(layer *l, const char *call, tn_status st, tni_obs_lent_error *e, tn_error *err) {
  if (!err) return;
  for (size_t i = 0; i < sizeof e->after; i++)
    if (e->after[i] != 0xa7) tni_obs_wrong(l, "%s writes past its tn_error", call);
  if (memcmp(&e->error.h, &e->lent, sizeof e->lent) != 0)
    tni_obs_wrong(l, "%s changes the header of its tn_error, which is the host's", call);
  if (!memchr(e->error.message, 0, sizeof e->error.message) || !memchr(e->error.where, 0, sizeof e->error.where))
    tni_obs_wrong(l, "%s leaves a text in its tn_error without an end: it has 256 bytes with the 0 (types.h)", call);
  e->error.message[sizeof e->error.message - 1] = e->error.where[sizeof e->error.where - 1] = '\0';
  if (st == TN_OK) return;
  const bool may_be_silent = st == TN_E_NO_MEMORY || st == TN_E_CANCELLED;
  if (is_earlier(&e->error) && !may_be_silent)
    tni_obs_wrong(l, "%s fails with status %d and leaves what an earlier call wrote in its tn_error: a call that fails "
                     "overwrites it (types.h)", call, st);
  if (is_earlier(&e->error)) {
    e->error.code = st;
    e->error.vendor_code = 0;
    e->error.where[0] = '\0';
    if (may_be_silent) e->error.message[0] = '\0';
  }
  if (e->error.code != TN_OK && e->error.code != st)
    tni_obs_wrong(l, "%s returns status %d, and its tn_error says %d", call, st, e->error.code);
  if (!e->error.message[0] && st != TN_E_NO_MEMORY && st != TN_E_CANCELLED)
    tni_obs_wrong(l, "%s fails with status %d and without a text: fill tn_error.message (types.h)", call, st);
  if (st < 0 || st > TN_E_LIMIT) tni_obs_wrong(l, "%s returns %d, which is no status (types.h)", call, st);
  const tn_hdr h = err->h;
  if (h.size >= sizeof e->error) {
    *err = e->error;
    err->h = h;
  }
}

void tni_obs_nothing(layer *l, const char *call, tn_status st, void *out) {
  void *p;
  memcpy(&p, out, sizeof p);
  if (st == TN_OK || !p) return;
  tni_obs_wrong(l, "%s fails with status %d and sets *out all the same: a host that looks at it uses what is gone", call, st);
  memset(out, 0, sizeof p);
}
