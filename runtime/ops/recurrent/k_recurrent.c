/* SPDX-License-Identifier: Apache-2.0
 *
 * RNN, GRU, LSTM as ONNX 22 defines them: X [T, B, I] (layout 1: [B, T, I]), per direction W [G * H, I], R [G * H, H],
 * biases [Wb, Rb], peepholes of LSTM [i, o, f]; gates stand in the order i o f c (LSTM) and z r h (GRU).
 *
 * One task is one sequence in one direction. Products are sums in ascending order of the inner index, f32 (f64 for
 * f64); what is done element by element is done in double.
 */
#include <math.h>
#include <strings.h>

#include "runtime/base/base.h"
#include "runtime/ops/recurrent/recurrent.h"

enum { COLS = 256, GATES_MAX = 4, FUNCS_MAX = 3 };

typedef enum {
  F_RELU = TN_WORD_RNN_ACTIVATIONS_RELU,
  F_TANH = TN_WORD_RNN_ACTIVATIONS_TANH,
  F_SIGMOID = TN_WORD_RNN_ACTIVATIONS_SIGMOID,
  F_AFFINE = TN_WORD_RNN_ACTIVATIONS_AFFINE,
  F_LEAKY = TN_WORD_RNN_ACTIVATIONS_LEAKY_RELU,
  F_THRESHOLDED = TN_WORD_RNN_ACTIVATIONS_THRESHOLDED_RELU,
  F_SCALED_TANH = TN_WORD_RNN_ACTIVATIONS_SCALED_TANH,
  F_HARD_SIGMOID = TN_WORD_RNN_ACTIVATIONS_HARD_SIGMOID,
  F_ELU = TN_WORD_RNN_ACTIVATIONS_ELU,
  F_SOFTSIGN = TN_WORD_RNN_ACTIVATIONS_SOFTSIGN,
  F_SOFTPLUS = TN_WORD_RNN_ACTIVATIONS_SOFTPLUS
} func;

typedef struct activation {
  func f;
  double alpha, beta;
} activation;

typedef struct recurrent {
  const tn_run *run;
  const tni_tensor *x, *w, *r, *b, *lens, *h0, *c0, *p;
  tni_tensor *y, *yh, *yc;
  int64_t T, B, I, H, D, G;
  bool layout, linear_before_reset, input_forget, reverse; /* reverse: of the only direction */
  double clip;                                             /* 0: none */
  activation act[2][FUNCS_MAX];
  uint32_t elem;       /* bytes of a weight in scratch: 8 for f64, else 4 */
  const char *wt, *rt; /* [D][I][G * H] and [D][H][G * H] */
  double *room;        /* per worker */
  int64_t per_worker;
} recurrent;

/* Of n_in operands: G gates, FUNCS functions. */
static int64_t gates_of(const tn_node *n) { return n->op == TN_OP_LSTM ? 4 : n->op == TN_OP_GRU ? 3 : 1; }
static uint32_t funcs_of(const tn_node *n) { return n->op == TN_OP_LSTM ? 3 : n->op == TN_OP_GRU ? 2 : 1; }

/* --- activations ----------------------------------------------------------------------------------------------------
 */

/* How many of alpha and beta they take, and what these are unless said. */
static const struct {
  uint32_t params;
  double alpha, beta;
} funcs[] = {
    [F_RELU] = {0, 0, 0},        [F_TANH] = {0, 0, 0},
    [F_SIGMOID] = {0, 0, 0},     [F_AFFINE] = {2, 1, 0},
    [F_LEAKY] = {1, 0.01, 0},    [F_THRESHOLDED] = {1, 1, 0},
    [F_SCALED_TANH] = {2, 1, 1}, [F_HARD_SIGMOID] = {2, 0.2, 0.5},
    [F_ELU] = {1, 1, 0},         [F_SOFTSIGN] = {0, 0, 0},
    [F_SOFTPLUS] = {0, 0, 0},
};

static double value_of(const activation *a, double v) {
  switch (a->f) {
    case F_RELU:
      return v < 0 ? 0 : v;
    case F_TANH:
      return tanh(v);
    case F_SIGMOID:
      return 1 / (1 + exp(-v));
    case F_AFFINE:
      return a->alpha * v + a->beta;
    case F_LEAKY:
      return v < 0 ? a->alpha * v : v;
    case F_THRESHOLDED:
      return v > a->alpha ? v : 0;
    case F_SCALED_TANH:
      return a->alpha * tanh(a->beta * v);
    case F_HARD_SIGMOID:
      v = a->alpha * v + a->beta;
      return v < 0 ? 0 : v > 1 ? 1 : v;
    case F_ELU:
      return v < 0 ? a->alpha * expm1(v) : v;
    case F_SOFTSIGN:
      return v / (1 + fabs(v));
    default:
      return v > 0 ? v + log1p(exp(-v)) : log1p(exp(v));
  }
}

/* The clip bounds what gates are made of. The cell's way into LSTM's output is not bounded, as in ONNX Runtime. */
static double apply_activation(const recurrent *q, const activation *a, double v) {
  if (q->clip > 0) v = v < -q->clip ? -q->clip : v > q->clip ? q->clip : v;
  return value_of(a, v);
}

/* The next of a list of scaling values, which functions that take one consume in order; dflt after its end. */
static double next_value(const tn_attr *list, uint32_t *at, double dflt) {
  if (!list || list->type != TN_ATTR_FLOATS || !list->u.p || *at >= list->n) return dflt;
  return (double)((const float *)list->u.p)[(*at)++];
}

static tn_status read_activations(const tni_kargs *a, recurrent *q) {
  static const func lstm[] = {F_SIGMOID, F_TANH, F_TANH}, rnn[] = {F_TANH};
  const tn_attr *names = tni_at(a->node, TNI_A_ACTIVATIONS), *alpha = tni_at(a->node, TNI_A_ACTIVATION_ALPHA),
                *beta = tni_at(a->node, TNI_A_ACTIVATION_BETA);
  const uint32_t per = funcs_of(a->node);
  const bool given = names && names->type == TN_ATTR_STRINGS && names->u.p;
  uint32_t at_alpha = 0, at_beta = 0;
  if (given && names->n < (uint64_t)q->D * per)
    return tni_kfail(a, TN_E_INVALID, "%llu activations, not %u per direction", (unsigned long long)names->n, per);
  for (int64_t d = 0; d < q->D; d++)
    for (uint32_t i = 0; i < per; i++) {
      activation *f = &q->act[d][i];
      f->f = per == 1 ? rnn[i] : lstm[i];
      if (given) {
        const uint32_t at = (uint32_t)d * per + i;
        f->f = names->word >> 5 * at & 31;
        if (!f->f) return tni_kfail(a, TN_E_UNSUPPORTED, "activation '%.40s'", names->u.strings[at]);
      }
      f->alpha = funcs[f->f].alpha;
      f->beta = funcs[f->f].beta;
      if (funcs[f->f].params > 0) f->alpha = next_value(alpha, &at_alpha, f->alpha);
      if (funcs[f->f].params > 1) f->beta = next_value(beta, &at_beta, f->beta);
    }
  return TN_OK;
}

/* --- products -------------------------------------------------------------------------------------------------------
 */

/* [rows, cols] -> [cols, rows], from any float type. */
static void transpose_weight(const tni_tensor *t, int64_t first, int64_t rows, int64_t cols, char *dst,
                             tni_poll *poll) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols && !tni_poll_stop(poll, COLS); c += COLS) {
      float f[COLS];
      const int64_t n = cols - c < COLS ? cols - c : COLS;
      if (t->dtype == TN_DT_F64) {
        const f64u *src = (const f64u *)t->data + first + r * cols + c;
        for (int64_t i = 0; i < n; i++) ((double *)dst)[(c + i) * rows + r] = src[i];
        continue;
      }
      tni_load_f32(t->dtype, t->data, first + r * cols + c, n, f);
      for (int64_t i = 0; i < n; i++) ((float *)dst)[(c + i) * rows + r] = f[i];
    }
}

static uint32_t elem_of(const tni_tensor *t) { return t->dtype == TN_DT_F64 ? 8 : 4; }

/* w [D, rows, cols] -> [D][cols][rows]. The end of it. */
static char *transpose_all(const tni_tensor *w, char *dst, tni_poll *poll) {
  if (!tni_knumel(w)) return dst; /* dims beside an axis of 0 may be absurd */
  const int64_t matrix = w->dims[1] * w->dims[2];
  for (int64_t d = 0; d < w->dims[0]; d++)
    transpose_weight(w, d * matrix, w->dims[1], w->dims[2], dst + d * matrix * elem_of(w), poll);
  return dst + tni_knumel(w) * elem_of(w);
}

/* out[n] += v [K] * m [K, stride], columns [col, col + n) of it. */
#define MATVEC(NAME, T)                                                                                       \
  static void NAME(const T *m, int64_t stride, const double *v, int64_t K, int64_t n, double *restrict out) { \
    T acc[COLS];                                                                                              \
    for (int64_t at = 0; at < n; at += COLS) {                                                                \
      const int64_t w = n - at < COLS ? n - at : COLS;                                                        \
      memset(acc, 0, sizeof acc);                                                                             \
      for (int64_t k = 0; k < K; k++) {                                                                       \
        const T f = (T)v[k];                                                                                  \
        const T *row = m + k * stride + at;                                                                   \
        for (int64_t i = 0; i < w; i++) acc[i] += f * row[i];                                                 \
      }                                                                                                       \
      for (int64_t i = 0; i < w; i++) out[at + i] += (double)acc[i];                                          \
    }                                                                                                         \
  }
MATVEC(matvec_f32, float)
MATVEC(matvec_f64, double)
#undef MATVEC

static void matvec_row(const recurrent *q, const char *m, int64_t stride, int64_t col, const double *v, int64_t K,
                       int64_t n, double *out) {
  if (q->elem == 8)
    matvec_f64((const double *)m + col, stride, v, K, n, out);
  else
    matvec_f32((const float *)m + col, stride, v, K, n, out);
}

static void load_doubles(const tni_tensor *t, int64_t first, int64_t n, double *dst) {
  for (int64_t i = 0; i < n; i++) dst[i] = t ? tni_get_f64(t, first + i) : 0;
}

static void store_doubles(tni_tensor *t, int64_t first, int64_t n, const double *src) {
  if (!t) return;
  for (int64_t i = 0; i < n; i++) {
    const float f = (float)src[i];
    if (t->dtype == TN_DT_F64)
      ((f64u *)t->data)[first + i] = src[i];
    else
      tni_store_f32(t->dtype, t->data, first + i, 1, &f);
  }
}

/* --- one sequence ---------------------------------------------------------------------------------------------------
 */

typedef struct seq {
  const recurrent *q;
  int64_t d, b;
  const activation *act;
  const char *rt;
  double *x, *h, *c, *bias, *peep, *gate, *more; /* [I] [H] [H] [2 G H] [3 H] [G H] [G H] */
} seq;

static void rnn_step(seq *s) {
  const recurrent *q = s->q;
  matvec_row(q, s->rt, q->H, 0, s->h, q->H, q->H, s->gate);
  for (int64_t i = 0; i < q->H; i++) s->h[i] = apply_activation(q, &s->act[0], s->gate[i] + s->bias[q->H + i]);
}

static void gru_step(seq *s) {
  const recurrent *q = s->q;
  const int64_t H = q->H;
  const double *rb = s->bias + 3 * H;
  double *z = s->gate, *r = z + H, *n = r + H, *rh = s->more;
  matvec_row(q, s->rt, 3 * H, 0, s->h, H, 2 * H, z);
  for (int64_t i = 0; i < 2 * H; i++) z[i] = apply_activation(q, &s->act[0], z[i] + rb[i]);
  memset(rh, 0, (size_t)H * sizeof *rh);
  if (q->linear_before_reset) {
    matvec_row(q, s->rt, 3 * H, 2 * H, s->h, H, H, rh);
    for (int64_t i = 0; i < H; i++) n[i] += r[i] * (rh[i] + rb[2 * H + i]);
  } else {
    for (int64_t i = 0; i < H; i++) r[i] *= s->h[i];
    matvec_row(q, s->rt, 3 * H, 2 * H, r, H, H, rh);
    for (int64_t i = 0; i < H; i++) n[i] += rh[i] + rb[2 * H + i];
  }
  for (int64_t i = 0; i < H; i++) s->h[i] = (1 - z[i]) * apply_activation(q, &s->act[1], n[i]) + z[i] * s->h[i];
}

static void lstm_step(seq *s) {
  const recurrent *q = s->q;
  const int64_t H = q->H;
  double *in = s->gate, *out = in + H, *forget = out + H, *cell = forget + H;
  const double *p = s->peep;
  matvec_row(q, s->rt, 4 * H, 0, s->h, H, 4 * H, s->gate);
  for (int64_t i = 0; i < 4 * H; i++) s->gate[i] += s->bias[4 * H + i];
  for (int64_t i = 0; i < H; i++) {
    const double gi = apply_activation(q, &s->act[0], in[i] + p[i] * s->c[i]);
    const double gf = q->input_forget ? 1 - gi : apply_activation(q, &s->act[0], forget[i] + p[2 * H + i] * s->c[i]);
    s->c[i] = gf * s->c[i] + gi * apply_activation(q, &s->act[1], cell[i]);
    s->h[i] = apply_activation(q, &s->act[0], out[i] + p[H + i] * s->c[i]) * value_of(&s->act[2], s->c[i]);
  }
}

/* X W^T + Wb of position t, what every step begins with. */
static void begin_step(seq *s, int64_t t) {
  const recurrent *q = s->q;
  load_doubles(q->x, (q->layout ? s->b * q->T + t : t * q->B + s->b) * q->I, q->I, s->x);
  memcpy(s->gate, s->bias, (size_t)(q->G * q->H) * sizeof *s->gate);
  matvec_row(q, q->wt + s->d * q->I * q->G * q->H * q->elem, q->G * q->H, 0, s->x, q->I, q->G * q->H, s->gate);
}

static int64_t y_at(const recurrent *q, int64_t t, int64_t d, int64_t b) {
  return (q->layout ? (b * q->T + t) * q->D + d : (t * q->D + d) * q->B + b) * q->H;
}

static int64_t state_at(const recurrent *q, int64_t d, int64_t b) {
  return (q->layout ? b * q->D + d : d * q->B + b) * q->H;
}

static void run_sequence(const recurrent *q, int64_t d, int64_t b, double *room, tni_poll *poll) {
  const int64_t H = q->H, GH = q->G * H, work = (q->I + H) * GH / 4 + 8 * GH;
  int64_t len = q->T;
  seq s = {.q = q, .d = d, .b = b, .act = q->act[d], .rt = q->rt + d * H * GH * q->elem, .x = room};
  s.h = s.x + q->I;
  s.c = s.h + H;
  s.bias = s.c + H;
  s.peep = s.bias + 2 * GH;
  s.gate = s.peep + 3 * H;
  s.more = s.gate + GH;
  load_doubles(q->b, d * 2 * GH, 2 * GH, s.bias);
  load_doubles(q->p, d * 3 * H, 3 * H, s.peep);
  load_doubles(q->h0, state_at(q, d, b), H, s.h);
  load_doubles(q->c0, state_at(q, d, b), H, s.c);
  if (q->lens) len = tni_get_i64(q->lens, b);
  memset(s.more, 0, (size_t)GH * sizeof *s.more);
  for (int64_t t = len; t < q->T && !tni_poll_stop(poll, H); t++)
    store_doubles(q->y, y_at(q, t, d, b), H, s.more); /* zeros after the end */
  for (int64_t i = 0; i < len && !tni_poll_stop(poll, work); i++) {
    const int64_t t = d || q->reverse ? len - 1 - i : i;
    begin_step(&s, t);
    (q->G == 4 ? lstm_step : q->G == 3 ? gru_step : rnn_step)(&s);
    store_doubles(q->y, y_at(q, t, d, b), H, s.h);
  }
  store_doubles(q->yh, state_at(q, d, b), H, s.h);
  store_doubles(q->yc, state_at(q, d, b), H, s.c);
}

static void run_sequences(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const recurrent *q = arg;
  tni_poll poll = {q->run, TNI_POLL};
  for (int64_t i = begin; i < end; i++) run_sequence(q, i / q->B, i % q->B, q->room + worker * q->per_worker, &poll);
}

/* --- the operator ---------------------------------------------------------------------------------------------------
 */

static bool add_product(uint64_t *sum, uint64_t a, uint64_t b) {
  uint64_t p;
  return !__builtin_mul_overflow(a, b, &p) && !__builtin_add_overflow(*sum, p, sum);
}

/* Bytes of transposed weights, and doubles of one worker: x, h, c, biases, peepholes, gates and what GRU needs more.
 * False: not the weights of one node; the kernel says why. */
static bool room_of(const tn_node *n, const tni_tensor *const *in, uint64_t *weights, uint64_t *per_worker) {
  if (!in[1] || !in[2] || in[1]->rank != 3 || in[2]->rank != 3 || in[1]->dtype != in[2]->dtype) return false;
  const uint64_t G = (uint64_t)gates_of(n), H = (uint64_t)in[2]->dims[2], I = (uint64_t)in[1]->dims[2];
  const uint64_t elem = elem_of(in[1]);
  *weights = 64;
  *per_worker = I;
  return add_product(weights, (uint64_t)tni_knumel(in[1]), elem) &&
         add_product(weights, (uint64_t)tni_knumel(in[2]), elem) && add_product(per_worker, H, 5 + 4 * G);
}

uint64_t tni_recurrent_scratch(const tn_node *n, const tni_tensor *const *in, uint32_t n_in, uint32_t n_workers) {
  uint64_t weights, per_worker;
  if (n_in < 3 || !room_of(n, in, &weights, &per_worker)) return 0;
  return add_product(&weights, per_worker, 8 * (uint64_t)(n_workers ? n_workers : 1)) ? weights : UINT64_MAX;
}

uint64_t tni_recurrent_prepared(const tn_node *n, const tni_tensor *const *in, uint32_t n_in) {
  uint64_t weights, per_worker;
  return n_in >= 3 && room_of(n, in, &weights, &per_worker) ? weights : 0;
}

void tni_recurrent_prepare(const tni_tensor *w, const tni_tensor *r, void *dst, tni_poll *poll) {
  (void)transpose_all(r, transpose_all(w, dst, poll), poll);
}

static const tni_tensor *recurrent_input(const tni_kargs *a, uint32_t i) { return i < a->n_in ? a->in[i] : NULL; }
static tni_tensor *recurrent_output(const tni_kargs *a, uint32_t i) { return i < a->n_out ? a->out[i] : NULL; }

static bool has_dims(const tni_tensor *t, uint32_t rank, int64_t d0, int64_t d1, int64_t d2) {
  const int64_t d[] = {d0, d1, d2};
  bool ok = !t || t->rank == rank;
  for (uint32_t i = 0; t && ok && i < rank; i++) ok = t->dims[i] == d[i];
  return ok;
}

static tn_status check_recurrent(const tni_kargs *a, const recurrent *q) {
  const int64_t GH = q->G * q->H, first = q->layout ? q->B : q->D, second = q->layout ? q->D : q->B;
  const tni_tensor *all[] = {q->w, q->r, q->b, q->h0, q->c0, q->p};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i] && all[i]->dtype != q->x->dtype) return tni_kdtype(a, all[i]->dtype);
  const int64_t said = tni_at_i(a->node, TNI_A_HIDDEN_SIZE, q->H);
  if (said != q->H)
    return tni_kfail(a, TN_E_INVALID, "hidden_size is %lld, R has %lld", (long long)said, (long long)q->H);
  if (!has_dims(q->w, 3, q->D, GH, q->I) || !has_dims(q->r, 3, q->D, GH, q->H) || !has_dims(q->b, 2, q->D, 2 * GH, 0) ||
      !has_dims(q->p, 2, q->D, 3 * q->H, 0) || !has_dims(q->h0, 3, first, second, q->H) ||
      !has_dims(q->c0, 3, first, second, q->H) || !has_dims(q->lens, 1, q->B, 0, 0))
    return tni_kfail(a, TN_E_INVALID, "an operand's shape does not fit %lld directions of %lld hidden elements",
                     (long long)q->D, (long long)q->H);
  for (int64_t b = 0; q->lens && b < q->B; b++) {
    const int64_t len = tni_get_i64(q->lens, b);
    if (len < 0 || len > q->T)
      return tni_kfail(a, TN_E_INVALID, "sequence_lens has %lld, the input %lld positions", (long long)len,
                       (long long)q->T);
  }
  return TN_OK;
}

static tn_status read_node(const tni_kargs *a, recurrent *q) {
  const uint32_t dir = tni_at_word(a->node, TNI_A_DIRECTION);
  const bool both = dir == TN_WORD_RNN_DIRECTION_BIDIRECTIONAL;
  q->reverse = dir == TN_WORD_RNN_DIRECTION_REVERSE;
  if (!dir) return tni_kfail(a, TN_E_INVALID, "direction '%.40s'", tni_at_s(a->node, TNI_A_DIRECTION, ""));
  if (q->x->rank != 3 || q->w->rank != 3 || q->r->rank != 3)
    return tni_kfail(a, TN_E_INVALID, "X, W and R have rank 3");
  q->G = gates_of(a->node);
  q->D = both ? 2 : 1;
  q->layout = tni_at_i(a->node, TNI_A_LAYOUT, 0) != 0;
  q->T = q->x->dims[q->layout ? 1 : 0];
  q->B = q->x->dims[q->layout ? 0 : 1];
  q->I = q->x->dims[2];
  q->H = q->r->dims[2];
  q->clip = tni_at_f(a->node, TNI_A_CLIP, 0);
  q->linear_before_reset = tni_at_i(a->node, TNI_A_LINEAR_BEFORE_RESET, 0) != 0;
  q->input_forget = tni_at_i(a->node, TNI_A_INPUT_FORGET, 0) != 0;
  tn_status st = read_activations(a, q);
  return st ? st : check_recurrent(a, q);
}

tn_status tni_recurrent_run(const tni_kargs *a, const void *prepared) {
  recurrent q = {.run = a->run,
                 .x = a->in[0],
                 .w = a->in[1],
                 .r = a->in[2],
                 .b = recurrent_input(a, 3),
                 .lens = recurrent_input(a, 4),
                 .h0 = recurrent_input(a, 5)};
  uint64_t weights, per_worker;
  if (a->node->op == TN_OP_LSTM) {
    q.c0 = recurrent_input(a, 6);
    q.p = recurrent_input(a, 7);
    q.yc = recurrent_output(a, 2);
  }
  q.y = recurrent_output(a, 0);
  q.yh = recurrent_output(a, 1);
  tn_status st = read_node(a, &q);
  if (st) return st;
  if (!room_of(a->node, a->in, &weights, &per_worker)) return tni_kfail(a, TN_E_LIMIT, "the weights are too large");
  q.elem = elem_of(q.w);
  char *room = a->scratch;
  q.wt = prepared;
  if (!q.wt) {
    q.wt = room;
    tni_poll poll = {a->run, TNI_POLL};
    tni_recurrent_prepare(q.w, q.r, room, &poll);
    room += (weights - 64 + 7) & ~UINT64_C(7);
  }
  q.rt = q.wt + tni_knumel(q.w) * q.elem;
  q.room = (double *)room;
  q.per_worker = (int64_t)per_worker;
  const int64_t GH = q.G * q.H;
  tni_kfor(a->run, q.D * q.B, (q.T + 1) * (q.I + q.H + 1) * (GH / 4 + 1), run_sequences, &q);
  return TN_OK;
}

tn_status tni_k_recurrent(const tni_kargs *a) { return tni_recurrent_run(a, NULL); }
