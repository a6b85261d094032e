/* SPDX-License-Identifier: Apache-2.0
 *
 * Claimed operators over dtypes, shapes and values, against the host.
 */
#include "runtime/conform/numbers/op.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/oracle/oracle.h"

typedef struct op_job {
  const char *group;
  uint32_t dtype;
} op_job;

typedef struct op_case {
  tni_cf *cf;
  tni_cf_host *h;
  const tni_cn_row *row;
  tni_cn_graph b;
  tni_cf_drive d;
  tni_arena *a;
  int64_t runs;
  double worst;
} op_case;

/* --- values ------------------------------------------------------------------------------------------------------ */

static float value_within(uint32_t range, float v, tni_cf_rng *r) {
  const float a = fabsf(v);
  switch (range) {
    case TNI_CN_POSITIVE:
      return a + 0x1p-20f;
    case TNI_CN_SMALL:
      return fminf(fmaxf(v, -8), 8);
    case TNI_CN_UNIT:
      return fminf(fmaxf(v, -1), 1);
    case TNI_CN_AWAY:
      return copysignf(0.1f + 9.9f * (float)tni_cf_rng_unit(r), v);
    default:
      return v;
  }
}

static const float special_floats[] = {NAN,   INFINITY, -INFINITY, 0,    -0.0f, 1,    -1,
                                       65504, -65504,   0.5f,      1.5f, 2.5f,  -0.5f};

/* Bytes that differ are those that a half was rounded to: few. Where all are, it is no matter of halves. */
static int64_t too_many(const op_case *o, const tni_tensor *t, const float *got, const float *want, int64_t n) {
  int64_t off = 0;
  if (o->row->judge != TNI_CN_BYTES || (t->dtype != TN_DT_U8 && t->dtype != TN_DT_I8)) return 0;
  for (int64_t i = 0; i < n; i++) off += got[i] != want[i];
  return off > tni_reference_halves(n) ? off : 0;
}

/* Of three rows of a mask one hides nothing, one every second key, one all of them: that query sees no key. */
static void hide(const tni_tensor *mask, float *x) {
  const int64_t keys = mask->rank ? mask->dims[mask->rank - 1] : 1, n = tni_cn_count(mask);
  for (int64_t k = 0; keys && k < n; k++)
    if (k / keys % 3 == 2 || (k / keys % 3 == 1 && k % keys % 2)) x[k] = -INFINITY;
}

static void operand_fill(const op_case *o, uint32_t i, tni_tensor *t, int pattern, tni_cf_rng *r) {
  const int64_t n = tni_cn_count(t), limit = o->b.operand[i].limit;
  const bool is_byte = t->dtype == TN_DT_U8 || t->dtype == TN_DT_I8;
  if (t->dtype == TN_DT_I64 || t->dtype == TN_DT_BOOL || is_byte) {
    for (int64_t k = 0; k < n; k++) {
      if (t->dtype == TN_DT_BOOL || is_byte)
        ((uint8_t *)t->data)[k] = (uint8_t)(tni_cf_rng_next(r) & (is_byte ? 255 : 1));
      else
        ((int64_t *)t->data)[k] = limit ? (int64_t)(tni_cf_rng_next(r) % (uint64_t)limit) : 0;
    }
    return;
  }
  float *x = malloc((size_t)(n + 1) * sizeof *x);
  if (!x) return;
  const double top = t->dtype == TN_DT_F16 ? 200 : 1e15;
  if (pattern < TNI_CN_PATTERNS)
    tni_cn_fill(x, (size_t)n, pattern, 32, top, r);
  else
    for (int64_t k = 0; k < n; k++)
      x[k] = special_floats[tni_cf_rng_next(r) % (sizeof special_floats / sizeof *special_floats)];
  for (int64_t k = 0; k < n; k++) x[k] = value_within(o->row->range, x[k], r);
  if (o->b.operand[i].kind == 'h') hide(t, x);
  tni_cn_store(t, x);
  free(x);
}

/* --- one run ------------------------------------------------------------------------------------------------------ */

static void op_wrong(op_case *o, const int64_t *sym, const char *what) {
  tni_cf_fail(o->cf, "%s(%s) %s S %lld T %lld: %s", o->row->op, o->row->inputs, o->row->attrs, (long long)sym[0],
              (long long)sym[1], what);
}

static bool operands_write(op_case *o, tni_cf_inst *i, int pattern, tni_tensor *t, const tni_tensor **in) {
  tni_cf_rng r = tni_cf_rng_of(o->cf, (uint64_t)(o->row - tni_cn_rows) * 64 + (uint64_t)pattern);
  const tn_node *n = &tni_graph_node(o->b.g, o->b.node)->pub;
  for (uint32_t k = 0; k < n->n_in; k++) {
    const tn_id v = n->in[k];
    in[k] = NULL;
    if (v == TN_NONE) continue;
    if (tni_graph_value(o->b.g, v)->tensor) {
      in[k] = tni_graph_value(o->b.g, v)->tensor;
      continue;
    }
    t[k] = tni_cn_tensor(&o->b, v, i->sym, o->a);
    in[k] = &t[k];
    if (!t[k].data) return false;
    operand_fill(o, k, &t[k], pattern, &r);
    if (!tni_cf_inst_write(i, v, t[k].data, t[k].bytes)) return false;
  }
  return true;
}

static bool op_compare(op_case *o, tni_cf_inst *i, const tni_tensor *const *in, uint8_t **kept) {
  const tni_node *node = tni_graph_node(o->b.g, o->b.node);
  tni_tensor out[TNI_CN_MAX_OUT];
  tn_error err;
  tni_error_init(&err);
  if (tni_ops_eval(NULL, node, in, node->pub.n_in, out, node->pub.n_out, o->a, &err) != TN_OK)
    return op_wrong(o, i->sym, err.message), false;
  for (uint32_t k = 0; k < o->b.n_out; k++) {
    tni_tensor got = out[k];
    got.data = tni_arena_alloc(o->a, out[k].bytes + 64, 64);
    const int64_t n = tni_cn_count(&out[k]);
    float *bound = tni_arena_array(o->a, (size_t)n + 1, sizeof *bound, 64);
    if (!got.data || !bound || !tni_cf_inst_read(i, o->b.out[k], got.data, got.bytes))
      return op_wrong(o, i->sym, i->why), false;
    if (kept) kept[k] = got.data;
    if (!tni_cn_op_bound(o->row, &o->b, in, &out[k], k, o->a, bound)) return op_wrong(o, i->sym, "no bound"), false;
    const float *g = tni_cn_floats(&got, o->a), *w = tni_cn_floats(&out[k], o->a);
    const tni_cn_found f = g && w ? tni_cn_compare(g, w, bound, n) : (tni_cn_found){0};
    if (isfinite(f.worst) && f.worst > o->worst) o->worst = f.worst;
    char text[256];
    snprintf(text, sizeof text, "%s(%s) %s S %lld T %lld", o->row->op, o->row->inputs, o->row->attrs,
             (long long)i->sym[0], (long long)i->sym[1]);
    if (f.bad) return tni_cn_complain(o->cf, text, &f, n), false;
    const int64_t off = g && w ? too_many(o, &out[k], g, w, n) : 0;
    if (off) {
      tni_cf_fail(o->cf, "%s: %lld of %lld bytes are one off: halves are few, so something is rounded or added otherwise",
                  text, (long long)off, (long long)n);
      return false;
    }
  }
  return true;
}

/* The pattern that a row cannot take: infinities and NaN where its bound is of finite numbers. */
static bool pattern_fits(const tni_cn_row *row, int pattern) {
  const bool special = pattern == TNI_CN_PATTERNS;
  if (row->range == TNI_CN_ANY && row->judge <= TNI_CN_ULP) return true;
  if (special) return false;
  return row->judge <= TNI_CN_SOFTMAX || pattern != TNI_CN_HUGE;
}

static bool one_run(op_case *o, tni_cf_inst *i, int pattern) {
  tni_tensor t[TNI_CN_MAX_IN];
  const tni_tensor *in[TNI_CN_MAX_IN];
  uint8_t *first[TNI_CN_MAX_OUT] = {NULL}, *second[TNI_CN_MAX_OUT] = {NULL};
  o->runs++;
  if (!operands_write(o, i, pattern, t, in)) return op_wrong(o, i->sym, i->why), false;
  if (tni_cf_inst_run(i, 0xff, TNI_CF_INLINE) != TN_OK || !tni_cf_inst_guards(i))
    return op_wrong(o, i->sym, i->why), false;
  if (!op_compare(o, i, in, first)) return false;
  if (pattern) return true;
  /* Again, with other leftovers and another cut. */
  if (tni_cf_inst_run(i, 0x3f, TNI_CF_GRAINS) != TN_OK) return op_wrong(o, i->sym, i->why), false;
  if (!op_compare(o, i, in, second)) return false;
  for (uint32_t k = 0; k < o->b.n_out; k++) {
    const tni_tensor y = tni_cn_tensor(&o->b, o->b.out[k], i->sym, o->a);
    if (memcmp(first[k], second[k], y.bytes) != 0) return op_wrong(o, i->sym, "other bits from the same inputs"), false;
  }
  return true;
}

/* --- one row ------------------------------------------------------------------------------------------------------ */

static bool op_claimed(op_case *o, char *reason, size_t n) {
  static const uint32_t phases[] = {TN_PHASE_ANY, TN_PHASE_PREFILL, TN_PHASE_DECODE};
  for (size_t k = 0; k < sizeof phases / sizeof *phases; k++) {
    if (k) tni_cf_drive_finish(&o->d);
    o->d = (tni_cf_drive){.flip = UINT64_MAX};
    if (!tni_cf_drive_claim(&o->d, o->h, o->b.g, phases[k])) return op_wrong(o, (int64_t[2]){0}, o->d.why), false;
    if (o->d.all_taken) return true;
    const tni_claim *no = o->d.refusal;
    if (no && no->verdict == TN_NO && !no->text[0])
      return op_wrong(o, (int64_t[2]){0}, "refused without a reason"), false;
    if (no && !strncmp(no->text, "plugin '", 8)) return op_wrong(o, (int64_t[2]){0}, no->text), false;
    if (no) snprintf(reason, n, "%s", no->text);
  }
  return false;
}

static void all_runs(op_case *o) {
  static const int64_t sizes[][2] = {{5, 7}, {1, 1}, {17, 33}, {64, 40}, {0, 3}, {2, 65}};
  /* Attention has all of them: where there are fewer keys than rows a window leaves some rows without a key. */
  const bool few = o->h->caps->n_engines && !o->cf->subject->thorough && o->row->judge != TNI_CN_ATTEND;
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k += few ? 2 : 1) {
    int64_t sym[TNI_CF_MAX_SYMBOLS] = {tni_cf_drive_rows(&o->d, sizes[k][0]), sizes[k][1]};
    tni_cf_inst i;
    bool ok = tni_cf_inst_make(&i, &o->d, sym, (tni_cf_room){0});
    if (!ok) op_wrong(o, sym, i.why);
    for (int p = 0; ok && p <= TNI_CN_PATTERNS; p++) {
      if (!pattern_fits(o->row, p) || (k && p % 3 && !o->cf->subject->thorough)) continue;
      tni_arena *whole = o->a;
      o->a = tni_arena_create();
      ok = o->a && one_run(o, &i, p);
      tni_arena_destroy(o->a);
      o->a = whole;
    }
    tni_cf_inst_finish(&i);
    if (!ok) return;
  }
}

static bool one_row(tni_cf *cf, tni_cf_host *h, const tni_cn_row *row, uint32_t dtype, char *reason, size_t n,
                    int64_t *runs, double *worst) {
  op_case o = {.cf = cf, .h = h, .row = row};
  tni_cf_rng r = tni_cf_rng_of(cf, 17);
  const tni_cn_spec s = {.op = row->op,
                         .domain = row->domain,
                         .inputs = row->inputs,
                         .attrs = row->attrs,
                         .version = row->version,
                         .dtype = dtype,
                         .n_out = row->n_out,
                         .scale = 1};
  bool taken = false;
  if (!tni_cn_build(&o.b, &s, &r)) {
    op_wrong(&o, (int64_t[2]){0}, o.b.err.message);
  } else if (op_claimed(&o, reason, n)) {
    taken = true;
    if (tni_cf_drive_lower(&o.d))
      all_runs(&o);
    else
      op_wrong(&o, (int64_t[2]){0}, o.d.why);
  }
  if (o.d.h) tni_cf_drive_finish(&o.d);
  if (o.b.g) tni_cn_destroy(&o.b);
  *runs += o.runs;
  *worst = fmax(*worst, o.worst);
  return taken;
}

static void op_ask(tni_cf *cf, const void *arg) {
  const op_job *j = arg;
  tni_cf_host h;
  char reason[160] = "", left[300] = "";
  int64_t taken = 0, refused = 0, runs = 0;
  double worst = 0;
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  for (uint32_t i = 0; i < tni_cn_n_rows; i++) {
    if (strcmp(tni_cn_rows[i].group, j->group) != 0) continue;
    if (one_row(cf, &h, &tni_cn_rows[i], j->dtype, reason, sizeof reason, &runs, &worst))
      taken++;
    else if (refused++, strlen(left) + 1 < sizeof left)
      snprintf(left + strlen(left), sizeof left - strlen(left), "%s%s(%s)", *left ? ", " : "", tni_cn_rows[i].op,
               tni_cn_rows[i].inputs);
  }
  tni_cf_host_close(cf, &h);
  if (!taken)
    tni_cf_skip(cf, "not claimed: %s", reason);
  else
    tni_cf_note(cf, "%lld of %lld forms claimed, %lld runs, largest error %.3g of its bound%s%s", (long long)taken,
                (long long)(taken + refused), (long long)runs, worst, refused ? "; not claimed: " : "", left);
}

void tni_cn_op_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  static const struct {
    uint32_t dtype;
    const char *name;
  } dtypes[] = {{TN_DT_F32, "float32"}, {TN_DT_F16, "float16"}, {TN_DT_BF16, "bfloat16"}};
  char name[128];
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
    for (uint32_t i = 0; i < tni_cn_n_rows; i++) {
      if (i && !strcmp(tni_cn_rows[i].group, tni_cn_rows[i - 1].group)) continue;
      if (d && tni_cn_rows[i].judge == TNI_CN_BYTES) continue; /* scales are float32 */
      op_job *j = TNI_NEW(l->arena, op_job);
      if (!j) return;
      *j = (op_job){tni_cn_rows[i].group, dtypes[d].dtype};
      snprintf(name, sizeof name, "numbers/ops/%s/%s", j->group, dtypes[d].name);
      add(ctx, &(tni_cf_case){.name = name,
                              .levels = TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI,
                              .flags = dtypes[d].dtype == TN_DT_BF16 ? TNI_CF_THOROUGH_ONLY : 0,
                              .run = op_ask,
                              .arg = j,
                              .timeout_ms = 60000});
    }
}
