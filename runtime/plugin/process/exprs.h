/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of expressions as bytes, for a process of the same build: ids, bounds, definitions and facts are the same
 * there. Nobody builds meanwhile.
 */
#ifndef TENON_PLUGIN_PROCESS_EXPRS_H
#define TENON_PLUGIN_PROCESS_EXPRS_H

#include "runtime/plugin/process/wire.h"
#include "runtime/expr/expr.h"

void tni_exprs_write(const tni_exprs *x, tni_wire *w);
/* NULL: without memory, or the bytes are none (r is bad then or not). */
tni_exprs *tni_exprs_read(tni_rd *r);

#endif
