/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/numbers/product.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ops/kernel/kernel.h"
#include "runtime/oracle/oracle.h"

static const char *kind_text(int kind) {
  static const char *const names[] = {"matmul",    "gemm",           "gemm-kn",     "fused-bias", "fused-gate",
                                      "fused-qkv", "fused-residual", "fused-chain", "qkv",        "gate-up"};
  return kind >= 0 && kind < TNI_CN_KINDS ? names[kind] : "";
}

const char *tni_cn_product_where(const tni_cn_product *p, int64_t M, const char *what) {
  char text[600];
  const char *link = p->want.kind == TNI_CN_FUSED_CHAIN ? tni_cn_links[p->want.link].name : "";
  snprintf(text, sizeof text, "%s%s%s M %lld N %lld K %lld %s", kind_text(p->want.kind), *link ? " with " : "", link,
           (long long)M, (long long)p->want.N, (long long)p->want.K, what);
  const char *kept = tni_arena_strdup(p->arena, text);
  return kept ? kept : "";
}

/* --- graphs ------------------------------------------------------------------------------------------------------ */

/* Widths of the weights: siblings differ, as k and v do from q. */
static int64_t operand_width(const tni_cn_product *p, uint32_t i) {
  const int64_t N = p->want.N;
  const bool three = p->want.kind == TNI_CN_FUSED_QKV || p->want.kind == TNI_CN_QKV;
  if (i == 0 || !three) return N;
  const int64_t part = p->want.even ? N / 2 : N / 2 + (i == 1 ? 1 : 2);
  return part;
}

static tn_id product_weight(tni_cn_product *p, uint32_t i, bool kn) {
  const int64_t N = operand_width(p, i), K = p->want.K, dims[2] = {kn ? K : N, kn ? N : K};
  const size_t n = (size_t)(N * K);
  char name[16];
  float *w = malloc((n + 1) * sizeof *w);
  tni_cf_rng r = tni_cf_rng_of(p->cf, (uint64_t)(100 + i * 7919 + (uint32_t)(N * 31 + K)));
  if (!w) return TN_NONE;
  snprintf(name, sizeof name, "w%u", i);
  if (p->want.weights && i == 0)
    memcpy(w, p->want.weights, n * sizeof *w);
  else
    tni_cn_fill(w, n, p->want.pattern, 32, 1e4, &r);
  const tn_id v = tni_cn_constant(&p->b, name, p->want.dtype, 2, dims, w);
  free(w);
  return v;
}

static tn_id product_row(tni_cn_product *p, int64_t N) {
  float *c = malloc((size_t)(N + 1) * sizeof *c);
  tni_cf_rng r = tni_cf_rng_of(p->cf, 555);
  if (!c) return TN_NONE;
  tni_cn_fill(c, (size_t)N, TNI_CN_NORMAL, 1, 100, &r);
  const tn_id v = tni_cn_constant(&p->b, "c", p->want.dtype, 1, &N, c);
  free(c);
  return v;
}

static tn_id product_output(tni_cn_product *p) {
  char name[16];
  snprintf(name, sizeof name, "y%u", p->b.n_out);
  return p->b.out[p->b.n_out++] = tni_cn_value(&p->b, name, TN_VALUE_ACT, p->want.dtype, "?");
}

static tn_id product_input(tni_cn_product *p, const char *name, int64_t n) {
  char dims[48];
  snprintf(dims, sizeof dims, "S,%lld", (long long)n);
  return p->b.in[p->b.n_in++] = tni_cn_value(&p->b, name, TN_VALUE_INPUT, p->want.dtype, dims);
}

static tni_raw_attr ints_attr(const char *name, const int64_t *v, uint64_t n) {
  return (tni_raw_attr){.name = name, .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INTS, .n = n, .u.ints = v}};
}
static tni_raw_attr attr_number(const char *name, int64_t v) {
  return (tni_raw_attr){.name = name, .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1, .u.i = v}};
}

/* What a FusedMatMul of a kind computes after its products (ops.h). */
typedef struct fused_form {
  uint32_t n_weights, n_ops, n_out;
  bool bias, full;
  int64_t ops[9], results[3];
  float floats[3];
} fused_form;

const tni_cn_link tni_cn_links[] = {{TN_OP_RELU, 0, false, false, "RELU"},
                                    {TN_OP_SIGMOID, 0, false, false, "SIGMOID"},
                                    {TN_OP_TANH, 0, false, false, "TANH"},
                                    {TN_OP_GELU, 0, false, false, "GELU, with erf"},
                                    {TN_OP_GELU, 1, false, false, "GELU, with tanh"},
                                    {TN_OP_SWISH, 1, false, false, "SWISH"},
                                    {TN_OP_SWISH, 1.702f, false, false, "SWISH, alpha 1.702"},
                                    {TN_OP_NEG, 0, false, false, "NEG"},
                                    {TN_OP_ADD, 0, true, false, "ADD"},
                                    {TN_OP_SUB, 0, true, false, "SUB"},
                                    {TN_OP_SUB, 0, true, true, "SUB, of the product"},
                                    {TN_OP_MUL, 0, true, false, "MUL"},
                                    {TN_OP_DIV, 0, true, false, "DIV"},
                                    {TN_OP_DIV, 0, true, true, "DIV, by the product"}};
const uint32_t tni_cn_n_links = sizeof tni_cn_links / sizeof *tni_cn_links;

static fused_form form_of_link(const tni_cn_link *l) {
  return (fused_form){.n_weights = 1,
                      .n_ops = 1,
                      .n_out = 1,
                      .full = l->two,
                      .ops = {l->op, l->turned ? 1 : 0,
                              l->turned ? 0
                              : l->two  ? 1
                                        : -1},
                      .results = {l->two ? 2 : 1},
                      .floats = {l->value}};
}

static const fused_form *form_of(int kind) {
  static const fused_form bias = {1, 2, 1, true, false, {TN_OP_ADD, 0, 1, TN_OP_SWISH, 2, -1}, {3}, {0, 1}},
                          gate = {2, 2, 1, false, false, {TN_OP_SWISH, 0, -1, TN_OP_MUL, 2, 1}, {3}, {1, 0}},
                          qkv = {3, 0, 3, false, false, {0}, {0, 1, 2}, {0}},
                          residual = {1, 1, 1, false, true, {TN_OP_ADD, 0, 1}, {2}, {0}};
  return kind == TNI_CN_FUSED_BIAS   ? &bias
         : kind == TNI_CN_FUSED_GATE ? &gate
         : kind == TNI_CN_FUSED_QKV  ? &qkv
                                     : &residual;
}

static bool product_fused(tni_cn_product *p) {
  const bool chain = p->want.kind == TNI_CN_FUSED_CHAIN;
  const fused_form link = chain ? form_of_link(&tni_cn_links[p->want.link]) : (fused_form){0},
                   *f = chain ? &link : form_of(p->want.kind);
  tn_id in[6] = {p->x}, out[3];
  int64_t parts[9];
  uint32_t n = 1;
  for (uint32_t i = 0; i < f->n_weights; i++) {
    parts[3 * i] = i;
    parts[3 * i + 1] = 0;
    parts[3 * i + 2] = operand_width(p, i);
    in[n++] = product_weight(p, i, true);
  }
  if (f->bias) in[n++] = product_row(p, p->want.N);
  if (f->full) in[n++] = p->full = product_input(p, "full", p->want.N);
  for (uint32_t i = 0; i < f->n_out; i++) out[i] = product_output(p);
  const tni_raw_attr a[] = {
      ints_attr("ops", f->ops, f->n_ops * 3),
      {.name = "floats", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_FLOATS, .n = f->n_ops, .u.floats = f->floats}},
      ints_attr("results", f->results, f->n_out),
      attr_number("n_weights", f->n_weights),
      attr_number("trans_b", 0),
      ints_attr("parts", parts, f->n_weights * 3)};
  return tni_cn_node(&p->b, "tenon", "FusedMatMul", 1, in, n, out, f->n_out, a, 6);
}

static bool product_nodes(tni_cn_product *p) {
  const int kind = p->want.kind;
  const uint32_t n = kind == TNI_CN_QKV ? 3 : kind == TNI_CN_GATE_UP ? 2 : 1;
  if (kind >= TNI_CN_FUSED_BIAS && kind <= TNI_CN_FUSED_CHAIN) return product_fused(p);
  const bool gemm = kind == TNI_CN_GEMM || kind == TNI_CN_GEMM_KN, kn = kind != TNI_CN_GEMM;
  for (uint32_t i = 0; i < n; i++) {
    const tn_id in[3] = {p->x, product_weight(p, i, kn), gemm ? product_row(p, p->want.N) : TN_NONE},
                y = product_output(p);
    const tni_raw_attr trans = attr_number("transB", !kn);
    if (!tni_cn_node(&p->b, "", gemm ? "Gemm" : "MatMul", 13, in, gemm ? 3 : 2, &y, 1, &trans, gemm ? 1 : 0))
      return false;
  }
  return true;
}

/* --- life -------------------------------------------------------------------------------------------------------- */

static int product_broken(tni_cn_product *p, const char *why) {
  tni_cf_fail(p->cf, "%s", tni_cn_product_where(p, 0, why));
  return TNI_CN_BROKEN;
}

static int product_claim(tni_cn_product *p) {
  static const uint32_t phases[] = {TN_PHASE_ANY, TN_PHASE_PREFILL, TN_PHASE_DECODE};
  for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
    if (i) tni_cf_drive_finish(&p->d);
    p->d = (tni_cf_drive){.flip = p->want.flip, .reverse_rows = p->want.reverse_rows};
    p->phase = phases[i];
    if (!tni_cf_drive_claim(&p->d, p->h, p->b.g, phases[i])) return product_broken(p, p->d.why);
    if (p->d.all_taken) return TNI_CN_TAKEN;
    const tni_claim *no = p->d.refusal;
    if (no && no->verdict == TN_NO && !no->text[0]) return product_broken(p, "refused without a reason");
    if (no && !strncmp(no->text, "plugin '", 8))
      return product_broken(p, no->text); /* what the host says of a wrong answer */
  }
  return TNI_CN_REFUSED;
}

int tni_cn_product_open(tni_cf *cf, tni_cf_host *h, const tni_cn_want *want, tni_cn_product *p) {
  *p = (tni_cn_product){.cf = cf, .h = h, .want = *want, .arena = tni_arena_create(), .full = TN_NONE, .open = true};
  if (!p->arena) return TNI_CN_BROKEN;
  float *zeros = TNI_NEW_ARRAY(p->arena, float, (size_t)want->K + 1);
  if (!zeros || !tni_cn_begin(&p->b, want->dtype)) return product_broken(p, "no memory");
  p->x = product_input(p, "x", want->K);
  p->stats =
      (tn_stats){.h = TN_HDR(tn_stats), .absmax = 8, .p999 = 4, .n = (uint32_t)want->K, .ch_over = zeros, .rows = 1};
  if (!product_nodes(p) || !tni_cn_end(&p->b)) return product_broken(p, p->b.err.message);
  tni_graph_value(p->b.g, p->x)->pub.stats = want->stats ? want->stats : &p->stats;
  const int st = product_claim(p);
  if (st != TNI_CN_TAKEN) return st;
  return tni_cf_drive_lower(&p->d) ? TNI_CN_TAKEN : product_broken(p, p->d.why);
}

void tni_cn_product_close(tni_cn_product *p) {
  if (!p->open) return;
  if (p->d.h) tni_cf_drive_finish(&p->d);
  if (p->b.g) tni_cn_destroy(&p->b);
  tni_arena_destroy(p->arena);
  p->open = false;
}

int64_t tni_cn_product_rows(const tni_cn_product *p, int64_t M) { return tni_cf_drive_rows(&p->d, M); }

int64_t tni_cn_product_elems(const tni_cn_product *p, int64_t M) {
  int64_t n = 0;
  const int64_t sym[2] = {M, 1};
  for (uint32_t i = 0; i < p->b.n_out; i++) {
    int64_t one = 1, d;
    const tn_value *v = &tni_graph_value(p->b.g, p->b.out[i])->pub;
    for (uint32_t k = 0; k < v->rank; k++) one *= tni_ex_eval(p->b.g->exprs, v->dims[k], sym, 2, &d) == TN_OK ? d : 0;
    n += one;
  }
  return n;
}

/* --- weights as they are ------------------------------------------------------------------------------------------ */

static const tn_numerics plain_numerics = {.h = TN_HDR(tn_numerics),
                                           .act_dtype = TN_DT_F32,
                                           .act_scheme = TN_ACT_NONE,
                                           .acc_inner = TN_DT_F32,
                                           .acc_outer = TN_DT_F32,
                                           .finite_max = 1e28};

static const tn_blob *blob_with(const tni_cn_product *p, tn_id v, int64_t *n0) {
  const tn_program_info *f = p->d.info;
  for (uint32_t s = 0; s < f->n_slots; s++) {
    if (f->slots[s]->kind != TN_SLOT_WEIGHT) continue;
    const tni_need *need = &p->d.prog.needs[f->slots[s]->need];
    *n0 = 0;
    for (uint32_t i = 0; need->need->format && i < need->need->n_values; i++) {
      if (need->need->values[i] == v) return &p->d.blob[s];
      *n0 += need->parts[i]->N;
    }
  }
  return NULL;
}

static tn_numerics blob_numerics(const tn_blob *b) {
  const tn_format *f = b->format;
  const tn_numerics *n =
      TN_HAS(f, tn_format, numerics_of) && f->numerics_of ? f->numerics_of(f, b->params, b->n_params) : f->numerics;
  tn_numerics out = n ? tni_numerics_of(n) : plain_numerics;
  if (out.act_scheme == TN_ACT_STATIC && out.act_scale == 0 && b->n_params)
    memcpy(&out.act_scale, &(uint32_t){(uint32_t)b->params[0]}, sizeof out.act_scale);
  return out;
}

/* What is packed for a constant must be that constant: the format's declared error of its row's largest (of the matrix'
 * largest, where a scale may be the whole's), and nothing near a row of another weight. */
static void compare_with_model(tni_cn_product *p, const tn_blob *b, const tni_tensor *t, bool kn, const float *w,
                               int64_t N, int64_t K) {
  float *row = malloc((size_t)(N * K + 1) * sizeof *row);
  double all = 0;
  for (int64_t n = 0; row && n < N; n++)
    for (int64_t k = 0; k < K; k++) {
      tni_tensor_to_f32(t, kn ? k * N + n : n * K + k, 1, &row[n * K + k]);
      all = fmax(all, fabs((double)row[n * K + k]));
    }
  for (int64_t n = 0; row && n < N; n++) {
    double top = 0, worst = 0;
    for (int64_t k = 0; k < K; k++) {
      const double size = fabs((double)row[n * K + k]), off = fabs((double)row[n * K + k] - (double)w[n * K + k]);
      if (size > top) top = size; /* not fmax: gcc 12 for aarch64 at -O3 ends with an internal error */
      if (off > worst) worst = off;
    }
    if (!b->format->group) top = all;
    if (worst <= (double)b->format->w_err * top * (1 + 0x1p-20) + 0x1p-14) continue;
    char text[160];
    snprintf(text, sizeof text,
             "row %lld of what was packed is not that of the weight: off by %.3g, %g of %.3g is declared", (long long)n,
             worst, (double)b->format->w_err, top);
    tni_cf_fail(p->cf, "%s", tni_cn_product_where(p, 0, text));
    break;
  }
  free(row);
}

const float *tni_cn_product_weight(tni_cn_product *p, tn_id v, bool kn, int64_t *N, int64_t *K, tn_numerics *num) {
  const tni_tensor *t = tni_graph_value(p->b.g, v)->tensor;
  int64_t n0 = 0;
  *N = t->dims[kn ? 1 : 0];
  *K = t->dims[kn ? 0 : 1];
  float *w = tni_arena_array(p->arena, (size_t)(*N * *K) + 1, sizeof *w, 64);
  const tn_blob *b = blob_with(p, v, &n0);
  if (!w) return NULL;
  if (b) {
    const int64_t box[4] = {n0, n0 + *N, 0, *K};
    *num = blob_numerics(b);
    if (b->format->unpack(b, box, w) == TN_OK) {
      if (!p->compared) compare_with_model(p, b, t, kn, w, *N, *K);
      return w;
    }
    tni_cf_fail(p->cf, "%s", tni_cn_product_where(p, 0, "unpack failed"));
    return NULL;
  }
  *num = plain_numerics;
  for (int64_t n = 0; n < *N; n++)
    for (int64_t k = 0; k < *K; k++) tni_tensor_to_f32(t, kn ? k * *N + n : n * *K + k, 1, &w[n * *K + k]);
  return w;
}

tn_numerics tni_cn_product_numerics(const tni_cn_product *p) {
  int64_t n0;
  const tn_blob *b = blob_with(p, p->b.g->nodes[0]->pub.in[1], &n0);
  return b ? blob_numerics(b) : plain_numerics;
}

/* --- values ------------------------------------------------------------------------------------------------------ */

static void round_values(uint32_t dtype, float *x, int64_t n) {
  uint16_t h;
  for (int64_t i = 0; tni_is_half(dtype) && i < n; i++) {
    tni_store_f32(dtype, &h, 0, 1, &x[i]);
    tni_load_f32(dtype, &h, 0, 1, &x[i]);
  }
}

void tni_cn_product_values(tni_cn_product *p, int64_t M, int pattern, uint64_t stream, float *x, float *full) {
  const tn_numerics n = tni_cn_product_numerics(p);
  tni_cf_rng r = tni_cf_rng_of(p->cf, stream * 64 + (uint64_t)pattern);
  double top = n.finite_max > 0 ? n.finite_max : 1e28;
  if (p->want.dtype == TN_DT_F16) top = fmin(top, 2048);
  tni_cn_fill(x, (size_t)(M * p->want.K), pattern, n.act_group ? n.act_group : p->want.K, top, &r);
  round_values(p->want.dtype, x, M * p->want.K);
  if (p->full == TN_NONE) return;
  tni_cn_fill(full, (size_t)(M * p->want.N), TNI_CN_NORMAL, 1, 100, &r);
  round_values(p->want.dtype, full, M * p->want.N);
}

static bool product_write(tni_cn_product *p, tni_cf_inst *i, tn_id v, const float *x) {
  if (v == TN_NONE) return true;
  tni_tensor t = tni_cn_tensor(&p->b, v, i->sym, p->arena);
  if (!t.data) return false;
  tni_cn_store(&t, x);
  return tni_cf_inst_write(i, v, t.data, t.bytes);
}

bool tni_cn_product_run(tni_cn_product *p, tni_cf_inst *i, int64_t M, const float *x, const float *full, uint8_t fill,
                        uint32_t split, float *y) {
  bool ok =
      product_write(p, i, p->x, x) && product_write(p, i, p->full, full) && tni_cf_inst_run(i, fill, split) == TN_OK;
  for (uint32_t o = 0; ok && o < p->b.n_out; o++) {
    tni_tensor t = tni_cn_tensor(&p->b, p->b.out[o], i->sym, p->arena);
    ok = t.data && tni_cf_inst_read(i, p->b.out[o], t.data, t.bytes);
    if (ok) tni_tensor_to_f32(&t, 0, tni_cn_count(&t), y);
    y += tni_cn_count(&t);
  }
  ok = ok && tni_cf_inst_guards(i);
  if (!ok) tni_cf_fail(p->cf, "%s", tni_cn_product_where(p, M, i->why));
  return ok;
}

/* --- references --------------------------------------------------------------------------------------------------- */

typedef struct work {
  tni_cn_product *p;
  tn_run run;
  int64_t M;
  const float *x;
  double tiny;
} work;

/* Products and how far a device may be from them, before the chain that follows them. */
static bool product_of(work *w, tn_id v, bool kn, float *y, float *e, tn_numerics *n, int64_t *N) {
  int64_t K;
  const float *m = tni_cn_product_weight(w->p, v, kn, N, &K, n);
  if (!m || tni_reference_product(n, w->x, w->M, K, m, *N, y, e, &w->run) != TN_OK) return false;
  const double rel = tni_reference_bound(n, K);
  const bool flush = n->denormals == TN_DENORM_FLUSH;
  const double tiny = rel == 0 ? 0 : flush ? (double)FLT_MIN : (double)(K + 4) * 0x1p-149;
  for (int64_t i = 0; i < w->M * *N; i++) e[i] = (float)((double)e[i] + tiny);
  w->tiny = flush ? (double)FLT_MIN : 0x1p-149;
  return true;
}

/* A result kept in a half costs one rounding more. */
static void round_bound(const tni_cn_product *p, const float *y, float *e, int64_t n) {
  const double u = tni_cn_unit(p->want.dtype);
  for (int64_t i = 0; p->want.dtype != TN_DT_F32 && i < n; i++)
    e[i] = (float)((double)e[i] + 2 * u * (fabs((double)y[i]) + (double)e[i]) + tni_cn_tiny(p->want.dtype, true));
}

static bool plain_node(work *w, const tn_node *n, float *y, float *e, int64_t *N) {
  const bool gemm = n->op == TN_OP_GEMM;
  tn_numerics num_;
  if (!product_of(w, n->in[1], !gemm || !tni_attr_i(n, "transB", 0), y, e, &num_, N)) return false;
  if (!gemm || n->n_in < 3 || n->in[2] == TN_NONE) return true;
  const float *c = tni_cn_floats(tni_graph_value(w->p->b.g, n->in[2])->tensor, w->p->arena);
  for (int64_t i = 0; c && i < w->M * *N; i++) {
    const double sum = (double)y[i] + (double)c[i % *N];
    e[i] = (float)((double)e[i] * (1 + 0x1p-23) + 2 * 0x1p-24 * (fabs(sum) + fabs((double)c[i % *N])) + w->tiny);
    y[i] = (float)sum;
  }
  return c != NULL;
}

static bool fused_node(work *w, const tn_node *n, const float *full, float *y, float *e) {
  tni_cn_product *p = w->p;
  tni_fused f;
  tni_chain_given g = {.f = &f, .M = w->M};
  float *outs[3] = {NULL}, *bounds[3] = {NULL};
  if (tni_fused_read(n, &f)) return false;
  for (uint32_t i = 0; i < f.n_parts; i++) {
    float *py = tni_arena_array(p->arena, (size_t)(w->M * f.parts[i].count) + 1, sizeof *py, 64),
          *pe = tni_arena_array(p->arena, (size_t)(w->M * f.parts[i].count) + 1, sizeof *pe, 64);
    tn_numerics num_;
    int64_t N;
    if (!py || !pe || !product_of(w, n->in[1 + f.parts[i].weight], true, py, pe, &num_, &N)) return false;
    g.product[i].y = py;
    g.product[i].e = pe;
  }
  g.tiny = w->tiny;
  for (uint32_t i = 0; i + f.n_parts < f.chain.n_in; i++) {
    const tn_id v = n->in[1 + f.n_weights + i];
    const tni_tensor *t = tni_graph_value(p->b.g, v)->tensor;
    g.extra[i].v = t ? tni_cn_floats(t, p->arena) : full;
    g.extra[i].count = t ? tni_cn_count(t) : w->M * p->want.N;
    g.extra[i].rank = t ? t->rank : 2;
  }
  for (uint32_t o = 0; o < f.chain.n_results && o < 3; o++) {
    outs[o] = y;
    bounds[o] = e;
    y += w->M * operand_width(p, f.n_parts == f.chain.n_results ? o : 0);
    e += w->M * operand_width(p, f.n_parts == f.chain.n_results ? o : 0);
  }
  tni_reference_chain(&g, outs, bounds);
  return true;
}

bool tni_cn_product_reference(tni_cn_product *p, int64_t M, const float *x, const float *full, float *y, float *bound) {
  work w = {.p = p, .M = M, .x = x, .tiny = 0x1p-149};
  bool ok = true;
  float *const first = y, *const allowed = bound;
  tni_run_inline(&w.run);
  for (uint32_t i = 0; ok && i < p->b.g->n_nodes; i++) {
    const tn_node *n = &p->b.g->nodes[i]->pub;
    int64_t N = 0;
    if (n->op == TN_OP_FUSED_MATMUL) {
      ok = fused_node(&w, n, full, y, bound);
      break;
    }
    ok = plain_node(&w, n, y, bound, &N);
    y += M * N;
    bound += M * N;
  }
  p->compared = true;
  if (ok) round_bound(p, first, allowed, tni_cn_product_elems(p, M));
  if (!ok) tni_cf_fail(p->cf, "%s", tni_cn_product_where(p, M, "the reference does not know these numerics"));
  return ok;
}
