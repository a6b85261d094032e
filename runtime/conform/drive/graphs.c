/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/drive/graphs.h"

#include <stdio.h>
#include <string.h>

#define F32 TN_DT_F32
/* clang-format off */
#define OP(op_, version_, inputs_, attrs_)                                                                           \
  .spec = {.op = op_, .version = version_, .inputs = inputs_, .attrs = attrs_, .dtype = F32, .n_out = 1, .scale = 0.25f}
#define TENON(op_, inputs_, attrs_)                                                                                  \
  .spec = {.op = op_, .domain = "tenon", .version = 1, .inputs = inputs_, .attrs = attrs_, .dtype = F32, .n_out = 1, \
           .scale = 0.25f}
/* clang-format on */

enum {
  MM = TNI_CF_LEVEL_MATMUL | TNI_CF_LEVEL_LLM | TNI_CF_LEVEL_VISION,
  LLM = TNI_CF_LEVEL_LLM,
  VISION = TNI_CF_LEVEL_VISION
};

/* --- several nodes ----------------------------------------------------------------------------------------------- */

static tn_id graph_input(tni_cn_graph *b, const char *name, const char *dims) {
  const tn_id v = tni_cn_value(b, name, TN_VALUE_INPUT, F32, dims);
  b->operand[b->n_in] = (tni_cn_operand){.kind = 'x', .value = v};
  b->in[b->n_in++] = v;
  return v;
}

static tn_id graph_weight(tni_cn_graph *b, const char *name, int64_t K, int64_t N, tni_cf_rng *r) {
  const int64_t dims[2] = {K, N};
  float *w = TNI_NEW_ARRAY(b->g->arena, float, (size_t)(K * N));
  for (int64_t i = 0; w && i < K * N; i++) w[i] = 0.25f * (float)tni_cf_rng_normal(r);
  return w ? tni_cn_constant(b, name, F32, 2, dims, w) : TN_NONE;
}

static tn_id node_apply(tni_cn_graph *b, const char *op, int64_t version, tn_id x, tn_id y, const char *name) {
  const tn_id in[2] = {x, y}, out = tni_cn_value(b, name, TN_VALUE_ACT, F32, "?");
  return tni_cn_node(b, "", op, version, in, y == TN_NONE ? 1 : 2, &out, 1, NULL, 0) ? out : TN_NONE;
}

static bool graph_finish(tni_cn_graph *b, const tn_id *out, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (out[i] == TN_NONE) return false;
    b->out[b->n_out++] = out[i];
  }
  return tni_cn_end(b);
}

/* Three products of one activation: what q, k and v are. */
static bool make_qkv(tni_cn_graph *b, tni_cf_rng *r) {
  if (!tni_cn_begin(b, F32)) return false;
  const tn_id x = graph_input(b, "x", "S,64"), q = graph_weight(b, "wq", 64, 64, r),
              k = graph_weight(b, "wk", 64, 32, r), v = graph_weight(b, "wv", 64, 32, r);
  const tn_id out[3] = {node_apply(b, "MatMul", 13, x, q, "q"), node_apply(b, "MatMul", 13, x, k, "k"),
                        node_apply(b, "MatMul", 13, x, v, "v")};
  return graph_finish(b, out, 3);
}

/* One product after the other; nothing else reads the value between them. */
static bool make_two(tni_cn_graph *b, tni_cf_rng *r) {
  if (!tni_cn_begin(b, F32)) return false;
  const tn_id x = graph_input(b, "x", "S,64"), u = graph_weight(b, "u", 64, 128, r),
              d = graph_weight(b, "d", 128, 64, r);
  const tn_id y = node_apply(b, "MatMul", 13, node_apply(b, "MatMul", 13, x, u, "m"), d, "y");
  return graph_finish(b, &y, 1);
}

bool tni_cf_graph_random(tni_cn_graph *b, uint32_t n, tni_cf_rng *r) {
  enum { MOST = 64 };
  static const char *const one[] = {"Relu", "Sigmoid", "Tanh", "Neg"}, *const two[] = {"Add", "Mul", "Sub"};
  tn_id v[MOST] = {0};
  char name[16];
  uint32_t have = 2;
  if (n > MOST - 2) n = MOST - 2;
  if (n == 0) n = 1;
  if (!tni_cn_begin(b, F32)) return false;
  v[0] = graph_input(b, "x0", "S,48");
  v[1] = graph_input(b, "x1", "S,48");
  for (uint32_t i = 0; i < n; i++) {
    const tn_id a = v[tni_cf_rng_next(r) % have], c = v[tni_cf_rng_next(r) % have];
    const uint64_t kind = tni_cf_rng_next(r) % 4;
    snprintf(name, sizeof name, "v%u", i);
    if (kind == 0) {
      char w[16];
      snprintf(w, sizeof w, "w%u", i);
      v[have] = node_apply(b, "MatMul", 13, a, graph_weight(b, w, 48, 48, r), name);
    } else if (kind == 1) {
      v[have] = node_apply(b, one[tni_cf_rng_next(r) % 4], 13, a, TN_NONE, name);
    } else {
      v[have] = node_apply(b, two[tni_cf_rng_next(r) % 3], 14, a, c, name);
    }
    if (v[have++] == TN_NONE) return false;
  }
  tn_id out[3] = {v[have - 1], v[have - 2], TN_NONE};
  const tn_id middle = v[2 + tni_cf_rng_next(r) % n];
  uint32_t n_out = n > 1 ? 2 : 1;
  if (middle != out[0] && middle != out[1]) out[n_out++] = middle;
  return graph_finish(b, out, n_out);
}

/* --- the table --------------------------------------------------------------------------------------------------- */

static const tni_cf_graph_row graph_rows[] = {
    {"matmul/2d", MM, OP("MatMul", 13, "x[S,64] w[64,48]", "")},
    {"matmul/3d", 0, OP("MatMul", 13, "x[1,S,64] w[64,48]", "")},
    {"matmul/vector", 0, OP("MatMul", 13, "x[64] w[64,48]", "")},
    {"matmul/batch", 0, OP("MatMul", 13, "x[3,S,64] w[64,64]", "")},
    {"matmul/4d", 0, OP("MatMul", 13, "x[2,3,S,40] w[40,24]", "")},
    {"matmul/large", 0, OP("MatMul", 13, "x[S,256] w[256,192]", "")},
    {"matmul/odd", 0, OP("MatMul", 13, "x[S,129] w[129,33]", "")},
    {"matmul/activations", 0, OP("MatMul", 13, "x[2,S,32] x[2,32,24]", "")},
    /* What is not a constant matrix on the right. */
    {"matmul/const-left", 0, OP("MatMul", 13, "w[48,64] x[64,S]", "")},
    {"matmul/weight-3d", 0, OP("MatMul", 13, "x[2,S,64] w[2,64,48]", "")},
    {"matmul/weight-vector", 0, OP("MatMul", 13, "x[S,64] w[64]", "")},
    {"gemm/activations", 0, OP("Gemm", 13, "x[S,32] x[32,24]", "")},
    {"gemm/const-left", 0, OP("Gemm", 13, "w[24,32] x[32,S]", "")},
    {"gemm/factors", 0, OP("Gemm", 13, "x[S,64] w[48,64] x[48]", "transB=1 alpha=0.5 beta=-2")},
    {"matmul/siblings", 0, .make = make_qkv},
    {"matmul/chain", 0, .make = make_two},
    {"gemm/plain", 0, OP("Gemm", 13, "x[S,64] w[64,48]", "")},
    {"gemm/transposed", 0, OP("Gemm", 13, "x[S,64] w[48,64]", "transB=1")},
    {"gemm/bias", VISION, OP("Gemm", 13, "x[S,64] w[48,64] w[48]", "transB=1")},
    {"fused/plain", LLM, TENON("FusedMatMul", "x[S,64] w[64,48]", "results=0 n_weights=1 trans_b=0 parts=0,0,48")},
    {"fused/swiglu", LLM,
     TENON("FusedMatMul", "x[S,64] w[64,48] w[64,48]",
           "ops=23,0,-1,42,2,1 floats=1,0 results=3 n_weights=2 trans_b=0 parts=0,0,48,1,0,48")},
    {"fused/residual", LLM,
     TENON("FusedMatMul", "x[S,64] w[64,48] x[S,48]",
           "ops=40,0,1 floats=0 results=2 n_weights=1 trans_b=0 parts=0,0,48")},
    {"elementwise/chain", LLM, TENON("Elementwise", "x[S,64] x[S,64]", "ops=23,0,-1,42,2,1 floats=1,0 results=3")},
    {"add", LLM | VISION, OP("Add", 14, "x[S,64] x[S,64]", "")},
    {"add/row", 0, OP("Add", 14, "x[S,64] w[64]", "")},
    {"sub", 0, OP("Sub", 14, "x[S,64] x[S,64]", "")},
    {"mul", LLM, OP("Mul", 14, "x[S,64] x[S,64]", "")},
    {"div", 0, OP("Div", 14, "x[S,64] x[S,64]", "")},
    {"neg", 0, OP("Neg", 13, "x[S,64]", "")},
    {"exp", 0, OP("Exp", 13, "x[S,64]", "")},
    {"sqrt", 0, OP("Sqrt", 13, "x[S,64]", "")},
    {"erf", 0, OP("Erf", 13, "x[S,64]", "")},
    {"relu", VISION, OP("Relu", 14, "x[S,64]", "")},
    {"sigmoid", 0, OP("Sigmoid", 13, "x[S,64]", "")},
    {"tanh", 0, OP("Tanh", 13, "x[S,64]", "")},
    {"gelu", 0, OP("Gelu", 20, "x[S,64]", "")},
    {"abs", 0, OP("Abs", 13, "x[S,64]", "")},
    {"leakyrelu", 0, OP("LeakyRelu", 16, "x[S,64]", "alpha=0.1")},
    {"elu", 0, OP("Elu", 6, "x[S,64]", "alpha=0.5")},
    {"hardsigmoid", 0, OP("HardSigmoid", 6, "x[S,64]", "")},
    {"max", 0, OP("Max", 13, "x[S,64] x[S,64]", "")},
    {"swish", 0, OP("Swish", 24, "x[S,64]", "")},
    {"clip", VISION, OP("Clip", 13, "x[S,64] c[] c[]", "")},
    {"where", 0, OP("Where", 16, "b[S,64] x[S,64] x[S,64]", "")},
    {"softmax", VISION, OP("Softmax", 13, "x[S,64]", "axis=-1")},
    {"layernorm", VISION, OP("LayerNormalization", 17, "x[S,64] w[64] w[64]", "axis=-1 epsilon=1e-5")},
    {"rmsnorm", LLM, OP("RMSNormalization", 23, "x[S,64] w[64]", "axis=-1 epsilon=1e-5")},
    {"rotary", LLM, OP("RotaryEmbedding", 23, "x[1,4,S,16] f[128,8] f[128,8] i[1,S]<128>", "")},
    {"attention", 0, OP("Attention", 23, "x[1,4,S,16] x[1,2,S,16] x[1,2,S,16]", "is_causal=1")},
    {"gather/rows", LLM, OP("Gather", 13, "w[50,64] i[1,S]<50>", "axis=0")},
    {"transpose", VISION, OP("Transpose", 13, "x[S,4,16]", "perm=1,0,2")},
    {"concat", VISION, OP("Concat", 13, "x[S,16] x[S,32]", "axis=1")},
    {"reduce/mean", VISION, OP("ReduceMean", 18, "x[S,64] k[1]=1", "")},
    {"reduce/sum", 0, OP("ReduceSum", 13, "x[S,64] k[1]=1", "")},
    {"reduce/max", 0, OP("ReduceMax", 18, "x[S,64] k[1]=1", "")},
    {"conv/3x3", VISION, OP("Conv", 11, "x[1,8,S,12] w[16,8,3,3] w[16]", "pads=1,1,1,1 kernel_shape=3,3")},
    {"conv/depthwise", VISION, OP("Conv", 11, "x[1,8,S,12] w[8,1,3,3]", "pads=1,1,1,1 group=8 kernel_shape=3,3")},
    {"pool/max", VISION, OP("MaxPool", 12, "x[1,8,S,12]", "kernel_shape=2,2 strides=2,2")},
    {"pool/average", VISION, OP("AveragePool", 19, "x[1,8,S,12]", "kernel_shape=2,2 strides=2,2")},
    {"pool/global", VISION, OP("GlobalAveragePool", 1, "x[1,8,S,12]", "")},
    {"pool/global-max", 0, OP("GlobalMaxPool", 1, "x[1,8,S,12]", "")},
    /* Bytes: unsigned and signed, zero points that are not 0, scales of each channel. */
    {"quant/conv", 0,
     OP("QLinearConv", 10, "u[1,8,S,12] q[]=0.02 U[]=131 I[16,8,3,3] q[16] I[16]=0 q[]=0.9 U[]=119 N[16]", "pads=1,1,1,1")},
    {"quant/conv-integer", 0, OP("ConvInteger", 10, "u[1,8,S,12] I[16,8,3,3] U[]=131 I[]=3", "pads=1,1,1,1")},
    {"quant/matmul", 0, OP("QLinearMatMul", 21, "s[S,64] q[]=0.02 I[]=-5 I[64,48] q[48] I[48]=0 q[]=0.5 I[]=7", "")},
    {"quant/matmul-integer", 0, OP("MatMulInteger", 10, "u[S,64] I[64,48] U[]=131 I[]=0", "")},
    {"quant/integer-to-float", 0, TENON("MatMulIntegerToFloat", "u[S,64] I[64,48] q[] U[]=131 I[]=0 c[48]", "")},
    {"quant/quantize", 0, OP("QuantizeLinear", 13, "x[S,64] q[]=0.03 U[]=131", "")},
    {"quant/dequantize", 0, OP("DequantizeLinear", 13, "u[S,64] q[]=0.03 U[]=131", "")},
    {"quant/dynamic", 0, .spec = {.op = "DynamicQuantizeLinear", .inputs = "x[S,64]", .attrs = "", .version = 11,
                                  .dtype = TN_DT_F32, .n_out = 3, .scale = 1}},
    {"hardswish", 0, OP("HardSwish", 14, "x[S,64]", "")},
    {"batchnorm", VISION, OP("BatchNormalization", 15, "x[1,8,S,12] w[8] w[8] w[8] w[8]", "")},
};

const tni_cf_graph_row *tni_cf_graph_rows(uint32_t *n) {
  *n = sizeof graph_rows / sizeof *graph_rows;
  return graph_rows;
}

const tni_cf_graph_row *tni_cf_graph_find(const char *name) {
  for (size_t i = 0; i < sizeof graph_rows / sizeof *graph_rows; i++)
    if (!strcmp(graph_rows[i].name, name)) return &graph_rows[i];
  return NULL;
}

/* What normal values look like to a calibration: no channel is an outlier. */
enum { MOST_CHANNELS = 1 << 22 };
bool tni_cf_graph_stats(tni_cn_graph *b) {
  for (uint32_t i = 0; i < b->g->n_values; i++) {
    tn_value *v = &b->g->values[i]->pub;
    int64_t n = 0;
    if (v->kind == TN_VALUE_CONST || v->dtype != F32 || !v->rank || v->rank > TN_MAX_RANK) continue;
    if (!tni_ex_is_const(b->g->exprs, v->dims[v->rank - 1], &n) || n < 1 || n > MOST_CHANNELS) continue;
    tn_stats *s = TNI_NEW(b->g->arena, tn_stats);
    float *zeros = TNI_NEW_ARRAY(b->g->arena, float, (size_t)n), *ones = TNI_NEW_ARRAY(b->g->arena, float, (size_t)n);
    if (!s || !zeros || !ones) return false;
    for (int64_t k = 0; k < n; k++) zeros[k] = 0, ones[k] = 1;
    *s = (tn_stats){.h = TN_HDR(tn_stats),
                    .absmax = 6,
                    .p999 = 4,
                    .n = (uint32_t)n,
                    .ch_over = zeros,
                    .ch_mean = zeros,
                    .ch_weight = ones,
                    .rows = 1000};
    v->stats = s;
  }
  return true;
}

bool tni_cf_graph_make(const tni_cf_graph_row *row, tni_cn_graph *b, tni_cf_rng *r) {
  const bool ok = row->make ? row->make(b, r) : tni_cn_build(b, &row->spec, r);
  return ok && tni_cf_graph_stats(b);
}

/* --- a graph on a device ----------------------------------------------------------------------------------------- */

static bool rig_failed(tni_cf_rig *rig, const char *step, const char *why) {
  snprintf(rig->why, sizeof rig->why, "%s%s%s", step, *why ? ": " : "", why);
  return false;
}

bool tni_cf_rig_claim_made(tni_cf_rig *rig, tni_cf_host *h, uint32_t phase) {
  rig->h = h;
  rig->arena = tni_arena_create();
  rig->d.flip = UINT64_MAX;
  if (!rig->arena) return rig_failed(rig, "no memory", "");
  if (!tni_cf_drive_claim(&rig->d, h, rig->b.g, phase)) return rig_failed(rig, rig->d.why, "");
  rig->refused = !rig->d.all_taken;
  if (rig->refused)
    return rig_failed(rig, "refused", rig->d.refusal && rig->d.refusal->text ? rig->d.refusal->text : "");
  return true;
}

bool tni_cf_rig_claim(tni_cf_rig *rig, tni_cf_host *h, const tni_cf_graph_row *row, uint32_t phase, tni_cf_rng *r) {
  memset(rig, 0, sizeof *rig);
  if (!tni_cf_graph_make(row, &rig->b, r)) return rig_failed(rig, row->name, rig->b.err.message);
  return tni_cf_rig_claim_made(rig, h, phase);
}

static void fill_input(const tni_cf_rig *rig, uint32_t i, tni_cf_rng *r) {
  const tni_tensor *t = &rig->in[i];
  const int64_t n = tni_cn_count(t);
  int64_t limit = 1;
  for (uint32_t k = 0; k < TNI_CN_MAX_IN; k++)
    if (rig->b.operand[k].value == rig->b.in[i] && rig->b.operand[k].limit) limit = rig->b.operand[k].limit;
  for (int64_t k = 0; k < n; k++) {
    if (t->dtype == F32)
      ((float *)t->data)[k] = (float)tni_cf_rng_normal(r);
    else if (t->dtype == TN_DT_I64)
      ((int64_t *)t->data)[k] = (int64_t)(tni_cf_rng_next(r) % (uint64_t)limit);
    else
      ((uint8_t *)t->data)[k] = (uint8_t)(tni_cf_rng_next(r) & (t->dtype == TN_DT_BOOL ? 1 : 255));
  }
}

/* Fills the inputs anew and writes them. */
bool tni_cf_rig_inputs(tni_cf_rig *rig, tni_cf_rng *r) {
  for (uint32_t i = 0; i < rig->b.n_in; i++) {
    fill_input(rig, i, r);
    if (!tni_cf_inst_write(&rig->i, rig->b.in[i], rig->in[i].data, rig->in[i].bytes))
      return rig_failed(rig, rig->i.why, "");
  }
  return true;
}

static bool make_tensors(tni_cf_rig *rig, tni_cf_rng *r) {
  for (uint32_t i = 0; i < rig->b.n_in; i++) {
    rig->in[i] = tni_cn_tensor(&rig->b, rig->b.in[i], rig->sym, rig->arena);
    if (!rig->in[i].data) return rig_failed(rig, "dims of an input", "");
  }
  for (uint32_t i = 0; i < rig->b.n_out; i++) {
    rig->out[i] = tni_cn_tensor(&rig->b, rig->b.out[i], rig->sym, rig->arena);
    if (!rig->out[i].data) return rig_failed(rig, "dims of an output", "");
  }
  return tni_cf_rig_inputs(rig, r);
}

bool tni_cf_rig_lower(tni_cf_rig *rig) {
  if (!rig->lowered && !tni_cf_drive_lower(&rig->d)) return rig_failed(rig, rig->d.why, "");
  rig->lowered = true;
  return true;
}

bool tni_cf_rig_prepare(tni_cf_rig *rig, int64_t S, tni_cf_rng *r) {
  for (uint32_t i = 0; i < TNI_CF_MAX_SYMBOLS; i++) rig->sym[i] = 1;
  rig->sym[0] = tni_cf_drive_rows(&rig->d, S);
  if (!tni_cf_rig_lower(rig)) return false;
  rig->made = true;
  if (!tni_cf_inst_make(&rig->i, &rig->d, rig->sym, (tni_cf_room){0, 0})) return rig_failed(rig, rig->i.why, "");
  return make_tensors(rig, r);
}

bool tni_cf_rig_share(tni_cf_rig *rig, const tni_cf_rig *a, tni_cf_rng *r) {
  memset(rig, 0, sizeof *rig);
  rig->b = a->b;
  rig->h = a->h;
  rig->shares = rig->made = true;
  memcpy(rig->sym, a->sym, sizeof a->sym);
  rig->arena = tni_arena_create();
  if (!rig->arena || !tni_cf_inst_share(&rig->i, &a->i)) return rig_failed(rig, rig->i.why, "");
  return make_tensors(rig, r);
}

bool tni_cf_rig_run(tni_cf_rig *rig, uint8_t fill, uint32_t split) {
  rig->i.why[0] = '\0';
  const tn_status st = tni_cf_inst_run(&rig->i, fill, split);
  if (st != TN_OK) return rig_failed(rig, tni_status_name(st), rig->i.why);
  for (uint32_t i = 0; i < rig->b.n_out; i++)
    if (!tni_cf_inst_read(&rig->i, rig->b.out[i], rig->out[i].data, rig->out[i].bytes))
      return rig_failed(rig, rig->i.why, "");
  return tni_cf_inst_guards(&rig->i) || rig_failed(rig, rig->i.why, "");
}

bool tni_cf_rig_again(tni_cf_rig *rig, tni_cf_rig *a, int64_t S, tni_cf_rng *r) {
  memset(rig, 0, sizeof *rig);
  rig->b = a->b;
  rig->h = a->h;
  rig->shares = rig->made = true;
  for (uint32_t i = 0; i < TNI_CF_MAX_SYMBOLS; i++) rig->sym[i] = 1;
  rig->sym[0] = tni_cf_drive_rows(&a->d, S);
  rig->arena = tni_arena_create();
  if (!rig->arena || !tni_cf_inst_make(&rig->i, &a->d, rig->sym, (tni_cf_room){0, 0}))
    return rig_failed(rig, rig->i.why, "");
  return make_tensors(rig, r);
}

bool tni_cf_rig_keep(const tni_cf_rig *rig, tni_arena *arena, void **want) {
  for (uint32_t k = 0; k < rig->b.n_out; k++)
    if (!(want[k] = tni_arena_memdup(arena, rig->out[k].data, rig->out[k].bytes + 1, 64))) return false;
  return true;
}

bool tni_cf_rig_same(const tni_cf_rig *rig, void *const *want) {
  for (uint32_t k = 0; k < rig->b.n_out; k++)
    if (memcmp(rig->out[k].data, want[k], rig->out[k].bytes) != 0) return false;
  return true;
}

void tni_cf_rig_finish(tni_cf_rig *rig) {
  if (tni_cf_has_left()) return;
  if (rig->made) tni_cf_inst_finish(&rig->i);
  if (rig->h && !rig->shares) tni_cf_drive_finish(&rig->d);
  if (!rig->shares) tni_cn_destroy(&rig->b);
  tni_arena_destroy(rig->arena);
  memset(rig, 0, sizeof *rig);
}
