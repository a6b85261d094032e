/* SPDX-License-Identifier: Apache-2.0
 *
 * jansson, with memory that runs out told from text that is wrong, and a parser that survives it. Include this where
 * JSON is built or parsed: the functions that build and parse are replaced by ones that remember, for the calling
 * thread, that memory was short.
 *
 * jansson gives NULL or -1 for both, and its builders pass NULL on: a tree lacks what found no memory, and nobody
 * knows. Who builds a tree calls tni_json_begin first and asks tni_json_short at its end. Only runtime/base knows
 * jansson's ways here; nothing of it is linked where this is not included.
 */
#ifndef TENON_BASE_JSON_H
#define TENON_BASE_JSON_H

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "runtime/base/utf8.h"

/* This thread: nothing was short yet. */
void tni_json_begin(void);
/* An allocation failed since, in JSON or where tni_json_lacked was called. */
bool tni_json_short(void);
/* Says so: an allocation failed and its function cannot. */
void tni_json_lacked(void);
/* json_loadb, by a parser of its own (json_parse.c), for the flags JSON_ALLOW_NUL, JSON_DECODE_ANY,
 * JSON_DISABLE_EOF_CHECK, JSON_REJECT_DUPLICATES and TNI_JSON_LARGE_AS_REAL: nested 2,048 deep at most. e may be NULL;
 * its position is that of the end where all is well. */
enum { TNI_JSON_LARGE_AS_REAL = 1 << 20 }; /* whole numbers that 64 bits do not hold are reals, not an error */
json_t *tni_json_loadb(const char *text, size_t n, size_t flags, json_error_t *e);

/* Strings that come again and again (types, devices): one value for all that are equal, as nobody changes one of them.
 * Zeroed to begin with. */
typedef struct tni_json_pool {
  json_t *slot[64];
} tni_json_pool;
/* A new reference, as json_stringn gives; s is valid UTF-8. NULL without memory. */
json_t *tni_json_pooled(tni_json_pool *p, const char *s, size_t n);
void tni_json_pool_finish(tni_json_pool *p);

/* Equal as JSON Schema has it: numbers by their value, so 1 and 1.0. */
bool tni_json_same(const json_t *a, const json_t *b);
/* What a JSON pointer (RFC 6901, as it stands after the # of a URI: %XX is a byte) leads to, borrowed; "" is root.
 * NULL: nothing is there, or it is no pointer. */
json_t *tni_json_at(const json_t *root, const char *pointer);

static inline json_t *tni_json_made(json_t *j) {
  if (!j) tni_json_lacked();
  return j;
}

static inline json_t *tni_json_text(const char *s, size_t n) {
  json_t *j = json_stringn(s, n);
  return j || tni_utf8_valid(s, n) < n ? j : tni_json_made(j);
}

static inline json_t *tni_json_string(const char *s) { return s ? tni_json_text(s, strlen(s)) : NULL; }

/* Names come from models and plugins, paths from users: what is not UTF-8 is shown as such. NULL is "". A new value. */
static inline json_t *tni_json_shown(const char *s) {
  json_t *j = tni_json_string(s ? s : "");
  return j ? j : tni_json_string("(not UTF-8)");
}

/* JSON has no NaN and no infinity: this stands for them. */
#define TNI_JSON_ENDLESS 1e30
static inline double tni_json_number(double v) { return isfinite(v) ? v : TNI_JSON_ENDLESS; }

static inline json_t *tni_json_real(double v) { return isfinite(v) ? tni_json_made(json_real(v)) : NULL; }

static inline int tni_json_put(json_t *o, const char *key, json_t *v) {
  const int rc = json_object_set_new(o, key, v);
  if (rc && o && v && tni_utf8_valid(key, strlen(key)) == strlen(key)) tni_json_lacked();
  return rc;
}

static inline int tni_json_add(json_t *a, json_t *v) {
  const int rc = json_array_append_new(a, v);
  if (rc && a && v) tni_json_lacked();
  return rc;
}

static inline json_t *tni_json_pack(const char *fmt, ...) {
  va_list ap;
  json_error_t e = {.line = -1}; /* jansson leaves the code as it is where it has none */
  va_start(ap, fmt);
  json_t *j = json_vpack_ex(&e, 0, fmt, ap);
  va_end(ap);
  if (!j && json_error_code(&e) != json_error_invalid_utf8) tni_json_lacked();
  return j;
}

/* json_dumps, which writes 21.7 as 21.699999999999999: where flags ask for no precision, reals have the fewest digits,
 * from 15 on, that read back as the same. */
char *tni_json_dumps(const json_t *j, size_t flags);

/* json_dumpf, which would ask the stream for each few bytes. */
int tni_json_dumpf(const json_t *j, FILE *f, size_t flags);

/* True: what failed with *e is not the text's fault. */
static inline bool tni_json_no_memory(const json_error_t *e) { return json_error_code(e) == json_error_out_of_memory; }

static inline json_t *tni_json_loads(const char *s, size_t flags, json_error_t *e) {
  return s ? tni_json_loadb(s, strlen(s), flags, e) : NULL;
}

#define json_object() tni_json_made(json_object())
#define json_array() tni_json_made(json_array())
#define json_integer(v) tni_json_made(json_integer(v))
#define json_real(v) tni_json_real(v)
#define json_string(s) tni_json_string(s)
#define json_stringn(s, n) tni_json_text(s, n)
#define json_object_set_new(o, key, v) tni_json_put(o, key, v)
#define json_array_append_new(a, v) tni_json_add(a, v)
#define json_pack(...) tni_json_pack(__VA_ARGS__)
#define json_dumps(j, flags) tni_json_dumps(j, flags)
#define json_dumpf(j, f, flags) tni_json_dumpf(j, f, flags)
#define json_loadb(s, n, flags, e) tni_json_loadb(s, n, flags, e)
#define json_loads(s, flags, e) tni_json_loads(s, flags, e)

#endif
