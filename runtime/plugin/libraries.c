/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/libraries.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/base.h"

#ifdef __GLIBC__
#include <link.h>

static bool in_folder(const char *folder, const char *name) {
  char path[PATH_MAX];
  return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && access(path, R_OK) == 0;
}

static bool in_search_path(const char *name) {
  void *self = dlopen(NULL, RTLD_LAZY);
  Dl_serinfo size, *all = NULL;
  bool found = false;
  if (self && dlinfo(self, RTLD_DI_SERINFOSIZE, &size) == 0 && (all = malloc(size.dls_size))) {
    *all = size;
    if (dlinfo(self, RTLD_DI_SERINFO, all) == 0)
      for (unsigned i = 0; i < all->dls_cnt && !found; i++) found = in_folder(all->dls_serpath[i].dls_name, name);
  }
  free(all);
  if (self) dlclose(self);
  return found;
}

/* The cache holds names and paths as terminated strings. */
static bool in_cache(const char *name) {
  tni_file f;
  if (tni_file_map("/etc/ld.so.cache", &f, NULL) != TN_OK) return false;
  const size_t n = strlen(name) + 1;
  const char *at = f.data, *end = at + f.bytes;
  bool found = false;
  while (!found && (at = memmem(at, (size_t)(end - at), name, n))) {
    found = at > (const char *)f.data && (at[-1] == '\0' || at[-1] == '/');
    at++;
  }
  tni_file_unmap(&f);
  return found;
}

static bool one_is_there(const char *name, const char *folder) {
  if (name[0] == '/') return access(name, R_OK) == 0;
  return (folder && in_folder(folder, name)) || in_search_path(name) || in_cache(name);
}
#else
static bool one_is_there(const char *name, const char *folder) {
  (void)name, (void)folder;
  return true;
}
#endif

bool tni_library_is_there(const char *names, const char *folder) {
  char one[256];
  for (const char *at = names; *at;) {
    const size_t n = strcspn(at, "|");
    if (n && n < sizeof one) {
      memcpy(one, at, n);
      one[n] = '\0';
      if (one_is_there(one, folder)) return true;
    }
    at += n + (at[n] == '|');
  }
  return false;
}
