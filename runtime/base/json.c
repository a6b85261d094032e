/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/json.h"

#include <stdint.h>

static _Thread_local bool lacked;

void tni_json_begin(void) { lacked = false; }
bool tni_json_short(void) { return lacked; }
void tni_json_lacked(void) { lacked = true; }

/* --- syntax (RFC 8259) ---------------------------------------------------------------------------------------------
 */

enum { DEEPEST = 2048 }; /* as jansson */
typedef struct scan {
  const char *p, *end;
  uint32_t depth;
  uint8_t is_object[DEEPEST];
} scan;

static void skip_space(scan *s) {
  while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r')) s->p++;
}

static bool take_char(scan *s, char c) {
  if (s->p == s->end || *s->p != c) return false;
  s->p++;
  return true;
}

static bool take_word(scan *s, const char *word) {
  const size_t n = strlen(word);
  if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0) return false;
  s->p += n;
  return true;
}

/* The four digits after \u; -1: they are none. */
static int32_t hex4(scan *s) {
  int32_t v = 0;
  if (s->end - s->p < 4) return -1;
  for (int i = 0; i < 4; i++) {
    const char c = *s->p++;
    const int d = c >= '0' && c <= '9'   ? c - '0'
                  : c >= 'a' && c <= 'f' ? c - 'a' + 10
                  : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                         : -1;
    if (d < 0) return -1;
    v = v * 16 + d;
  }
  return v;
}

static bool take_escape(scan *s) {
  if (s->p == s->end) return false;
  const char c = *s->p++;
  if (c != 'u') return c && strchr("\"\\/bfnrt", c);
  const int32_t v = hex4(s);
  if (v < 0 || (v >= 0xdc00 && v < 0xe000)) return false;
  if (v < 0xd800 || v >= 0xe000) return true;
  if (!take_word(s, "\\u")) return false;
  const int32_t low = hex4(s);
  return low >= 0xdc00 && low < 0xe000;
}

static bool take_string(scan *s) {
  if (!take_char(s, '"')) return false;
  while (s->p < s->end) {
    if (*s->p == '"') return s->p++, true;
    if (*s->p == '\\') {
      s->p++;
      if (!take_escape(s)) return false;
      continue;
    }
    if ((unsigned char)*s->p < 0x20) return false;
    s->p++;
  }
  return false;
}

static bool take_digits(scan *s) {
  const char *from = s->p;
  while (s->p < s->end && *s->p >= '0' && *s->p <= '9') s->p++;
  return s->p > from;
}

static bool take_number(scan *s) {
  (void)take_char(s, '-');
  if (!take_char(s, '0') && !take_digits(s)) return false;
  if (take_char(s, '.') && !take_digits(s)) return false;
  if (!take_char(s, 'e') && !take_char(s, 'E')) return true;
  if (!take_char(s, '+')) (void)take_char(s, '-');
  return take_digits(s);
}

static bool take_key(scan *s) {
  skip_space(s);
  if (!take_string(s)) return false;
  skip_space(s);
  return take_char(s, ':');
}

/* A value, or the opening of an object or array that is not empty; *open says which. */
static bool take_value(scan *s, bool *open) {
  *open = false;
  skip_space(s);
  if (s->p == s->end) return false;
  if (*s->p != '{' && *s->p != '[')
    return *s->p == '"' ? take_string(s)
                        : take_word(s, "true") || take_word(s, "false") || take_word(s, "null") || take_number(s);
  if (s->depth == DEEPEST) return false;
  const bool object = *s->p++ == '{';
  skip_space(s);
  if (take_char(s, object ? '}' : ']')) return true;
  s->is_object[s->depth++] = object;
  *open = true;
  return !object || take_key(s);
}

/* After a value: what closes here, and whether another value must come. */
static bool take_closings(scan *s, bool *more) {
  *more = false;
  while (s->depth) {
    const bool object = s->is_object[s->depth - 1];
    skip_space(s);
    if (take_char(s, ',')) {
      *more = true;
      return !object || take_key(s);
    }
    if (!take_char(s, object ? '}' : ']')) return false;
    s->depth--;
  }
  return true;
}

bool tni_json_valid(const char *text, size_t n) {
  scan s = {.p = text, .end = text + n};
  skip_space(&s);
  if (s.p == s.end || (*s.p != '{' && *s.p != '[') || tni_utf8_valid(text, n) < n) return false;
  for (bool more = true, open; more;) {
    if (!take_value(&s, &open)) return false;
    if (!open && !take_closings(&s, &more)) return false;
  }
  skip_space(&s);
  return s.p == s.end;
}
