/* SPDX-License-Identifier: Apache-2.0
 *
 * Places in a YAML file, and errors at them.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/profile/yamltree.h"

void tni_place(char *buf, size_t n, const char *file, uint32_t line, uint32_t column) {
  char tail[32];
  int m = snprintf(tail, sizeof tail, ":%u:%u", line, column);
  size_t room = n - 1 - (size_t)m, len = strlen(file);
  if (len <= room)
    snprintf(buf, n, "%s%s", file, tail);
  else
    snprintf(buf, n, "...%s%s", file + (len - room + 3), tail);
}

tn_status tni_yaml_fail(const tni_yaml_doc *doc, const tni_yaml *at, tn_error *err, const char *fmt, ...) {
  char where[sizeof err->where];
  tni_place(where, sizeof where, doc->file, at ? at->line : 1, at ? at->column : 1);
  va_list ap;
  va_start(ap, fmt);
  tni_vfail(err, TN_E_INVALID, where, fmt, ap);
  va_end(ap);
  return TN_E_INVALID;
}
