/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/base.h"
#include "runtime/profile/device_profile.h"
#include "runtime/profile/paths.h"
#include "runtime/profile/suggest.h"
#include "runtime/profile/yamltree.h"

enum { MAX_SEEN = 128 };

static bool ends_in_yaml(const char *s) {
  size_t n = strlen(s);
  return n > 5 && strcmp(s + n - 5, ".yaml") == 0;
}

static tn_status load_file(const char *path, tni_profile **out, tn_error *err) {
  tni_file f;
  tn_status st = tni_file_read(path, &f, err);
  if (st == TN_E_UNAVAILABLE) { /* a profile that is not there is bad input, not a missing device */
    st = TN_E_INVALID;
    if (err && err->code == TN_E_UNAVAILABLE) err->code = st;
  }
  if (st != TN_OK) return st;
  if (f.bytes > TNI_YAML_MAX_BYTES)
    st = tni_fail(err, TN_E_INVALID, path, "'%s' is too large for a profile (at most %d bytes)", path,
                  TNI_YAML_MAX_BYTES);
  else
    st = tni_profile_parse(f.data ? f.data : "", (size_t)f.bytes, path, out, err);
  tni_file_unmap(&f);
  return st;
}

/* Names of the profiles in dirs, for the message. */
static uint32_t list_profiles(tni_arena *a, const char *const *dirs, uint32_t n_dirs, const char **names) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < n_dirs; i++) {
    DIR *d = opendir(dirs[i]);
    for (struct dirent *e; d && n < MAX_SEEN && (e = readdir(d));)
      if (ends_in_yaml(e->d_name) && (names[n] = tni_path_stem(a, e->d_name))) n++;
    if (d) closedir(d);
  }
  return n;
}

static tn_status not_found(tni_arena *a, const char *name, const char *const *dirs, uint32_t n_dirs, tn_error *err) {
  const char *names[MAX_SEEN];
  const char *near = tni_nearest(name, names, list_profiles(a, dirs, n_dirs, names));
  char list[160] = "";
  for (uint32_t i = 0; i < n_dirs; i++) {
    size_t at = strlen(list);
    snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", dirs[i]);
  }
  return tni_fail(err, TN_E_INVALID, name, "no profile '%.64s'%s%s%s; searched: %s", name,
                  near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "", n_dirs ? list : "no folder");
}

static tn_status load_name(tni_arena *a, const char *name, const char *const *dirs, uint32_t n_dirs, tni_profile **out,
                           tn_error *err) {
  if (!tni_name_ok(name))
    return tni_fail(err, TN_E_INVALID, name, "'%.64s' is no profile name: a-z, 0-9 and '-'; a file ends in .yaml",
                    name);
  for (uint32_t i = 0; i < n_dirs; i++) {
    const char *path = tni_path_join(a, dirs[i], name, ".yaml");
    struct stat s;
    if (!path) return tni_fail_memory(err, name);
    if (stat(path, &s) == 0) return load_file(path, out, err);
  }
  return not_found(a, name, dirs, n_dirs, err);
}

tn_status tni_profile_load(const char *name_or_file, const char *const *dirs, uint32_t n_dirs, tni_profile **out,
                           tn_error *err) {
  if (strchr(name_or_file, '/') || ends_in_yaml(name_or_file)) return load_file(name_or_file, out, err);
  tni_arena *a = tni_arena_create();
  tn_status st = a ? load_name(a, name_or_file, dirs, n_dirs, out, err) : tni_fail_memory(err, name_or_file);
  tni_arena_destroy(a);
  return st;
}
