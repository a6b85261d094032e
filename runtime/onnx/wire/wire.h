/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/onnx/wire: ONNX bytes as a message, and what is asked of the message before it is a graph.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_ONNX_WIRE_WIRE_H
#define TENON_ONNX_WIRE_WIRE_H

#include "runtime/onnx/wire/nchwc.h"
#include "runtime/onnx/wire/scan.h"

#endif
