/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a decoder's signature: what its inputs mean (inputs.h), whether they can be fed, and which output continues
 * which cache.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/lm.h"

size_t tni_lm_elem_bytes(tn_dtype dt) {
  switch (dt) {
    case TN_DT_BOOL:
    case TN_DT_U8:
    case TN_DT_I8:
      return 1;
    case TN_DT_F16:
    case TN_DT_BF16:
      return 2;
    case TN_DT_F32:
    case TN_DT_I32:
      return 4;
    case TN_DT_I64:
      return 8;
    default:
      return 0;
  }
}

static tn_status unsupported_input(const tn_io_info *x, const char *what, tn_error *err) {
  return tni_fail(err, TN_E_UNSUPPORTED, x->name, "%s %s", x->name, what);
}

static bool find_present(tn_model *m, const char *rest, uint32_t *out) {
  for (uint32_t i = 0; i < tn_model_n_outputs(m); i++) {
    const char *r = tni_output_present(tn_model_output(m, i)->name);
    if (!r || strcmp(r, rest) != 0) continue;
    *out = i;
    return true;
  }
  return false;
}

/* The growing axis is the symbolic one that is not the batch. */
static bool find_axis(const tn_io_info *x, const char *batch, uint32_t *axis) {
  uint32_t found = 0, symbolic = 0;
  for (int32_t d = 0; d < x->rank; d++) symbolic += x->dims[d] < 0;
  for (int32_t d = 0; d < x->rank; d++) {
    if (x->dims[d] >= 0) continue;
    const char *name = x->dim_names[d];
    bool is_batch = name && batch ? strcmp(name, batch) == 0 : symbolic > 1 && d == (x->rank == 5 ? 1 : 0);
    if (is_batch) continue;
    *axis = (uint32_t)d;
    found++;
  }
  return found == 1;
}

/* A state of fixed size, which a session that keeps caches carries from step to step. */
static bool is_carried(tn_model *m, const tn_io_info *x, const char *batch) {
  if (!tn_model_has_cache(m) || x->rank < 2) return false;
  for (int32_t d = 0; d < x->rank; d++) {
    const char *name = x->dim_names[d];
    if (x->dims[d] < 0 && !(name && batch ? strcmp(name, batch) == 0 : d == 0)) return false;
  }
  return true;
}

static tn_status read_past(tn_model *m, const tn_io_info *x, const char *batch, tni_in *in, tn_error *err) {
  tn_dtype dt = x->dtype;
  if (is_carried(m, x, batch) && find_present(m, tni_input_past(x->name), &in->present)) return TN_OK;
  if (dt != TN_DT_F32 && dt != TN_DT_F16 && dt != TN_DT_BF16)
    return unsupported_input(x, "is a cache of an unusual type", err);
  if (x->rank < 3 || x->rank > 5) return unsupported_input(x, "is a cache of an unusual rank", err);
  if (!find_axis(x, batch, &in->axis))
    return unsupported_input(x, "has no single symbolic axis that could be the past", err);
  if (!find_present(m, tni_input_past(x->name), &in->present))
    return unsupported_input(x, "has no present output that continues it", err);
  if (tn_model_output(m, in->present)->dtype != dt)
    return unsupported_input(x, "and its present output differ in type", err);
  return TN_OK;
}

static tn_status read_input(tn_model *m, const tn_io_info *x, const char *batch, tni_in *in, tn_error *err) {
  in->info = x;
  in->role = tni_input_named(x->name);
  if (in->role == TNI_INPUT_PAST) return read_past(m, x, batch, in, err);
  if (in->role == TNI_INPUT_SOURCE) return TN_OK; /* source.c */
  if (in->role == TNI_INPUT_OTHER || in->role == TNI_INPUT_TYPES)
    return unsupported_input(x,
                             "is no input of a language model: for images and texts there are tenon classify and "
                             "embed, for any model tenon infer",
                             err);
  bool flag = in->role == TNI_INPUT_USE_CACHE, mask = in->role == TNI_INPUT_MASK || in->role == TNI_INPUT_SOURCE_MASK;
  bool type = x->dtype == TN_DT_I64 || x->dtype == TN_DT_I32;
  if (flag) type = x->dtype == TN_DT_BOOL;
  if (mask) type |= x->dtype == TN_DT_BOOL;
  if (!type) return unsupported_input(x, "has an unusual type", err);
  if (x->rank != tni_input_rank(in->role)) return unsupported_input(x, "has an unusual rank", err);
  if (!flag && x->dims[x->rank - 1] >= 0) return unsupported_input(x, "has a fixed length", err);
  if (x->rank == 2 && x->dims[0] > 1) return unsupported_input(x, "has a fixed batch", err);
  return TN_OK;
}

static tn_status find_logits(tn_model *m, tni_lm_io *io, tn_error *err) {
  uint32_t n = tn_model_n_outputs(m), found = n;
  for (uint32_t i = 0; i < n && found == n; i++)
    if (strcmp(tn_model_output(m, i)->name, "logits") == 0) found = i;
  for (uint32_t i = 0; i < n && found == n; i++)
    if (!tni_output_present(tn_model_output(m, i)->name)) found = i;
  if (found == n) return tni_fail(err, TN_E_UNSUPPORTED, "logits", "the model has no logits output");
  const tn_io_info *x = tn_model_output(m, found);
  if (x->dtype != TN_DT_F32 && x->dtype != TN_DT_F16 && x->dtype != TN_DT_BF16)
    return unsupported_input(x, "has an unusual type for logits", err);
  io->logits = found;
  io->logits_info = x;
  return TN_OK;
}

/* What tells that a graph is half of a model. */
static tn_status refuse_halves(const tn_io_info *x, tn_error *err) {
  if (strcmp(x->name, "inputs_embeds") == 0)
    return tni_fail(
        err, TN_E_UNSUPPORTED, x->name,
        "the model reads inputs_embeds, rows in place of ids, and no embed_tokens.onnx (or one of the model's "
        "own kind, such as embed_tokens_q4.onnx) lies beside it");
  if (strcmp(x->name, "encoder_hidden_states") != 0 && strcmp(x->name, "decoder_input_ids") != 0) return TN_OK;
  return tni_fail(err, TN_E_UNSUPPORTED, x->name,
                  "this decoder of an encoder-decoder model reads '%.60s' in each step. Text is generated by "
                  "decoder_model_merged.onnx, seen to be one decoder, or decoder_with_past_model.onnx, with "
                  "encoder_model.onnx beside it; `tenon infer` runs each graph",
                  x->name);
}

tn_status tni_lm_io_read(tn_model *m, tni_lm_io *io, tn_error *err) {
  uint32_t n = tn_model_n_inputs(m);
  const char *batch = NULL;
  bool ids = false;
  *io = (tni_lm_io){.in = calloc(n ? n : 1, sizeof *io->in), .n_in = n};
  if (!io->in) return tni_fail_memory(err, "inputs");
  for (uint32_t i = 0; i < n; i++) {
    const tn_io_info *x = tn_model_input(m, i);
    if (tni_input_named(x->name) == TNI_INPUT_IDS && x->rank == 2) batch = x->dim_names[0];
  }
  tn_status st = TN_OK;
  for (uint32_t i = 0; i < n && st == TN_OK; i++) st = refuse_halves(tn_model_input(m, i), err);
  for (uint32_t i = 0; i < n && st == TN_OK; i++) {
    st = read_input(m, tn_model_input(m, i), batch, &io->in[i], err);
    ids |= st == TN_OK && io->in[i].role == TNI_INPUT_IDS;
    io->n_past += st == TN_OK && io->in[i].role == TNI_INPUT_PAST;
    io->after_source |= st == TN_OK && io->in[i].role == TNI_INPUT_SOURCE;
  }
  if (st == TN_OK && !ids) st = tni_fail(err, TN_E_UNSUPPORTED, "input_ids", "the model has no input input_ids");
  if (st == TN_OK) st = find_logits(m, io, err);
  if (st != TN_OK) tni_lm_io_finish(io);
  return st;
}

void tni_lm_io_finish(tni_lm_io *io) {
  free(io->in);
  *io = (tni_lm_io){0};
}
