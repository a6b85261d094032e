/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tasks/text.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/llm/llm.h"

/* --- ids ------------------------------------------------------------------------------------------------------------
 */

tn_status tni_text_ids_make(const tni_tokenizer *tok, const char *const *texts, const size_t *len, size_t n,
                            tni_text_ids *out, tn_error *err) {
  *out = (tni_text_ids){calloc(n ? n : 1, sizeof *out->v), n};
  if (!out->v) return tni_fail_memory(err, "texts");
  for (size_t i = 0; i < n; i++) {
    tn_status st = tni_tokenizer_encode(tok, texts[i], len[i], true, &out->v[i], err);
    if (st == TN_OK && !out->v[i].n) st = tni_fail(err, TN_E_INVALID, "text", "it has no tokens");
    if (st != TN_OK) {
      tni_error_prefix(err, "text %zu", i + 1);
      return st;
    }
  }
  return TN_OK;
}

void tni_text_ids_finish(tni_text_ids *t) {
  for (size_t i = 0; t->v && i < t->n; i++) tni_ids_free(&t->v[i]);
  free(t->v);
  *t = (tni_text_ids){0};
}

/* --- inputs ---------------------------------------------------------------------------------------------------------
 */

/* Of texts, or pixels where a name tells nothing. */
static bool role_of(const tn_io_info *x, tni_input *role) {
  const bool whole = x->dtype == TN_DT_I64 || x->dtype == TN_DT_I32 || x->dtype == TN_DT_BOOL;
  *role = tni_input_named(x->name);
  if (whole && x->rank == 2 && (*role == TNI_INPUT_IDS || *role == TNI_INPUT_MASK || *role == TNI_INPUT_TYPES ||
                                *role == TNI_INPUT_POSITIONS))
    return true;
  *role = TNI_INPUT_PIXELS;
  return x->rank == 4 && (x->dtype == TN_DT_F32 || x->dtype == TN_DT_F16 || x->dtype == TN_DT_U8);
}

int tni_feed_find(const tni_feed *f, tni_input role) {
  for (uint32_t i = 0; i < f->n; i++)
    if (f->role[i] == role) return (int)i;
  return -1;
}

tn_status tni_feed_open(const tn_model *m, bool text, bool pixels, tni_feed *f, tn_error *err) {
  *f = (tni_feed){0};
  for (uint32_t i = 0; i < tn_model_n_inputs(m); i++) {
    const tn_io_info *x = tn_model_input(m, i);
    tni_input role;
    const bool known = role_of(x, &role), image = known && role == TNI_INPUT_PIXELS;
    if (!known || i >= TNI_TASK_INPUTS || !(image ? pixels : text) || (image && tni_feed_find(f, role) >= 0))
      return tni_fail(err, TN_E_UNSUPPORTED, x->name, "input %s (%s, rank %d) is not one that this task feeds", x->name,
                      tn_dtype_name(x->dtype), x->rank);
    f->role[i] = role;
    f->t[i] =
        (tn_tensor){.h = {sizeof(tn_tensor), 1, 0}, .name = x->name, .dtype = x->dtype, .rank = (uint32_t)x->rank};
    f->in[i] = &f->t[i];
    f->n = i + 1;
  }
  if (text && tni_feed_find(f, TNI_INPUT_IDS) < 0)
    return tni_fail(err, TN_E_UNSUPPORTED, "model", "it has no input input_ids");
  if (pixels && tni_feed_find(f, TNI_INPUT_PIXELS) < 0)
    return tni_fail(err, TN_E_UNSUPPORTED, "model", "it has no input of pixels (rank 4)");
  return TN_OK;
}

void tni_feed_close(tni_feed *f) {
  for (uint32_t i = 0; i < f->n; i++) free((void *)f->t[i].data);
  *f = (tni_feed){0};
}

int64_t tni_feed_fixed(const tn_model *m, const tni_feed *f, tni_input role, uint32_t axis) {
  const int at = tni_feed_find(f, role);
  const tn_io_info *x = at < 0 ? NULL : tn_model_input(m, (uint32_t)at);
  return x && x->rank > (int32_t)axis && x->dims[axis] > 0 ? x->dims[axis] : 0;
}

/* One row of a role: n tokens, then padding up to len. */
static void put_row(tni_input role, void *dst, tn_dtype dt, const tni_ids *ids, size_t len, int32_t pad) {
  const size_t size = tni_lm_elem_bytes(dt), n = ids->n;
  for (size_t k = 0; k < len; k++) {
    const int64_t v = role == TNI_INPUT_IDS         ? (k < n ? ids->v[k] : pad)
                      : role == TNI_INPUT_MASK      ? k < n
                      : role == TNI_INPUT_POSITIONS ? (int64_t)k
                                                   : 0;
    tni_put_ints((char *)dst + k * size, dt, 1, NULL, v);
  }
}

static tn_status length_of(const tni_feed *f, const tn_model *m, const tni_text_ids *ids, const size_t *order, size_t n,
                           size_t *len, tn_error *err) {
  const int at = tni_feed_find(f, TNI_INPUT_IDS);
  const tn_io_info *x = tn_model_input(m, (uint32_t)at);
  *len = 0;
  for (size_t i = 0; i < n; i++)
    if (ids->v[order[i]].n > *len) *len = ids->v[order[i]].n;
  if (x->dims[0] > 0 && (size_t)x->dims[0] != n)
    return tni_fail(err, TN_E_UNSUPPORTED, x->name, "the model takes %lld texts at once, not %zu",
                    (long long)x->dims[0], n);
  if (x->dims[1] > 0 && (size_t)x->dims[1] < *len)
    return tni_fail(err, TN_E_LIMIT, x->name, "%zu tokens, and the model takes %lld", *len, (long long)x->dims[1]);
  if (x->dims[1] > 0) *len = (size_t)x->dims[1];
  return TN_OK;
}

tn_status tni_feed_text(tni_feed *f, const tn_model *m, const tni_text_ids *ids, const size_t *order, size_t n,
                        int32_t pad, tn_error *err) {
  size_t len;
  tn_status st = length_of(f, m, ids, order, n, &len, err);
  for (uint32_t i = 0; i < f->n && st == TN_OK; i++) {
    tn_tensor *t = &f->t[i];
    size_t bytes;
    if (f->role[i] == TNI_INPUT_PIXELS) continue;
    const size_t row = len * tni_lm_elem_bytes(t->dtype);
    if (!tni_mul_size(n, row, &bytes)) return tni_fail_memory(err, t->name);
    free((void *)t->data);
    char *p = malloc(bytes ? bytes : 1);
    t->data = p;
    t->bytes = bytes;
    t->dims[0] = (int64_t)n;
    t->dims[1] = (int64_t)len;
    if (!p) return tni_fail_memory(err, t->name);
    for (size_t r = 0; r < n; r++) put_row(f->role[i], p + r * row, t->dtype, &ids->v[order[r]], len, pad);
  }
  return st;
}

/* --- outputs --------------------------------------------------------------------------------------------------------
 */

tn_status tni_task_floats(const tn_tensor *t, float **out, size_t *n, tn_error *err) {
  size_t count = 1;
  for (uint32_t d = 0; d < t->rank; d++)
    if (!tni_mul_size(count, (size_t)t->dims[d], &count)) return tni_fail_memory(err, t->name);
  if (t->dtype != TN_DT_F32 && t->dtype != TN_DT_F16 && t->dtype != TN_DT_BF16 && t->dtype != TN_DT_F64)
    return tni_fail(err, TN_E_UNSUPPORTED, t->name, "output %s is %s", t->name, tn_dtype_name(t->dtype));
  float *v = count > SIZE_MAX / sizeof *v ? NULL : malloc((count ? count : 1) * sizeof *v);
  if (!v) return tni_fail_memory(err, t->name);
  const uint16_t *h = t->data;
  for (size_t i = 0; i < count; i++)
    v[i] = t->dtype == TN_DT_F32   ? ((const float *)t->data)[i]
           : t->dtype == TN_DT_F64 ? (float)((const double *)t->data)[i]
           : t->dtype == TN_DT_F16 ? tni_f16_to_f32(h[i])
                                   : tni_bf16_to_f32(h[i]);
  *out = v;
  *n = count;
  return TN_OK;
}
