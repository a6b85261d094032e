/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/text/str.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/llm/text/unicode.h"

void tni_str_finish(tni_str *s) {
  free(s->v);
  *s = (tni_str){0};
}

void tni_str_clear(tni_str *s) {
  s->n = s->zero = 0;
  s->failed = s->over = false;
}

/* Room for extra more bytes; false (and failed) when there is none. */
static bool str_reserve(tni_str *s, size_t extra) {
  if (s->failed) return false;
  if (extra > TNI_STR_MAX || s->n > TNI_STR_MAX - extra) return !(s->failed = s->over = true);
  size_t need = s->n + extra;
  if (need <= s->cap) return true;
  size_t cap = s->cap ? s->cap : 64;
  while (cap < need) cap *= 2;
  char *v = realloc(s->v, cap);
  if (!v) return !(s->failed = true);
  s->v = v;
  s->cap = cap;
  return true;
}

void tni_str_add(tni_str *s, const char *v, size_t n) {
  if (n == 0 || !str_reserve(s, n)) return;
  memcpy(s->v + s->n, v, n);
  s->n += n;
}

void tni_str_add_cp(tni_str *s, uint32_t cp) {
  char b[4];
  tni_str_add(s, b, tni_utf8_put(cp, b));
}

void tni_str_drop(tni_str *s, size_t n) {
  if (n == 0) return;
  memmove(s->v, s->v + n, s->n - n);
  s->n -= n;
  s->zero = s->zero > n ? s->zero - n : 0;
}
