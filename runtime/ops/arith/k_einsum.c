/* SPDX-License-Identifier: Apache-2.0
 *
 * Einsum: every output element is the sum, over all summed labels, of the operands' product. Floats multiply and add in
 * double in ascending order of the summed labels (the last one fastest), integers wrap.
 */
#include "runtime/ops/kernel/kernel.h"
#include "runtime/shape/dims/dims.h"

typedef struct einsum {
  const tni_kargs *a;
  tni_einsum e;
  int64_t dim[TNI_EINSUM_MAX_LABELS];
  int64_t stride[TNI_EINSUM_MAX_IN][TNI_EINSUM_MAX_LABELS]; /* of a label in an operand, in elements; 0: broadcast */
  int64_t terms;                                            /* per output element */
} einsum;

static bool measure_einsum(einsum *s) {
  for (uint32_t l = 0; l < s->e.n_labels; l++) s->dim[l] = 1;
  for (uint32_t i = 0; i < s->e.n_in; i++)
    for (uint32_t d = 0; d < s->e.rank[i]; d++) {
      int64_t *dim = &s->dim[s->e.label[i][d]];
      const int64_t n = s->a->in[i]->dims[d];
      if (*dim == 1) *dim = n;
      if (n != 1 && n != *dim) return false;
    }
  for (uint32_t i = 0; i < s->e.n_in; i++) {
    int64_t st[TN_MAX_RANK];
    tni_kstrides(s->a->in[i], st);
    for (uint32_t d = 0; d < s->e.rank[i]; d++)
      if (s->a->in[i]->dims[d] != 1) s->stride[i][s->e.label[i][d]] += st[d];
  }
  s->terms = 1;
  for (uint32_t l = s->e.n_out; l < s->e.n_labels; l++)
    if (__builtin_mul_overflow(s->terms, s->dim[l], &s->terms)) return false;
  return true;
}

/* The next index of labels [from, to), the last one fastest; off follows it. */
static void advance_index(const einsum *s, uint32_t from, uint32_t to, int64_t *index, int64_t *off) {
  for (uint32_t l = to; l-- > from;) {
    const bool carry = ++index[l] == s->dim[l];
    for (uint32_t i = 0; i < s->e.n_in; i++) off[i] += carry ? s->stride[i][l] * (1 - s->dim[l]) : s->stride[i][l];
    if (!carry) return;
    index[l] = 0;
  }
}

enum { TERM = 4 }; /* elements that a step of the loop over terms takes as long as, about */

static double sum_real(const einsum *s, int64_t *index, int64_t *off, tni_poll *poll) {
  double sum = 0;
  for (int64_t t = 0; t < s->terms && !tni_poll_stop(poll, TERM); t++) {
    double p = tni_get_f64(s->a->in[0], off[0]);
    for (uint32_t i = 1; i < s->e.n_in; i++) p *= tni_get_f64(s->a->in[i], off[i]);
    sum += p;
    advance_index(s, s->e.n_out, s->e.n_labels, index, off);
  }
  return sum;
}

/* Two operands of f32 and one step per term: the inner loop of products of matrices. */
static double sum_f32(const einsum *s, int64_t *index, int64_t *off, tni_poll *poll) {
  const uint32_t last = s->e.n_labels - 1;
  const int64_t n = s->dim[last], sa = s->stride[0][last], sb = s->stride[1][last];
  double sum = 0;
  for (int64_t t = 0; t < s->terms && !tni_poll_stop(poll, n + TERM); t += n) {
    const f32u *x = (const f32u *)s->a->in[0]->data + off[0], *y = (const f32u *)s->a->in[1]->data + off[1];
    for (int64_t k = 0; k < n; k++) sum += (double)x[k * sa] * (double)y[k * sb];
    advance_index(s, s->e.n_out, last, index, off);
  }
  return sum;
}

static uint64_t sum_int(const einsum *s, int64_t *index, int64_t *off, tni_poll *poll) {
  uint64_t sum = 0;
  for (int64_t t = 0; t < s->terms && !tni_poll_stop(poll, TERM); t++) {
    uint64_t p = (uint64_t)tni_get_i64(s->a->in[0], off[0]);
    for (uint32_t i = 1; i < s->e.n_in; i++) p *= (uint64_t)tni_get_i64(s->a->in[i], off[i]);
    sum += p;
    advance_index(s, s->e.n_out, s->e.n_labels, index, off);
  }
  return sum;
}

static void put_int(tni_tensor *y, int64_t i, uint64_t v) {
  switch (y->dtype) {
#define X(DT, U, T, LO, HI)   \
  case TN_DT_##DT:            \
    ((U *)y->data)[i] = (T)v; \
    return;
    TNI_INT_TYPES(X)
#undef X
    default:
      return;
  }
}

static void einsum_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const einsum *s = arg;
  tni_tensor *y = s->a->out[0];
  int64_t index[TNI_EINSUM_MAX_LABELS] = {0}, off[TNI_EINSUM_MAX_IN] = {0};
  const bool real = y->dtype == TN_DT_F32 || y->dtype == TN_DT_F64 || tni_is_half(y->dtype);
  const bool fast = y->dtype == TN_DT_F32 && s->e.n_in == 2 && s->e.n_labels > s->e.n_out;
  int64_t rest = begin;
  tni_poll poll = {s->a->run, TNI_POLL};
  (void)worker;
  for (uint32_t l = s->e.n_out; l-- > 0;) {
    index[l] = rest % s->dim[l];
    rest /= s->dim[l];
    for (uint32_t i = 0; i < s->e.n_in; i++) off[i] += index[l] * s->stride[i][l];
  }
  for (int64_t o = begin; o < end; o++) {
    if (real)
      tni_put_f64(y, o, fast ? sum_f32(s, index, off, &poll) : sum_real(s, index, off, &poll));
    else
      put_int(y, o, sum_int(s, index, off, &poll));
    advance_index(s, 0, s->e.n_out, index, off);
  }
}

tn_status tni_k_einsum(const tni_kargs *a) {
  einsum s = {.a = a};
  uint32_t rank[TNI_EINSUM_MAX_IN];
  if (a->n_in > TNI_EINSUM_MAX_IN) return tni_kfail(a, TN_E_LIMIT, "more than %d operands", TNI_EINSUM_MAX_IN);
  for (uint32_t i = 0; i < a->n_in; i++) {
    if (a->in[i]->dtype != a->in[0]->dtype) return tni_kdtype(a, a->in[i]->dtype);
    rank[i] = a->in[i]->rank;
  }
  const char *why = tni_einsum_read(tni_at_s(a->node, TNI_A_EQUATION, NULL), rank, a->n_in, &s.e);
  if (why) return tni_kfail(a, TN_E_INVALID, "%s", why);
  if (!measure_einsum(&s)) return tni_kfail(a, TN_E_INVALID, "axes of one label have different sizes");
  const int64_t n = tni_knumel(a->out[0]);
  tni_kfor(a->run, n, s.terms < TNI_POLL ? s.terms * 2 * a->n_in + 1 : TNI_POLL, einsum_body, &s);
  return TN_OK;
}
