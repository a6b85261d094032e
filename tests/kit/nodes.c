/* SPDX-License-Identifier: Apache-2.0 */
#include "nodes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *name;
  uint32_t dtype;
} dtypes[] = {{"f32", TN_DT_F32}, {"f64", TN_DT_F64}, {"f16", TN_DT_F16},  {"bf16", TN_DT_BF16}, {"i8", TN_DT_I8},
              {"u8", TN_DT_U8},   {"i16", TN_DT_I16}, {"u16", TN_DT_U16},  {"i32", TN_DT_I32},   {"u32", TN_DT_U32},
              {"i64", TN_DT_I64}, {"u64", TN_DT_U64}, {"bool", TN_DT_BOOL}};

static void put(tni_tensor *t, int64_t i, const char *text) {
  const double v = strtod(text, NULL);
  const long long s = strtoll(text, NULL, 10);
  const unsigned long long u = text[0] == '-' ? (unsigned long long)s : strtoull(text, NULL, 10);
  const float f = (float)v;
  const uint16_t h = t->dtype == TN_DT_F16 ? tni_f32_to_f16(f) : tni_f32_to_bf16(f);
  const uint64_t bits = t->dtype == TN_DT_BOOL ? u != 0 : u;
  char *p = (char *)t->data + i * tni_dtype_bits(t->dtype) / 8;
  switch (t->dtype) {
    case TN_DT_F32:
      memcpy(p, &f, 4);
      break;
    case TN_DT_F64:
      memcpy(p, &v, 8);
      break;
    case TN_DT_F16:
    case TN_DT_BF16:
      memcpy(p, &h, 2);
      break;
    default:
      memcpy(p, &bits, tni_dtype_bits(t->dtype) / 8); /* little endian */
  }
}

bool ht_tensor(tni_arena *a, const char *text, tni_tensor *t) {
  const char *open = strchr(text, '[');
  int64_t n;
  *t = (tni_tensor){.dtype = TN_DT_UNDEFINED};
  for (size_t i = 0; open && i < sizeof dtypes / sizeof *dtypes; i++)
    if (strlen(dtypes[i].name) == (size_t)(open - text) && !strncmp(dtypes[i].name, text, (size_t)(open - text)))
      t->dtype = dtypes[i].dtype;
  if (!t->dtype) return false;
  char *p = (char *)(uintptr_t)(open + 1);
  while (*p != ']') {
    if (t->rank == TN_MAX_RANK) return false;
    t->dims[t->rank++] = strtoll(p, &p, 10);
    if (*p == ',')
      p++;
    else if (*p != ']')
      return false;
  }
  if (tni_dims_count(t->dims, t->rank, &n) || tni_dtype_bytes(t->dtype, n, &t->bytes)) return false;
  char *mem = tni_arena_alloc(a, t->bytes + 33, 32);
  if (!mem) return false;
  t->data = mem + 1; /* constants in mapped files need not be aligned */
  p++;
  memset(mem, 0, (size_t)t->bytes + 33);
  for (int64_t i = 0; i < n && *p; i++) {
    while (*p == ' ') p++;
    if (!*p || *p == '}') return false;
    put(t, i, p);
    while (*p && *p != ' ' && *p != '}') p++;
  }
  return true;
}

void ht_fill(float *x, int64_t n, uint32_t seed) {
  uint32_t s = seed * 2654435761u + 12345;
  for (int64_t i = 0; i < n; i++) {
    s = s * 1664525u + 1013904223u;
    x[i] = (float)((double)(s >> 8) / 8388608.0 - 1.0);
  }
}

/* One attribute at *p, which moves behind it. */
static bool attribute(tni_arena *a, const char **p, tni_raw_attr *r) {
  const char *eq = strchr(*p, '=');
  if (!eq) return false;
  *r = (tni_raw_attr){.name = tni_arena_strndup(a, *p, (size_t)(eq - *p))};
  char *v = (char *)(uintptr_t)(eq + 1), *end;
  r->a.h = (tn_hdr)TN_HDR(tn_attr);
  r->a.n = 1;
  if (*v == '\'') {
    end = strchr(v + 1, '\'');
    r->a.type = TN_ATTR_STRING;
    r->a.n = (uint64_t)(end - v - 1);
    r->a.u.s = tni_arena_strndup(a, v + 1, r->a.n);
    end++;
  } else if (*v == '{') {
    r->tensor = TNI_NEW(a, tni_tensor);
    r->a.type = TN_ATTR_TENSOR;
    r->a.u.p = r->tensor;
    if (!ht_tensor(a, v + 1, r->tensor)) return false;
    end = strchr(v, '}') + 1;
  } else if (*v == '[') {
    int64_t *list = TNI_NEW_ARRAY(a, int64_t, TN_MAX_RANK);
    r->a.type = TN_ATTR_INTS;
    r->a.n = 0;
    for (end = v + 1; *end && *end != ']';) {
      list[r->a.n++] = strtoll(end, &end, 10);
      if (*end == ',') end++;
    }
    end++;
    r->a.u.ints = list;
  } else {
    const double f = strtod(v, &end);
    r->a.type = *end == 'f' ? TN_ATTR_FLOAT : TN_ATTR_INT;
    if (*end == 'f') {
      r->a.u.f = f;
      end++;
    } else {
      r->a.u.i = strtoll(v, &end, 10);
    }
  }
  while (*end == ' ') end++;
  *p = end;
  return true;
}

bool ht_node_make(ht_node *n, const char *op, int64_t version, const char *attrs, const char *const *in,
                  uint32_t n_out) {
  tni_raw_attr raw[HT_IO];
  tn_id ids[HT_IO], outs[HT_IO], id;
  uint32_t n_raw = 0;
  memset(n, 0, sizeof *n);
  tni_error_init(&n->err);
  if (tni_graph_create(NULL, "test", &n->g, &n->err)) return false;
  for (const char *p = attrs ? attrs : ""; *p && n_raw < HT_IO; n_raw++)
    if (!attribute(n->g->arena, &p, &raw[n_raw])) return false;
  for (; n->n_in < HT_IO && in[n->n_in]; n->n_in++) {
    const uint32_t i = n->n_in;
    ids[i] = TN_NONE;
    if (!strcmp(in[i], "-")) continue;
    if (!ht_tensor(n->g->arena, in[i], &n->in[i])) return false;
    n->ptr[i] = &n->in[i];
    ids[i] = tni_graph_add_value(n->g, "", TN_VALUE_INPUT, n->in[i].dtype);
  }
  n->n_out = n_out;
  for (uint32_t i = 0; i < n_out; i++) outs[i] = tni_graph_add_value(n->g, "", TN_VALUE_ACT, TN_DT_UNDEFINED);
  const bool own = strncmp(op, "tenon.", 6) == 0;
  if (own) version = 1;
  if (tni_graph_add_node(n->g, "the node", own ? "tenon" : "", own ? op + 6 : op, version ? version : 25, ids, n->n_in,
                         outs, n_out, raw, n_raw, &id, &n->err))
    return false;
  n->node = tni_graph_node(n->g, id);
  return true;
}

void ht_node_free(ht_node *n) { tni_graph_destroy(n->g); }

bool ht_same(const tni_tensor *got, const tni_tensor *want, double rel) {
  int64_t n;
  if (got->dtype != want->dtype || got->rank != want->rank || got->bytes != want->bytes) return false;
  for (uint32_t d = 0; d < got->rank; d++)
    if (got->dims[d] != want->dims[d]) return false;
  if (tni_dims_count(got->dims, got->rank, &n)) return false;
  const bool real =
      got->dtype == TN_DT_F32 || got->dtype == TN_DT_F64 || got->dtype == TN_DT_F16 || got->dtype == TN_DT_BF16;
  if (!real) return !n || !memcmp(got->data, want->data, (size_t)got->bytes);
  for (int64_t i = 0; i < n; i++) {
    double a, b;
    float f, g;
    tni_tensor_to_f32(got, i, 1, &f);
    tni_tensor_to_f32(want, i, 1, &g);
    a = (double)f;
    b = (double)g;
    if (got->dtype == TN_DT_F64) {
      memcpy(&a, (const char *)got->data + i * 8, 8);
      memcpy(&b, (const char *)want->data + i * 8, 8);
    }
    if (isnan(b) ? !isnan(a) : isinf(b) ? a != b : !(fabs(a - b) <= rel * fmax(fabs(a), fabs(b)))) {
      printf("\n    element %lld: %.9g, not %.9g", (long long)i, a, b);
      return false;
    }
  }
  return true;
}
