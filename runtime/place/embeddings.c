/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/place/embeddings.h"

#include <stdio.h>
#include <string.h>

#include "runtime/graph/graph.h"
#include "runtime/place/equal.h"
#include "runtime/place/program_check.h"

static const tni_value *value_of(const tn_model *m, tn_id v) { return tni_graph_value(m->graph, v); }

/* Whether row n of other, as the need sees it, is row n of the table. */
static bool is_equal(const tn_model *m, tn_id table, tn_id other, bool turned) {
  const tni_left_out *left = tni_left_of(m->import, value_of(m, table));
  if (table == other) return !turned;
  if (left) return left->weight && strcmp(left->weight, value_of(m, other)->pub.name) == 0;
  return tni_constants_equal(m, table, other, turned);
}

static bool looks_up(const tni_node *n, tn_id v) {
  return n->n_captures == 0 && n->pub.op == TN_OP_GATHER && n->pub.in[0] == v && n->pub.in[1] != v &&
         tni_attr_i(&n->pub, "axis", 0) == 0;
}

static bool is_float(uint32_t dtype) { return dtype == TN_DT_F32 || dtype == TN_DT_F16 || dtype == TN_DT_BF16; }

static bool on_host(const tn_model *m, tn_id node) {
  bool host = true;
  for (uint32_t e = 0; e < m->n_execs; e++) host = host && m->rt->devs[m->execs[e].part.device_of[node]].is_host;
  return host;
}

/* The device that runs a Gather of v by itself, in any phase; NULL: none. *any: there is one at all. */
static const char *gathered_by(const tn_model *m, tn_id v, bool *any) {
  const tni_value *val = value_of(m, v);
  for (uint32_t u = 0; u < val->pub.n_uses; u++) {
    const tn_id node = val->pub.uses[u];
    if (!looks_up(tni_graph_node(m->graph, node), v)) continue;
    *any = true;
    for (uint32_t e = 0; e < m->n_execs; e++) {
      const tni_dev *d = &m->rt->devs[m->execs[e].part.device_of[node]];
      if (!d->is_host) return d->name;
    }
  }
  return NULL;
}

/* The part of need n that is the table, row by row; n_values: none. */
static uint32_t part_of(const tn_model *m, const tni_need *n, tn_id table, bool compare) {
  const tni_tensor *t = value_of(m, table)->tensor;
  const bool turned = n->need->flags & TN_NEED_KN;
  uint32_t k = 0;
  for (; k < n->need->n_values; k++) {
    const tn_id v = n->need->values[k];
    if (n->parts[k]->N != t->dims[0] || n->parts[k]->K != t->dims[1] || (v != table) != compare) continue;
    if (is_equal(m, table, v, turned)) break;
  }
  return k;
}

static bool take_need(const tni_program *p, const tni_need *n, uint32_t part, tni_embedding *e) {
  if (part == n->need->n_values) return false;
  e->weight = n->need->values[part];
  e->dev = p->cluster->device;
  e->item = n->blob;
  for (uint32_t k = 0; k < part; k++) e->rows.first += n->parts[k]->N;
  return true;
}

/* The first packed weight that holds the table; constants that are not the table itself only where none does. */
static bool find_weight(const tn_model *m, tni_embedding *e) {
  for (int compare = 0; compare < 2; compare++)
    for (uint32_t x = 0; x < m->n_execs; x++)
      for (uint32_t i = 0; i < m->execs[x].n_programs; i++) {
        const tni_program *p = &m->execs[x].programs[i];
        for (uint32_t k = 0; k < p->info->n_needs; k++) {
          const tni_need *n = &p->needs[k];
          if (n->need->format && n->need->residency != TN_RESIDENCY_DISK &&
              take_need(p, n, part_of(m, n, e->table, compare), e))
            return true;
        }
      }
  return false;
}

static const char *read_by(tn_model *m, const char *device) {
  const size_t n = strlen(device) + 32;
  char *s = tni_arena_alloc(m->arena, n, 1);
  if (s) snprintf(s, n, "plugin '%s' looks it up itself", device);
  return s ? s : "a plugin looks it up itself";
}

/* Who would read the elements of constant v, in words; NULL: nobody but who packs it. */
static const char *reader_of(const tn_model *m, tn_id v) {
  const tni_value *val = value_of(m, v);
  if (val->is_output) return "it is an output of the model";
  for (uint32_t u = 0; u < val->pub.n_uses; u++) {
    const tni_node *n = tni_graph_node(m->graph, val->pub.uses[u]);
    if (n->dynamic || n->n_captures) return "a node whose dims come when it runs reads it";
  }
  const bool packed = tni_embedding_is_packed(m, v);
  for (uint32_t x = 0; x < m->n_execs; x++)
    for (uint32_t i = 0; i < m->execs[x].n_programs; i++) {
      const tni_program *p = &m->execs[x].programs[i];
      for (uint32_t k = 0; k < p->info->n_needs; k++)
        if (!p->info->needs[k]->format && p->info->needs[k]->values[0] == v && !(p->dev->is_host && packed))
          return p->dev->is_host ? "the host reads it" : "a plugin reads it as it lies";
    }
  return NULL;
}

/* What is not in the model's files may be read by nobody. */
static tn_status check_left_out(const tn_model *m, tn_error *err) {
  for (tn_id v = 0; m->import->n_left && v < m->graph->n_values; v++) {
    const tni_value *val = value_of(m, v);
    const char *why = val->tensor && tni_left_of(m->import, val) ? reader_of(m, v) : NULL;
    if (why)
      return tni_fail(err, TN_E_UNAVAILABLE, val->pub.name,
                      "'%s' was left out of this model, which runs only where its rows are read from packed weights "
                      "(`embeddings: packed`, and the plugins that it was bundled with): %s",
                      val->pub.name, why);
  }
  return TN_OK;
}

bool tni_embedding_leaves(const tn_model *m, tn_id v) {
  const tni_value *val = value_of(m, v);
  return val->origin.file && val->tensor->data && !val->tensor->quantized && !reader_of(m, v);
}

tn_status tni_embeddings_find(tn_model *m, tn_error *err) {
  const tni_profile *p = m->rt->profile;
  uint32_t packed = 0;
  m->embeddings = TNI_NEW_ARRAY(m->arena, tni_embedding, m->graph->n_values + 1);
  if (!m->embeddings) return tni_fail_memory(err, m->path);
  for (tn_id v = 0; v < m->graph->n_values; v++) {
    const tni_value *val = value_of(m, v);
    if (val->pub.kind != TN_VALUE_CONST || !val->tensor || val->tensor->rank != 2 || !is_float(val->tensor->dtype))
      continue;
    bool any = false;
    const char *device = gathered_by(m, v, &any);
    if (!any) continue;
    tni_embedding *e = &m->embeddings[m->n_embeddings++];
    *e = (tni_embedding){.table = v, .weight = TN_NONE};
    if (!p->packed_embeddings)
      e->why = "the profile does not ask for it";
    else if (device)
      e->why = read_by(m, device);
    else if (!find_weight(m, e))
      e->why = "no plugin packs a product with the same weights";
    packed += !e->why;
  }
  if (p->packed_embeddings && !packed)
    tni_log_line(
        &m->rt->log, TN_LOG_WARN,
        "the profile wants embeddings from packed weights, but no plugin packs a table of '%s' that the host looks "
        "up: they are read as they lie (`tenon inspect` says why)",
        m->name);
  return check_left_out(m, err);
}

void tni_embeddings_open(tn_model *m) {
  for (uint32_t i = 0; i < m->n_embeddings; i++) {
    tni_embedding *e = &m->embeddings[i];
    if (e->why) continue;
    e->rows.blob = tni_pack_store_blob(m->packed[e->dev].store, e->item);
    value_of(m, e->table)->tensor->rows = &e->rows;
  }
}

bool tni_embedding_is_packed(const tn_model *m, tn_id v) {
  const tni_value *val = value_of(m, v);
  bool packed = false;
  for (uint32_t i = 0; i < m->n_embeddings; i++)
    packed = packed || (m->embeddings[i].table == v && !m->embeddings[i].why);
  for (uint32_t u = 0; packed && u < val->pub.n_uses; u++) {
    const tn_id node = val->pub.uses[u];
    packed = looks_up(tni_graph_node(m->graph, node), v) || !on_host(m, node);
  }
  return packed && !val->is_output;
}

json_t *tni_embeddings_json(const tn_model *m) {
  if (!m->embeddings) return json_null();
  json_t *list = json_array();
  for (uint32_t i = 0; i < m->n_embeddings; i++) {
    const tni_embedding *e = &m->embeddings[i];
    const tni_value *v = value_of(m, e->table);
    const tni_quantized *q = v->tensor->quantized;
    const uint64_t bytes = q && !v->tensor->data ? tni_quantized_bytes(q) : v->tensor->bytes;
    json_t *j = json_pack("{s:s, s:I, s:s}", "table", v->pub.name, "bytes", (json_int_t)bytes, "rows",
                          e->why ? "source" : "packed");
    if (q && !tni_is_stored_halves(q)) {
      json_object_set_new(j, "bits", json_integer(q->bits));
      json_object_set_new(j, "block", json_integer(q->block));
    }
    if (e->why) {
      json_object_set_new(j, "reason", json_string(e->why));
    } else {
      const tni_pack_item *it = m->packed[e->dev].items[e->item];
      json_object_set_new(j, "device", json_string(m->rt->devs[e->dev].name));
      json_object_set_new(j, "format", json_string(it->format->name));
      json_object_set_new(j, "weight", json_string(value_of(m, e->weight)->pub.name));
    }
    json_array_append_new(list, j);
  }
  return json_pack("{s:s, s:o}", "profile", m->rt->profile->packed_embeddings ? "packed" : "source", "tables", list);
}
