/* SPDX-License-Identifier: Apache-2.0
 *
 * Generated element-wise kernels: building one that works, and the case that each must pass.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/common/opencl/clew.h"
#include "plugins/common/opencl/clrun.h"

/* 19 x 3 x 2 x 2 elements; room for every stride below with a start, for what lies before an operand's begin, and for a
 * kernel that takes the wrong stride. */
enum { D0 = 19, D1 = 3, D2 = 2, D3 = 2, BEGIN = 3, START = -1, LENGTH = 5, ROOM = 704 };

/* Of inputs in turn: padded rows, one row, one column, transposed. Outputs are padded. */
static const int32_t test_strides[4][4] = {{1, 21, 64, 130}, {1, 0, 0, 0}, {0, 1, 3, 6}, {12, 4, 2, 1}};

typedef struct test_operand {
  uint32_t type;
  unsigned char bytes[ROOM * 8];
} test_operand;

/* A register: its value, how far a device may be from it; i: the value where registers are long. */
typedef struct reg {
  double v, e;
  int64_t i;
} reg;

typedef struct chain_tester {
  const tni_cl_ew *e;
  tni_cl_shape shape;
  test_operand op[TNI_CL_MAX_OPERANDS];
  unsigned char got[TNI_CL_MAX_OPERANDS][ROOM * 8]; /* outputs as the device left them */
  reg r[TNI_CM_MAX_REGISTERS];
  uint64_t seed;
  bool undefined; /* divides an integer by zero, or has an operator that long registers have not */
} chain_tester;

/* --- operands ---------------------------------------------------------------------------------------------------- */

static uint32_t next_test_value(chain_tester *t) {
  t->seed = t->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(t->seed >> 33);
}

static uint32_t size_of(uint32_t type) {
  return type == TN_DT_I64 ? 8 : type == TN_DT_F16 ? 2 : type == TN_DT_BOOL ? 1 : 4;
}

static void fill_test_buffer(chain_tester *t, test_operand *o) {
  for (uint32_t i = 0; i < ROOM; i++) {
    const float f = (float)((int32_t)(next_test_value(t) % 2001) - 1000) / 500.0f;
    const uint16_t h = tni_cm_f32_to_f16(f);
    const int64_t l = 1 + next_test_value(t) % 4;
    const int32_t n = (int32_t)l;
    const uint8_t b = l & 1;
    const void *from = o->type == TN_DT_F16    ? (const void *)&h
                       : o->type == TN_DT_I64  ? (const void *)&l
                       : o->type == TN_DT_I32  ? (const void *)&n
                       : o->type == TN_DT_BOOL ? (const void *)&b
                                               : &f;
    memcpy(o->bytes + (size_t)i * size_of(o->type), from, size_of(o->type));
  }
}

static reg load_test_value(const test_operand *o, int64_t at) {
  const unsigned char *p = o->bytes + (size_t)at * size_of(o->type);
  int64_t l = 0;
  int32_t n;
  uint16_t h;
  float f;
  double v;
  switch (o->type) {
    case TN_DT_I64:
      memcpy(&l, p, 8), v = (double)l;
      break;
    case TN_DT_I32:
      memcpy(&n, p, 4), v = (double)(l = n);
      break;
    case TN_DT_BOOL:
      v = (double)(l = *p);
      break;
    case TN_DT_F16:
      memcpy(&h, p, 2), v = (double)tni_cm_f16_to_f32(h);
      break;
    default:
      memcpy(&f, p, 4), v = (double)f;
  }
  return (reg){.v = v, .i = l};
}

/* --- the chain in C ---------------------------------------------------------------------------------------------- */

static double apply_test_op(const tni_cm_instr *o, double a, double b) {
  const double v = (double)o->value;
  switch (o->op) {
    case TN_OP_ADD:
      return a + b;
    case TN_OP_SUB:
      return a - b;
    case TN_OP_MUL:
      return a * b;
    case TN_OP_DIV:
      return a / b;
    case TN_OP_NEG:
      return -a;
    case TN_OP_ABS:
      return fabs(a);
    case TN_OP_SQRT:
      return sqrt(a);
    case TN_OP_EXP:
      return exp(a);
    case TN_OP_LOG:
      return log(a);
    case TN_OP_COS:
      return cos(a);
    case TN_OP_SIN:
      return sin(a);
    case TN_OP_RECIPROCAL:
      return 1 / a;
    case TN_OP_RELU:
      return a > 0 ? a : 0;
    case TN_OP_SIGMOID:
      return 1 / (1 + exp(-a));
    case TN_OP_TANH:
      return tanh(a);
    case TN_OP_ERF:
      return erf(a);
    case TN_OP_SWISH:
      return a / (1 + exp(-v * a));
    case TN_OP_GELU:
      return v != 0 ? 0.5 * a * (1 + tanh(0.7978845608028654 * (a + 0.044715 * a * a * a)))
                    : 0.5 * a * (1 + erf(a * 0.7071067811865476));
    case TN_OP_MIN:
      return a < b ? a : b;
    case TN_OP_MAX:
      return a > b ? a : b;
    default: /* Identity, Cast */
      return a;
  }
}

/* What operands that are off move the result by, and what the function itself may lose: OpenCL promises 16 ulp of its
 * worst (erf); a formula chains at most four, and where it cancels the loss is that of its operands. */
static reg test_step(const tni_cm_instr *o, const reg *a, const reg *b) {
  const double bv = b ? b->v : 0, be = b ? b->e : 0, y = apply_test_op(o, a->v, bv);
  double off = 0;
  for (int sa = -1; sa <= 1; sa++)
    for (int sb = -1; sb <= 1; sb++) {
      const double d = fabs(apply_test_op(o, a->v + sa * a->e, bv + sb * be) - y);
      off = d <= off ? off : d; /* NaN counts */
    }
  return (reg){.v = y, .e = 2 * off + 64 * 0x1p-24 * (fabs(y) + fabs(a->v) + fabs(bv))};
}

static reg long_step(chain_tester *t, const tni_cm_instr *o, const reg *x, const reg *y) {
  const int64_t a = x->i, b = y ? y->i : 0;
  const uint64_t ua = (uint64_t)a, ub = (uint64_t)b; /* what runs over wraps */
  reg r = {0};
  switch (o->op) {
    case TN_OP_ADD:
      r.i = (int64_t)(ua + ub);
      break;
    case TN_OP_SUB:
      r.i = (int64_t)(ua - ub);
      break;
    case TN_OP_MUL:
      r.i = (int64_t)(ua * ub);
      break;
    case TN_OP_DIV:
      t->undefined = t->undefined || b == 0 || (a == INT64_MIN && b == -1);
      r.i = t->undefined ? 0 : a / b;
      break;
    case TN_OP_NEG:
      r.i = (int64_t)(0 - ua);
      break;
    case TN_OP_RELU:
      r.i = a > 0 ? a : 0;
      break;
    case TN_OP_MIN:
      r.i = a < b ? a : b;
      break;
    case TN_OP_MAX:
      r.i = a > b ? a : b;
      break;
    case TN_OP_IDENTITY:
    case TN_OP_CAST:
      r.i = a;
      break;
    default:
      t->undefined = true;
  }
  r.v = (double)r.i;
  return r;
}

static int64_t index_of(const int32_t *stride, const int32_t at[4]) {
  int64_t n = BEGIN;
  for (int i = 0; i < 4; i++) n += (int64_t)stride[i] * at[i];
  return n;
}

/* All registers of one element. The start lies LENGTH + START along axis 1, cut to what leaves D1 elements. */
static void test_element(chain_tester *t, const int32_t at[4]) {
  const tni_cl_ew *e = t->e;
  for (uint32_t i = 0; i < e->n_in; i++) {
    const int64_t from = LENGTH + START < LENGTH - D1 ? LENGTH + START : LENGTH - D1;
    t->r[i] = load_test_value(
        &t->op[i], index_of(test_strides[i % 4], at) + (e->dynamic >> i & 1 ? from * test_strides[i % 4][1] : 0));
  }
  for (uint32_t i = 0; i < e->n_ops; i++) {
    const tni_cm_instr *o = &e->ops[i];
    const reg *a = &t->r[o->a], *b = o->b == TN_NONE ? NULL : &t->r[o->b];
    t->r[e->n_in + i] = e->wide ? long_step(t, o, a, b) : test_step(o, a, b);
  }
}

/* --- comparing --------------------------------------------------------------------------------------------------- */

static bool close_to(uint32_t type, const reg *want, const reg *got, bool exact) {
  if (exact)
    return type == TN_DT_BOOL ? got->i == (want->i != 0) : got->i == (type == TN_DT_I32 ? (int32_t)want->i : want->i);
  if (!(fabs(want->v) + want->e < (type == TN_DT_F16 ? 65000.0 : 1e30))) return true; /* outside of what is promised */
  if (type == TN_DT_BOOL) return fabs(want->v) <= want->e || got->i == (want->v != 0);
  if (type == TN_DT_I32 || type == TN_DT_I64)
    return fabs(want->v) > 0x1p30 || (got->v >= trunc(want->v - want->e) && got->v <= trunc(want->v + want->e));
  const double unit = type == TN_DT_F16 ? 0x1p-11 : 0x1p-24, tiny = type == TN_DT_F16 ? 0x1p-14 : (double)FLT_MIN;
  return fabs(got->v - want->v) <= want->e + unit * (fabs(want->v) + want->e) + tiny;
}

/* Every element against the chain; what lies between them must be as it was, which is zero. */
static bool test_is_right(chain_tester *t) {
  const tni_cl_ew *e = t->e;
  for (int32_t n = 0; n < D0 * D1 * D2 * D3; n++) {
    const int32_t at[4] = {n % D0, n / D0 % D1, n / D0 / D1 % D2, n / D0 / D1 / D2};
    test_element(t, at);
    for (uint32_t i = 0; i < e->n_out; i++) {
      test_operand *o = &t->op[e->n_in + i];
      const size_t size = size_of(o->type), where = (size_t)index_of(test_strides[0], at);
      memcpy(o->bytes + where * size, t->got[i] + where * size, size);
      const reg got = load_test_value(o, (int64_t)where);
      if (!close_to(o->type, &t->r[e->results[i]], &got, e->wide)) return false;
      memset(t->got[i] + where * size, 0, size);
    }
  }
  for (uint32_t i = 0; i < e->n_out; i++)
    for (size_t b = 0; b < ROOM * size_of(e->types[e->n_in + i]); b++)
      if (t->got[i][b]) return false;
  return true;
}

/* Registers of long divide by zero on no device without harm: known before it is asked. */
static bool is_defined_input(chain_tester *t) {
  for (int32_t n = 0; t->e->wide && n < D0 * D1 * D2 * D3 && !t->undefined; n++)
    test_element(t, (const int32_t[4]){n % D0, n / D0 % D1, n / D0 / D1 % D2, n / D0 / D1 / D2});
  return !t->undefined;
}

static void put_meta(const tni_cl_ew *e, int32_t *m) {
  memcpy(m, (const int32_t[4]){D0, D1, D2, D3}, 16);
  m += 4;
  for (uint32_t i = 0; i < e->n_in + e->n_out; i++, m += 4) memcpy(m, test_strides[i < e->n_in ? i % 4 : 0], 16);
  for (uint32_t i = 0; i < e->n_in; i++)
    if (e->dynamic >> i & 1) {
      memcpy(m, (const int32_t[3]){test_strides[i % 4][1], LENGTH, D1}, 12);
      m += 3;
    }
}

static const char *launch_test(chain_tester *t, tni_cl_kernels *k, const tni_cl_program *p) {
  const tni_cl_ew *e = t->e;
  int32_t meta[8 * TNI_CL_MAX_OPERANDS];
  const int64_t start = START;
  tni_cl_direct d = {.kernels = k, .program = p, .shape = &t->shape};
  uint32_t n = 0;
  for (; n < e->n_in + e->n_out; n++) {
    d.data[n] = n < e->n_in ? t->op[n].bytes : t->got[n - e->n_in];
    d.bytes[n] = (uint64_t)ROOM * size_of(e->types[n]);
    d.offset[n] = BEGIN;
  }
  for (uint32_t i = 0; i < e->n_in; i++)
    if (e->dynamic >> i & 1) {
      memcpy(t->op[n].bytes, &start, sizeof start);
      d.data[n] = t->op[n].bytes;
      d.bytes[n++] = sizeof start;
    }
  put_meta(e, meta);
  d.data[n] = meta;
  d.bytes[n++] = sizeof meta;
  t->shape = (tni_cl_shape){.kind = TNI_CLK_EW, .n_operands = n};
  tni_cl_ew_geometry(meta, d.global, d.local);
  return tni_cl_run_direct(&d);
}

const char *tni_cl_ew_self_test(tni_cl_kernels *k, const tni_cl_program *p, const tni_cl_ew *e, bool *wrong) {
  const char *why = NULL;
  uint32_t starts = 0;
  for (uint32_t i = 0; i < e->n_in; i++) starts += e->dynamic >> i & 1;
  if (e->n_in + e->n_ops > TNI_CM_MAX_REGISTERS || e->n_in + e->n_out + starts + 1 > TNI_CL_MAX_OPERANDS) return NULL;
  chain_tester *t = k->host->alloc(k->host->ctx, sizeof *t, 64, TN_TAG_SCRATCH);
  if (!t) return "self-test: out of memory";
  memset(t, 0, sizeof *t);
  t->e = e;
  t->seed = 42;
  for (uint32_t i = 0; i < e->n_in + e->n_out; i++) {
    t->op[i].type = e->types[i];
    if (i < e->n_in) fill_test_buffer(t, &t->op[i]);
  }
  if (is_defined_input(t)) {
    why = launch_test(t, k, p);
    *wrong = !why && !test_is_right(t);
    if (*wrong) why = "self-test: wrong results";
  }
  k->host->free(k->host->ctx, t);
  return why;
}

/* --- finding one that works -------------------------------------------------------------------------------------- */

static const char *test_chain(tni_cl_kernels *k, const tni_cl_program *p, const void *like, bool *wrong) {
  return tni_cl_ew_self_test(k, p, like, wrong);
}

static tn_status find_way(tni_cl_kernels *k, const tni_cl_ew *e, const char *source, tni_cl_program **out,
                          tn_error *err) {
  static const char *const ways[] = {"", "-cl-opt-disable"};
  char why[200] = "";
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    tni_cl_program *p = NULL;
    tn_error one = {.h = TN_HDR(tn_error)};
    tn_status st = tni_cl_kernel_of_source(k, "ew", source, ways[i], &p, &one);
    if (st == TN_OK && tni_cl_kernel_tested(k, p, test_chain, e)) {
      *out = p;
      return TN_OK;
    }
    if (st == TN_E_NO_MEMORY) return tni_cm_fail(err, st, "ew", "out of memory");
    const size_t n = strlen(why);
    snprintf(why + n, sizeof why - n, "%s%.90s", n ? "; without optimization: " : "",
             st == TN_OK ? p->why : one.message);
  }
  return tni_cm_fail(err, TN_E_UNAVAILABLE, k->c->info->name, "no element-wise kernel works: %s", why);
}

tn_status tni_cl_kernel_of_ew(tni_cl_kernels *k, const tni_cl_ew *e, tni_cl_program **out, tn_error *err) {
  char *text = k->host->alloc(k->host->ctx, TNI_CL_EW_SOURCE, 16, TN_TAG_SCRATCH);
  if (!text) return tni_cm_fail(err, TN_E_NO_MEMORY, k->c->info->name, "out of memory");
  tn_status st = tni_cl_ew_source(e, text, TNI_CL_EW_SOURCE)
                     ? find_way(k, e, text, out, err)
                     : tni_cm_fail(err, TN_E_LIMIT, k->c->info->name, "a chain that is too long");
  k->host->free(k->host->ctx, text);
  return st;
}
