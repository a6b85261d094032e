/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/cli/shell/shell.h"

static const char bare[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:=,@%+-";

void cli_quote(char *out, size_t room, const char *word) {
  size_t n = strnlen(out, room);
  const bool plain = *word && word[strspn(word, bare)] == '\0';
  if (plain ? n + strlen(word) + 1 > room : n + 3 > room) return;
  if (plain) {
    strcpy(out + n, word);
    return;
  }
  out[n++] = '\'';
  for (; *word && n + 6 <= room; word++) { /* a quote is ended, written, and begun again */
    if (*word == '\'') memcpy(out + n, "'\\'", 3), n += 3;
    out[n++] = *word;
  }
  out[n++] = '\'';
  out[n] = '\0';
}
