/* SPDX-License-Identifier: Apache-2.0
 *
 * DFT and STFT. Samples become double complex numbers, missing ones zero; fft.h transforms them.
 */
#include "runtime/ops/arith/fft.h"
#include "runtime/ops/kernel/kernel.h"

/* n samples of one transform each. */
typedef struct dft {
  const tn_run *run;
  const tni_tensor *x, *window; /* window: of an STFT, or NULL */
  tni_tensor *y;
  int64_t n, have, keep; /* transformed; of them in the input; written */
  int64_t dim, inner;    /* input's axis; distance of samples in complex numbers, on both sides */
  int64_t frames, step;  /* STFT */
  uint32_t parts_in, parts_out;
  bool inverse, mirrored; /* mirrored: the input is one half of a symmetric spectrum */
  tni_complex *root, *room;
} dft;

/* Roots, and three lines per worker. */
uint64_t tni_dft_scratch(const tn_node *node, const tni_tensor *out, uint32_t n_workers) {
  uint64_t n = 0, bytes;
  if (!out || !out->rank) return 0;
  for (uint32_t d = node->op == TN_OP_STFT ? 2 : 0; d + 1 < out->rank; d++) /* a DFT's axis may be known later */
    if ((uint64_t)out->dims[d] > n) n = (uint64_t)out->dims[d];
  if (tni_at_i(node, TNI_A_ONESIDED, node->op == TN_OP_STFT) && __builtin_mul_overflow(n, 2, &n)) return UINT64_MAX;
  if (__builtin_mul_overflow(n, 1 + 3 * (uint64_t)(n_workers ? n_workers : 1), &bytes) ||
      __builtin_mul_overflow(bytes, sizeof(tni_complex), &bytes))
    return UINT64_MAX;
  return bytes;
}

/* Sample `at`, counted in complex numbers from the start of the tensor. */
static tni_complex dft_sample(const dft *d, int64_t at) {
  tni_complex c = {tni_get_f64(d->x, at * d->parts_in), 0};
  if (d->parts_in == 2) c.im = tni_get_f64(d->x, at * 2 + 1);
  return c;
}

static void dft_store(const dft *d, int64_t at, tni_complex c) {
  const double scale = d->inverse ? (double)d->n : 1;
  tni_put_f64(d->y, at * d->parts_out, c.re / scale);
  if (d->parts_out == 2) tni_put_f64(d->y, at * 2 + 1, c.im / scale);
}

static void load_line(const dft *d, int64_t first, int64_t step, tni_complex *x, tni_poll *poll) {
  for (int64_t i = 0; i < d->n && !tni_poll_stop(poll, 4); i++) {
    x[i] = (tni_complex){0, 0};
    if (i < d->have) {
      x[i] = dft_sample(d, first + i * step);
    } else if (d->mirrored && d->n - i < d->have) {
      x[i] = dft_sample(d, first + (d->n - i) * step);
      x[i].im = -x[i].im;
    }
    if (d->window) {
      const double w = tni_get_f64(d->window, i);
      x[i] = (tni_complex){x[i].re * w, x[i].im * w};
    }
  }
}

static void dft_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const dft *d = arg;
  tni_complex *x = d->room + (int64_t)worker * 3 * d->n, *y = x + d->n, *room = y + d->n;
  const int64_t length = d->x->dims[1];
  tni_poll poll = {d->run, TNI_POLL};
  for (int64_t i = begin; i < end; i++) {
    int64_t from, to;
    if (d->frames) {
      from = i / d->frames * length + i % d->frames * d->step;
      to = i * d->keep;
    } else {
      from = i / d->inner * d->dim * d->inner + i % d->inner;
      to = i / d->inner * d->keep * d->inner + i % d->inner;
    }
    load_line(d, from, d->inner, x, &poll);
    tni_fft(d->root, d->n, x, y, room, &poll);
    for (int64_t k = 0; k < d->keep && !tni_poll_stop(&poll, 4); k++) dft_store(d, to + k * d->inner, y[k]);
  }
}

static tn_status transform_lines(const tni_kargs *a, dft *d, int64_t lines) {
  const uint64_t have = tni_dft_scratch(a->node, d->y, a->run->n_workers);
  if ((uint64_t)d->n > have / sizeof(tni_complex) / (1 + 3 * (uint64_t)a->run->n_workers))
    return tni_kfail(a, TN_E_INTERNAL, "a transform of %lld does not fit the scratch", (long long)d->n);
  tni_poll poll = {a->run, TNI_POLL};
  d->run = a->run;
  d->root = a->scratch;
  d->room = d->root + d->n;
  tni_fft_roots(d->root, d->n, d->inverse, &poll);
  tni_kfor(a->run, lines, d->n * 64, dft_body, d);
  return TN_OK;
}

/* Elements of the last axis: 1, or 2 with an imaginary part. */
static tn_status read_parts(const tni_kargs *a, const tni_tensor *x, uint32_t *parts) {
  const int64_t n = x->dims[x->rank - 1];
  if (n != 1 && n != 2) return tni_kfail(a, TN_E_INVALID, "the last axis is %lld, not 1 or 2", (long long)n);
  *parts = (uint32_t)n;
  return TN_OK;
}

tn_status tni_k_dft(const tni_kargs *a) {
  const tni_tensor *length = a->n_in > 1 ? a->in[1] : NULL, *axis_in = a->n_in > 2 ? a->in[2] : NULL;
  const bool one = tni_at_i(a->node, TNI_A_ONESIDED, 0) != 0;
  dft d = {.x = a->in[0], .y = a->out[0], .inverse = tni_at_i(a->node, TNI_A_INVERSE, 0) != 0};
  const uint32_t rank = d.x->rank;
  if (rank < 2 || (length && tni_knumel(length) != 1) || (axis_in && tni_knumel(axis_in) != 1))
    return tni_kfail(a, TN_E_INVALID, "DFT: rank, length or axis");
  const int32_t axis = tni_kaxis(axis_in ? tni_get_i64(axis_in, 0) : -2, rank);
  if (axis < 0 || axis + 1 == (int32_t)rank) return tni_kfail(a, TN_E_INVALID, "DFT: axis out of range");
  tn_status st = read_parts(a, d.x, &d.parts_in);
  if (st) return st;
  if (one && (d.inverse ? d.parts_in != 2 : d.parts_in != 1))
    return tni_kfail(a, TN_E_INVALID, "DFT: one side is of real signals only");
  const int64_t dim = d.dim = d.x->dims[axis];
  d.n = length ? tni_get_i64(length, 0) : one && d.inverse ? 2 * (dim - 1) : dim;
  d.keep = d.y->dims[axis];
  d.parts_out = one && d.inverse ? 1 : 2;
  d.mirrored = one && d.inverse;
  if (d.n < 0 || d.keep != (one && !d.inverse ? d.n / 2 + 1 : d.n))
    return tni_kfail(a, TN_E_INVALID, "DFT: a length of %lld does not fit the output", (long long)d.n);
  d.have = d.mirrored ? (dim < d.n / 2 + 1 ? dim : d.n / 2 + 1) : dim < d.n ? dim : d.n;
  d.inner = tni_dim_product(d.x, (uint32_t)axis + 1, rank - 1);
  const int64_t lines = tni_dim_product(d.x, 0, (uint32_t)axis) * d.inner;
  if (!lines || !d.n) {
    if (d.y->bytes) memset(d.y->data, 0, (size_t)d.y->bytes);
    return TN_OK;
  }
  return transform_lines(a, &d, lines);
}

tn_status tni_k_stft(const tni_kargs *a) {
  const tni_tensor *step = a->in[1], *length = a->n_in > 3 ? a->in[3] : NULL;
  dft d = {.x = a->in[0],
           .y = a->out[0],
           .window = a->n_in > 2 ? a->in[2] : NULL,
           .inner = 1,
           .parts_in = 1,
           .parts_out = 2};
  if (tni_knumel(step) != 1 || (length && tni_knumel(length) != 1) || d.x->rank < 2 || d.x->rank > 3)
    return tni_kfail(a, TN_E_INVALID, "STFT: the signal's rank, frame_step or frame_length");
  tn_status st = d.x->rank == 3 ? read_parts(a, d.x, &d.parts_in) : TN_OK;
  if (st) return st;
  d.n = length ? tni_get_i64(length, 0) : d.window ? tni_knumel(d.window) : d.x->dims[1];
  d.step = tni_get_i64(step, 0);
  d.have = d.n;
  d.frames = d.y->dims[1];
  d.keep = d.y->dims[2];
  if (d.window && tni_knumel(d.window) != d.n)
    return tni_kfail(a, TN_E_INVALID, "STFT: the window has not the frame's length %lld", (long long)d.n);
  if (d.n < 1 || d.step < 1 || d.keep != (tni_at_i(a->node, TNI_A_ONESIDED, 1) ? d.n / 2 + 1 : d.n))
    return tni_kfail(a, TN_E_INVALID, "STFT: frames of %lld every %lld", (long long)d.n, (long long)d.step);
  if (d.frames && (d.frames - 1) * d.step + d.n > d.x->dims[1])
    return tni_kfail(a, TN_E_INVALID, "STFT: %lld frames do not fit the signal", (long long)d.frames);
  const int64_t lines = d.x->dims[0] * d.frames;
  return lines ? transform_lines(a, &d, lines) : TN_OK;
}
