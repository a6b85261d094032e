/* SPDX-License-Identifier: Apache-2.0
 *
 * Path texts. Nothing here reads the environment. Results are the arena's; NULL without memory.
 */
#ifndef TENON_PROFILE_PATHS_H
#define TENON_PROFILE_PATHS_H

#include "runtime/base/base.h"

/* path as seen from the folder of file, absolute (links in that folder's name resolved where it exists). */
char *tni_path_from(tni_arena *a, const char *file, const char *path);
/* dir/name + suffix */
char *tni_path_join(tni_arena *a, const char *dir, const char *name, const char *suffix);
/* "a/b.yaml" -> "b" */
char *tni_path_stem(tni_arena *a, const char *file);

#endif
