/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/graph/dump.h"

/* Node names are prefix + index; prefixes of subgraphs make them unique in the file. */
static void dot_label(const char *a, const char *b, FILE *f) {
  fputs("label=\"", f);
  tni_dump_escaped(f, a, "\"\\");
  fputs("\\n", f);
  tni_dump_escaped(f, b, "\"\\");
  fputc('"', f);
}

static void dot_value_node(const tni_graph *g, const char *prefix, tn_id id, const char *style, FILE *f) {
  const tni_value *v = g->values[id];
  fprintf(f, "  %sv%u [%s, label=\"", prefix, id, style);
  tni_dump_escaped(f, v->pub.name, "\"\\");
  fputs("\\n", f);
  tni_dump_shape(g, v, f);
  fputs("\"];\n", f);
}

static void dot_edge(const tni_graph *g, const char *prefix, tn_id value, tn_id to, const char *style, FILE *f) {
  const tni_value *v = g->values[value];
  if (v->pub.producer != TN_NONE)
    fprintf(f, "  %sn%u -> %sn%u [%slabel=\"", prefix, v->pub.producer, prefix, to, style);
  else
    fprintf(f, "  %sv%u -> %sn%u [%slabel=\"", prefix, value, prefix, to, style);
  tni_dump_shape(g, v, f);
  fputs("\"];\n", f);
}

static void dot_graph(const tni_graph *g, const char *prefix, FILE *f);

static void dot_subgraphs(const tni_node *n, const char *prefix, tn_id id, FILE *f) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < n->n_raw; i++) {
    for (uint32_t k = 0; k < n->raw[i].n_graphs; k++) {
      char inner[512];
      int len = snprintf(inner, sizeof inner, "%sn%us%u_", prefix, id, count++);
      if (len < 0 || (size_t)len >= sizeof inner) continue;
      fprintf(f, "  subgraph cluster_%s {\n  ", inner);
      dot_label(n->pub.name, n->raw[i].name, f);
      fputs(";\n", f);
      dot_graph(n->raw[i].graphs[k], inner, f);
      fputs("  }\n", f);
    }
  }
}

static void dot_node(const tni_graph *g, const char *prefix, tn_id id, FILE *f) {
  const tni_node *n = g->nodes[id];
  fprintf(f, "  %sn%u [shape=box, ", prefix, id);
  dot_label(n->type, n->pub.name, f);
  fputs(n->op ? "];\n" : ", color=red];\n", f);
  for (uint32_t i = 0; i < n->pub.n_in; i++)
    if (n->pub.in[i] != TN_NONE) dot_edge(g, prefix, n->pub.in[i], id, "", f);
  for (uint32_t i = 0; i < n->n_captures; i++) dot_edge(g, prefix, n->captures[i], id, "style=dashed, ", f);
  dot_subgraphs(n, prefix, id, f);
}

static void dot_graph(const tni_graph *g, const char *prefix, FILE *f) {
  for (tn_id i = 0; i < g->n_values; i++) {
    const tni_value *v = g->values[i];
    if (v->pub.producer != TN_NONE || (v->pub.n_uses == 0 && v->pub.kind != TN_VALUE_INPUT && !v->is_output)) continue;
    dot_value_node(g, prefix, i, v->pub.kind == TN_VALUE_CONST ? "shape=note" : "shape=ellipse", f);
  }
  for (tn_id i = 0; i < g->n_nodes; i++)
    if (!g->nodes[i]->dead) dot_node(g, prefix, i, f);
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    const tni_value *v = g->values[g->outputs[i]];
    fprintf(f, "  %so%u [shape=ellipse, style=bold, label=\"", prefix, i);
    tni_dump_escaped(f, v->pub.name, "\"\\");
    fputs("\"];\n", f);
    if (v->pub.producer != TN_NONE)
      fprintf(f, "  %sn%u -> %so%u [label=\"", prefix, v->pub.producer, prefix, i);
    else
      fprintf(f, "  %sv%u -> %so%u [label=\"", prefix, g->outputs[i], prefix, i);
    tni_dump_shape(g, v, f);
    fputs("\"];\n", f);
  }
}

void tni_graph_dump_dot(const tni_graph *g, FILE *f) {
  fputs("digraph \"", f);
  tni_dump_escaped(f, g->name, "\"\\");
  fputs("\" {\n  rankdir=TB;\n  node [fontsize=10];\n  edge [fontsize=8];\n", f);
  dot_graph(g, "", f);
  fputs("}\n", f);
}
