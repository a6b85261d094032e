/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/operands.h"

#include <string.h>

#include "runtime/graph/ir.h"

void fz_scope_add(fz_scope *s, char *name, uint32_t dtype, const int64_t *dims, int32_t rank) {
  if (s->n_values == FZ_MAX_VALUES) return;
  fz_value *v = &s->values[s->n_values++];
  *v = (fz_value){.name = name, .dtype = dtype, .rank = rank};
  for (int32_t i = 0; i < rank && i < 8; i++) v->dims[i] = dims[i];
}

void fz_scope_base(fz_scope *s) {
  fz_bytes *b = s->b;
  if (s->n_values && fz_often(b, 140)) {
    const fz_value *v = &s->values[fz_below(b, s->n_values)];
    if (v->rank >= 0) {
      s->base = *v;
      return;
    }
  }
  s->base = (fz_value){.dtype = fz_dtype(b), .rank = (int32_t)(fz_u8(b) % 9) - 2};
  if (s->base.rank < 0) s->base.rank += 5; /* 3 and 4 more often */
  for (int32_t i = 0; i < s->base.rank; i++) {
    const uint8_t r = fz_u8(b);
    s->base.dims[i] = r < 200 ? 1 + r % 5 : r < 224 ? -1 - (int64_t)(r & 3) : r < 250 ? r & 15 : 0;
  }
}

static int64_t dim_of(const fz_scope *s, int32_t i) {
  if (i < 0) i += s->base.rank;
  return i >= 0 && i < s->base.rank ? s->base.dims[i] : 2;
}

static void set(fz_value *v, int32_t rank, const int64_t *dims) {
  v->rank = rank;
  for (int32_t i = 0; i < rank; i++) v->dims[i] = dims[i];
}

/* What a letter asks for: dtype, dims. */
static fz_value wanted(fz_scope *s, char letter) {
  fz_value v = s->base;
  const int64_t last = dim_of(s, -1), second = dim_of(s, 1);
  const int32_t spatial = s->base.rank > 2 ? s->base.rank - 2 : 1;
  const int64_t kernel[8] = {4, second, 2, 2, 2, 2, 2, 2}, turned[8] = {second, 4, 2, 2, 2, 2, 2, 2};
  const uint32_t bytes = fz_u8(s->b) & 1 ? TN_DT_U8 : TN_DT_I8;
  switch (letter) {
    case 'b':
      v.dtype = TN_DT_BOOL;
      break;
    case 'd':
      v.dtype = TN_DT_I64;
      break;
    case 'f':
      v.dtype = TN_DT_F32;
      break;
    case 'h':
      set(&v, 3, (int64_t[]){dim_of(s, 0), dim_of(s, 1), 8});
      break;
    case '4':
      set(&v, 4, (int64_t[]){dim_of(s, 0), 2, dim_of(s, 1), 4});
      break;
    case 'c':
      set(&v, 1, &second);
      break;
    case 'l':
      set(&v, 1, &last);
      break;
    case 'k':
      set(&v, 1, (int64_t[]){4});
      break;
    case 'n':
      v.dtype = TN_DT_I64, v.rank = 0;
      break;
    case 's':
      v.dtype = TN_DT_F32, v.rank = 0;
      break;
    case 'S':
      v.rank = 0;
      break;
    case 'u':
      v.dtype = bytes, v.rank = 0;
      break;
    case 't':
      v.dtype = TN_DT_BOOL, v.rank = 0;
      break;
    case 'D':
      v.dtype = TN_DT_I32, set(&v, 1, (int64_t[]){dim_of(s, 0)});
      break;
    case 'N':
      v.dtype = TN_DT_I32, v.rank = 0;
      break;
    case 'm':
      set(&v, 2, (int64_t[]){last, 4});
      break;
    case 'w':
      set(&v, spatial + 2, kernel);
      break;
    case 'W':
      set(&v, spatial + 2, turned);
      break;
    case 'Q':
      v.dtype = bytes;
      break;
    case 'M':
      v.dtype = bytes, set(&v, 2, (int64_t[]){last, 4});
      break;
    case 'V':
      v.dtype = bytes, set(&v, spatial + 2, kernel);
      break;
    case 'B':
      v.dtype = TN_DT_U8, set(&v, 3, (int64_t[]){4, 2, 2});
      break;
    case 'g':
      set(&v, 3, (int64_t[]){1, 4, last});
      break;
    case 'r':
      set(&v, 3, (int64_t[]){1, 4, 4});
      break;
    default:
      break;
  }
  return v;
}

/* An axis of 1, another size, one axis more or less, another dtype. */
static void disturb(fz_scope *s, fz_value *v) {
  fz_bytes *b = s->b;
  switch (fz_below(b, 6)) {
    case 0:
      if (v->rank) v->dims[fz_below(b, (uint32_t)v->rank)] = 1;
      break;
    case 1:
      if (v->rank) v->dims[fz_below(b, (uint32_t)v->rank)] = fz_below(b, 8);
      break;
    case 2:
      v->rank -= v->rank > 0;
      break;
    case 3:
      if (v->rank < 7) v->dims[v->rank++] = 1 + fz_below(b, 3);
      break;
    case 4:
      v->dtype = fz_dtype(b);
      break;
    default:
      if (v->rank) v->dims[fz_below(b, (uint32_t)v->rank)] = -1 - (int64_t)fz_below(b, 4);
      break;
  }
}

static char *fresh(fz_scope *s, const char *kind) { return fz_text(s->arena, "%s%u", kind, (*s->count)++); }

static char *small_ints(fz_scope *s) {
  int64_t v[8];
  const uint32_t n = fz_below(s->b, 7);
  char *name = fresh(s, "k");
  for (uint32_t i = 0; i < n; i++) v[i] = fz_int(s->b);
  FZ_PUSH(s->arena, s->graph, initializer, fz_ints(s->arena, name, v, (int32_t)n));
  fz_scope_add(s, name, TN_DT_I64, (int64_t[]){n}, 1);
  return name;
}

char *fz_operand(fz_scope *s, char letter) {
  fz_bytes *b = s->b;
  const uint8_t r = fz_u8(b);
  if (r > 252) return fz_text(s->arena, "%s", r == 253 ? "" : r == 254 ? "nowhere" : "i0");
  if (r > 200 && s->n_values) return s->values[fz_below(b, s->n_values)].name;
  if (letter == 'i' && r > 20) return small_ints(s);
  fz_value v = letter == 'i' ? (fz_value){.dtype = TN_DT_I64, .rank = 1, .dims = {(r & 3) + 1}} : wanted(s, letter);
  if (r < 24) disturb(s, &v);
  bool fixed = true;
  for (int32_t i = 0; i < v.rank; i++) fixed = fixed && v.dims[i] >= 0;
  const bool is_const = fixed && (r & 1) && tni_dtype_bits(v.dtype) != 0;
  char *name = fresh(s, is_const ? "k" : "i");
  if (is_const) {
    *s->seed = *s->seed * 31 + r;
    FZ_PUSH(s->arena, s->graph, initializer, fz_tensor(s->arena, name, v.dtype, v.dims, (uint32_t)v.rank, *s->seed));
  } else if (s->depth) {
    return s->n_values ? s->values[fz_below(b, s->n_values)].name : fz_text(s->arena, "i0");
  } else {
    FZ_PUSH(s->arena, s->graph, input, fz_info(s->arena, name, v.dtype, v.dims, v.rank));
  }
  fz_scope_add(s, name, v.dtype, v.dims, v.rank);
  return name;
}
