/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/onnx: import, export and what was left out.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_ONNX_ONNX_H
#define TENON_ONNX_ONNX_H

#include "runtime/onnx/import.h"
#include "runtime/onnx/left_out.h"
#include "runtime/onnx/save.h"

#endif
