/* SPDX-License-Identifier: Apache-2.0
 *
 * What is left of a text that is read from its beginning.
 */
#ifndef TENON_SERVE_SPEECH_REST_H
#define TENON_SERVE_SPEECH_REST_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct srv_rest {
  const char *v;
  size_t n;
} srv_rest;

static inline void srv_rest_skip(srv_rest *r, size_t n) {
  r->v += n;
  r->n -= n;
}

static inline bool srv_is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static inline void srv_rest_blanks(srv_rest *r) {
  while (r->n && srv_is_blank(*r->v)) srv_rest_skip(r, 1);
}

static inline void srv_rest_trim_end(srv_rest *r) {
  while (r->n && srv_is_blank(r->v[r->n - 1])) r->n--;
}

/* False: it does not begin with word. */
static inline bool srv_rest_take(srv_rest *r, const char *word) {
  const size_t n = strlen(word);
  if (r->n < n || memcmp(r->v, word, n) != 0) return false;
  srv_rest_skip(r, n);
  return true;
}

/* Up to word, which goes too; false: it does not come. */
static inline bool srv_rest_until(srv_rest *r, const char *word, srv_rest *out) {
  const char *at = r->n ? memmem(r->v, r->n, word, strlen(word)) : NULL;
  if (!at) return false;
  *out = (srv_rest){r->v, (size_t)(at - r->v)};
  srv_rest_skip(r, out->n + strlen(word));
  return true;
}

#endif
