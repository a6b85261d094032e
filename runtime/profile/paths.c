/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/profile/paths.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/base.h"

static char *join4(tni_arena *a, const char *x, const char *y, const char *z, const char *w) {
  size_t nx = strlen(x), ny = strlen(y), nz = strlen(z), nw = strlen(w), n;
  if (!tni_add_size(nx, ny, &n) || !tni_add_size(n, nz, &n) || !tni_add_size(n, nw, &n)) return NULL;
  if (!tni_add_size(n, 1, &n)) return NULL;
  char *s = tni_arena_alloc(a, n, 1); /* zeroed: terminated */
  if (!s) return NULL;
  memcpy(s, x, nx);
  memcpy(s + nx, y, ny);
  memcpy(s + nx + ny, z, nz);
  memcpy(s + nx + ny + nz, w, nw);
  return s;
}

char *tni_path_join(tni_arena *a, const char *dir, const char *name, const char *suffix) {
  size_t n = strlen(dir);
  return join4(a, dir, n && dir[n - 1] == '/' ? "" : "/", name, suffix);
}

static char *absolute_path(tni_arena *a, const char *dir) {
  char *real = realpath(dir, NULL), *out;
  if (real) {
    out = tni_arena_strdup(a, real);
    free(real);
    return out;
  }
  if (dir[0] == '/') return tni_arena_strdup(a, dir);
  char *cwd = getcwd(NULL, 0);
  out = cwd ? tni_path_join(a, cwd, dir, "") : NULL;
  free(cwd);
  return out;
}

char *tni_path_from(tni_arena *a, const char *file, const char *path) {
  if (path[0] == '/') return tni_arena_strdup(a, path);
  const char *slash = strrchr(file, '/');
  char *dir = slash ? tni_arena_strndup(a, file, slash == file ? 1 : (size_t)(slash - file)) : tni_arena_strdup(a, ".");
  char *base = dir ? absolute_path(a, dir) : NULL;
  return base ? tni_path_join(a, base, path, "") : NULL;
}

char *tni_path_stem(tni_arena *a, const char *file) {
  const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file, *dot = strrchr(name, '.');
  return tni_arena_strndup(a, name, dot && dot != name ? (size_t)(dot - name) : strlen(name));
}
