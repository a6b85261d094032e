/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/shape/dims: arithmetic on dims.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_SHAPE_DIMS_DIMS_H
#define TENON_SHAPE_DIMS_DIMS_H

#include "runtime/shape/dims/einsum.h"
#include "runtime/shape/dims/fused.h"
#include "runtime/shape/dims/nms.h"
#include "runtime/shape/dims/unique.h"

#endif
