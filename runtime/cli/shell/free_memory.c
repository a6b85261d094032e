/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory may be taken: what the kernel says is available, what the limits of the process's cgroups (version 2,
 * each up to the root) leave, and what --max-memory leaves of private memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "runtime/cli/shell/shell.h"

/* A small file of the kernel's, terminated; false: it is not there. */
static bool read_small(char *text, size_t room, const char *root, const char *a, const char *b, const char *c) {
  char path[4352];
  if (snprintf(path, sizeof path, "%s%s%s%s", root, a, b, c) >= (int)sizeof path) return false;
  FILE *f = fopen(path, "re");
  const size_t n = f ? fread(text, 1, room - 1, f) : 0;
  if (f) fclose(f);
  text[n] = '\0';
  return n > 0;
}

/* The number after a key that begins a line; 0: no such key. */
static uint64_t number_after(const char *text, const char *key) {
  const size_t n = strlen(key);
  for (const char *line = text; line; line = strchr(line, '\n')) {
    line += *line == '\n';
    if (strncmp(line, key, n) == 0) return strtoull(line + n, NULL, 10);
    if (!*line) break;
  }
  return 0;
}

/* What one cgroup leaves: pages of files that it holds are given back when others want them. */
static uint64_t left_in_group(const char *root, const char *group) {
  char text[8192];
  if (!read_small(text, sizeof text, root, "/sys/fs/cgroup", group, "/memory.max") || *text < '0' || *text > '9')
    return UINT64_MAX;
  const uint64_t most = strtoull(text, NULL, 10);
  if (!read_small(text, sizeof text, root, "/sys/fs/cgroup", group, "/memory.current")) return UINT64_MAX;
  uint64_t used = strtoull(text, NULL, 10);
  if (read_small(text, sizeof text, root, "/sys/fs/cgroup", group, "/memory.stat")) {
    const uint64_t files = number_after(text, "inactive_file ") + number_after(text, "active_file ");
    used -= files < used ? files : used;
  }
  return used < most ? most - used : 0;
}

static uint64_t left_in_groups(const char *root) {
  char text[4096], group[4096];
  uint64_t least = UINT64_MAX;
  if (!read_small(text, sizeof text, root, "/proc/self/cgroup", "", "")) return least;
  const char *at = strstr(text, "0::/");
  if (!at || (at != text && at[-1] != '\n')) return least;
  const size_t n = strcspn(at + 3, "\n");
  memcpy(group, at + 3, n);
  group[n] = '\0';
  for (;;) {
    char *slash = strrchr(group, '/');
    const bool top = !slash || slash == group;
    if (slash && slash[1] == '\0') *slash = '\0';
    const uint64_t left = left_in_group(root, group);
    if (left < least) least = left;
    if (!*group) return least;
    if (top)
      group[0] = '\0';
    else
      *slash = '\0';
  }
}

/* Of RLIMIT_DATA. */
static uint64_t left_of_limit(const char *root) {
  struct rlimit limit;
  char text[4096];
  if (getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  const uint64_t used =
      read_small(text, sizeof text, root, "/proc/self/status", "", "") ? number_after(text, "VmData:") * 1024 : 0;
  return used < limit.rlim_cur ? limit.rlim_cur - used : 0;
}

cli_free cli_free_memory(const char *root) {
  char text[8192];
  cli_free f = {UINT64_MAX, left_of_limit(root)};
  const uint64_t groups = left_in_groups(root);
  if (read_small(text, sizeof text, root, "/proc/meminfo", "", "")) {
    const uint64_t available = number_after(text, "MemAvailable:");
    if (available) f.all = available * 1024;
  }
  if (groups < f.all) f.all = groups;
  return f;
}
