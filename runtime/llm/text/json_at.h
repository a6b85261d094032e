/* SPDX-License-Identifier: Apache-2.0
 *
 * Typed reading of JSON files with errors that name the file and the place ("model.merges[12]").
 *
 * tni_at is a value: a node, its file and its path. It borrows the tree and the file's name. A missing or null node has
 * v == NULL: readers with a default accept that, the others give TN_E_INVALID. Trees are owned by the caller.
 */
#ifndef TENON_LLM_TEXT_JSON_AT_H
#define TENON_LLM_TEXT_JSON_AT_H

#include <stdbool.h>

#include "runtime/base/base.h"
#include "runtime/base/json.h"
#include "runtime/llm/text/str.h"

typedef struct tni_at {
  json_t *v;
  const char *file;
  char path[96]; /* cut on the left with "..." when it is longer */
} tni_at;

/* Parses n bytes: duplicate keys, invalid UTF-8 and trailing text are TN_E_INVALID with line and column. */
TN_MUST_CHECK tn_status tni_json_parse(const char *text, size_t n, const char *file, json_t **out, tn_error *err);
/* The same for a file. */
TN_MUST_CHECK tn_status tni_json_load(const char *path, json_t **out, tn_error *err);

tni_at tni_at_root(json_t *v, const char *file);
tni_at tni_at_key(const tni_at *a, const char *key);
tni_at tni_at_item(const tni_at *a, size_t i);
/* Fails with "PATH: ..." at the file. */
tn_status tni_at_fail(const tni_at *a, tn_status st, tn_error *err, const char *fmt, ...) TN_PRINTF(4, 5);

TN_MUST_CHECK tn_status tni_at_string(const tni_at *a, tni_view *out, tn_error *err);
/* The string member key of object a compared with s. */
bool tni_at_is(const tni_at *a, const char *key, const char *s);
TN_MUST_CHECK tn_status tni_at_bool(const tni_at *a, bool dflt, bool *out, tn_error *err);
/* Integer in [lo, hi]. */
TN_MUST_CHECK tn_status tni_at_int(const tni_at *a, int64_t lo, int64_t hi, int64_t *out, tn_error *err);
/* Number, integer or real; absent: *out stays. */
TN_MUST_CHECK tn_status tni_at_number(const tni_at *a, double *out, tn_error *err);
/* Array of at most max items. */
TN_MUST_CHECK tn_status tni_at_array(const tni_at *a, size_t max, size_t *n, tn_error *err);
TN_MUST_CHECK tn_status tni_at_object(const tni_at *a, tn_error *err);

#endif
