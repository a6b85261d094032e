/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon.FusedMatMul through the built plugin: chains x shapes x values against a reference in double with a bound that
 * is carried through the chain; equal bits for every instruction set, thread count and place of the outputs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/cpu/kernels/chain_f32.h"
#include "tests/kernels/fakehost.h"

static const char *so;

/* An operand of the chain, or x itself. */
enum { END = 0, ONE, SCALAR, ROW, WHOLE, CONST_ROW, CONST_ONE, X };
enum { MAX_PARTS = 5, MAX_OPS = 12 };

typedef struct chain_case {
  const char *name;
  int64_t K, trans_b, N[MAX_PARTS], parts[MAX_PARTS][3]; /* widths of the weights; parts end where a count is 0 */
  int extras[4];
  int64_t extra_N; /* of rows and whole operands */
  struct {
    int64_t op, a, b;
    float value;
  } ops[MAX_OPS];
  int64_t results[10]; /* end at -1 */
  uint32_t aliased;    /* outputs that may lie on an operand */
} chain_case;

static const chain_case cases[] = {
    {"q, k, v", 64, 0, {40, 17, 23}, {{0, 0, 40}, {1, 0, 17}, {2, 0, 23}}, .results = {0, 1, 2, -1}},
    {"gate and up, aligned",
     100,
     0,
     {48, 48},
     {{0, 0, 48}, {1, 0, 48}},
     .ops = {{TN_OP_SWISH, 0, -1, 1}, {TN_OP_MUL, 2, 1, 0}},
     .results = {3, -1}},
    {"gate and up, odd",
     96,
     1,
     {33, 33},
     {{0, 0, 33}, {1, 0, 33}},
     .ops = {{TN_OP_SWISH, 0, -1, 1.702f}, {TN_OP_MUL, 2, 1, 0}},
     .results = {3, -1}},
    {"gate and up of one weight",
     70,
     0,
     {398},
     {{0, 0, 199}, {0, 199, 199}},
     .ops = {{TN_OP_GELU, 0, -1, 1}, {TN_OP_MUL, 2, 1, 0}},
     .results = {3, -1}},
    {"residual", 300, 0, {130}, {{0, 0, 130}}, {WHOLE}, 130, {{TN_OP_ADD, 1, 0, 0}}, {2, -1}, 1},
    {"residual is x", 64, 1, {64}, {{0, 0, 64}}, {X}, 64, {{TN_OP_ADD, 0, 1, 0}}, {2, -1}, 1},
    {"biases",
     33,
     0,
     {24, 24},
     {{0, 0, 24}, {1, 0, 24}},
     {ROW, CONST_ROW, ONE},
     24,
     {{TN_OP_ADD, 0, 2, 0}, {TN_OP_ADD, 3, 1, 0}, {TN_OP_MUL, 5, 4, 0}},
     {7, 6, -1},
     0},
    {"overlapping parts",
     64,
     0,
     {100, 20},
     {{0, 3, 37}, {0, 30, 37}, {1, 1, 18}},
     .ops = {{TN_OP_SUB, 0, 1, 0}, {TN_OP_RELU, 2, -1, 0}},
     .results = {3, 4, 0, 3, -1}},
    {"all operators",
     129,
     0,
     {50},
     {{0, 0, 50}},
     {WHOLE, CONST_ONE, SCALAR},
     50,
     {{TN_OP_SIGMOID, 0, -1, 0},
      {TN_OP_TANH, 0, -1, 0},
      {TN_OP_GELU, 0, -1, 0},
      {TN_OP_GELU, 0, -1, 1},
      {TN_OP_SWISH, 0, -1, -0.5f},
      {TN_OP_DIV, 0, 2, 0},
      {TN_OP_NEG, 9, -1, 0},
      {TN_OP_SUB, 3, 10, 0},
      {TN_OP_MUL, 0, 3, 0},
      {TN_OP_DIV, 1, 4, 0}},
     {5, 6, 7, 8, 11, 12, 13, 4, -1},
     1},
    {"one residual of two strips",
     64,
     0,
     {32, 32},
     {{0, 0, 32}, {1, 0, 32}},
     {WHOLE},
     32,
     {{TN_OP_ADD, 0, 2, 0}, {TN_OP_MUL, 1, 2, 0}},
     {3, 4, -1},
     0},
    {"widths apart",
     40,
     0,
     {32, 31},
     {{0, 0, 32}, {1, 0, 31}},
     {WHOLE},
     32,
     {{TN_OP_MUL, 0, 2, 0}, {TN_OP_ADD, 3, 2, 0}},
     {4, 1, 3, -1},
     1},
};

typedef struct built {
  fake_graph g;
  fused_spec s;
  tn_id x, y[10], extra[4];
  uint32_t n_parts, n_extras, n_ops, n_results;
} built;

static void give(fake_graph *g, tn_id v, const int64_t *S, int pattern, uint64_t stream) {
  rng r = rng_of(stream);
  int64_t n = fake_count(g, v, S);
  free(g->data[v]);
  g->count[v] = n;
  g->data[v] = malloc((size_t)(n ? n : 1) * sizeof(float));
  if (!g->data[v]) abort();
  fill(g->data[v], (size_t)n, pattern, 1e20f, &r);
}

static tn_id operand(built *b, int kind, int64_t n, tn_expr S) {
  fake_graph *g = &b->g;
  switch (kind) {
    case ONE:
      return value(g, TN_VALUE_ACT, 3, (tn_expr[]){ex(g, 1), ex(g, 1), ex(g, 1)});
    case SCALAR:
      return value(g, TN_VALUE_STEP, 0, NULL);
    case ROW:
      return value(g, TN_VALUE_ACT, 1, (tn_expr[]){ex(g, n)});
    case CONST_ROW:
      return constant(g, 1, (int64_t[]){n});
    case CONST_ONE:
      return constant(g, 1, (int64_t[]){1});
    case X:
      return b->x;
    default:
      return value(g, TN_VALUE_INPUT, 3, (tn_expr[]){ex(g, 1), S, ex(g, n)});
  }
}

static int64_t width_of(const chain_case *c, const built *b, int64_t reg) {
  while (reg >= b->n_parts + b->n_extras) {
    int64_t i = reg - b->n_parts - b->n_extras, a = c->ops[i].a, o = c->ops[i].b;
    reg = a >= b->n_parts && a < b->n_parts + b->n_extras ? o : a;
  }
  return c->parts[reg][2];
}

static void build(const chain_case *c, int64_t M, int px, int pw, built *b) {
  fake_graph *g = &b->g;
  const int64_t S[1] = {M};
  memset(b, 0, sizeof *b);
  graph_init(g);
  tn_expr S_ = sym(g, "S", 0, 4096);
  b->x = value(g, TN_VALUE_INPUT, 3, (tn_expr[]){ex(g, 1), S_, ex(g, c->K)});
  b->s.in[b->s.n_in++] = b->x;
  for (; b->s.n_weights < MAX_PARTS && c->N[b->s.n_weights]; b->s.n_weights++) {
    int64_t N = c->N[b->s.n_weights];
    tn_id w = constant(g, 2, c->trans_b ? (int64_t[]){N, c->K} : (int64_t[]){c->K, N});
    give(g, w, S, pw, 100 + w);
    for (int64_t i = 0; i < g->count[w]; i++) g->data[w][i] = fmaxf(-1e4f, fminf(1e4f, g->data[w][i]));
    b->s.in[b->s.n_in++] = w;
  }
  for (; b->n_parts < MAX_PARTS && c->parts[b->n_parts][2]; b->n_parts++)
    memcpy(b->s.parts + 3 * b->n_parts, c->parts[b->n_parts], sizeof c->parts[0]);
  for (; b->n_extras < 4 && c->extras[b->n_extras]; b->n_extras++)
    b->s.in[b->s.n_in++] = b->extra[b->n_extras] = operand(b, c->extras[b->n_extras], c->extra_N, S_);
  for (; b->n_ops < MAX_OPS && c->ops[b->n_ops].op; b->n_ops++) {
    const int64_t t[3] = {c->ops[b->n_ops].op, c->ops[b->n_ops].a, c->ops[b->n_ops].b};
    memcpy(b->s.ops + 3 * b->n_ops, t, sizeof t);
    b->s.floats[b->n_ops] = c->ops[b->n_ops].value;
  }
  for (; c->results[b->n_results] >= 0; b->n_results++) {
    int64_t r = c->results[b->n_results];
    b->s.results[b->n_results] = r;
    b->y[b->n_results] = value(g, TN_VALUE_OUTPUT, 3, (tn_expr[]){ex(g, 1), S_, ex(g, width_of(c, b, r))});
    b->s.out[b->s.n_out++] = b->y[b->n_results];
  }
  b->s.n_parts = b->n_parts;
  b->s.n_ops = b->n_ops;
  b->s.trans_b = c->trans_b;
  fused_node(g, &b->s);
  graph_finish(g);
  give(g, b->x, S, px, 1);
  for (uint32_t i = 0; i < b->n_extras; i++)
    if (g->values[b->extra[i]].kind != TN_VALUE_CONST && b->extra[i] != b->x) give(g, b->extra[i], S, px, 50 + i);
}

/* --- the reference ---------------------------------------------------------------------------------------------- */

/* A number and how far the device may be from it. */
typedef struct near {
  double v, e;
} near;

static const double u = 0x1p-24, tiny = 0x1p-149;

static near rounded(double v, double e) {
  if (!(fabs(v) + e < 3.4e38)) e = INFINITY;
  return (near){v, e + u * (fabs(v) + e) + tiny};
}

static double sigmoid(double z) { return z < 0 ? exp(z) / (1 + exp(z)) : 1 / (1 + exp(-z)); }

/* f(a): its slope is at most `slope`, and the kernel's own error `ulps` ulp, at most ulps * 2 u relative. */
static near through(double v, near a, double slope, double ulps) {
  double e = slope * a.e;
  if (isnan(v) || isinf(v)) return (near){v, INFINITY};
  return (near){v, e + ulps * 2 * u * (fabs(v) + e) + (ulps + 1) * tiny};
}

static near unary(int64_t op, float value, near a) {
  switch (op) {
    case TN_OP_NEG:
      return (near){-a.v, a.e};
    case TN_OP_RELU:
      return (near){a.v > 0 ? a.v : 0, a.e};
    case TN_OP_SIGMOID:
      return through(sigmoid(a.v), a, 0.25, TNI_CLT_ULP_SIGMOID);
    case TN_OP_TANH:
      return through(tanh(a.v), a, 1, TNI_CLT_ULP_TANH);
    case TN_OP_SWISH:
      return through(a.v * sigmoid((double)value * a.v), a, 1.1, TNI_CLT_ULP_SWISH);
    default:
      if (value == 0) return through(0.5 * a.v * erfc(-a.v * sqrt(0.5)), a, 1.13, TNI_CLT_ULP_GELU_ERF);
      return through(a.v * sigmoid(2 * sqrt(2 / acos(-1)) * (a.v + 0.044715 * a.v * a.v * a.v)), a, 1.13,
                     TNI_CLT_ULP_GELU_TANH);
  }
}

static near binary(int64_t op, near a, near b) {
  switch (op) {
    case TN_OP_ADD:
      return rounded(a.v + b.v, a.e + b.e);
    case TN_OP_SUB:
      return rounded(a.v - b.v, a.e + b.e);
    case TN_OP_MUL:
      return rounded(a.v * b.v, fabs(a.v) * b.e + fabs(b.v) * a.e + a.e * b.e);
    default:
      if (fabs(b.v) <= b.e) return (near){a.v / b.v, INFINITY};
      return rounded(a.v / b.v, (a.e + fabs(a.v / b.v) * b.e) / (fabs(b.v) - b.e));
  }
}

typedef struct products {
  double *y, *mag;
  int64_t N, n0[MAX_PARTS];
  double bound;
} products;

static near given(const chain_case *c, const built *b, const products *q, int64_t reg, int64_t m, int64_t n) {
  if (reg < b->n_parts) {
    int64_t at = m * q->N + q->n0[c->parts[reg][0]] + c->parts[reg][1] + n;
    return (near){q->y[at], q->bound * q->mag[at] + tiny};
  }
  tn_id v = b->extra[reg - b->n_parts];
  const fake_graph *g = &b->g;
  int64_t width = c->extra_N, at = g->count[v] == 1 ? 0 : g->values[v].rank == 1 ? n : m * width + n;
  return (near){(double)g->data[v][at], 0};
}

/* Whether all outputs lie within the bound at row m, column n. */
static bool element_ok(const chain_case *c, const built *b, const products *q, int64_t m, int64_t n, int64_t *checked) {
  near r[MAX_PARTS + 4 + MAX_OPS];
  uint32_t n_in = b->n_parts + b->n_extras;
  bool ok = true;
  for (uint32_t i = 0; i < n_in + b->n_ops; i++) {
    r[i] = (near){NAN, INFINITY};
    if (i >= b->n_parts && i < n_in && (n < c->extra_N || b->g.count[b->extra[i - b->n_parts]] == 1))
      r[i] = given(c, b, q, i, m, n);
    if (i < b->n_parts && n < c->parts[i][2]) r[i] = given(c, b, q, i, m, n);
    if (i < n_in) continue;
    int64_t op = c->ops[i - n_in].op, x = c->ops[i - n_in].a, y = c->ops[i - n_in].b;
    r[i] = y < 0 ? unary(op, c->ops[i - n_in].value, r[x]) : binary(op, r[x], r[y]);
  }
  for (uint32_t i = 0; i < b->n_results; i++) {
    int64_t width = width_of(c, b, c->results[i]);
    if (n >= width || isinf(r[c->results[i]].e) || isnan(r[c->results[i]].e)) continue;
    double got = (double)b->g.data[b->y[i]][m * width + n];
    ok = ok && fabs(got - r[c->results[i]].v) <= r[c->results[i]].e;
    ++*checked;
  }
  return ok;
}

static bool right(const chain_case *c, const built *b, const tn_blob *blob, int64_t M, int64_t *checked) {
  const tn_numerics *num = tni_w4g_numerics(blob->params[0]);
  products q = {.N = blob->N, .bound = reference_bound(num, c->K)};
  float *w = unpack_all(blob);
  q.y = malloc((size_t)(M * q.N + 1) * sizeof *q.y);
  q.mag = malloc((size_t)(M * q.N + 1) * sizeof *q.mag);
  if (!q.y || !q.mag) abort();
  reference(num, b->g.data[b->x], M, c->K, w, q.N, q.y, q.mag);
  int64_t widest = 0, at = 0;
  bool ok = true;
  for (uint32_t i = 0; i < b->s.n_weights; at += c->N[i++]) q.n0[i] = at;
  for (uint32_t i = 0; i < b->n_parts; i++)
    if (c->parts[i][2] > widest) widest = c->parts[i][2];
  for (int64_t m = 0; ok && m < M; m++)
    for (int64_t n = 0; ok && n < widest; n++) ok = element_ok(c, b, &q, m, n, checked);
  free(q.y);
  free(q.mag);
  free(w);
  return ok;
}

/* --- tests ------------------------------------------------------------------------------------------------------ */

static fake variant(int64_t group, int v) {
  return (fake){.group = group,
                .min_k = 32,
                .min_n = 16,
                .act_matmul = 1,
                .isa = v == 1   ? "scalar"
                       : v == 3 ? FAKE_LESSER_ISA
                                : "auto",
                .h.threads = v == 2 ? 3 : 0,
                .alias = v == 3};
}

/* Outputs one after the other; free it. */
static float *outputs_of(const built *b, size_t *bytes) {
  float *all = NULL;
  *bytes = 0;
  for (uint32_t i = 0; i < b->n_results; i++) {
    size_t n = (size_t)b->g.count[b->y[i]] * sizeof(float);
    all = realloc(all, *bytes + n + 1);
    if (!all) abort();
    memcpy((char *)all + *bytes, b->g.data[b->y[i]], n);
    *bytes += n;
  }
  return all;
}

/* One case in all variants. */
static void run_case(const chain_case *c, int64_t M, int64_t group, int px, int pw, int64_t *checked) {
  float *first = NULL;
  size_t first_bytes = 0, bytes;
  for (int v = 0; v < 4; v++) {
    fake f = variant(group, v);
    built *b = malloc(sizeof *b);
    int64_t S[1] = {M};
    CU_ASSERT_FATAL(fake_open(&f, so));
    build(c, M, px, pw, b);
    walked r = walk(&f, &b->g, S);
    if (r.st != TN_OK) printf("\n    %s: %s\n", c->name, f.err.message);
    CU_ASSERT_EQUAL_FATAL(r.st, TN_OK);
    CU_ASSERT(r.guards_ok && r.run_allocs == 0 && r.info->n_tasks == 1 && r.info->n_needs >= 1);
    CU_ASSERT_EQUAL(r.info->needs[0]->flags, c->trans_b ? 0 : TN_NEED_KN);
    CU_ASSERT_EQUAL(r.n_aliased, v == 3 ? c->aliased : 0);
    float *now = outputs_of(b, &bytes);
    if (!first) {
      bool ok = right(c, b, &r.blobs[0], M, checked);
      if (!ok) printf("\n    %s: M %lld group %lld\n", c->name, (long long)M, (long long)group);
      CU_ASSERT(ok);
      first = now;
      first_bytes = bytes;
    } else {
      bool same = bytes == first_bytes && memcmp(first, now, bytes) == 0;
      if (!same) printf("\n    %s: M %lld group %lld variant %d\n", c->name, (long long)M, (long long)group, v);
      CU_ASSERT(same);
      free(now);
    }
    walked_free(&f, &r);
    graph_free(&b->g);
    free(b);
    fake_close(&f);
    CU_ASSERT_EQUAL(f.h.live, 0);
  }
  free(first);
}

static void chains(void) {
  static const int64_t Ms[] = {0, 1, 2, 7, 33, 251};
  int64_t checked = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (size_t m = 0; m < sizeof Ms / sizeof *Ms; m++)
      for (int64_t group = 32; group <= 128; group += 96)
        run_case(&cases[i], Ms[m], group, V_NORMAL, V_NORMAL, &checked);
  CU_ASSERT(checked > 300000);
}

static void adversarial(void) {
  int64_t checked = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int p = 0; p < V_COUNT * V_COUNT; p++)
      if (p % 3 == (int)i % 3) run_case(&cases[i], 1 + p % 2, p % 2 ? 128 : 32, p / V_COUNT, p % V_COUNT, &checked);
  CU_ASSERT(checked > 10000);
}

/* What must not be taken: verdict, reason, text. */
static void refused(built *b, const fake *settings, uint32_t reason) {
  fake f = *settings;
  answers *a = malloc(sizeof *a);
  CU_ASSERT_FATAL(a && fake_open(&f, so));
  CU_ASSERT_EQUAL(fake_claim(&f, &b->g, NULL, a), TN_OK);
  if (a->node[0].reason != reason) printf("\n    reason %u '%s'\n", a->node[0].reason, a->node[0].text);
  CU_ASSERT(a->n_answers[0] == 1 && a->node[0].verdict == TN_NO && a->node[0].reason == reason && a->node[0].text[0]);
  tn_id nodes[1] = {0}, group_of[1] = {TN_NONE};
  tn_subgraph s = {.h = TN_HDR(tn_subgraph), .graph = &b->g.pub, .nodes = nodes, .group_of = group_of, .n_nodes = 1};
  tn_program *p = NULL;
  CU_ASSERT_EQUAL(f.device->lower(f.device, &s, &p, &f.err), TN_E_INVALID);
  CU_ASSERT(p == NULL && f.err.message[0]);
  fake_close(&f);
  CU_ASSERT_EQUAL(f.h.live, 0);
  free(a);
}

static void refusals(void) {
  enum {
    NONE,
    HALF,
    NOT_CONST,
    CUBE,
    STATE,
    CONST_X,
    SHORT_K,
    WIDE,
    EXTRA_WIDTH,
    UNKNOWN_OP,
    BAD_REGISTER,
    NO_RESULT,
    NO_PARTS,
    LATE_PART,
    UNLIKE,
    NO_PRODUCT,
    MIN_K,
    MIN_N,
    MISSING,
    COUNT
  };
  static const uint32_t reasons[COUNT] = {0,
                                          TN_WHY_DTYPE,
                                          TN_WHY_NOT_CONST,
                                          TN_WHY_NOT_CONST,
                                          TN_WHY_OP,
                                          TN_WHY_NOT_CONST,
                                          TN_WHY_SHAPE,
                                          TN_WHY_SHAPE,
                                          TN_WHY_SHAPE,
                                          TN_WHY_ATTR,
                                          TN_WHY_ATTR,
                                          TN_WHY_ATTR,
                                          TN_WHY_ATTR,
                                          TN_WHY_ATTR,
                                          TN_WHY_ATTR,
                                          TN_WHY_ATTR,
                                          TN_WHY_OPTION,
                                          TN_WHY_OPTION,
                                          TN_WHY_ATTR};
  for (int i = 1; i < COUNT; i++) {
    built *b = malloc(sizeof *b);
    fake f = variant(32, 0);
    build(&cases[4], 2, V_NORMAL, V_NORMAL, b); /* x [1,S,300], w [300,130], whole [1,S,130] */
    fake_graph *g = &b->g;
    tn_id w = b->s.in[1], e = b->s.in[2];
    if (i == HALF) g->values[w].dtype = TN_DT_F16;
    if (i == NOT_CONST) g->values[w].kind = TN_VALUE_ACT;
    if (i == CUBE) g->values[w].rank = 3;
    if (i == STATE) g->values[e].kind = TN_VALUE_STATE;
    if (i == CONST_X) g->values[b->x].kind = TN_VALUE_CONST;
    if (i == SHORT_K) g->dims[w][0] = ex(g, 299);
    if (i == WIDE) b->s.parts[1] = 1;
    if (i == EXTRA_WIDTH) g->dims[e][2] = ex(g, 131);
    if (i == UNKNOWN_OP) b->s.ops[0] = TN_OP_EXP;
    if (i == BAD_REGISTER) b->s.ops[2] = 2;
    if (i == NO_RESULT) b->s.results[0] = 3;
    if (i == NO_PARTS) g->attr[0][TN_FUSED_PARTS].n = 0;
    if (i == LATE_PART) b->s.parts[0] = 1;
    if (i == UNLIKE) g->attr[0][TN_FUSED_FLOATS].n = 0;
    if (i == NO_PRODUCT) b->s.ops[2] = 1;
    if (i == MIN_K) f.min_k = 301;
    if (i == MIN_N) f.min_n = 131;
    if (i == MISSING) g->io[0][2] = TN_NONE;
    refused(b, &f, reasons[i]);
    graph_free(g);
    free(b);
  }
}

/* Weights that no part uses are not packed; an output that nobody wants is not written. */
static void unused(void) {
  fake f = variant(32, 0);
  built *b = malloc(sizeof *b);
  int64_t S[1] = {3};
  CU_ASSERT_FATAL(fake_open(&f, so));
  build(&cases[0], 3, V_NORMAL, V_NORMAL, b);
  b->s.parts[3] = 2; /* the second part is now of the third weight */
  b->s.parts[5] = 17;
  b->g.io[0][b->s.n_in] = TN_NONE;
  walked r = walk(&f, &b->g, S);
  CU_ASSERT_EQUAL_FATAL(r.st, TN_OK);
  CU_ASSERT(r.guards_ok && r.info->needs[0]->n_values == 2 && r.blobs[0].N == 63);
  CU_ASSERT_EQUAL(r.info->tasks[0]->n_uses, 4); /* x, blob, two outputs */
  bool same = true; /* columns 0..16 of the third weight are the first of the third part too */
  for (int m = 0; m < 3; m++) same = same && !memcmp(b->g.data[b->y[1]] + m * 17, b->g.data[b->y[2]] + m * 23, 17 * 4);
  CU_ASSERT(same);
  walked_free(&f, &r);
  graph_free(&b->g);
  free(b);
  fake_close(&f);
}

static void no_memory(void) {
  for (int64_t at = 1; at < 200; at++) {
    fake f = variant(32, 0);
    built *b = malloc(sizeof *b);
    int64_t S[1] = {2};
    CU_ASSERT_FATAL(fake_open(&f, so));
    build(&cases[6], 2, V_NORMAL, V_NORMAL, b);
    int64_t live = f.h.live;
    f.h.fail_at = at;
    walked r = walk(&f, &b->g, S);
    bool reached = f.h.fail_at == 0;
    CU_ASSERT_EQUAL(r.st, reached ? TN_E_NO_MEMORY : TN_OK);
    f.h.fail_at = 0;
    walked_free(&f, &r);
    CU_ASSERT_EQUAL(f.h.live, live);
    graph_free(&b->g);
    free(b);
    fake_close(&f);
    if (!reached) return;
  }
  CU_FAIL("never ran out of allocations to fail");
}

/* Chains that are broken on purpose differ from the reference of the right one. */
static void wrong_chains_are_caught(void) {
  static const struct {
    int64_t at, to; /* element of ops */
  } wrong[] = {{0, TN_OP_SIGMOID}, {0, TN_OP_GELU}, {1, 1}, {3, TN_OP_ADD}, {4, 0}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    fake f = variant(32, 0);
    built *b = malloc(sizeof *b);
    int64_t S[1] = {2}, checked = 0;
    CU_ASSERT_FATAL(fake_open(&f, so));
    build(&cases[1], 2, V_NORMAL, V_NORMAL, b);
    b->s.ops[wrong[i].at] = wrong[i].to;
    walked r = walk(&f, &b->g, S);
    CU_ASSERT_EQUAL_FATAL(r.st, TN_OK);
    CU_ASSERT_FALSE(right(&cases[1], b, &r.blobs[0], 2, &checked));
    walked_free(&f, &r);
    graph_free(&b->g);
    free(b);
    fake_close(&f);
  }
}

int add_fused_suite(const char *so_path) {
  so = so_path;
  CU_TestInfo tests[] = {{"chains", chains},       {"adversarial", adversarial},
                         {"refusals", refusals},   {"unused", unused},
                         {"no_memory", no_memory}, {"wrong_chains_are_caught", wrong_chains_are_caught},
                         CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"fused", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  return CU_register_suites(suites) == CUE_SUCCESS;
}
