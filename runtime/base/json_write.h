/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON written piece by piece, so that a list of a million entries needs no tree. The text is what json_dumps gives with
 * JSON_INDENT(1) | JSON_REAL_PRECISION(9).
 *
 * A writer begins zeroed and ends with tni_json_written. key: the name in an object, NULL in an array and for the whole;
 * who writes keeps to that, and to names of UTF-8 that differ. Without memory the pieces are dropped, and the end says so.
 */
#ifndef TENON_BASE_JSON_WRITE_H
#define TENON_BASE_JSON_WRITE_H

#include <stdint.h>

#include "runtime/base/json.h"

typedef struct tni_json_writer {
  char *s;
  size_t n, cap;
  uint32_t depth;
  bool first, failed; /* nothing stands yet in the innermost list; no memory */
} tni_json_writer;

/* An object ('{', '}') or an array ('[', ']'), whose pieces follow. */
void tni_json_open(tni_json_writer *w, const char *key, char bracket);
void tni_json_shut(tni_json_writer *w, char bracket);
/* s: NULL is "", and what is not UTF-8 is shown as such. */
void tni_json_put_text(tni_json_writer *w, const char *key, const char *s);
void tni_json_put_count(tni_json_writer *w, const char *key, int64_t v);
/* A tree; NULL is null. Takes j over. */
void tni_json_put_tree(tni_json_writer *w, const char *key, json_t *j);
/* What stands in the object j, in the object that is open. Takes j over. */
void tni_json_put_members(tni_json_writer *w, json_t *j);
/* The text, for free(), and w zeroed again; NULL without memory, which tni_json_short then says too. */
char *tni_json_written(tni_json_writer *w);

#endif
