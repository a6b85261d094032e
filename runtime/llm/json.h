/* SPDX-License-Identifier: Apache-2.0
 *
 * A JSON file as a tree to be read once, made for tokenizer.json: 100,000 values in a few pieces of memory, which go at
 * once. Jansson, which makes and frees each by itself, takes five times as long; it goes on saying what is wrong with a
 * text that is refused (line, column). Which texts are is the same for both but for a NUL behind a number
 * (tests/llm/test_json.c):
 *
 * - RFC 8259, with an object or an array outside and at most 2048 values deep;
 * - valid UTF-8, no lone surrogates; NUL is a character of strings, not of keys;
 * - a key twice in one object is refused;
 * - whole numbers are int64_t; larger ones are reals; reals beyond double are refused.
 *
 * A tree is immutable: any thread may read it.
 */
#ifndef TENON_LLM_JSON_H
#define TENON_LLM_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

typedef enum tni_json_kind {
  TNI_JSON_OBJECT,
  TNI_JSON_ARRAY,
  TNI_JSON_STRING,
  TNI_JSON_INT,
  TNI_JSON_REAL,
  TNI_JSON_TRUE,
  TNI_JSON_FALSE,
  TNI_JSON_NULL
} tni_json_kind;

typedef struct tni_json {
  uint32_t kind, n; /* n: bytes of a string, items of an array, members of an object */
  union {
    const char *s; /* terminated */
    int64_t i;
    double real;
    const struct tni_json *v; /* n items; of an object n pairs of a key (a string) and its value */
  };
} tni_json;

typedef struct tni_json_tree tni_json_tree;

/* TN_E_INVALID with line and column at `file`. text is not needed behind it. */
TN_MUST_CHECK tn_status tni_json_parse(const char *text, size_t n, const char *file, tni_json_tree **out,
                                       tn_error *err);
/* The same for a file. */
TN_MUST_CHECK tn_status tni_json_load(const char *path, tni_json_tree **out, tn_error *err);
const tni_json *tni_json_root(const tni_json_tree *t); /* NULL of NULL */
void tni_json_destroy(tni_json_tree *t);               /* NULL is fine */

static inline bool tni_json_is(const tni_json *v, tni_json_kind kind) { return v && v->kind == kind; }
static inline bool tni_json_number(const tni_json *v) {
  return tni_json_is(v, TNI_JSON_INT) || tni_json_is(v, TNI_JSON_REAL);
}
/* NULL: v is no such thing, or has none. Members are searched one by one. */
const tni_json *tni_json_get(const tni_json *v, const char *key);
const tni_json *tni_json_item(const tni_json *v, size_t i);
/* 0: not whole, or no number. */
int64_t tni_json_int(const tni_json *v);
double tni_json_real(const tni_json *v);

#endif
