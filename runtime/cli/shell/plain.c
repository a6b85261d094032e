/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/shell/shell.h"

/* Bytes of a control character at p: C0 but for tabs and line ends, DEL, and C1 as UTF-8 writes it. 0: none. */
static size_t control_bytes(const unsigned char *p, size_t n, bool all) {
  if (p[0] == '\t' || (!all && p[0] == '\n')) return 0;
  if (p[0] < 0x20 || p[0] == 0x7f) return 1;
  return p[0] == 0xc2 && n > 1 && p[1] >= 0x80 && p[1] < 0xa0 ? 2 : 0;
}

void cli_plain_write(FILE *f, const char *text, size_t n, bool all) {
  const unsigned char *p = (const unsigned char *)text;
  size_t from = 0;
  for (size_t i = 0; i < n;) {
    const size_t bytes = control_bytes(p + i, n - i, all);
    if (!bytes) {
      i++;
      continue;
    }
    fwrite(text + from, 1, i - from, f);
    fprintf(f, "\\x%02x", p[i + bytes - 1]);
    from = i += bytes;
  }
  fwrite(text + from, 1, n - from, f);
}

void cli_plain_vprintf(FILE *f, const char *fmt, va_list ap) {
  char *text = NULL, small[512];
  va_list again;
  va_copy(again, ap);
  int n = vasprintf(&text, fmt, ap);
  if (n < 0) { /* without memory, what fits */
    text = NULL;
    n = vsnprintf(small, sizeof small, fmt, again);
    if (n >= (int)sizeof small) n = sizeof small - 1;
  }
  va_end(again);
  if (n > 0) cli_plain_write(f, text ? text : small, (size_t)n, false);
  free(text);
}

void cli_plain_printf(FILE *f, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  cli_plain_vprintf(f, fmt, ap);
  va_end(ap);
}
