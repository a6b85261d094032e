/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests: a temporary plugin folder, and a host device that needs no host module.
 */
#ifndef TENON_TESTS_PLUGDIR_H
#define TENON_TESTS_PLUGDIR_H

#include <stdbool.h>
#include <stddef.h>

#include <tenon/plugin.h>

typedef struct plugdir {
  char path[256];
} plugdir;

/* A fresh folder of mode 0755. */
bool plugdir_create(plugdir *d);
/* Removes it with all files in it. */
void plugdir_remove(plugdir *d);
/* Writes n bytes to DIR/file with mode. */
bool plugdir_write(const plugdir *d, const char *file, const void *data, size_t n, unsigned mode);
/* Copies the file at from to DIR/file, mode 0755. */
bool plugdir_copy(const plugdir *d, const char *from, const char *file);
/* A manifest for NAME that fits this machine, followed by extra lines (may be NULL). */
bool plugdir_manifest(const plugdir *d, const char *name, const char *extra);
/* Reads a whole file; free() it. */
void *plugdir_read(const char *path, size_t *n);

/* Entry of a built-in "host" whose device claims nothing. */
tn_status plugdir_host_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out);

#endif
