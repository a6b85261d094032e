/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention and RotaryEmbedding beyond ONNX's own small cases: lengths over several blocks against sums in double, the
 * same bits for any number of threads and queries, queries that see nothing, and what is refused.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops_test.h"
#include "runtime/base/half.h"

typedef struct shape {
  const char *attrs;
  int64_t batch, heads, kv_heads, length, keys, past, size, v_size;
  const char *mask; /* dims and dtype, NULL: none */
  bool causal;
  int64_t left, right; /* -1: none */
  double cap;
  bool sinks, slopes;
} shape;

static const shape shapes[] = {
    {"", 1, 1, 1, 1, 1, 0, 4, 4, NULL, false, -1, -1, 0, false, false},
    {"", 2, 4, 2, 1, 700, 0, 32, 32, NULL, false, -1, -1, 0, false, false},
    {"", 1, 6, 2, 130, 130, 0, 20, 33, NULL, false, -1, -1, 0, false, false},
    {"is_causal=1", 1, 4, 4, 150, 150, 0, 16, 16, NULL, true, -1, -1, 0, false, false},
    {"is_causal=1", 2, 4, 2, 3, 3, 97, 16, 24, NULL, true, -1, -1, 0, false, false},
    {"is_causal=1", 1, 8, 1, 70, 70, 90, 8, 8, "f32[1,1,70,160]", true, -1, -1, 0, false, false},
    {"", 2, 4, 2, 1, 700, 0, 32, 32, NULL, false, -1, -1, 0, true, false},
    {"is_causal=1", 1, 6, 2, 130, 130, 0, 20, 33, NULL, true, -1, -1, 0, true, true},
    {"is_causal=1", 2, 4, 2, 3, 3, 97, 16, 24, NULL, true, -1, -1, 0, false, true},
    {"", 2, 2, 1, 5, 200, 0, 8, 8, "bool[2,1,5,200]", false, -1, -1, 0, true, true},
    {"left_window_size=90 softcap=0.5f", 1, 8, 2, 2, 2, 900, 8, 8, NULL, false, 90, -1, 0.5, true, true},
    {"", 2, 2, 1, 1, 900, 0, 8, 8, "bool[2,1,1,300]", false, -1, -1, 0, true, false},
    {"", 1, 2, 1, 2, 1100, 0, 8, 8, "bool[1,1,2,1100]", false, -1, -1, 0, true, false},
    {"", 2, 2, 1, 5, 200, 0, 8, 8, "bool[2,1,5,200]", false, -1, -1, 0, false, false},
    {"", 2, 4, 4, 11, 11, 0, 16, 16, "bool[2,1,11,11]", false, -1, -1, 0, false, false},
    {"", 1, 2, 2, 5, 200, 0, 8, 8, "bool[2,5,130]", false, -1, -1, 0, false, false}, /* shorter: the rest is masked */
    {"left_window_size=70", 1, 2, 1, 200, 200, 0, 8, 8, NULL, false, 70, -1, 0, false, false},
    /* heads that are no whole words of two elements */
    {"is_causal=1", 1, 2, 1, 40, 40, 3, 5, 7, NULL, true, -1, -1, 0, false, false},
    {"", 1, 2, 1, 2, 71, 0, 5, 16, NULL, false, -1, -1, 0, false, false},
    /* few queries, many keys: parts of the keys by several workers, some of which see nothing */
    {"is_causal=1", 1, 2, 1, 3, 3, 1000, 16, 24, NULL, true, -1, -1, 0, false, false},
    {"left_window_size=90 softcap=0.5f", 1, 8, 2, 2, 2, 900, 8, 8, NULL, false, 90, -1, 0.5, false, false},
    {"left_window_size=300 is_causal=1", 1, 1, 1, 30, 30, 700, 8, 8, NULL, true, 300, -1, 0, false, false},
    {"", 1, 2, 1, 2, 1100, 0, 8, 8, "bool[1,1,2,1100]", false, -1, -1, 0, false, false},
    {"", 1, 4, 2, 1, 2300, 0, 8, 8, NULL, false, -1, -1, 0, false,
     false}, /* more parts than there is room for at once */
    {"", 2, 2, 1, 1, 900, 0, 8, 8, "bool[2,1,1,300]", false, -1, -1, 0, false, false},
    {"left_window_size=3 right_window_size=66 softcap=0.5f", 1, 2, 1, 140, 140, 10, 8, 530, NULL, false, 3, 66, 0.5,
     false, false},
};

static const char *dims(char *text, const char *dtype, int64_t a, int64_t b, int64_t c, int64_t d) {
  snprintf(text, 64, "%s[%lld,%lld,%lld,%lld]", dtype, (long long)a, (long long)b, (long long)c, (long long)d);
  return text;
}

static double bias_of(const tni_tensor *m, int64_t b, int64_t h, int64_t i, int64_t j) {
  const int64_t at[4] = {b, h, i, j};
  int64_t index = 0, stride = 1;
  if (!m) return 0;
  if (j >= m->dims[m->rank - 1]) return -INFINITY;
  for (uint32_t d = 0; d < m->rank; d++) {
    const int64_t n = m->dims[m->rank - 1 - d];
    index += (n == 1 ? 0 : at[3 - d]) * stride;
    stride *= n;
  }
  if (m->dtype == TN_DT_BOOL) return ((const uint8_t *)m->data)[index] ? 0 : -INFINITY;
  float f;
  tni_tensor_to_f32(m, index, 1, &f);
  return (double)f;
}

static double element(const tni_tensor *t, int64_t b, int64_t h, int64_t r, int64_t c) {
  float f;
  tni_tensor_to_f32(t, ((b * t->dims[1] + h) * t->dims[2] + r) * t->dims[3] + c, 1, &f);
  return (double)f;
}

static double per_head(const tni_tensor *t, int64_t h) {
  float f;
  tni_tensor_to_f32(t, h, 1, &f);
  return (double)f;
}

static double joined(const tni_tensor *past, const tni_tensor *now, int64_t b, int64_t h, int64_t r, int64_t c) {
  const int64_t p = past ? past->dims[2] : 0;
  return r < p ? element(past, b, h, r, c) : element(now, b, h, r - p, c);
}

/* An element of a query as it is multiplied: beside keys of bfloat16 it is one too, times the scale. */
static double scaled(const shape *s, const ht_node *n, int64_t b, int64_t h, int64_t i, int64_t c) {
  const double q = element(n->ptr[0], b, h, i, c);
  if (n->ptr[1]->dtype != TN_DT_BF16) return q / sqrt((double)s->size);
  return (double)tni_bf16_to_f32(tni_f32_to_bf16((float)q * (1.f / sqrtf((float)s->size))));
}

/* One query in double; size: of its terms. */
static void exact(const shape *s, const ht_node *n, int64_t b, int64_t h, int64_t i, double *y, double *size) {
  const int64_t keys = s->past + s->keys, kv = h / (s->heads / s->kv_heads), at = i + s->past;
  double *p = calloc((size_t)keys, sizeof *p), max = -INFINITY, sum = 0;
  for (int64_t j = 0; p && j < keys; j++) {
    for (int64_t c = 0; c < s->size; c++) p[j] += scaled(s, n, b, h, i, c) * joined(n->ptr[4], n->ptr[1], b, kv, j, c);
    if (s->cap > 0) p[j] = s->cap * tanh(p[j] / s->cap);
    if (s->slopes) p[j] += per_head(n->ptr[8], h) * (double)(j - at);
    p[j] += bias_of(n->ptr[3], b, h, i, j);
    if ((s->causal && j > at) || (s->left >= 0 && j < at - s->left) || (s->right >= 0 && j > at + s->right))
      p[j] = -INFINITY;
    max = p[j] > max ? p[j] : max;
  }
  const double sink = s->sinks ? per_head(n->ptr[7], h) : -INFINITY;
  max = sink > max ? sink : max;
  sum = isinf(max) ? 0 : exp(sink - max);
  for (int64_t j = 0; p && j < keys; j++) sum += p[j] = isinf(max) ? 0 : exp(p[j] - max);
  for (int64_t c = 0; p && c < s->v_size; c++) {
    y[c] = size[c] = 0;
    for (int64_t j = 0; j < keys; j++) {
      const double term = p[j] * joined(n->ptr[5], n->ptr[2], b, kv, j, c) / (sum > 0 ? sum : 1);
      y[c] += term;
      size[c] += fabs(term);
    }
  }
  free(p);
}

/* Through a buffer: operands lie at odd addresses. */
static void fill(tni_tensor *t, int64_t n, uint32_t seed) {
  float *x = malloc((size_t)(n ? n : 1) * sizeof *x);
  if (x) ht_fill(x, n, seed);
  for (int64_t i = 0; x && i < n && t->dtype == TN_DT_BF16; i++)
    memcpy((char *)t->data + i * 2, &(uint16_t){tni_f32_to_bf16(x[i])}, 2);
  for (int64_t i = 0; x && i < n && t->dtype == TN_DT_F16; i++)
    memcpy((char *)t->data + i * 2, &(uint16_t){tni_f32_to_f16(x[i])}, 2);
  if (x && t->dtype == TN_DT_F32) memcpy(t->data, x, (size_t)n * sizeof *x);
  free(x);
}

/* dtype: of all floats. */
static bool make(const shape *s, const char *dtype, ht_node *n) {
  char q[64], k[64], v[64], pk[64], pv[64], per_head[64], mask[64] = "-";
  snprintf(per_head, sizeof per_head, "%s[%lld]", dtype, (long long)s->heads);
  if (s->mask) snprintf(mask, sizeof mask, "%s%s", *s->mask == 'f' ? dtype : "bool", strchr(s->mask, '['));
  const char *in[] = {dims(q, dtype, s->batch, s->heads, s->length, s->size),
                      dims(k, dtype, s->batch, s->kv_heads, s->keys, s->size),
                      dims(v, dtype, s->batch, s->kv_heads, s->keys, s->v_size),
                      mask,
                      s->past ? dims(pk, dtype, s->batch, s->kv_heads, s->past, s->size) : "-",
                      s->past ? dims(pv, dtype, s->batch, s->kv_heads, s->past, s->v_size) : "-",
                      s->sinks || s->slopes ? "-" : NULL,
                      s->sinks ? per_head : "-",
                      s->slopes ? per_head : "-",
                      NULL};
  if (!ht_node_make(n, s->sinks || s->slopes ? "tenon.Attention" : "Attention", 25, s->attrs, in, 3)) return false;
  for (uint32_t i = 0; i < n->n_in; i++) {
    int64_t count;
    if (!n->ptr[i] || tni_dims_count(n->ptr[i]->dims, n->ptr[i]->rank, &count) != TN_OK) continue;
    if (n->ptr[i]->dtype != TN_DT_BOOL) fill(&n->in[i], count, i + 1);
    for (int64_t e = 0; e < count && n->ptr[i]->dtype == TN_DT_BOOL; e++)
      ((uint8_t *)n->in[i].data)[e] = e % 7 < 3 && e / 40 % 5 != 2;
  }
  return true;
}

/* bf16: each term is off by up to 2^-8 of itself, as its probability is, and so is the result. f16: its own rounding, and
 * where halves are multiplied as such (kept.h) that of sums of 32 terms and of scores, which are small here. */
static void long_case(const shape *s, const char *dtype, tn_run *run) {
  const double rounding = !strcmp(dtype, "bf16") ? 0x1p-7 : !strcmp(dtype, "f16") ? 0x1p-9 : 0;
  /* with slopes, scores up to the number of keys are rounded twice; values are below 1 */
  const double bound = 2e-6 + (s->slopes ? 2 * (double)FLT_EPSILON * (double)(s->past + s->keys) : 0);
  ht_node n;
  tni_tensor one[3], many[3];
  double y[1024], size[1024], worst = 0;
  CU_ASSERT_FATAL(make(s, dtype, &n));
  CU_ASSERT_EQUAL(tni_ops_eval(NULL, n.node, n.ptr, n.n_in, one, 3, n.g->arena, &n.err), TN_OK);
  CU_ASSERT_EQUAL(tni_ops_eval(run, n.node, n.ptr, n.n_in, many, 3, n.g->arena, &n.err), TN_OK);
  for (int o = 0; o < 3; o++) CU_ASSERT(memcmp(one[o].data, many[o].data, (size_t)one[o].bytes) == 0);
  for (int64_t b = 0; b < s->batch; b++)
    for (int64_t h = 0; h < s->heads; h++)
      for (int64_t i = 0; i<s->length; i += s->length> 10 ? 7 : 1) {
        exact(s, &n, b, h, i, y, size);
        for (int64_t c = 0; c < s->v_size; c++) {
          const double off = fabs(element(&one[0], b, h, i, c) - y[c]);
          worst = fmax(worst, off / (bound + rounding * size[c]));
        }
      }
  if (!(worst <= 1)) printf("\n  case %d, %s: %g of the bound\n", (int)(s - shapes), dtype, worst);
  CU_ASSERT(worst <= 1);
  CU_ASSERT_EQUAL(one[1].dims[2], s->past + s->keys);
  CU_ASSERT_EQUAL(element(&one[1], 0, 0, s->past, 1), element(n.ptr[1], 0, 0, 0, 1));
  ht_node_free(&n);
}

static void test_long(void) {
  tni_pool *pool = tni_pool_create(3);
  tni_pool_run run;
  tni_pool_run_init(&run, pool, NULL);
  for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
    long_case(&shapes[k], "f32", &run.run);
    long_case(&shapes[k], "bf16", &run.run);
    long_case(&shapes[k], "f16", &run.run);
  }
  tni_pool_destroy(pool);
}

/* The last of 130 queries computed alone has the bits that it has among the others. */
static void alone(const char *dtype, size_t size) {
  const shape all = {"is_causal=1", 1, 4, 2, 130, 130, 0, 16, 16, NULL, true, -1, -1, 0, false, false};
  const shape last = {"is_causal=1", 1, 4, 2, 1, 1, 129, 16, 16, NULL, true, -1, -1, 0, false, false};
  const size_t row = 16 * size;
  ht_node a, b;
  tni_tensor x[3], y[3];
  CU_ASSERT_FATAL(make(&all, dtype, &a) && make(&last, dtype, &b));
  for (size_t h = 0; h < 4; h++)
    memcpy((char *)b.in[0].data + h * row, (const char *)a.in[0].data + (h * 130 + 129) * row, row);
  for (uint32_t i = 1; i < 3; i++)
    for (size_t h = 0; h < 2; h++) {
      memcpy((char *)b.in[i].data + h * row, (const char *)a.in[i].data + (h * 130 + 129) * row, row);
      memcpy((char *)b.in[i + 3].data + h * 129 * row, (const char *)a.in[i].data + h * 130 * row, 129 * row);
    }
  CU_ASSERT_EQUAL(tni_ops_eval(NULL, a.node, a.ptr, a.n_in, x, 3, a.g->arena, &a.err), TN_OK);
  CU_ASSERT_EQUAL(tni_ops_eval(NULL, b.node, b.ptr, b.n_in, y, 3, b.g->arena, &b.err), TN_OK);
  for (size_t h = 0; h < 4; h++)
    CU_ASSERT(memcmp((const char *)y[0].data + h * row, (const char *)x[0].data + (h * 130 + 129) * row, row) == 0);
  ht_node_free(&a);
  ht_node_free(&b);
}

static void test_alone(void) {
  alone("f32", sizeof(float));
  alone("bf16", sizeof(uint16_t));
  alone("f16", sizeof(uint16_t));
}

typedef struct row {
  const char *op, *attrs, *in[10], *out, *says;
  tn_status status;
} row;

static const row rows[] = {
    /* no key: zeros, also behind scores that are inf or NaN */
    {"Attention",
     "",
     {"f32[1,1,2,1] 1 1", "f32[1,1,2,1] inf 2", "f32[1,1,2,1] 3 5", "bool[2,2] 0 0 0 1"},
     "f32[1,1,2,1] 0 5",
     NULL,
     TN_OK},
    {"Attention",
     "",
     {"f32[1,1,1,1] nan", "f32[1,1,1,1] 1", "f32[1,1,1,1] 3", "f32[1,1] -inf"},
     "f32[1,1,1,1] 0",
     NULL,
     TN_OK},
    {"Attention", "", {"f32[1,1,1,1] nan", "f32[1,1,1,1] 1", "f32[1,1,1,1] 3"}, "f32[1,1,1,1] nan", NULL, TN_OK},
    {"Attention",
     "",
     {"bf16[1,1,1,2] 1 0", "bf16[1,1,3,2] 0 1 0 2 inf 0", "bf16[1,1,3,1] 3 5 7", "bool[1,3] 1 1 0"},
     "bf16[1,1,1,1] 4",
     NULL,
     TN_OK},
    {"Attention",
     "",
     {"bf16[1,9,1,1] nan nan nan nan nan nan nan nan nan", "bf16[1,1,1,1] 1", "bf16[1,1,1,1] 3", "bf16[1,1] -inf"},
     "bf16[1,9,1,1] 0 0 0 0 0 0 0 0 0",
     NULL,
     TN_OK},
    {"Attention", "", {"f32[1,1,1,2] 1 2", "f32[1,1,0,2]", "f32[1,1,0,2]"}, "f32[1,1,1,2] 0 0", NULL, TN_OK},
    {"Attention",
     "",
     {"f32[1,3,1,2] 1 2 3 4 5 6", "f32[1,2,1,2] 1 2 3 4", "f32[1,2,1,2] 1 2 3 4"},
     NULL,
     "do not divide",
     TN_E_INVALID},
    {"Attention",
     "",
     {"f32[1,1,1,1] 1", "f32[1,1,2,1] 1 2", "f32[1,1,2,1] 1 2", "f32[3,2] 1 2 3 4 5 6"},
     NULL,
     "attn_mask",
     TN_E_INVALID},
    /* sinks: with zero scores one over the number of keys and sinks; no key, no value */
    {"tenon.Attention",
     "",
     {"f32[1,2,2,1] 0 0 0 0", "f32[1,1,1,1] 2", "f32[1,1,1,1] 8", "bool[2,1] 1 0", "-", "-", "-", "f32[2] 0 -inf"},
     "f32[1,2,2,1] 4 0 8 0",
     NULL,
     TN_OK},
    {"tenon.Attention",
     "",
     {"f16[1,1,1,1] 0", "f16[1,1,1,1] 2", "f16[1,1,1,1] 8", "-", "-", "-", "-", "f16[1] 0"},
     "f16[1,1,1,1] 4",
     NULL,
     TN_OK},
    {"tenon.Attention",
     "",
     {"f32[1,1,1,1] 1", "f32[1,1,0,1]", "f32[1,1,0,1]", "-", "-", "-", "-", "f32[1] 5"},
     "f32[1,1,1,1] 0",
     NULL,
     TN_OK},
    /* slopes count from the valid length: key 0 is one below query 1, keys behind are not seen */
    {"tenon.Attention",
     "is_causal=1",
     {"f32[1,1,1,1] 0", "f32[1,1,3,1] 1 1 1", "f32[1,1,3,1] 3 6 99", "-", "-", "-", "i64[1] 2", "f32[1] 0.6931472",
      "f32[1] 0.6931472"},
     "f32[1,1,1,1] 2.142857",
     NULL,
     TN_OK},
    {"tenon.Attention",
     "",
     {"f32[1,2,1,1] 0 0", "f32[1,1,1,1] 2", "f32[1,1,1,1] 8", "-", "-", "-", "-", "f32[1] 0"},
     NULL,
     "one element per head",
     TN_E_INVALID},
    {"RotaryEmbedding",
     "",
     {"f32[1,1,1,4] 1 2 3 4", "f32[1,1,2] 0 1", "f32[1,1,2] 1 0"},
     "f32[1,1,1,4] -3 2 1 4",
     NULL,
     TN_OK},
    {"RotaryEmbedding",
     "rotary_embedding_dim=2",
     {"f32[1,1,1,4] 1 2 3 4", "f32[1,1,1] 0", "f32[1,1,1] 1"},
     "f32[1,1,1,4] -2 1 3 4",
     NULL,
     TN_OK},
    {"RotaryEmbedding",
     "",
     {"f32[1,1,1,2] 1 2", "f32[2,1] 0 1", "f32[2,1] 1 0", "i64[1,1] 2"},
     NULL,
     "position",
     TN_E_INVALID},
    {"RotaryEmbedding", "", {"f32[1,1,1,3] 1 2 3", "f32[1,1,1] 0", "f32[1,1,1] 1"}, NULL, "turned", TN_E_INVALID},
};

static void test_rows(void) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const row *r = &rows[i];
    ht_node n;
    tni_tensor out[1], want;
    CU_ASSERT_FATAL(ht_node_make(&n, r->op, 25, r->attrs, r->in, 1));
    const tn_status st = tni_ops_eval(NULL, n.node, n.ptr, n.n_in, out, 1, n.g->arena, &n.err);
    if (st != r->status) printf("\n  row %zu: %s\n", i, n.err.message);
    CU_ASSERT_EQUAL(st, r->status);
    if (r->says) CU_ASSERT(strstr(n.err.message, r->says) != NULL);
    if (r->out) CU_ASSERT(ht_tensor(n.g->arena, r->out, &want) && ht_same(&out[0], &want, 1e-6));
    ht_node_free(&n);
  }
}

bool ht_add_attention(void) {
  CU_pSuite s = CU_add_suite("attention", NULL, NULL);
  return s && CU_add_test(s, "long", test_long) && CU_add_test(s, "alone", test_alone) &&
         CU_add_test(s, "rows", test_rows);
}
