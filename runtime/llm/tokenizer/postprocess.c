/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens to the ids of a whole text: truncation and templates.
 */
#include <string.h>

#include "runtime/llm/tokenizer/tok.h"

enum { MAX_TEMPLATE_IDS = 1024 };

/* The text and ids around it as the steps so far leave them. As in the reference each step gets a list of encodings and
 * gives another: a template makes one of each of its pieces, so a template after it sees a pair. */
typedef struct post_list {
  tni_post *v;
  size_t n;
} post_list;

static tn_status post_new(tni_reader *r, const tni_at *a, post_list *x, size_t n) {
  if (n > MAX_TEMPLATE_IDS) return tni_at_fail(a, TN_E_LIMIT, r->err, "more than %d pieces", MAX_TEMPLATE_IDS);
  *x = (post_list){TNI_NEW_ARRAY(r->t->arena, tni_post, n ? n : 1), n};
  return x->v ? TN_OK : tni_fail_memory(r->err, a->file);
}

/* Appends ids to an encoding; they are copied when it grows, so lists may share what they have. */
static tn_status post_append(tni_reader *r, const tni_at *a, tni_post *x, const int32_t *ids, size_t n) {
  if (n > MAX_TEMPLATE_IDS || x->n + n > MAX_TEMPLATE_IDS)
    return tni_at_fail(a, TN_E_LIMIT, r->err, "more than %d ids", MAX_TEMPLATE_IDS);
  int32_t *v = TNI_NEW_ARRAY(r->t->arena, int32_t, x->n + n + 1);
  if (!v) return tni_fail_memory(r->err, a->file);
  if (x->n) memcpy(v, x->v, x->n * sizeof *v);
  if (n) memcpy(v + x->n, ids, n * sizeof *v);
  *x = (tni_post){v, x->n + n};
  return TN_OK;
}

/* ["[SEP]", 102] */
static tn_status read_pair(tni_reader *r, const tni_at *a, const char *key, int32_t *id) {
  tni_at p = tni_at_key(a, key), second = tni_at_item(&p, 1);
  size_t n;
  int64_t v = 0;
  tn_status st = tni_at_array(&p, 2, &n, r->err);
  if (st == TN_OK) st = tni_at_int(&second, 0, TNI_TOK_IDS - 1, &v, r->err);
  *id = (int32_t)v;
  return st;
}

/* Of a pair the second text has no cls; RoBERTa puts sep in its place. */
static tn_status read_cls_sep(tni_reader *r, const tni_at *a, bool roberta, post_list *x) {
  int32_t cls = 0, sep = 0;
  post_list old = *x;
  tn_status st = read_pair(r, a, "cls", &cls);
  if (st == TN_OK) st = read_pair(r, a, "sep", &sep);
  if (st == TN_OK) st = post_new(r, a, x, old.n);
  for (size_t i = 0; st == TN_OK && i < old.n; i++) {
    if (i == 0 || roberta) st = post_append(r, a, &x->v[i], i ? &sep : &cls, 1);
    if (st == TN_OK) st = post_append(r, a, &x->v[i], old.v[i].v, old.v[i].n);
    if (st == TN_OK) st = post_append(r, a, &x->v[i], &sep, 1);
  }
  return st;
}

static tn_status read_special(tni_reader *r, const tni_at *a, const tni_at *piece, tni_post *x) {
  tni_at id = tni_at_key(piece, "id"), map = tni_at_key(a, "special_tokens");
  tni_view name;
  tn_status st = tni_at_string(&id, &name, r->err);
  if (st == TN_OK) st = tni_at_object(&map, r->err);
  if (st != TN_OK) return st;
  tni_at entry = tni_at_key(&map, name.v), ids = tni_at_key(&entry, "ids");
  if (!entry.v) return tni_at_fail(&id, TN_E_INVALID, r->err, "%.60s is not in special_tokens", name.v);
  size_t n;
  st = tni_at_array(&ids, MAX_TEMPLATE_IDS, &n, r->err);
  for (size_t i = 0; i < n && st == TN_OK; i++) {
    tni_at e = tni_at_item(&ids, i);
    int64_t v;
    st = tni_at_int(&e, 0, TNI_TOK_IDS - 1, &v, r->err);
    if (st == TN_OK) st = post_append(r, &e, x, &(int32_t){(int32_t)v}, 1);
  }
  return st;
}

static tn_status read_piece(tni_reader *r, const tni_at *a, const tni_at *piece, const post_list *old, tni_post *x) {
  tni_at special = tni_at_key(piece, "SpecialToken"), seq = tni_at_key(piece, "Sequence");
  tn_status st = tni_at_object(piece, r->err);
  if (st != TN_OK) return st;
  if (special.v) return read_special(r, a, &special, x);
  if (!seq.v) return tni_at_fail(piece, TN_E_UNSUPPORTED, r->err, "neither SpecialToken nor Sequence");
  const size_t k = tni_at_is(&seq, "id", "A") ? 0 : 1;
  if (k >= old->n) return tni_at_fail(&seq, TN_E_INVALID, r->err, "a single text has sequence A only");
  return post_append(r, piece, x, old->v[k].v, old->v[k].n);
}

static size_t count_texts(const post_list *x) {
  size_t n = 0;
  for (size_t i = 0; i < x->n; i++)
    for (size_t k = 0; k < x->v[i].n; k++) n += x->v[i].v[k] == TNI_POST_SEQUENCE;
  return n;
}

static tn_status read_template(tni_reader *r, const tni_at *a, post_list *x) {
  post_list old = *x;
  if (old.n > 2) return tni_at_fail(a, TN_E_UNSUPPORTED, r->err, "a template after one of %zu pieces", old.n);
  tni_at pieces = tni_at_key(a, old.n == 1 ? "single" : "pair");
  size_t n;
  tn_status st = tni_at_array(&pieces, MAX_TEMPLATE_IDS, &n, r->err);
  if (st == TN_OK) st = post_new(r, a, x, n);
  for (size_t i = 0; st == TN_OK && i < n; i++) {
    tni_at piece = tni_at_item(&pieces, i);
    st = read_piece(r, a, &piece, &old, &x->v[i]);
  }
  /* One is what every template has; several would let nested templates multiply the text. */
  if (st == TN_OK && count_texts(x) != 1)
    st = tni_at_fail(&pieces, TN_E_INVALID, r->err, "sequence A is there %zu times", count_texts(x));
  return st;
}

static tn_status read_steps(tni_reader *r, const tni_at *a, unsigned depth, post_list *x) {
  tni_view type;
  tn_status st = tni_tok_type(r, a, &type);
  if (st != TN_OK) return st;
  if (tni_view_is(type, "Sequence")) {
    tni_at list = tni_at_key(a, "processors");
    size_t n;
    if (depth >= TNI_TOK_DEPTH) return tni_at_fail(a, TN_E_LIMIT, r->err, "more than %d Sequences deep", TNI_TOK_DEPTH);
    st = tni_at_array(&list, TNI_TOK_STEPS, &n, r->err);
    for (size_t i = 0; st == TN_OK && i < n; i++) {
      tni_at item = tni_at_item(&list, i);
      st = read_steps(r, &item, depth + 1, x);
    }
    return st;
  }
  if (++r->t->n_posts > TNI_TOK_STEPS) return tni_at_fail(a, TN_E_LIMIT, r->err, "more than %d steps", TNI_TOK_STEPS);
  if (tni_view_is(type, "ByteLevel")) return TN_OK; /* trims offsets, which are not kept here */
  if (tni_view_is(type, "TemplateProcessing")) return read_template(r, a, x);
  if (tni_view_is(type, "BertProcessing")) return read_cls_sep(r, a, false, x);
  if (tni_view_is(type, "RobertaProcessing")) return read_cls_sep(r, a, true, x);
  return tni_at_fail(a, TN_E_UNSUPPORTED, r->err, "post-processor %.60s is not supported", type.v);
}

/* All steps are one template in the end. */
tn_status tni_post_read(tni_reader *r, const tni_at *a) {
  post_list x;
  tn_status st = post_new(r, a, &x, 1);
  if (st == TN_OK) st = post_append(r, a, &x.v[0], &(int32_t){TNI_POST_SEQUENCE}, 1);
  if (st == TN_OK) st = read_steps(r, a, 0, &x);
  r->t->n_posts = 0;
  for (size_t i = 0; st == TN_OK && i < x.n; i++) st = post_append(r, a, &r->t->post, x.v[i].v, x.v[i].n);
  return st;
}

static tn_status read_truncation(tni_reader *r, const tni_at *a) {
  tni_at max = tni_at_key(a, "max_length");
  int64_t v;
  tn_status st = tni_at_object(a, r->err);
  if (st == TN_OK) st = tni_at_int(&max, 0, INT32_MAX, &v, r->err);
  if (st == TN_OK) r->t->truncate_left = tni_at_is(a, "direction", "Left");
  return st;
}

/* Rows of a batch are padded by who makes the batch; what that needs of the file is the id. */
static tn_status read_padding(tni_reader *r, const tni_at *a) {
  tni_at id = tni_at_key(a, "pad_id");
  int64_t v = 0;
  tn_status st = tni_at_object(a, r->err);
  if (st == TN_OK) st = tni_at_int(&id, 0, TNI_TOK_IDS - 1, &v, r->err);
  if (st != TN_OK) return st;
  r->t->has_pad = true;
  r->t->pad_id = (int32_t)v;
  return TN_OK;
}

tn_status tni_limits_read(tni_reader *r, const tni_at *truncation, const tni_at *padding) {
  tn_status st = truncation->v ? read_truncation(r, truncation) : TN_OK;
  return st == TN_OK && padding->v ? read_padding(r, padding) : st;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static tn_status truncate_ids(const tni_tokenizer *t, tni_work *w, tn_error *err) {
  const size_t extra = t->post.n ? t->post.n - 1 : 0;
  if (extra > t->max_length)
    return tni_fail(err, TN_E_INVALID, "truncation", "a limit of %zu tokens has no room for %zu special tokens",
                    t->max_length, extra);
  size_t keep = t->max_length - extra;
  if (w->ids.n <= keep) return TN_OK;
  if (t->truncate_left) memmove(w->ids.v, w->ids.v + (w->ids.n - keep), keep * sizeof *w->ids.v);
  w->ids.n = keep;
  return TN_OK;
}

/* n ids of room before `at`. */
static bool open_gap(tni_work *w, size_t at, size_t n) {
  size_t tail = w->ids.n - at;
  for (size_t i = 0; i < n; i++) tni_work_id(w, 0);
  if (w->ids_failed) return false;
  if (n) memmove(w->ids.v + at + n, w->ids.v + at, tail * sizeof *w->ids.v);
  return true;
}

static bool apply_post(const tni_post *x, tni_work *w) {
  size_t before = 0;
  while (before < x->n && x->v[before] != TNI_POST_SEQUENCE) before++;
  if (!open_gap(w, 0, before)) return false;
  for (size_t i = 0; i < before; i++) w->ids.v[i] = x->v[i];
  for (size_t i = before + 1; i < x->n; i++) tni_work_id(w, x->v[i]);
  return !w->ids_failed;
}

tn_status tni_post_process(const tni_tokenizer *t, tni_work *w, tn_error *err) {
  tn_status st = t->truncate ? truncate_ids(t, w, err) : TN_OK;
  if (st != TN_OK) return st;
  return !t->post.n || apply_post(&t->post, w) ? TN_OK : tni_fail_memory(err, "post_processor");
}
