/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/shape/rules: what shape rules are written with.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_SHAPE_RULES_RULES_H
#define TENON_SHAPE_RULES_RULES_H

#include "runtime/shape/rules/rule.h"
#include "runtime/shape/rules/table.h"
#include "runtime/shape/rules/window.h"

#endif
