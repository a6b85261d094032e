/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoders of encoder-decoders. What their attention to the encoder's output reads, keys and values of it, does not
 * change from step to step: the decoder without a past computes it (present.N.encoder.key), the one with a past reads
 * it (past_key_values.N.encoder.key). Known by their names, as Optimum writes them.
 */
#include <string.h>

#include "runtime/passes/build/build.h"
#include "runtime/passes/decoder/decoder.h"

/* "0.encoder.key" of "past_key_values.0.encoder.key"; NULL: another name. */
static const char *cross_after(const char *name, const char *const words[2]) {
  for (int i = 0; i < 2; i++) {
    const size_t n = strlen(words[i]);
    if (strncmp(name, words[i], n) == 0) return name[n] == '.' && strstr(name + n, ".encoder.") ? name + n + 1 : NULL;
  }
  return NULL;
}

static const char *cross_past(const tni_value *v) {
  static const char *const words[2] = {"past_key_values", "past"};
  return cross_after(v->pub.name, words);
}

static const char *cross_present(const tni_value *v) {
  static const char *const words[2] = {"present_key_values", "present"};
  return cross_after(v->pub.name, words);
}

bool tni_cross_there(const tni_graph *g) {
  for (uint32_t i = 0; i < g->n_inputs; i++)
    if (cross_past(g->values[g->inputs[i]])) return true;
  return false;
}

tn_id tni_cross_made(const tni_graph *without, const tni_value *past) {
  const char *what = cross_past(past);
  for (uint32_t i = 0; what && i < without->n_outputs; i++) {
    const char *made = cross_present(without->values[without->outputs[i]]);
    if (made && strcmp(made, what) == 0) return without->outputs[i];
  }
  return TN_NONE;
}

/* How long the encoder's output is, as the mask over it has it. */
static tn_expr source_length(const tni_graph *g) {
  const tn_id mask = tni_graph_find(g, "encoder_attention_mask");
  return mask != TN_NONE && g->values[mask]->pub.rank == 2 ? g->values[mask]->pub.dims[1] : TNI_EXPR_NONE;
}

tn_status tni_cross_one_position(tni_graph *g, tn_error *err) {
  const tn_expr one = tni_ex_const(g->exprs, 1), none = tni_ex_const(g->exprs, 0), length = source_length(g);
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const tni_value *v = g->values[g->inputs[i]];
    tn_expr dims[TN_MAX_RANK];
    if (v->pub.rank < 2 || v->pub.rank > TN_MAX_RANK) continue;
    memcpy(dims, v->pub.dims, v->pub.rank * sizeof *dims);
    dims[0] = one;
    if (strcmp(v->pub.name, "input_ids") == 0) dims[1] = one;
    if (strncmp(v->pub.name, "past", 4) == 0 && v->pub.rank == 4 && (length != TNI_EXPR_NONE || !cross_past(v)))
      dims[2] = cross_past(v) ? length : none;
    if (tni_value_set_dims(g, g->inputs[i], v->pub.rank, dims) != TN_OK) return tni_fail_memory(err, g->name);
  }
  return TN_OK;
}

/* Outputs that keep the caches of the encoder (`cross`), or the others. */
static tn_status keep_outputs(tni_graph *g, bool cross, tn_error *err) {
  tn_id *kept = TNI_NEW_ARRAY(g->arena, tn_id, g->n_outputs + 1);
  uint32_t n = 0;
  if (!kept) return tni_fail_memory(err, g->name);
  for (uint32_t i = 0; i < g->n_outputs; i++)
    if ((cross_present(g->values[g->outputs[i]]) != NULL) == cross) kept[n++] = g->outputs[i];
  if (tni_graph_set_io(g, g->inputs, g->n_inputs, kept, n) != TN_OK) return tni_fail_memory(err, g->name);
  return tni_graph_finish(g, err);
}

tn_status tni_cross_leave(tni_graph *g, tn_error *err) { return keep_outputs(g, false, err); }

tn_status tni_cross_unread(tni_graph *g, tn_error *err) {
  const tn_id v = tni_graph_find(g, "encoder_hidden_states");
  tn_id *read = TNI_NEW_ARRAY(g->arena, tn_id, g->n_inputs + 1);
  uint32_t n = 0;
  if (!read) return tni_fail_memory(err, g->name);
  if (v == TN_NONE || g->values[v]->pub.n_uses || !tni_cross_there(g)) return TN_OK;
  for (uint32_t i = 0; i < g->n_inputs; i++)
    if (g->inputs[i] != v) read[n++] = g->inputs[i];
  const tn_status st = tni_graph_set_io(g, read, n, g->outputs, g->n_outputs);
  return st == TN_OK ? tni_graph_finish(g, err) : tni_fail_memory(err, g->name);
}

tn_status tni_cross_only(tni_graph *g, tn_error *err) {
  tn_id *read = TNI_NEW_ARRAY(g->arena, tn_id, g->n_inputs + 1);
  uint32_t n = 0;
  tn_status st = read ? keep_outputs(g, true, err) : tni_fail_memory(err, g->name);
  if (st != TN_OK) return st;
  (void)tni_graph_dce(g);
  for (uint32_t i = 0; i < g->n_inputs; i++)
    if (g->values[g->inputs[i]]->pub.n_uses) read[n++] = g->inputs[i];
  st = tni_graph_set_io(g, read, n, g->outputs, g->n_outputs);
  return st == TN_OK ? tni_graph_compact(g, err) : tni_fail_memory(err, g->name);
}
