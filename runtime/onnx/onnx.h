/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/onnx: import and what was left out.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_ONNX_ONNX_H
#define TENON_ONNX_ONNX_H

#include "runtime/onnx/import.h"
#include "runtime/onnx/left_out.h"

#endif
