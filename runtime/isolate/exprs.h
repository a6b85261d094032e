/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of expressions as bytes, for a process of the same build: ids, bounds, definitions and facts are the same
 * there. Nobody builds meanwhile.
 */
#ifndef TENON_ISOLATE_EXPRS_H
#define TENON_ISOLATE_EXPRS_H

#include "runtime/isolate/wire.h"
#include "runtime/shape/expr/expr.h"

void tni_exprs_write(const tni_exprs *x, tni_wire *w);
/* NULL: without memory, or the bytes are none (r is bad then or not). */
tni_exprs *tni_exprs_read(tni_rd *r);

#endif
