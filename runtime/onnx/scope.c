/* SPDX-License-Identifier: Apache-2.0
 *
 * Names: what a scope defines, what it reads of the scopes around, and what nodes are called.
 */
#include <string.h>

#include "runtime/onnx/convert.h"

static tn_status define_name(tni_import *c, tni_scope *s, const char *name, tn_id id) {
  uint64_t old;
  if (tni_map_get_str(s->names, name, &old))
    return tni_fail(c->err, TN_E_INVALID, c->file, "value '%s' is defined twice", name);
  return tni_map_put_str(s->names, name, id) ? TN_OK : tni_fail_memory(c->err, c->file);
}

tn_status tni_declare(tni_import *c, tni_scope *s, const char *name, uint32_t kind, tn_id *id) {
  uint64_t known;
  if (s->results && tni_map_get_str(s->results, name, &known) && known != TN_NONE) {
    *id = (tn_id)known;
    return define_name(c, s, name, *id);
  }
  if (tni_map_get_str(s->names, name, &known)) return define_name(c, s, name, TN_NONE);
  const char *full = tni_prefixed(c, s, name);
  if (!full) return tni_fail_memory(c->err, c->file);
  /* Inlined names may meet names of the model: those get a fresh one. */
  if (tni_graph_find(s->g, full) != TN_NONE) full = "";
  *id = tni_graph_add_value(s->g, full, kind, TN_DT_UNDEFINED);
  return *id == TN_NONE ? tni_fail_memory(c->err, c->file) : define_name(c, s, name, *id);
}

/* A value of s->g that stands for `outer` of the graph around. Constants are shared instead. */
static tn_status capture_name(tni_import *c, tni_scope *s, tn_id outer, tn_id *id) {
  const tni_value *o = tni_graph_value(s->up->g, outer);
  const char *name = tni_graph_find(s->g, o->pub.name) == TN_NONE ? o->pub.name : "";
  *id = tni_graph_add_value(s->g, name, o->tensor ? TN_VALUE_CONST : TN_VALUE_INPUT, o->pub.dtype);
  if (*id == TN_NONE) return tni_fail_memory(c->err, c->file);
  if (!o->tensor) {
    tni_graph_value(s->g, *id)->captured = outer;
    return TN_OK;
  }
  tn_status st = tni_value_set_tensor(s->g, *id, o->tensor, &o->origin);
  return st ? tni_fail(c->err, st, c->file, "constant '%s' in a subgraph", o->pub.name) : TN_OK;
}

static tn_status look_up(tni_import *c, tni_scope *s, const char *name, bool *found, tn_id *id) {
  uint64_t known;
  *found = tni_map_get_str(s->names, name, &known);
  if (*found) {
    *id = (tn_id)known;
    return TN_OK;
  }
  if (!s->up) return TN_OK;
  tn_id outer;
  tn_status st = look_up(c, s->up, name, found, &outer);
  if (st || !*found) return st;
  *id = TN_NONE;
  if (outer != TN_NONE) st = capture_name(c, s, outer, id);
  if (st) return st;
  return tni_map_put_str(s->names, name, *id) ? TN_OK : tni_fail_memory(c->err, c->file);
}

tn_status tni_resolve(tni_import *c, tni_scope *s, const char *name, const char *what, tn_id *id) {
  bool found;
  tn_status st = look_up(c, s, name, &found, id);
  if (st || found) return st;
  return tni_fail(c->err, TN_E_INVALID, c->file, "%s reads '%s', which nothing produces", what, name);
}

const char *tni_node_label(const Onnx__NodeProto *n) {
  if (n->name && *n->name) return n->name;
  for (size_t i = 0; i < n->n_output; i++)
    if (*n->output[i]) return n->output[i];
  return n->op_type ? n->op_type : "";
}

bool tni_is_standard(const Onnx__NodeProto *n, const char *type) {
  bool standard = !n->domain || !*n->domain || strcmp(n->domain, "ai.onnx") == 0;
  return standard && n->op_type && strcmp(n->op_type, type) == 0;
}

const char *tni_prefixed(tni_import *c, const tni_scope *s, const char *name) {
  if (!*s->prefix) return name;
  size_t a = strlen(s->prefix), b = strlen(name);
  char *full = tni_charge(c, a + b) == TN_OK ? tni_arena_alloc(c->scratch, a + b + 1, 1) : NULL;
  if (!full) return NULL;
  memcpy(full, s->prefix, a);
  memcpy(full + a, name, b + 1);
  return full;
}
