/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/ops/kernel: what kernels are written with.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_OPS_KERNEL_KERNEL_H
#define TENON_OPS_KERNEL_KERNEL_H

#include "runtime/ops/kernel/args.h"
#include "runtime/ops/kernel/elements.h"
#include "runtime/ops/kernel/kvrow.h"
#include "runtime/ops/kernel/narrow.h"

#endif
