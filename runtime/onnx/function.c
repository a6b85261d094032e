/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/onnx/convert.h"

static const char *text(const char *s) { return s ? s : ""; }

static const char *domain_of(const char *domain) { return !domain || strcmp(domain, "ai.onnx") == 0 ? "" : domain; }

/* "domain:name:overload" on scratch memory. */
static const char *key_of(const tni_import *c, const char *domain, const char *name, const char *overload) {
  size_t n = strlen(domain) + strlen(name) + strlen(overload) + 3;
  char *key = tni_arena_alloc(c->scratch, n, 1);
  if (key) snprintf(key, n, "%s:%s:%s", domain, name, overload);
  return key;
}

tn_status tni_index_functions(tni_import *c) {
  for (size_t i = 0; i < c->proto->n_functions; i++) {
    const Onnx__FunctionProto *f = c->proto->functions[i];
    const char *key = key_of(c, domain_of(f->domain), text(f->name), text(f->overload));
    uint64_t known;
    if (!key) return tni_fail_memory(c->err, c->file);
    if (tni_map_get_str(c->functions, key, &known))
      return tni_fail(c->err, TN_E_INVALID, c->file, "function '%s' is defined twice", key);
    if (!tni_map_put_str(c->functions, key, i)) return tni_fail_memory(c->err, c->file);
  }
  return TN_OK;
}

const Onnx__FunctionProto *tni_find_function(const tni_import *c, const Onnx__NodeProto *n) {
  if (c->proto->n_functions == 0) return NULL;
  const char *key = key_of(c, domain_of(n->domain), text(n->op_type), text(n->overload));
  uint64_t i;
  return key && tni_map_get_str(c->functions, key, &i) ? c->proto->functions[i] : NULL;
}

tn_status tni_check_opsets(tni_import *c, Onnx__OperatorSetIdProto *const *sets, size_t n, const char *who) {
  if (n > TNI_MAX_OPSETS)
    return tni_fail(c->err, TN_E_LIMIT, c->file, "%s imports %zu opsets, at most %d are supported", who, n,
                    TNI_MAX_OPSETS);
  for (size_t i = 0; i < n; i++) {
    if (*domain_of(sets[i]->domain)) continue;
    if (sets[i]->version < TNI_OPSET_MIN || sets[i]->version > TNI_OPSET_MAX)
      return tni_fail(c->err, TN_E_UNSUPPORTED, c->file, "%s uses opset %" PRId64 " of ai.onnx; %d to %d are supported",
                      who, sets[i]->version, TNI_OPSET_MIN, TNI_OPSET_MAX);
  }
  return TN_OK;
}

/* Parameters and results of the body by name. */
static tn_status bind(tni_import *c, tni_scope *b, const Onnx__FunctionProto *fn, const tn_id *in, uint32_t n_in,
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
  for (const tni_call *k = s->call; k; k = k->up)
    if (k->fn == fn) return tni_fail(c->err, TN_E_INVALID, c->file, "function '%s' calls itself", text(fn->name));
  if (s->depth >= c->lim.max_depth)
    return tni_fail(c->err, TN_E_LIMIT, c->file, "graphs and function calls nest deeper than %u", c->lim.max_depth);
  if (n_in > fn->n_input || n_out > fn->n_output)
    return tni_fail(c->err, TN_E_INVALID, c->file,
                    "function '%s' has %zu inputs and %zu outputs, the call has %u and %u", text(fn->name), fn->n_input,
                    fn->n_output, n_in, n_out);
  return tni_check_opsets(c, fn->opset_import, fn->n_opset_import, text(fn->name));
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
  st = b.names && b.results ? bind(c, &b, fn, in, n_in, out, n_out) : tni_fail_memory(c->err, c->file);
  if (!st) st = tni_convert_nodes(c, &b, fn->node, fn->n_node, NULL, 0);
  if (!st) st = check_results(c, &b, fn, out, n_out);
  tni_map_destroy(b.names);
  tni_map_destroy(b.results);
  return st;
}
