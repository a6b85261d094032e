/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/stop.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/llm/text/text.h"

enum { MAX_STRINGS = 256, MAX_BYTES = 65536 };

struct tni_stop {
  tni_view *v;
  size_t n;
  tni_str held; /* given[0 .. done) of it went out last time */
  size_t done;
  bool hit;
};

tn_status tni_stop_create(const char *const *strings, size_t n, tni_stop **out, tn_error *err) {
  if (n > MAX_STRINGS) return tni_fail(err, TN_E_INVALID, "stop", "%zu stop strings, at most %d", n, MAX_STRINGS);
  tni_stop *s = calloc(1, sizeof *s);
  if (s) s->v = calloc(n ? n : 1, sizeof *s->v);
  if (!s || !s->v) {
    tni_stop_destroy(s);
    return tni_fail_memory(err, "stop");
  }
  for (size_t i = 0; i < n; i++) {
    size_t len = strings[i] ? strlen(strings[i]) : 0;
    if (len == 0 || len > MAX_BYTES) {
      tni_stop_destroy(s);
      return tni_fail(err, TN_E_INVALID, "stop", "stop[%zu] has %zu bytes, expected 1 to %d", i, len, MAX_BYTES);
    }
    char *copy = strdup(strings[i]);
    if (!copy) {
      tni_stop_destroy(s);
      return tni_fail_memory(err, "stop");
    }
    s->v[s->n++] = (tni_view){copy, len};
  }
  *out = s;
  return TN_OK;
}

void tni_stop_destroy(tni_stop *s) {
  if (!s) return;
  for (size_t i = 0; i < s->n; i++) free((char *)s->v[i].v);
  free(s->v);
  tni_str_finish(&s->held);
  free(s);
}

/* Begin of the stop string that ends first, the longest of those; SIZE_MAX: none. */
static size_t find_stop(const tni_stop *s) {
  size_t begin = SIZE_MAX, end = SIZE_MAX;
  for (size_t i = 0; i < s->n; i++) {
    const char *at = memmem(s->held.v, s->held.n, s->v[i].v, s->v[i].n);
    if (!at) continue;
    size_t b = (size_t)(at - s->held.v), e = b + s->v[i].n;
    if (e < end || (e == end && b < begin)) {
      begin = b;
      end = e;
    }
  }
  return begin;
}

/* Bytes at the end that may begin a stop string. */
static size_t open_end(const tni_stop *s) {
  size_t most = 0;
  for (size_t i = 0; i < s->n; i++) {
    size_t k = s->v[i].n - 1 < s->held.n ? s->v[i].n - 1 : s->held.n;
    while (k > most && memcmp(s->held.v + s->held.n - k, s->v[i].v, k) != 0) k--;
    if (k > most) most = k;
  }
  return most;
}

static void give_text(tni_stop *s, size_t n, const char **out, size_t *len) {
  s->done = n;
  *out = n ? s->held.v : "";
  *len = n;
}

tn_status tni_stop_push(tni_stop *s, const char *text, size_t n, const char **out, size_t *len, bool *hit,
                        tn_error *err) {
  tni_str_drop(&s->held, s->done);
  s->done = 0;
  if (!s->hit) tni_str_add(&s->held, text, n);
  if (s->held.failed) return tni_fail_memory(err, "stop");
  size_t b = s->hit || s->held.n == 0 ? SIZE_MAX : find_stop(s);
  if (b != SIZE_MAX) {
    s->hit = true;
    s->held.n = b;
  }
  *hit = s->hit;
  give_text(s, s->hit ? s->held.n : s->held.n - open_end(s), out, len);
  return TN_OK;
}

void tni_stop_finish(tni_stop *s, const char **out, size_t *len) {
  tni_str_drop(&s->held, s->done);
  give_text(s, s->held.n, out, len);
}
