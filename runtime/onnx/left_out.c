/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/onnx/left_out.h"
#include "runtime/base/json.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/graph/graph.h"

enum { MAX_BYTES = 1 << 20 };

static const char *text_of(tni_left_list *l, const json_t *j, const char *key) {
  const char *s = json_string_value(json_object_get(j, key));
  return s ? tni_arena_strdup(l->arena, s) : NULL;
}

static bool read_hash(const char *hex, uint64_t out[2]) {
  char half[17] = {0};
  if (!hex || strlen(hex) != 32 || strspn(hex, "0123456789abcdef") != 32) return false;
  for (int i = 0; i < 2; i++) {
    memcpy(half, hex + 16 * i, 16);
    out[1 - i] = strtoull(half, NULL, 16);
  }
  return true;
}

static bool read_entry(tni_left_list *l, const json_t *j, tni_left_out *out) {
  const json_int_t offset = json_integer_value(json_object_get(j, "offset")),
                   bytes = json_integer_value(json_object_get(j, "bytes"));
  *out = (tni_left_out){.name = text_of(l, j, "name"),
                        .file = text_of(l, j, "file"),
                        .weight = text_of(l, j, "weight"),
                        .offset = (uint64_t)offset,
                        .bytes = (uint64_t)bytes};
  return out->name && out->file && offset >= 0 && bytes > 0 && offset <= INT64_MAX / 8 && bytes <= INT64_MAX / 8 &&
         tni_left_cut(out).bytes && read_hash(json_string_value(json_object_get(j, "content")), out->content);
}

/* By file and offset, and no two overlap. */
static bool follows_in_file(const tni_left_out *a, const tni_left_out *b) {
  const int order = strcmp(a->file, b->file);
  return order < 0 || (order == 0 && a->offset + a->bytes <= b->offset);
}

static bool read_list(tni_left_list *l, const json_t *j) {
  const json_t *list = json_object_get(j, "tensors"), *e;
  size_t i;
  if (json_integer_value(json_object_get(j, "tenon_left_out")) != TNI_LEFT_OUT_VERSION || !json_is_array(list) ||
      json_array_size(list) > TNI_LEFT_OUT_MAX)
    return false;
  l->hash = text_of(l, j, "model");
  l->list = TNI_NEW_ARRAY(l->arena, tni_left_out, json_array_size(list) + 1);
  json_array_foreach(list, i, e) {
    if (!l->list || !read_entry(l, e, &l->list[i]) || (i && !follows_in_file(&l->list[i - 1], &l->list[i])))
      return false;
    l->n++;
  }
  return l->list != NULL;
}

tn_status tni_left_read(const char *dir, tni_left_list *out, tn_error *err) {
  char *path = tni_file_in(dir, TNI_LEFT_OUT_FILE);
  tni_left_list l = {0};
  tni_file f = {0};
  *out = l;
  if (!path) return tni_fail_memory(err, dir);
  if (access(path, F_OK) != 0) {
    free(path);
    return TN_OK;
  }
  tn_status st = tni_file_read(path, &f, err);
  if (st == TN_OK && !(l.arena = tni_arena_create())) st = tni_fail_memory(err, path);
  json_t *j = st == TN_OK && f.bytes && f.bytes <= MAX_BYTES
                  ? json_loadb(f.data, (size_t)f.bytes, JSON_REJECT_DUPLICATES, NULL)
                  : NULL;
  if (st == TN_OK && (!j || !read_list(&l, j)))
    st = tni_fail(err, TN_E_CORRUPT, path, "'%s' is no list of tensors that were left out", path);
  json_decref(j);
  tni_file_unmap(&f);
  free(path);
  if (st == TN_OK)
    *out = l;
  else
    tni_arena_destroy(l.arena);
  return st;
}

tni_cut tni_left_cut(const tni_left_out *t) {
  const uint64_t unit = TNI_CUT_UNIT, at = (t->offset + unit - 1) / unit * unit,
                 end = (t->offset + t->bytes) / unit * unit;
  return (tni_cut){at, end > at ? end - at : 0};
}

tn_status tni_left_map(const tni_left_out *list, uint32_t n, const char *name, int fd, const char *path, bool copy,
                       tni_file *out, tn_error *err) {
  tni_cut cuts[TNI_LEFT_OUT_MAX];
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i++)
    if (strcmp(list[i].file, name) == 0) cuts[count++] = tni_left_cut(&list[i]);
  return tni_file_map_cut(fd, path, cuts, count, copy, out, err);
}

/* path is DIR/NAME of the entry. */
static bool is_file(const tni_left_out *t, const char *path) {
  const size_t n = strlen(path), k = strlen(t->file);
  return n > k && path[n - k - 1] == '/' ? strcmp(path + n - k, t->file) == 0 : strcmp(path, t->file) == 0;
}

const tni_left_out *tni_left_of(const tni_model *m, const tni_value *v) {
  for (uint32_t i = 0; v->origin.file && i < m->n_left; i++)
    if (v->origin.offset == m->left[i].offset && v->tensor->bytes == m->left[i].bytes &&
        is_file(&m->left[i], v->origin.file))
      return &m->left[i];
  return NULL;
}

tn_status tni_left_mark(tni_model *m, const char *dir, tn_error *err) {
  static const tni_packed_rows nowhere = {0};
  uint32_t marked = 0;
  for (tn_id v = 0; m->n_left && v < m->graph->n_values; v++) {
    const tni_value *val = tni_graph_value(m->graph, v);
    if (!val->tensor || !tni_left_of(m, val)) continue;
    val->tensor->rows = &nowhere;
    marked++;
  }
  if (marked == m->n_left) return TN_OK;
  return tni_fail(err, TN_E_CORRUPT, dir, "'%s/%s' lists %u tensors, the model has %u of them", dir, TNI_LEFT_OUT_FILE,
                  m->n_left, marked);
}
