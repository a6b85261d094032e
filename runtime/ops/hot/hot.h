/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/ops/hot: loops that take the time.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_OPS_HOT_HOT_H
#define TENON_OPS_HOT_HOT_H

#include "runtime/ops/hot/dots.h"
#include "runtime/ops/hot/half_bits.h"
#include "runtime/ops/hot/kept.h"
#include "runtime/ops/hot/loops.h"

#endif
