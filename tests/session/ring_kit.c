/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_kit.h"

#include <math.h>

#include "runtime/memory/run.h"

int64_t walk_size = SIZE;
const char *walk_more = "";

uint32_t walk_random(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void add_weight(wbuf *g, const char *name, const char *dims, size_t n, float scale, uint32_t *state) {
  float *w = malloc(n * sizeof *w);
  if (!w) abort();
  for (size_t i = 0; i < n; i++) w[i] = ((float)walk_random(state) / 0x1p23f - 1) * scale;
  wb_msg(g, G_INIT, onnx_tensor_raw(name, TN_DT_F32, dims, w, n * sizeof *w));
  free(w);
}

/* y[.., cols] = x[.., rows] w */
static void add_product(wbuf *g, const char *x, const char *w, int64_t rows, int64_t cols, const char *y,
                        uint32_t *state) {
  char in[64], dims[64];
  snprintf(dims, sizeof dims, "%lld,%lld", (long long)rows, (long long)cols);
  add_weight(g, w, dims, (size_t)(rows * cols), 0.35f, state);
  snprintf(in, sizeof in, "%s,%s", x, w);
  wb_msg(g, G_NODE, onnx_node("MatMul", y, in, y));
}

#define NAME(p, l) (snprintf(p, sizeof p, #p "%d", l), p)

/* x += Attention(x) Wo, over the layer's own cache. window -1: all of it. */
static void add_layer(wbuf *g, int l, int64_t window, uint32_t *state) {
  char q[8], k[8], v[8], y[8], o[8], x[8], wq[8], wk[8], wv[8], wo[8], text[128], out[128], next[8];
  add_product(g, NAME(x, l), NAME(wq, l), DIM, HEADS * walk_size, NAME(q, l), state);
  add_product(g, x, NAME(wk, l), DIM, KV * walk_size, NAME(k, l), state);
  add_product(g, x, NAME(wv, l), DIM, KV * walk_size, NAME(v, l), state);
  snprintf(text, sizeof text, "%s,%s,%s,,past_key_values.%d.key,past_key_values.%d.value", q, k, v, l, l);
  snprintf(out, sizeof out, "%s,present.%d.key,present.%d.value", NAME(y, l), l, l);
  wbuf n = onnx_node("Attention", "", text, out);
  wb_msg(&n, 5, onnx_attr_int("q_num_heads", HEADS));
  wb_msg(&n, 5, onnx_attr_int("kv_num_heads", KV));
  wb_msg(&n, 5, onnx_attr_int("is_causal", 1));
  wb_msg(&n, 5, onnx_attr_int("left_window_size", window));
  wb_msg(g, G_NODE, n);
  add_product(g, y, NAME(wo, l), HEADS * walk_size, DIM, NAME(o, l), state);
  snprintf(text, sizeof text, "%s,%s", x, o);
  snprintf(next, sizeof next, "x%d", l + 1);
  wb_msg(g, G_NODE, onnx_node("Add", "", text, next));
  for (int i = 0; i < 2; i++) {
    char dims[64];
    snprintf(text, sizeof text, "past_key_values.%d.%s", l, i ? "value" : "key");
    snprintf(dims, sizeof dims, "batch,2,past,%lld", (long long)walk_size);
    wb_msg(g, G_INPUT, onnx_value(text, TN_DT_F32, dims));
    snprintf(text, sizeof text, "present.%d.%s", l, i ? "value" : "key");
    snprintf(dims, sizeof dims, "batch,2,total,%lld", (long long)walk_size);
    wb_msg(g, G_OUTPUT, onnx_value(text, TN_DT_F32, dims));
  }
}

wbuf walk_model(int64_t first, int64_t second) {
  wbuf g = {0};
  uint32_t state = 7;
  wb_str(&g, G_NAME, "windows");
  add_weight(&g, "table", "48,32", VOCAB * DIM, 1, &state);
  wb_msg(&g, G_NODE, onnx_node("Gather", "", "table,input_ids", "x0"));
  wb_msg(&g, G_INPUT, onnx_value("input_ids", TN_DT_I64, "batch,seq"));
  wb_msg(&g, G_OUTPUT, onnx_value("logits", TN_DT_F32, "batch,seq,48"));
  add_layer(&g, 0, first, &state);
  add_layer(&g, 1, second, &state);
  add_product(&g, "x2", "head", DIM, VOCAB, "logits", &state);
  return onnx_model(g, 24);
}

bool walk_keep(walk *w, tn_session *s, int64_t capacity, int64_t max_step) {
  const tn_keep_opts o = {.h = {sizeof o, 1, 0}, .capacity = capacity, .max_step = max_step};
  const tn_status st = tn_session_keep(s, &o, &w->r.err);
  if (st != TN_OK) printf("\n    keep: %s\n", w->r.err.message);
  return st == TN_OK;
}

bool walk_begin(walk *w, const char *profile, int64_t first, int64_t second) {
  char all[512];
  memset(w, 0, sizeof *w);
  snprintf(all, sizeof all, "%s%s", profile, walk_more);
  tn_status st = rig_init(&w->r, all);
  if (st == TN_OK) st = rig_load(&w->r, walk_model(first, second), 0);
  if (st != TN_OK) printf("\n    %s\n", w->r.err.message);
  w->logits.h = (tn_hdr){sizeof w->logits, 1, 0};
  w->in[0] = &w->ids;
  w->out[0] = &w->logits;
  return st == TN_OK;
}

tn_status walk_step(walk *w, tn_session *s, int64_t n) {
  const int64_t at = tn_session_length(s);
  for (int64_t i = 0; i < n; i++) w->id[i] = (at + i) * (at + i + 5) % VOCAB;
  w->ids = i64_tensor("input_ids", w->id, 2, 1, n);
  tn_error_init(&w->r.err);
  return tn_session_step(s, n > 1 ? TN_PHASE_PREFILL : TN_PHASE_DECODE, w->in, w->out, 0, &w->r.err);
}

bool walk_steps(walk *w, tn_session *s, const int64_t *sizes, int64_t to, float *dst) {
  const int64_t *next = sizes;
  for (int64_t at = tn_session_length(s); at < to;) {
    const int64_t n = *next < to - at ? *next : to - at;
    if (walk_step(w, s, n) != TN_OK) {
      printf("\n    step at %lld: %s\n", (long long)at, w->r.err.message);
      return false;
    }
    memcpy(dst + at * VOCAB, w->logits.data, (size_t)n * VOCAB * sizeof *dst);
    at += n;
    next = next[1] ? next + 1 : sizes;
  }
  return true;
}

const int64_t walk_cuts[][8] = {{16, 7, 1, 1, 5, 9}, {1}, {16}, {3, 13}};

float *walk_logits(const char *profile, int64_t first, int64_t second, const int64_t *sizes, int64_t rows[2]) {
  walk w;
  float *got = malloc(LONG * VOCAB * sizeof *got);
  bool ok = got && walk_begin(&w, profile, first, second) && walk_keep(&w, w.r.s, CAPACITY, STEP) &&
            walk_steps(&w, w.r.s, sizes, LONG, got);
  for (int l = 0; ok && rows && l < 2; l++) rows[l] = w.r.s->states[2 * l].t.dims[TNI_STATE_ROWS];
  rig_finish(&w.r);
  if (ok) return got;
  free(got);
  return NULL;
}

bool walk_same(const float *a, const float *b) { return a && b && !memcmp(a, b, LONG * VOCAB * sizeof *a); }

double walk_distance(const float *a, const float *b) {
  double gap = 0, top = 0;
  for (size_t i = 0; i < LONG * VOCAB; i++) {
    const double d = fabs((double)a[i] - b[i]), v = fabs((double)b[i]);
    if (!(d <= gap)) gap = d;
    if (v > top) top = v;
  }
  return gap / top;
}
