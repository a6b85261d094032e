/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a decoder's signature. Exporters agree on input_ids, attention_mask and position_ids; caches are named
 * past_key_values.N.key / present.N.key (Optimum), past_key_values.N.key / present_key_values.N.key, past_N / present_N
 * and past_key_N / present_key_N (ONNX Runtime): what follows the word is the same on both sides.
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

static tn_status unsupported(const tn_io_info *x, const char *what, tn_error *err) {
  return tni_fail(err, TN_E_UNSUPPORTED, x->name, "%s %s", x->name, what);
}

/* What follows the longest of the words that name starts with; NULL: none. */
static const char *after(const char *name, const char *const *words) {
  for (; *words; words++) {
    size_t n = strlen(*words);
    if (strncmp(name, *words, n) == 0) return name + n;
  }
  return NULL;
}

static const char *past_rest(const char *name) {
  static const char *const words[] = {"past_key_values", "past", NULL};
  return after(name, words);
}

static const char *present_rest(const char *name) {
  static const char *const words[] = {"present_key_values", "present", NULL};
  return after(name, words);
}

static bool find_present(tn_model *m, const char *rest, uint32_t *out) {
  for (uint32_t i = 0; i < tn_model_n_outputs(m); i++) {
    const char *r = present_rest(tn_model_output(m, i)->name);
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

static tn_status read_past(tn_model *m, const tn_io_info *x, const char *batch, tni_in *in, tn_error *err) {
  tn_dtype dt = x->dtype;
  if (dt != TN_DT_F32 && dt != TN_DT_F16 && dt != TN_DT_BF16)
    return unsupported(x, "is a cache of an unusual type", err);
  if (x->rank < 3 || x->rank > 5) return unsupported(x, "is a cache of an unusual rank", err);
  if (!find_axis(x, batch, &in->axis)) return unsupported(x, "has no single symbolic axis that could be the past", err);
  if (!find_present(m, past_rest(x->name), &in->present))
    return unsupported(x, "has no present output that continues it", err);
  if (tn_model_output(m, in->present)->dtype != dt) return unsupported(x, "and its present output differ in type", err);
  in->role = TNI_ROLE_PAST;
  return TN_OK;
}

static const struct {
  const char *name;
  tni_role role;
  int32_t rank;
} known[] = {{"input_ids", TNI_ROLE_IDS, 2},
             {"attention_mask", TNI_ROLE_MASK, 2},
             {"position_ids", TNI_ROLE_POSITIONS, 2},
             {"cache_position", TNI_ROLE_CACHE_POSITION, 1},
             {"use_cache_branch", TNI_ROLE_USE_CACHE, 1}};

static tn_status read_input(tn_model *m, const tn_io_info *x, const char *batch, tni_in *in, tn_error *err) {
  in->info = x;
  if (past_rest(x->name)) return read_past(m, x, batch, in, err);
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    if (strcmp(x->name, known[k].name) != 0) continue;
    bool flag = known[k].role == TNI_ROLE_USE_CACHE, mask = known[k].role == TNI_ROLE_MASK;
    bool type = x->dtype == TN_DT_I64 || x->dtype == TN_DT_I32;
    if (flag) type = x->dtype == TN_DT_BOOL;
    if (mask) type |= x->dtype == TN_DT_BOOL;
    if (!type) return unsupported(x, "has an unusual type", err);
    if (x->rank != known[k].rank) return unsupported(x, "has an unusual rank", err);
    if (!flag && x->dims[x->rank - 1] >= 0) return unsupported(x, "has a fixed length", err);
    if (x->rank == 2 && x->dims[0] > 1) return unsupported(x, "has a fixed batch", err);
    in->role = known[k].role;
    return TN_OK;
  }
  return unsupported(x, "is an input that a language model does not have", err);
}

static tn_status find_logits(tn_model *m, tni_lm_io *io, tn_error *err) {
  uint32_t n = tn_model_n_outputs(m), found = n;
  for (uint32_t i = 0; i < n && found == n; i++)
    if (strcmp(tn_model_output(m, i)->name, "logits") == 0) found = i;
  for (uint32_t i = 0; i < n && found == n; i++)
    if (!present_rest(tn_model_output(m, i)->name)) found = i;
  if (found == n) return tni_fail(err, TN_E_UNSUPPORTED, "logits", "the model has no logits output");
  const tn_io_info *x = tn_model_output(m, found);
  if (x->dtype != TN_DT_F32 && x->dtype != TN_DT_F16 && x->dtype != TN_DT_BF16)
    return unsupported(x, "has an unusual type for logits", err);
  io->logits = found;
  io->logits_info = x;
  return TN_OK;
}

tn_status tni_lm_io_read(tn_model *m, tni_lm_io *io, tn_error *err) {
  uint32_t n = tn_model_n_inputs(m);
  const char *batch = NULL;
  bool ids = false;
  *io = (tni_lm_io){.in = calloc(n ? n : 1, sizeof *io->in), .n_in = n};
  if (!io->in) return tni_fail_memory(err, "inputs");
  for (uint32_t i = 0; i < n; i++) {
    const tn_io_info *x = tn_model_input(m, i);
    if (strcmp(x->name, "input_ids") == 0 && x->rank == 2) batch = x->dim_names[0];
  }
  tn_status st = TN_OK;
  for (uint32_t i = 0; i < n && st == TN_OK; i++) {
    st = read_input(m, tn_model_input(m, i), batch, &io->in[i], err);
    ids |= st == TN_OK && io->in[i].role == TNI_ROLE_IDS;
    io->n_past += st == TN_OK && io->in[i].role == TNI_ROLE_PAST;
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
