/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether two constant matrices have the same elements, as floats, bit for bit. Both are read in full, once: the answer
 * is kept in the cache folder (runtime/plugin/blobcache.h) under where they lie, as their files' device, inode, size
 * and mtime say.
 */
#ifndef TENON_PLACE_EQUAL_H
#define TENON_PLACE_EQUAL_H

#include "runtime/place/model_data.h"

/* table [V,D]; other [V,D], or [D,V] where turned. */
bool tni_constants_equal(const tn_model *m, tn_id table, tn_id other, bool turned);

#endif
