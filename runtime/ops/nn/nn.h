/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/ops/nn: scratch of attention.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_OPS_NN_NN_H
#define TENON_OPS_NN_NN_H

#include "runtime/ops/nn/attention.h"

#endif
