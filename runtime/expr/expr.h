/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/expr: symbolic integers.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_EXPR_EXPR_H
#define TENON_EXPR_EXPR_H

#include "runtime/expr/expressions.h"
#include "runtime/expr/nodes.h"

#endif
