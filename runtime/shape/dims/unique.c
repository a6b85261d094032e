/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/shape/dims/unique.h"

#include <math.h>
#include <string.h>

tni_items tni_items_of(const tni_tensor *t, bool flat, uint32_t axis) {
  tni_items it = {.t = t, .outer = 1, .n = 1, .inner = 1};
  for (uint32_t d = 0; d < t->rank; d++) *(flat || d == axis ? &it.n : d < axis ? &it.outer : &it.inner) *= t->dims[d];
  return it;
}

static uint32_t dtype_parts(uint32_t dtype) { return dtype == TN_DT_C64 || dtype == TN_DT_C128 ? 2 : 1; }

bool tni_items_comparable(uint32_t dtype) {
  return tni_dtype_bits(dtype) >= 8 && dtype <= TN_DT_BF16 && dtype != TN_DT_STRING;
}

static int compare_real(double a, double b) {
  if (isnan(a) || isnan(b)) return (isnan(a) != 0) - (isnan(b) != 0);
  return (a > b) - (a < b);
}

/* Element i, or one of the two numbers that a complex element is. */
static int compare_element(const tni_tensor *t, int64_t i, int64_t k, uint32_t part) {
  const char *p = t->data;
  if (t->dtype == TN_DT_F64 || t->dtype == TN_DT_C128) {
    double a, b;
    const size_t step = dtype_parts(t->dtype) * sizeof a, at = part * sizeof a;
    memcpy(&a, p + (size_t)i * step + at, sizeof a);
    memcpy(&b, p + (size_t)k * step + at, sizeof b);
    return compare_real(a, b);
  }
  if (t->dtype == TN_DT_C64) {
    float a, b;
    memcpy(&a, p + (size_t)i * 8 + part * 4, sizeof a);
    memcpy(&b, p + (size_t)k * 8 + part * 4, sizeof b);
    return compare_real((double)a, (double)b);
  }
  if (t->dtype == TN_DT_U64) {
    uint64_t a, b;
    memcpy(&a, p + (size_t)i * sizeof a, sizeof a);
    memcpy(&b, p + (size_t)k * sizeof b, sizeof b);
    return (a > b) - (a < b);
  }
  if (t->dtype == TN_DT_F32 || t->dtype == TN_DT_F16 || t->dtype == TN_DT_BF16) {
    float a, b;
    tni_tensor_to_f32(t, i, 1, &a);
    tni_tensor_to_f32(t, k, 1, &b);
    return compare_real((double)a, (double)b);
  }
  int64_t a, b;
  tni_tensor_to_i64(t, i, 1, &a);
  tni_tensor_to_i64(t, k, 1, &b);
  return (a > b) - (a < b);
}

int tni_items_compare(const tni_items *it, int64_t a, int64_t b) {
  const uint32_t n_parts = dtype_parts(it->t->dtype);
  for (int64_t o = 0; o < it->outer && it->inner; o++) /* outer may be absurd beside an axis of 0 */
    for (int64_t i = 0; i < it->inner; i++)
      for (uint32_t part = 0; part < n_parts; part++) {
        const int64_t row = o * it->n;
        const int c = compare_element(it->t, (row + a) * it->inner + i, (row + b) * it->inner + i, part);
        if (c) return c;
      }
  return 0;
}

int64_t tni_items_work(const tni_items *it) { return it->inner ? it->outer * it->inner + 4 : 1; }

/* Merges from the bottom, which keeps equal items in order. */
bool tni_items_sort(const tni_items *it, int64_t *order, int64_t *room, tni_poll *poll) {
  const int64_t work = tni_items_work(it);
  for (int64_t i = 0; i < it->n; i++) order[i] = i;
  for (int64_t width = 1; width < it->n; width *= 2) {
    for (int64_t at = 0; at < it->n; at += 2 * width) {
      const int64_t mid = at + width < it->n ? at + width : it->n, end = mid + width < it->n ? mid + width : it->n;
      int64_t a = at, b = mid;
      for (int64_t k = at; k < end; k++) {
        if (tni_poll_stop(poll, work)) return false;
        const bool left = a < mid && (b >= end || tni_items_compare(it, order[a], order[b]) <= 0);
        room[k] = left ? order[a++] : order[b++];
      }
    }
    memcpy(order, room, (size_t)it->n * sizeof *order);
  }
  return true;
}

int64_t tni_items_count(const tni_items *it, const int64_t *order, tni_poll *poll) {
  const int64_t work = tni_items_work(it);
  int64_t n = it->n > 0;
  for (int64_t i = 1; i < it->n; i++) {
    if (tni_poll_stop(poll, work)) return -1;
    n += tni_items_compare(it, order[i - 1], order[i]) != 0;
  }
  return n;
}
