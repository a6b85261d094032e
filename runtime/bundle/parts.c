/* SPDX-License-Identifier: Apache-2.0
 *
 * Program, plugins and shared libraries. What the system's own loader and C library are made of stays the system's, and
 * so does libstdc++, of which a driver may bring its own copy into the process. Libraries that a plugin opens itself
 * (drivers such as libOpenCL) are in no DT_NEEDED and never come along.
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/bundle/internal.h"
#include "runtime/plugin/load/load.h"

static const char *const system_libraries[] = {
    "ld-linux",     "libc.so",     "libm.so",      "libdl.so",     "libpthread.so", "librt.so", "libutil.so",
    "libresolv.so", "libgcc_s.so", "libstdc++.so", "libatomic.so", "linux-vdso",    NULL};

/* run.sh has these names in a list. */
static const char plain_name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-";

static bool is_system(const char *name) {
  for (int i = 0; system_libraries[i]; i++)
    if (strncmp(name, system_libraries[i], strlen(system_libraries[i])) == 0) return true;
  return false;
}

/* DIR/NAME where that is a library for the bundle's machine. */
static const char *try_in(tni_bd *b, const char *dir, const char *name) {
  tni_elf e;
  tn_error ignored;
  tni_error_init(&ignored);
  const char *path = tni_bd_text(b, "%s/%s", dir, name);
  if (!path || access(path, R_OK) != 0) return NULL;
  const tn_status st = tni_elf_read(b->arena, path, &e, &ignored);
  if (st == TN_E_NO_MEMORY || st == TN_E_IO) tni_bd_missed(b, st == TN_E_IO ? EIO : ENOMEM);
  return st == TN_OK && e.machine == b->machine ? path : NULL;
}

/* RUNPATH of a file, with $ORIGIN as its folder. */
static const char *try_runpath(tni_bd *b, const char *file, const char *runpath, const char *name) {
  char origin[PATH_MAX], *list = runpath ? tni_bd_text(b, "%s", runpath) : NULL, *save = NULL;
  const char *found = NULL;
  if (!list || !tni_bd_real(b, file, origin)) return NULL;
  *strrchr(origin, '/') = '\0';
  for (char *p = strtok_r(list, ":", &save); p && !found; p = strtok_r(NULL, ":", &save)) {
    const char *dir = strncmp(p, "$ORIGIN", 7) == 0 ? tni_bd_text(b, "%s%s", origin, p + 7) : p;
    if (dir && *dir == '/') found = try_in(b, dir, name);
  }
  return found;
}

static const char *find_library(tni_bd *b, const char *file, const tni_elf *e, const char *name) {
  const char *triplet = b->machine == EM_AARCH64 ? "aarch64-linux-gnu" : "x86_64-linux-gnu", *found = NULL;
  static const char *const multiarch[] = {"/lib", "/usr/lib", "/usr/local/lib"}, *const plain[] = {
                                                                                     "/usr/local/lib", "/lib64",
                                                                                     "/usr/lib64", "/lib", "/usr/lib"};
  for (uint32_t i = 0; !found && i < b->o.n_library_dirs; i++) found = try_in(b, b->o.library_dirs[i], name);
  if (!found && b->o.target_plugins) { /* LIBDIR/tenon/plugins */
    const char *libdir = tni_bd_text(b, "%s/../..", b->o.target_plugins);
    found = libdir ? try_in(b, libdir, name) : NULL;
  }
  if (!found) found = try_runpath(b, file, e->runpath, name);
  if (!found) { /* a plugin without a RUNPATH needs the libtenon that runs, which may be in a prefix of its own */
    errno = 0;
    const char *libdir = tni_beside_library(b->arena, ".");
    if (!libdir) tni_bd_missed(b, errno);
    found = libdir ? try_in(b, libdir, name) : NULL;
  }
  for (int i = 0; !found && i < 3; i++) {
    char dir[64];
    snprintf(dir, sizeof dir, "%s/%s", multiarch[i], triplet);
    found = try_in(b, dir, name);
  }
  for (int i = 0; !found && i < 5; i++) found = try_in(b, plain[i], name);
  return found;
}

/* The libraries that a file needs, and those that they need. */
static tn_status add_libraries(tni_bd *b, const char *file) {
  tni_elf e;
  tn_status st = tni_elf_read(b->arena, file, &e, b->err);
  for (uint32_t i = 0; st == TN_OK && i < e.n_needed; i++) {
    const char *name = e.needed[i], *to = tni_bd_text(b, "lib/%s", name);
    if (!*name || name[strspn(name, plain_name)])
      return tni_fail(b->err, TN_E_INVALID, file, "'%s' needs a library by the name '%s'", file, name);
    if (!to) return tni_fail_memory(b->err, name);
    if (is_system(name) || tni_bd_find(b, to)) continue;
    const char *from = find_library(b, file, &e, name);
    if (!from && b->missed) return tni_bd_whole(b);
    if (!from)
      return tni_fail(b->err, TN_E_UNAVAILABLE, file,
                      "'%s' needs '%s', which is nowhere here for %s; --library-dir says where it is", file, name,
                      b->arch);
    const uint32_t at = b->n_files;
    st = tni_bd_copy(b, from, to, "library", false);
    if (st == TN_OK) b->files[at].package = tni_bd_package(b, from);
    if (st == TN_OK) st = add_libraries(b, from);
  }
  return st;
}

/* A folder of the plugin's name is the plugin's, by custom. */
static tn_status add_folder(tni_bd *b, const char *from, const char *to, int depth) {
  DIR *d = opendir(from);
  tn_status st = TN_OK;
  if (!d) tni_bd_missed(b, errno);
  for (struct dirent *e; d && st == TN_OK && (e = readdir(d));) {
    struct stat sb;
    if (e->d_name[0] == '.') continue;
    const char *f = tni_bd_text(b, "%s/%s", from, e->d_name), *t = tni_bd_text(b, "%s/%s", to, e->d_name);
    if (!f || !t) st = tni_fail_memory(b->err, from);
    if (st != TN_OK || stat(f, &sb) != 0) continue;
    if (S_ISREG(sb.st_mode)) st = tni_bd_copy(b, f, t, "resource", false);
    if (S_ISDIR(sb.st_mode) && depth < 8) st = add_folder(b, f, t, depth + 1);
  }
  if (d) closedir(d);
  return st;
}

static const char *folder_of(tni_bd *b, const char *file) {
  const char *end = strrchr(file, '/');
  return end ? tni_arena_strndup(b->arena, file, (size_t)(end - file)) : ".";
}

/* All plugins of a bundle lie in one folder. */
static tn_status add_resource(tni_bd *b, const tni_bd_resource *r) {
  const char *dir = folder_of(b, b->paths[r->plugin]), *from = dir ? tni_bd_text(b, "%s/%s", dir, r->name) : NULL,
             *to = tni_bd_text(b, "plugins/%s", r->name);
  tni_bd_sums sums;
  if (!from || !to) return tni_fail_memory(b->err, r->name);
  const tni_bd_file *there = tni_bd_find(b, to);
  if (!there) return tni_bd_copy(b, from, to, "resource", false);
  tn_status st = tni_bd_sum(from, &sums, b->err);
  if (st == TN_OK && memcmp(sums.sha256, there->sums.sha256, sizeof sums.sha256) != 0)
    st = tni_fail(b->err, TN_E_UNSUPPORTED, from,
                  "plugin '%s' asks for '%s', and another plugin has another file of that name", b->names[r->plugin],
                  r->name);
  return st;
}

tn_status tni_bd_resources(tni_bd *b) {
  tn_status st = TN_OK;
  for (const tni_bd_resource *r = b->resources; st == TN_OK && r; r = r->next) st = add_resource(b, r);
  return st;
}

static tn_status add_plugin(tni_bd *b, const char *name, const char *so) {
  const char *dir = folder_of(b, so), *base = dir ? tni_bd_text(b, "%s/%s", dir, name) : NULL,
             *to_so = tni_bd_text(b, "plugins/%s.so", name), *to_yaml = tni_bd_text(b, "plugins/%s.yaml", name),
             *to = tni_bd_text(b, "plugins/%s", name);
  char *found, *yaml; /* found: so */
  if (!base || !to_so || !to_yaml || !to || !tni_plugin_files(b->arena, dir, name, &found, &yaml))
    return tni_fail_memory(b->err, name);
  tni_elf e;
  tn_status st = tni_elf_read(b->arena, so, &e, b->err);
  if (st == TN_OK && e.machine != b->machine)
    return tni_fail(b->err, TN_E_INCOMPATIBLE, so, "plugin '%s' is built for another machine than the program (%s)",
                    name, b->arch);
  const uint32_t at = b->n_files;
  if (st == TN_OK) st = tni_bd_copy(b, so, to_so, "plugin", false);
  if (st == TN_OK) b->files[at].package = tni_bd_package(b, so);
  /* A plugin may have its manifest inside. */
  if (st == TN_OK && access(yaml, F_OK) == 0) st = tni_bd_copy(b, yaml, to_yaml, "manifest", false);
  if (st == TN_OK) st = add_folder(b, base, to, 0);
  return st == TN_OK ? add_libraries(b, so) : st;
}

/* A library that the caller linked into the program: its licence comes along. */
static void on_used(void *ctx, const char *file) {
  tni_bd *b = ctx;
  const char *package = tni_bd_package(b, file);
  if (package && b->n_packages < TNI_BD_NAMES)
    b->packages[b->n_packages++] = package;
  else
    tni_bd_leave(b, tni_bd_text(b, "licence of %s", file), "no package owns it here: add it by hand");
}

/* The caller's linker makes the program; the bundle's folder lends it the place. */
static tn_status link_program(tni_bd *b, const char **program) {
  const char *out = tni_bd_text(b, "%s/.program", b->stage);
  tni_elf e;
  if (!out) return tni_fail_memory(b->err, "program");
  tn_status st = b->o.link(b->o.user, b->names, b->n_names, out, on_used, b, b->err);
  if (st != TN_OK) return tni_fail(b->err, st, b->o.program, "the program could not be linked");
  st = tni_elf_read(b->arena, out, &e, b->err);
  if (st == TN_OK && e.machine != b->machine)
    return tni_fail(b->err, TN_E_INCOMPATIBLE, out, "what was linked is built for another machine than %s", b->arch);
  b->linked = true;
  *program = out;
  return st;
}

/* A plugin in a process of its own needs the program for that process. */
static tn_status add_helper(tni_bd *b) {
  bool needed = false;
  for (uint32_t i = 0; i < b->profile->n_plugins; i++)
    for (uint32_t k = 0; b->profile->plugins[i].process && k < b->n_names; k++)
      needed = needed || strcmp(b->profile->plugins[i].name, b->names[k]) == 0;
  if (!needed) return TN_OK;
  const char *helper = b->o.helper ? b->o.helper : b->foreign ? NULL : b->ro.helper;
  if (!helper)
    return tni_fail(
        b->err, TN_E_UNAVAILABLE, b->profile->file,
        "profile '%s' puts a plugin into a process of its own (isolation), and there is no tenon-helper for %s",
        b->profile->name, b->arch);
  tn_status st = tni_bd_copy(b, helper, "bin/tenon-helper", "program", true);
  return st == TN_OK ? add_libraries(b, helper) : st;
}

tn_status tni_bd_parts(tni_bd *b) {
  const char *program = b->o.program;
  tn_status st = b->o.link ? link_program(b, &program) : TN_OK;
  if (st == TN_OK) st = tni_bd_copy(b, program, "bin/tenon", "program", true);
  if (st == TN_OK) st = add_libraries(b, program);
  if (b->linked) (void)unlink(program);
  if (st == TN_OK) st = add_helper(b);
  for (uint32_t i = 0; st == TN_OK && i < b->n_names && !b->linked; i++) st = add_plugin(b, b->names[i], b->paths[i]);
  return st;
}
