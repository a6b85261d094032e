/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows and MelWeightMatrix: tables that a size makes. Computed in double.
 */
#include <math.h>

#include "runtime/ops/kernel/kernel.h"

#define PI 3.14159265358979323846

/* A periodic window of n is the first n of a symmetric one of n + 1. One element alone is 1. */
tn_status tni_k_window(const tni_kargs *a) {
  tni_tensor *y = a->out[0];
  const int64_t n = tni_knumel(y), period = tni_at_i(a->node, TNI_A_PERIODIC, 1) ? n : n - 1;
  tni_poll poll = {a->run, TNI_POLL};
  for (int64_t i = 0; i < n && !tni_poll_stop(&poll, 8); i++) {
    const double x = period > 0 ? 2 * PI * (double)i / (double)period : PI;
    double v = 0.5 - 0.5 * cos(x);
    if (a->node->op == TN_OP_HAMMING_WINDOW) v = 25.0 / 46 - 21.0 / 46 * cos(x);
    if (a->node->op == TN_OP_BLACKMAN_WINDOW) v = 0.42 - 0.5 * cos(x) + 0.08 * cos(2 * x);
    tni_put_f64(y, i, v);
  }
  return TN_OK;
}

#define LN10 2.30258509299404568402

static double mel_of_hertz(double hertz) { return 2595 * log1p(hertz / 700) / LN10; }
static double hertz_of_mel(double m) { return 700 * expm1(m / 2595 * LN10); }

/* Triangles between neighbours of num_mel_bins + 2 points, spread evenly on the mel scale and put on the spectrogram's
 * bins: bin = floor((dft_length + 1) * hertz / sample_rate). Both sides of a triangle reach 1 at its middle; a side
 * without width is the middle alone. Source: ONNX MelWeightMatrix-17 and its test cases. */
tn_status tni_k_mel_weight_matrix(const tni_kargs *a) {
  tni_tensor *y = a->out[0];
  for (uint32_t i = 0; i < 5; i++)
    if (tni_knumel(a->in[i]) != 1) return tni_kfail(a, TN_E_INVALID, "input %u is not one element", i);
  const int64_t bins = y->dims[1], rows = y->dims[0], length = tni_get_i64(a->in[1], 0),
                rate = tni_get_i64(a->in[2], 0);
  const double low = mel_of_hertz(tni_get_f64(a->in[3], 0)), high = mel_of_hertz(tni_get_f64(a->in[4], 0));
  if (rate <= 0 || !isfinite(low) || !isfinite(high))
    return tni_kfail(a, TN_E_INVALID, "sample_rate or an edge is out of range");
  tni_poll poll = {a->run, TNI_POLL};
  memset(y->data, 0, (size_t)y->bytes); /* all floats' and integers' zero */
  const double step = (high - low) / (double)(bins + 2);
  for (int64_t m = 0; m < bins && !tni_poll_stop(&poll, 8); m++) {
    int64_t at[3];
    for (int k = 0; k < 3; k++) {
      const double bin = floor((double)(length + 1) * hertz_of_mel((double)(m + k) * step + low) / (double)rate);
      at[k] = (int64_t)fmax(-0x1p40, fmin(0x1p40, bin));
    }
    if (at[1] == at[0] && at[1] >= 0 && at[1] < rows) tni_put_f64(y, at[1] * bins + m, 1);
    for (int64_t f = at[0] < 0 ? 0 : at[0]; at[1] > at[0] && f <= at[1] && f < rows && !tni_poll_stop(&poll, 2); f++)
      tni_put_f64(y, f * bins + m, (double)(f - at[0]) / (double)(at[1] - at[0]));
    for (int64_t f = at[1] < 0 ? 0 : at[1]; at[2] > at[1] && f < at[2] && f < rows && !tni_poll_stop(&poll, 2); f++)
      tni_put_f64(y, f * bins + m, (double)(at[2] - f) / (double)(at[2] - at[1]));
  }
  return TN_OK;
}
