/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "runtime/graph/dump.h"

void tni_dump_escaped(FILE *f, const char *s, const char *special) {
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '\n')
      fputs("\\n", f);
    else if (c < 0x20 || c == 0x7f)
      fprintf(f, "\\\\x%02x", c);
    else if (strchr(special, c))
      fprintf(f, "\\%c", c);
    else
      fputc(c, f);
  }
}

static void dump_dim(const tni_graph *g, tn_expr e, FILE *f) {
  char buf[160];
  if (e == TNI_EXPR_NONE) {
    fputc('?', f);
    return;
  }
  size_t n = tni_ex_print(g->exprs, e, buf, sizeof buf);
  tni_dump_escaped(f, buf, "\"\\");
  if (n >= sizeof buf) fputs("...", f);
}

void tni_dump_shape(const tni_graph *g, const tni_value *v, FILE *f) {
  fputs(v->pub.dtype == TN_DT_UNDEFINED ? "?" : tni_dtype_name(v->pub.dtype), f);
  if (v->pub.rank == TNI_RANK_UNKNOWN) {
    fputs("[...]", f);
    return;
  }
  fputc('[', f);
  for (uint32_t i = 0; i < v->pub.rank; i++) {
    if (i) fputs(", ", f);
    dump_dim(g, v->pub.dims[i], f);
  }
  fputc(']', f);
}

static void dump_name(const char *s, FILE *f) {
  fputc('"', f);
  tni_dump_escaped(f, s, "\"\\");
  fputc('"', f);
}

static void indent_line(FILE *f, uint32_t n) { fprintf(f, "%*s", (int)(2 * n), ""); }

static void dump_value(const tni_graph *g, tn_id id, FILE *f) {
  if (id == TN_NONE) {
    fputc('-', f);
    return;
  }
  const tni_value *v = g->values[id];
  dump_name(v->pub.name, f);
  fputs(": ", f);
  tni_dump_shape(g, v, f);
}

static void dump_ids(const tni_graph *g, const tn_id *ids, uint32_t n, FILE *f) {
  fputc('(', f);
  for (uint32_t i = 0; i < n; i++) {
    if (i) fputs(", ", f);
    dump_value(g, ids[i], f);
  }
  fputc(')', f);
}

enum { MAX_LISTED = 8 };

static void dump_attr_value(const tn_attr *a, FILE *f) {
  uint64_t shown = a->n < MAX_LISTED ? a->n : MAX_LISTED;
  switch (a->type) {
    case TN_ATTR_INT:
      fprintf(f, "%lld", (long long)a->u.i);
      return;
    case TN_ATTR_FLOAT:
      fprintf(f, "%.9g", a->u.f);
      return;
    case TN_ATTR_STRING:
      dump_name(a->u.s, f);
      return;
    case TN_ATTR_GRAPH:
      fputs("{...}", f);
      return;
    case TN_ATTR_TENSOR: {
      const tni_tensor *t = a->u.p;
      fputs(t ? tni_dtype_name(t->dtype) : "?", f);
      for (uint32_t i = 0; t && i < t->rank && i < TN_MAX_RANK; i++)
        fprintf(f, i ? "x%lld" : " %lld", (long long)t->dims[i]);
      return;
    }
    default:
      break;
  }
  fputc('[', f);
  for (uint64_t i = 0; i < shown; i++) {
    if (i) fputs(", ", f);
    if (a->type == TN_ATTR_INTS) fprintf(f, "%lld", (long long)a->u.ints[i]);
    if (a->type == TN_ATTR_FLOATS) fprintf(f, "%.9g", (double)a->u.floats[i]);
    if (a->type == TN_ATTR_STRINGS) dump_name(a->u.strings[i], f);
  }
  fputs(shown < a->n ? ", ...]" : "]", f);
}

static bool is_absent(const tn_attr *a) {
  if (a->type == TN_ATTR_INT || a->type == TN_ATTR_FLOAT) return a->n == 0;
  return a->u.p == NULL;
}

void tni_dump_attrs(const tni_node *n, FILE *f) {
  uint32_t total = n->op ? n->pub.n_attr : n->n_raw, shown = 0;
  for (uint32_t i = 0; i < total; i++) {
    const tn_attr *a = n->op ? n->pub.attr[i] : &n->raw[i].a;
    if (is_absent(a)) continue;
    fprintf(f, "%s%s=", shown++ ? ", " : " {", n->op ? n->op->attrs[i].name : n->raw[i].name);
    dump_attr_value(a, f);
  }
  if (shown) fputc('}', f);
}

static void dump_graph(const tni_graph *g, uint32_t level, FILE *f);

static void dump_node(const tni_graph *g, const tni_node *n, uint32_t level, FILE *f) {
  indent_line(f, level);
  if (*n->pub.domain) fprintf(f, "%s.", n->pub.domain);
  fprintf(f, "%s ", n->type);
  dump_name(n->pub.name, f);
  fputc(' ', f);
  dump_ids(g, n->pub.in, n->pub.n_in, f);
  fputs(" -> ", f);
  dump_ids(g, n->pub.out, n->pub.n_out, f);
  tni_dump_attrs(n, f);
  if (!n->op) fprintf(f, " # unknown to opset %lld", (long long)n->version);
  fputc('\n', f);
  for (uint32_t i = 0; i < n->n_raw; i++) {
    for (uint32_t k = 0; k < n->raw[i].n_graphs; k++) {
      indent_line(f, level + 1);
      fprintf(f, "%s = ", n->raw[i].name);
      dump_graph(n->raw[i].graphs[k], level + 1, f);
    }
  }
}

/* The elements of a small constant, or those known symbolically. */
static void dump_elements(const tni_graph *g, const tni_value *v, FILE *f) {
  int64_t n = 0, ints[MAX_LISTED];
  float floats[MAX_LISTED];
  bool is_float = false;
  if (v->tensor) {
    uint32_t dt = v->tensor->dtype;
    if (tni_dims_count(v->tensor->dims, v->tensor->rank, &n) != TN_OK || n > MAX_LISTED || tni_dtype_bits(dt) == 0)
      return;
    is_float = dt == TN_DT_F32 || dt == TN_DT_F64 || dt == TN_DT_F16 || dt == TN_DT_BF16;
    tni_tensor_to_f32(v->tensor, 0, n, floats);
    tni_tensor_to_i64(v->tensor, 0, n, ints);
  } else if (v->elems) {
    n = v->n_elems < MAX_LISTED ? v->n_elems : MAX_LISTED;
  } else {
    return;
  }
  fputs(" = [", f);
  for (int64_t i = 0; i < n; i++) {
    if (i) fputs(", ", f);
    if (!v->tensor)
      dump_dim(g, v->elems[i], f);
    else if (is_float)
      fprintf(f, "%.9g", (double)floats[i]);
    else
      fprintf(f, "%lld", (long long)ints[i]);
  }
  fputs(!v->tensor && v->n_elems > MAX_LISTED ? ", ...]" : "]", f);
}

static void dump_list(const tni_graph *g, const char *what, const tn_id *ids, uint32_t n, uint32_t level, FILE *f) {
  for (uint32_t i = 0; i < n; i++) {
    indent_line(f, level);
    fprintf(f, "%s ", what);
    dump_value(g, ids[i], f);
    dump_elements(g, g->values[ids[i]], f);
    fputc('\n', f);
  }
}

static void dump_other_values(const tni_graph *g, uint32_t level, FILE *f) {
  static const char *const kinds[] = {"", "", "const", "", "", "state", "step"};
  for (tn_id i = 0; i < g->n_values; i++) {
    const tni_value *v = g->values[i];
    const char *kind = v->captured != TN_NONE ? "captured" : v->pub.kind <= TN_VALUE_STEP ? kinds[v->pub.kind] : "";
    if (*kind) dump_list(g, kind, &i, 1, level, f);
  }
}

/* past, present: the user's view; the caches as they are, and with this run's rows. */
static void dump_states(const tni_graph *g, uint32_t level, FILE *f) {
  for (uint32_t i = 0; i < g->n_states; i++) {
    const tni_gstate *s = &g->states[i];
    indent_line(f, level);
    fputs("cache ", f);
    dump_name(g->values[s->past]->pub.name, f);
    fputs(" -> ", f);
    dump_name(g->values[s->present]->pub.name, f);
    fputs(" in ", f);
    dump_name(g->values[s->in]->pub.name, f);
    fputs(" -> ", f);
    dump_name(g->values[s->out]->pub.name, f);
    fprintf(f, " axis=%u perm=[", s->axis);
    for (uint32_t d = 0; d < s->rank; d++) fprintf(f, "%s%u", d ? ", " : "", s->perm[d]);
    fputs("]\n", f);
  }
}

static void dump_symbols(const tni_graph *g, uint32_t level, FILE *f) {
  for (tn_id i = 0; i < tni_ex_n_symbols(g->exprs); i++) {
    int64_t lo, hi;
    tni_ex_symbol_bounds(g->exprs, i, &lo, &hi);
    indent_line(f, level);
    fputs("symbol ", f);
    dump_name(tni_ex_symbol_name(g->exprs, i), f);
    fprintf(f, " in %lld..%lld\n", (long long)lo, (long long)hi);
  }
}

static void dump_graph(const tni_graph *g, uint32_t level, FILE *f) {
  fputs("graph ", f);
  dump_name(g->name, f);
  fputs(" {\n", f);
  if (!g->outer) dump_symbols(g, level + 1, f);
  dump_list(g, "input", g->inputs, g->n_inputs, level + 1, f);
  dump_list(g, "output", g->outputs, g->n_outputs, level + 1, f);
  dump_states(g, level + 1, f);
  dump_other_values(g, level + 1, f);
  for (tn_id i = 0; i < g->n_nodes; i++)
    if (!g->nodes[i]->dead) dump_node(g, g->nodes[i], level + 1, f);
  indent_line(f, level);
  fputs("}\n", f);
}

void tni_graph_dump_text(const tni_graph *g, FILE *f) { dump_graph(g, 0, f); }
