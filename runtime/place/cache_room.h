/* SPDX-License-Identifier: Apache-2.0
 *
 * Caches that a device could not allocate. A cache is one buffer, and a device states its largest
 * (tn_caps.max_buffer_bytes): work on a cache that is larger at the model's longest context is refused for that device,
 * with a reason that names the context that would fit. The next device takes it, the host at last.
 */
#ifndef TENON_PLACE_CACHE_ROOM_H
#define TENON_PLACE_CACHE_ROOM_H

#include "runtime/place/claims.h"

typedef struct tni_cache_limits {
  int64_t positions; /* the longest context */
  uint32_t kv;       /* the type of caches that the profile asks for; TN_DT_UNDEFINED: none */
  bool rings;        /* caches whose readers look back a fixed window are short */
} tni_cache_limits;

/* view: of g. claims: what the devices said of it. */
TN_MUST_CHECK tn_status tni_cache_room(const tni_graph *g, const tn_graph *view, const tni_dev *devs, uint32_t n_devs,
                                       const tni_cache_limits *limits, tni_arena *arena, tni_claims *claims,
                                       tn_error *err);

#endif
