/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of images: values of rank 4, [images, channels, S, width]. Along S what lies beside makes up for the window, so
 * that one row still is one; along the width anything goes.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/conform/generate/grow.h"

/* A window over both axes. */
typedef struct box {
  int64_t kernel[2], stride[2], dilation[2], pads[4]; /* pads: as ONNX has them, both begins first */
  const char *fit;                                    /* auto_pad, or NULL */
  bool up;                                            /* ceil_mode */
} box;

static bool is_image(const gen_value *x) { return x->rank == 4 && x->dims[0] > 0 && x->dims[1] > 0 && x->dims[3] > 0; }

static int64_t reach(const box *b, int axis) { return (b->kernel[axis] - 1) * b->dilation[axis] + 1; }

/* pooled: windows and what lies beside them are as pools allow. */
static box draw_box(const gen_value *x, const tni_gen_step *s, bool pooled) {
  static const int64_t kernels[] = {1, 3, 2, 3, 5, 1, 4}, strides[] = {1, 1, 2, 3}, dilations[] = {1, 1, 2};
  const uint32_t w = s->word[1], v = s->word[2];
  box b = {.kernel = {kernels[w % 7], kernels[w / 7 % 7]},
           .stride = {strides[w / 49 % 4], strides[w / 196 % 4]},
           .dilation = {dilations[v % 3], dilations[v / 3 % 3]},
           .up = pooled && v / 1024 % 4 == 0};
  for (int a = 0; a < 2; a++) {
    const int64_t least = reach(&b, a) - 1, had = a ? x->dims[3] - 1 : 0;
    int64_t all = least > had ? least - had : 0; /* the least that lets the window fit */
    if (a && v / 9 % 2) all = least;
    if (a && !pooled && v / 18 % 4 == 0) all = least + 1;
    int64_t begin = (v / 36 >> a) % 2 ? all / 2 : all - all / 2;
    /* A pool of a length of one: a window's steps have to fall on it, as no element at all has no largest and no mean.
     */
    if (pooled) begin -= begin % b.dilation[a];
    b.pads[a] = begin;
    b.pads[2 + a] = all - begin;
  }
  if (!b.up && v / 512 % 4 == 1) b.fit = v / 4096 % 2 ? "SAME_UPPER" : "SAME_LOWER";
  /* What the two kinds of SAME do with a dilation is not one rule for all operators. */
  for (int a = 0; a < 2 && b.fit; a++) b.dilation[a] = 1;
  return b;
}

/* What becomes of a length; a length that is no number stays what it is only where nothing is lost. */
static int64_t after(gen_work *w, const box *b, int axis, int64_t n) {
  const int64_t stride = b->stride[axis], pads = b->pads[axis] + b->pads[2 + axis], free_ = n + pads - reach(b, axis);
  if (n < 0) return stride == 1 && (b->fit || pads == reach(b, axis) - 1) ? n : SYMBOL - 1 - (int64_t)w->n_lengths++;
  if (b->fit) return (n + stride - 1) / stride;
  int64_t out = (b->up ? free_ + stride - 1 : free_) / stride + 1;
  if (b->up && (out - 1) * stride >= n + b->pads[axis]) out--; /* a window may not begin beside */
  return out;
}

static uint32_t put_box(const box *b, tni_raw_attr *a) {
  uint32_t n = 0;
  a[n++] = tni_gen_ints_attr("kernel_shape", b->kernel, 2);
  a[n++] = tni_gen_ints_attr("strides", b->stride, 2);
  a[n++] = tni_gen_ints_attr("dilations", b->dilation, 2);
  a[n++] = b->fit ? tni_gen_text_attr("auto_pad", b->fit) : tni_gen_ints_attr("pads", b->pads, 4);
  return n;
}

static bool add_image(gen_work *w, const gen_value *x, const box *b, int64_t channels, tn_id id) {
  gen_value y = *x;
  y.dims[1] = channels;
  y.dims[2] = after(w, b, 0, x->dims[2]);
  return tni_gen_add_value(w, &y, id, after(w, b, 1, x->dims[3]));
}

/* The newest value is the convolution then. */
static bool convolve(gen_work *w, const gen_value *x, const box *b, int64_t channels, int64_t group, bool bias) {
  const int64_t dims[4] = {channels, x->dims[1] / group, b->kernel[0], b->kernel[1]};
  const tn_id in[3] = {x->id, tni_gen_constant_of(w, 4, dims, 0.25f),
                       bias ? tni_gen_constant(w, 1, 1, channels) : TN_NONE};
  tni_raw_attr a[6];
  uint32_t n = put_box(b, a);
  a[n++] = tni_gen_int_attr("group", group);
  if (in[1] == TN_NONE) return false;
  return add_image(w, x, b, channels, tni_gen_apply(w, "", "Conv", 11, in, bias ? 3 : 2, a, n));
}

static int64_t draw_group(const gen_value *x, const tni_gen_step *s) {
  const int64_t C = x->dims[1], how = s->word[3] % 4;
  return how == 0 ? C : how == 1 && C % 2 == 0 ? 2 : 1;
}

static int64_t draw_channels(const tni_gen_step *s, int64_t group) {
  static const int64_t per_group[] = {1, 2, 3, 8, 5, 16};
  return group * per_group[s->word[3] / 4 % 6];
}

bool tni_gen_add_conv(gen_work *w, const tni_gen_step *s) {
  const gen_value x = *tni_gen_pick(w, s->a);
  if (!is_image(&x)) return tni_gen_add_matmul(w, s);
  const int64_t group = draw_group(&x, s);
  const box b = draw_box(&x, s, false);
  return convolve(w, &x, &b, draw_channels(s, group), group, s->word[4] % 2);
}

/* A convolution of codes between floats; its sums may stay integers. */
bool tni_gen_add_code_conv(gen_work *w, const tni_gen_step *s) {
  const gen_value x = *tni_gen_pick(w, s->a);
  if (!is_image(&x)) return tni_gen_add_code_matmul(w, s);
  const int64_t group = draw_group(&x, s), channels = draw_channels(s, group);
  const box b = draw_box(&x, s, false);
  const int64_t dims[4] = {channels, x.dims[1] / group, b.kernel[0], b.kernel[1]};
  const int64_t n_products = dims[1] * dims[2] * dims[3];
  gen_codes q, k, y;
  char name[16];
  tni_raw_attr a[6];
  uint32_t n = put_box(&b, a);
  a[n++] = tni_gen_int_attr("group", group);
  if (!tni_gen_codes_of(w, &x, s->word[4], &q) || !tni_gen_codes_weight(w, s->word[4], 4, dims, channels, &k))
    return false;
  if (tni_gen_is_integer(s)) {
    const tn_id four[4] = {q.id, k.id, q.zero, k.zero};
    const tn_id sums = tni_gen_apply_as(w, TN_DT_I32, "", "ConvInteger", 10, four, 4, a, n);
    return add_image(w, &x, &b, channels, tni_gen_sums_back(w, sums, &q, n_products));
  }
  if (!tni_gen_codes_result(w, s->word[4], n_products, &y)) return false;
  tn_id in[9] = {q.id, q.scale, q.zero, k.id, k.scale, k.zero, y.scale, y.zero, TN_NONE};
  snprintf(name, sizeof name, "c%u", w->n_constants++);
  if (s->word[5] / 4 % 2) in[8] = tni_cn_quantizing(w->b, name, 'N', 1, &channels, NULL, 0, &w->r);
  y.id = tni_gen_apply_as(w, y.dtype, "", "QLinearConv", 10, in, in[8] == TN_NONE ? 8 : 9, a, n);
  return y.id != TN_NONE && add_image(w, &x, &b, channels, tni_gen_codes_back(w, &y));
}

static bool add_global(gen_work *w, const gen_value *x, bool largest) {
  gen_value y = *x;
  y.dims[2] = 1;
  const char *op = largest ? "GlobalMaxPool" : "GlobalAveragePool";
  return tni_gen_add_value(w, &y, tni_gen_apply(w, "", op, 1, &x->id, 1, NULL, 0), 1);
}

bool tni_gen_add_pool(gen_work *w, const tni_gen_step *s) {
  const gen_value x = *tni_gen_pick(w, s->a);
  if (!is_image(&x)) return tni_gen_add_matmul(w, s);
  if (s->word[3] % 5 == 0) return add_global(w, &x, s->word[3] % 2);
  const bool largest = s->word[3] % 2;
  const box b = draw_box(&x, s, true);
  tni_raw_attr a[6];
  uint32_t n = put_box(&b, a);
  a[n++] = tni_gen_int_attr("ceil_mode", b.up);
  if (!largest) a[n++] = tni_gen_int_attr("count_include_pad", s->word[4] % 2);
  return add_image(w, &x, &b, x.dims[1],
                   tni_gen_apply(w, "", largest ? "MaxPool" : "AveragePool", largest ? 12 : 19, &x.id, 1, a, n));
}

/* Variances are squares: they have to be above zero. */
bool tni_gen_add_batchnorm(gen_work *w, const tni_gen_step *s) {
  const gen_value x = *tni_gen_pick(w, s->a);
  float variance[MOST_WIDTH];
  char name[16];
  if (!is_image(&x) || x.dims[1] > MOST_WIDTH) return tni_gen_add_matmul(w, s);
  const int64_t C = x.dims[1];
  for (int64_t i = 0; i < C; i++) variance[i] = 0.25f + (float)tni_cf_rng_unit(&w->r);
  memcpy(name, "var", 4);
  name[3] = (char)('a' + w->n % 26), name[4] = '\0';
  const tn_id in[5] = {x.id, tni_gen_constant(w, 1, 1, C), tni_gen_constant(w, 1, 1, C), tni_gen_constant(w, 1, 1, C),
                       tni_cn_constant(w->b, name, TN_DT_F32, 1, &C, variance)};
  const tni_raw_attr a = tni_gen_float_attr("epsilon", s->word[1] % 2 ? 1e-5f : 1e-3f);
  if (in[1] == TN_NONE || in[4] == TN_NONE) return false;
  return tni_gen_add_value(w, &x, tni_gen_apply(w, "", "BatchNormalization", 15, in, 5, &a, 1), x.dims[3]);
}

/* --- what follows a convolution, and between two -------------------------------------------------------------------
 */

static tn_id number(gen_work *w, float v) {
  char name[16];
  const int64_t none = 0;
  snprintf(name, sizeof name, "c%u", w->n_constants++);
  return tni_cn_constant(w->b, name, TN_DT_F32, 0, &none, &v);
}

/* The newest value is op of these then, which has the shape of like. */
static bool apply(gen_work *w, const gen_value *like, const char *op, const tn_id *in, uint32_t n, float alpha) {
  const tni_raw_attr a = tni_gen_float_attr("alpha", alpha);
  return tni_gen_add_value(w, like, tni_gen_apply(w, "", op, 18, in, n, &a, alpha != 0), like->dims[3]);
}

static bool clip(gen_work *w, const gen_value *x, float least, float most) {
  const tn_id in[3] = {x->id, number(w, least), number(w, most)};
  return in[1] != TN_NONE && in[2] != TN_NONE && apply(w, x, "Clip", in, 3, 0);
}

static bool activate(gen_work *w, const gen_value *x, uint32_t how) {
  static const char *const ops[] = {"Relu", "Clip", "HardSwish", "LeakyRelu", "Relu", "Sigmoid", "HardSigmoid", "Clip"};
  const char *op = ops[how % 8];
  if (!strcmp(op, "Clip")) return clip(w, x, how % 8 == 1 ? 0 : -0.5f, how % 8 == 1 ? 6 : 1);
  return apply(w, x, op, &x->id, 1, how % 8 == 3 ? 0.1f : 0);
}

/* A window that changes no length. */
static void keep_lengths(box *b) {
  b->fit = NULL;
  for (int a = 0; a < 2; a++) {
    const int64_t all = reach(b, a) - 1;
    b->stride[a] = 1;
    b->pads[a] = all / 2;
    b->pads[2 + a] = all - all / 2;
  }
}

/* A convolution, what is added to it (what it reads itself, or another convolution), and an activation: devices make
 * one task of all. Some values in the middle are outputs, or are read once more. */
bool tni_gen_add_block(gen_work *w, const tni_gen_step *s) {
  static const char *const ops[] = {"Add", "Add", "Add", "Add", "Add", "Mul", "Sub", "Max"};
  const gen_value x = *tni_gen_pick(w, s->a);
  if (!is_image(&x)) return tni_gen_add_matmul(w, s);
  const uint32_t how = s->word[5];
  const bool keeps = how % 2;
  const int64_t group = draw_group(&x, s), channels = keeps ? x.dims[1] : draw_channels(s, group);
  box b = draw_box(&x, s, false);
  if (keeps) keep_lengths(&b);
  if (!convolve(w, &x, &b, channels, group, s->word[4] % 2)) return false;
  const uint32_t first = w->n - 1;
  gen_value z = w->v[first], r = x;
  if (how / 2 % 4) {
    if (!keeps || how / 2 % 4 == 2) {
      if (!convolve(w, &x, &b, channels, 1, false)) return false;
      r = w->v[w->n - 1];
    }
    const bool turned = how / 64 % 2;
    const tn_id in[2] = {turned ? r.id : z.id, turned ? z.id : r.id};
    if (!apply(w, &z, ops[how / 8 % 8], in, 2, 0)) return false;
    z = w->v[w->n - 1];
  }
  if (!activate(w, &z, how / 128)) return false;
  const uint32_t inner = how / 1024 % 4;
  if (inner == 2) w->outputs |= UINT64_C(1) << first;
  const tn_id in[2] = {z.id, w->v[w->n - 1].id};
  return inner != 3 || apply(w, &z, "Add", in, 2, 0);
}

/* Numbers of 0.5 and more, of the shape of x: an input of the graph, or one number where there can be no more inputs.
 */
static tn_id positive(gen_work *w, const gen_value *x) {
  const bool can = w->b->n_in + 1 < TNI_CN_MAX_IN && x->dims[2] >= SYMBOL;
  return can ? tni_gen_input(w, 'p', x->dims, 4, 0) : number(w, 1.5f);
}

/* Operators of which channels that are only filled up become infinite, not a number, or no longer zero: a convolution
 * after them shows whether somebody reads those. */
bool tni_gen_add_between(gen_work *w, const tni_gen_step *s) {
  static const char *const ops[] = {"Div", "Div", "Exp", "Sqrt", "Sigmoid", "Clip", "Mul", "Sub"};
  gen_value x = *tni_gen_pick(w, s->a);
  if (!is_image(&x)) return tni_gen_add_matmul(w, s);
  const uint32_t how = s->word[5] % 8;
  bool ok = true;
  if (how == 2 || how == 3) { /* where the next one's argument may lie */
    ok = clip(w, &x, how == 2 ? -4 : 0.25f, how == 2 ? 4 : 9);
    x = w->v[w->n - 1];
  }
  if (how < 2 || how > 5) {
    const tn_id p = how == 6 && s->word[4] / 4 % 2 ? x.id : positive(w, &x);
    const bool turned = how > 5 && s->word[4] / 8 % 2;
    const tn_id in[2] = {turned ? p : x.id, turned ? x.id : p};
    ok = p != TN_NONE && apply(w, &x, ops[how], in, 2, 0);
  } else if (how == 5) {
    ok = clip(w, &x, -1, 2);
  } else {
    ok = ok && apply(w, &x, ops[how], &x.id, 1, 0);
  }
  if (!ok || s->word[4] / 2 % 4 == 0) return ok;
  x = w->v[w->n - 1];
  const box b = draw_box(&x, s, false);
  return convolve(w, &x, &b, draw_channels(s, 1), 1, s->word[4] % 2);
}
