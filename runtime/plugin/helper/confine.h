/* SPDX-License-Identifier: Apache-2.0
 *
 * What keeps a plugin's process where it is (docs/security.md): a supervisor above it, and walls around it. Both are
 * set up while the process has one thread and none of the plugin's code has run.
 */
#ifndef TENON_PLUGIN_HELPER_CONFINE_H
#define TENON_PLUGIN_HELPER_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/plugin/plugin.h"

/* Forks. The child returns, its own number as the host sees it in *pid; the parent stays as its supervisor and ends
 * when `channel` is closed or the child has ended, with everything that the child started; then it removes the folder
 * `temporary` (NULL: none). False: no second process. */
bool helper_supervise(int channel, const char *temporary, int *pid);

/* What a plugin may reach of the file system. */
typedef struct helper_places {
  const char *name;      /* the plugin's */
  const char *folder;    /* its folder */
  const char *cache_dir; /* may be NULL */
  const char *own;       /* where a driver may keep things (helper_own_folder), or NULL */
} helper_places;

/* What the process of a plugin is made for: */
typedef struct helper_settling {
  uint32_t level; /* TNI_CONFINE_*: files, namespaces */
  uint32_t calls; /* TNI_CONFINE_*: whose filter of system calls */
  int channel;    /* to the host */
} helper_settling;

/* From here on this is the plugin's process: a supervisor above it (*pid: its own number as the host sees it), the walls
 * around it, as far as the system has them (*walls). False: there is no second process. */
bool helper_settle(const helper_settling *s, helper_places *p, int *pid, tni_walls *walls);

/* Landlock's version, or 0: nothing was restricted (files.c). */
uint32_t helper_wall_files(uint32_t level, const helper_places *p);
/* The filter of system calls (filter.c). */
bool helper_wall_calls(uint32_t level);
/* The folders that drivers keep things in (XDG_CACHE_HOME, TMPDIR, POCL_CACHE_DIR) become one of the plugin's own: in
 * the cache, or where there is none a new one, which is for this process only. NULL: there is none (files.c). */
const char *helper_own_folder(const helper_places *p, bool *temporary);

#endif
