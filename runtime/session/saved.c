/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/saved.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "runtime/base/base.h"
#include "runtime/calib/calib.h"
#include "runtime/memory/memory.h"
#include "runtime/place/place.h"
#include "runtime/session/feed.h"
#include "runtime/session/fixed.h"
#include "runtime/session/keep.h"
#include "runtime/session/long_text.h"
#include "runtime/session/state.h"

static const char MAGIC[8] = {'T', 'E', 'N', 'O', 'N', 'K', 'V', '1'};
enum { ORDER = 0x01020304 };

static uint64_t padded(uint64_t n) { return (n + 7) & ~UINT64_C(7); }

/* --- what a file is for ------------------------------------------------------------------------------------------ */

static void feed_words(XXH3_state_t *h, const int64_t *v, size_t n) { XXH3_128bits_update(h, v, n * sizeof *v); }

static void feed_name(XXH3_state_t *h, const char *s) { XXH3_128bits_update(h, s, strlen(s) + 1); }

/* What decides which numbers stand in the caches: who computes with which formats, and how rows are kept. */
static void feed_placement(XXH3_state_t *h, const tn_model *m) {
  for (uint32_t e = 0; e < m->n_execs; e++) {
    const tni_partition *p = &m->execs[e].part;
    for (uint32_t c = 0; c < p->n_clusters; c++) {
      feed_name(h, m->rt->devs[p->clusters[c].device].name);
      feed_words(h, (const int64_t[]){p->clusters[c].n_nodes}, 1);
    }
  }
  for (uint32_t d = 0; d < m->rt->n_devs; d++)
    for (uint32_t i = 0; i < m->packed[d].n_items; i++) {
      const tni_pack_item *it = m->packed[d].items[i];
      feed_name(h, it->format->name);
      feed_words(h, (const int64_t[]){it->format->version, it->n_params}, 2);
      feed_words(h, it->params, it->n_params);
    }
  for (uint32_t k = 0; k < m->graph->n_states; k++)
    feed_words(h, (const int64_t[]){m->state_layouts[k].dtype, m->state_layouts[k].flags & TN_LAYOUT_CIRCULAR}, 2);
}

static tn_status name_model(const tn_model *m, tni_saved_head *head, tn_error *err) {
  char hex[TNI_CALIB_HEX + 1];
  const tn_status st = tni_calib_model_hash(m->graph, hex, err);
  if (st != TN_OK) return st;
  XXH3_state_t *h = XXH3_createState();
  if (!h) return tni_fail_memory(err, m->path);
  XXH128_canonical_t c;
  XXH3_128bits_reset(h);
  feed_placement(h, m);
  XXH128_canonicalFromHash(&c, XXH3_128bits_digest(h));
  memcpy(head->placement, c.digest, sizeof head->placement);
  XXH3_freeState(h);
  XXH128_canonicalFromHash(&c, XXH3_128bits(hex, strlen(hex)));
  memcpy(head->model, c.digest, sizeof head->model);
  return TN_OK;
}

/* --- records ----------------------------------------------------------------------------------------------------- */

/* What cache k has of n positions from `first` on. */
static tn_status cache_record(const tn_session *s, uint32_t k, int64_t first, int64_t n, tni_saved_record *r,
                              tn_error *err) {
  const tni_sstate *c = &s->states[k];
  const char *name = tni_graph_value(s->model->graph, s->model->graph->states[k].past)->pub.name;
  if (c->strides[TNI_STATE_SIZE] > 1)
    return tni_fail(err, TN_E_UNSUPPORTED, name, "cache '%s' lies in a form that only its device reads", name);
  *r = (tni_saved_record){.kind = TNI_SAVED_CACHE, .index = k, .dtype = c->t.dtype, .rank = 4, .first = first};
  const int64_t dims[4] = {c->t.dims[0], c->t.dims[TNI_STATE_HEADS], n - first, c->t.dims[TNI_STATE_SIZE]};
  memcpy(r->dims, dims, sizeof dims);
  int64_t rows;
  if (!tni_mul_i64(dims[0], dims[1], &rows) || !tni_mul_i64(rows, dims[2], &rows) ||
      __builtin_mul_overflow((uint64_t)rows, c->rows.row_bytes, &r->bytes))
    return tni_fail(err, TN_E_LIMIT, name, "cache '%s' is too large", name);
  return TN_OK;
}

/* What input i holds; false: nothing. */
static bool input_record(const tn_session *s, uint32_t i, int64_t n, tni_saved_record *r) {
  const tn_model *m = s->model;
  const tni_fed *f = &s->keep->fed[i];
  const uint8_t kind = m->roles.kinds[i];
  if (kind != TNI_IN_STATE && kind != TNI_IN_CONTEXT && !(tni_feed_stays(m, i) && f->given)) return false;
  *r = (tni_saved_record){
      .kind = TNI_SAVED_INPUT, .index = i, .dtype = f->t.dtype, .rank = f->t.rank, .bytes = f->t.bytes};
  memcpy(r->dims, f->t.dims, f->t.rank * sizeof *r->dims);
  if (kind != TNI_IN_CONTEXT) return true;
  r->dims[1] = n;
  r->bytes = (uint64_t)(r->dims[0] * n) * tni_feed_elem(&f->t);
  return true;
}

/* Positions from `from` on, between a cache and the rows of its record. */
static void copy_rows(const tni_sstate *c, const tni_saved_record *r, int64_t from, char *dense, bool out) {
  const tni_rows *t = &c->rows;
  for (int64_t b = 0; b < r->dims[0]; b++)
    for (int64_t h = 0; h < r->dims[1]; h++, dense += (uint64_t)r->dims[2] * t->row_bytes)
      for (int64_t p = from; p < r->first + r->dims[2]; p++) {
        char *at =
            (char *)c->span.ptr + b * t->strides[0] + h * t->strides[1] + (t->ring ? p % t->ring : p) * t->strides[2];
        char *row = dense + (uint64_t)(p - r->first) * t->row_bytes;
        memcpy(out ? row : at, out ? at : row, t->row_bytes);
      }
}

static void copy_context(tni_fed *f, const tni_saved_record *r, char *dense, bool out) {
  const size_t e = tni_feed_elem(&f->t), row = (size_t)r->dims[1] * e;
  for (int64_t b = 0; b < r->dims[0]; b++, dense += row) {
    char *at = (char *)f->data + (size_t)(b * f->t.dims[1]) * e;
    memcpy(out ? dense : at, out ? at : dense, row);
  }
}

/* --- writing ----------------------------------------------------------------------------------------------------- */

typedef struct writer {
  FILE *f;
  XXH3_state_t *hash;
  uint64_t bytes;
} writer;

/* Up to a multiple of 8. */
static bool put(writer *w, const void *p, uint64_t n) {
  static const char zeros[8];
  const uint64_t rest = padded(n) - n;
  if (n) XXH3_64bits_update(w->hash, p, n);
  if (rest) XXH3_64bits_update(w->hash, zeros, rest);
  w->bytes += n + rest;
  return (!n || fwrite(p, n, 1, w->f) == 1) && (!rest || fwrite(zeros, rest, 1, w->f) == 1);
}

static tn_status write_cache(tn_session *s, uint32_t k, writer *w, bool *ok, tn_error *err) {
  tni_sstate *c = &s->states[k];
  const int64_t n = s->keep->length, first = c->rows.ring && n > c->rows.ring ? n - c->rows.ring : 0;
  tni_saved_record r;
  tn_status st = cache_record(s, k, first > c->held ? first : c->held, n, &r, err);
  if (st == TN_OK) st = tni_span_take(&c->span, TN_NONE, TN_READ, err);
  if (st != TN_OK) return st;
  char *dense = malloc(r.bytes + 1);
  if (!dense) return tni_fail_memory(err, s->model->path);
  copy_rows(c, &r, r.first, dense, true);
  *ok = put(w, &r, sizeof r) && put(w, dense, r.bytes);
  free(dense);
  return TN_OK;
}

static tn_status write_input(tn_session *s, uint32_t i, writer *w, bool *ok, tn_error *err) {
  tni_fed *f = &s->keep->fed[i];
  tni_saved_record r;
  if (!input_record(s, i, s->keep->length, &r)) return TN_OK;
  char *dense = malloc(r.bytes + 1);
  if (!dense) return tni_fail_memory(err, f->t.name);
  if (s->model->roles.kinds[i] == TNI_IN_CONTEXT)
    copy_context(f, &r, dense, true);
  else if (r.bytes)
    memcpy(dense, f->data, r.bytes);
  *ok = put(w, &r, sizeof r) && put(w, dense, r.bytes);
  free(dense);
  return TN_OK;
}

static uint32_t count_records(const tn_session *s) {
  tni_saved_record r;
  uint32_t n = s->model->graph->n_states;
  for (uint32_t i = 0; i < s->model->n_inputs; i++) n += input_record(s, i, s->keep->length, &r);
  return n;
}

/* *ok false: errno says why. The head comes last, so that a file that is cut short is none. */
static tn_status write_file(tn_session *s, writer *w, const void *note, uint64_t n_note, bool *ok, tn_error *err) {
  tni_saved_head head = {.order = ORDER,
                         .n_records = count_records(s),
                         .batch = s->keep->batch,
                         .positions = s->keep->length,
                         .note_bytes = n_note};
  tn_status st = name_model(s->model, &head, err);
  if (st != TN_OK) return st;
  *ok = fseek(w->f, sizeof head, SEEK_SET) == 0 && put(w, note, n_note);
  for (uint32_t k = 0; st == TN_OK && *ok && k < s->model->graph->n_states; k++) st = write_cache(s, k, w, ok, err);
  for (uint32_t i = 0; st == TN_OK && *ok && i < s->model->n_inputs; i++) st = write_input(s, i, w, ok, err);
  if (st != TN_OK || !*ok) return st;
  memcpy(head.magic, MAGIC, sizeof MAGIC);
  head.body_bytes = w->bytes;
  head.body_hash = XXH3_64bits_digest(w->hash);
  head.head_hash = XXH3_64bits(&head, offsetof(tni_saved_head, head_hash));
  *ok = fflush(w->f) == 0 && fseek(w->f, 0, SEEK_SET) == 0 && fwrite(&head, sizeof head, 1, w->f) == 1;
  return TN_OK;
}

static tn_status save_to(tn_session *s, const char *tmp, const char *path, const void *note, uint64_t n_note,
                         tn_error *err) {
  writer w = {.hash = XXH3_createState()};
  bool ok = false;
  if (!w.hash) return tni_fail_memory(err, path);
  XXH3_64bits_reset(w.hash);
  const int fd = open(tmp, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600); /* what was said is nobody else's */
  w.f = fd < 0 ? NULL : fdopen(fd, "w+");
  tn_status st = w.f ? write_file(s, &w, note, n_note, &ok, err) : TN_OK;
  ok = ok && st == TN_OK && fflush(w.f) == 0 && fsync(fd) == 0;
  int why = errno;
  if (w.f && fclose(w.f) != 0 && ok) {
    ok = false;
    why = errno;
  }
  if (!w.f && fd >= 0) close(fd);
  if (ok && rename(tmp, path) != 0) {
    ok = false;
    why = errno;
  }
  XXH3_freeState(w.hash);
  if (!ok && fd >= 0) (void)unlink(tmp);
  if (ok || st != TN_OK) return st;
  return tni_fail(err, TN_E_IO, path, "cannot write '%s': %s", path, strerror(why));
}

static tn_status check_session(const tn_session *s, tn_error *err) {
  const tn_model *m = s->model;
  if (!s->keep) return tni_fail(err, TN_E_INVALID, m->path, "tn_session_keep comes first");
  if (s->keep->slots) return tni_fail(err, TN_E_UNSUPPORTED, m->path, "the sequences have lengths of their own");
  return TN_OK;
}

tn_status tn_session_save(tn_session *s, const char *path, const void *note, uint64_t n_note, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(s);
  TNI_NOT_NULL(path);
  if (n_note && !note)
    return tni_fail(err, TN_E_INVALID, "note", "n_note is %llu and note is NULL", (unsigned long long)n_note);
  s = tni_session_now(s);
  tn_status st = check_session(s, err);
  if (st != TN_OK) return st;
  const size_t n = strlen(path) + 32;
  char *tmp = malloc(n);
  if (!tmp) return tni_fail_memory(err, path);
  snprintf(tmp, n, "%s.tmp.%ld", path, (long)getpid());
  st = save_to(s, tmp, path, note, n_note, err);
  free(tmp);
  return st;
}

/* --- reading ----------------------------------------------------------------------------------------------------- */

typedef struct reader {
  const char *path, *at, *end;
} reader;

static tn_status corrupt(const reader *r, const char *what, tn_error *err) {
  return tni_fail(err, TN_E_CORRUPT, r->path, "'%s': %s", r->path, what);
}

static const void *take(reader *r, uint64_t n) {
  if (n > (uint64_t)(r->end - r->at) || padded(n) > (uint64_t)(r->end - r->at)) return NULL;
  const void *p = r->at;
  r->at += padded(n);
  return p;
}

static tn_status check_head(const tn_session *s, const reader *r, const tni_file *f, tni_saved_head *head,
                            tn_error *err) {
  tni_saved_head mine;
  if (f->bytes < sizeof *head) return corrupt(r, "it is too short for a saved session", err);
  memcpy(head, f->data, sizeof *head);
  if (memcmp(head->magic, MAGIC, sizeof MAGIC) != 0) return corrupt(r, "it is no saved session", err);
  if (head->order != ORDER) return corrupt(r, "it was written by a machine of another byte order", err);
  if (head->head_hash != XXH3_64bits(head, offsetof(tni_saved_head, head_hash)))
    return corrupt(r, "the checksum of its head is wrong", err);
  if (head->body_bytes != f->bytes - sizeof *head) return corrupt(r, "it was cut short, or is too long", err);
  if (head->body_hash != XXH3_64bits((const char *)f->data + sizeof *head, head->body_bytes))
    return corrupt(r, "its checksum is wrong", err);
  const tn_status st = name_model(s->model, &mine, err);
  if (st != TN_OK) return st;
  if (memcmp(head->model, mine.model, sizeof mine.model) != 0)
    return tni_fail(err, TN_E_INVALID, r->path, "'%s' is of another model than '%s'", r->path, s->model->path);
  if (memcmp(head->placement, mine.placement, sizeof mine.placement) != 0)
    return tni_fail(
        err, TN_E_INVALID, r->path,
        "'%s' is of this model with other devices, weight formats or caches: they would not give its numbers", r->path);
  if (head->batch != s->keep->batch)
    return tni_fail(err, TN_E_INVALID, r->path, "'%s' has %lld sequences, the session %lld", r->path,
                    (long long)head->batch, (long long)s->keep->batch);
  if (head->positions < 0) return corrupt(r, "it has a negative length", err);
  if (head->positions > s->keep->limit)
    return tni_fail(err, TN_E_LIMIT, r->path, "'%s' has %lld positions; the caches hold %lld", r->path,
                    (long long)head->positions, (long long)s->keep->limit);
  return TN_OK;
}

/* A step that follows must find what it looks back to. */
static bool covers(const tn_session *s, uint32_t k, int64_t first, int64_t n) {
  const int64_t window = s->model->state_windows[k], need = window >= 0 && window < n ? n - window : 0;
  return first >= 0 && first <= need && (first == 0 || s->states[k].rows.ring);
}

/* The records one after the other: against what they must be (to false), or into the session. */
static tn_status walk_caches(tn_session *s, reader *r, int64_t n, bool to, tn_error *err) {
  for (uint32_t k = 0; k < s->model->graph->n_states; k++) {
    tni_sstate *c = &s->states[k];
    const tni_saved_record *got = take(r, sizeof *got);
    tni_saved_record want;
    if (!got || !covers(s, k, got->first, n)) return corrupt(r, "a cache is missing or begins too late", err);
    tn_status st = cache_record(s, k, got->first, n, &want, err);
    if (st != TN_OK) return st;
    const char *rows = memcmp(got, &want, sizeof want) == 0 ? take(r, want.bytes) : NULL;
    if (!rows) return corrupt(r, "a cache is not as the model has it", err);
    if (!to) continue;
    st = tni_span_take(&c->span, TN_NONE, TN_READ | TN_WRITE, err);
    if (st != TN_OK) return st;
    /* A smaller ring has the last of them. */
    const int64_t from = c->rows.ring && n - c->rows.ring > want.first ? n - c->rows.ring : want.first;
    copy_rows(c, &want, from, (char *)(uintptr_t)rows, false);
    tni_span_wrote(&c->span, n);
    c->held = n ? from : 0;
  }
  return TN_OK;
}

/* Its dims are the model's own where these are constants. */
static bool fits_input(const tn_session *s, uint32_t i, const tni_saved_record *got) {
  const tni_value *v = tni_graph_value(s->model->graph, s->model->graph->inputs[i]);
  int64_t count, fixed;
  uint64_t bytes;
  if (got->kind != TNI_SAVED_INPUT || got->index != i || got->first != 0 || got->dtype != v->pub.dtype ||
      got->rank != v->pub.rank || got->rank > TN_MAX_RANK)
    return false;
  for (uint32_t a = 0; a < got->rank; a++)
    if (tni_ex_is_const(s->model->graph->exprs, v->pub.dims[a], &fixed) && got->dims[a] != fixed) return false;
  return tni_dims_count(got->dims, got->rank, &count) == TN_OK && tni_dtype_bytes(got->dtype, count, &bytes) == TN_OK &&
         bytes == got->bytes;
}

static tn_status put_input(tn_session *s, uint32_t i, const tni_saved_record *got, const void *bytes, int64_t n,
                           tn_error *err) {
  tni_fed *f = &s->keep->fed[i];
  if (s->model->roles.kinds[i] == TNI_IN_CONTEXT) {
    const tn_status st = f->t.dims[1] < n ? tni_feed_lay(s->keep, f, n, err) : TN_OK;
    if (st == TN_OK) copy_context(f, got, (char *)(uintptr_t)bytes, false);
    return st;
  }
  if (s->model->roles.kinds[i] == TNI_IN_STATE) {
    if (got->bytes) memcpy(f->data, bytes, got->bytes);
    return TN_OK;
  }
  tn_tensor t = f->t;
  memcpy(t.dims, got->dims, got->rank * sizeof *t.dims);
  t.data = bytes;
  t.bytes = got->bytes;
  return tni_feed_give(s, i, &t, err);
}

static tn_status walk_inputs(tn_session *s, reader *r, uint32_t n_records, int64_t n, bool to, tn_error *err) {
  for (uint32_t i = 0, left = n_records; i < s->model->n_inputs; i++) {
    const uint8_t kind = s->model->roles.kinds[i];
    const bool must = kind == TNI_IN_STATE || kind == TNI_IN_CONTEXT;
    tni_saved_record want;
    const tni_saved_record *got = (const void *)r->at;
    if ((uint64_t)(r->end - r->at) < sizeof *got || !left || got->index != i) {
      if (must) return corrupt(r, "an input is missing", err);
      continue;
    }
    const bool has = must && input_record(s, i, n, &want);
    if (!fits_input(s, i, got) || (must ? !has || memcmp(got, &want, sizeof want) != 0 : !tni_feed_stays(s->model, i)))
      return corrupt(r, "an input is not as the model has it", err);
    (void)!take(r, sizeof *got);
    const void *bytes = take(r, got->bytes);
    if (!bytes) return corrupt(r, "an input is not whole", err);
    const tn_status st = to ? put_input(s, i, got, bytes, n, err) : TN_OK;
    if (st != TN_OK) return st;
    left--;
  }
  return r->at == r->end ? TN_OK : corrupt(r, "something stands after its last record", err);
}

static tn_status load_file(tn_session *s, const char *path, const tni_file *f, void **note, uint64_t *n_note,
                           tn_error *err) {
  reader r = {.path = path};
  tni_saved_head head;
  tn_status st = check_head(s, &r, f, &head, err);
  if (st != TN_OK) return st;
  r.at = (const char *)f->data + sizeof head;
  r.end = r.at + head.body_bytes;
  const void *said = take(&r, head.note_bytes);
  const uint32_t n_states = s->model->graph->n_states;
  if (!said || head.n_records < n_states) return corrupt(&r, "it is not whole", err);
  reader first = r;
  st = walk_caches(s, &r, head.positions, false, err);
  if (st == TN_OK) st = walk_inputs(s, &r, head.n_records - n_states, head.positions, false, err);
  char *copy = st == TN_OK ? malloc(head.note_bytes + 1) : NULL;
  if (st != TN_OK) return st;
  if (!copy) return tni_fail_memory(err, path);
  if (head.note_bytes) memcpy(copy, said, head.note_bytes);
  copy[head.note_bytes] = '\0';
  (void)!tn_session_truncate(s, 0, NULL);
  st = walk_caches(s, &first, head.positions, true, err);
  if (st == TN_OK) st = walk_inputs(s, &first, head.n_records - n_states, head.positions, true, err);
  if (st != TN_OK) {
    (void)!tn_session_truncate(s, 0, NULL);
    free(copy);
    return st;
  }
  s->keep->length = head.positions;
  s->keep->gaps = tni_feed_has_gaps(s);
  s->keep->remembered_at = -1;
  tni_long_loaded(s);
  tni_feed_clear(s);
  *note = copy;
  *n_note = head.note_bytes;
  return TN_OK;
}

tn_status tn_session_load(tn_session *s, const char *path, void **note, uint64_t *n_note, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(s);
  TNI_NOT_NULL(path);
  TNI_NOT_NULL(note);
  TNI_NOT_NULL(n_note);
  tni_file f;
  s = tni_session_now(s);
  tn_status st = check_session(s, err);
  if (st == TN_OK) st = tni_file_read(path, &f, err);
  if (st != TN_OK) return st;
  st = load_file(s, path, &f, note, n_note, err);
  tni_file_unmap(&f);
  return st;
}
