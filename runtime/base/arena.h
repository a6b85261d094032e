/* SPDX-License-Identifier: Apache-2.0
 *
 * A bump allocator whose memory dies at once. One thread at a time.
 */
#ifndef TENON_BASE_ARENA_H
#define TENON_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/budget.h"

typedef struct tni_arena tni_arena;

tni_arena *tni_arena_create(void); /* NULL without memory */
void tni_arena_destroy(tni_arena *a);
/* What a takes from now on counts in b, which outlives a or goes by tni_arena_bill(a, NULL); an allocation that b has no
 * room for fails. */
void tni_arena_bill(tni_arena *a, tni_budget *b);
/* Zeroed, aligned to align (power of two, at most 64). NULL without memory or when count * size overflows. */
void *tni_arena_alloc(tni_arena *a, size_t bytes, size_t align);
void *tni_arena_array(tni_arena *a, size_t count, size_t size, size_t align);
/* True: an allocation failed since a was made. Where "unknown" and "no memory" are both NULL, this tells them apart. */
bool tni_arena_short(const tni_arena *a);
char *tni_arena_strdup(tni_arena *a, const char *s);
char *tni_arena_strndup(tni_arena *a, const char *s, size_t n);
void *tni_arena_memdup(tni_arena *a, const void *p, size_t bytes, size_t align);

#define TNI_NEW(arena, type) ((type *)tni_arena_alloc((arena), sizeof(type), _Alignof(type)))
#define TNI_NEW_ARRAY(arena, type, n) ((type *)tni_arena_array((arena), (n), sizeof(type), _Alignof(type)))

#endif
