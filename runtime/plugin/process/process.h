/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/plugin/process: a plugin in a process of its own.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_PLUGIN_PROCESS_PROCESS_H
#define TENON_PLUGIN_PROCESS_PROCESS_H

#include "runtime/plugin/process/describe.h"
#include "runtime/plugin/process/futex.h"
#include "runtime/plugin/process/graph.h"
#include "runtime/plugin/process/isolate.h"
#include "runtime/plugin/process/proto.h"
#include "runtime/plugin/process/shm.h"

#endif
