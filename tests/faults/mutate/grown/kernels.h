/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tasks compute, row by row on the host's pool: products with a chain behind them, norms, softmax, and a few
 * operators with attributes.
 */
static float unary(int64_t op, float x, float p) {
  switch (op) {
    case TN_OP_NEG: return -x;
    case TN_OP_RELU: return x > 0 ? x : x == x ? 0 : x;
    case TN_OP_SIGMOID: return 1 / (1 + expf(-x));
    case TN_OP_TANH: return tanhf(x);
    case TN_OP_GELU:
      return p > 0 ? 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)))
                   : 0.5f * x * (1 + erff(x * 0.7071067812f));
    default: return x / (1 + expf(-p * x)); /* SWISH */
  }
}

static float binary(int64_t op, float a, float b) {
  return op == TN_OP_ADD ? a + b : op == TN_OP_SUB ? a - b : op == TN_OP_MUL ? a * b : a / b;
}

/* Register r at column n of row m, of `width` columns: a product or an instruction's result, of which this worker has the
 * row, or an input. */
static float reg(const tn_args *a, const float *const *rows, int64_t r, int64_t width, int64_t m, int64_t n) {
  const step *t = a->plan->step;
  if (r < t->n_parts) return rows[r][n];
  if (r >= t->n_parts + t->n_extras) return rows[r - t->n_extras][n];
  const shape *s = &a->plan->extra[r - t->n_parts];
  const float *x = a->memory[t->extra_use[r - t->n_parts]];
  return x[s->elems == 1 ? 0 : s->elems == width ? n : m * width + n];
}

static void product_row(const tn_args *a, float *scratch, int64_t m) {
  const step *t = a->plan->step;
  const float *x = a->memory[0], *rows[TN_FUSED_MAX_PARTS + TN_CHAIN_MAX_OPS];
  const int64_t step_k = t->trans_a ? a->plan->M : 1, row_bytes = groups_of(t->K) * GROUP_BYTES;
  x += t->trans_a ? m : m * t->K;
  for (uint32_t p = 0; p < t->n_parts; p++) {
    rows[p] = scratch;
    for (int64_t n = 0; n < t->count[p]; n++) {
      const unsigned char *w = t->blob + (t->first[p] + n) * row_bytes;
      float sum = 0;
      for (int64_t k = 0; k < t->K; k++) sum += x[k * step_k] * weight_at(w, k);
      scratch[n] = sum * t->alpha;
    }
    scratch += t->count[p];
  }
  for (uint32_t i = 0; i < t->n_ops; i++) {
    const int64_t *o = t->ops + 3 * i, width = t->width[t->n_parts + i];
    rows[t->n_parts + i] = scratch;
    for (int64_t n = 0; n < width; n++)
      scratch[n] = o[2] < 0 ? unary(o[0], reg(a, rows, o[1], width, m, n), t->floats[i])
                            : binary(o[0], reg(a, rows, o[1], width, m, n), reg(a, rows, o[2], width, m, n));
    scratch += width;
  }
  for (uint32_t o = 0; o < t->n_out; o++) {
    const uint32_t r = inner_operand(t, t->results[o]);
    float *y = (float *)a->memory[t->out_use + o] + m * t->width[r];
    for (int64_t n = 0; n < t->width[r]; n++) y[n] = rows[r][n];
  }
}

/* y += beta * C, C broadcast to [M, N]. */
static void add_bias(const tn_args *a, int64_t m) {
  const step *t = a->plan->step;
  if (!t->gemm || !t->n_extras) return;
  const shape *s = &a->plan->extra[0];
  const float *c = a->memory[t->extra_use[0]];
  float *y = (float *)a->memory[t->out_use] + m * t->N;
  const int64_t cols = s->rank ? s->d[s->rank - 1] : 1, rows = s->rank > 1 ? s->d[s->rank - 2] : 1;
  for (int64_t n = 0; n < t->N; n++) y[n] += t->beta * c[(rows > 1 ? m * cols : 0) + (cols > 1 ? n : 0)];
}

static void products(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const tn_args *a = arg;
  for (int64_t m = begin; m < end; m++) {
    product_row(a, (float *)(void *)(a->scratch + worker * a->plan->scratch), m);
    add_bias(a, m);
  }
}

static void norms(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const tn_args *a = arg;
  const step *t = a->plan->step;
  const int64_t n = a->plan->in[0].d[a->plan->in[0].rank - 1];
  (void)worker;
  for (int64_t m = begin; m < end; m++) {
    const float *x = (const float *)a->memory[0] + m * n, *scale = a->memory[t->in_use[1]];
    const float *bias = t->n_in > 2 ? a->memory[t->in_use[2]] : NULL;
    float *y = (float *)a->memory[t->out_use] + m * n;
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < n && t->op == TN_OP_LAYER_NORMALIZATION; i++) mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    const double r = 1 / sqrt(squares / (double)n + t->epsilon);
    for (int64_t i = 0; i < n; i++) y[i] = (float)((x[i] - mean) * r) * scale[i] + (bias ? bias[i] : 0);
  }
}

/* Along any axis: `inner` elements lie between neighbours. */
static void softmaxes(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const tn_args *a = arg;
  const tn_plan *p = a->plan;
  const int64_t n = p->in[0].d[p->axis];
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    const int64_t at = i / p->inner * p->inner * n + i % p->inner;
    const float *x = (const float *)a->memory[0] + at;
    float *y = (float *)a->memory[p->step->out_use] + at, top = -INFINITY;
    double sum = 0;
    for (int64_t k = 0; k < n; k++) top = fmaxf(top, x[k * p->inner]);
    for (int64_t k = 0; k < n; k++) sum += exp((double)(x[k * p->inner] - top));
    for (int64_t k = 0; k < n; k++) y[k * p->inner] = (float)(exp((double)(x[k * p->inner] - top)) / sum);
  }
}

/* LeakyRelu, Elu, HardSigmoid; Add and Mul that broadcast; Transpose: one element of the result after the other. */
static void elements(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const tn_args *a = arg;
  const tn_plan *p = a->plan;
  const step *t = p->step;
  const float *x = a->memory[0], *z = t->n_in > 1 ? a->memory[t->in_use[1]] : NULL;
  float *y = a->memory[t->out_use];
  (void)worker;
  for (int64_t e = begin; e < end; e++) {
    int64_t at[2] = {0, 0}, left = e;
    for (uint32_t i = p->out.rank; i-- > 0;) {
      at[0] += left % p->out.d[i] * p->stride[0][i];
      at[1] += left % p->out.d[i] * p->stride[1][i];
      left /= p->out.d[i];
    }
    const float v = x[at[0]];
    y[e] = t->op == TN_OP_LEAKY_RELU     ? (v < 0 ? v * t->alpha : v)
           : t->op == TN_OP_ELU          ? (v < 0 ? t->alpha * expm1f(v) : v)
           : t->op == TN_OP_HARD_SIGMOID ? (v == v ? fmaxf(0, fminf(1, t->alpha * v + t->beta)) : v)
           : t->op == TN_OP_TRANSPOSE    ? v
                                         : binary(t->op, v, z[at[1]]);
  }
}
