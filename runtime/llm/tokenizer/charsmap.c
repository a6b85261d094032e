/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/tokenizer/charsmap.h"

#include <string.h>
#include <utf8proc.h>

#include "runtime/base/base.h"
#include "runtime/llm/text/text.h"

enum { MAX_BYTES = 1 << 26, CLUSTER_BYTES = 6 };

/* --- reading ------------------------------------------------------------------------------------------------------ */

static int base64_sextet(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* RFC 4648, section 4, with padding. Gives the bytes written, SIZE_MAX for what is no base64. */
static size_t decode_base64(const char *s, size_t n, uint8_t *out) {
  size_t k = 0, pad = n && s[n - 1] == '=' ? 1 : 0;
  if (pad && n > 1 && s[n - 2] == '=') pad = 2;
  if (n % 4) return SIZE_MAX;
  uint32_t bits = 0;
  for (size_t i = 0; i < n; i++) {
    int v = i >= n - pad ? 0 : base64_sextet(s[i]);
    if (v < 0) return SIZE_MAX;
    bits = bits << 6 | (uint32_t)v;
    if (i % 4 != 3) continue;
    for (size_t b = 0, bytes = i + 1 == n ? 3 - pad : 3; b < bytes; b++) out[k++] = (uint8_t)(bits >> (16 - 8 * b));
    bits = 0;
  }
  return k;
}

static uint32_t read_u32(const uint8_t *p) {
  return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

tn_status tni_charsmap_read(const tni_at *a, tni_arena *arena, tni_charsmap *out, tn_error *err) {
  tni_view v;
  tn_status st = tni_at_string(a, &v, err);
  if (st != TN_OK) return st;
  if (v.n > MAX_BYTES) return tni_at_fail(a, TN_E_LIMIT, err, "%zu bytes, at most %d", v.n, MAX_BYTES);
  uint8_t *b = tni_arena_alloc(arena, v.n + 1, 1);
  if (!b) return tni_fail_memory(err, a->file);
  size_t n = decode_base64(v.v, v.n, b);
  if (n == SIZE_MAX) return tni_at_fail(a, TN_E_INVALID, err, "not base64");
  if (n < 4) return tni_at_fail(a, TN_E_INVALID, err, "%zu bytes, expected at least 4", n);
  size_t trie = read_u32(b);
  if (trie > n - 4 || trie % 4 || trie == 0)
    return tni_at_fail(a, TN_E_INVALID, err, "a trie of %zu bytes in %zu", trie, n - 4);
  b[n] = 0;
  *out = (tni_charsmap){NULL, trie / 4, (const char *)b + 4 + trie, n - 4 - trie};
  if (tni_utf8_valid(out->texts, out->n_texts) < out->n_texts)
    return tni_at_fail(a, TN_E_INVALID, err, "the replacements are not UTF-8");
  uint32_t *units = TNI_NEW_ARRAY(arena, uint32_t, out->n_units);
  if (!units) return tni_fail_memory(err, a->file);
  for (size_t i = 0; i < out->n_units; i++) units[i] = read_u32(b + 4 + 4 * i);
  out->units = units;
  return TN_OK;
}

/* --- rules -------------------------------------------------------------------------------------------------------- */

static size_t offset_of(uint32_t unit) { return (size_t)((unit & 0x7fffffff) >> 10) << (unit >> 9 & 1 ? 8 : 0); }

/* What the shortest rule that s (n bytes of UTF-8) starts with puts in its place; v NULL: no rule. As in the reference
 * s is then replaced as a whole, even where the rule is shorter. */
static tni_view charsmap_find(const tni_charsmap *c, const char *s, size_t n) {
  const tni_view none = {NULL, 0};
  size_t at = offset_of(c->units[0]);
  for (size_t i = 0; i < n && s[i]; i++) {
    at ^= (uint8_t)s[i];
    if (at >= c->n_units || (c->units[at] & 0x800000ff) != (uint8_t)s[i]) return none;
    uint32_t unit = c->units[at];
    at ^= offset_of(unit);
    if (!(unit >> 8 & 1)) continue;
    size_t text = at < c->n_units ? c->units[at] & 0x7fffffff : SIZE_MAX;
    /* A broken file may point into a character. */
    if (text > c->n_texts || ((uint8_t)c->texts[text] & 0xc0) == 0x80) return none;
    return (tni_view){c->texts + text, strlen(c->texts + text)};
  }
  return none;
}

/* What has been written, in characters of the input: the reference counts so, and `zero` follows. */
typedef struct charsmap_writer {
  tni_str *out;
  size_t used, zero; /* characters of the input; those that come from the first of all */
} charsmap_writer;

static size_t count_chars(const char *s, size_t n) {
  size_t k = 0;
  for (size_t i = 0; i < n; i += tni_utf8_len(s[i])) k++;
  return k;
}

/* old characters of the input become text: of more the last belong to the last old one, of fewer the last one to all.
 */
static void put_replacement(charsmap_writer *w, size_t old, tni_view text) {
  size_t k = 0, now = count_chars(text.v, text.n);
  for (size_t i = 0, len; i < text.n && !w->out->failed; i += len, k++) {
    len = tni_utf8_len(text.v[i]);
    tni_str_add(w->out, text.v + i, len);
    size_t from = k < old ? w->used++ : w->used ? w->used - 1 : 0;
    if (from < w->zero) w->out->zero = w->out->n;
  }
  if (now < old && w->out->n) w->used += old - now;
}

/* Unassigned, and a Control among graphemes all the same (UAX 29): nothing joins it. utf8proc 2.8 does not say so. */
enum { UNASSIGNED_CONTROL = 0x2065 };

static size_t cluster_end(const tni_str *s, size_t i) {
  utf8proc_int32_t state = 0;
  size_t len;
  uint32_t cp = tni_utf8_get(s->v + i, s->n - i, &len);
  for (i += len; i < s->n; i += len) {
    uint32_t next = tni_utf8_get(s->v + i, s->n - i, &len);
    if (cp == UNASSIGNED_CONTROL || next == UNASSIGNED_CONTROL) return i;
    if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)cp, (utf8proc_int32_t)next, &state)) return i;
    cp = next;
  }
  return i;
}

void tni_charsmap_apply(const tni_charsmap *c, const tni_str *in, tni_str *out) {
  charsmap_writer w = {out, 0, in->zero ? count_chars(in->v, in->zero) : 0};
  tni_str_clear(out);
  for (size_t i = 0, e; i < in->n && !out->failed; i = e) {
    e = cluster_end(in, i);
    tni_view r = e - i < CLUSTER_BYTES ? charsmap_find(c, in->v + i, e - i) : (tni_view){NULL, 0};
    if (r.v) put_replacement(&w, count_chars(in->v + i, e - i), r);
    for (size_t len; !r.v && i < e; i += len) {
      len = tni_utf8_len(in->v[i]);
      tni_view x = charsmap_find(c, in->v + i, len);
      put_replacement(&w, 1, x.v ? x : (tni_view){in->v + i, len});
    }
  }
}
