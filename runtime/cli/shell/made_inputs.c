/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cli/shell/shell.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"

enum { BATCH = 1, PAST = 4, SIDE = 32, IDS = 100, SMALL = 10 };
#define MOST_BYTES ((uint64_t)1 << 32)

typedef struct maker {
  uint64_t state;
  int64_t past, length;
  tn_error *err;
} maker;

/* splitmix64 */
static uint64_t draw(maker *k) {
  uint64_t z = k->state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* --- dims -------------------------------------------------------------------------------------------------------- */

static int64_t symbol_value(const maker *k, const char *s) {
  if (strstr(s, "batch")) return BATCH;
  if (strstr(s, "total")) return k->past + k->length;
  if (strstr(s, "past")) return k->past;
  return strstr(s, "height") || strstr(s, "width") ? SIDE : k->length;
}

/* "past_sequence_length + sequence_length": names and numbers, added and multiplied. Other expressions are a name of
 * their own. */
static int64_t dim_value(const maker *k, const char *text) {
  char copy[256];
  int64_t sum = 0, product = 1;
  if (text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+* ")] ||
      strlen(text) >= sizeof copy)
    return k->length;
  memcpy(copy, text, strlen(text) + 1);
  for (char *p = copy;;) {
    p += strspn(p, " ");
    char *end = p + strcspn(p, " +*");
    const char next = end[strspn(end, " ")];
    char *after = end + strspn(end, " ");
    *end = '\0';
    product *= isdigit((unsigned char)*p) ? strtoll(p, NULL, 10) : symbol_value(k, p);
    if (next != '*') {
      sum += product;
      product = 1;
    }
    if (next != '+' && next != '*') return sum;
    p = after + 1;
  }
}

static bool has_past(const tn_model *m) {
  for (uint32_t i = 0; i < tn_model_n_inputs(m); i++) {
    const tn_io_info *io = tn_model_input(m, i);
    for (int32_t d = 0; d < io->rank; d++)
      if (io->dims[d] < 0 && io->dim_names[d] && strstr(io->dim_names[d], "past")) return true;
  }
  return false;
}

/* --- values ------------------------------------------------------------------------------------------------------ */

static uint32_t element_bytes(uint32_t dtype) {
  switch (dtype) {
    case TN_DT_F64:
    case TN_DT_I64:
    case TN_DT_U64:
      return 8;
    case TN_DT_F32:
    case TN_DT_I32:
    case TN_DT_U32:
      return 4;
    case TN_DT_F16:
    case TN_DT_BF16:
    case TN_DT_I16:
    case TN_DT_U16:
      return 2;
    case TN_DT_I8:
    case TN_DT_U8:
    case TN_DT_BOOL:
      return 1;
    default:
      return 0;
  }
}

static bool is_float(uint32_t dtype) {
  return dtype == TN_DT_F64 || dtype == TN_DT_F32 || dtype == TN_DT_F16 || dtype == TN_DT_BF16;
}

/* Element i of a tensor whose last axis has `row` elements. */
static double value_of(maker *k, const char *name, uint32_t dtype, int64_t i, int64_t row) {
  const uint64_t r = draw(k);
  if (strstr(name, "mask")) return 1;
  if (is_float(dtype)) return (double)(r >> 40) / (double)(1 << 23) - 1;
  if (strstr(name, "position")) return (double)(k->past + i % row);
  if (strstr(name, "use_cache")) return k->past > 0;
  if (strstr(name, "seqlens_k")) return (double)(k->past + k->length - 1);
  if (strstr(name, "total_sequence_length")) return (double)(k->past + k->length);
  if (strstr(name, "logits_to_keep")) return 0;
  if (dtype == TN_DT_BOOL || strstr(name, "token_type")) return (double)(r >> 63);
  return (double)((r >> 33) % (strstr(name, "ids") ? IDS : SMALL));
}

static void put_value(void *data, uint32_t dtype, int64_t i, double v) {
  const int64_t whole = (int64_t)v; /* little-endian: shorter ones are its first bytes */
  const float f = (float)v;
  const uint16_t h = dtype == TN_DT_F16 ? tni_f32_to_f16(f) : tni_f32_to_bf16(f);
  const uint32_t n = element_bytes(dtype);
  const void *from = dtype == TN_DT_F64 ? (const void *)&v : dtype == TN_DT_F32 ? (const void *)&f
                     : is_float(dtype)  ? (const void *)&h
                                        : (const void *)&whole;
  memcpy((char *)data + (size_t)i * n, from, n);
}

static tn_status make_input(maker *k, const tn_io_info *io, tn_tensor **out) {
  const uint32_t n = element_bytes(io->dtype);
  tn_tensor t = {.h = TN_API_HDR(tn_tensor), .name = io->name, .dtype = io->dtype};
  size_t count = 1;
  bool fits = true;
  if (!n || io->rank < 0)
    return tni_fail(k->err, TN_E_UNSUPPORTED, io->name,
                     "input '%s' cannot be made up: its type or rank is not known to be a plain one; --data gives it", io->name);
  for (t.rank = 0; t.rank < (uint32_t)io->rank; t.rank++) {
    t.dims[t.rank] = io->dims[t.rank] >= 0 ? io->dims[t.rank] : dim_value(k, io->dim_names[t.rank] ? io->dim_names[t.rank] : "");
    fits = fits && tni_mul_size(count, (size_t)t.dims[t.rank], &count);
  }
  if (!fits || count > MOST_BYTES / n)
    return tni_fail(k->err, TN_E_LIMIT, io->name, "input '%s' cannot be made up: it would take over 4 GiB", io->name);
  const size_t head = (sizeof t + 63) & ~(size_t)63;
  t.bytes = count * n;
  char *memory = aligned_alloc(64, (head + t.bytes + 63) & ~(size_t)63);
  if (!memory) return tni_fail_memory(k->err, io->name);
  t.data = memory + head;
  const int64_t row = t.rank ? t.dims[t.rank - 1] : 1;
  for (int64_t i = 0; i < (int64_t)count; i++)
    put_value(memory + head, io->dtype, i, value_of(k, io->name, io->dtype, i, row));
  memcpy(memory, &t, sizeof t);
  *out = (tn_tensor *)(void *)memory;
  return TN_OK;
}

tn_status cli_made_inputs(const tn_model *m, uint64_t seed, int64_t length, tn_tensor **out, tn_error *err) {
  maker k = {.state = seed, .past = has_past(m) ? PAST : 0, .length = length, .err = err};
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < tn_model_n_inputs(m); i++) st = make_input(&k, tn_model_input(m, i), &out[i]);
  return st;
}
