/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/onnx/import.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/onnx/convert.h"
#include "runtime/onnx/left_out.h"

enum { DEFAULT_DEPTH = 32, MAX_DEPTH = 128, DEFAULT_NODES = 1000000 };
#define DEFAULT_META (UINT64_C(256) << 20)
/* What protobuf-c may take: an empty sub-message of two bytes becomes a struct of a hundred. */
enum { UNPACK_FACTOR = 4 };

/* What the caller's tni_model is the first member of. */
typedef struct model {
  tni_model pub;
  bool borrowed;   /* files[0] is the caller's memory */
  tni_arena *left; /* of pub.left, or NULL */
} model;

static tni_import_limits effective_limits(const tni_import_limits *lim) {
  tni_import_limits l = lim ? *lim : (tni_import_limits){0};
  if (!l.max_depth) l.max_depth = DEFAULT_DEPTH;
  if (l.max_depth > MAX_DEPTH) l.max_depth = MAX_DEPTH; /* the importer and protobuf-c recurse */
  if (!l.max_nodes) l.max_nodes = DEFAULT_NODES;
  if (!l.max_meta) l.max_meta = DEFAULT_META;
  if (l.max_meta > UINT32_MAX) l.max_meta = UINT32_MAX;
  return l;
}

static uint32_t count_nodes(const Onnx__GraphProto *g) {
  uint64_t n = g->n_node;
  for (size_t i = 0; i < g->n_node; i++) {
    const Onnx__NodeProto *x = g->node[i];
    for (size_t k = 0; k < x->n_attribute; k++) {
      if (x->attribute[k]->g) n += count_nodes(x->attribute[k]->g);
      for (size_t j = 0; j < x->attribute[k]->n_graphs; j++) n += count_nodes(x->attribute[k]->graphs[j]);
    }
  }
  return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static tn_status describe_model(tni_import *c, const Onnx__ModelProto *m) {
  tni_model *out = c->model;
  out->ir_version = m->ir_version;
  out->producer = tni_arena_strdup(c->arena, m->producer_name ? m->producer_name : "");
  out->producer_version = tni_arena_strdup(c->arena, m->producer_version ? m->producer_version : "");
  if (!out->producer || !out->producer_version) return tni_fail_memory(c->err, c->file);
  if (!m->graph) return tni_fail(c->err, TN_E_INVALID, c->file, "the model has no graph");
  if (!m->n_opset_import) return tni_fail(c->err, TN_E_INVALID, c->file, "the model imports no opset");
  out->n_nodes_file = count_nodes(m->graph);
  return TN_OK;
}

static tn_status convert_model(tni_import *c) {
  static const tni_nested nested = {tni_convert_subgraph, tni_inline_call};
  c->nested = &nested;
  c->external = tni_map_create();
  c->functions = tni_map_create();
  c->symbols = tni_map_create();
  tn_status st = c->external && c->functions && c->symbols ? TN_OK : tni_fail_memory(c->err, c->file);
  if (!st) st = describe_model(c, c->proto);
  if (!st) st = tni_convert_model(c, c->model->graph);
  if (!st) st = tni_lengths_graph(c, c->model->graph);
  tni_map_destroy(c->external);
  tni_map_destroy(c->functions);
  tni_map_destroy(c->symbols);
  tni_nchwc_finish(c->nchwc);
  return st;
}

/* c->bytes are set; builds c->model->graph. */
static tn_status import_model(tni_import *c, uint64_t n) {
  tni_stripped s = {0};
  tni_scan_limits lim = {c->lim.max_depth, c->lim.max_meta};
  const ProtobufCMessageDescriptor *root = &onnx__model_proto__descriptor;
  ProtobufCMessage *msg;
  tn_status st = tni_scan(root, c->bytes, n, &lim, c->file, &s, c->err);
  if (st) return st;
  st = tni_unpack(root, &s, UNPACK_FACTOR * c->lim.max_meta, c->file, &c->scratch, &msg, c->err);
  if (!st) {
    c->proto = (const Onnx__ModelProto *)msg;
    c->spans = s.spans;
    c->n_spans = s.n_spans;
    free(s.msg);
    s.msg = NULL;
    st = convert_model(c);
    tni_arena_destroy(c->scratch);
  }
  tni_stripped_finish(&s);
  return st;
}

/* Puts the file's own name before a message whose `where` says something else. */
static void name_file(tn_error *err, const char *file) {
  const char *base = strrchr(file, '/');
  base = base ? base + 1 : file;
  if (err->code && strcmp(err->where, file) != 0 && !strstr(err->message, base)) tni_error_prefix(err, "%s", base);
}

static tni_model *new_model(tni_import *c, const tni_file *f, const char *path, bool borrowed) {
  model *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->borrowed = borrowed;
  m->pub.files = calloc(4, sizeof *m->pub.files);
  m->pub.paths = calloc(4, sizeof *m->pub.paths);
  c->cap_files = 4;
  if (m->pub.files && m->pub.paths && tni_graph_create(NULL, "", &m->pub.graph, NULL) == TN_OK) {
    tni_graph_bill(m->pub.graph, c->lim.budget);
    m->pub.files[0] = *f;
    m->pub.n_files = 1;
    m->pub.paths[0] = tni_arena_strdup(m->pub.graph->arena, path);
    if (m->pub.paths[0]) return &m->pub;
  }
  m->borrowed = true; /* f stays the caller's */
  tni_model_destroy(&m->pub);
  return NULL;
}

/* Takes over f unless borrowed. */
static tn_status import_mapped(const tni_file *f, const char *path, const char *dir, bool borrowed,
                               const tni_left_list *left, const tni_import_limits *lim, const tni_log *log,
                               tni_model **out, tn_error *err) {
  tn_long_error local;
  tni_long_error_init(&local);
  tni_import c = {.file = path,
                  .bytes = f->data,
                  .dir = dir,
                  .left = left->list,
                  .n_left = left->n,
                  .lim = effective_limits(lim),
                  .log = log,
                  .err = &local.error};
  c.model = new_model(&c, f, path, borrowed);
  if (!c.model) {
    tni_file mine = *f;
    if (!borrowed) tni_file_unmap(&mine);
    return tni_fail_memory(err, path);
  }
  c.arena = c.model->graph->arena;
  c.exprs = c.model->graph->exprs;
  if (!borrowed) c.origin = c.model->paths[0];
  c.model->left = left->list;
  c.model->n_left = left->n;
  c.model->whole_hash = left->hash;
  tn_status st = import_model(&c, f->bytes);
  if (!st) st = tni_left_mark(c.model, dir, &local.error);
  if (st) {
    name_file(&local.error, path);
    (void)tni_error_pass(err, st, &local.error);
    tni_model_destroy(c.model);
    return st;
  }
  *out = c.model;
  return TN_OK;
}

/* What people give in place of an ONNX file, by its first bytes. */
static const char *other_format(const tni_file *f) {
  static const struct {
    const char *bytes, *name;
  } known[] = {{"GGUF", "GGUF (llama.cpp's format)"},
               {"PK\x03\x04", "a zip file (PyTorch saves such)"},
               {"\x89HDF", "HDF5 (Keras saves such)"}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (f->bytes > 4 && memcmp(f->data, known[i].bytes, 4) == 0) return known[i].name;
  /* Eight bytes of a header's length, then the header, which is JSON. */
  if (f->bytes > 10 && memcmp((const char *)f->data + 5, "\0\0\0{\"", 5) == 0) return "safetensors";
  return NULL;
}

static tn_status map_model(const char *path, const tni_left_list *left, bool copy, tni_file *f, tn_error *err) {
  const char *slash = strrchr(path, '/');
  const int fd = tni_file_open(path);
  if (fd < 0)
    return tni_fail(err, tni_errno_status(errno, errno == ENOENT || errno == ENOTDIR ? TN_E_UNAVAILABLE : TN_E_IO),
                    path, "cannot open '%s': %s", path, strerror(errno));
  tn_status st = tni_left_map(left->list, left->n, slash ? slash + 1 : path, fd, path, copy, f, err);
  close(fd);
  const char *other = st == TN_OK ? other_format(f) : NULL;
  if (!other) return st;
  tni_file_unmap(f);
  return tni_fail(
      err, TN_E_INVALID, path,
      "'%s' is %s, not ONNX: export the model it was made from (optimum-cli export onnx --model NAME FOLDER)", path,
      other);
}

tn_status tni_import_file(const char *path, const tni_import_limits *lim, const tni_log *log, tni_model **out,
                          tn_error *err) {
  tni_file f;
  tni_left_list left = {0};
  const char *slash = strrchr(path, '/');
  char *dir = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
  tn_status st = dir ? tni_left_read(dir, &left, err) : tni_fail_memory(err, path);
  if (st == TN_OK) st = map_model(path, &left, lim && lim->copy, &f, err);
  if (st == TN_OK) st = import_mapped(&f, path, dir, false, &left, lim, log, out, err);
  free(dir);
  if (st != TN_OK) {
    tni_arena_destroy(left.arena);
    return st;
  }
  ((model *)*out)->left = left.arena;
  tni_model_rest(*out);
  return TN_OK;
}

void tni_model_rest(const tni_model *m) {
  for (uint32_t i = ((const model *)m)->borrowed ? 1 : 0; i < m->n_files; i++)
    tni_file_drop(m->files[i].data, m->files[i].bytes);
}

tn_status tni_import_bytes(const void *bytes, uint64_t n, const char *dir, const tni_import_limits *lim,
                           const tni_log *log, tni_model **out, tn_error *err) {
  tni_file f = {.data = bytes, .bytes = n};
  return import_mapped(&f, "(memory)", dir, true, &(tni_left_list){0}, lim, log, out, err);
}

void tni_model_destroy(tni_model *m) {
  if (!m) return;
  bool borrowed = ((model *)m)->borrowed;
  for (uint32_t i = borrowed ? 1 : 0; i < m->n_files; i++) tni_file_unmap(&m->files[i]);
  tni_graph_destroy(m->graph);
  tni_model_destroy(m->part);
  tni_arena_destroy(((model *)m)->left);
  free(m->files);
  free(m->paths);
  free(m);
}
