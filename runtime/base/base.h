/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/base: memory, files, threads, errors and clocks.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_BASE_BASE_H
#define TENON_BASE_BASE_H

#include "runtime/base/arena.h"
#include "runtime/base/armour.h"
#include "runtime/base/beside.h"
#include "runtime/base/bounded.h"
#include "runtime/base/budget.h"
#include "runtime/base/checked.h"
#include "runtime/base/clock.h"
#include "runtime/base/cpus.h"
#include "runtime/base/ends.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/finite.h"
#include "runtime/base/half.h"
#include "runtime/base/hand.h"
#include "runtime/base/log.h"
#include "runtime/base/map.h"
#include "runtime/base/offsets.h"
#include "runtime/base/poll.h"
#include "runtime/base/pool.h"
#include "runtime/base/process.h"
#include "runtime/base/trust.h"
#include "runtime/base/utf8.h"
#include "runtime/base/watch.h"

#endif
