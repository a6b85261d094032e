/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/json.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>

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

/* --- values ------------------------------------------------------------------------------------------------------- */

/* 2 and 2.0. */
static bool same_number(const json_t *whole, const json_t *real) {
  const double v = json_real_value(real);
  return fabs(v) < 9e18 && v == floor(v) && (json_int_t)v == json_integer_value(whole);
}

bool tni_json_same(const json_t *a, const json_t *b) {
  const char *key;
  json_t *v;
  size_t i;
  if (json_is_integer(a) && json_is_real(b)) return same_number(a, b);
  if (json_is_real(a) && json_is_integer(b)) return same_number(b, a);
  if (json_is_array(a) && json_is_array(b)) {
    if (json_array_size(a) != json_array_size(b)) return false;
    json_array_foreach(a, i, v) if (!tni_json_same(v, json_array_get(b, i))) return false;
    return true;
  }
  if (!json_is_object(a) || !json_is_object(b)) return json_equal(a, b);
  if (json_object_size(a) != json_object_size(b)) return false;
  json_object_foreach((json_t *)(uintptr_t)a, key, v) if (!tni_json_same(v, json_object_get(b, key))) return false;
  return true;
}

enum { KEY = 512 };

/* The n letters at s with each %XX as its byte, and then ~1 as / and ~0 as ~. False: too long. */
static bool pointer_key(const char *s, size_t n, char key[KEY]) {
  size_t k = 0, to = 0;
  for (size_t i = 0; i < n; i++) {
    char c = s[i];
    if (c == '%' && i + 2 < n && isxdigit((unsigned char)s[i + 1]) && isxdigit((unsigned char)s[i + 2])) {
      c = (char)strtoul((const char[]){s[i + 1], s[i + 2], '\0'}, NULL, 16);
      i += 2;
    }
    if (k + 1 >= KEY) return false;
    key[k++] = c;
  }
  key[k] = '\0';
  for (size_t i = 0; i < k; i++) {
    const bool escaped = key[i] == '~' && (key[i + 1] == '0' || key[i + 1] == '1');
    key[to++] = !escaped ? key[i] : key[++i] == '0' ? '~' : '/';
  }
  key[to] = '\0';
  return true;
}

json_t *tni_json_at(const json_t *root, const char *pointer) {
  json_t *at = (json_t *)(uintptr_t)root;
  char key[KEY], *end;
  while (at && *pointer == '/') {
    const size_t n = strcspn(++pointer, "/");
    if (!pointer_key(pointer, n, key)) return NULL;
    if (json_is_array(at)) {
      const size_t i = strtoul(key, &end, 10);
      at = isdigit((unsigned char)*key) && !*end ? json_array_get(at, i) : NULL;
    } else {
      at = json_object_get(at, key);
    }
    pointer += n;
  }
  return *pointer ? NULL : at;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

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
