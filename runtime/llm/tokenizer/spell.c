/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of single tokens.
 */
#include <string.h>

#include "runtime/llm/text/text.h"
#include "runtime/llm/tokenizer/tok.h"

void tni_put_token_bytes(tni_str *out, const char *s, size_t n) {
  const size_t mark = out->n;
  for (size_t i = 0, len; i < n; i += len) {
    const int b = tni_char_byte(tni_utf8_get(s + i, n - i, &len));
    if (b < 0) {
      out->n = mark;
      tni_str_add(out, s, n);
      return;
    }
    tni_str_add(out, (char[1]){(char)b}, 1);
  }
}

int tni_byte_token(const char *s, size_t n) {
  int v = 0;
  if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>') return -1;
  for (int i = 3; i < 5; i++) {
    const int c = s[i];
    const int x = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
    if (x < 0) return -1;
    v = v * 16 + x;
  }
  return v;
}

bool tni_tokenizer_spells(const tni_tokenizer *t) {
  for (size_t k = 0; k < t->n_decs; k++) {
    const tni_dec *x = &t->decs[k];
    switch (x->kind) {
      case TNI_DEC_BYTES:
      case TNI_DEC_METASPACE:
      case TNI_DEC_BYTE_FALLBACK:
      case TNI_DEC_FUSE:
        break;
      case TNI_DEC_STRIP: /* of the whole text's begin */
        if (!x->fused || x->stop) return false;
        break;
      case TNI_DEC_REPLACE:
        if (x->pattern.re || !x->pattern.lit.n) return false;
        break;
      default:
        return false;
    }
  }
  return true;
}

/* In place, from byte `begin` on. */
static void replace_all(tni_str *s, size_t begin, tni_view what, tni_view with) {
  tni_str out = {0};
  bool found = false;
  for (size_t i = begin; i < s->n;) {
    const bool here = s->n - i >= what.n && memcmp(s->v + i, what.v, what.n) == 0;
    found = found || here;
    tni_str_add(&out, here ? with.v : s->v + i, here ? with.n : 1);
    i += here ? what.n : 1;
  }
  if (found) {
    s->n = begin;
    tni_str_add(s, out.n ? out.v : "", out.n);
  }
  s->failed |= out.failed;
  tni_str_finish(&out);
}

void tni_tokenizer_bytes(const tni_tokenizer *t, int32_t id, tni_str *out) {
  if (id < 0 || (size_t)id >= t->n_tokens || !t->tokens[id].v || t->tokens[id].skipped) return;
  const tni_view shown = t->tokens[id].shown;
  const size_t begin = out->n;
  tni_str_add(out, shown.v, shown.n);
  for (size_t k = 0; k < t->n_decs && !out->failed; k++) {
    const tni_dec *x = &t->decs[k];
    const int byte = x->kind == TNI_DEC_BYTE_FALLBACK ? tni_byte_token(out->v + begin, out->n - begin) : -1;
    if (byte >= 0) {
      out->n = begin;
      tni_str_add(out, (char[1]){(char)byte}, 1);
      return;
    }
    if (x->kind == TNI_DEC_BYTES) {
      out->n = begin;
      tni_put_token_bytes(out, shown.v, shown.n);
    }
    if (x->kind == TNI_DEC_METASPACE) replace_all(out, begin, x->text, (tni_view){" ", 1});
    if (x->kind == TNI_DEC_REPLACE) replace_all(out, begin, x->pattern.lit, x->text);
  }
}
