/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoders: reading them from the file.
 */
#include <string.h>

#include "runtime/llm/text/text.h"
#include "runtime/llm/tokenizer/tok.h"

enum { MAX_STRIP = 4096 };

static tn_status one_char(tni_reader *r, const tni_at *a, const char *key, tni_view *out) {
  tni_at c = tni_at_key(a, key);
  tn_status st = tni_tok_string(r, &c, out);
  if (st == TN_OK && (out->n == 0 || tni_utf8_len(out->v[0]) != out->n))
    st = tni_at_fail(&c, TN_E_INVALID, r->err, "expected one character");
  return st;
}

static tn_status string_or(tni_reader *r, const tni_at *a, const char *key, const char *dflt, tni_view *out) {
  tni_at s = tni_at_key(a, key);
  *out = (tni_view){dflt, strlen(dflt)};
  return s.v ? tni_tok_string(r, &s, out) : TN_OK;
}

static tn_status read_metaspace(tni_reader *r, const tni_at *a, tni_dec *x) {
  tni_at old = tni_at_key(a, "add_prefix_space");
  bool prefix;
  tn_status st = one_char(r, a, "replacement", &x->text);
  if (st == TN_OK) st = tni_at_bool(&old, true, &prefix, r->err);
  if (st == TN_OK) x->keep_first = !prefix || tni_at_is(a, "prepend_scheme", "never");
  return st;
}

static tn_status read_strip(tni_reader *r, const tni_at *a, tni_dec *x) {
  tni_at start = tni_at_key(a, "start"), stop = tni_at_key(a, "stop");
  int64_t b, e;
  tn_status st = one_char(r, a, "content", &x->text);
  if (st == TN_OK) st = tni_at_int(&start, 0, MAX_STRIP, &b, r->err);
  if (st == TN_OK) st = tni_at_int(&stop, 0, MAX_STRIP, &e, r->err);
  if (st != TN_OK) return st;
  x->start = (size_t)b;
  x->stop = (size_t)e;
  return TN_OK;
}

static tn_status read_replace(tni_reader *r, const tni_at *a, tni_dec *x) {
  tni_at pattern = tni_at_key(a, "pattern"), content = tni_at_key(a, "content");
  tn_status st = tni_tok_string(r, &content, &x->text);
  return st != TN_OK ? st : tni_pattern_parse(&pattern, r->t->arena, &x->pattern, r->err);
}

static tn_status read_wordpiece(tni_reader *r, const tni_at *a, tni_dec *x) {
  tni_at cleanup = tni_at_key(a, "cleanup");
  tn_status st = string_or(r, a, "prefix", "##", &x->text);
  return st != TN_OK ? st : tni_at_bool(&cleanup, true, &x->cleanup, r->err);
}

static tn_status read_bpe(tni_reader *r, const tni_at *a, tni_dec *x) {
  tni_view suffix;
  tn_status st = string_or(r, a, "suffix", "</w>", &suffix);
  return st != TN_OK ? st : tni_pattern_literal(suffix.v, suffix.n, r->t->arena, &x->pattern, r->err);
}

static tn_status read_ctc(tni_reader *r, const tni_at *a, tni_dec *x) {
  tni_at cleanup = tni_at_key(a, "cleanup");
  tn_status st = string_or(r, a, "pad_token", "<pad>", &x->text);
  if (st == TN_OK) st = string_or(r, a, "word_delimiter_token", "|", &x->text2);
  return st != TN_OK ? st : tni_at_bool(&cleanup, true, &x->cleanup, r->err);
}

tn_status tni_dec_read(tni_reader *r, const tni_at *a, unsigned depth) {
  static const struct {
    const char *type;
    tni_dec_kind kind;
    tn_status (*read)(tni_reader *r, const tni_at *a, tni_dec *x);
  } kinds[] = {{"ByteLevel", TNI_DEC_BYTES, NULL},
               {"Metaspace", TNI_DEC_METASPACE, read_metaspace},
               {"ByteFallback", TNI_DEC_BYTE_FALLBACK, NULL},
               {"Fuse", TNI_DEC_FUSE, NULL},
               {"Strip", TNI_DEC_STRIP, read_strip},
               {"Replace", TNI_DEC_REPLACE, read_replace},
               {"WordPiece", TNI_DEC_WORDPIECE, read_wordpiece},
               {"BPEDecoder", TNI_DEC_BPE, read_bpe},
               {"CTC", TNI_DEC_CTC, read_ctc}};
  tni_tokenizer *t = r->t;
  tni_view type;
  tn_status st = tni_tok_type(r, a, &type);
  if (st != TN_OK) return st;
  if (tni_view_is(type, "Sequence")) return tni_tok_sequence(r, a, "decoders", depth, tni_dec_read);
  size_t k = 0, n = sizeof kinds / sizeof *kinds;
  while (k < n && !tni_view_is(type, kinds[k].type)) k++;
  if (k == n) return tni_at_fail(a, TN_E_UNSUPPORTED, r->err, "decoder %.60s is not supported", type.v);
  if (t->n_decs == TNI_TOK_STEPS) return tni_at_fail(a, TN_E_LIMIT, r->err, "more than %d decoders", TNI_TOK_STEPS);
  tni_dec *x = &t->decs[t->n_decs++];
  x->kind = kinds[k].kind;
  return kinds[k].read ? kinds[k].read(r, a, x) : TN_OK;
}

static bool needs_whole(const tni_dec *x) {
  switch (x->kind) {
    case TNI_DEC_BYTES:
    case TNI_DEC_BYTE_FALLBACK:
    case TNI_DEC_CTC:
    case TNI_DEC_BPE:
      return true;
    case TNI_DEC_WORDPIECE:
      return x->cleanup;
    case TNI_DEC_REPLACE:
      return x->pattern.re || x->pattern.lit.n == 0;
    default:
      return false;
  }
}

void tni_decs_flatten(tni_tokenizer *t) {
  bool fused = false;
  for (size_t k = 0; k < t->n_decs; k++) {
    tni_dec *x = &t->decs[k];
    x->fused = fused;
    x->whole = fused && needs_whole(x);
    fused |= x->kind == TNI_DEC_FUSE || x->kind == TNI_DEC_BYTES;
  }
}
