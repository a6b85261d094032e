/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two dumps share.
 */
#ifndef TENON_GRAPH_DUMP_H
#define TENON_GRAPH_DUMP_H

#include <stdio.h>
#include <string.h>

#include "runtime/graph/ir.h"

/* s with a backslash before every character of special, newlines as \n, other control characters as \\xNN. */
void tni_dump_escaped(FILE *f, const char *s, const char *special);
/* "float32[batch, 4]"; "?" stands for what is unknown. Escaped for a quoted string. */
void tni_dump_shape(const tni_graph *g, const tni_value *v, FILE *f);
/* " {axis=1, mode=\"x\"}": attributes that are set; nothing where none is. */
void tni_dump_attrs(const tni_node *n, FILE *f);

#endif
