/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of functions that the model brings: the body is converted in the place of the call.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/onnx/convert.h"

/* Parameters and results of the body by name. */
static tn_status bind_call(tni_import *c, tni_scope *b, const Onnx__FunctionProto *fn, const tn_id *in, uint32_t n_in,
                           const tn_id *out, uint32_t n_out) {
  uint64_t known;
  for (size_t i = 0; i < fn->n_input; i++) {
    if (tni_map_get_str(b->names, fn->input[i], &known))
      return tni_fail(c->err, TN_E_INVALID, c->file, "parameter '%s' stands twice", fn->input[i]);
    if (!tni_map_put_str(b->names, fn->input[i], i < n_in ? in[i] : TN_NONE)) return tni_fail_memory(c->err, c->file);
  }
  for (size_t i = 0; i < fn->n_output; i++) {
    if (tni_map_get_str(b->results, fn->output[i], &known))
      return tni_fail(c->err, TN_E_INVALID, c->file, "result '%s' stands twice", fn->output[i]);
    if (!tni_map_put_str(b->results, fn->output[i], i < n_out ? out[i] : TN_NONE))
      return tni_fail_memory(c->err, c->file);
  }
  return TN_OK;
}

/* A result that is a parameter needs a node that makes it; one that nothing makes is an error. */
static tn_status check_results(tni_import *c, tni_scope *b, const Onnx__FunctionProto *fn, const tn_id *out,
                               uint32_t n_out) {
  for (size_t i = 0; i < fn->n_output; i++) {
    tn_id made;
    tn_status st = tni_resolve(c, b, fn->output[i], "the list of results", &made);
    if (st) return st;
    if (i >= n_out || out[i] == TN_NONE || made == out[i]) continue;
    if (made == TN_NONE)
      return tni_fail(c->err, TN_E_INVALID, c->file, "result '%s' is an absent parameter", fn->output[i]);
    const char *name = tni_graph_value(b->g, out[i])->pub.name;
    st = tni_graph_add_node(b->g, name, "", "Identity", 13, &made, 1, &out[i], 1, NULL, 0, NULL, c->err);
    if (st) return st;
  }
  return TN_OK;
}

static tn_status check_call(tni_import *c, const tni_scope *s, const Onnx__FunctionProto *fn, uint32_t n_in,
                            uint32_t n_out) {
  const char *name = fn->name ? fn->name : "";
  for (const tni_call *k = s->call; k; k = k->up)
    if (k->fn == fn) return tni_fail(c->err, TN_E_INVALID, c->file, "function '%s' calls itself", name);
  if (s->depth >= c->lim.max_depth)
    return tni_fail(c->err, TN_E_LIMIT, c->file, "graphs and function calls nest deeper than %u", c->lim.max_depth);
  if (n_in > fn->n_input || n_out > fn->n_output)
    return tni_fail(c->err, TN_E_INVALID, c->file,
                    "function '%s' has %zu inputs and %zu outputs, the call has %u and %u", name, fn->n_input,
                    fn->n_output, n_in, n_out);
  return tni_check_opsets(c, fn->opset_import, fn->n_opset_import, name);
}

tn_status tni_inline_call(tni_import *c, tni_scope *s, const Onnx__FunctionProto *fn, const Onnx__NodeProto *n,
                          const tn_id *in, uint32_t n_in, const tn_id *out, uint32_t n_out) {
  tn_status st = check_call(c, s, fn, n_in, n_out);
  if (st) return st;
  const char *label = tni_prefixed(c, s, tni_node_label(n));
  size_t room = label ? strlen(label) + 16 : 0;
  char *prefix = label ? tni_arena_alloc(c->scratch, room, 1) : NULL;
  if (!prefix) return tni_fail_memory(c->err, c->file);
  st = tni_charge(c, room); /* nested calls of long names would grow without a bound */
  if (st) return st;
  snprintf(prefix, room, "%s/", label);
  tni_call call = {fn, n, s->call, s};
  tni_scope b = {.g = s->g, .call = &call, .prefix = prefix, .depth = s->depth + 1};
  b.opsets = fn->n_opset_import ? fn->opset_import : s->opsets;
  b.n_opsets = fn->n_opset_import ? fn->n_opset_import : s->n_opsets;
  b.names = tni_map_create();
  b.results = tni_map_create();
  st = b.names && b.results ? bind_call(c, &b, fn, in, n_in, out, n_out) : tni_fail_memory(c->err, c->file);
  if (!st) st = tni_convert_nodes(c, &b, fn->node, fn->n_node, NULL, 0);
  if (!st) st = check_results(c, &b, fn, out, n_out);
  tni_map_destroy(b.names);
  tni_map_destroy(b.results);
  return st;
}
