/* SPDX-License-Identifier: Apache-2.0
 *
 * Hash map from byte strings to uint64_t. One thread writes, any read.
 */
#ifndef TENON_BASE_MAP_H
#define TENON_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tni_map tni_map;

/* Keys are copied. NULL without memory. */
tni_map *tni_map_create(void);
/* Keys are not copied: they outlive the map. NULL without memory. */
tni_map *tni_map_create_lent(void);
/* NULL is fine. */
void tni_map_destroy(tni_map *m);
bool tni_map_get(const tni_map *m, const void *key, size_t n, uint64_t *value);
/* Sets or replaces. false: without memory, nothing changed. */
bool tni_map_put(tni_map *m, const void *key, size_t n, uint64_t value);
/* Makes room for n keys at once; false as above. */
bool tni_map_reserve(tni_map *m, size_t n);
size_t tni_map_count(const tni_map *m);
/* Terminated string keys. */
bool tni_map_get_str(const tni_map *m, const char *key, uint64_t *value);
bool tni_map_put_str(tni_map *m, const char *key, uint64_t value);

#endif
