/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/shape: symbolic shapes of a graph's values.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_SHAPE_SHAPE_H
#define TENON_SHAPE_SHAPE_H

#include "runtime/shape/edit.h"
#include "runtime/shape/infer.h"

#endif
