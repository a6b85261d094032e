/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/opencl/clew.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct text {
  char *out;
  size_t size, n;
  bool full;
} text;

static void add_text(text *t, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int n = t->full ? 0 : vsnprintf(t->out + t->n, t->size - t->n, fmt, ap);
  va_end(ap);
  if (n < 0 || (size_t)n >= t->size - t->n)
    t->full = true;
  else
    t->n += (size_t)n;
}

/* Formulas in registers a, b; %v is the instruction's number. */
static const char *operator_formula(uint32_t op) {
  switch (op) {
    case TN_OP_ADD:
      return "a + b";
    case TN_OP_SUB:
      return "a - b";
    case TN_OP_MUL:
      return "a * b";
    case TN_OP_DIV:
      return "a / b";
    case TN_OP_NEG:
      return "-a";
    case TN_OP_ABS:
      return "fabs(a)";
    case TN_OP_SQRT:
      return "sqrt(a)";
    case TN_OP_EXP:
      return "exp(a)";
    case TN_OP_LOG:
      return "log(a)";
    case TN_OP_COS:
      return "cos(a)";
    case TN_OP_SIN:
      return "sin(a)";
    case TN_OP_RECIPROCAL:
      return "1.0f / a";
    case TN_OP_RELU: /* a NaN stays one, here and in Min and Max */
      return "a < 0 ? 0 : a";
    case TN_OP_SIGMOID:
      return "1.0f / (1.0f + exp(-a))";
    case TN_OP_TANH:
      return "tanh(a)";
    case TN_OP_ERF:
      return "erf(a)";
    case TN_OP_SWISH:
      return "a / (1.0f + exp(-v * a))";
    case TN_OP_GELU:
      return "v != 0 ? a / (1.0f + exp(-1.5957691216f * (a + 0.044715f * a * a * a))) : 0.5f * a * (1.0f + erf(a * "
             "0.70710678118f))";
    case TN_OP_MIN:
      return "a < b || a != a ? a : b";
    case TN_OP_MAX:
      return "a > b || a != a ? a : b";
    case TN_OP_IDENTITY:
    case TN_OP_CAST:
      return "a";
    default:
      return NULL;
  }
}

bool tni_cl_ew_operator(uint32_t op) { return operator_formula(op) != NULL; }

void tni_cl_ew_geometry(const int32_t meta[4], size_t global[3], size_t local[3]) {
  const size_t d0 = (size_t)meta[0];
  local[0] = d0 >= 64 ? 64 : d0 >= 16 ? 16 : 1;
  local[1] = local[2] = 1;
  global[0] = (d0 + local[0] - 1) / local[0] * local[0];
  global[1] = (size_t)meta[1];
  global[2] = (size_t)meta[2] * (size_t)meta[3];
}

static void write_arguments(text *t, const tni_cl_ew *e, uint32_t n_starts) {
  add_text(t, "__kernel void ew(");
  for (uint32_t i = 0; i < e->n_in; i++) add_text(t, "ARG(x%u), ", i);
  for (uint32_t i = 0; i < e->n_out; i++) add_text(t, "ARG(y%u), ", i);
  for (uint32_t i = 0; i < n_starts; i++) add_text(t, "ARG(z%u), ", i);
  add_text(t, "__global const int *meta, uint meta_o) {\n  __global const int *m = meta + meta_o;\n");
  add_text(t,
           "  const int i0 = get_global_id(0), i1 = get_global_id(1), i23 = get_global_id(2);\n"
           "  if (i0 >= m[0] || i1 >= m[1] || i23 >= m[2] * m[3]) return;\n"
           "  const int i2 = i23 %% m[2], i3 = i23 / m[2];\n");
}

bool tni_cl_ew_source(const tni_cl_ew *e, char *out, size_t size) {
  text t = {.out = out, .size = size};
  const char *type = e->wide ? "long" : "float";
  uint32_t starts = 0;
  for (uint32_t i = 0; i < e->n_in; i++) starts += e->dynamic >> i & 1;
  write_arguments(&t, e, starts);
  for (uint32_t i = 0, z = 0; i < e->n_in; i++) {
    const uint32_t at = 4 + 4 * i;
    add_text(&t, "  long a%u = (long)i0 * m[%u] + (long)i1 * m[%u] + (long)i2 * m[%u] + (long)i3 * m[%u];\n", i, at,
             at + 1, at + 2, at + 3);
    if (e->dynamic >> i & 1) {
      const uint32_t d = 4 + 4 * (e->n_in + e->n_out) + 3 * z;
      add_text(&t, "  {\n    long s = ((__global const long *)AT(7, z%u, z%u_o))[0];\n    if (s < 0) s += m[%u];\n", z,
               z, d + 1);
      add_text(&t, "    a%u += clamp(s, (long)0, (long)(m[%u] - m[%u])) * m[%u];\n  }\n", i, d + 1, d + 2, d);
      z++;
    }
    add_text(&t, "  const %s r%u = LD(%u, AT(%u, x%u, x%u_o), a%u);\n", type, i, e->types[i], e->types[i], i, i, i);
  }
  for (uint32_t i = 0; i < e->n_ops; i++) {
    const tni_cm_instr *o = &e->ops[i];
    const char *f = operator_formula(o->op);
    if (!f) return false;
    add_text(&t, "  %s r%u;\n  {\n    const %s a = r%u;\n", type, e->n_in + i, type, o->a);
    if (o->b != TN_NONE) add_text(&t, "    const %s b = r%u;\n", type, o->b);
    uint32_t bits; /* no decimals: the process's locale may write them with a comma */
    memcpy(&bits, &o->value, sizeof bits);
    if (o->op == TN_OP_SWISH || o->op == TN_OP_GELU) add_text(&t, "    const float v = as_float(0x%08xu);\n", bits);
    add_text(&t, "    r%u = %s;\n  }\n", e->n_in + i, f);
  }
  for (uint32_t i = 0; i < e->n_out; i++) {
    const uint32_t at = 4 + 4 * (e->n_in + i), ty = e->types[e->n_in + i];
    add_text(&t,
             "  ST(%u, r%u, AT(%u, y%u, y%u_o), (long)i0 * m[%u] + (long)i1 * m[%u] + (long)i2 * m[%u] + (long)i3 * "
             "m[%u]);\n",
             ty, e->results[i], ty, i, i, at, at + 1, at + 2, at + 3);
  }
  add_text(&t, "}\n");
  return !t.full;
}
