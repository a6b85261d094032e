/* SPDX-License-Identifier: Apache-2.0
 *
 * What lives when and where: sizes at given dims, the order of tasks that takes least, blocks, offsets, and memory that
 * the CPU and devices share.
 *
 * run.h is a session's state, which upper rooms fill and run. chunk.h is the one place that says how long a run is;
 * limits.h what the longest one takes.
 */
#ifndef TENON_MEMORY_MEMORY_H
#define TENON_MEMORY_MEMORY_H

#include "runtime/memory/blocks.h"
#include "runtime/memory/chunk.h"
#include "runtime/memory/copies.h"
#include "runtime/memory/devmem.h"
#include "runtime/memory/guard.h"
#include "runtime/memory/limits.h"
#include "runtime/memory/run.h"
#include "runtime/memory/session_memory.h"
#include "runtime/memory/task_order.h"

#endif
