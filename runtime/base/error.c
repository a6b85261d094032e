/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void tni_error_init(tn_error *e) {
  if (!e) return;
  memset(e, 0, sizeof *e);
  e->h = (tn_hdr){sizeof *e, 1, 0};
  e->node = e->task = TN_NONE;
}

void tni_long_error_init(tn_long_error *e) {
  if (!e) return;
  memset(e, 0, sizeof *e);
  tni_error_init(&e->error);
  e->error.h.size = sizeof *e;
}

/* Where the whole message goes, or NULL. From the end, so that it is found whichever version wrote the tn_error. */
static char *long_text(const tn_error *e) {
  if (e->h.size < TN_UPTO(tn_error, where) + TN_ERROR_TEXT) return NULL;
  return (char *)(uintptr_t)e + e->h.size - TN_ERROR_TEXT;
}

void tni_error_begin(tn_error *e) {
  if (!e) return;
  if (e->h.size < sizeof e->h) e->h = (tn_hdr){sizeof *e, 1, 0};
  e->code = TN_OK;
  e->vendor_code = 0;
  e->node = e->task = TN_NONE;
  e->message[0] = e->where[0] = '\0';
  if (long_text(e)) *long_text(e) = '\0';
}

/* A text that does not fit ends with U+2026, and no letter is cut in two. */
static void fit_text(char *out, size_t size, const char *text) {
  static const char more[] = "\xe2\x80\xa6";
  size_t n = strlen(text);
  if (n < size) {
    memcpy(out, text, n + 1);
    return;
  }
  n = size - sizeof more;
  while (n && ((unsigned char)text[n] & 0xc0) == 0x80) n--;
  memcpy(out, text, n);
  memcpy(out + n, more, sizeof more);
}

static void set_message(tn_error *e, const char *text) {
  if (long_text(e)) fit_text(long_text(e), TN_ERROR_TEXT, text);
  fit_text(e->message, sizeof e->message, text);
}

const char *tni_error_text(const tn_error *e) {
  if (!e) return "";
  const char *text = long_text(e);
  return text && *text ? text : e->message;
}

void tni_error_give(tn_error *to, const tn_error *from) {
  if (!to || to == from) return;
  tni_error_begin(to);
  to->code = from->code;
  to->vendor_code = from->vendor_code;
  to->node = from->node;
  to->task = from->task;
  set_message(to, tni_error_text(from));
  memcpy(to->where, from->where, sizeof to->where);
}

tn_status tni_error_pass(tn_error *to, tn_status st, const tn_error *from) {
  if (to && to->code == TN_OK && from->code != TN_OK) tni_error_give(to, from);
  return st;
}

tn_status tni_vfail(tn_error *e, tn_status st, const char *where, const char *fmt, va_list ap) {
  char text[TN_ERROR_TEXT];
  if (!e || e->code != TN_OK) return st;
  if (e->h.size < sizeof e->h) tni_error_init(e);
  e->code = st;
  vsnprintf(text, sizeof text, fmt, ap);
  set_message(e, text);
  fit_text(e->where, sizeof e->where, where ? where : "");
  return st;
}

tn_status tni_fail(tn_error *e, tn_status st, const char *where, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  tni_vfail(e, st, where, fmt, ap);
  va_end(ap);
  return st;
}

tn_status tni_fail_memory(tn_error *e, const char *where) {
  return tni_fail(e, TN_E_NO_MEMORY, where, "out of memory");
}

tn_status tni_errno_status(int e, tn_status other) {
  return e == ENOMEM || e == EMFILE || e == ENFILE ? TN_E_NO_MEMORY : other;
}

void tni_error_prefix(tn_error *e, const char *fmt, ...) {
  if (!e || e->code == TN_OK) return;
  char text[2 * TN_ERROR_TEXT];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, TN_ERROR_TEXT, fmt, ap);
  va_end(ap);
  const size_t n = strlen(text);
  snprintf(text + n, sizeof text - n, ": %s", tni_error_text(e));
  set_message(e, text);
}

void tni_error_append(tn_error *e, const char *fmt, ...) {
  if (!e || e->code == TN_OK) return;
  char text[2 * TN_ERROR_TEXT];
  va_list ap;
  const int n = snprintf(text, TN_ERROR_TEXT, "%s", tni_error_text(e));
  va_start(ap, fmt);
  vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);
  va_end(ap);
  set_message(e, text);
}

const char *tni_status_name(tn_status st) {
  static const char *const names[] = {"OK",           "INVALID",     "UNSUPPORTED", "UNAVAILABLE",
                                      "INCOMPATIBLE", "DEVICE_LOST", "CORRUPT",     "NO_MEMORY",
                                      "CANCELLED",    "INTERNAL",    "IO",          "LIMIT"};
  return st >= 0 && (size_t)st < sizeof names / sizeof *names ? names[st] : "INTERNAL";
}

tn_status tni_take(void *mine, size_t bytes, const void *theirs, const char *what, tn_error *err) {
  tn_hdr h;
  memset(mine, 0, bytes);
  if (!theirs) return TN_OK;
  memcpy(&h, theirs, sizeof h);
  if (h.size < sizeof h) return tni_fail(err, TN_E_INVALID, what, "%s.h.size is %u", what, h.size);
  memcpy(mine, theirs, h.size < bytes ? h.size : bytes);
  return TN_OK;
}
