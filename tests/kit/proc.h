/* SPDX-License-Identifier: Apache-2.0
 *
 * What this process holds, from /proc.
 */
#ifndef TENON_TESTS_KIT_PROC_H
#define TENON_TESTS_KIT_PROC_H

#include <dirent.h>

/* Entries of a folder: of /proc/self/fd descriptors, and one for the folder itself; of /proc/self/task threads. */
static inline int kit_count_entries(const char *dir) {
  int n = 0;
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

#endif
