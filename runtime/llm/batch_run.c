/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/llm/batch.h"

/* --- life -------------------------------------------------------------------------------------------------------- */

static tn_status make_tensors(tn_batch *b, tn_error *err) {
  const tni_lm_io *io = &b->lm->io;
  size_t most = b->n > TNI_GUESS_ROWS ? b->n : TNI_GUESS_ROWS;
  if (b->chunk > (int64_t)most) most = (size_t)b->chunk;
  b->feed = calloc(io->n_in, sizeof *b->feed);
  b->in = calloc(io->n_in, sizeof *b->in);
  b->in_ptr = calloc(io->n_in, sizeof *b->in_ptr);
  b->out_ptr = calloc(tn_model_n_outputs(b->lm->model), sizeof *b->out_ptr);
  if (!b->feed || !b->in || !b->in_ptr || !b->out_ptr) return tni_fail_memory(err, "batch");
  b->logits.h = (tn_hdr)TN_API_HDR(tn_tensor);
  for (uint32_t i = 0; i < io->n_in; i++) {
    const tn_io_info *x = io->in[i].info;
    if (io->in[i].role == TNI_INPUT_PAST || io->in[i].role == TNI_INPUT_MASK) continue;
    b->in[i] = (tn_tensor){.h = TN_API_HDR(tn_tensor), .name = x->name, .dtype = x->dtype, .rank = (uint32_t)x->rank};
    if (!tni_chat_mem_grow(&b->feed[i], most * tni_lm_elem_bytes(x->dtype))) return tni_fail_memory(err, "batch");
    b->in[i].data = b->feed[i].v;
    b->in_ptr[i] = &b->in[i];
  }
  return TN_OK;
}

/* One session with a row for each slot, and one to spare. */
static tn_status open_shared(tn_batch *b, tn_error *err) {
  const tn_keep_opts o = {.h = TN_API_HDR(tn_keep_opts),
                          .batch = b->n + 1,
                          .capacity = b->context,
                          .flags = TN_KEEP_SLOTS,
                          .max_step = b->chunk < b->context ? b->chunk : 0}; /* rings are as long as that asks for */
  tn_status st = tn_session_create(b->lm->model, &b->session, err);
  if (st == TN_OK) st = tn_session_keep(b->session, &o, err);
  if (st != TN_OK) return st;
  const int64_t most = tn_session_max_step(b->session);
  if (!b->chunk || most < b->chunk) b->chunk = most;
  b->spare = b->n;
  for (uint32_t i = 0; i < b->n; i++) {
    b->slots[i].row = i;
    if (!(b->slots[i].c = tni_chat_bare(b->lm, b->context))) return tni_fail_memory(err, "batch");
  }
  return make_tensors(b, err);
}

static tn_status open_alone(tn_batch *b, tn_error *err) {
  for (uint32_t i = 0; i < b->n; i++) {
    const tn_status st = tn_chat_create(b->lm, &b->slots[i].c, err);
    if (st != TN_OK) return st;
    b->slots[i].c->context = b->context;
  }
  const int64_t most = b->slots[0].c->kept ? b->slots[0].c->chunk : b->context;
  if (!b->chunk || most < b->chunk) b->chunk = most;
  return TN_OK;
}

/* Logits of every position of a step, and caches that can forget some of them. */
static bool can_guess(const tn_batch *b) {
  const tn_io_info *x = b->lm->io.logits_info;
  tni_slot_form f;
  if (x->rank != 3 || x->dims[1] == 1) return false;
  if (!b->session) return b->slots[0].c->kept;
  tni_slot_form_of(b->session, &f);
  return !f.state_bytes;
}

tn_status tni_batch_open(tn_batch *b, bool shared, tn_error *err) {
  const tn_status st = shared && tn_model_has_slots(b->lm->model) ? open_shared(b, err) : open_alone(b, err);
  b->no_guesses = st != TN_OK || !can_guess(b);
  tni_pace_init(&b->pace);
  return st;
}

void tni_batch_close(tn_batch *b) {
  tn_session_destroy(b->session);
  for (uint32_t i = 0; b->feed && i < b->lm->io.n_in; i++) free(b->feed[i].v);
  free(b->feed);
  free(b->in);
  free(b->in_ptr);
  free(b->out_ptr);
  free(b->row.v);
}

/* --- texts ------------------------------------------------------------------------------------------------------- */

static void count_beginning(tn_batch *b, const tni_text *t) {
  if (!t->cached) return;
  *(t->restored ? &b->counts.from_store : &b->counts.from_slots) += 1;
  *(t->restored ? &b->counts.tokens_from_store : &b->counts.tokens_from_slots) += t->cached;
}

void tni_text_token(tn_batch *b, tni_text *t, const float *logits, size_t vocab) {
  tni_long_error_init(&t->why);
  t->st = tni_gen_take_rows(t->gen, t->guess, t->n_guess, logits, vocab, &t->why.error);
  t->last_ns = tni_now_ns();
  if (t->first_ns) return;
  t->first_ns = t->last_ns;
  count_beginning(b, t);
}

/* --- places ------------------------------------------------------------------------------------------------------ */

static tni_text *text_in(const tn_batch *b, uint32_t row) {
  for (uint32_t i = 0; i < b->n; i++)
    if (b->slots[i].row == row) return &b->slots[i];
  return NULL; /* the spare row */
}

/* What a row has goes to the spare one, and the row is to spare. */
static tn_status vacate(tn_batch *b, uint32_t row, tn_error *err) {
  tni_text *t = text_in(b, row);
  if (!t) return TN_OK;
  const tn_status st = tn_session_slot_copy(b->session, b->spare, row, (int64_t)t->c->fed, err);
  if (st != TN_OK) return st;
  t->row = b->spare;
  b->spare = row;
  return TN_OK;
}

/* Texts that decode come to stand in rows [0, *n). */
static tn_status gather(tn_batch *b, uint32_t *n, tn_error *err) {
  tn_status st = TN_OK;
  *n = 0;
  for (uint32_t i = 0; i < b->n; i++) *n += tni_text_decodes(&b->slots[i]);
  for (uint32_t row = 0; st == TN_OK && row < *n; row++) {
    const tni_text *here = text_in(b, row);
    if (here && tni_text_decodes(here)) continue;
    uint32_t i = 0;
    while (!tni_text_decodes(&b->slots[i]) || b->slots[i].row < *n) i++;
    const uint32_t from = b->slots[i].row;
    st = vacate(b, row, err);
    if (st != TN_OK) break;
    st = tn_session_slot_copy(b->session, row, from, (int64_t)b->slots[i].c->fed, err);
    if (st != TN_OK) break;
    b->slots[i].row = row;
    b->spare = from;
  }
  return st;
}

/* --- one session for all ----------------------------------------------------------------------------------------- */

/* Tokens [fed, fed + n) of the texts in rows [first, first + count). */
static void feed_rows(tn_batch *b, uint32_t first, uint32_t count, size_t n) {
  const tni_lm_io *io = &b->lm->io;
  for (uint32_t i = 0; i < io->n_in; i++) {
    tn_tensor *t = &b->in[i];
    if (!b->in_ptr[i]) continue;
    const size_t e = tni_lm_elem_bytes(t->dtype);
    if (io->in[i].role == TNI_INPUT_USE_CACHE) {
      t->dims[0] = 1;
      t->bytes = e;
      tni_put_ints(b->feed[i].v, t->dtype, 1, NULL, text_in(b, first)->c->fed > 0);
      continue;
    }
    t->dims[0] = count;
    t->dims[1] = (int64_t)n;
    t->bytes = count * n * e;
    for (uint32_t r = 0; r < count; r++) {
      const tn_chat *c = text_in(b, first + r)->c;
      tni_put_ints((char *)b->feed[i].v + r * n * e, t->dtype, n,
                   io->in[i].role == TNI_INPUT_IDS ? c->history + c->fed : NULL, (int64_t)c->fed);
    }
  }
}

/* The last n rows of logits of sequence r of count. */
static const float *logits_of(tn_batch *b, uint32_t r, uint32_t count, size_t n, size_t *vocab, tn_error *err) {
  const tn_tensor *o = &b->logits;
  const size_t rows = o->rank == 3 ? (size_t)o->dims[1] : 1, v = o->rank ? (size_t)o->dims[o->rank - 1] : 0;
  const size_t e = tni_lm_elem_bytes(o->dtype);
  if ((o->rank != 2 && o->rank != 3) || o->dims[0] != count || !v || rows < n || !o->data) {
    (void)tni_fail(err, TN_E_INVALID, o->name, "%s has no %zu rows of logits for each of %u sequences", o->name, n,
                   count);
    return NULL;
  }
  tn_tensor last = *o;
  last.data = (const char *)o->data + ((size_t)(r + 1) * rows - n) * v * e;
  *vocab = v;
  if (o->dtype == TN_DT_F32) return last.data;
  if (!tni_chat_mem_grow(&b->row, n * v * sizeof(float))) {
    (void)tni_fail_memory(err, "logits");
    return NULL;
  }
  tni_logits_to_f32(&last, n, n, v, b->row.v);
  return b->row.v;
}

/* What a step gives: logits of no token, of the last one of each text, of all. */
typedef enum logits_wanted { NO_LOGITS, LAST_LOGITS, ALL_LOGITS } logits_wanted;

/* A device that was lost took positions along, of texts that have not begun too. */
static void note_lengths(tn_batch *b) {
  for (uint32_t i = 0; i < b->n; i++) {
    tni_text *t = &b->slots[i];
    t->c->fed = (size_t)tn_session_slot_length(b->session, t->row);
    if (t->cached > t->c->fed) t->cached = t->c->fed;
  }
}

/* A cancel that came when nothing ran is the session's memory of an earlier step. */
static tn_status run_rows(tn_batch *b, uint32_t first, uint32_t count, size_t n, logits_wanted wants, tn_error *err) {
  tn_status st;
  int tries = 0;
  feed_rows(b, first, count, n);
  b->out_ptr[b->lm->io.logits] = wants != NO_LOGITS ? &b->logits : NULL;
  do {
    tni_error_begin(err);
    st = tn_session_step_slots(b->session, first, count, b->in_ptr, b->out_ptr, wants != ALL_LOGITS, err);
  } while (st == TN_E_CANCELLED && !atomic_load(&b->cancelled) && tries++ < 2);
  if (st != TN_OK) note_lengths(b);
  return st;
}

/* Tokens of the texts in rows [0, count), which decode: each ran its last one and `more` guesses. */
static tn_status take_tokens(tn_batch *b, uint32_t count, size_t more, tn_error *err) {
  tn_status st = TN_OK;
  for (uint32_t r = 0; r < count; r++) text_in(b, r)->c->fed++;
  for (uint32_t r = 0; r < count; r++) {
    tni_text *t = text_in(b, r);
    const size_t n = t->c->n;
    size_t vocab = 0;
    const float *logits = logits_of(b, r, count, more + 1, &vocab, err);
    if (logits) tni_text_token(b, t, logits, vocab);
    if (logits) tni_batch_came(b, t, t->c->n - n);
    const tn_status back = tni_batch_rewind(b, t, n, more, err);
    if (!logits || back != TN_OK) st = (tn_status)err->code;
  }
  return st;
}

static tn_status take_token(tn_batch *b, tni_text *t, tn_error *err) {
  size_t vocab = 0;
  const float *logits = logits_of(b, 0, 1, 1, &vocab, err);
  if (!logits) return (tn_status)err->code;
  tni_text_token(b, t, logits, vocab);
  return TN_OK;
}

static tni_text *longest_waiting(const tn_batch *b) {
  tni_text *first = NULL;
  for (uint32_t i = 0; i < b->n; i++) {
    tni_text *t = &b->slots[i];
    if (tni_text_runs(t) && !tni_text_decodes(t) && (!first || t->order < first->order)) first = t;
  }
  return first;
}

static size_t piece_of(const tn_batch *b, const tni_text *t, bool *ends) {
  const tn_chat *c = t->c;
  const size_t left = c->n - c->fed, first = t->mark > c->fed ? t->mark - c->fed : left;
  const size_t piece = first < (size_t)b->chunk ? first : (size_t)b->chunk;
  *ends = left == piece;
  return piece;
}

/* Rows [0, n): a token of each text, or more where guesses come. */
static tn_status decode(tn_batch *b, uint32_t n, tn_error *err) {
  size_t more = 0;
  tn_status st = tni_batch_guess(b, n, &more, err);
  const int64_t began = tni_now_ns();
  if (st == TN_OK) st = run_rows(b, 0, n, more + 1, more ? ALL_LOGITS : LAST_LOGITS, err);
  if (st == TN_OK) tni_batch_took(b, n * (more + 1), tni_now_ns() - began);
  return st == TN_OK ? take_tokens(b, n, more, err) : st;
}

static tn_status run_piece(tn_batch *b, tni_text *t, tn_error *err) {
  bool ends = false;
  const size_t piece = piece_of(b, t, &ends);
  t->n_guess = 0;
  tn_status st = run_rows(b, t->row, 1, piece, ends ? LAST_LOGITS : NO_LOGITS, err);
  if (st != TN_OK) return st;
  t->c->fed += piece;
  if (ends) st = take_token(b, t, err);
  if (st == TN_OK && t->mark && t->mark == t->c->fed) tni_batch_save(b, (uint32_t)(t - b->slots));
  return st;
}

static tn_status run_shared(tn_batch *b, tn_error *err) {
  uint32_t n = 0;
  tni_text *waits = longest_waiting(b);
  tn_status st = gather(b, &n, err);
  if (st == TN_OK && n) st = decode(b, n, err);
  if (st != TN_OK || !waits) return st;
  if (!waits->begun) tni_batch_begin(b, (uint32_t)(waits - b->slots));
  return run_piece(b, waits, err);
}

/* --- each on its own --------------------------------------------------------------------------------------------- */

/* n more of its tokens; all of them without caches. more: of them are guesses. */
static tn_status run_alone(tn_batch *b, tni_text *t, size_t n, size_t more, bool wants, tn_error *err) {
  tn_chat *c = t->c;
  const float *logits;
  size_t rows, vocab;
  const size_t all = c->n;
  const bool decodes = tni_text_decodes(t);
  const int64_t began = tni_now_ns();
  c->n = c->fed + n;
  c->whole = all;
  const tn_status st = tni_chat_step(c, !more, &logits, &rows, &vocab, err);
  c->whole = 0;
  c->n = all;
  if (st == TN_OK && decodes) tni_batch_took(b, n, tni_now_ns() - began);
  if (st == TN_OK && wants) tni_text_token(b, t, logits, vocab);
  if (st == TN_OK && decodes) tni_batch_came(b, t, c->n - all);
  return st == TN_OK && more ? tni_batch_rewind(b, t, all, more, err) : st;
}

static uint32_t count_decoding(const tn_batch *b) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < b->n; i++) n += tni_text_decodes(&b->slots[i]);
  return n;
}

static tn_status run_each(tn_batch *b, tn_error *err) {
  tni_text *waits = longest_waiting(b);
  const uint32_t n = count_decoding(b);
  size_t more = 0;
  tn_status st = n ? tni_batch_guess(b, n, &more, err) : TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < b->n; i++) {
    tni_text *t = &b->slots[i];
    if (tni_text_decodes(t)) st = run_alone(b, t, t->n_guess + 1, t->n_guess, true, err);
  }
  if (st != TN_OK || !waits) return st;
  bool ends = false;
  if (!waits->begun) tni_batch_begin(b, (uint32_t)(waits - b->slots));
  const size_t piece = piece_of(b, waits, &ends);
  waits->n_guess = 0;
  return run_alone(b, waits, piece, 0, ends, err);
}

tn_status tni_batch_run(tn_batch *b, tn_error *err) { return b->session ? run_shared(b, err) : run_each(b, err); }

void tni_batch_go_on(tn_batch *b) {
  atomic_store(&b->cancelled, false);
  for (uint32_t i = 0; i < b->n; i++) atomic_store(&b->slots[i].c->cancelled, false);
}
