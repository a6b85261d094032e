/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/text/unicode.h"

#include "runtime/llm/text/cp_set.h"
#include "runtime/llm/text/unicode_tables.h"

/* L, M, Nd, Nl, Pc. */
#define TNI_CATS_WORD 0xbffu

uint32_t tni_utf8_get(const char *s, size_t n, size_t *len) {
  const unsigned char *u = (const unsigned char *)s;
  size_t k = tni_utf8_len(*s);
  if (k > n) k = 1; /* unreachable for valid text; never reads past it */
  *len = k;
  switch (k) {
    case 2:
      return (uint32_t)(u[0] & 0x1f) << 6 | (u[1] & 0x3fu);
    case 3:
      return (uint32_t)(u[0] & 0x0f) << 12 | (uint32_t)(u[1] & 0x3f) << 6 | (u[2] & 0x3fu);
    case 4:
      return (uint32_t)(u[0] & 0x07) << 18 | (uint32_t)(u[1] & 0x3f) << 12 | (uint32_t)(u[2] & 0x3f) << 6 |
             (u[3] & 0x3fu);
    default:
      return u[0];
  }
}

size_t tni_utf8_put(uint32_t cp, char out[4]) {
  if (cp < 0x80) {
    out[0] = (char)cp;
    return 1;
  }
  if (cp < 0x800) {
    out[0] = (char)(0xc0 | cp >> 6);
    out[1] = (char)(0x80 | (cp & 0x3f));
    return 2;
  }
  if (cp < 0x10000) {
    out[0] = (char)(0xe0 | cp >> 12);
    out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[2] = (char)(0x80 | (cp & 0x3f));
    return 3;
  }
  out[0] = (char)(0xf0 | cp >> 18);
  out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
  out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
  out[3] = (char)(0x80 | (cp & 0x3f));
  return 4;
}

size_t tni_utf8_prev(const char *s, size_t at) {
  do at--;
  while (at > 0 && ((unsigned char)s[at] & 0xc0) == 0x80);
  return at;
}

static bool in_ranges(const tni_cp_ranges *r, uint32_t cp) {
  size_t lo = 0, hi = r->n;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (cp > r->v[mid].hi)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo < r->n && cp >= r->v[lo].lo;
}

unsigned tni_category(uint32_t cp) {
  size_t lo = 0, hi = tni_n_category_runs; /* the run at lo starts at or before cp, that at hi after it */
  while (hi - lo > 1) {
    size_t mid = lo + (hi - lo) / 2;
    if (tni_category_runs[mid] >> 8 <= cp)
      lo = mid;
    else
      hi = mid;
  }
  const uint32_t cat = tni_category_runs[lo] & 255, at = tni_category_runs[lo] >> 8;
  return cat == TNI_CAT_PAIRS ? (cp - at) & 1 : cat;
}

bool tni_is_white(uint32_t cp) {
  if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13);
  return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
         cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

bool tni_is_punct(uint32_t cp) {
  if (cp < 0x80)
    return (cp >= 0x21 && cp <= 0x2f) || (cp >= 0x3a && cp <= 0x40) || (cp >= 0x5b && cp <= 0x60) ||
           (cp >= 0x7b && cp <= 0x7e);
  return in_ranges(&tni_set_punct, cp);
}

bool tni_is_number(uint32_t cp) { return cp < 0x80 ? cp >= '0' && cp <= '9' : in_ranges(&tni_set_number, cp); }

bool tni_is_mark(uint32_t cp) { return cp >= 0x300 && in_ranges(&tni_set_mark, cp); }

bool tni_is_accent(uint32_t cp) { return cp >= 0x300 && in_ranges(&tni_set_accent, cp); }

bool tni_is_control(uint32_t cp) { return in_ranges(&tni_set_control, cp); }

bool tni_is_inert(uint32_t cp) { return cp >= 0x300 && in_ranges(&tni_set_inert, cp); }

/* So with Other_Alphabetic: circled and squared letters. */
static bool is_alphabetic_symbol(uint32_t cp) {
  return (cp >= 0x24b6 && cp <= 0x24e9) || (cp >= 0x1f130 && cp <= 0x1f149) || (cp >= 0x1f150 && cp <= 0x1f169) ||
         (cp >= 0x1f170 && cp <= 0x1f189);
}

bool tni_is_word(uint32_t cp) {
  if (cp < 0x80) return (cp >= '0' && cp <= '9') || (cp >= 'A' && cp <= 'Z') || (cp >= 'a' && cp <= 'z') || cp == '_';
  if (cp == 0x200c || cp == 0x200d || is_alphabetic_symbol(cp)) return true;
  return TNI_CATS_WORD >> tni_category(cp) & 1;
}

size_t tni_lower(uint32_t cp, uint32_t out[3]) {
  if (cp == 0x130) { /* SpecialCasing.txt: the only unconditional lower mapping of more than one character */
    out[0] = 'i';
    out[1] = 0x307;
    return 2;
  }
  size_t lo = 0, hi = tni_n_lower_runs;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (cp > tni_lower_runs[mid].hi)
      lo = mid + 1;
    else
      hi = mid;
  }
  const tni_lower_run *r = &tni_lower_runs[lo < tni_n_lower_runs ? lo : 0];
  bool in = cp >= r->lo && cp <= r->hi && (cp - r->lo) % r->stride == 0;
  out[0] = in ? (uint32_t)((int64_t)cp + r->delta) : cp;
  return 1;
}

/* GPT-2's table: printable Latin-1 bytes stand for themselves, the other 68 follow from U+0100 in order. */
static bool byte_is_plain(uint32_t b) {
  return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
}

uint32_t tni_byte_char(uint8_t b) {
  if (byte_is_plain(b)) return b;
  if (b <= 0x20) return 0x100u + b;
  if (b <= 0xa0) return 0x100u + 33 + (b - 0x7fu);
  return 0x100u + 67; /* 0xad */
}

int tni_char_byte(uint32_t cp) {
  if (cp < 0x100) return byte_is_plain(cp) ? (int)cp : -1;
  if (cp <= 0x120) return (int)(cp - 0x100);
  if (cp <= 0x142) return (int)(cp - 0x100 - 33 + 0x7f);
  return cp == 0x143 ? 0xad : -1;
}
