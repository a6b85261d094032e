/* SPDX-License-Identifier: Apache-2.0
 *
 * A decoder merged of two, one with past inputs and one without, becomes the first where that is seen to compute what
 * the second does when its past is empty. For this both are imported and folded.
 */
#include "runtime/session/model_import.h"

#include <string.h>

#include "runtime/ops/kernel/kernel.h"
#include "runtime/passes/decoder/decoder.h"

static bool has_input(const tni_graph *g, const char *name) {
  for (uint32_t i = 0; i < g->n_inputs; i++)
    if (strcmp(g->values[g->inputs[i]]->pub.name, name) == 0) return true;
  return false;
}

/* The file, and the table of embeddings beside it where it reads rows in place of ids. */
static tn_status import_whole(tn_model *m, tni_model **out, tn_error *err) {
  const tni_import_limits lim = {.copy = m->rt->profile->copy_files};
  tn_status st = tni_import_file(m->path, &lim, &m->rt->log, out, err);
  if (st != TN_OK || !m->embed || !(m->flags & TN_MODEL_DECODER)) return st;
  if (!has_input((*out)->graph, "inputs_embeds") || has_input((*out)->graph, "input_ids")) return TN_OK;
  return tni_model_join(*out, "inputs_embeds", m->embed, &lim, &m->rt->log, err);
}

/* One branch alone, folded; *out NULL: the model has no branches to choose from. Destroy it in every case. */
static tn_status import_branch(tn_model *m, bool past, tni_model **out, tn_error *err) {
  static const char *const kept[] = {"fold", "branch", "identity", "cse", "lift", "dce"};
  const char *off[TNI_PASSES_MAX];
  tni_passes_options opt = {.disabled = off};
  bool there = false;
  for (uint32_t i = 0; tni_pass_name(i, NULL); i++) {
    bool keep = false;
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) keep |= strcmp(kept[k], tni_pass_name(i, NULL)) == 0;
    if (!keep) off[opt.n_disabled++] = tni_pass_name(i, NULL);
  }
  tn_status st = import_whole(m, out, err);
  if (st == TN_OK) st = tni_choose_cache((*out)->graph, past, &there, err);
  if (st != TN_OK) return st;
  if (!there) {
    tni_model_destroy(*out);
    *out = NULL;
    return TN_OK;
  }
  st = tni_choose_logits((*out)->graph, err);
  tni_pool_run run;
  tni_pool_run_init(&run, m->rt->pool, &m->rt->cancel);
  return st == TN_OK ? tni_passes_run((*out)->graph, &opt, tni_ops_eval, &run.run, NULL, err) : st;
}

/* *out NULL: not two decoders, or not seen to be one. */
static tn_status import_merged(tn_model *m, tni_model **out, tn_error *err) {
  tni_model *without = NULL;
  bool same = false;
  char why[200] = "";
  tn_status st = import_branch(m, true, out, err);
  if (st == TN_OK && *out) st = import_branch(m, false, &without, err);
  if (st == TN_OK && without) st = tni_same_decoder((*out)->graph, without->graph, &same, why, sizeof why, err);
  if (st == TN_OK && without && !same)
    tni_log_line(&m->rt->log, TN_LOG_WARN,
                 "'%s' stays two decoders behind use_cache_branch, without plugins and caches in place: %s", m->name,
                 why);
  tni_model_destroy(without);
  tni_model_destroy(*out);
  *out = NULL;
  if (!same || st != TN_OK) return st;
  st = import_whole(m, out, err); /* passes want to see it as it was written */
  return st == TN_OK ? tni_choose_cache((*out)->graph, true, &same, err) : st;
}

tn_status tni_model_import(tn_model *m, tn_error *err) {
  const bool decoder = (m->flags & TN_MODEL_DECODER) && !(m->flags & TN_MODEL_UNREAD);
  tn_status st = decoder ? import_merged(m, &m->import, err) : TN_OK;
  if (st == TN_OK && !m->import) st = import_whole(m, &m->import, err);
  return st == TN_OK && decoder ? tni_choose_logits(m->import->graph, err) : st;
}
