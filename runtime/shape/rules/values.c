/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/base.h"
#include "runtime/shape/rules/rule.h"

static bool dtype_limits(uint32_t dtype, int64_t *lo, int64_t *hi) {
  switch (dtype) {
    case TN_DT_BOOL:
      *lo = 0, *hi = 1;
      return true;
    case TN_DT_U8:
      *lo = 0, *hi = UINT8_MAX;
      return true;
    case TN_DT_I8:
      *lo = INT8_MIN, *hi = INT8_MAX;
      return true;
    case TN_DT_U16:
      *lo = 0, *hi = UINT16_MAX;
      return true;
    case TN_DT_I16:
      *lo = INT16_MIN, *hi = INT16_MAX;
      return true;
    case TN_DT_I32:
      *lo = INT32_MIN, *hi = INT32_MAX;
      return true;
    case TN_DT_U32:
      *lo = 0, *hi = UINT32_MAX;
      return true;
    case TN_DT_U64:
      *lo = 0, *hi = INT64_MAX;
      return true;
    case TN_DT_I64:
      *lo = INT64_MIN, *hi = INT64_MAX;
      return true;
    default:
      return false;
  }
}

tn_expr tni_val_fit(tni_exprs *x, uint32_t dtype, tn_expr a) {
  int64_t lo, hi, l, h;
  if (a == TNI_EXPR_NONE || !dtype_limits(dtype, &lo, &hi)) return TNI_EXPR_NONE;
  tni_ex_range(x, a, &l, &h);
  int64_t c;
  bool wide = dtype == TN_DT_I32 || dtype == TN_DT_U32 || dtype == TN_DT_I64 || dtype == TN_DT_U64;
  if (wide && !tni_ex_is_const(x, a, &c)) return lo < 0 || l >= 0 ? a : TNI_EXPR_NONE;
  return l >= lo && h <= hi ? a : TNI_EXPR_NONE;
}

tn_expr tni_val_unary(tni_exprs *x, uint32_t op, uint32_t dtype, tn_expr a) {
  if (a == TNI_EXPR_NONE) return a;
  int64_t lo, hi;
  tn_expr zero = tni_ex_const(x, 0);
  tni_ex_range(x, a, &lo, &hi);
  switch (op) {
    case TN_OP_IDENTITY:
      return a;
    case TN_OP_NEG:
      return tni_val_fit(x, dtype, tni_ex_sub(x, zero, a));
    case TN_OP_ABS:
      if (lo >= 0) return a;
      if (hi <= 0) return tni_val_fit(x, dtype, tni_ex_sub(x, zero, a));
      return tni_val_fit(x, dtype, tni_ex_max(x, a, tni_ex_sub(x, zero, a)));
    case TN_OP_RELU:
      return lo >= 0 ? a : tni_ex_max(x, a, zero);
    case TN_OP_SIGN:
      if (lo > 0) return tni_ex_const(x, 1);
      if (hi < 0) return tni_ex_const(x, -1);
      return lo == 0 && hi == 0 ? zero : TNI_EXPR_NONE;
    case TN_OP_NOT:
      if (lo > 0) return zero;
      return lo == 0 && hi == 0 ? tni_ex_const(x, 1) : TNI_EXPR_NONE;
    default:
      return TNI_EXPR_NONE;
  }
}

/* ONNX divides integers toward zero: the floor of two numbers of the same sign. */
static tn_expr divide_values(tni_exprs *x, tn_expr a, tn_expr b) {
  int64_t ca, cb, lo, hi, blo, bhi;
  if (tni_ex_is_const(x, a, &ca) && tni_ex_is_const(x, b, &cb)) {
    if (cb == 0 || (ca == INT64_MIN && cb == -1)) return TNI_EXPR_NONE;
    return tni_ex_const(x, ca / cb);
  }
  tni_ex_range(x, a, &lo, &hi);
  tni_ex_range(x, b, &blo, &bhi);
  if (tni_ex_is_const(x, b, &cb) && cb > 0 && tni_ex_divides(x, a, cb) == 1) return tni_ex_exactdiv(x, a, b);
  return lo >= 0 && blo >= 0 ? tni_ex_floordiv(x, a, b) : TNI_EXPR_NONE;
}

static tn_expr modulo_values(tni_exprs *x, const tni_node *node, tn_expr a, tn_expr b) {
  int64_t ca, cb, lo, hi, blo, bhi;
  if (!tni_attr_i(&node->pub, "fmod", 0)) return tni_ex_mod(x, a, b);
  if (tni_ex_is_const(x, a, &ca) && tni_ex_is_const(x, b, &cb)) {
    return cb == 0 || (ca == INT64_MIN && cb == -1) ? TNI_EXPR_NONE : tni_ex_const(x, ca % cb);
  }
  tni_ex_range(x, a, &lo, &hi);
  tni_ex_range(x, b, &blo, &bhi);
  return lo >= 0 && blo >= 0 ? tni_ex_mod(x, a, b) : TNI_EXPR_NONE;
}

static tn_expr power_values(tni_exprs *x, tn_expr a, tn_expr b) {
  int64_t n;
  if (!tni_ex_is_const(x, b, &n) || n < 0 || n > 8) return TNI_EXPR_NONE;
  tn_expr p = tni_ex_const(x, 1);
  for (int64_t i = 0; i < n; i++) p = tni_ex_mul(x, p, a);
  return p;
}

tn_expr tni_val_binary(tni_exprs *x, const tni_node *node, uint32_t dtype, tn_expr a, tn_expr b) {
  tn_expr r = TNI_EXPR_NONE;
  tn_expr zero = tni_ex_const(x, 0);
  if (node->pub.op == TN_OP_MUL && (a == zero || b == zero)) return zero;
  if (a == TNI_EXPR_NONE || b == TNI_EXPR_NONE) return TNI_EXPR_NONE;
  switch (node->pub.op) {
    case TN_OP_ADD:
    case TN_OP_SUM:
      r = tni_ex_add(x, a, b);
      break;
    case TN_OP_SUB:
      r = tni_ex_sub(x, a, b);
      break;
    case TN_OP_MUL:
      r = tni_ex_mul(x, a, b);
      break;
    case TN_OP_DIV:
      r = divide_values(x, a, b);
      break;
    case TN_OP_MOD:
      r = modulo_values(x, node, a, b);
      break;
    case TN_OP_MIN:
      r = tni_ex_min(x, a, b);
      break;
    case TN_OP_MAX:
      r = tni_ex_max(x, a, b);
      break;
    case TN_OP_POW:
      r = power_values(x, a, b);
      break;
    default:
      break;
  }
  return tni_val_fit(x, dtype, r);
}

/* -1 a<b, 0 equal, 1 a>b, 2 unknown; -2 a<=b and 3 a>=b where only that much is known. */
static int order_of(tni_exprs *x, tn_expr a, tn_expr b) {
  int o = a == b ? 0 : tni_ex_order(x, a, b);
  if (o != 2) return o;
  int64_t la, ha, lb, hb;
  tni_ex_range(x, a, &la, &ha);
  tni_ex_range(x, b, &lb, &hb);
  if (ha < lb) return -1;
  if (la > hb) return 1;
  if (ha <= lb || tni_ex_proves_le(x, a, b)) return -2;
  if (la >= hb || tni_ex_proves_le(x, b, a)) return 3;
  return 2;
}

/* 1 true, 0 false, -1 undecided */
static int decide_compare(tni_exprs *x, uint32_t op, tn_expr a, tn_expr b) {
  int o = order_of(x, a, b);
  switch (op) {
    case TN_OP_EQUAL:
      return o == 0 ? 1 : o == -1 || o == 1 ? 0 : -1;
    case TN_OP_LESS:
      return o == -1 ? 1 : o == 0 || o == 1 || o == 3 ? 0 : -1;
    case TN_OP_LESS_OR_EQUAL:
      return o == -1 || o == 0 || o == -2 ? 1 : o == 1 ? 0 : -1;
    case TN_OP_GREATER:
      return o == 1 ? 1 : o == 0 || o == -1 || o == -2 ? 0 : -1;
    case TN_OP_GREATER_OR_EQUAL:
      return o == 1 || o == 0 || o == 3 ? 1 : o == -1 ? 0 : -1;
    default:
      return -1;
  }
}

/* 1, 0 or -1 (unknown) for a bool element. */
static int truth_of(const tni_exprs *x, tn_expr a) {
  int64_t c;
  return a != TNI_EXPR_NONE && tni_ex_is_const(x, a, &c) ? c != 0 : -1;
}

tn_expr tni_val_compare(tni_exprs *x, uint32_t op, tn_expr a, tn_expr b) {
  int r = -1, ta = truth_of(x, a), tb = truth_of(x, b);
  switch (op) {
    case TN_OP_AND:
      r = ta == 0 || tb == 0 ? 0 : ta == 1 && tb == 1 ? 1 : -1;
      break;
    case TN_OP_OR:
      r = ta == 1 || tb == 1 ? 1 : ta == 0 && tb == 0 ? 0 : -1;
      break;
    case TN_OP_XOR:
      r = ta >= 0 && tb >= 0 ? ta ^ tb : -1;
      break;
    default:
      if (a != TNI_EXPR_NONE && b != TNI_EXPR_NONE) r = decide_compare(x, op, a, b);
      break;
  }
  return r < 0 ? TNI_EXPR_NONE : tni_ex_const(x, r);
}

bool tni_elem_is_zero(const tni_tensor *t, int64_t i) {
  const uint32_t bits = tni_dtype_bits(t->dtype);
  if (!bits || bits % 8) return false;
  const size_t size = bits / 8;
  const unsigned char *p = (const unsigned char *)t->data + (size_t)i * size;
  const bool complex = t->dtype == TN_DT_C64 || t->dtype == TN_DT_C128;
  const bool is_float = complex || !tni_dtype_is_index(t->dtype);
  for (size_t b = 0; b < size; b++) { /* the sign is the top bit of the last byte */
    const bool sign = is_float && (b == size - 1 || (complex && b == size / 2 - 1));
    if (p[b] & (sign ? 0x7f : 0xff)) return false;
  }
  return true;
}
