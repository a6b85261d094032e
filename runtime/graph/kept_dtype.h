/* SPDX-License-Identifier: Apache-2.0
 *
 * Types that only the memory of a cache has, beside those of types.h: rows of few bits (runtime/ops/kernel/kvrow.h).
 * An element of that memory is a byte. Nobody but the host is asked to read it. A profile says TN_DT_I4 for both. The
 * numbers stand in saved chats.
 */
#ifndef TENON_GRAPH_KEPT_DTYPE_H
#define TENON_GRAPH_KEPT_DTYPE_H

enum { TNI_DT_KEYS = 0x4b35, TNI_DT_VALUES = 0x5634 };

#endif
