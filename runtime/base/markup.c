/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/markup.h"

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
