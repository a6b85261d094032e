/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/json.h"

#include <stdint.h>

static _Thread_local bool lacked;

void tni_json_begin(void) { lacked = false; }
bool tni_json_short(void) { return lacked; }
void tni_json_lacked(void) { lacked = true; }

json_t *tni_json_pooled(tni_json_pool *p, const char *s, size_t n) {
  enum { LONGEST = 32 };
  uint32_t h = (uint32_t)n;
  for (size_t i = 0; i < n && n <= LONGEST; i++) h = h * 31 + (unsigned char)s[i];
  json_t **at = &p->slot[h % (sizeof p->slot / sizeof *p->slot)];
  if (n > LONGEST) return json_stringn_nocheck(s, n);
  if (*at && json_string_length(*at) == n && memcmp(json_string_value(*at), s, n) == 0) return json_incref(*at);
  json_decref(*at);
  *at = json_stringn_nocheck(s, n);
  return json_incref(*at);
}

void tni_json_pool_finish(tni_json_pool *p) {
  for (size_t i = 0; i < sizeof p->slot / sizeof *p->slot; i++) json_decref(p->slot[i]);
  *p = (tni_json_pool){{NULL}};
}

typedef struct dump_buffer {
  FILE *f;
  size_t n;
  char bytes[1 << 14];
} dump_buffer;

static int flush_dump(dump_buffer *b) {
  const size_t n = b->n;
  b->n = 0;
  return fwrite(b->bytes, 1, n, b->f) == n ? 0 : -1;
}

static int add_dump(const char *text, size_t n, void *user) {
  dump_buffer *b = user;
  if (n > sizeof b->bytes - b->n && flush_dump(b) != 0) return -1;
  if (n > sizeof b->bytes) return fwrite(text, 1, n, b->f) == n ? 0 : -1;
  memcpy(b->bytes + b->n, text, n);
  b->n += n;
  return 0;
}

int tni_json_dumpf(const json_t *j, FILE *f, size_t flags) {
  dump_buffer b;
  b.f = f;
  b.n = 0;
  int rc = json_dump_callback(j, add_dump, &b, flags);
  if (flush_dump(&b) != 0) rc = -1;
  if (rc && j && !ferror(f)) tni_json_lacked();
  return rc;
}
