/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks when they are ready: task.h is one of them, executor.h all of a placement, on engines and threads.
 */
#ifndef TENON_ENGINE_ENGINE_H
#define TENON_ENGINE_ENGINE_H

#include "runtime/engine/executor.h"
#include "runtime/engine/task.h"

#endif
