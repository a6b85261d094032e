/* SPDX-License-Identifier: Apache-2.0
 *
 * The vocabulary and two small models: WordPiece (longest match first) and WordLevel.
 */
#include <inttypes.h>
#include <string.h>

#include "runtime/llm/text/text.h"
#include "runtime/llm/tokenizer/tok.h"

static tn_status read_entry(tni_reader *r, const tni_at *vocab, const char *key, size_t n, json_int_t id) {
  tni_tokenizer *t = r->t;
  if (n > TNI_TOK_STRING) return tni_at_fail(vocab, TN_E_LIMIT, r->err, "token %.60s... has %zu bytes", key, n);
  tni_token *k = &t->tokens[id];
  if (k->v) return tni_at_fail(vocab, TN_E_INVALID, r->err, "%.60s and %.60s have the same id %d", k->v, key, (int)id);
  k->v = tni_arena_strndup(t->arena, key, n);
  k->n = (uint32_t)n;
  k->shown = (tni_view){k->v, n};
  if (!k->v || !tni_map_put(t->model.vocab, key, n, (uint64_t)id)) return tni_fail_memory(r->err, vocab->file);
  return TN_OK;
}

/* Ids are usually dense; the table ends at the largest of vocabulary (top) and added tokens. */
static tn_status make_table(tni_reader *r, const tni_at *a, const tni_at *vocab, json_int_t top) {
  json_t *v;
  json_t *added = json_object_get(a->v, "added_tokens");
  size_t i;
  json_array_foreach(added, i, v) {
    json_int_t id = json_integer_value(json_object_get(v, "id"));
    if (id > top) top = id;
  }
  if (top >= TNI_TOK_IDS) return tni_at_fail(vocab, TN_E_LIMIT, r->err, "id %" JSON_INTEGER_FORMAT, top);
  r->t->n_tokens = (size_t)(top + 1);
  r->t->tokens = TNI_NEW_ARRAY(r->t->arena, tni_token, r->t->n_tokens + 1);
  return r->t->tokens && tni_map_reserve(r->t->model.vocab, r->t->n_tokens) ? TN_OK : tni_fail_memory(r->err, a->file);
}

static tn_status read_vocab(tni_reader *r, const tni_at *root, const tni_at *model) {
  tni_at vocab = tni_at_key(model, "vocab");
  tn_status st = tni_at_object(&vocab, r->err);
  if (st != TN_OK) return st;
  json_int_t top = -1;
  const char *key;
  json_t *v;
  json_object_foreach(vocab.v, key, v) if (json_integer_value(v) > top) top = json_integer_value(v);
  st = make_table(r, root, &vocab, top);
  if (st != TN_OK) return st;
  for (void *it = json_object_iter(vocab.v); it && st == TN_OK; it = json_object_iter_next(vocab.v, it)) {
    key = json_object_iter_key(it);
    v = json_object_iter_value(it);
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= TNI_TOK_IDS)
      return tni_at_fail(&vocab, TN_E_INVALID, r->err, "token %.60s: expected an id below %d", key, TNI_TOK_IDS);
    st = read_entry(r, &vocab, key, strlen(key), json_integer_value(v));
  }
  return st;
}

/* Unigram's: [[token, score], ...], in the order of ids. */
static tn_status read_pieces(tni_reader *r, const tni_at *root, const tni_at *model) {
  tni_at vocab = tni_at_key(model, "vocab");
  size_t n = 0;
  tn_status st = tni_at_array(&vocab, TNI_TOK_IDS, &n, r->err);
  if (st == TN_OK) st = make_table(r, root, &vocab, (json_int_t)n - 1);
  for (size_t i = 0; i < n && st == TN_OK; i++) {
    json_t *piece = json_array_get(vocab.v, i), *s = json_array_get(piece, 0);
    tni_at x = {piece, vocab.file, ""};
    if (!json_is_string(s) || json_array_size(piece) != 2) {
      x = tni_at_item(&vocab, i); /* with its path, which is made only here: there are many */
      return tni_at_fail(&x, TN_E_INVALID, r->err, "expected [token, score]");
    }
    st = read_entry(r, &vocab, json_string_value(s), json_string_length(s), (json_int_t)i);
  }
  return st;
}

static tn_status read_unk(tni_reader *r, const tni_at *a) {
  tni_at u = tni_at_key(a, "unk_token");
  tni_view v;
  if (!u.v) return TN_OK;
  tn_status st = tni_at_string(&u, &v, r->err);
  if (st != TN_OK) return st;
  r->t->model.unk = tni_vocab_id(&r->t->model, v.v, v.n);
  if (r->t->model.unk < 0 && v.n) r->t->model.unk = TNI_UNK_MISSING;
  return TN_OK;
}

static tn_status read_wordpiece(tni_reader *r, const tni_at *a) {
  tni_at prefix = tni_at_key(a, "continuing_subword_prefix"), max = tni_at_key(a, "max_input_chars_per_word");
  tni_tok_model *m = &r->t->model;
  int64_t v = 100;
  m->prefix = (tni_view){"##", 2};
  tn_status st = prefix.v ? tni_tok_string(r, &prefix, &m->prefix) : TN_OK;
  if (st == TN_OK && max.v) st = tni_at_int(&max, 0, TNI_TOK_STRING, &v, r->err);
  m->max_chars = (size_t)v;
  if (st == TN_OK && m->unk < 0) st = tni_at_fail(a, TN_E_INVALID, r->err, "unk_token is missing or not in vocab");
  return st;
}

/* Files older than `type` are told apart by what only one model has. */
static tn_status kind_of(tni_reader *r, const tni_at *a, tni_model_kind *out) {
  tni_at type = tni_at_key(a, "type"), vocab = tni_at_key(a, "vocab");
  tni_view v = {"", 0};
  tn_status st = type.v ? tni_at_string(&type, &v, r->err) : TN_OK;
  if (st != TN_OK) return st;
  if (!type.v && json_object_get(a->v, "merges")) v = (tni_view){"BPE", 3};
  if (!v.n && json_object_get(a->v, "max_input_chars_per_word")) v = (tni_view){"WordPiece", 9};
  if (!v.n && json_is_array(vocab.v)) v = (tni_view){"Unigram", 7};
  if (!v.n && json_is_object(vocab.v)) v = (tni_view){"WordLevel", 9};
  *out = tni_view_is(v, "BPE")         ? TNI_MODEL_BPE
         : tni_view_is(v, "WordPiece") ? TNI_MODEL_WORDPIECE
         : tni_view_is(v, "Unigram")   ? TNI_MODEL_UNIGRAM
                                       : TNI_MODEL_WORDLEVEL;
  if (*out == TNI_MODEL_WORDLEVEL && !tni_view_is(v, "WordLevel"))
    return tni_at_fail(&type, TN_E_UNSUPPORTED, r->err, "model %.60s is not supported", v.v);
  return TN_OK;
}

tn_status tni_model_read(tni_reader *r, const tni_at *root) {
  tni_at a = tni_at_key(root, "model");
  tni_tok_model *m = &r->t->model;
  m->unk = TNI_UNK_NONE;
  m->vocab = tni_map_create();
  if (!m->vocab) return tni_fail_memory(r->err, root->file);
  tn_status st = tni_at_object(&a, r->err);
  if (st == TN_OK) st = kind_of(r, &a, &m->kind);
  if (st == TN_OK) st = m->kind == TNI_MODEL_UNIGRAM ? read_pieces(r, root, &a) : read_vocab(r, root, &a);
  if (st == TN_OK && m->kind == TNI_MODEL_UNIGRAM) return tni_unigram_read(r, &a);
  if (st == TN_OK) st = read_unk(r, &a);
  if (st != TN_OK || m->kind == TNI_MODEL_WORDLEVEL) return st;
  return m->kind == TNI_MODEL_BPE ? tni_bpe_read(r, &a) : read_wordpiece(r, &a);
}

/* A word with a part that is not in the vocabulary is one unknown token. */
static tn_status encode_wordpiece(const tni_tok_model *m, tni_work *w, const char *s, size_t n, tn_error *err) {
  size_t chars = 0, mark = w->ids.n;
  for (size_t i = 0; i < n; i += tni_utf8_len(s[i])) chars++;
  if (chars > m->max_chars) {
    tni_work_id(w, m->unk);
    return TN_OK;
  }
  tni_str *part = &w->norm; /* free here: normalization is over */
  for (size_t b = 0, e; b < n; b = e) {
    int32_t id = -1;
    tni_str_clear(part);
    if (b) tni_str_add(part, m->prefix.v, m->prefix.n);
    size_t head = part->n;
    tni_str_add(part, s + b, n - b);
    if (part->failed) return tni_fail_memory(err, "model");
    for (e = n; e > b; e = tni_utf8_prev(s, e))
      if ((id = tni_vocab_id(m, part->v, head + (e - b))) >= 0) break;
    if (id < 0) {
      w->ids.n = mark;
      tni_work_id(w, m->unk);
      return TN_OK;
    }
    tni_work_id(w, id);
  }
  return TN_OK;
}

tn_status tni_model_encode(const tni_tokenizer *t, tni_work *w, const char *s, size_t n, tn_error *err) {
  const tni_tok_model *m = &t->model;
  if (m->kind == TNI_MODEL_BPE) return tni_bpe_encode(m, w, s, n, err);
  if (m->kind == TNI_MODEL_UNIGRAM) return tni_unigram_encode(m, w, s, n, err);
  if (m->kind == TNI_MODEL_WORDPIECE) return encode_wordpiece(m, w, s, n, err);
  int32_t id = tni_vocab_id(m, s, n);
  if (id < 0) id = m->unk;
  if (id < 0)
    return tni_fail(err, TN_E_INVALID, "model", "%.*s... is unknown and there is no unk_token", (int)(n < 40 ? n : 40),
                    s);
  tni_work_id(w, id);
  return TN_OK;
}
