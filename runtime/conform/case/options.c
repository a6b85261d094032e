/* SPDX-License-Identifier: Apache-2.0
 *
 * What a profile says of the plugin under test.
 */
#include <ctype.h>
#include <string.h>

#include "runtime/conform/case/case.h"

/* Words and numbers stay without quotes: an option that is a number may have none. */
static bool is_plain(const char *text, size_t n) {
  const size_t sign = n && (text[0] == '-' || text[0] == '+');
  bool plain = n > sign && text[sign] != '-' && text[sign] != '+';
  for (size_t i = 0; i < n; i++) plain = plain && (isalnum((unsigned char)text[i]) || strchr("._+-", text[i]));
  return plain;
}

static void scalar_write(FILE *f, const char *text, size_t n) {
  const bool plain = is_plain(text, n);
  if (!plain) fputc('\'', f);
  for (size_t i = 0; i < n; i++) {
    if (text[i] == '\'') fputc('\'', f);
    fputc(text[i], f);
  }
  if (!plain) fputc('\'', f);
}

void tni_cf_options_write(FILE *f, const char *const *options, uint32_t n) {
  fputc('{', f);
  for (uint32_t i = 0; i < n; i++) {
    const size_t key = strcspn(options[i], "=");
    if (i) fputs(", ", f);
    scalar_write(f, options[i], key);
    fputs(": ", f);
    const char *value = options[i] + key + (options[i][key] == '=');
    scalar_write(f, value, strlen(value));
  }
  fputc('}', f);
}
