/* SPDX-License-Identifier: Apache-2.0
 *
 * This program as part of a bundle: DIR/bin/tenon with DIR/bundle.json. Every file is compared with the list before any
 * of it is used.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <tenon/bundle.h>

#include "runtime/cli/cli.h"

/* This program's file; what it was started by says so too, where no /proc is mounted. */
static bool find_program(char path[PATH_MAX]) {
  const ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
  if (n > 0) path[n] = '\0';
  const char *started = n > 0 ? NULL : (const char *)getauxval(AT_EXECFN);
  return n > 0 || (started && realpath(started, path));
}

/* "DIR" of "DIR/bin/tenon"; malloc'd, NULL where it is not that. */
static char *folder_of_program(void) {
  char path[PATH_MAX];
  if (!find_program(path)) return NULL;
  for (int up = 0; up < 2; up++) {
    char *slash = strrchr(path, '/');
    if (!slash || slash == path || (up == 1 && strcmp(slash, "/bin") != 0)) return NULL;
    *slash = '\0';
  }
  return strdup(path);
}

static char *path_in(const char *folder, json_t *j, const char *key) {
  const char *name = json_string_value(json_object_get(j, key));
  char *out = NULL;
  if (!name) return NULL;
  if (asprintf(&out, "%s/%s", folder, name) >= 0) return out;
  tni_json_lacked();
  return NULL;
}

static int read_bundle(cli *c, const char *folder, cli_bundle *out) {
  char *json = NULL;
  const tn_status st = tn_bundle_check(folder, 0, &json, &c->err);
  if (st != TN_OK) return cli_fail(c, st);
  json_t *j = cli_parse_report(c, json);
  out->profile = path_in(folder, j, "profile");
  out->plugins = path_in(folder, j, "plugin_dir");
  out->packed = path_in(folder, j, "packed");
  json_decref(j);
  tn_free(json);
  if (!j || tni_json_short()) return cli_fail(c, TN_E_NO_MEMORY);
  if (out->profile && out->plugins && out->packed) return 0;
  (void)cli_error(&c->err, TN_E_CORRUPT, NULL, "the bundle's list lacks profile, plugin_dir or packed");
  return cli_fail(c, TN_E_CORRUPT);
}

int cli_bundle_find(cli *c, cli_bundle *out) {
  char *folder = folder_of_program(), list[4224];
  int rc = 0;
  *out = (cli_bundle){0};
  if (folder && snprintf(list, sizeof list, "%s/bundle.json", folder) < (int)sizeof list && access(list, F_OK) == 0)
    rc = read_bundle(c, folder, out);
  free(folder);
  return rc;
}
