/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/ops/arith: chains of element-wise operators.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_OPS_ARITH_ARITH_H
#define TENON_OPS_ARITH_ARITH_H

#include "runtime/ops/arith/chain.h"

#endif
