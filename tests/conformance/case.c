/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conformance/case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/onnx/import.h"

verdict case_give_up(test_case *c, verdict v, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(c->why, sizeof c->why, fmt, ap);
  va_end(ap);
  return v;
}

verdict case_status(test_case *c, tn_status st, const char *what) {
  return case_give_up(c, st == TN_E_UNSUPPORTED ? REFUSED : FAILED, "%s: %s", what, c->err.message);
}

void case_read_tolerance(test_case *c) {
  char path[CASE_PATH + 32];
  double rtol, atol;
  snprintf(path, sizeof path, "%s/tolerance", c->dir);
  FILE *f = fopen(path, "r");
  if (!f) return;
  if (fscanf(f, "%lf %lf", &rtol, &atol) == 2) {
    c->rtol = rtol;
    c->atol = atol;
  }
  fclose(f);
}

static verdict load_tensor(test_case *c, const char *path, tni_tensor *t, const char **name) {
  tni_file f;
  tn_status st = tni_file_map(path, &f, &c->err);
  if (st) return case_status(c, st, "data");
  st = tni_import_tensor(f.data, f.bytes, path, c->arena, t, name, &c->err);
  if (!st && t->bytes) t->data = tni_arena_memdup(c->arena, t->data, (size_t)t->bytes, 64);
  tni_file_unmap(&f);
  return st ? case_status(c, st, "data") : PASSED;
}

static verdict load_sequence(test_case *c, const char *dir, case_value *v) {
  char path[CASE_PATH + 96];
  uint32_t n = 0;
  for (;; n++) {
    snprintf(path, sizeof path, "%s/%u.pb", dir, n);
    if (access(path, R_OK)) break;
  }
  v->kind = VALUE_SEQUENCE;
  v->items = TNI_NEW_ARRAY(c->arena, tni_tensor, n + 1);
  if (!v->items) return case_give_up(c, FAILED, "no memory");
  for (; v->n_items < n; v->n_items++) {
    snprintf(path, sizeof path, "%s/%u.pb", dir, v->n_items);
    const verdict r = load_tensor(c, path, &v->items[v->n_items], NULL);
    if (r) return r;
  }
  return PASSED;
}

/* *there false: no such file in any form. */
static verdict load_value(test_case *c, const char *stem, case_value *v, bool *there) {
  char path[CASE_PATH + 80];
  memset(v, 0, sizeof *v);
  *there = true;
  snprintf(path, sizeof path, "%s.pb", stem);
  if (!access(path, R_OK)) return load_tensor(c, path, &v->tensor, &v->name);
  snprintf(path, sizeof path, "%s.none", stem);
  v->kind = VALUE_NONE;
  if (!access(path, R_OK)) return PASSED;
  snprintf(path, sizeof path, "%s.seq", stem);
  if (!access(path, R_OK)) return load_sequence(c, path, v);
  *there = false;
  return PASSED;
}

static verdict load_values(test_case *c, const char *dir, const char *what, case_value *v, uint32_t *n) {
  char stem[CASE_PATH + 64];
  for (*n = 0; *n < CASE_MAX_IO; ++*n) {
    bool there;
    snprintf(stem, sizeof stem, "%s/%s_%u", dir, what, *n);
    const verdict r = load_value(c, stem, &v[*n], &there);
    if (r || !there) return r;
  }
  return case_give_up(c, FAILED, "more than %d %ss", CASE_MAX_IO, what);
}

verdict case_load_set(test_case *c, uint32_t i, case_set *s, bool *there) {
  char dir[CASE_PATH + 32];
  snprintf(dir, sizeof dir, "%s/test_data_set_%u", c->dir, i);
  *there = !access(dir, R_OK);
  if (!*there) return PASSED;
  const verdict r = load_values(c, dir, "input", s->in, &s->n_in);
  return r ? r : load_values(c, dir, "output", s->out, &s->n_out);
}

uint32_t case_input_index(const case_set *s, uint32_t k, const char *const *names, uint32_t n) {
  for (uint32_t i = 0; s->in[k].name && s->in[k].name[0] && i < n; i++)
    if (!strcmp(names[i], s->in[k].name)) return i;
  return k < n ? k : UINT32_MAX;
}

/* --- comparing */

static bool is_float(uint32_t t) {
  return t == TN_DT_F32 || t == TN_DT_F64 || t == TN_DT_F16 || t == TN_DT_BF16 || t == TN_DT_F4E2M1 ||
         (t >= TN_DT_F8E4M3FN && t <= TN_DT_F8E5M2FNUZ) || t == TN_DT_F8E8M0 || t == TN_DT_C64 || t == TN_DT_C128;
}

/* Element i of a float tensor; complex ones have two each. */
static double element(const tni_tensor *t, int64_t i) {
  float f;
  double d;
  if (t->dtype == TN_DT_F64 || t->dtype == TN_DT_C128) {
    memcpy(&d, (const char *)t->data + i * 8, 8);
    return d;
  }
  if (t->dtype == TN_DT_C64) {
    memcpy(&f, (const char *)t->data + i * 4, 4);
    return (double)f;
  }
  tni_tensor_to_f32(t, i, 1, &f);
  return (double)f;
}

static bool close_enough(double a, double b, double rtol, double atol) {
  if (isnan(b)) return isnan(a);
  if (isinf(b) || isinf(a)) return a == b;
  return fabs(a - b) <= atol + rtol * fabs(b);
}

/* ONNX 1.12 stored bfloat16 as uint16 and cut where it now rounds: one step of difference is allowed there. */
static verdict compare_old_brain(test_case *c, const tni_tensor *got, const tni_tensor *want, uint32_t index) {
  if (got->bytes != want->bytes) return case_give_up(c, FAILED, "output %u: another size", index);
  for (uint64_t i = 0; i < got->bytes / 2; i++) {
    uint16_t a, b;
    memcpy(&a, (const char *)got->data + 2 * i, 2);
    memcpy(&b, (const char *)want->data + 2 * i, 2);
    if (abs(a - b) > 1 && (a & 0x7fff) <= 0x7f80)
      return case_give_up(c, FAILED, "output %u[%llu]: bits %04x, not %04x", index, (unsigned long long)i, a, b);
  }
  return PASSED;
}

static void print_dims(const tni_tensor *t, char *buf, size_t n) {
  size_t at = (size_t)snprintf(buf, n, "[");
  for (uint32_t d = 0; d < t->rank && at < n; d++)
    at += (size_t)snprintf(buf + at, n - at, d ? ",%lld" : "%lld", (long long)t->dims[d]);
  if (at < n) snprintf(buf + at, n - at, "]");
}

static verdict compare_tensor(test_case *c, const tni_tensor *got, const tni_tensor *want, uint32_t index) {
  char a[96], b[96];
  if (got->dtype == TN_DT_BF16 && want->dtype == TN_DT_U16) return compare_old_brain(c, got, want, index);
  if (got->dtype != want->dtype)
    return case_give_up(c, FAILED, "output %u: %s, not %s", index, tni_dtype_name(got->dtype),
                        tni_dtype_name(want->dtype));
  bool same = got->rank == want->rank;
  int64_t n = 1;
  for (uint32_t d = 0; same && d < got->rank; d++) {
    same = got->dims[d] == want->dims[d];
    n *= want->dims[d];
  }
  print_dims(got, a, sizeof a);
  print_dims(want, b, sizeof b);
  if (!same) return case_give_up(c, FAILED, "output %u: %s, not %s", index, a, b);
  if (got->bytes != want->bytes) return case_give_up(c, FAILED, "output %u: another size", index);
  if (!is_float(got->dtype)) {
    const uint8_t *x = got->data, *y = want->data;
    for (uint64_t i = 0; i < want->bytes; i++)
      if (x[i] != y[i])
        return case_give_up(c, FAILED, "output %u: byte %llu of %llu is %02x, not %02x", index, (unsigned long long)i,
                            (unsigned long long)want->bytes, x[i], y[i]);
    return PASSED;
  }
  if (got->dtype == TN_DT_C64 || got->dtype == TN_DT_C128) n *= 2;
  const double two_steps = got->dtype == TN_DT_BF16 ? 0x1p-6 : got->dtype == TN_DT_F16 ? 0x1p-9 : 0;
  const double rtol = c->rtol > two_steps ? c->rtol : two_steps;
  for (int64_t i = 0; i < n; i++) {
    const double x = element(got, i), y = element(want, i);
    if (!close_enough(x, y, rtol, c->atol))
      return case_give_up(c, FAILED, "output %u[%lld] of %s: %.9g, not %.9g", index, (long long)i, a, x, y);
  }
  return PASSED;
}

verdict case_compare(test_case *c, const case_value *got, const case_value *want, uint32_t i) {
  static const char *const names[] = {"a tensor", "a sequence", "nothing"};
  if (got->kind != want->kind)
    return case_give_up(c, FAILED, "output %u: %s, not %s", i, names[got->kind], names[want->kind]);
  if (got->kind == VALUE_NONE) return PASSED;
  if (got->kind == VALUE_TENSOR) return compare_tensor(c, &got->tensor, &want->tensor, i);
  if (got->n_items != want->n_items)
    return case_give_up(c, FAILED, "output %u: %u items, not %u", i, got->n_items, want->n_items);
  for (uint32_t k = 0; k < got->n_items; k++) {
    const verdict v = compare_tensor(c, &got->items[k], &want->items[k], i);
    if (v) return v;
  }
  return PASSED;
}
