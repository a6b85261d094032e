/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/ops/conv: windows over images, and transposed convolutions.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_OPS_CONV_CONV_H
#define TENON_OPS_CONV_CONV_H

#include "runtime/ops/conv/conv_transpose.h"
#include "runtime/ops/conv/im2col.h"
#include "runtime/ops/conv/planes.h"

#endif
