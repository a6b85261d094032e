/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ops/quant/qproduct.h"

float tni_qfactor(const tni_qproduct *p, int64_t a, int64_t b) {
  if (!p->y_scale) return 1;
  const uint32_t dtype = p->y_scale->dtype;
  const tni_tensor *all[] = {p->a.scale, p->b.scale, p->y_scale};
  float v[3] = {1, 1, 1};
  for (int i = 0; i < 3; i++)
    if (all[i]) tni_tensor_to_f32(all[i], tni_qparam(all[i], i == 0 ? a : b), 1, &v[i]);
  float s = v[0] * v[1];
  uint16_t h;
  for (int i = 0; i < 2; i++) {
    if (i) s /= v[2];
    if (!tni_is_half(dtype)) continue;
    tni_store_f32(dtype, &h, 0, 1, &s);
    tni_load_f32(dtype, &h, 0, 1, &s);
  }
  return s;
}

void tni_qsettle(tni_qproduct *p) {
  const tni_tensor *a = p->a.scale, *b = p->b.scale, *y = p->y_scale;
  if (tni_qis_byte(p->y)) p->to = tni_qto(p->y, tni_qzero(p->y_zero, 0));
  if (!a || !b || !y || a->dtype != TN_DT_F32 || b->dtype != TN_DT_F32 || y->dtype != TN_DT_F32) return;
  if (tni_knumel(a) != 1 || !tni_knumel(b)) return;
  p->b_scale = b->data;
  p->b_many = tni_knumel(b) > 1;
  p->a_scale = *(const f32u *)a->data;
  p->y_one = *(const f32u *)y->data;
}

void tni_qgive(const tni_qproduct *p, const int32_t *sums, const float *scale, int per, int64_t at, int64_t n) {
  if (p->y->dtype == TN_DT_I32)
    memcpy((i32u *)p->y->data + at, sums, (size_t)n * sizeof *sums);
  else
    p->hot->requantize((u8u *)p->y->data + at, sums, scale, per, p->to, n);
}

bool tni_qparams_fit(const tni_tensor *p, int64_t per, int64_t all) {
  const int64_t n = p ? tni_knumel(p) : 1;
  return n == 1 || n == per || n == all;
}

void tni_qcolumns(const tni_dots *dots, const tni_qrows *rows, uint8_t flip, int64_t kc, int64_t ld, int64_t nb,
                  int8_t *dst) {
  uint8_t room[TNI_DOTS_UNIT][TNI_BGEMM_COLS] = {{0}}, none[TNI_BGEMM_COLS];
  memset(none, flip, sizeof none);
  for (int64_t k = 0; k < ld; k += dots->unit) {
    const uint8_t *row[TNI_DOTS_UNIT];
    for (int64_t i = 0; i < dots->unit; i++) row[i] = k + i < kc ? rows->row(rows->ctx, k + i, room[i]) : none;
    for (int64_t n = 0; n < nb; n += TNI_NR) {
      const uint8_t *at[TNI_DOTS_UNIT];
      for (int64_t i = 0; i < dots->unit; i++) at[i] = row[i] + n;
      dots->columns(dst + n * ld + k * TNI_NR, at, flip);
    }
  }
}
