/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings by code points, as Python's str has them. Each byte keeps its mark.
 */
#include <string.h>
#include <utf8proc.h>

#include "runtime/llm/jinja/value.h"
#include "runtime/llm/text/text.h"

bool tni_jj_is_space(uint32_t cp) {
  return (cp >= 9 && cp <= 13) || (cp >= 28 && cp <= 32) || cp == 0x85 || cp == 0xa0 || cp == 0x1680 ||
         (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

size_t tni_jj_space_before(const char *s, size_t n) {
  size_t i = 0, len;
  while (i < n && tni_jj_is_space(tni_utf8_get(s + i, n - i, &len))) i += len;
  return i;
}

size_t tni_jj_space_after(const char *s, size_t n) {
  size_t end = n, len;
  while (end > 0) {
    const size_t p = tni_utf8_prev(s, end);
    if (!tni_jj_is_space(tni_utf8_get(s + p, n - p, &len))) break;
    end = p;
  }
  return n - end;
}

size_t tni_jj_cp_count(const tni_jj_str *s) {
  size_t n = 0;
  for (size_t i = 0; i < s->n; i++) n += ((unsigned char)s->v[i] & 0xc0) != 0x80;
  return n;
}

size_t tni_jj_cp_offset(const tni_jj_str *s, size_t cp) {
  size_t i = 0;
  for (; i < s->n && cp; cp--) i += tni_utf8_len(s->v[i]);
  return i;
}

size_t tni_jj_find_str(const tni_jj_str *s, const tni_jj_str *t, size_t from) {
  if (from > s->n || t->n > s->n - from) return SIZE_MAX;
  if (!t->n) return from;
  const char *p = memmem(s->v + from, s->n - from, t->v, t->n);
  return p ? (size_t)(p - s->v) : SIZE_MAX;
}

size_t tni_jj_find_last(const tni_jj_str *s, const tni_jj_str *t) {
  if (t->n > s->n) return SIZE_MAX;
  for (size_t i = s->n - t->n + 1; i-- > 0;)
    if (!t->n || memcmp(s->v + i, t->v, t->n) == 0) return i;
  return SIZE_MAX;
}

/* Full case mapping of what simple mapping misses most: sharp s. */
static void put_upper(tni_jj_run *x, tni_jj_buf *b, uint32_t cp, bool title, bool mine) {
  if (cp == 0xdf) {
    tni_jj_put_as(x, b, title ? "Ss" : "SS", 2, mine);
    return;
  }
  tni_jj_put_cp(x, b, (uint32_t)(title ? utf8proc_totitle((int32_t)cp) : utf8proc_toupper((int32_t)cp)), mine);
}

static void put_lower(tni_jj_run *x, tni_jj_buf *b, uint32_t cp, bool mine) {
  uint32_t low[3];
  const size_t n = tni_lower(cp, low);
  for (size_t i = 0; i < n; i++) tni_jj_put_cp(x, b, low[i], mine);
}

static bool is_cased(uint32_t cp) {
  return utf8proc_toupper((int32_t)cp) != (int32_t)cp || utf8proc_tolower((int32_t)cp) != (int32_t)cp;
}

/* Unicode's Case_Ignorable, but for a few letters: marks, modifiers, formats, and what stands inside of words. */
static bool is_ignored(uint32_t cp) {
  static const uint32_t inside[] = {'\'', '.', ':', 0xb7, 0x387, 0x55f, 0x5f4, 0x2018, 0x2019, 0x2024, 0x2027, 0xfe13,
                                    0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};
  for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
    if (cp == inside[i]) return true;
  const char *category = tni_category_names[tni_category(cp)];
  return strstr("Mn Me Cf Lm Sk", category) != NULL;
}

/* A capital sigma at `at` ends a word: a letter with cases comes before it, and none after. */
static bool ends_word(const tni_jj_str *s, size_t at) {
  enum { SIGMA_BYTES = 2 };
  size_t len, i = at;
  uint32_t cp = 0;
  do {
    if (!i) return false;
    i = tni_utf8_prev(s->v, i);
    cp = tni_utf8_get(s->v + i, s->n - i, &len);
  } while (is_ignored(cp));
  if (!is_cased(cp)) return false;
  for (i = at + SIGMA_BYTES; i < s->n; i += len) {
    cp = tni_utf8_get(s->v + i, s->n - i, &len);
    if (!is_ignored(cp)) return !is_cased(cp);
  }
  return true;
}

tni_jj_val tni_jj_recase(tni_jj_run *x, const tni_jj_str *s, tni_jj_case how) {
  tni_jj_buf b = {0};
  bool begins = true;
  for (size_t i = 0, n; i < s->n && tni_jj_step(x, 1); i += n) {
    const uint32_t cp = tni_utf8_get(s->v + i, s->n - i, &n);
    const bool mine = tni_jj_mine(s, i),
               up = how == TNI_JJ_UPPER || (how == TNI_JJ_SWAP && utf8proc_tolower((int32_t)cp) == (int32_t)cp);
    if (up || ((how == TNI_JJ_CAPITAL || how == TNI_JJ_TITLE) && begins))
      put_upper(x, &b, cp, how != TNI_JJ_UPPER && how != TNI_JJ_SWAP, mine);
    else if (cp == 0x3a3 && ends_word(s, i))
      tni_jj_put_cp(x, &b, 0x3c2, mine);
    else
      put_lower(x, &b, cp, mine);
    begins = how == TNI_JJ_TITLE && !is_cased(cp);
  }
  return tni_jj_buf_val(x, &b);
}

static bool in_chars(const tni_jj_str *chars, uint32_t cp) {
  for (size_t i = 0, n; i < chars->n; i += n)
    if (tni_utf8_get(chars->v + i, chars->n - i, &n) == cp) return true;
  return false;
}

tni_jj_val tni_jj_strip(tni_jj_run *x, const tni_jj_str *s, const tni_jj_str *chars, int sides) {
  size_t from = 0, to = s->n, len;
  if (!tni_jj_step(x, s->n / 64)) return tni_jj_of(TNI_JJ_UNDEFINED);
  while (sides & 1 && from < to) {
    const uint32_t cp = tni_utf8_get(s->v + from, to - from, &len);
    if (!(chars ? in_chars(chars, cp) : tni_jj_is_space(cp))) break;
    from += len;
  }
  while (sides & 2 && to > from) {
    const size_t p = tni_utf8_prev(s->v, to);
    const uint32_t cp = tni_utf8_get(s->v + p, to - p, &len);
    if (!(chars ? in_chars(chars, cp) : tni_jj_is_space(cp))) break;
    to = p;
  }
  return tni_jj_cut(x, s, from, to);
}

tni_jj_val tni_jj_replace(tni_jj_run *x, const tni_jj_str *s, const tni_jj_str *old, const tni_jj_str *with,
                          int64_t count) {
  tni_jj_buf b = {0};
  size_t done = 0, at = 0;
  for (; count != 0 && !tni_jj_failed(x); count--) {
    const size_t found = old->n ? tni_jj_find_str(s, old, at) : at;
    if (found == SIZE_MAX || found > s->n) break;
    tni_jj_put(x, &b, s->v + done, s->m ? s->m + done : NULL, found - done);
    tni_jj_put_str(x, &b, with);
    if (!tni_jj_step(x, 1)) break;
    done = found + old->n;
    at = old->n ? done : found < s->n ? found + tni_utf8_len(s->v[found]) : s->n + 1;
  }
  tni_jj_put(x, &b, s->v + done, s->m ? s->m + done : NULL, s->n - done);
  return tni_jj_buf_val(x, &b);
}

static bool ends_line(uint32_t cp) {
  return (cp >= 10 && cp <= 13) || (cp >= 28 && cp <= 30) || cp == 0x85 || cp == 0x2028 || cp == 0x2029;
}

void tni_jj_lines(tni_jj_run *x, const tni_jj_str *s, bool keep_ends, tni_jj_items *out) {
  size_t from = 0;
  for (size_t i = 0, n; i < s->n && !tni_jj_failed(x);) {
    if (!ends_line(tni_utf8_get(s->v + i, s->n - i, &n))) {
      i += n;
      continue;
    }
    if (s->v[i] == '\r' && i + 1 < s->n && s->v[i + 1] == '\n') n = 2;
    tni_jj_push(x, out, tni_jj_cut(x, s, from, keep_ends ? i + n : i));
    from = i += n;
  }
  if (from < s->n) tni_jj_push(x, out, tni_jj_cut(x, s, from, s->n));
}
