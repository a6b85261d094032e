/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/llm/text/text.h"
#include "runtime/llm/tokenizer/tok.h"

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* Texts of added tokens win over the model's; they must not take another token's id. */
static tn_status name_added(tni_reader *r, const tni_at *root) {
  tni_tokenizer *t = r->t;
  tni_at list = tni_at_key(root, "added_tokens");
  for (size_t i = 0; i < t->n_added; i++) {
    const tni_added *x = &t->added[i];
    tni_at a = tni_at_item(&list, i);
    tni_token *k = (size_t)x->id < t->n_tokens ? &t->tokens[x->id] : NULL;
    if (!k) return tni_at_fail(&a, TN_E_INTERNAL, r->err, "id %d is outside the table", (int)x->id);
    if (k->v && (k->n != x->content.n || memcmp(k->v, x->content.v, k->n) != 0))
      return tni_at_fail(&a, TN_E_INVALID, r->err, "%.60s and %.60s have the same id %d", x->content.v, k->v,
                         (int)x->id);
    *k = (tni_token){x->content.v, x->content, (uint32_t)x->content.n, x->special, false};
  }
  return TN_OK;
}

static tn_status read_decoder(tni_reader *r, const tni_at *a) {
  tni_tokenizer *t = r->t;
  t->decs = TNI_NEW_ARRAY(t->arena, tni_dec, TNI_TOK_STEPS);
  if (!t->decs) return tni_fail_memory(r->err, a->file);
  if (!a->v) {
    t->decs[t->n_decs++].kind = TNI_DEC_JOIN;
    return TN_OK;
  }
  tn_status st = tni_dec_read(r, a, 0);
  tni_decs_flatten(t);
  return st;
}

static tn_status read_all(tni_reader *r, const tni_at *root) {
  tni_at added = tni_at_key(root, "added_tokens"), norm = tni_at_key(root, "normalizer"),
         pre = tni_at_key(root, "pre_tokenizer"), post = tni_at_key(root, "post_processor"),
         dec = tni_at_key(root, "decoder"), trunc = tni_at_key(root, "truncation"), pad = tni_at_key(root, "padding");
  tn_status st = tni_at_object(root, r->err);
  if (st == TN_OK) st = tni_model_read(r, root);
  if (st == TN_OK) st = tni_added_read(r, &added);
  if (st == TN_OK) st = name_added(r, root);
  if (st == TN_OK && norm.v) st = tni_norm_read(r, &norm, 0);
  if (st == TN_OK && pre.v) st = tni_pre_read(r, &pre, 0);
  if (st == TN_OK && post.v) st = tni_post_read(r, &post);
  if (st == TN_OK) st = read_decoder(r, &dec);
  if (st == TN_OK) st = tni_limits_read(r, &trunc, &pad);
  return st == TN_OK ? tni_added_build(r) : st;
}

tn_status tni_tokenizer_parse(const char *json, size_t n, const char *file, tni_tokenizer **out, tn_error *err) {
  json_t *tree = NULL;
  tn_status st = tni_json_parse(json, n, file, &tree, err);
  if (st != TN_OK) return st;
  tni_tokenizer *t = calloc(1, sizeof *t);
  if (t) t->arena = tni_arena_create();
  if (t) t->added_ids = tni_map_create();
  if (t && t->arena && t->added_ids) {
    tni_reader r = {t, err};
    tni_at root = tni_at_root(tree, file);
    st = read_all(&r, &root);
  } else {
    st = tni_fail_memory(err, file);
  }
  json_decref(tree);
  if (st != TN_OK) {
    tni_tokenizer_destroy(t);
    return st;
  }
  *out = t;
  return TN_OK;
}

tn_status tni_tokenizer_load(const char *path, tni_tokenizer **out, tn_error *err) {
  tni_file f;
  tn_status st = tni_file_read(path, &f, err);
  if (st != TN_OK) return st;
  st = tni_tokenizer_parse(f.data, f.bytes, path, out, err);
  tni_file_unmap(&f);
  return st;
}

void tni_tokenizer_destroy(tni_tokenizer *t) {
  if (!t) return;
  for (size_t i = 0; i < t->n_norms; i++) tni_pattern_finish(&t->norms[i].pattern);
  for (size_t i = 0; i < t->n_pres; i++) tni_pattern_finish(&t->pres[i].pattern);
  for (size_t i = 0; i < t->n_decs; i++) tni_pattern_finish(&t->decs[i].pattern);
  tni_map_destroy(t->model.vocab);
  tni_map_destroy(t->added_ids);
  tni_arena_destroy(t->arena);
  free(t);
}

/* --- encoding ----------------------------------------------------------------------------------------------------- */

/* Text between tokens found in the raw text: normalize it, then look for the tokens that are searched afterwards. Whose
 * bytes they are is known as long as the normalizer leaves them as they were. lost: set, with nothing added, where that
 * is not known any more and somebody typed a part; NULL: then none of the text is the template's. */
static tn_status add_text(const tni_tokenizer *t, tni_work *w, const char *s, const uint8_t *mine, tni_tok_piece p,
                          bool *lost, tn_error *err) {
  tni_str_clear(&w->norm);
  tni_str_add(&w->norm, s + p.off, p.n);
  w->norm.zero = p.zero;
  tn_status st = tni_normalize(t, w, err);
  if (st != TN_OK) return st;
  const bool changed = w->norm.n != p.n || (p.n && memcmp(w->norm.v, s + p.off, p.n) != 0);
  const bool hidden = changed && mine && memchr(mine + p.off, 0, p.n);
  if (hidden && lost) {
    *lost = true;
    return TN_OK;
  }
  size_t base = w->text.n;
  uint8_t *none = hidden ? calloc(w->norm.n + 1, 1) : NULL;
  if (hidden && !none) return tni_fail_memory(err, "text");
  tni_added_split(&t->normalized, w->norm.n ? w->norm.v : "", changed || !mine ? none : mine + p.off, w->norm.n,
                  w->norm.zero, base, &w->pieces);
  free(none);
  tni_str_add(&w->text, w->norm.v, w->norm.n);
  return w->text.failed || w->norm.failed ? tni_fail_memory(err, "text") : TN_OK;
}

/* The same for a piece of a text that may be marked. Where the normalizer changes it, the special tokens that the
 * template wrote are cut out before: there each byte is still known. */
static tn_status add_marked(const tni_tokenizer *t, tni_work *w, const char *s, const uint8_t *mine, tni_tok_piece p,
                            tn_error *err) {
  bool lost = false;
  tn_status st = add_text(t, w, s, mine, p, &lost, err);
  if (st != TN_OK || !lost) return st;
  tni_tok_pieces parts = {0};
  tni_added_split(&t->special, s + p.off, mine + p.off, p.n, p.zero, p.off, &parts);
  if (parts.failed) st = tni_fail_memory(err, "text");
  for (size_t i = 0; st == TN_OK && i < parts.n; i++) {
    if (parts.v[i].id >= 0)
      tni_pieces_add(&w->pieces, parts.v[i]);
    else
      st = add_text(t, w, s, mine, parts.v[i], NULL, err);
  }
  free(parts.v);
  return st;
}

/* Special ids from `from` on, but the one of unknown text. */
static bool has_special(const tni_tokenizer *t, const tni_work *w, size_t from) {
  for (size_t i = from; i < w->ids.n; i++)
    if (tni_tokenizer_is_special(t, w->ids.v[i]) && w->ids.v[i] != t->model.unk) return true;
  return false;
}

/* A piece without a special token's id: where the model's own vocabulary would make one, letter by letter. */
static tn_status encode_plain(const tni_tokenizer *t, tni_work *w, const char *s, size_t n, tn_error *err) {
  const size_t before = w->ids.n;
  tn_status st = tni_model_encode(t, w, s, n, err);
  if (st != TN_OK || !has_special(t, w, before)) return st;
  w->ids.n = before;
  for (size_t i = 0, len; i < n && st == TN_OK; i += len) {
    len = tni_utf8_len(s[i]);
    st = tni_model_encode(t, w, s + i, len, err);
  }
  if (st == TN_OK && has_special(t, w, before))
    st = tni_fail(err, TN_E_UNSUPPORTED, "text", "'%.*s' is a special token that cannot be written as text",
                  n < 60 ? (int)n : 60, s);
  return st;
}

static tn_status encode_one(const tni_tokenizer *t, tni_work *w, const char *s, const uint8_t *mine, size_t n,
                            bool add_special, tn_error *err) {
  tn_status st = TN_OK;
  size_t bad = tni_utf8_valid(s, n);
  if (bad < n) return tni_fail(err, TN_E_INVALID, "text", "not valid UTF-8 at byte %zu", bad);
  tni_added_split(&t->raw, s, mine, n, n ? tni_utf8_len(*s) : 0, 0, &w->next);
  for (size_t i = 0; st == TN_OK && i < w->next.n; i++) {
    tni_tok_piece p = w->next.v[i];
    if (p.id >= 0)
      tni_pieces_add(&w->pieces, p);
    else
      st = add_marked(t, w, s, mine, p, err);
  }
  if (st == TN_OK && (w->next.failed || w->pieces.failed)) st = tni_fail_memory(err, "text");
  if (st == TN_OK) st = tni_pre_tokenize(t, w, err);
  for (size_t i = 0; st == TN_OK && i < w->pieces.n; i++) {
    tni_tok_piece p = w->pieces.v[i];
    if (p.id >= 0)
      tni_work_id(w, p.id);
    else
      st = (mine ? encode_plain : tni_model_encode)(t, w, w->text.v + p.off, p.n, err);
  }
  if (st == TN_OK && add_special) st = tni_post_process(t, w, err);
  if (st == TN_OK && w->ids_failed) st = tni_fail_memory(err, "ids");
  return st;
}

static tn_status encode(const tni_tokenizer *t, const char *text, const uint8_t *mine, size_t n, bool add_special,
                        tni_ids *out, tn_error *err) {
  if (n > TNI_TOK_TEXT_BYTES)
    return tni_fail(err, TN_E_LIMIT, "text", "%zu bytes, at most %d in one call", n, TNI_TOK_TEXT_BYTES);
  tni_work w = {0};
  tn_status st = encode_one(t, &w, n ? text : "", mine, n, add_special, err);
  if (st == TN_OK) {
    *out = w.ids;
    w.ids.v = NULL;
  }
  tni_work_finish(&w);
  return st;
}

tn_status tni_tokenizer_encode(const tni_tokenizer *t, const char *text, size_t n, bool add_special, tni_ids *out,
                               tn_error *err) {
  return encode(t, text, NULL, n, add_special, out, err);
}

tn_status tni_tokenizer_encode_marked(const tni_tokenizer *t, const char *text, const uint8_t *mine, size_t n,
                                      tni_ids *out, tn_error *err) {
  return encode(t, text, mine, n, false, out, err);
}

void tni_ids_free(tni_ids *ids) {
  free(ids->v);
  *ids = (tni_ids){0};
}

/* --- tokens ------------------------------------------------------------------------------------------------------- */

void tni_tokenizer_limit(tni_tokenizer *t, size_t max) {
  t->truncate = max > 0;
  t->max_length = max;
}

bool tni_tokenizer_lowercases(const tni_tokenizer *t) {
  for (size_t i = 0; i < t->n_norms; i++)
    if (t->norms[i].kind == TNI_NORM_LOWERCASE || (t->norms[i].kind == TNI_NORM_BERT && t->norms[i].lowercase))
      return true;
  return false;
}

int32_t tni_tokenizer_pad(const tni_tokenizer *t) { return t->has_pad ? t->pad_id : -1; }

uint32_t tni_tokenizer_vocab_size(const tni_tokenizer *t) { return (uint32_t)t->n_tokens; }

const char *tni_tokenizer_token(const tni_tokenizer *t, int32_t id) {
  return id >= 0 && (size_t)id < t->n_tokens ? t->tokens[id].v : NULL;
}

int32_t tni_tokenizer_id(const tni_tokenizer *t, const char *token) {
  uint64_t v;
  size_t n = strlen(token);
  return tni_map_get(t->added_ids, token, n, &v) ? (int32_t)v : tni_vocab_id(&t->model, token, n);
}

bool tni_tokenizer_is_special(const tni_tokenizer *t, int32_t id) {
  return id >= 0 && (size_t)id < t->n_tokens && t->tokens[id].special;
}
