/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/onnx/wire/nchwc.h"

#include <string.h>

enum { MOST_DEPTH = 256, OF_CONCAT = 64 }; /* nodes looked back; what a second operand counts, as it branches */

typedef Onnx__NodeProto node;

/* Of a name of the main graph. */
typedef struct known {
  const node *producer;           /* NULL: an input, an initializer */
  const Onnx__TensorProto *fixed; /* initializer, or NULL */
  const Onnx__ValueInfoProto *input;
  const node *reader; /* the last one */
  uint32_t readers;
  bool convs; /* all readers are Convs of one group, which read it as their first operand */
} known;

struct tni_nchwc {
  tni_map *ids;
  known *of;
  uint32_t n;
  int64_t block; /* 0: not told */
  bool both;     /* one node tells 8, another 16 */
};

static bool is_blocked(const node *n, const char *type) {
  return n && n->domain && strcmp(n->domain, TNI_NCHWC) == 0 && (!type || strcmp(n->op_type, type) == 0);
}

static int64_t int_attr(const node *n, const char *name, int64_t dflt) {
  for (size_t i = 0; i < n->n_attribute; i++)
    if (n->attribute[i]->name && strcmp(n->attribute[i]->name, name) == 0) return n->attribute[i]->i;
  return dflt;
}

/* --- names ------------------------------------------------------------------------------------------------------- */

static known *look_up(const struct tni_nchwc *b, const char *name) {
  uint64_t i;
  return name && tni_map_get_str(b->ids, name, &i) ? &b->of[i] : NULL;
}

/* NULL: without memory. */
static known *note_name(struct tni_nchwc *b, const char *name) {
  known *k = look_up(b, name ? name : "");
  if (k) return k;
  if (!tni_map_put_str(b->ids, name ? name : "", b->n)) return NULL;
  b->of[b->n] = (known){.convs = true};
  return &b->of[b->n++];
}

static bool note_node(struct tni_nchwc *b, const node *n) {
  for (size_t i = 0; i < n->n_output; i++) {
    known *k = note_name(b, n->output[i]);
    if (!k) return false;
    k->producer = n;
  }
  for (size_t i = 0; i < n->n_input; i++) {
    known *k = note_name(b, n->input[i]);
    if (!k) return false;
    k->reader = n;
    k->readers++;
    k->convs = k->convs && i == 0 && is_blocked(n, "Conv") && int_attr(n, "group", 1) == 1;
  }
  return true;
}

static bool note_graph(tni_arena *arena, struct tni_nchwc *b, const Onnx__GraphProto *g) {
  size_t names = g->n_initializer + g->n_input + g->n_output;
  known *k;
  for (size_t i = 0; i < g->n_node; i++) names += g->node[i]->n_input + g->node[i]->n_output;
  if (!(b->of = TNI_NEW_ARRAY(arena, known, names + 1))) return false;
  for (size_t i = 0; i < g->n_node; i++)
    if (!note_node(b, g->node[i])) return false;
  for (size_t i = 0; i < g->n_initializer; i++) {
    if (!(k = note_name(b, g->initializer[i]->name))) return false;
    k->fixed = g->initializer[i];
  }
  for (size_t i = 0; i < g->n_input; i++) {
    if (!(k = note_name(b, g->input[i]->name))) return false;
    k->input = g->input[i];
  }
  for (size_t i = 0; i < g->n_output; i++) { /* who runs the model reads it */
    if (!(k = note_name(b, g->output[i]->name))) return false;
    k->readers += 2;
    k->convs = false;
  }
  return true;
}

/* --- channels ---------------------------------------------------------------------------------------------------- */

static int64_t round_up(int64_t n, int64_t block) { return (n + block - 1) / block * block; }

static int64_t filter_dim(const struct tni_nchwc *b, const node *n, uint32_t axis) {
  const known *k = n->n_input > 1 ? look_up(b, n->input[1]) : NULL;
  return k && k->fixed && k->fixed->n_dims > axis ? k->fixed->dims[axis] : -1;
}

static int64_t declared_channels(const Onnx__ValueInfoProto *v) {
  const Onnx__TypeProto *t = v ? v->type : NULL;
  if (!t || t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !t->tensor_type || !t->tensor_type->shape)
    return -1;
  const Onnx__TensorShapeProto *s = t->tensor_type->shape;
  if (s->n_dim < 2 || s->dim[1]->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE) return -1;
  return s->dim[1]->dim_value;
}

static bool is_among(const char *type, const char *const *names) {
  for (; *names; names++)
    if (strcmp(type, *names) == 0) return true;
  return false;
}

static bool takes_elements(const node *n) {
  static const char *const names[] = {"Relu",      "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid",
                                      "HardSwish", "Add",     "Sum",  "Mul",       NULL};
  return is_among(n->op_type, names);
}

static bool keeps_channels(const node *n) {
  static const char *const names[] = {"MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", NULL};
  return takes_elements(n) || is_among(n->op_type, names);
}

static int64_t channels_of(const struct tni_nchwc *b, const char *name, int64_t block, uint32_t depth);

static int64_t channels_of_concat(const struct tni_nchwc *b, const node *n, int64_t block, uint32_t depth) {
  int64_t sum = int_attr(n, "axis", 0) == 1 ? 0 : -1;
  for (size_t i = 0; sum >= 0 && i < n->n_input; i++) {
    const int64_t c = channels_of(b, n->input[i], block, depth + OF_CONCAT);
    sum = c < 0 ? -1 : sum + c;
  }
  return sum;
}

/* Operands may be broadcast: channels that all have. */
static int64_t channels_of_all(const struct tni_nchwc *b, const node *n, int64_t block, uint32_t depth) {
  const int64_t first = channels_of(b, n->input[0], block, depth + 1);
  for (size_t i = 1; i < n->n_input; i++)
    if (channels_of(b, n->input[i], block, depth + OF_CONCAT) != first) return -1;
  return first;
}

static int64_t channels_of_conv(const struct tni_nchwc *b, const known *k, int64_t block) {
  const node *n = k->producer;
  const bool leaves = k->readers == 1 && is_blocked(k->reader, "ReorderOutput");
  if (block && leaves && n->n_input < 4 && int_attr(n, "group", 1) == 1) return int_attr(k->reader, "channels", -1);
  return filter_dim(b, n, 0);
}

/* block 0: as the file has them; else as the rewritten graph does (nchwc.h). */
static int64_t channels_of(const struct tni_nchwc *b, const char *name, int64_t block, uint32_t depth) {
  static const char *const joins[] = {"Add", "Sum", "Mul", NULL};
  const known *k = look_up(b, name);
  const node *n = k ? k->producer : NULL;
  if (!n || depth > MOST_DEPTH) return k && !n ? declared_channels(k->input) : -1;
  if (is_blocked(n, "Conv")) return channels_of_conv(b, k, block);
  if (is_blocked(n, "ReorderOutput")) return int_attr(n, "channels_last", 0) ? -1 : int_attr(n, "channels", -1);
  if (is_blocked(n, "ReorderInput") && n->n_input) {
    const int64_t c = int_attr(n, "channels_last", 0) ? -1 : channels_of(b, n->input[0], block, depth + 1);
    return c < 0 || !block || k->convs ? c : round_up(c, block);
  }
  if (n->n_input == 0) return -1;
  if (is_among(n->op_type, joins)) return channels_of_all(b, n, block, depth);
  if (keeps_channels(n)) return channels_of(b, n->input[0], block, depth + 1);
  if (strcmp(n->op_type, "Conv") == 0) return filter_dim(b, n, 0);
  return strcmp(n->op_type, "Concat") == 0 ? channels_of_concat(b, n, block, depth) : -1;
}

/* Whether a value is in blocks: made by such a node, or by one that takes elements as they lie. */
static bool lies_in_blocks(const struct tni_nchwc *b, const char *name) {
  for (uint32_t depth = 0; depth < MOST_DEPTH; depth++) {
    const known *k = look_up(b, name);
    const node *n = k ? k->producer : NULL;
    if (!n || is_blocked(n, NULL)) return n && !is_blocked(n, "ReorderOutput");
    if (!n->n_input || !(takes_elements(n) || strcmp(n->op_type, "Concat") == 0)) return false;
    name = n->input[0];
  }
  return false;
}

/* --- the block --------------------------------------------------------------------------------------------------- */

static void tell(struct tni_nchwc *b, int64_t block) {
  b->both = b->both || (b->block && b->block != block);
  b->block = block;
}

static void told_by_conv(struct tni_nchwc *b, const node *n) {
  const int64_t out = filter_dim(b, n, 0), in = filter_dim(b, n, 1);
  if (out > 0 && out % 16) tell(b, 8);
  if (in < 8) return;
  if (int_attr(n, "group", 1) > 1 || lies_in_blocks(b, n->input[0])) {
    if (in % 16) tell(b, 8);
  } else if (in < 16) {
    tell(b, 16); /* a plain tensor has fewer channels than a block */
  }
}

static void told_by_output(struct tni_nchwc *b, const node *n) {
  const int64_t c = int_attr(n, "channels", -1), all = n->n_input ? channels_of(b, n->input[0], 0, 0) : -1;
  if (c <= 0 || c > INT32_MAX || all < c) return;
  if (all != round_up(c, 16)) tell(b, 8);
  if (all != round_up(c, 8)) tell(b, 16);
}

tni_nchwc *tni_nchwc_look(const Onnx__GraphProto *g, tni_arena *arena) {
  tni_nchwc *b = TNI_NEW(arena, tni_nchwc);
  if (!b || !(b->ids = tni_map_create())) return NULL;
  if (!note_graph(arena, b, g)) {
    tni_nchwc_finish(b);
    return NULL;
  }
  for (size_t i = 0; i < g->n_node; i++) {
    const node *n = g->node[i];
    if (is_blocked(n, "Conv") && n->n_input > 1) told_by_conv(b, n);
    if (is_blocked(n, "ReorderOutput")) told_by_output(b, n);
  }
  return b;
}

void tni_nchwc_finish(tni_nchwc *b) {
  if (b) tni_map_destroy(b->ids);
}

int64_t tni_nchwc_told(const tni_nchwc *b, bool *both) {
  *both = b->both;
  return b->block;
}

int64_t tni_nchwc_channels(const tni_nchwc *b, const char *name, int64_t block) {
  return channels_of(b, name, block, 0);
}
