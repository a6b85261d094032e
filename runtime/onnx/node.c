/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/onnx/contrib.h"
#include "runtime/onnx/convert.h"

/* --- attributes --- */

static const Onnx__AttributeProto *find_attr(Onnx__AttributeProto *const *attrs, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (attrs[i]->name && strcmp(attrs[i]->name, name) == 0) return attrs[i];
  return NULL;
}

/* The attribute itself, or what it refers to in the calls around: *out NULL when the caller gave none. *s becomes the
 * scope that the value's names belong to. */
static tn_status deref_attr(tni_import *c, tni_scope **s, const Onnx__AttributeProto *a,
                            const Onnx__AttributeProto **out) {
  while (a->ref_attr_name && *a->ref_attr_name) {
    const tni_call *call = (*s)->call;
    if (!call)
      return tni_fail(c->err, TN_E_INVALID, c->file, "attribute '%s' refers to '%s' outside of a function",
                      a->name ? a->name : "", a->ref_attr_name);
    const Onnx__AttributeProto *given = find_attr(call->node->attribute, call->node->n_attribute, a->ref_attr_name);
    if (!given) {
      /* A default is written inside the function and refers to nothing. */
      *out = find_attr(call->fn->attribute_proto, call->fn->n_attribute_proto, a->ref_attr_name);
      return TN_OK;
    }
    a = given;
    *s = call->site;
  }
  *out = a;
  return TN_OK;
}

/* Files before IR 2 do not state the type. */
static uint32_t attr_type(const Onnx__AttributeProto *a) {
  if (a->has_type && a->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED) return (uint32_t)a->type;
  if (a->has_f) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
  if (a->has_i) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
  if (a->has_s) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
  if (a->t) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
  if (a->g) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
  if (a->n_floats) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS;
  if (a->n_ints) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
  if (a->n_strings) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
  if (a->n_graphs) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPHS;
  return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED;
}

static tn_status strings_attr(tni_import *c, const Onnx__AttributeProto *a, tni_raw_attr *raw) {
  char **list = TNI_NEW_ARRAY(c->scratch, char *, a->n_strings + 1);
  if (!list) return tni_fail_memory(c->err, c->file);
  for (size_t i = 0; i < a->n_strings; i++) {
    list[i] = tni_onnx_copy_bytes(c, c->scratch, a->strings[i].data, a->strings[i].len);
    if (!list[i]) return c->err->code;
  }
  raw->a.type = TN_ATTR_STRINGS;
  raw->a.n = a->n_strings;
  raw->a.u.strings = (const char *const *)list;
  return TN_OK;
}

static tn_status tensor_attr(tni_import *c, tni_scope *s, const Onnx__AttributeProto *a, tni_raw_attr *raw) {
  tni_origin from;
  char what[160];
  raw->a.type = TN_ATTR_TENSOR;
  if (!a->t) return tni_fail(c->err, TN_E_INVALID, c->file, "attribute '%s' has no tensor", raw->name);
  raw->tensor = TNI_NEW(s->g->arena, tni_tensor);
  if (!raw->tensor) return tni_fail_memory(c->err, c->file);
  snprintf(what, sizeof what, "attribute '%.100s'", raw->name);
  return tni_read_tensor(c, a->t, what, s->g->arena, raw->tensor, &from);
}

/* home: the scope that the graphs' names belong to. */
static tn_status graphs_attr(tni_import *c, tni_scope *s, tni_scope *home, Onnx__GraphProto *const *gps, size_t n,
                             tni_raw_attr *raw) {
  raw->a.type = TN_ATTR_GRAPH;
  if (n == 0 || !gps[0]) return tni_fail(c->err, TN_E_INVALID, c->file, "attribute '%s' has no graph", raw->name);
  raw->graphs = TNI_NEW_ARRAY(c->scratch, tni_graph *, n);
  if (!raw->graphs) return tni_fail_memory(c->err, c->file);
  /* A graph handed to a function sees the names around the call, but nests where the function uses it. */
  if (home->g != s->g)
    return tni_fail(c->err, TN_E_UNSUPPORTED, c->file, "attribute '%s' is a graph used in another graph", raw->name);
  tni_scope at = *home;
  at.depth = s->depth;
  for (size_t i = 0; i < n; i++) {
    tn_status st = c->nested->subgraph(c, &at, gps[i], &raw->graphs[i]);
    if (st) return st;
    raw->n_graphs++;
  }
  return TN_OK;
}

static tn_status list_attr(tni_import *c, tni_raw_attr *raw, uint32_t type, const void *p, size_t n, size_t size) {
  raw->a.type = type;
  raw->a.n = n;
  raw->a.u.p = p;
  return tni_charge(c, (uint64_t)n * size);
}

static tn_status type_attr(tni_import *c, const Onnx__AttributeProto *a, tni_raw_attr *raw) {
  enum { MOST = 16 };
  uint32_t n;
  int64_t *v = TNI_NEW_ARRAY(c->scratch, int64_t, MOST);
  if (!v) return tni_fail_memory(c->err, c->file);
  tn_status st = tni_type_ints(c, a->tp, v, MOST, &n);
  return st ? st : list_attr(c, raw, TN_ATTR_INTS, v, n, sizeof *v);
}

/* a -> raw; lists and strings still point into the message (tni_graph_add_node copies them). */
static tn_status convert_attr(tni_import *c, tni_scope *s, tni_scope *home, const Onnx__AttributeProto *a,
                              tni_raw_attr *raw) {
  raw->a = (tn_attr){.h = {sizeof(tn_attr), 1, 0}, .n = 1};
  switch (attr_type(a)) {
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT:
      raw->a.type = TN_ATTR_FLOAT;
      raw->a.u.f = (double)a->f;
      return TN_OK;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT:
      raw->a.type = TN_ATTR_INT;
      raw->a.u.i = a->i;
      return TN_OK;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING:
      return list_attr(c, raw, TN_ATTR_STRING, a->s.len ? (const char *)a->s.data : "", a->s.len, 1);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS:
      return list_attr(c, raw, TN_ATTR_FLOATS, a->floats, a->n_floats, sizeof *a->floats);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS:
      return list_attr(c, raw, TN_ATTR_INTS, a->ints, a->n_ints, sizeof *a->ints);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS:
      return strings_attr(c, a, raw);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR:
      return tensor_attr(c, s, a, raw);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH:
      return graphs_attr(c, s, home, &a->g, 1, raw);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPHS:
      return graphs_attr(c, s, home, a->graphs, a->n_graphs, raw);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TYPE_PROTO:
      return type_attr(c, a, raw);
    default:
      raw->a.type = TN_ATTR_NONE;
      return TN_OK; /* known by name only: sparse tensors, lists of types */
  }
}

static tn_status convert_attrs(tni_import *c, tni_scope *s, const Onnx__NodeProto *n, tni_draft *d) {
  for (size_t i = 0; i < n->n_attribute; i++) {
    const Onnx__AttributeProto *a;
    tni_scope *home = s;
    tni_raw_attr *raw = &d->raw[d->n_raw];
    raw->name = n->attribute[i]->name;
    if (!raw->name || !*raw->name) return tni_fail(c->err, TN_E_INVALID, c->file, "an attribute has no name");
    tn_status st = deref_attr(c, &home, n->attribute[i], &a);
    if (st) return st;
    if (!a) continue;
    d->n_raw++;
    st = convert_attr(c, s, home, a, raw);
    if (st) return st;
  }
  return TN_OK;
}

/* --- constants --- */

static tn_status vector_constant(tni_import *c, tni_scope *s, uint32_t dtype, bool scalar, const void *p, size_t n,
                                 size_t size, tni_tensor *t) {
  *t = (tni_tensor){.dtype = dtype, .rank = scalar ? 0 : 1, .dims = {scalar ? 0 : (int64_t)n}, .bytes = n * size};
  tn_status st = tni_charge(c, t->bytes);
  if (st || n == 0 || size == 0) return st;
  t->data = tni_arena_memdup(s->g->arena, p, t->bytes, 64);
  return t->data ? TN_OK : tni_fail_memory(c->err, c->file);
}

static tn_status constant_value(tni_import *c, tni_scope *s, const char *name, const Onnx__AttributeProto *a,
                                tni_tensor *t, tni_origin *from) {
  *from = (tni_origin){0};
  if (strcmp(name, "value") == 0) {
    if (a->t) return tni_read_tensor(c, a->t, "attribute 'value'", s->g->arena, t, from);
    return tni_fail(c->err, TN_E_INVALID, c->file, "attribute 'value' has no tensor");
  }
  if (strcmp(name, "value_float") == 0) return vector_constant(c, s, TN_DT_F32, true, &a->f, 1, sizeof a->f, t);
  if (strcmp(name, "value_int") == 0) return vector_constant(c, s, TN_DT_I64, true, &a->i, 1, sizeof a->i, t);
  if (strcmp(name, "value_floats") == 0)
    return vector_constant(c, s, TN_DT_F32, false, a->floats, a->n_floats, sizeof *a->floats, t);
  if (strcmp(name, "value_ints") == 0)
    return vector_constant(c, s, TN_DT_I64, false, a->ints, a->n_ints, sizeof *a->ints, t);
  if (strcmp(name, "value_string") == 0) return vector_constant(c, s, TN_DT_STRING, true, NULL, 1, 0, t);
  if (strcmp(name, "value_strings") == 0) return vector_constant(c, s, TN_DT_STRING, false, NULL, a->n_strings, 0, t);
  return tni_fail(c->err, TN_E_UNSUPPORTED, c->file, "attribute '%s'", name);
}

static tn_status constant_node(tni_import *c, tni_scope *s, const Onnx__NodeProto *n, tn_id v) {
  const Onnx__AttributeProto *a = NULL;
  const char *name = NULL;
  if (++c->n_nodes > c->lim.max_nodes)
    return tni_fail(c->err, TN_E_LIMIT, c->file, "more than %u nodes", c->lim.max_nodes);
  for (size_t i = 0; i < n->n_attribute; i++) {
    const Onnx__AttributeProto *one;
    tni_scope *home = s;
    tn_status st = deref_attr(c, &home, n->attribute[i], &one);
    if (st) return st;
    if (one && a) return tni_fail(c->err, TN_E_INVALID, c->file, "a Constant has one attribute");
    if (one) a = one;
    if (one) name = n->attribute[i]->name;
  }
  if (!a || !name || n->n_input)
    return tni_fail(c->err, TN_E_INVALID, c->file, "a Constant has one attribute and no input");
  tni_tensor t;
  tni_origin from;
  tn_status st = constant_value(c, s, name, a, &t, &from);
  if (st) return st;
  if (v == TN_NONE || tni_graph_value(s->g, v)->tensor)
    return tni_fail(c->err, TN_E_INVALID, c->file, "its output is defined twice");
  st = tni_value_set_tensor(s->g, v, &t, &from);
  if (st == TN_E_NO_MEMORY) return tni_fail_memory(c->err, c->file);
  return st ? tni_fail(c->err, st, c->file, "its value cannot be kept") : TN_OK;
}

tn_status tni_convert_constant(tni_import *c, tni_scope *s, const Onnx__NodeProto *n, tn_id v) {
  tn_status st = constant_node(c, s, n, v);
  if (st) tni_error_prefix(c->err, "node '%.100s' (Constant)", tni_node_label(n));
  return st;
}

/* --- nodes --- */

static tn_status node_version(tni_import *c, const tni_scope *s, const char *domain, int64_t *version) {
  bool standard = !*domain || strcmp(domain, "ai.onnx") == 0;
  for (size_t i = 0; i < s->n_opsets; i++) {
    const char *d = s->opsets[i]->domain ? s->opsets[i]->domain : "";
    if (strcmp(d, "ai.onnx") == 0) d = "";
    *version = s->opsets[i]->version;
    if (strcmp(d, standard ? "" : domain) == 0) return TN_OK;
  }
  *version = 1;
  /* Exporters forget to import the domains of vendors; the standard one decides what a node means. */
  return standard ? tni_fail(c->err, TN_E_INVALID, c->file, "no opset of ai.onnx is imported") : TN_OK;
}

static tn_status fill_ids(tni_import *c, tni_scope *s, const Onnx__NodeProto *n, const char *what, tni_draft *d) {
  tn_status st = TN_OK;
  for (size_t i = 0; i < n->n_input && !st; i++) {
    d->in[i] = TN_NONE;
    if (*n->input[i]) st = tni_resolve(c, s, n->input[i], what, &d->in[i]);
  }
  for (size_t i = 0; i < n->n_output && !st; i++) {
    d->out[i] = TN_NONE;
    if (*n->output[i]) st = tni_resolve(c, s, n->output[i], what, &d->out[i]);
  }
  d->n_in = (uint32_t)n->n_input;
  d->n_out = (uint32_t)n->n_output;
  while (d->n_in && d->in[d->n_in - 1] == TN_NONE) d->n_in--;
  return st;
}

/* ONNX Runtime takes an empty auto_pad for one that is not there. Other domains mean by it what they like. */
static void drop_empty_pad(tni_draft *d, bool standard) {
  const tni_raw_attr *a = tni_draft_attr(d, "auto_pad");
  if (!standard && strncmp(d->domain, "com.microsoft", 13) != 0) return;
  if (a && a->a.type == TN_ATTR_STRING && a->a.n == 0) tni_draft_drop_attr(d, "auto_pad");
}

static tn_status make_node(tni_import *c, tni_scope *s, const Onnx__NodeProto *n, tni_draft *d) {
  char what[128];
  snprintf(what, sizeof what, "node '%.80s' (%.30s)", tni_node_label(n), d->type);
  tn_status st = fill_ids(c, s, n, what, d);
  if (st) return st;
  const Onnx__FunctionProto *fn = tni_find_function(c, n);
  if (fn) {
    st = c->nested->call(c, s, fn, n, d->in, d->n_in, d->out, d->n_out);
    if (st && !s->call) tni_error_prefix(c->err, "%s", what); /* the outermost call and the node itself are named */
    return st;
  }
  d->name = tni_prefixed(c, s, tni_node_label(n));
  st = d->name ? node_version(c, s, d->domain, &d->version) : tni_fail_memory(c->err, c->file);
  if (!st) st = convert_attrs(c, s, n, d);
  const bool standard = tni_is_standard(n, d->type);
  bool rewritten = false;
  if (!st) drop_empty_pad(d, standard);
  if (!st && standard) st = tni_upgrade(c, s->g, d);
  if (!st) st = tni_contrib(c, s->g, d, &rewritten);
  if (st) {
    tni_error_prefix(c->err, "%s", what);
    return st;
  }
  if (rewritten) return TN_OK;
  return tni_graph_add_node(s->g, d->name, d->domain, d->type, d->version, d->in, d->n_in, d->out, d->n_out, d->raw,
                            d->n_raw, NULL, c->err);
}

tn_status tni_convert_node(tni_import *c, tni_scope *s, const Onnx__NodeProto *n) {
  if (!n->op_type || !*n->op_type)
    return tni_fail(c->err, TN_E_INVALID, c->file, "node '%s' has no operator type", tni_node_label(n));
  if (n->n_input > UINT16_MAX - TNI_DRAFT_ROOM || n->n_output > UINT16_MAX)
    return tni_fail(c->err, TN_E_LIMIT, c->file, "node '%s' has %zu inputs and %zu outputs, at most %d are supported",
                    tni_node_label(n), n->n_input, n->n_output, UINT16_MAX - TNI_DRAFT_ROOM);
  if (n->n_attribute > TNI_MAX_ATTRIBUTES)
    return tni_fail(c->err, TN_E_LIMIT, c->file, "node '%s' has %zu attributes, at most %d are supported",
                    tni_node_label(n), n->n_attribute, TNI_MAX_ATTRIBUTES);
  if (++c->n_nodes > c->lim.max_nodes)
    return tni_fail(c->err, TN_E_LIMIT, c->file, "more than %u nodes", c->lim.max_nodes);
  tni_draft d = {.domain = n->domain ? n->domain : "", .type = n->op_type};
  d.in = calloc(n->n_input + TNI_DRAFT_ROOM + n->n_output + 1, sizeof *d.in);
  d.raw = calloc(n->n_attribute + TNI_DRAFT_ATTRS, sizeof *d.raw);
  tn_status st = TN_E_NO_MEMORY;
  if (d.in && d.raw) {
    d.out = d.in + n->n_input + TNI_DRAFT_ROOM;
    st = make_node(c, s, n, &d);
  } else {
    (void)tni_fail_memory(c->err, c->file);
  }
  free(d.in);
  free(d.raw);
  return st;
}
