/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/folder/listing.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 4096 };

static bool is_model_name(const char *name) {
  static const char *const parts[] = {"embed_tokens", "embeddings", "embedding", "vision_", "audio_", "speech"};
  if (name[0] == '.' || !tni_ends_with(name, ".onnx")) return false;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (strncmp(name, parts[i], strlen(parts[i])) == 0) return false;
  return true;
}

static int names_in_order(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

tn_status tni_listing_read(const char *dir, tni_listing *out, tn_error *err) {
  tni_listing l = {0};
  DIR *d = opendir(dir);
  if (!d)
    return tni_fail(err, tni_errno_status(errno, TN_E_IO), dir, "cannot read folder '%s': %s", dir, strerror(errno));
  tn_status st = TN_OK;
  for (struct dirent *e; st == TN_OK && l.n < MOST_FILES && (e = readdir(d));) {
    if (!is_model_name(e->d_name)) continue;
    char **names = realloc(l.names, (l.n + 1) * sizeof *names);
    if (names) l.names = names;
    char *name = names ? strdup(e->d_name) : NULL;
    if (name)
      l.names[l.n++] = name;
    else
      st = tni_fail_memory(err, dir);
  }
  closedir(d);
  if (l.n) qsort(l.names, l.n, sizeof *l.names, names_in_order);
  *out = l;
  return st;
}

static bool is_foreign(const char *name) {
  static const char *const ends[] = {".safetensors", ".gguf", ".bin", ".pt", ".pth"};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (tni_ends_with(name, ends[i])) return true;
  return false;
}

char *tni_listing_foreign(const char *dir) {
  DIR *d = opendir(dir);
  char *found = NULL;
  for (struct dirent *e; d && (e = readdir(d));) {
    if (!is_foreign(e->d_name) || (found && strcmp(found, e->d_name) <= 0)) continue;
    char *name = strdup(e->d_name);
    if (!name) continue;
    free(found);
    found = name;
  }
  if (d) closedir(d);
  return found;
}

void tni_listing_finish(tni_listing *l) {
  for (size_t i = 0; i < l->n; i++) free(l->names[i]);
  free(l->names);
  *l = (tni_listing){0};
}

void tni_listing_print(const tni_listing *here, const tni_listing *below, const char *prefix, char *text, size_t room) {
  const size_t all = here->n + below->n;
  size_t at = 0, i = 0;
  text[0] = '\0';
  for (; i < all; i++) {
    char more[48] = "";
    if (i + 1 < all) snprintf(more, sizeof more, " and %zu more", all - i - 1);
    const bool first = i < here->n;
    const char *name = first ? here->names[i] : below->names[i - here->n];
    const int n = snprintf(NULL, 0, "%s%s%s", i ? ", " : "", first ? "" : prefix, name);
    if (n < 0 || at + (size_t)n + strlen(more) >= room) break;
    at += (size_t)snprintf(text + at, room - at, "%s%s%s", i ? ", " : "", first ? "" : prefix, name);
  }
  if (i < all) snprintf(text + at, room - at, "%s%zu more", i ? " and " : "", all - i);
}
