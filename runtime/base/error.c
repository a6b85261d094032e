/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/error.h"

#include <stdio.h>
#include <string.h>

void tni_error_init(tn_error *e) {
  if (!e) return;
  memset(e, 0, sizeof *e);
  e->h = (tn_hdr){sizeof *e, 1, 0};
  e->node = e->task = TN_NONE;
}

tn_status tni_vfail(tn_error *e, tn_status st, const char *where, const char *fmt, va_list ap) {
  if (!e || e->code != TN_OK) return st;
  if (e->h.size == 0) tni_error_init(e);
  e->code = st;
  vsnprintf(e->message, sizeof e->message, fmt, ap);
  snprintf(e->where, sizeof e->where, "%s", where ? where : "");
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

void tni_error_prefix(tn_error *e, const char *fmt, ...) {
  if (!e || e->code == TN_OK) return;
  char old[sizeof e->message], pre[sizeof e->message];
  memcpy(old, e->message, sizeof old);
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(pre, sizeof pre, fmt, ap);
  va_end(ap);
  size_t n = strlen(pre);
  if (n > sizeof e->message - 3) n = sizeof e->message - 3;
  memcpy(e->message, pre, n);
  memcpy(e->message + n, ": ", 2);
  size_t room = sizeof e->message - n - 3, m = strnlen(old, sizeof old - 1);
  if (m > room) m = room;
  memcpy(e->message + n + 2, old, m);
  e->message[n + 2 + m] = '\0';
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
