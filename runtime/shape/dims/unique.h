/* SPDX-License-Identifier: Apache-2.0
 *
 * Order of the items of a tensor: what Unique's shape rule counts with and its kernel gathers by.
 */
#ifndef TENON_SHAPE_DIMS_UNIQUE_H
#define TENON_SHAPE_DIMS_UNIQUE_H

#include "runtime/base/base.h"
#include "runtime/graph/graph.h"

/* The tensor seen as [outer, items, inner]: an item is everything at one index of the middle axis. */
typedef struct tni_items {
  const tni_tensor *t;
  int64_t outer, n, inner;
} tni_items;

/* Along axis (which must be one of t's), or with every element an item (flat). */
tni_items tni_items_of(const tni_tensor *t, bool flat, uint32_t axis);
/* Whether items can be compared: numbers and bool, complex ones by their parts. */
bool tni_items_comparable(uint32_t dtype);
/* -1, 0, 1: item a against b, element by element; NaN equals NaN and comes last. */
int tni_items_compare(const tni_items *it, int64_t a, int64_t b);
/* order[n]: indices of the items in ascending order, equal ones in ascending order of index. room[n]. false: poll says
 * to stop, and order holds them in any order. */
bool tni_items_sort(const tni_items *it, int64_t *order, int64_t *room, tni_poll *poll);
/* Elements of work that a comparison is, at most. */
int64_t tni_items_work(const tni_items *it);
/* How many different ones there are; -1: to stop. */
int64_t tni_items_count(const tni_items *it, const int64_t *order, tni_poll *poll);

#endif
