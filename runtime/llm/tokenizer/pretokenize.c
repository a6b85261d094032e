/* SPDX-License-Identifier: Apache-2.0
 *
 * Pre-tokenizers. A component of the file becomes one to three primitive steps; splitting steps only cut pieces, the
 * others rewrite the text of all pieces into the second buffer.
 */
#include <string.h>

#include "runtime/llm/text/text.h"
#include "runtime/llm/tokenizer/tok.h"

/* --- reading ------------------------------------------------------------------------------------------------------ */

static tn_status add_pre(tni_reader *r, const tni_at *a, tni_pre_kind kind, tni_pre **out) {
  tni_tokenizer *t = r->t;
  if (!t->pres) t->pres = TNI_NEW_ARRAY(t->arena, tni_pre, TNI_TOK_STEPS);
  if (!t->pres) return tni_fail_memory(r->err, a->file);
  if (t->n_pres == TNI_TOK_STEPS) return tni_at_fail(a, TN_E_LIMIT, r->err, "more than %d steps", TNI_TOK_STEPS);
  *out = &t->pres[t->n_pres++];
  (*out)->kind = kind;
  return TN_OK;
}

static tn_status add_pred(tni_reader *r, const tni_at *a, bool (*pred)(uint32_t), tni_behavior b) {
  tni_pre *x = NULL;
  tn_status st = add_pre(r, a, TNI_PRE_SPLIT_IF, &x);
  if (st != TN_OK) return st;
  x->pred = pred;
  x->behavior = b;
  return TN_OK;
}

static tn_status read_behavior(tni_reader *r, const tni_at *a, tni_behavior *out) {
  static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  tni_at b = tni_at_key(a, "behavior");
  tni_view v;
  tn_status st = tni_at_string(&b, &v, r->err);
  if (st != TN_OK) return st;
  for (size_t i = 0; i < 5; i++)
    if (tni_view_is(v, names[i])) {
      *out = (tni_behavior)i;
      return TN_OK;
    }
  return tni_at_fail(&b, TN_E_UNSUPPORTED, r->err, "unknown behavior %.60s", v.v);
}

static tn_status read_byte_level(tni_reader *r, const tni_at *a) {
  /* GPT-2's, as published with its encoder. */
  static const char re[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
  bool prefix, use_regex;
  tni_at p = tni_at_key(a, "add_prefix_space"), u = tni_at_key(a, "use_regex");
  tni_pre *x = NULL;
  tn_status st = tni_at_bool(&p, true, &prefix, r->err);
  if (st == TN_OK) st = tni_at_bool(&u, true, &use_regex, r->err);
  if (st == TN_OK && prefix && (st = add_pre(r, a, TNI_PRE_SPACE, &x)) == TN_OK) x->text = (tni_view){" ", 1};
  if (st == TN_OK && use_regex && (st = add_pre(r, a, TNI_PRE_SPLIT, &x)) == TN_OK) {
    x->behavior = TNI_SPLIT_ISOLATED;
    st = tni_pattern_regex(a, re, sizeof re - 1, &x->pattern, r->err);
  }
  return st != TN_OK ? st : add_pre(r, a, TNI_PRE_BYTES, &x);
}

/* Old files say add_prefix_space, new ones prepend_scheme; old ones may say both. */
static tn_status read_metaspace(tni_reader *r, const tni_at *a) {
  tni_at rep = tni_at_key(a, "replacement"), old = tni_at_key(a, "add_prefix_space"),
         scheme = tni_at_key(a, "prepend_scheme"), split = tni_at_key(a, "split");
  bool add_space, do_split;
  tni_view v;
  tni_pre *x = NULL;
  tn_status st = add_pre(r, a, TNI_PRE_METASPACE, &x);
  if (st == TN_OK) st = tni_tok_string(r, &rep, &x->text);
  if (st == TN_OK) st = tni_at_bool(&old, true, &add_space, r->err);
  if (st == TN_OK) st = tni_at_bool(&split, true, &do_split, r->err);
  if (st != TN_OK) return st;
  if (x->text.n == 0 || tni_utf8_len(x->text.v[0]) != x->text.n)
    return tni_at_fail(&rep, TN_E_INVALID, r->err, "expected one character");
  if (scheme.v) {
    st = tni_at_string(&scheme, &v, r->err);
    if (st != TN_OK) return st;
    x->scheme = tni_view_is(v, "first")   ? TNI_SCHEME_FIRST
                : tni_view_is(v, "never") ? TNI_SCHEME_NEVER
                                          : TNI_SCHEME_ALWAYS;
    if (x->scheme == TNI_SCHEME_ALWAYS && !tni_view_is(v, "always"))
      return tni_at_fail(&scheme, TN_E_UNSUPPORTED, r->err, "unknown scheme %.60s", v.v);
  }
  if (!add_space && scheme.v && x->scheme != TNI_SCHEME_NEVER)
    return tni_at_fail(a, TN_E_INVALID, r->err, "add_prefix_space and prepend_scheme contradict each other");
  if (!add_space) x->scheme = TNI_SCHEME_NEVER;
  if (!do_split) return TN_OK;
  tni_view text = x->text;
  st = add_pre(r, a, TNI_PRE_SPLIT, &x);
  if (st != TN_OK) return st;
  x->behavior = TNI_SPLIT_MERGED_WITH_NEXT;
  return tni_pattern_literal(text.v, text.n, r->t->arena, &x->pattern, r->err);
}

static tn_status read_split(tni_reader *r, const tni_at *a) {
  tni_pre *x = NULL;
  tni_at p = tni_at_key(a, "pattern"), i = tni_at_key(a, "invert");
  tn_status st = add_pre(r, a, TNI_PRE_SPLIT, &x);
  if (st == TN_OK) st = tni_pattern_parse(&p, r->t->arena, &x->pattern, r->err);
  if (st == TN_OK) st = read_behavior(r, a, &x->behavior);
  return st != TN_OK ? st : tni_at_bool(&i, false, &x->invert, r->err);
}

static tn_status read_delimiter(tni_reader *r, const tni_at *a) {
  tni_pre *x = NULL;
  tni_at d = tni_at_key(a, "delimiter");
  tni_view v;
  tn_status st = tni_at_string(&d, &v, r->err);
  if (st == TN_OK && (v.n == 0 || tni_utf8_len(v.v[0]) != v.n))
    st = tni_at_fail(&d, TN_E_INVALID, r->err, "expected one character");
  if (st == TN_OK) st = add_pre(r, a, TNI_PRE_SPLIT, &x);
  if (st != TN_OK) return st;
  x->behavior = TNI_SPLIT_REMOVED;
  return tni_pattern_literal(v.v, v.n, r->t->arena, &x->pattern, r->err);
}

static tn_status read_digits(tni_reader *r, const tni_at *a) {
  bool each;
  tni_at i = tni_at_key(a, "individual_digits");
  tn_status st = tni_at_bool(&i, false, &each, r->err);
  if (st != TN_OK) return st;
  return add_pred(r, a, tni_is_number, each ? TNI_SPLIT_ISOLATED : TNI_SPLIT_CONTIGUOUS);
}

static tn_status read_punctuation(tni_reader *r, const tni_at *a) {
  tni_behavior b = TNI_SPLIT_ISOLATED;
  tni_at k = tni_at_key(a, "behavior");
  tn_status st = k.v ? read_behavior(r, a, &b) : TN_OK;
  return st != TN_OK ? st : add_pred(r, a, tni_is_punct, b);
}

static tn_status read_bert(tni_reader *r, const tni_at *a) {
  tn_status st = add_pred(r, a, tni_is_white, TNI_SPLIT_REMOVED);
  return st != TN_OK ? st : add_pred(r, a, tni_is_punct, TNI_SPLIT_ISOLATED);
}

static tn_status read_white(tni_reader *r, const tni_at *a) { return add_pred(r, a, tni_is_white, TNI_SPLIT_REMOVED); }

static tn_status read_words(tni_reader *r, const tni_at *a) {
  tni_pre *x = NULL;
  return add_pre(r, a, TNI_PRE_WORDS, &x);
}

static tn_status read_length(tni_reader *r, const tni_at *a) {
  tni_pre *x = NULL;
  int64_t n;
  tni_at l = tni_at_key(a, "length");
  tn_status st = tni_at_int(&l, 1, INT32_MAX, &n, r->err);
  if (st == TN_OK) st = add_pre(r, a, TNI_PRE_LENGTH, &x);
  if (st == TN_OK) x->length = (size_t)n;
  return st;
}

tn_status tni_pre_read(tni_reader *r, const tni_at *a, unsigned depth) {
  static const struct {
    const char *type;
    tn_status (*read)(tni_reader *r, const tni_at *a);
  } kinds[] = {{"ByteLevel", read_byte_level}, {"Metaspace", read_metaspace},   {"Split", read_split},
               {"Whitespace", read_words},     {"WhitespaceSplit", read_white}, {"Punctuation", read_punctuation},
               {"Digits", read_digits},        {"BertPreTokenizer", read_bert}, {"CharDelimiterSplit", read_delimiter},
               {"FixedLength", read_length}};
  tni_view type;
  tn_status st = tni_tok_type(r, a, &type);
  if (st != TN_OK) return st;
  if (tni_view_is(type, "Sequence")) return tni_tok_sequence(r, a, "pretokenizers", depth, tni_pre_read);
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    if (tni_view_is(type, kinds[k].type)) return kinds[k].read(r, a);
  return tni_at_fail(a, TN_E_UNSUPPORTED, r->err, "pre-tokenizer %.60s is not supported", type.v);
}

/* --- splitting ---------------------------------------------------------------------------------------------------- */

static tn_status find_pattern(const tni_pre *x, tni_work *w, const char *s, size_t n, tn_error *err) {
  tni_matches m = tni_matches_begin(&x->pattern, &w->match, s, n);
  size_t prev = 0, b = 0, e = 0;
  for (;;) {
    bool found;
    tn_status st = tni_matches_next(&m, &found, &b, &e, err);
    if (st != TN_OK) return st;
    if (!found) break;
    if (prev < b) tni_segs_add(&w->segs, prev, b, false);
    tni_segs_add(&w->segs, b, e, true);
    prev = e;
  }
  if (prev < n) tni_segs_add(&w->segs, prev, n, false);
  return TN_OK;
}

static void find_chars(const tni_pre *x, tni_work *w, const char *s, size_t n) {
  size_t prev = 0;
  for (size_t i = 0, len; i < n; i += len) {
    if (!x->pred(tni_utf8_get(s + i, n - i, &len))) continue;
    if (prev < i) tni_segs_add(&w->segs, prev, i, false);
    tni_segs_add(&w->segs, i, i + len, true);
    prev = i + len;
  }
  if (prev < n) tni_segs_add(&w->segs, prev, n, false);
}

/* Runs of word characters and of other visible ones; space between them is a match, to be removed. */
static void find_words(tni_work *w, const char *s, size_t n) {
  int last = -1;
  size_t begin = 0;
  for (size_t i = 0, len; i < n; i += len) {
    uint32_t cp = tni_utf8_get(s + i, n - i, &len);
    int kind = tni_is_word(cp) ? 1 : tni_is_white(cp) ? 0 : 2;
    if (kind != last && i > begin) tni_segs_add(&w->segs, begin, i, last == 0);
    if (kind != last) begin = i;
    last = kind;
  }
  if (n > begin) tni_segs_add(&w->segs, begin, n, last == 0);
}

static void find_chunks(const tni_pre *x, tni_work *w, const char *s, size_t n) {
  for (size_t b = 0, i = 0; i < n; b = i) {
    for (size_t k = 0; k < x->length && i < n; k++) i += tni_utf8_len(s[i]);
    tni_segs_add(&w->segs, b, i, false);
  }
}

/* Joins the segments as the behavior says; joined ones count as text. */
static void merge_forward(tni_segs *s, tni_behavior b) {
  size_t n = 0;
  bool previous = false;
  for (size_t i = 0; i < s->n; i++) {
    tni_seg x = s->v[i];
    bool join = b == TNI_SPLIT_CONTIGUOUS ? x.match == previous : x.match && !previous;
    previous = x.match;
    if (join && n)
      s->v[n - 1].e = x.e;
    else
      s->v[n++] = (tni_seg){x.b, x.e, false};
  }
  s->n = n;
}

static void merge_backward(tni_segs *s) {
  size_t first = s->n;
  bool previous = false;
  for (size_t i = s->n; i-- > 0;) {
    tni_seg x = s->v[i];
    bool join = x.match && !previous;
    previous = x.match;
    if (join && first < s->n)
      s->v[first].b = x.b;
    else
      s->v[--first] = (tni_seg){x.b, x.e, false};
  }
  memmove(s->v, s->v + first, (s->n - first) * sizeof *s->v);
  s->n -= first;
}

static void apply_behavior(tni_segs *s, tni_behavior b, bool invert) {
  for (size_t i = 0; invert && i < s->n; i++) s->v[i].match = !s->v[i].match;
  if (s->n == 0 || b == TNI_SPLIT_REMOVED) return;
  if (b == TNI_SPLIT_MERGED_WITH_NEXT)
    merge_backward(s);
  else if (b != TNI_SPLIT_ISOLATED)
    merge_forward(s, b);
  else
    for (size_t i = 0; i < s->n; i++) s->v[i].match = false;
}

static tn_status split_piece(const tni_pre *x, tni_work *w, tni_tok_piece p, tn_error *err) {
  const char *s = w->text.v + p.off;
  tni_behavior b = x->behavior;
  tn_status st = TN_OK;
  w->segs.n = 0;
  switch (x->kind) {
    case TNI_PRE_SPLIT:
      st = find_pattern(x, w, s, p.n, err);
      break;
    case TNI_PRE_SPLIT_IF:
      find_chars(x, w, s, p.n);
      break;
    case TNI_PRE_WORDS:
      find_words(w, s, p.n);
      b = TNI_SPLIT_REMOVED;
      break;
    default:
      find_chunks(x, w, s, p.n);
      b = TNI_SPLIT_REMOVED;
  }
  if (st != TN_OK) return st;
  if (w->segs.failed) return tni_fail_memory(err, "pre_tokenizer");
  apply_behavior(&w->segs, b, x->invert);
  for (size_t i = 0; i < w->segs.n; i++) {
    tni_seg g = w->segs.v[i];
    size_t zero = p.zero > g.b ? p.zero - g.b : 0;
    if (zero > g.e - g.b) zero = g.e - g.b;
    if (!g.match && g.e > g.b) tni_pieces_add(&w->next, (tni_tok_piece){p.off + g.b, g.e - g.b, zero, -1});
  }
  return TN_OK;
}

/* --- rewriting ---------------------------------------------------------------------------------------------------- */

static bool starts_with(const char *s, size_t n, tni_view v) { return n >= v.n && memcmp(s, v.v, v.n) == 0; }

/* Appends the piece's new text to w->tmp and gives its new zero. */
static size_t rewrite_piece(const tni_pre *x, tni_work *w, tni_tok_piece p) {
  const char *s = w->text.v + p.off;
  tni_str *out = &w->tmp;
  size_t begin = out->n, zero = 0;
  if (x->kind == TNI_PRE_SPACE) {
    bool add_it = !starts_with(s, p.n, x->text);
    if (add_it) tni_str_add(out, x->text.v, x->text.n);
    tni_str_add(out, s, p.n);
    return p.zero && add_it ? p.zero + x->text.n : p.zero;
  }
  bool meta = x->kind == TNI_PRE_METASPACE;
  if (meta && x->scheme != TNI_SCHEME_NEVER && *s != ' ' && !starts_with(s, p.n, x->text) &&
      (x->scheme == TNI_SCHEME_ALWAYS || p.zero))
    tni_str_add(out, x->text.v, x->text.n);
  for (size_t i = 0; i < p.n; i++) {
    if (!meta)
      tni_str_add_cp(out, tni_byte_char((uint8_t)s[i]));
    else if (s[i] == ' ')
      tni_str_add(out, x->text.v, x->text.n);
    else
      tni_str_add(out, s + i, 1);
    if (i < p.zero) zero = out->n - begin;
  }
  return zero;
}

static void rewrite_all(const tni_pre *x, tni_work *w) {
  tni_str_clear(&w->tmp);
  for (size_t i = 0; i < w->pieces.n; i++) {
    tni_tok_piece p = w->pieces.v[i];
    size_t off = w->tmp.n;
    if (p.id < 0) p = (tni_tok_piece){off, 0, rewrite_piece(x, w, p), -1};
    if (p.id < 0) p.n = w->tmp.n - off;
    tni_pieces_add(&w->next, p);
  }
  tni_str t = w->text;
  w->text = w->tmp;
  w->tmp = t;
}

tn_status tni_pre_tokenize(const tni_tokenizer *t, tni_work *w, tn_error *err) {
  for (size_t k = 0; k < t->n_pres; k++) {
    const tni_pre *x = &t->pres[k];
    w->next.n = 0;
    if (x->kind >= TNI_PRE_SPACE) {
      rewrite_all(x, w);
    } else {
      for (size_t i = 0; i < w->pieces.n; i++) {
        tni_tok_piece p = w->pieces.v[i];
        tn_status st = TN_OK;
        if (p.id >= 0)
          tni_pieces_add(&w->next, p);
        else
          st = split_piece(x, w, p, err);
        if (st != TN_OK) return st;
      }
    }
    tni_tok_pieces q = w->pieces;
    w->pieces = w->next;
    w->next = q;
    if (w->text.over) return tni_fail(err, TN_E_LIMIT, "pre_tokenizer", "text grows over %zu bytes", TNI_STR_MAX);
    if (w->text.failed || w->pieces.failed || w->next.failed) return tni_fail_memory(err, "pre_tokenizer");
  }
  return TN_OK;
}
