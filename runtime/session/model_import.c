/* SPDX-License-Identifier: Apache-2.0
 *
 * A decoder that exporters wrote twice, with past inputs and without, becomes the first where that is seen to compute
 * what the second does when its past is empty. For this both are imported and folded. The two are branches of one
 * file, or files: a decoder after an encoder is looked at so when what comes before it is asked for, the encoder and
 * what the decoder without past makes of its output once.
 */
#include "runtime/session/model_import.h"

#include <string.h>
#include <sys/stat.h>

#include "runtime/ops/kernel/kernel.h"
#include "runtime/passes/decoder/decoder.h"

static bool has_input(const tni_graph *g, const char *name) {
  for (uint32_t i = 0; i < g->n_inputs; i++)
    if (strcmp(g->values[g->inputs[i]]->pub.name, name) == 0) return true;
  return false;
}

static tni_import_limits limits_of(tn_model *m) {
  return (tni_import_limits){.copy = m->rt->profile->copy_files,
                             .budget = &m->budget,
                             .overridable = m->overridable,
                             .n_overridable = m->n_overridable,
                             .nchwc_block = (uint32_t)m->rt->profile->nchwc_block};
}

/* The file, and the table of embeddings beside it where it reads rows in place of ids. */
static tn_status import_whole(tn_model *m, tni_model **out, tn_error *err) {
  const tni_import_limits lim = limits_of(m);
  tn_status st = tni_import_file(m->path, &lim, &m->rt->log, out, err);
  if (st != TN_OK || !m->embed || !(m->flags & TN_MODEL_DECODER)) return st;
  if (!has_input((*out)->graph, "inputs_embeds") || has_input((*out)->graph, "input_ids")) return TN_OK;
  return tni_model_join(*out, "inputs_embeds", m->embed, false, &lim, &m->rt->log, err);
}

/* Passes that bring one decoder out of two and leave its nodes as they are. */
static tn_status fold_alone(tn_model *m, tni_graph *g, tn_error *err) {
  static const char *const kept[] = {"fold", "branch", "identity", "cse", "lift", "dce"};
  const char *off[TNI_PASSES_MAX];
  tni_passes_options opt = {.disabled = off};
  for (uint32_t i = 0; tni_pass_name(i, NULL); i++) {
    bool keep = false;
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) keep |= strcmp(kept[k], tni_pass_name(i, NULL)) == 0;
    if (!keep) off[opt.n_disabled++] = tni_pass_name(i, NULL);
  }
  tni_pool_run run;
  tni_pool_run_init(&run, m->rt->pool, &m->rt->cancel);
  run.budget = &m->budget;
  return tni_passes_run(g, &opt, tni_ops_eval, &run.run, NULL, err);
}

/* One of the two as a file has it; *two false: there are not two, and *out is the whole. Destroy it in every case. */
static tn_status import_one_of_two(tn_model *m, bool past, tni_model **out, bool *two, tn_error *err) {
  const tni_import_limits lim = limits_of(m);
  tn_status st = import_whole(m, out, err);
  if (st == TN_OK) st = tni_choose_cache((*out)->graph, past, two, err);
  if (st != TN_OK || *two) return st;
  *two = m->first && tni_cross_there((*out)->graph) && (m->flags & TN_MODEL_SOURCE);
  if (!*two || past) return TN_OK;
  tni_model_destroy(*out);
  *out = NULL;
  return tni_import_file(m->first, &lim, &m->rt->log, out, err);
}

/* The same, folded; *out NULL: there are not two. after: it stands after an encoder, and is looked at with one position. */
static tn_status import_branch(tn_model *m, bool past, bool after, tni_model **out, tn_error *err) {
  bool two = false;
  tn_status st = import_one_of_two(m, past, out, &two, err);
  if (st != TN_OK) return st;
  if (!two) {
    tni_model_destroy(*out);
    *out = NULL;
    return TN_OK;
  }
  tni_graph *g = (*out)->graph;
  st = tni_choose_logits(g, err);
  if (st == TN_OK && after && past) st = tni_cross_leave(g, err);
  if (st == TN_OK && after) st = tni_cross_one_position(g, err);
  return st == TN_OK ? fold_alone(m, g, err) : st;
}

/* *there: two decoders; *same: seen to be one, or why not. */
static tn_status compare_two(tn_model *m, bool after, bool *there, bool *same, char *why, size_t room, tn_error *err) {
  tni_model *with = NULL, *without = NULL;
  *same = false;
  tn_status st = import_branch(m, true, after, &with, err);
  if (st == TN_OK && with) st = import_branch(m, false, after, &without, err);
  *there = st == TN_OK && without;
  if (*there) st = tni_same_decoder(with->graph, without->graph, same, why, room, err);
  tni_model_destroy(without);
  tni_model_destroy(with);
  return st;
}

/* The one decoder that two are, or the model as it is where there are not two; *out NULL: not seen to be one. */
static tn_status import_merged(tn_model *m, tni_model **out, tn_error *err) {
  bool there = false, same;
  char why[200] = "";
  tn_status st = import_one_of_two(m, true, out, &there, err);
  if (st != TN_OK || !there) return st;
  const bool after = tni_cross_there((*out)->graph);
  tni_model_destroy(*out);
  *out = NULL;
  st = compare_two(m, after, &there, &same, why, sizeof why, err);
  if (st == TN_OK && !same)
    tni_log_line(&m->rt->log, TN_LOG_WARN,
                 "'%s' stays two decoders behind use_cache_branch, without plugins and caches in place: %s", m->name,
                 why);
  if (st != TN_OK || !same) return st;
  st = import_whole(m, out, err); /* passes want to see it as it was written */
  if (st == TN_OK) st = tni_choose_cache((*out)->graph, true, &there, err);
  return st == TN_OK && after ? tni_cross_leave((*out)->graph, err) : st;
}

/* The encoder, and after it what the decoder without past makes of its output once. */
static tn_status import_source(tn_model *m, tn_error *err) {
  const tni_import_limits lim = limits_of(m);
  bool there = false, same = false;
  char why[200] = "";
  if (!m->encoder)
    return tni_fail(err, TN_E_UNAVAILABLE, m->path,
                    "'%s' is read after an encoder, and no encoder_model.onnx (or one of its own kind, such as "
                    "encoder_model_quantized.onnx) lies beside it",
                    m->name);
  tn_status st = compare_two(m, true, &there, &same, why, sizeof why, err);
  if (st == TN_OK && !there)
    return tni_fail(err, TN_E_UNAVAILABLE, m->path,
                    "'%s' is a decoder with a past, and no decoder_model.onnx lies beside it: what it reads of the "
                    "encoder is made there",
                    m->name);
  if (st == TN_OK && !same)
    return tni_fail(err, TN_E_UNSUPPORTED, m->path,
                    "the decoder without a past is not seen to be '%s' with an empty one: %s", m->name, why);
  if (st == TN_OK) st = import_branch(m, false, false, &m->import, err);
  if (st == TN_OK) st = tni_cross_only(m->import->graph, err);
  if (st != TN_OK) return st;
  const tni_graph *g = m->import->graph;
  if (g->n_inputs != 1 || strcmp(g->values[g->inputs[0]]->pub.name, "encoder_hidden_states") != 0)
    return tni_fail(err, TN_E_UNSUPPORTED, m->path,
                    "keys and values of the encoder's output are made of more than 'encoder_hidden_states'");
  return tni_model_join(m->import, "encoder_hidden_states", m->encoder, true, &lim, &m->rt->log, err);
}

tn_status tni_model_import(tn_model *m, tn_error *err) {
  if (m->flags & TN_MODEL_SOURCE) return import_source(m, err);
  const bool decoder = (m->flags & TN_MODEL_DECODER) && !(m->flags & TN_MODEL_UNREAD);
  tn_status st = decoder ? import_merged(m, &m->import, err) : TN_OK;
  if (st == TN_OK && !m->import) st = import_whole(m, &m->import, err);
  return st == TN_OK && decoder ? tni_choose_logits(m->import->graph, err) : st;
}

enum { LOAD_BYTES = 512, LOAD_STEPS = 4096, MOST_FILE = 64 }; /* MiB, 2^20 steps, GiB */

/* A node of a few tens of bytes takes two or three thousand in memory, and far less than 256 steps a byte. */
void tni_model_budget(tn_model *m) {
  const tni_profile *p = m->rt->profile;
  struct stat s;
  const uint64_t most = (uint64_t)MOST_FILE << 30;
  const uint64_t file = stat(m->path, &s) == 0 && s.st_size > 0 ? (uint64_t)s.st_size : 0;
  const uint64_t bytes = file < most ? file : most;
  m->budget.max_bytes = p->load_max_bytes ? p->load_max_bytes : ((uint64_t)LOAD_BYTES << 20) + 64 * bytes;
  m->budget.max_steps = p->load_max_steps ? p->load_max_steps : ((uint64_t)LOAD_STEPS << 20) + 256 * bytes;
  tni_arena_bill(m->arena, &m->budget);
}
