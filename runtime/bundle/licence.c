/* SPDX-License-Identifier: Apache-2.0
 *
 * Licences: Tenon's own text, and for each library that was copied what Debian's package says (copyright files, and the
 * common licences that they refer to). A library that no package owns is listed, so that its licence is added by hand.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/bundle/internal.h"

#define INFO "/var/lib/dpkg/info"

/* LICENSE of the source tree; the assembler reads it, so that the text is not here twice. */
__asm__(
    ".section .rodata.tni_licence, \"a\"\n"
    ".globl tni_licence_text\n.hidden tni_licence_text\ntni_licence_text:\n"
    ".incbin \"" TENON_LICENCE_FILE
    "\"\n"
    ".globl tni_licence_end\n.hidden tni_licence_end\ntni_licence_end:\n.byte 0\n.previous\n");
extern const char tni_licence_text[], tni_licence_end[];

/* Whether a line of text is `line`. */
static bool has_line(const char *text, size_t n, const char *line) {
  const size_t m = strlen(line);
  for (const char *p = text, *end = text + n; p < end;) {
    const char *eol = memchr(p, '\n', (size_t)(end - p));
    const size_t len = eol ? (size_t)(eol - p) : (size_t)(end - p);
    if (len == m && memcmp(p, line, m) == 0) return true;
    p += len + 1;
  }
  return false;
}

/* A file of dpkg's: false: it is not there, or its reading failed, which is noted. */
static bool map_list(tni_bd *b, const char *file, tni_file *f) {
  tn_error ignored;
  tni_error_init(&ignored);
  if (access(file, R_OK) != 0) return false;
  const tn_status st = tni_file_map(file, f, &ignored);
  if (st != TN_OK) tni_bd_missed(b, st == TN_E_NO_MEMORY ? ENOMEM : EIO);
  return st == TN_OK;
}

static bool owns_file(tni_bd *b, const char *list, const char *path, const char *real) {
  tni_file f;
  if (!map_list(b, list, &f)) return false;
  bool yes = f.data && (has_line(f.data, f.bytes, path) || has_line(f.data, f.bytes, real));
  /* /lib is a link to /usr/lib, and lists say either. */
  if (!yes && f.data && strncmp(real, "/usr/", 5) == 0) yes = has_line(f.data, f.bytes, real + 4);
  tni_file_unmap(&f);
  return yes;
}

const char *tni_bd_package(tni_bd *b, const char *path) {
  char real[PATH_MAX];
  if (!tni_bd_real(b, path, real)) return NULL;
  DIR *d = opendir(INFO);
  const char *found = NULL;
  if (!d) tni_bd_missed(b, errno);
  for (struct dirent *e; d && !found && (e = readdir(d));) {
    const size_t n = strlen(e->d_name);
    if (n <= 5 || strcmp(e->d_name + n - 5, ".list") != 0) continue;
    const char *list = tni_bd_text(b, INFO "/%s", e->d_name);
    if (list && owns_file(b, list, path, real)) found = tni_bd_text(b, "%.*s", (int)n - 5, e->d_name);
  }
  if (d) closedir(d);
  return found;
}

/* "Version: " of a package in dpkg's status: the paragraph with its name, and its architecture where it has one. */
const char *tni_bd_version(tni_bd *b, const char *package) {
  char name[160], arch[32] = "";
  const char *colon = strchr(package, ':'), *found = NULL;
  tni_file f;
  snprintf(name, sizeof name, "Package: %.*s", (int)(colon ? colon - package : (long)strlen(package)), package);
  if (colon) snprintf(arch, sizeof arch, "Architecture: %.16s", colon + 1);
  if (!map_list(b, "/var/lib/dpkg/status", &f)) return NULL;
  const char *p = f.data, *end = p ? p + f.bytes : NULL;
  while (p < end && !found) {
    const char *stop = memmem(p, (size_t)(end - p), "\n\n", 2);
    const size_t n = (size_t)((stop ? stop + 1 : end) - p);
    if (has_line(p, n, name) && (!colon || has_line(p, n, arch))) {
      const char *v = memmem(p, n, "\nVersion: ", 10), *eol = v ? memchr(v + 1, '\n', n - (size_t)(v + 1 - p)) : NULL;
      if (eol) found = tni_bd_text(b, "%.*s", (int)(eol - v - 10), v + 10);
    }
    p += n + 1;
  }
  tni_file_unmap(&f);
  return found;
}

/* "/usr/share/common-licenses/GPL-2" in a copyright file: the text comes along. */
static tn_status copy_common(tni_bd *b, const char *copyright) {
  static const char where[] = "/usr/share/common-licenses/";
  tni_file f;
  tn_status st = tni_file_map(copyright, &f, b->err);
  if (st != TN_OK) return st;
  const char *p = f.data, *end = p ? p + f.bytes : NULL;
  while (p && st == TN_OK && (p = memmem(p, (size_t)(end - p), where, sizeof where - 1))) {
    const char *name = p + sizeof where - 1;
    size_t n = 0;
    while (name + n < end && n < 40 &&
           (strchr("-+.", name[n])  ? name[n] != '\0'
            : (name[n] | 32) >= 'a' ? (name[n] | 32) <= 'z'
                                    : name[n] >= '0' && name[n] <= '9'))
      n++;
    while (n && name[n - 1] == '.') n--;
    p = name;
    const char *from = tni_bd_text(b, "%s%.*s", where, (int)n, name),
               *to = tni_bd_text(b, "licenses/common/%.*s", (int)n, name);
    if (!from || !to) st = tni_fail_memory(b->err, copyright);
    if (st == TN_OK && n && !tni_bd_find(b, to) && access(from, R_OK) == 0)
      st = tni_bd_copy(b, from, to, "licence", false);
  }
  tni_file_unmap(&f);
  return st;
}

static tn_status copy_package(tni_bd *b, const char *package) {
  const char *colon = strchr(package, ':');
  const char *name = colon ? tni_arena_strndup(b->arena, package, (size_t)(colon - package)) : package;
  const char *from = name ? tni_bd_text(b, "/usr/share/doc/%s/copyright", name) : NULL,
             *to = name ? tni_bd_text(b, "licenses/%s.copyright", name) : NULL;
  if (!from || !to) return tni_fail_memory(b->err, package);
  if (tni_bd_find(b, to)) return TN_OK;
  if (access(from, R_OK) != 0) {
    tni_bd_leave(b, tni_bd_text(b, "licence of %s", name), "its package has no copyright file here: add it by hand");
    return TN_OK;
  }
  tn_status st = tni_bd_copy(b, from, to, "licence", false);
  return st == TN_OK ? copy_common(b, from) : st;
}

static bool is_tenon(const tni_bd_file *f) {
  return strcmp(f->role, "library") != 0 || strncmp(f->path, "lib/libtenon.so", 15) == 0;
}

tn_status tni_bd_licences(tni_bd *b) {
  tn_status st = tni_bd_write(b, "licenses/tenon.LICENSE", tni_licence_text,
                              (size_t)(tni_licence_end - tni_licence_text), "licence", false);
  const uint32_t n = b->n_files;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    const tni_bd_file *f = &b->files[i];
    if (f->package)
      st = copy_package(b, f->package);
    else if (!is_tenon(f))
      tni_bd_leave(b, tni_bd_text(b, "licence of %s", f->path), "no package owns it here: add it by hand");
  }
  for (uint32_t i = 0; st == TN_OK && i < b->n_packages; i++) st = copy_package(b, b->packages[i]);
  return st;
}
