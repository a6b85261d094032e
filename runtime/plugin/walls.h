/* SPDX-License-Identifier: Apache-2.0
 *
 * What confines the process of an isolated plugin (docs/security.md): the level that its manifest names, and the walls
 * that stand, as that process said before any of the plugin's code ran.
 */
#ifndef TENON_PLUGIN_WALLS_H
#define TENON_PLUGIN_WALLS_H

#include <stddef.h>
#include <stdint.h>

/* strict: computes, and needs no more than memory and threads. driver: opens devices and runs a driver's code. */
enum { TNI_CONFINE_STRICT, TNI_CONFINE_DRIVER };

enum {
  TNI_WALL_NO_NEW_PRIVS = 1,
  TNI_WALL_NO_CAPS = 2,     /* no capabilities */
  TNI_WALL_NAMESPACES = 4,  /* network and System V IPC of its own */
  TNI_WALL_FILES = 8,       /* Landlock */
  TNI_WALL_CALLS = 16,      /* a filter of system calls */
  TNI_WALL_SUPERVISED = 32, /* what it starts ends with it */
  TNI_WALLS = 6
};

typedef struct tni_walls {
  uint32_t level, stand; /* TNI_CONFINE_*, TNI_WALL_* */
  uint32_t landlock;     /* version of the kernel's, 0: none */
} tni_walls;

const char *tni_confine_name(uint32_t level);
/* Of wall 1 << i, for reports: "no-new-privileges". */
const char *tni_wall_name(uint32_t i);
/* Those that a level has where the system has them all. */
uint32_t tni_walls_of(uint32_t level);
/* "strict: no-new-privileges, ...; missing here: files" */
void tni_walls_text(const tni_walls *w, char *buf, size_t size);

#endif
