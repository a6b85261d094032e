/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/markup.h"

#include <string.h>

void tni_put_markup(const char *s, FILE *f) {
  for (; s && *s; s++) {
    const unsigned char c = (unsigned char)*s;
    const char *as = c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : NULL;
    if (as)
      fputs(as, f);
    else
      fputc(c < 0x20 && c != '\n' && c != '\t' ? ' ' : c, f);
  }
}

void tni_put_word(const char *s, FILE *f) {
  static const char bare[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:=,@%+-";
  if (*s && !s[strspn(s, bare)]) {
    fputs(s, f);
    return;
  }
  fputc('\'', f);
  for (; *s; s++) { /* a quote is ended, written, and begun again */
    if (*s == '\'') fputs("'\\'", f);
    fputc(*s, f);
  }
  fputc('\'', f);
}
