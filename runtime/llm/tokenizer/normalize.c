/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalizers. Each takes w->norm and leaves its result there; w->norm2 is the other half of a double buffer.
 */
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "runtime/llm/text/text.h"
#include "runtime/llm/tokenizer/tok.h"

static tni_norm *add_norm(tni_reader *r) {
  tni_tokenizer *t = r->t;
  if (!t->norms) t->norms = TNI_NEW_ARRAY(t->arena, tni_norm, TNI_TOK_STEPS);
  return t->norms && t->n_norms < TNI_TOK_STEPS ? &t->norms[t->n_norms++] : NULL;
}

static tn_status read_strip(tni_reader *r, const tni_at *a, tni_norm *x) {
  tni_at left = tni_at_key(a, "strip_left"), right = tni_at_key(a, "strip_right");
  tn_status st = tni_at_bool(&left, true, &x->left, r->err);
  return st != TN_OK ? st : tni_at_bool(&right, true, &x->right, r->err);
}

static tn_status read_bert(tni_reader *r, const tni_at *a, tni_norm *x) {
  tni_at clean = tni_at_key(a, "clean_text"), chinese = tni_at_key(a, "handle_chinese_chars"),
         lower = tni_at_key(a, "lowercase"), accents = tni_at_key(a, "strip_accents");
  tn_status st = tni_at_bool(&clean, true, &x->clean, r->err);
  if (st == TN_OK) st = tni_at_bool(&chinese, true, &x->chinese, r->err);
  if (st == TN_OK) st = tni_at_bool(&lower, true, &x->lowercase, r->err);
  return st != TN_OK ? st : tni_at_bool(&accents, x->lowercase, &x->strip_accents, r->err);
}

static tn_status read_replace(tni_reader *r, const tni_at *a, tni_norm *x) {
  tni_at pattern = tni_at_key(a, "pattern"), content = tni_at_key(a, "content");
  tn_status st = tni_tok_string(r, &content, &x->text);
  return st != TN_OK ? st : tni_pattern_parse(&pattern, r->t->arena, &x->pattern, r->err);
}

static const struct {
  const char *type;
  tni_norm_kind kind;
} kinds[] = {{"NFC", TNI_NORM_NFC},
             {"NFD", TNI_NORM_NFD},
             {"NFKC", TNI_NORM_NFKC},
             {"NFKD", TNI_NORM_NFKD},
             {"Lowercase", TNI_NORM_LOWERCASE},
             {"Strip", TNI_NORM_STRIP},
             {"StripAccents", TNI_NORM_STRIP_ACCENTS},
             {"Replace", TNI_NORM_REPLACE},
             {"Prepend", TNI_NORM_PREPEND},
             {"BertNormalizer", TNI_NORM_BERT},
             {"Nmt", TNI_NORM_NMT},
             {"Precompiled", TNI_NORM_PRECOMPILED},
             {"ByteLevel", TNI_NORM_BYTES}};

tn_status tni_norm_read(tni_reader *r, const tni_at *a, unsigned depth) {
  tni_view type;
  tn_status st = tni_tok_type(r, a, &type);
  if (st != TN_OK) return st;
  if (tni_view_is(type, "Sequence")) return tni_tok_sequence(r, a, "normalizers", depth, tni_norm_read);
  size_t k = 0, n = sizeof kinds / sizeof *kinds;
  while (k < n && !tni_view_is(type, kinds[k].type)) k++;
  if (k == n) return tni_at_fail(a, TN_E_UNSUPPORTED, r->err, "normalizer %.60s is not supported", type.v);
  tni_norm *x = add_norm(r);
  if (!r->t->norms) return tni_fail_memory(r->err, "normalizer");
  if (!x) return tni_at_fail(a, TN_E_LIMIT, r->err, "more than %d normalizers", TNI_TOK_STEPS);
  x->kind = kinds[k].kind;
  tni_at prepend = tni_at_key(a, "prepend"), map = tni_at_key(a, "precompiled_charsmap");
  switch (x->kind) {
    case TNI_NORM_STRIP:
      return read_strip(r, a, x);
    case TNI_NORM_BERT:
      return read_bert(r, a, x);
    case TNI_NORM_REPLACE:
      return read_replace(r, a, x);
    case TNI_NORM_PREPEND:
      return tni_tok_string(r, &prepend, &x->text);
    case TNI_NORM_PRECOMPILED:
      return tni_charsmap_read(&map, r->t->arena, &x->map, r->err);
    default:
      return TN_OK;
  }
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static void swap_texts(tni_work *w) {
  tni_str t = w->norm;
  w->norm = w->norm2;
  w->norm2 = t;
}

/* Per character: fn appends what cp becomes. */
static void map_chars(tni_work *w, const tni_norm *x, void (*fn)(const tni_norm *x, uint32_t cp, tni_str *out)) {
  const tni_str *in = &w->norm;
  tni_str *out = &w->norm2;
  tni_str_clear(out);
  for (size_t i = 0, len; i < in->n && !out->failed; i += len) {
    fn(x, tni_utf8_get(in->v + i, in->n - i, &len), out);
    if (i < in->zero) out->zero = out->n;
  }
  swap_texts(w);
}

static void lower_char(const tni_norm *x, uint32_t cp, tni_str *out) {
  (void)x;
  uint32_t l[3];
  size_t n = tni_lower(cp, l);
  for (size_t k = 0; k < n; k++) tni_str_add_cp(out, l[k]);
}

static void drop_marks(const tni_norm *x, uint32_t cp, tni_str *out) {
  (void)x;
  if (!tni_is_mark(cp)) tni_str_add_cp(out, cp);
}

static void drop_nonspacing(const tni_norm *x, uint32_t cp, tni_str *out) {
  (void)x;
  if (!tni_is_accent(cp)) tni_str_add_cp(out, cp);
}

static bool is_chinese(uint32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

static void bert_clean(const tni_norm *x, uint32_t cp, tni_str *out) {
  bool plain = cp == '\t' || cp == '\n' || cp == '\r' || (cp >= 0x20 && cp < 0x7f);
  if (x->clean && !plain && tni_is_control(cp)) return;
  if (x->clean && tni_is_white(cp)) cp = ' ';
  bool spaced = x->chinese && is_chinese(cp);
  if (spaced) tni_str_add(out, " ", 1);
  tni_str_add_cp(out, cp);
  if (spaced) tni_str_add(out, " ", 1);
}

static void nmt_char(const tni_norm *x, uint32_t cp, tni_str *out) {
  (void)x;
  if ((cp >= 1 && cp <= 8) || cp == 0xb || (cp >= 0xe && cp <= 0x1f) || cp == 0x7f || cp == 0x8f || cp == 0x9f) return;
  bool space = cp == 9 || cp == 0xa || cp == 0xc || cp == 0xd || cp == 0x1680 || (cp >= 0x200b && cp <= 0x200f) ||
               cp == 0x2028 || cp == 0x2029 || cp == 0x2581 || cp == 0xfeff || cp == 0xfffd;
  tni_str_add_cp(out, space ? ' ' : cp);
}

static void bytes_of_char(const tni_norm *x, uint32_t cp, tni_str *out) {
  (void)x;
  char b[4];
  size_t n = tni_utf8_put(cp, b);
  for (size_t k = 0; k < n; k++) tni_str_add_cp(out, tni_byte_char((uint8_t)b[k]));
}

/* From i over characters that are newer than the reference's normal forms: they stay as they are. */
static size_t inert_end(const tni_str *s, size_t i) {
  for (size_t len; i < s->n && tni_is_inert(tni_utf8_get(s->v + i, s->n - i, &len));) i += len;
  return i;
}

/* utf8proc on slices: a slice ends before a starter that nothing before it composes with (an inert character; ASCII),
 * so that the working memory (4 bytes a code point) stays small and sorting of marks stays local. */
static size_t slice_end(const tni_str *s, size_t i) {
  const size_t most = i + 4096;
  for (size_t len; i < s->n; i += len) {
    if (i >= most && (unsigned char)s->v[i] < 0x80) break;
    if (tni_is_inert(tni_utf8_get(s->v + i, s->n - i, &len))) break;
  }
  return i;
}

/* The normal form of in's first n bytes. */
static void append_form(const tni_str *in, size_t n, utf8proc_option_t options, tni_str *out) {
  int32_t *cps = NULL;
  size_t cap = 0;
  const tni_str part = {.v = in->v, .n = n};
  for (size_t i = 0, e; i < n && !out->failed; i = e) {
    e = inert_end(&part, i);
    if (e > i) {
      tni_str_add(out, in->v + i, e - i);
      continue;
    }
    e = slice_end(&part, i);
    const utf8proc_uint8_t *s = (const utf8proc_uint8_t *)in->v + i;
    utf8proc_ssize_t k = utf8proc_decompose(s, (utf8proc_ssize_t)(e - i), cps, (utf8proc_ssize_t)cap, options);
    if (k > 0 && (size_t)k >= cap) { /* one more: reencode terminates */
      if (!tni_grow((void **)&cps, &cap, (size_t)k + 1, sizeof *cps)) {
        out->failed = true;
        break;
      }
      k = utf8proc_decompose(s, (utf8proc_ssize_t)(e - i), cps, (utf8proc_ssize_t)cap, options);
    }
    if (k > 0) k = utf8proc_normalize_utf32(cps, k, options);
    for (utf8proc_ssize_t j = 0; j < k; j++) tni_str_add_cp(out, (uint32_t)cps[j]);
    if (k < 0) out->failed = true;
  }
  free(cps);
}

static tn_status unicode_form(tni_work *w, utf8proc_option_t options, tn_error *err) {
  const tni_str *in = &w->norm;
  tni_str *out = &w->norm2;
  tni_str_clear(out);
  size_t zero = 0;
  if (in->zero) { /* what the first character alone becomes */
    append_form(in, in->zero, options, out);
    if (out->failed && !out->over) return tni_fail_memory(err, "normalizer");
    zero = out->n;
    tni_str_clear(out);
  }
  append_form(in, in->n, options, out);
  if (zero && out->n) { /* composed with what follows it is still the first */
    const size_t first = tni_utf8_len(out->v[0]);
    out->zero = zero < first || zero > out->n ? first : zero;
  }
  if (out->failed && !out->over) return tni_fail_memory(err, "normalizer");
  swap_texts(w);
  return TN_OK;
}

static void strip_spaces(tni_work *w, const tni_norm *x) {
  tni_str *s = &w->norm;
  size_t b = 0, len;
  while (x->left && b < s->n && tni_is_white(tni_utf8_get(s->v + b, s->n - b, &len))) b += len;
  while (x->right && s->n > b) {
    size_t p = tni_utf8_prev(s->v, s->n);
    if (!tni_is_white(tni_utf8_get(s->v + p, s->n - p, &len))) break;
    s->n = p;
  }
  tni_str_drop(s, b);
  if (s->zero > s->n) s->zero = s->n;
}

static tn_status replace_matches(tni_work *w, const tni_norm *x, size_t most, tn_error *err) {
  const tni_str *in = &w->norm;
  tni_str *out = &w->norm2;
  tni_str_clear(out);
  tni_matches m = tni_matches_begin(&x->pattern, &w->match, in->v, in->n);
  size_t last = 0, b = 0, e = 0;
  for (;;) {
    bool found;
    tn_status st = tni_matches_next(&m, &found, &b, &e, err);
    if (st != TN_OK) return st;
    if (!found) break;
    if (last < in->zero) out->zero = out->n + (b < in->zero ? b : in->zero) - last;
    tni_str_add(out, in->v + last, b - last);
    tni_str_add(out, x->text.v, x->text.n);
    /* The replacement belongs to the last byte it replaces. */
    if (in->zero && (e == 0 || e - 1 < in->zero)) out->zero = out->n;
    last = e;
    if (out->failed || out->n > most) break;
  }
  if (last < in->zero) out->zero = out->n + in->zero - last;
  if (in->n > last) tni_str_add(out, in->v + last, in->n - last);
  swap_texts(w);
  return TN_OK;
}

static void prepend_text(tni_work *w, const tni_norm *x) {
  tni_str *out = &w->norm2;
  if (w->norm.n == 0) return;
  tni_str_clear(out);
  tni_str_add(out, x->text.v, x->text.n);
  tni_str_add(out, w->norm.v, w->norm.n);
  if (w->norm.zero) out->zero = x->text.n + w->norm.zero;
  swap_texts(w);
}

static tn_status bert_normalize(tni_work *w, const tni_norm *x, tn_error *err) {
  if (x->clean || x->chinese) map_chars(w, x, bert_clean);
  if (w->norm.failed) return TN_OK;
  if (x->strip_accents) {
    tn_status st = unicode_form(w, UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, err);
    if (st != TN_OK) return st;
    map_chars(w, x, drop_nonspacing);
  }
  if (x->lowercase && !w->norm.failed) map_chars(w, x, lower_char);
  return TN_OK;
}

static tn_status run_normalizer(const tni_norm *x, tni_work *w, size_t most, tn_error *err) {
  switch (x->kind) {
    case TNI_NORM_NFC:
      return unicode_form(w, UTF8PROC_COMPOSE | UTF8PROC_STABLE, err);
    case TNI_NORM_NFD:
      return unicode_form(w, UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, err);
    case TNI_NORM_NFKC:
      return unicode_form(w, UTF8PROC_COMPOSE | UTF8PROC_COMPAT | UTF8PROC_STABLE, err);
    case TNI_NORM_NFKD:
      return unicode_form(w, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT | UTF8PROC_STABLE, err);
    case TNI_NORM_LOWERCASE:
      map_chars(w, x, lower_char);
      break;
    case TNI_NORM_STRIP:
      strip_spaces(w, x);
      break;
    case TNI_NORM_STRIP_ACCENTS:
      map_chars(w, x, drop_marks);
      break;
    case TNI_NORM_REPLACE:
      return replace_matches(w, x, most, err);
    case TNI_NORM_PREPEND:
      prepend_text(w, x);
      break;
    case TNI_NORM_BERT:
      return bert_normalize(w, x, err);
    case TNI_NORM_NMT:
      map_chars(w, x, nmt_char);
      break;
    case TNI_NORM_PRECOMPILED:
      tni_charsmap_apply(&x->map, &w->norm, &w->norm2);
      swap_texts(w);
      break;
    case TNI_NORM_BYTES:
      map_chars(w, x, bytes_of_char);
      break;
  }
  return TN_OK;
}

tn_status tni_normalize(const tni_tokenizer *t, tni_work *w, tn_error *err) {
  const size_t n = w->norm.n, most = tni_str_most(n) < TNI_STR_MAX ? tni_str_most(n) : TNI_STR_MAX;
  if (w->norm.over) return tni_fail(err, TN_E_LIMIT, "normalizer", "a text of more than %zu bytes", (size_t)TNI_STR_MAX);
  if (w->norm.failed) return tni_fail_memory(err, "normalizer"); /* and nothing is there to read */
  for (size_t i = 0; i < t->n_norms; i++) {
    tn_status st = run_normalizer(&t->norms[i], w, most, err);
    if (st != TN_OK) return st;
    if (w->norm.failed && !w->norm.over) return tni_fail_memory(err, "normalizer");
    if (w->norm.failed || w->norm.n > most)
      return tni_fail(err, TN_E_LIMIT, "normalizer", "text of %zu bytes grows over %zu", n, most);
  }
  return TN_OK;
}
