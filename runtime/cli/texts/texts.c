/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cli/texts/texts.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/lm.h>

#include "runtime/base/base.h"
#include "runtime/base/json.h"
#include "runtime/cli/shell/shell.h"

/* A text is one of a list of values: .json is the list, .jsonl has a value on each line, anything else is one text. */
typedef enum text_kind { ONE, LIST, LINES } text_kind;

static text_kind kind_of(const char *path) {
  const char *dot = strrchr(path, '.');
  if (dot && !strcmp(dot, ".json")) return LIST;
  return dot && !strcmp(dot, ".jsonl") ? LINES : ONE;
}

static tn_status parse(const char *path, const char *text, size_t n, json_t **out, tn_error *err) {
  json_error_t why;
  json_t *j = json_loadb(text, n, 0, &why);
  if (json_is_array(j)) {
    *out = j;
    return TN_OK;
  }
  json_decref(j);
  return j ? tni_fail(err, TN_E_INVALID, path, "'%s' is not a JSON list of texts", path)
           : tni_fail(err, TN_E_INVALID, path, "'%s' is not a JSON list of texts: line %d: %s", path, why.line, why.text);
}

/* The messages of a conversation: a list, or "messages" of an object; NULL: it is none. */
static const json_t *messages_of(const json_t *v) {
  const json_t *m = json_is_object(v) ? json_object_get(v, "messages") : v;
  return json_is_array(m) ? m : NULL;
}

/* The text that an element is, or has as "text"; NULL: it is something else. */
static const json_t *text_of(const json_t *v) {
  const json_t *text = json_is_object(v) ? json_object_get(v, "text") : v;
  return json_is_string(text) ? text : NULL;
}

static tn_status parse_line(const char *path, size_t line, const char *at, size_t m, json_t *list, tn_error *err) {
  json_error_t why = {.text = ""};
  json_t *one = json_loadb(at, m, JSON_DECODE_ANY, &why);
  if (!one) return tni_fail(err, TN_E_INVALID, path, "'%s': line %zu: %s", path, line, why.text);
  if (text_of(one) || messages_of(one)) return json_array_append_new(list, one) == 0 ? TN_OK : TN_E_NO_MEMORY;
  json_decref(one);
  return tni_fail(err, TN_E_INVALID, path, "'%s': line %zu is neither a string nor a conversation", path, line);
}

/* The lines that hold something, as a list. */
static tn_status parse_lines(const char *path, const char *text, size_t n, json_t **out, tn_error *err) {
  json_t *list = json_array();
  tn_status st = list ? TN_OK : TN_E_NO_MEMORY;
  size_t line = 1;
  for (const char *at = text, *end = text + n; st == TN_OK && at < end; line++) {
    const char *nl = memchr(at, '\n', (size_t)(end - at));
    const size_t m = (size_t)((nl ? nl : end) - at), blank = strspn(at, " \t\r");
    if (blank < m) st = parse_line(path, line, at, m, list, err);
    at += m + (nl != NULL);
  }
  if (st != TN_OK) {
    json_decref(list);
    return st;
  }
  *out = list;
  return TN_OK;
}

static tn_status list_of(const char *path, const char *text, size_t n, json_t **out, tn_error *err) {
  return kind_of(path) == LIST ? parse(path, text, n, out, err) : parse_lines(path, text, n, out, err);
}

int cli_texts_chats(const char *path, const char *text, size_t n) {
  json_t *list = NULL, *v;
  size_t i;
  tn_error err;
  tni_error_init(&err);
  if (kind_of(path) == ONE || list_of(path, text, n, &list, &err) != TN_OK) return 0;
  int chats = 0;
  json_array_foreach(list, i, v) chats |= messages_of(v) != NULL;
  json_decref(list);
  return chats;
}

/* The text that the model's template makes of a conversation, without the BOS that cli_text_encode puts in front. */
static tn_status apply(const tn_lm *lm, const char *path, size_t i, const json_t *messages, char **out, size_t *n,
                       tn_error *err) {
  char *json = lm ? json_dumps(messages, JSON_COMPACT) : NULL, *mark = NULL;
  size_t n_mark = 0;
  const int32_t bos = lm ? tn_lm_bos(lm) : -1;
  if (!lm)
    return tni_fail(err, TN_E_INVALID, path, "'%s': element %zu is a conversation, and this model has no chat template",
                    path, i);
  if (!json) return TN_E_NO_MEMORY;
  const tn_messages m = {.h = {sizeof m, 1, 0}, .messages = json};
  tn_status st = tn_lm_apply(lm, &m, out, n, NULL, NULL, err);
  if (st == TN_OK && bos >= 0) st = tn_lm_decode(lm, &bos, 1, 0, &mark, &n_mark, err);
  if (st == TN_OK && n_mark && *n >= n_mark && !memcmp(*out, mark, n_mark)) {
    *n -= n_mark;
    memmove(*out, *out + n_mark, *n + 1);
  }
  free(json);
  tn_free(mark);
  return st;
}

static tn_status one(const tn_lm *lm, const char *path, const json_t *list, size_t i, cli_text_fn fn, void *user,
                     tn_error *err) {
  const json_t *v = json_array_get(list, i), *text = text_of(v), *messages = messages_of(v);
  const size_t count = json_array_size(list);
  char *made = NULL;
  size_t n = 0;
  if (text) return fn(user, i, count, json_string_value(text), json_string_length(text));
  if (!messages)
    return tni_fail(err, TN_E_INVALID, path, "'%s': element %zu is neither a string nor a conversation", path, i);
  tn_status st = apply(lm, path, i, messages, &made, &n, err);
  if (st == TN_OK) st = fn(user, i, count, made, n);
  tn_free(made);
  return st;
}

tn_status cli_texts_each(const tn_lm *lm, const char *path, const char *text, size_t n, cli_text_fn fn, void *user,
                         tn_error *err) {
  json_t *list = NULL;
  tni_error_begin(err);
  if (kind_of(path) == ONE) return fn(user, 0, 1, text, n);
  tn_status st = list_of(path, text, n, &list, err);
  for (size_t i = 0; st == TN_OK && i < json_array_size(list); i++)
    st = cli_interrupted() ? tni_fail(err, TN_E_CANCELLED, NULL, "cancelled") : one(lm, path, list, i, fn, user, err);
  json_decref(list);
  return st;
}

tn_status cli_text_encode(const tn_lm *lm, const char *text, size_t n, int32_t **out, size_t *n_out, tn_error *err) {
  int32_t *ids = NULL, bos = tn_lm_bos(lm);
  size_t k = 0;
  tn_status st = tn_lm_encode(lm, text, n, 1, &ids, &k, err);
  if (st != TN_OK) return st;
  const bool add = bos >= 0 && (k == 0 || ids[0] != bos);
  int32_t *r = malloc((k + 2) * sizeof *r);
  if (!r) {
    tn_free(ids);
    return TN_E_NO_MEMORY;
  }
  if (add) r[0] = bos;
  if (k) memcpy(r + add, ids, k * sizeof *r);
  tn_free(ids);
  *n_out = k + add;
  *out = r;
  return TN_OK;
}
