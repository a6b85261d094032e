/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/beside.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *tni_beside_library(tni_arena *arena, const char *rel) {
  Dl_info self;
  char text[PATH_MAX]; /* not the heap, whose end would look like a library that is nowhere */
  char *real =
      dladdr((void *)(uintptr_t)&tni_beside_library, &self) && self.dli_fname ? realpath(self.dli_fname, text) : NULL;
  char *slash = real ? strrchr(real, '/') : NULL, *out = NULL;
  if (slash) {
    *slash = '\0';
    size_t n = strlen(real) + strlen(rel) + 2;
    out = tni_arena_alloc(arena, n, 1);
    if (out) snprintf(out, n, "%s/%s", real, rel);
  }
  return out;
}
