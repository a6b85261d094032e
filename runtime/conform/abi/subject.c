/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the plugin's file and its manifests are found: the cases of abi stand on this.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/conform/abi/parts.h"
#include "runtime/plugin/plugin.h"

bool tni_cf_open_file(tni_cf *cf, tni_cf_elf *e) {
  const char *why = tni_cf_elf_open(cf->subject->path, e);
  if (why) tni_cf_fail(cf, "%s: %s", cf->subject->path, why);
  return !why;
}

bool tni_cf_has_name(const char *const *names, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (names[i] && !strcmp(names[i], name)) return true;
  return false;
}

static bool read_text(const char *path, char **text, size_t *n) {
  FILE *f = fopen(path, "rb");
  *text = NULL;
  *n = 0;
  if (!f) return false;
  const size_t cap = 1 << 16;
  if ((*text = malloc(cap))) *n = fread(*text, 1, cap, f);
  fclose(f);
  return *text != NULL;
}

bool tni_cf_manifest_note(tni_cf *cf, const char **text, size_t *n, bool *has_hash, tn_error *err) {
  tni_cf_elf e;
  tni_elfnote note;
  tni_error_init(err);
  if (tni_cf_elf_open(cf->subject->path, &e)) return false;
  const tni_file f = {.data = e.map, .bytes = e.bytes};
  const bool found = tni_elf_check(&f, cf->subject->path, err) == TN_OK && tni_elfnote_find(&f, &note);
  if (found) {
    *text = tni_arena_strndup(cf->arena, note.yaml, *n = note.n_yaml);
    *has_hash = note.has_hash;
    (void)!tni_elfnote_verify(&f, &note, cf->subject->path, err);
  }
  tni_cf_elf_close(&e);
  return found && *text;
}

bool tni_cf_manifest_path(const tni_cf *cf, char *path, size_t size) {
  const char *so = cf->subject->path;
  const size_t len = strlen(so);
  snprintf(path, size, "%.*s.yaml", (int)(len > 3 && !strcmp(so + len - 3, ".so") ? len - 3 : len), so);
  return access(path, F_OK) == 0;
}

bool tni_cf_manifest_read(tni_cf *cf, const char *text, size_t n, const char *file, tni_manifest *m) {
  tn_error err;
  tni_error_init(&err);
  const tn_status st = tni_manifest_parse(cf->arena, text, n, tni_arena_strdup(cf->arena, file), m, &err);
  if (st != TN_OK) tni_cf_fail(cf, "%s: %s", err.where[0] ? err.where : file, err.message);
  return st == TN_OK;
}

bool tni_cf_manifest_beside(tni_cf *cf, const char *path, tni_manifest *m) {
  char *text;
  size_t n;
  if (!read_text(path, &text, &n)) return tni_cf_fail(cf, "%s: cannot be read", path), false;
  const bool ok = tni_cf_manifest_read(cf, text, n, path, m);
  free(text);
  return ok;
}

bool tni_cf_manifest_of(tni_cf *cf, tni_manifest *m) {
  char path[4200];
  const char *text;
  size_t n;
  bool has_hash;
  tn_error err;
  if (tni_cf_manifest_path(cf, path, sizeof path)) return tni_cf_manifest_beside(cf, path, m);
  if (tni_cf_manifest_note(cf, &text, &n, &has_hash, &err))
    return tni_cf_manifest_read(cf, text, n, cf->subject->path, m);
  tni_cf_fail(cf, "%s: there is no manifest beside the plugin, and none in it", path);
  return false;
}
