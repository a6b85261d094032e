/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/json.h"

#undef json_dumps

/* The real of n letters at `from`, in no more of them at `to`; how many. */
static size_t put_real(char *to, const char *from, size_t n) {
  char text[32];
  json_t *v = tni_json_loadb(from, n, JSON_DECODE_ANY, NULL);
  for (size_t digits = 15; v && digits < 17; digits++) {
    const size_t k = json_dumpb(v, text, sizeof text, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
    json_t *back = k && k <= n && k <= sizeof text ? tni_json_loadb(text, k, JSON_DECODE_ANY, NULL) : NULL;
    const bool same = json_is_real(back) && json_real_value(back) == json_real_value(v);
    json_decref(back);
    if (!same) continue;
    json_decref(v);
    memcpy(to, text, k);
    return k;
  }
  json_decref(v);
  memmove(to, from, n);
  return n;
}

/* In place: a text of jansson's, whose strings stay. */
static void shorten_reals(char *s) {
  char *to = s;
  for (const char *at = s; *at;) {
    size_t n = 1;
    bool real = false;
    if (*at == '"') {
      while (at[n] != '"') n += at[n] == '\\' ? 2 : 1;
      n++;
    } else if (*at == '-' || (*at >= '0' && *at <= '9')) {
      n = strspn(at, "+-.0123456789eE");
      real = memchr(at, '.', n) || memchr(at, 'e', n);
    }
    if (real)
      to += put_real(to, at, n);
    else
      to = (char *)memmove(to, at, n) + n;
    at += n;
  }
  *to = 0;
}

char *tni_json_dumps(const json_t *j, size_t flags) {
  char *s = json_dumps(j, flags);
  if (!s && j) tni_json_lacked();
  if (s && !(flags & JSON_REAL_PRECISION(31))) shorten_reals(s);
  return s;
}
