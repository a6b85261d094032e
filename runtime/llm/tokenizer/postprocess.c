/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens to the ids of a whole text: truncation and templates.
 */
#include <string.h>

#include "runtime/llm/tokenizer/tok.h"

enum { MAX_TEMPLATE_IDS = 1024 };

static tn_status add_post(tni_reader *r, const tni_at *a, tni_post **out) {
  tni_tokenizer *t = r->t;
  if (!t->posts) t->posts = TNI_NEW_ARRAY(t->arena, tni_post, TNI_TOK_STEPS);
  if (!t->posts) return tni_fail_memory(r->err, a->file);
  if (t->n_posts == TNI_TOK_STEPS) return tni_at_fail(a, TN_E_LIMIT, r->err, "more than %d steps", TNI_TOK_STEPS);
  *out = &t->posts[t->n_posts++];
  (*out)->v = TNI_NEW_ARRAY(t->arena, int32_t, MAX_TEMPLATE_IDS);
  return (*out)->v ? TN_OK : tni_fail_memory(r->err, a->file);
}

static tn_status put_special(tni_reader *r, const tni_at *a, tni_post *x, int32_t id) {
  if (x->n == MAX_TEMPLATE_IDS) return tni_at_fail(a, TN_E_LIMIT, r->err, "more than %d ids", MAX_TEMPLATE_IDS);
  x->v[x->n++] = id;
  return TN_OK;
}

/* ["[SEP]", 102] */
static tn_status read_pair(tni_reader *r, const tni_at *a, const char *key, tni_post *x) {
  tni_at p = tni_at_key(a, key), id = tni_at_item(&p, 1);
  size_t n;
  int64_t v;
  tn_status st = tni_at_array(&p, 2, &n, r->err);
  if (st == TN_OK) st = tni_at_int(&id, 0, TNI_TOK_IDS - 1, &v, r->err);
  return st != TN_OK ? st : put_special(r, a, x, (int32_t)v);
}

static tn_status read_cls_sep(tni_reader *r, const tni_at *a) {
  tni_post *x;
  tn_status st = add_post(r, a, &x);
  if (st == TN_OK) st = read_pair(r, a, "cls", x);
  if (st == TN_OK) st = put_special(r, a, x, TNI_POST_SEQUENCE);
  return st != TN_OK ? st : read_pair(r, a, "sep", x);
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
    if (st == TN_OK) st = put_special(r, &e, x, (int32_t)v);
  }
  return st;
}

static tn_status read_piece(tni_reader *r, const tni_at *a, const tni_at *piece, tni_post *x) {
  tni_at special = tni_at_key(piece, "SpecialToken"), seq = tni_at_key(piece, "Sequence");
  tn_status st = tni_at_object(piece, r->err);
  if (st != TN_OK) return st;
  if (special.v) return read_special(r, a, &special, x);
  if (!seq.v) return tni_at_fail(piece, TN_E_UNSUPPORTED, r->err, "neither SpecialToken nor Sequence");
  if (!tni_at_is(&seq, "id", "A")) return tni_at_fail(&seq, TN_E_INVALID, r->err, "a single text has sequence A only");
  return put_special(r, piece, x, TNI_POST_SEQUENCE);
}

static tn_status read_template(tni_reader *r, const tni_at *a) {
  tni_at single = tni_at_key(a, "single");
  tni_post *x;
  size_t n, texts = 0;
  tn_status st = tni_at_array(&single, MAX_TEMPLATE_IDS, &n, r->err);
  if (st == TN_OK) st = add_post(r, a, &x);
  for (size_t i = 0; st == TN_OK && i < n; i++) {
    tni_at piece = tni_at_item(&single, i);
    st = read_piece(r, a, &piece, x);
    if (st == TN_OK) texts += !json_object_get(piece.v, "SpecialToken"); /* whose ids may be none */
  }
  /* One is what every template has; several would let nested templates multiply the text. */
  if (st == TN_OK && texts != 1)
    st = tni_at_fail(&single, TN_E_INVALID, r->err, "sequence A is there %zu times", texts);
  return st;
}

tn_status tni_post_read(tni_reader *r, const tni_at *a, unsigned depth) {
  tni_view type;
  tn_status st = tni_tok_type(r, a, &type);
  if (st != TN_OK) return st;
  if (tni_view_is(type, "Sequence")) return tni_tok_sequence(r, a, "processors", depth, tni_post_read);
  if (tni_view_is(type, "ByteLevel")) return TN_OK; /* trims offsets, which are not kept here */
  if (tni_view_is(type, "TemplateProcessing")) return read_template(r, a);
  if (tni_view_is(type, "BertProcessing") || tni_view_is(type, "RobertaProcessing")) return read_cls_sep(r, a);
  return tni_at_fail(a, TN_E_UNSUPPORTED, r->err, "post-processor %.60s is not supported", type.v);
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
  size_t extra = 0;
  for (size_t k = 0; k < t->n_posts; k++) extra += t->posts[k].n - 1;
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
  bool ok = true;
  for (size_t k = 0; ok && k < t->n_posts; k++) ok = apply_post(&t->posts[k], w);
  return ok ? TN_OK : tni_fail_memory(err, "post_processor");
}
