/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/grammar/chars.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/text/text.h"

void tni_chars_finish(tni_chars *c) {
  free(c->v);
  *c = (tni_chars){0};
}

void tni_chars_add(tni_chars *c, uint32_t lo, uint32_t hi) {
  if (c->n == c->cap) {
    const size_t cap = c->cap ? c->cap * 2 : 4;
    tni_char_range *v = realloc(c->v, cap * sizeof *v);
    if (!v) c->failed = true;
    if (!v) return;
    c->v = v;
    c->cap = cap;
  }
  c->v[c->n++] = (tni_char_range){lo, hi};
}

void tni_chars_add_all(tni_chars *c, const tni_chars *b) {
  for (size_t i = 0; i < b->n; i++) tni_chars_add(c, b->v[i].lo, b->v[i].hi);
  c->failed |= b->failed;
}

static int by_lo(const void *a, const void *b) {
  const uint32_t x = ((const tni_char_range *)a)->lo, y = ((const tni_char_range *)b)->lo;
  return (x > y) - (x < y);
}

void tni_chars_sort(tni_chars *c) {
  if (!c->n) return;
  qsort(c->v, c->n, sizeof *c->v, by_lo);
  size_t k = 0;
  for (size_t i = 1; i < c->n; i++) {
    if (c->v[i].lo > c->v[k].hi + 1)
      c->v[++k] = c->v[i];
    else if (c->v[i].hi > c->v[k].hi)
      c->v[k].hi = c->v[i].hi;
  }
  c->n = k + 1;
}

void tni_chars_not(tni_chars *c) {
  tni_chars out = {.failed = c->failed};
  uint32_t at = 0;
  for (size_t i = 0; i < c->n; at = c->v[i++].hi + 1)
    if (c->v[i].lo > at) tni_chars_add(&out, at, c->v[i].lo - 1);
  if (at <= TNI_CHAR_LAST) tni_chars_add(&out, at, TNI_CHAR_LAST);
  free(c->v);
  *c = out;
}

void tni_chars_both(tni_chars *out, const tni_chars *a, const tni_chars *b) {
  out->failed |= a->failed || b->failed;
  for (size_t i = 0, k = 0; i < a->n && k < b->n;) {
    const uint32_t lo = a->v[i].lo > b->v[k].lo ? a->v[i].lo : b->v[k].lo;
    const uint32_t hi = a->v[i].hi < b->v[k].hi ? a->v[i].hi : b->v[k].hi;
    if (lo <= hi) tni_chars_add(out, lo, hi);
    if (a->v[i].hi < b->v[k].hi)
      i++;
    else
      k++;
  }
}

/* --- edges -------------------------------------------------------------------------------------------------------- */

static bool all_are(const uint8_t *s, size_t n, uint8_t b) {
  while (n && s[n - 1] == b) n--;
  return n == 0;
}

/* Sequences of n bytes from lo to hi; continuation bytes go from 80 to bf. */
static void emit_bytes(tni_auto *a, uint32_t from, const uint8_t *lo, const uint8_t *hi, size_t n, uint32_t to) {
  static const uint8_t first[3] = {0x80, 0x80, 0x80}, last[3] = {0xbf, 0xbf, 0xbf};
  if (n == 1) {
    tni_auto_bytes(a, from, lo[0], hi[0], to);
    return;
  }
  int begin = lo[0], end = hi[0];
  if (begin == end || !all_are(lo + 1, n - 1, 0x80)) {
    const uint32_t next = tni_auto_state(a);
    tni_auto_bytes(a, from, lo[0], lo[0], next);
    emit_bytes(a, next, lo + 1, begin == end ? hi + 1 : last, n - 1, to);
    if (begin == end) return;
    begin++;
  }
  if (!all_are(hi + 1, n - 1, 0xbf)) {
    const uint32_t next = tni_auto_state(a);
    tni_auto_bytes(a, from, hi[0], hi[0], next);
    emit_bytes(a, next, first, hi + 1, n - 1, to);
    end--;
  }
  if (begin > end) return;
  const uint32_t next = tni_auto_state(a);
  tni_auto_bytes(a, from, (uint8_t)begin, (uint8_t)end, next);
  emit_bytes(a, next, first, last, n - 1, to);
}

static void emit_range(tni_auto *a, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to) {
  static const tni_char_range same_length[] = {
      {0, 0x7f}, {0x80, 0x7ff}, {0x800, 0xd7ff}, {0xe000, 0xffff}, {0x10000, TNI_CHAR_LAST}};
  for (size_t i = 0; i < sizeof same_length / sizeof *same_length; i++) {
    const uint32_t l = lo > same_length[i].lo ? lo : same_length[i].lo;
    const uint32_t h = hi < same_length[i].hi ? hi : same_length[i].hi;
    if (l > h) continue;
    char bl[4], bh[4];
    const size_t n = tni_utf8_put(l, bl);
    (void)tni_utf8_put(h, bh);
    emit_bytes(a, from, (const uint8_t *)bl, (const uint8_t *)bh, n, to);
  }
}

/* The hexadecimal digits of v, either case. */
static void emit_hex(tni_auto *a, uint32_t from, uint32_t v, int digits, uint32_t to) {
  while (digits-- > 0) {
    const uint32_t d = v >> 4 * digits & 15, next = digits ? tni_auto_state(a) : to;
    const uint8_t c = (uint8_t)(d < 10 ? '0' + d : 'a' + d - 10);
    tni_auto_bytes(a, from, c, c, next);
    if (d >= 10) tni_auto_bytes(a, from, (uint8_t)(c - 32), (uint8_t)(c - 32), next);
    from = next;
  }
}

static void emit_any_hex(tni_auto *a, uint32_t from, int digits, uint32_t to) {
  while (digits-- > 0) {
    const uint32_t next = digits ? tni_auto_state(a) : to;
    tni_auto_bytes(a, from, '0', '9', next);
    tni_auto_bytes(a, from, 'a', 'f', next);
    tni_auto_bytes(a, from, 'A', 'F', next);
    from = next;
  }
}

/* \uXXXX after the u, of all but surrogates. */
static void emit_any_code(tni_auto *a, uint32_t from, uint32_t to) {
  const uint32_t three = tni_auto_state(a), d = tni_auto_state(a), two = tni_auto_state(a);
  tni_auto_bytes(a, from, '0', '9', three);
  tni_auto_bytes(a, from, 'a', 'c', three);
  tni_auto_bytes(a, from, 'A', 'C', three);
  tni_auto_bytes(a, from, 'e', 'f', three);
  tni_auto_bytes(a, from, 'E', 'F', three);
  tni_auto_bytes(a, from, 'd', 'd', d);
  tni_auto_bytes(a, from, 'D', 'D', d);
  tni_auto_bytes(a, d, '0', '7', two);
  emit_any_hex(a, three, 3, to);
  emit_any_hex(a, two, 2, to);
}

static bool has(const tni_chars *c, uint32_t cp) {
  for (size_t i = 0; i < c->n; i++)
    if (c->v[i].lo <= cp && cp <= c->v[i].hi) return true;
  return false;
}

static void emit_escapes(tni_auto *a, uint32_t from, const tni_chars *c, uint32_t to) {
  static const char short_ones[][2] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
                                       {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};
  const bool all = c->n == 1 && c->v[0].lo == 0 && c->v[0].hi == TNI_CHAR_LAST;
  bool any = all;
  for (uint32_t cp = 0; cp < 0x5d && !any; cp++) any = (cp < 0x20 || cp == '"' || cp == '\\') && has(c, cp);
  if (!any) return;
  const uint32_t after = tni_auto_state(a), code = tni_auto_state(a);
  tni_auto_bytes(a, from, '\\', '\\', after);
  for (size_t i = 0; i < sizeof short_ones / sizeof *short_ones; i++)
    if (has(c, (uint32_t)short_ones[i][0]))
      tni_auto_bytes(a, after, (uint8_t)short_ones[i][1], (uint8_t)short_ones[i][1], to);
  tni_auto_bytes(a, after, 'u', 'u', code);
  if (all) {
    tni_auto_bytes(a, after, '/', '/', to);
    emit_any_code(a, code, to);
  }
  for (uint32_t cp = 0; cp < 0x20 && !all; cp++)
    if (has(c, cp)) emit_hex(a, code, cp, 4, to);
}

void tni_chars_emit(tni_auto *a, uint32_t from, const tni_chars *c, bool json, uint32_t to) {
  if (c->failed && a->failed == TN_OK) a->failed = TN_E_NO_MEMORY;
  tni_char_range raw_ones[] = {{0x20, 0x21}, {0x23, 0x5b}, {0x5d, TNI_CHAR_LAST}};
  const tni_chars raw = {raw_ones, 3, 0, false};
  tni_chars both = {0};
  if (json) tni_chars_both(&both, c, &raw);
  const tni_chars *plain = json ? &both : c;
  if (plain->failed && a->failed == TN_OK) a->failed = TN_E_NO_MEMORY;
  for (size_t i = 0; i < plain->n; i++) emit_range(a, from, plain->v[i].lo, plain->v[i].hi, to);
  if (json) emit_escapes(a, from, c, to);
  tni_chars_finish(&both);
}

int tni_hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 32;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool tni_times_read(const char *s, size_t n, size_t *i, uint32_t *v) {
  const size_t begin = *i;
  *v = 0;
  for (; *i < n && s[*i] >= '0' && s[*i] <= '9'; ++*i)
    if (*v <= TNI_TIMES_MOST) *v = *v * 10 + (uint32_t)(s[*i] - '0');
  return *i > begin;
}
