/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversation twice, and as a file. The session writes its caches (tn_session_save); the tokens go along as its
 * note.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/lm.h>

#include "runtime/base/base.h"
#include "runtime/llm/lm.h"

/* Before the tokens, int32 [n]. */
typedef struct note_head {
  char magic[8]; /* "TENONCH1" */
  uint64_t n, fed;
} note_head;

static const char MAGIC[8] = {'T', 'E', 'N', 'O', 'N', 'C', 'H', '1'};

static tn_status no_source(const tn_chat *c, tn_error *err) {
  return c->source ? tni_fail(err, TN_E_UNSUPPORTED, "chat",
                              "the model is an encoder-decoder, whose conversations begin anew with every text")
                   : TN_OK;
}

static tn_status begin_fork(tn_chat *to, const tn_chat *c, size_t n, tn_error *err) {
  const size_t fed = n < c->fed ? n : c->fed;
  tn_status st = tni_chat_append(to, c->history, n, err);
  if (st != TN_OK || !c->kept || !fed) return st;
  st = tn_session_share(to->session, c->session, (int64_t)fed, err);
  if (st == TN_OK) to->fed = fed;
  return st == TN_E_LIMIT ? TN_OK : st; /* all of it runs again */
}

tn_status tn_chat_fork(tn_chat *c, size_t n, tn_chat **out, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(c);
  TNI_NOT_NULL(out);
  tn_chat *to = NULL;
  tn_status st = no_source(c, err);
  if (st != TN_OK) return st;
  if (n == SIZE_MAX) n = c->n;
  if (n > c->n) return tni_fail(err, TN_E_INVALID, "n", "%zu tokens of a conversation of %zu", n, c->n);
  st = tn_chat_create(c->lm, &to, err);
  if (st == TN_OK) st = begin_fork(to, c, n, err);
  if (st != TN_OK) {
    tn_chat_destroy(to);
    return st;
  }
  *out = to;
  return TN_OK;
}

static tn_status can_be_saved(const tn_chat *c, tn_error *err) {
  const tn_status st = no_source(c, err);
  if (st != TN_OK || c->kept) return st;
  return tni_fail(err, TN_E_UNSUPPORTED, "chat", "sessions of this model keep no caches (tenon check says why)");
}

tn_status tn_chat_save(tn_chat *c, const char *path, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(c);
  TNI_NOT_NULL(path);
  tn_status st = can_be_saved(c, err);
  if (st != TN_OK) return st;
  const note_head head = {.n = c->n, .fed = c->fed};
  const size_t bytes = sizeof head + c->n * sizeof *c->history;
  char *note = malloc(bytes);
  if (!note) return tni_fail_memory(err, path);
  memcpy(note, &head, sizeof head);
  memcpy(note, MAGIC, sizeof MAGIC);
  if (c->n) memcpy(note + sizeof head, c->history, c->n * sizeof *c->history);
  st = tn_session_save(c->session, path, note, bytes, err);
  free(note);
  return st;
}

/* The tokens of a note, which are looked at before anything of c changes. */
static tn_status read_note(const tn_chat *c, const char *path, const char *note, uint64_t bytes, note_head *head,
                           tn_error *err) {
  const bool whole = bytes >= sizeof *head && memcmp(note, MAGIC, sizeof MAGIC) == 0;
  if (whole) memcpy(head, note, sizeof *head);
  if (!whole || head->fed > head->n || (bytes - sizeof *head) / sizeof *c->history != head->n ||
      (bytes - sizeof *head) % sizeof *c->history)
    return tni_fail(err, TN_E_CORRUPT, path, "'%s' is a saved session but no conversation", path);
  return TN_OK;
}

/* The session has the file's positions. Tokens that do not fit leave an empty conversation. */
static tn_status take_note(tn_chat *c, const char *path, const char *note, uint64_t bytes, tn_error *err) {
  note_head head;
  tn_status st = read_note(c, path, note, bytes, &head, err);
  int32_t *ids = st == TN_OK ? malloc(bytes) : NULL;
  if (st == TN_OK && !ids) st = tni_fail_memory(err, path);
  if (st == TN_OK && (int64_t)head.fed != tn_session_length(c->session))
    st = tni_fail(err, TN_E_CORRUPT, path, "'%s' has %llu tokens for %lld positions", path,
                  (unsigned long long)head.fed, (long long)tn_session_length(c->session));
  c->n = c->fed = 0;
  if (st == TN_OK) {
    memcpy(ids, note + sizeof head, bytes - sizeof head);
    st = tni_chat_append(c, ids, (size_t)head.n, err);
  }
  free(ids);
  if (st == TN_OK)
    c->fed = (size_t)head.fed;
  else
    tn_chat_reset(c);
  return st;
}

tn_status tn_chat_load(tn_chat *c, const char *path, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(c);
  TNI_NOT_NULL(path);
  void *note = NULL;
  uint64_t bytes = 0;
  tn_status st = can_be_saved(c, err);
  if (st == TN_OK) st = tn_session_load(c->session, path, &note, &bytes, err);
  if (st == TN_OK) st = take_note(c, path, note, bytes, err);
  free(note);
  return st;
}
