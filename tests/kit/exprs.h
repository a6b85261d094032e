/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions of graphs that are built by hand: ids into a table of constants, symbols, sums and maxima, and the
 * services of a host that ask for them.
 */
#ifndef TENON_TESTS_KIT_EXPRS_H
#define TENON_TESTS_KIT_EXPRS_H

#include <tenon/plugin.h>

enum { E_CONST, E_SYM, E_ADD, E_MAX };
enum { KIT_EXPRS = 64, KIT_SYMBOLS = 4 };
typedef struct kit_expr {
  int kind;
  int64_t v; /* constant or symbol index */
  tn_expr a, b;
} kit_expr;

struct tn_graph_ctx {
  kit_expr e[KIT_EXPRS];
  int64_t lo[KIT_SYMBOLS], hi[KIT_SYMBOLS]; /* of symbols; hi 0: no limit */
  uint32_t n;
};

tn_expr kit_const(struct tn_graph_ctx *c, int64_t v);
/* Symbol number `index`. */
tn_expr kit_symbol(struct tn_graph_ctx *c, uint32_t index, int64_t lo, int64_t hi);
tn_expr kit_binary(struct tn_graph_ctx *c, int kind, tn_expr a, tn_expr b);
tn_status kit_eval(const tn_graph *g, tn_expr e, const tn_dims *d, int64_t *out);
/* eval, range, symbols, divides, order. */
void kit_exprs_serve(tn_host *h);

#endif
