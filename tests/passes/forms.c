/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/passes/forms.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/host/device.h"
#include "tests/shape/table.h"

enum { MAX_VALUES = 160, TEXT = 4096, NAMES = 32 };

static const struct {
  const char *name, *word;
} inputs[] = {
    {"x", "f32[b,s,8]"},       {"z", "f32[b,s,8]"},       {"q", "f32[b,2,s,8]"},       {"h", "f16[b,s,8]"},
    {"i", "i32[b,s]"},         {"l", "i64[b,s]"},         {"o", "f32[1,s,8]"},         {"a", "f32[b,s,1]"},
    {"kk", "f32[b,2,t,8]"},    {"vv", "f32[b,2,t,8]"},    {"k1", "f32[b,1,t,8]"},      {"v1", "f32[b,1,t,8]"},
    {"kl", "f32[b,t,2,8]"},    {"kq", "f32[b,2,s,8]"},    {"q8", "f32[b,2,8,t]"},      {"w4", "f32[b,2,s,12]"},
    {"mm", "f32[b,1,s,t]"},    {"mq", "f32[b,1,s,1]"},    {"bm", "bool[b,1,s,t]"},     {"fr", "f32[b,s,4]"},
    {"fs", "f32[b,s,4]"},      {"f1", "f32[1,s,4]"},      {"z3", "f32[t,b,8]"},        {"v3", "f32[b,t,8]"},
    {"m2", "f32[s,s]"},        {"m3", "f32[1,s,s]"},      {"pk", "f32[b,2,past,4]"},   {"pv", "f32[b,2,past,4]"},
    {"pl", "f32[b,past,2,4]"}, {"pt", "f32[b,2,4,past]"}, {"px", "f32[b,2,past,4]"},   {"py", "f32[b,2,past,4]"},
    {"po", "f32[b,2,o,4]"},    {"ps", "f32[past,b,2,4]"}, {"mp", "f32[b,1,s,past+s]"}, {"mb", "bool[b,1,1,past+s]"},
    {"aq", "f32[b,2,s,4]"},    {"ak", "f32[b,2,s,4]"},    {"av", "f32[b,2,s,4]"},      {"am", "i64[b,past+s]"},
    {"ai", "i32[b,past+s]"},   {"ab", "bool[b,past+s]"},  {"af", "f32[1,2,1,past+s]"}, {"as", "i64[b,s]"},
    {"ao", "i64[b,past+s]"},   {"a8", "f32[b,2,8,4]"},    {"ae", "bool[b,e]"},         {"p2", "f32[b,2,o,4]"}};
static const struct {
  const char *name;
  uint32_t dtype, rank;
  int64_t dims[4];
} constants[] = {
    {"w", TN_DT_F32, 1, {8}},           {"v", TN_DT_F32, 1, {8}},           {"k", TN_DT_F32, 3, {1, 1, 8}},
    {"hw", TN_DT_F16, 1, {8}},          {"u", TN_DT_F32, 1, {1}},           {"e", TN_DT_F32, 4, {1, 1, 1, 1}},
    {"w8", TN_DT_F32, 2, {8, 8}},       {"x8", TN_DT_F32, 2, {8, 8}},       {"y8", TN_DT_F32, 2, {8, 8}},
    {"w12", TN_DT_F32, 2, {8, 12}},     {"x12", TN_DT_F32, 2, {8, 12}},     {"w24", TN_DT_F32, 2, {8, 24}},
    {"b12", TN_DT_F32, 1, {12}},        {"b24", TN_DT_F32, 1, {24}},        {"h8", TN_DT_F16, 2, {8, 8}},
    {"t12", TN_DT_F32, 2, {12, 8}},     {"sk", TN_DT_F32, 1, {2}},          {"sk4", TN_DT_F32, 4, {1, 2, 1, 1}},
    {"cw", TN_DT_F32, 4, {4, 2, 3, 1}}, {"cg", TN_DT_F32, 4, {4, 1, 1, 3}}, {"ct", TN_DT_F32, 4, {2, 2, 2, 2}},
    {"c1", TN_DT_F32, 1, {4}},          {"c2", TN_DT_F32, 1, {4}},          {"c3", TN_DT_F32, 1, {4}},
    {"cv", TN_DT_F32, 1, {4}},          {"c4", TN_DT_F32, 4, {1, 4, 1, 1}}, {"cx", TN_DT_F32, 3, {4, 1, 1}},
    {"wi", TN_DT_I8, 2, {8, 12}},       {"wt", TN_DT_U8, 2, {12, 8}},       {"wk", TN_DT_I8, 4, {4, 2, 3, 1}},
    {"bi", TN_DT_I32, 1, {4}},          {"cs", TN_DT_F32, 1, {4}},          {"zs", TN_DT_I8, 1, {4}}};

static void fill(uint32_t dtype, void *data, int64_t n, uint32_t seed) {
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    const float f = (float)(seed >> 8) / (float)(1 << 23) * 3 - 3;
    if (dtype == TN_DT_F32) ((float *)data)[i] = f;
    if (dtype == TN_DT_F16) ((uint16_t *)data)[i] = tni_f32_to_f16(f);
    if (dtype == TN_DT_I8 || dtype == TN_DT_U8) ((uint8_t *)data)[i] = (uint8_t)(seed >> 16);
    if (dtype == TN_DT_BOOL) ((uint8_t *)data)[i] = i % 7 < 4; /* the first row is all true, none all false */
    if (dtype == TN_DT_I32) ((int32_t *)data)[i] = (int32_t)(seed >> 16) - 32768;
    if (dtype == TN_DT_I64) ((int64_t *)data)[i] = (int64_t)(seed >> 16) - 32768;
  }
}

static void add_constant(tni_graph *g, const char *name, uint32_t dtype, uint32_t rank, const int64_t *dims,
                         const void *data) {
  tni_tensor t = {.dtype = dtype, .rank = rank};
  int64_t n = 0;
  if (rank) memcpy(t.dims, dims, rank * sizeof *dims);
  CU_ASSERT_EQUAL(tni_dims_count(t.dims, rank, &n), TN_OK);
  CU_ASSERT_EQUAL(tni_dtype_bytes(dtype, n, &t.bytes), TN_OK);
  t.data = tni_arena_alloc(g->arena, t.bytes + 1, 16);
  if (data)
    memcpy(t.data, data, t.bytes);
  else
    fill(dtype, t.data, n, (uint32_t)name[0] + 7u * (uint32_t)name[1]);
  for (int64_t i = 0; i < n && !strcmp(name, "cv"); i++) ((float *)t.data)[i] = fabsf(((float *)t.data)[i]) + 0.1f;
  for (int64_t i = 0; i < n && !strcmp(name, "cs"); i++) ((float *)t.data)[i] = 0.01f + 0.002f * (float)i;
  CU_ASSERT_EQUAL(tni_value_set_tensor(g, tni_graph_add_value(g, name, TN_VALUE_CONST, dtype), &t, NULL), TN_OK);
}

/* Constant masks bool[16,16] and their like: t(riangle), b(and), n(othing of the kind). */
static void add_square(tni_graph *g, const char *name) {
  static const int64_t dims[4] = {1, 1, 16, 16};
  uint8_t data[16 * 16];
  for (int i = 0; i < 256; i++) {
    const int d = i % 16 - i / 16;
    data[i] = name[3] == 't' ? d <= 0 : name[3] == 'b' ? d <= 0 && d > -3 : d <= 0 || i == 77;
  }
  add_constant(g, name, TN_DT_BOOL, 4, dims, data);
}

/* Constants f32[1,2,1,16] whose rows are lines: al_t; al_n, all but one number. */
static void add_lines(tni_graph *g, const char *name) {
  static const int64_t dims[4] = {1, 2, 1, 16};
  float data[32];
  for (int i = 0; i < 32; i++) data[i] = (i < 16 ? 0.7f : -0.3f) * (float)(i % 16 - 15);
  if (name[3] == 'n') data[29] += 0.01f;
  add_constant(g, name, TN_DT_F32, 4, dims, data);
}

/* Constant tables f32[4,8] that hold every number twice: th_, half a row apart; tp_, side by side; tn_, all but one. */
static void add_table(tni_graph *g, const char *name) {
  static const int64_t dims[2] = {4, 8};
  float data[32];
  for (int i = 0; i < 32; i++) {
    const int pair = name[1] == 'p' ? i % 8 / 2 : i % 4;
    data[i] = sinf((float)(i / 8 * 5 + pair * 3 + name[3]));
  }
  if (name[1] == 'n') data[21] += 1;
  add_constant(g, name, TN_DT_F32, 2, dims, data);
}

/* Constants int64[8,2], for element i: pp_i (i / 2, i % 2), pp_t the other way round, pp_n from the end. */
static void add_pairs(tni_graph *g, const char *name) {
  static const int64_t dims[2] = {8, 2};
  int64_t data[16];
  for (int i = 0; i < 8; i++) {
    data[2 * i] = name[3] == 't' ? i % 2 : name[3] == 'n' ? i / 2 - 4 : i / 2;
    data[2 * i + 1] = name[3] == 't' ? i / 2 : i % 2;
  }
  add_constant(g, name, TN_DT_I64, 2, dims, data);
}

static bool is_new(const char *op) {
  static const char *const names[] = {"Attention", "RotaryEmbedding", "RMSNormalization", "Gelu", "Swish"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp(op, names[i]) == 0) return true;
  return false;
}

static void add_literal(tni_graph *g, const char *word) {
  if (word[0] == '#') {
    int64_t list[8], n = 0;
    for (char *p = (char *)word; *p; n++) list[n] = strtoll(p + 1, &p, 10);
    add_constant(g, word, TN_DT_I64, 1, &n, list);
    return;
  }
  static const int64_t ones[] = {1, 1, 1, 1};
  char *end;
  if (word[0] == '%') {
    const int64_t v = strtoll(word + 1, NULL, 10);
    add_constant(g, word, TN_DT_I64, 0, NULL, &v);
    return;
  }
  float f = strtof(word, &end);
  if (*end == 'b' || *end == 'c') {
    const uint8_t byte = (uint8_t)(int)f;
    add_constant(g, word, *end == 'b' ? TN_DT_U8 : TN_DT_I8, 0, NULL, &byte);
    return;
  }
  uint16_t half = tni_f32_to_f16(f);
  add_constant(g, word, *end == 'h' ? TN_DT_F16 : TN_DT_F32, *end == 'r' ? 4 : 0, ones,
               *end == 'h' ? (void *)&half : (void *)&f);
}

static void need(tni_graph *g, const char *word) {
  if (tni_graph_find(g, word) != TN_NONE) return;
  if (strncmp(word, "sq_", 3) == 0) add_square(g, word);
  if (strncmp(word, "al_", 3) == 0) add_lines(g, word);
  if (strncmp(word, "pp_", 3) == 0) add_pairs(g, word);
  if (word[0] == 't' && word[1] && word[2] == '_') add_table(g, word);
  for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++)
    if (strcmp(word, inputs[i].name) == 0) add_word(g, word, inputs[i].word);
  for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
    if (strcmp(word, constants[i].name) == 0)
      add_constant(g, word, constants[i].dtype, constants[i].rank, constants[i].dims, NULL);
  if (tni_graph_find(g, word) == TN_NONE) add_literal(g, word);
}

/* Names without '!', which mark graph outputs. */
static void take_names(char *out, char *marked) {
  char *to = out;
  *marked = 0;
  for (const char *p = out; *p; p++) {
    if (*p == '!') strncat(strcat(marked, " "), p + 1, strcspn(p + 1, ", "));
    if (*p != '!') *to++ = *p == ',' ? ' ' : *p;
  }
  *to = 0;
}

/* "out,!out=Op in in {attr=1&attr=2}"; with '!': a graph output. out: the first; marked: all of those. */
static void add_statement(tni_graph *g, char *s, char *out, char *marked, tn_error *err) {
  char *eq = strchr(s, '='), *brace = strchr(s, '{'), attrs[64] = "", operands[128] = "", *save = NULL;
  if (brace) {
    snprintf(attrs, sizeof attrs, "%.*s", (int)strcspn(brace + 1, "}"), brace + 1);
    *brace = 0;
  }
  for (char *p = attrs; *p; p++) *p = *p == '&' ? ';' : *p;
  snprintf(out, NAMES, "%.*s", (int)(eq - s), s);
  char *op = strtok_r(eq + 1, " ", &save);
  for (char *p; (p = strtok_r(NULL, " ", &save));) {
    if (strcmp(p, "-") != 0) need(g, p);
    strcat(strcat(operands, p), " ");
  }
  take_names(out, marked);
  CU_ASSERT_EQUAL(add_op(g, op, is_new(op) ? 25 : 18, operands, out, attrs, err), TN_OK);
  out[strcspn(out, " ")] = 0;
}

tni_graph *form_graph(const char *text, tn_error *err) {
  tni_graph *g = NULL;
  char copy[TEXT], out[NAMES], marked[NAMES], *save = NULL, *rest = NULL;
  tn_id in[MAX_VALUES], outputs[FORM_OUTPUTS];
  uint32_t n_in = 0, n_out = 0;
  snprintf(copy, sizeof copy, "%s", text);
  CU_ASSERT_EQUAL_FATAL(tni_graph_create(NULL, "t", &g, err), TN_OK);
  for (char *s = strtok_r(copy, ";", &save); s; s = strtok_r(NULL, ";", &save)) {
    add_statement(g, s + strspn(s, " "), out, marked, err);
    for (char *p = strtok_r(marked, " ", &rest); p && n_out < FORM_OUTPUTS - 1; p = strtok_r(NULL, " ", &rest))
      outputs[n_out++] = tni_graph_find(g, p);
  }
  for (uint32_t i = 0; i < g->n_values; i++)
    if (g->values[i]->pub.kind == TN_VALUE_INPUT) in[n_in++] = i;
  outputs[n_out++] = tni_graph_find(g, out);
  CU_ASSERT_EQUAL(tni_graph_set_io(g, in, n_in, outputs, n_out), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_finish(g, err), TN_OK);
  CU_ASSERT_EQUAL(tni_infer_graph(g, err), TN_OK);
  CU_ASSERT_EQUAL(tni_infer_graph(g, err), TN_OK); /* with the facts that the first found */
  return g;
}

/* --- text --- */

static const char *operand_name(const tni_graph *g, tn_id id, uint32_t n_before) {
  const tni_value *v = tni_graph_value(g, id);
  float f = 0;
  if (id == TN_NONE) return "-";
  if (id < n_before) return v->pub.name;
  if (v->pub.kind == TN_VALUE_ACT) return "?";
  if (v->pub.kind == TN_VALUE_STATE) return v->pub.producer == TN_NONE ? "cache" : "cache'";
  if (v->pub.kind == TN_VALUE_STEP) return id == g->step_pos ? "pos" : id == g->step_valid ? "valid" : "step";
  if (!v->tensor || v->tensor->dims[0] != 8) return "const";
  tni_tensor_to_f32(v->tensor, 7, 1, &f);
  return f == 1 && v->tensor->dtype != TN_DT_I64 ? "ones" : "const";
}

/* "{0:0+8 1:0+8| Add(0,1) Neg(2)| 3}": parts as weight:first+count (T behind it: transposed), instructions, results. */
static void print_chain(const tni_node *n, char *out) {
  const int64_t *v;
  const char *gap = "";
  uint32_t len = tni_attr_ints(&n->pub, "parts", &v);
  out += strlen(out) + (size_t)sprintf(out + strlen(out), " {");
  for (uint32_t i = 0; i < len; i += 3, gap = " ")
    out += sprintf(out, "%s%d:%d+%d", gap, (int)v[i], (int)v[i + 1], (int)v[i + 2]);
  if (len) out += sprintf(out, "%s|", tni_attr_i(&n->pub, "trans_b", 0) ? "T" : "");
  len = tni_attr_ints(&n->pub, "ops", &v);
  for (uint32_t i = 0; i < len; i += 3) {
    out += sprintf(out, "%s%s(%d", i || n->pub.op == TN_OP_FUSED_MATMUL ? " " : "", tni_op_by_id((uint32_t)v[i])->name,
                   (int)v[i + 1]);
    out += v[i + 2] < 0 ? sprintf(out, ")") : sprintf(out, ",%d)", (int)v[i + 2]);
  }
  len = tni_attr_ints(&n->pub, "results", &v);
  out += sprintf(out, "|");
  for (uint32_t i = 0; i < len; i++) out += sprintf(out, " %d", (int)v[i]);
  sprintf(out, "}");
}

static void print_attrs(const tni_node *n, char *out) {
  char one[64];
  const int64_t *perm;
  one[0] = 0;
  if (n->pub.op == TN_OP_FUSED_MATMUL || n->pub.op == TN_OP_ELEMENTWISE) print_chain(n, out);
  if (tni_attr(&n->pub, "epsilon")) snprintf(one, sizeof one, " {epsilon=%g}", tni_attr_f(&n->pub, "epsilon", 0));
  if (tni_attr(&n->pub, "alpha")) snprintf(one, sizeof one, " {alpha=%g}", tni_attr_f(&n->pub, "alpha", 0));
  if (tni_attr(&n->pub, "approximate"))
    snprintf(one, sizeof one, " {approximate=%s}", tni_attr_s(&n->pub, "approximate", ""));
  if (n->pub.op == TN_OP_CAST) snprintf(one, sizeof one, " {to=%d}", (int)tni_attr_i(&n->pub, "to", 0));
  if (tni_is_attention(n->pub.op))
    snprintf(one, sizeof one, " {scale=%g softcap=%g}", tni_attr_f(&n->pub, "scale", 0),
             tni_attr_f(&n->pub, "softcap", 0));
  if (tni_is_attention(n->pub.op) && tni_attr_i(&n->pub, "is_causal", 0)) strcat(one, " causal");
  for (uint32_t i = 0; tni_is_attention(n->pub.op) && i < 2; i++) {
    const int64_t w = tni_attr_i(&n->pub, i ? "right_window_size" : "left_window_size", -1);
    const size_t len = strlen(one);
    if (w >= 0) snprintf(one + len, sizeof one - len, " %s=%d", i ? "right" : "left", (int)w);
  }
  const int64_t heads = tni_attr_i(&n->pub, "q_num_heads", tni_attr_i(&n->pub, "num_heads", 0));
  if (n->pub.op == TN_OP_ROTARY_EMBEDDING)
    snprintf(one, sizeof one, " {dim=%d}%s", (int)tni_attr_i(&n->pub, "rotary_embedding_dim", 0),
             tni_attr_i(&n->pub, "interleaved", 0) ? " interleaved" : "");
  if (n->pub.op == TN_OP_TENSOR_SCATTER) snprintf(one, sizeof one, " {axis=%d}", (int)tni_attr_i(&n->pub, "axis", 0));
  strcat(out, one);
  if (heads) {
    snprintf(one, sizeof one, " heads=%d/%d", (int)heads, (int)tni_attr_i(&n->pub, "kv_num_heads", heads));
    strcat(out, one);
  }
  uint32_t len = tni_attr_ints(&n->pub, "perm", &perm);
  for (uint32_t i = 0; i < len; i++) {
    snprintf(one, sizeof one, "%s%d%s", i ? "," : " {perm=", (int)perm[i], i + 1 == len ? "}" : "");
    strcat(out, one);
  }
}

static void print(const tni_graph *g, uint32_t n_before, char *out) {
  *out = 0;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const tni_node *n = g->nodes[i];
    if (n->dead) continue;
    if (*out) strcat(out, "; ");
    for (uint32_t k = 0; k < n->pub.n_out; k++)
      strcat(strcat(out, k ? "," : ""), operand_name(g, n->pub.out[k], n_before));
    strcat(strcat(out, "="), n->type);
    for (uint32_t k = 0; k < n->pub.n_in; k++) strcat(strcat(out, " "), operand_name(g, n->pub.in[k], n_before));
    print_attrs(n, out);
  }
}

/* --- numbers --- */

static void find_sizes(const tni_graph *g, const form_sizes *z, int64_t *sizes) {
  for (uint32_t i = 0; i < tni_ex_n_symbols(g->exprs); i++) {
    const char *name = tni_ex_symbol_name(g->exprs, i);
    sizes[i] = strcmp(name, "e") == 0                                ? 1
               : strcmp(name, "b") == 0                              ? z->b
               : strcmp(name, "past") == 0 || strcmp(name, "o") == 0 ? z->past
                                                                     : z->s;
  }
}

/* Masks of keys: mostly 1. */
static void fill_keys(tni_tensor *t, int64_t n) {
  static const int32_t values[8] = {1, 0, 1, 1, 0, 1, 2, 1};
  for (int64_t i = 0; i < n; i++) {
    if (t->dtype == TN_DT_I64) ((int64_t *)t->data)[i] = values[((int64_t *)t->data)[i] & 7];
    if (t->dtype == TN_DT_I32) ((int32_t *)t->data)[i] = values[((int32_t *)t->data)[i] & 7];
  }
}

static void give(const tni_graph *g, tn_id id, const int64_t *sizes, uint32_t seed, tni_arena *a, tni_tensor *t) {
  const tni_value *v = g->values[id];
  const uint32_t n_sizes = tni_ex_n_symbols(g->exprs);
  int64_t count = 0;
  if (v->pub.kind == TN_VALUE_CONST) *t = *v->tensor;
  if (v->pub.kind != TN_VALUE_INPUT && v->pub.kind != TN_VALUE_STEP) return;
  *t = (tni_tensor){.dtype = v->pub.dtype, .rank = v->pub.rank};
  for (uint32_t d = 0; d < t->rank; d++)
    CU_ASSERT_EQUAL(tni_ex_eval(g->exprs, v->pub.dims[d], sizes, n_sizes, &t->dims[d]), TN_OK);
  CU_ASSERT_EQUAL(tni_dims_count(t->dims, t->rank, &count), TN_OK);
  CU_ASSERT_EQUAL(tni_dtype_bytes(t->dtype, count, &t->bytes), TN_OK);
  t->data = tni_arena_alloc(a, t->bytes + 1, 16);
  if (v->pub.kind == TN_VALUE_INPUT)
    fill(t->dtype, t->data, count, (uint32_t)v->pub.name[0] + 7u * (uint32_t)v->pub.name[1] + seed);
  else if (v->elems)
    CU_ASSERT_EQUAL(tni_step_write(g, id, sizes, n_sizes, t->data, t->bytes), TN_OK);
  if (v->pub.kind == TN_VALUE_INPUT && v->pub.name[0] == 'a') fill_keys(t, count);
  if (v->pub.kind == TN_VALUE_INPUT && strcmp(v->pub.name, "ao") == 0)
    for (int64_t k = 0; k < count; k++) ((int64_t *)t->data)[k] &= 1;
}

void form_run(const tni_graph *g, const form_sizes *z, tni_arena *a, tni_tensor *outputs) {
  static tni_tensor t[MAX_VALUES];
  int64_t sizes[16] = {0};
  tn_error err;
  tni_error_init(&err);
  memset(t, 0, sizeof t);
  CU_ASSERT_FATAL(g->n_values <= MAX_VALUES);
  find_sizes(g, z, sizes);
  if (g->rows_symbol != TN_NONE && z->rows) sizes[g->rows_symbol] = z->rows;
  for (uint32_t i = 0; i < g->n_values; i++) give(g, i, sizes, z->seed, a, &t[i]);
  form_load_caches(g, z, sizes, a, t);
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const tni_node *n = g->nodes[i];
    const tni_tensor *in[24];
    tni_tensor out[FORM_OUTPUTS];
    if (n->dead) continue;
    for (uint32_t k = 0; k < n->pub.n_in; k++) in[k] = n->pub.in[k] == TN_NONE ? NULL : &t[n->pub.in[k]];
    tn_status st = tni_ops_eval(NULL, n, in, n->pub.n_in, out, n->pub.n_out, a, &err);
    CU_ASSERT_EQUAL(st, TN_OK);
    if (st != TN_OK) printf("\n  %s: %s\n", n->type, err.message);
    for (uint32_t k = 0; k < n->pub.n_out; k++)
      if (n->pub.out[k] != TN_NONE) t[n->pub.out[k]] = out[k];
  }
  form_give_present(g, sizes, a, t);
  for (uint32_t i = 0; i < g->n_outputs; i++) outputs[i] = t[g->outputs[i]];
}

static double at(const tni_tensor *t, int64_t i) {
  float f;
  if (t->dtype == TN_DT_I64) return (double)((const int64_t *)t->data)[i];
  if (t->dtype == TN_DT_F64) return ((const double *)t->data)[i];
  tni_tensor_to_f32(t, i, 1, &f);
  return (double)f;
}

bool form_same(const tni_tensor *a, const tni_tensor *b, double tolerance) {
  int64_t n = 0;
  double worst = 0, largest = 0;
  if (a->dtype != b->dtype || a->rank != b->rank || memcmp(a->dims, b->dims, a->rank * sizeof *a->dims)) return false;
  if (tni_dims_count(a->dims, a->rank, &n) != TN_OK) return false;
  for (int64_t i = 0; i < n; i++) {
    const double d = fabs(at(a, i) - at(b, i));
    if (!(d <= worst)) worst = d;
    if (fabs(at(a, i)) > largest) largest = fabs(at(a, i));
  }
  if (a->dtype == TN_DT_F16 && tolerance > 0) tolerance = 2e-3;
  return worst <= tolerance * largest;
}

static void run_form(const form *f, pass_fn pass, double tolerance, const form_sizes *sizes) {
  char text[TEXT], want[TEXT];
  tn_error err;
  uint32_t fired = 99;
  tni_error_init(&err);
  tni_graph *g = form_graph(f->before, &err), *plain = form_graph(f->before, &err);
  tni_arena *a = tni_arena_create();
  tni_graph_dce(plain);
  print(plain, plain->n_values, want);
  const uint32_t n_before = g->n_values;
  CU_ASSERT_EQUAL(pass(g, &fired, &err), TN_OK);
  tni_graph_dce(g);
  CU_ASSERT_EQUAL(tni_graph_finish(g, &err), TN_OK);
  CU_ASSERT_EQUAL(tni_infer_graph(g, &err), TN_OK);
  print(g, n_before, text);
  const char *expected = f->after[0] ? f->after : want;
  bool ok = strcmp(text, expected) == 0 && (fired == 0) == (f->after[0] == 0);
  CU_ASSERT_TRUE(ok);
  if (!ok)
    printf("\n  %s\n  gives    %s\n  expected %s (fired %u) %s\n", f->before, text, expected, fired, err.message);
  tni_tensor x[FORM_OUTPUTS], y[FORM_OUTPUTS];
  form_run(plain, sizes, a, x);
  form_run(g, sizes, a, y);
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    ok = form_same(&x[i], &y[i], tolerance);
    CU_ASSERT_TRUE(ok);
    if (!ok) printf("\n  %s: other numbers in output %u\n", f->before, i);
  }
  tni_arena_destroy(a);
  tni_graph_destroy(g);
  tni_graph_destroy(plain);
}

void run_forms_at(const form *f, size_t n, pass_fn pass, double tolerance, const form_sizes *sizes) {
  for (size_t i = 0; i < n; i++) run_form(&f[i], pass, tolerance, sizes);
}

void run_forms(const form *f, size_t n, pass_fn pass, double tolerance) {
  static const form_sizes sizes = {.b = 2, .s = 3, .past = 5};
  run_forms_at(f, n, pass, tolerance, &sizes);
}
