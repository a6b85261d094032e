/* SPDX-License-Identifier: Apache-2.0
 *
 * What translating texts and classes of regexes both need: writing, failing, codes of characters.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/llm/tokenizer/regex.h"

void tni_regex_put(tni_regex *x, const char *s) { tni_str_add(x->out, s, strlen(s)); }

void tni_regex_put_cp(tni_regex *x, uint32_t cp) {
  char b[16];
  snprintf(b, sizeof b, "\\x{%x}", (unsigned)cp);
  tni_regex_put(x, b);
}

bool tni_regex_fail(tni_regex *x, const char *why) {
  x->why = why;
  if (!why) x->out->failed = true;
  return false;
}

static int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 32;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

/* Up to most digits at x->i; how many. */
static size_t read_digits(tni_regex *x, uint32_t base, size_t most, uint32_t *v) {
  size_t k = 0;
  for (*v = 0; k < most && x->i < x->n && (uint32_t)digit_of(x->s[x->i]) < base; k++, x->i++)
    *v = *v * base + (uint32_t)digit_of(x->s[x->i]);
  return k;
}

bool tni_regex_code(tni_regex *x, uint32_t *cp) {
  const char c = x->s[x->i];
  const uint32_t base = c == 'x' || c == 'u' ? 16 : 8;
  const bool octal = c >= '0' && c <= '7';
  if (!octal) x->i++;
  const bool braces = !octal && c != 'u' && x->i < x->n && x->s[x->i] == '{';
  x->i += braces;
  const size_t most = braces ? 8 : c == 'u' ? 4 : c == 'x' ? 2 : 3;
  const size_t k = read_digits(x, base, most, cp);
  if (c == 'u' && k < 4) return tni_regex_fail(x, "\\u without four digits");
  if (c == 'o' && !braces) return tni_regex_fail(x, "\\o without {}");
  if (braces && (k == 0 || x->i >= x->n || x->s[x->i] != '}'))
    return tni_regex_fail(x, "\\x{..} that is not one code point");
  x->i += braces;
  if (!braces && c != 'u' && *cp > 0x7f) return tni_regex_fail(x, "a byte of a character");
  if (*cp >= TNI_CPS || (*cp >= 0xd800 && *cp < 0xe000)) return tni_regex_fail(x, "a code that is no character");
  return true;
}
