/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/utf8.h"

#include <stdbool.h>

size_t tni_utf8_valid(const char *s, size_t n) {
  size_t i = 0;
  while (i < n) {
    unsigned char c = (unsigned char)s[i];
    if (c < 0x80) {
      i++;
      continue;
    }
    size_t len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (c < 0xc2 || c > 0xf4 || len > n - i) return i;
    for (size_t k = 1; k < len; k++)
      if (((unsigned char)s[i + k] & 0xc0) != 0x80) return i;
    unsigned char d = (unsigned char)s[i + 1];
    bool bad =
        (c == 0xe0 && d < 0xa0) || (c == 0xed && d >= 0xa0) || (c == 0xf0 && d < 0x90) || (c == 0xf4 && d >= 0x90);
    if (bad) return i;
    i += len;
  }
  return n;
}
