/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of embeddings whose rows come from packed weights: nothing reads their own elements any more, so these are cut
 * out of the bundle's model, with the constant that was packed where that is another one (runtime/onnx/left_out.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/bundle/internal.h"
#include "runtime/place/place.h"

struct tni_bd_tables {
  tni_left_out list[TNI_LEFT_OUT_MAX];
  uint32_t n;
  const char *hash; /* of the whole model, where it has a calibration; or NULL */
};

static int by_place(const void *a, const void *b) {
  const tni_left_out *x = a, *y = b;
  const int order = strcmp(x->file, y->file);
  return order ? order : (x->offset > y->offset) - (x->offset < y->offset);
}

static bool is_listed(const struct tni_bd_tables *t, const tni_left_out *e) {
  for (uint32_t i = 0; i < t->n; i++)
    if (t->list[i].offset == e->offset && strcmp(t->list[i].file, e->file) == 0) return true;
  return false;
}

/* weight: the constant that is packed in its place, or NULL. Files are named as in the model's folder. */
static tn_status add_left_out(tni_bd *b, const tn_model *m, struct tni_bd_tables *t, tn_id v, const char *weight) {
  const tni_value *val = tni_graph_value(m->graph, v);
  const size_t folder = strlen(m->path) - strlen(m->name);
  if (t->n == TNI_LEFT_OUT_MAX || !tni_embedding_leaves(m, v)) return TN_OK;
  tni_left_out e = {.name = tni_bd_text(b, "%s", val->pub.name),
                    .file = tni_bd_text(b, "%s", val->origin.file + folder),
                    .weight = weight ? tni_bd_text(b, "%s", weight) : NULL,
                    .offset = val->origin.offset,
                    .bytes = val->tensor->bytes};
  if (!e.name || !e.file || (weight && !e.weight)) return tni_fail_memory(b->err, val->pub.name);
  if (!tni_left_cut(&e).bytes || is_listed(t, &e)) return TN_OK;
  const XXH128_hash_t h = XXH3_128bits(val->tensor->data, val->tensor->bytes);
  e.content[0] = h.low64;
  e.content[1] = h.high64;
  t->list[t->n++] = e;
  return TN_OK;
}

tn_status tni_bd_tables_find(tni_bd *b, const tn_model *m, struct tni_bd_tables **out) {
  struct tni_bd_tables *t = TNI_NEW(b->arena, struct tni_bd_tables);
  tn_status st = t ? TN_OK : tni_fail_memory(b->err, m->path);
  for (uint32_t i = 0; st == TN_OK && i < m->n_embeddings; i++) {
    const tni_embedding *e = &m->embeddings[i];
    if (e->why) continue;
    const bool other = e->weight != e->table;
    st = add_left_out(b, m, t, e->table, other ? tni_graph_value(m->graph, e->weight)->pub.name : NULL);
    if (st == TN_OK && other) st = add_left_out(b, m, t, e->weight, NULL);
  }
  if (st == TN_OK && m->hash[0] && !(t->hash = tni_bd_text(b, "%s", m->hash))) st = tni_fail_memory(b->err, m->path);
  if (t) qsort(t->list, t->n, sizeof *t->list, by_place);
  *out = t;
  return st;
}

static tn_status write_list(tni_bd *b, const struct tni_bd_tables *t) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < t->n; i++) {
    const tni_left_out *e = &t->list[i];
    char hex[33];
    snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)e->content[1], (unsigned long long)e->content[0]);
    json_t *j = json_pack("{s:s, s:s, s:I, s:I, s:s}", "name", e->name, "file", e->file, "offset",
                          (json_int_t)e->offset, "bytes", (json_int_t)e->bytes, "content", hex);
    if (e->weight) json_object_set_new(j, "weight", json_string(e->weight));
    json_array_append_new(list, j);
  }
  json_t *all = json_pack("{s:i, s:o}", "tenon_left_out", TNI_LEFT_OUT_VERSION, "tensors", list);
  if (all && t->hash) json_object_set_new(all, "model", json_string(t->hash));
  char *text = all ? json_dumps(all, JSON_INDENT(1)) : NULL;
  json_decref(all);
  tn_status st = text ? tni_bd_write(b, "model/" TNI_LEFT_OUT_FILE, text, strlen(text), "model", false)
                      : tni_fail_memory(b->err, TNI_LEFT_OUT_FILE);
  free(text);
  return st;
}

tn_status tni_bd_tables_cut(tni_bd *b, const struct tni_bd_tables *t, uint32_t *n) {
  tn_status st = TN_OK;
  *n = t->n;
  for (uint32_t i = 0, end; st == TN_OK && i < t->n; i = end) {
    tni_cut cuts[TNI_LEFT_OUT_MAX];
    for (end = i; end < t->n && strcmp(t->list[end].file, t->list[i].file) == 0; end++)
      cuts[end - i] = tni_left_cut(&t->list[end]);
    const char *to = tni_bd_text(b, "model/%s", t->list[i].file);
    st = to ? tni_bd_cut(b, to, cuts, end - i) : tni_fail_memory(b->err, t->list[i].file);
  }
  for (uint32_t i = 0; st == TN_OK && i < t->n; i++)
    tni_bd_leave(b, tni_bd_text(b, "tensor %s", t->list[i].name), "read from packed weights (`embeddings: packed`)");
  return st == TN_OK && t->n ? write_list(b, t) : st;
}
