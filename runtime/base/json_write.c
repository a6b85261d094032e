/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/json_write.h"

#include <stdio.h>
#include <stdlib.h>

/* Room for n more bytes and the end; without memory nothing is written any more. */
static char *room(tni_json_writer *w, size_t n) {
  if (w->failed) return NULL;
  if (w->cap - w->n <= n) {
    size_t cap = w->cap ? w->cap : 4096;
    while (cap - w->n <= n && cap <= SIZE_MAX / 4) cap *= 2;
    char *grown = cap - w->n > n ? realloc(w->s, cap) : NULL;
    if (!grown) {
      w->failed = true;
      return NULL;
    }
    w->s = grown;
    w->cap = cap;
  }
  return w->s + w->n;
}

static void put_bytes(tni_json_writer *w, const char *s, size_t n) {
  char *at = room(w, n);
  if (!at) return;
  memcpy(at, s, n);
  w->n += n;
}

static void put_line(tni_json_writer *w, uint32_t depth) {
  char *at = room(w, (size_t)depth + 1);
  if (!at) return;
  *at = '\n';
  memset(at + 1, ' ', depth);
  w->n += (size_t)depth + 1;
}

static bool is_plain(unsigned char c) { return c >= 0x20 && c != '"' && c != '\\'; }

static void put_escape(tni_json_writer *w, unsigned char c) {
  static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
  const char *at = c ? strchr(from, c) : NULL;
  char text[8];
  if (at)
    put_bytes(w, (const char[]){'\\', to[at - from]}, 2);
  else
    put_bytes(w, text, (size_t)snprintf(text, sizeof text, "\\u%04X", c));
}

static void put_string(tni_json_writer *w, const char *s, size_t n) {
  put_bytes(w, "\"", 1);
  for (size_t at = 0, end; at < n; at = end) {
    for (end = at; end < n && is_plain((unsigned char)s[end]);) end++;
    put_bytes(w, s + at, end - at);
    if (end < n) put_escape(w, (unsigned char)s[end++]);
  }
  put_bytes(w, "\"", 1);
}

static void put_number(tni_json_writer *w, const json_t *j) {
  char text[512];
  const size_t n = json_dumpb(j, text, sizeof text, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
  if (n == 0 || n > sizeof text) w->failed = true;
  if (!w->failed) put_bytes(w, text, n);
}

/* Before an element: the comma after the one before, its line and its key. */
static void begin_element(tni_json_writer *w, const char *key, size_t n) {
  if (w->depth && !w->first) put_bytes(w, ",", 1);
  if (w->depth) put_line(w, w->depth);
  w->first = false;
  if (!key) return;
  put_string(w, key, n);
  put_bytes(w, ": ", 2);
}

void tni_json_open(tni_json_writer *w, const char *key, char bracket) {
  begin_element(w, key, key ? strlen(key) : 0);
  put_bytes(w, &bracket, 1);
  w->depth++;
  w->first = true;
}

void tni_json_shut(tni_json_writer *w, char bracket) {
  w->depth--;
  if (!w->first) put_line(w, w->depth);
  w->first = false;
  put_bytes(w, &bracket, 1);
}

void tni_json_put_text(tni_json_writer *w, const char *key, const char *s) {
  const size_t n = s ? strlen(s) : 0;
  begin_element(w, key, key ? strlen(key) : 0);
  if (n && tni_utf8_valid(s, n) < n)
    put_string(w, "(not UTF-8)", 11);
  else
    put_string(w, n ? s : "", n);
}

void tni_json_put_count(tni_json_writer *w, const char *key, int64_t v) {
  char text[24];
  begin_element(w, key, key ? strlen(key) : 0);
  put_bytes(w, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)v));
}

static void put_value(tni_json_writer *w, const json_t *j);

static void put_members(tni_json_writer *w, const json_t *j) {
  for (void *i = json_object_iter((json_t *)(uintptr_t)j); i; i = json_object_iter_next((json_t *)(uintptr_t)j, i)) {
    const char *key = json_object_iter_key(i);
    begin_element(w, key, strlen(key));
    put_value(w, json_object_iter_value(i));
  }
}

static void put_elements(tni_json_writer *w, const json_t *j) {
  for (size_t i = 0; i < json_array_size(j); i++) {
    begin_element(w, NULL, 0);
    put_value(w, json_array_get(j, i));
  }
}

static void put_value(tni_json_writer *w, const json_t *j) {
  switch (j ? json_typeof(j) : JSON_NULL) {
    case JSON_OBJECT:
    case JSON_ARRAY:
      put_bytes(w, json_is_object(j) ? "{" : "[", 1);
      w->depth++;
      w->first = true;
      if (json_is_object(j))
        put_members(w, j);
      else
        put_elements(w, j);
      tni_json_shut(w, json_is_object(j) ? '}' : ']');
      return;
    case JSON_STRING:
      put_string(w, json_string_value(j), json_string_length(j));
      return;
    case JSON_INTEGER:
    case JSON_REAL:
      put_number(w, j);
      return;
    case JSON_TRUE:
    case JSON_FALSE:
      put_bytes(w, json_is_true(j) ? "true" : "false", json_is_true(j) ? 4 : 5);
      return;
    case JSON_NULL:
    default:
      put_bytes(w, "null", 4);
  }
}

void tni_json_put_tree(tni_json_writer *w, const char *key, json_t *j) {
  begin_element(w, key, key ? strlen(key) : 0);
  put_value(w, j);
  json_decref(j);
}

void tni_json_put_members(tni_json_writer *w, json_t *j) {
  put_members(w, j);
  json_decref(j);
}

char *tni_json_written(tni_json_writer *w) {
  char *at = room(w, 0), *s = at ? w->s : NULL;
  if (at)
    *at = '\0';
  else
    free(w->s);
  *w = (tni_json_writer){0};
  if (!s) tni_json_lacked();
  return s;
}
