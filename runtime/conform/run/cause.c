/* SPDX-License-Identifier: Apache-2.0
 *
 * Which failed cases share a cause: those whose first findings say the same but for numbers and names.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/run/cause.h"

enum { KEY = 160 };

/* The finding without what differs from case to case: numbers, what stands in quotes, and where it was seen, which
 * stands before the last ": " that is not inside a sentence. */
static void cause_key(const tni_cf_result *r, char *key) {
  const char *s = json_string_value(json_array_get(r->findings, 0));
  size_t n = 0;
  bool quoted = false;
  for (const char *p = s ? s : ""; *p && n + 1 < KEY; p++) {
    if (*p == '\'') quoted = !quoted;
    if (quoted && *p != '\'') continue;
    const bool digit = isdigit((unsigned char)*p) ||
                       (n && key[n - 1] == '#' && strchr(".eE+-xabcdef", *p) && isdigit((unsigned char)p[1]));
    if (digit && n && key[n - 1] == '#') continue;
    key[n++] = digit ? '#' : *p;
  }
  key[n] = '\0';
}

uint32_t *tni_cf_causes(const tni_cf_report *r) {
  uint32_t *of = calloc(r->n + 1, sizeof *of);
  char(*keys)[KEY] = calloc(r->n + 1, sizeof *keys);
  for (uint32_t i = 0; of && keys && i < r->n; i++) {
    of[i] = i;
    if (r->results[i].verdict != TNI_CF_FAILED) continue;
    cause_key(&r->results[i], keys[i]);
    for (uint32_t k = 0; keys[i][0] && k < i; k++)
      if (of[k] == k && r->results[k].verdict == TNI_CF_FAILED && !strcmp(keys[k], keys[i])) {
        of[i] = k;
        break;
      }
  }
  if (!keys) free(of), of = NULL;
  free(keys);
  return of;
}

uint32_t tni_cf_cause_size(const tni_cf_report *r, const uint32_t *of, uint32_t first) {
  uint32_t n = 0;
  for (uint32_t i = 0; of && i < r->n; i++) n += of[i] == first && r->results[i].verdict == TNI_CF_FAILED;
  return of ? n : 1;
}
