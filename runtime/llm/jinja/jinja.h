/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/llm/jinja: chat templates, as transformers renders them with PyPI's jinja2
 * (ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loop controls, `generation`, `raise_exception`,
 * `strftime_now`, `tojson` without HTML escapes).
 *
 * A template is immutable after parsing; any thread renders it. Rendering is bounded in steps, memory, output and
 * depth. What comes out says of each byte whether it stood in the template (or in a trusted variable) or came from a
 * value: so that special tokens that somebody typed stay text.
 */
#ifndef TENON_LLM_JINJA_JINJA_H
#define TENON_LLM_JINJA_JINJA_H

#include <stdbool.h>

#include "runtime/base/base.h"
#include "runtime/base/json.h"

enum { TNI_JINJA_BYTES = 1 << 20 /* the longest template */ };

typedef struct tni_jinja tni_jinja;

/* text: n bytes, copied. name: of the template, for messages ("NAME: line 3: ..."). TN_E_INVALID: not valid UTF-8, or
 * no Jinja; TN_E_UNSUPPORTED: Jinja that is not known here; TN_E_LIMIT: longer than TNI_JINJA_BYTES or too deep. */
TN_MUST_CHECK tn_status tni_jinja_parse(const char *text, size_t n, const char *name, tni_jinja **out, tn_error *err);
void tni_jinja_destroy(tni_jinja *t);

/* 0 of a bound: the default. */
typedef struct tni_jinja_opts {
  uint64_t steps; /* expressions and statements evaluated, and items that filters look at; default 20 million */
  size_t memory;  /* bytes of all values that are made; default 512 MiB */
  size_t output;  /* bytes; default 64 MiB */
  int64_t now;    /* seconds since 1970 of strftime_now, in local time; 0: the clock's */
} tni_jinja_opts;

typedef struct tni_jinja_text {
  char *v;       /* n bytes, terminated; free() */
  uint8_t *mine; /* [n] 1: of the template or a trusted variable; 0: of a value. free() */
  size_t n;
} tni_jinja_text;
void tni_jinja_text_finish(tni_jinja_text *t);

/* vars, trusted: JSON objects whose keys become variables; trusted ones (may be NULL) win. o may be NULL.
 * TN_E_INVALID: the template raised an exception, or an expression has no value, with the line; TN_E_LIMIT: a bound. */
TN_MUST_CHECK tn_status tni_jinja_render(const tni_jinja *t, const json_t *vars, const json_t *trusted,
                                         const tni_jinja_opts *o, tni_jinja_text *out, tn_error *err);

#endif
