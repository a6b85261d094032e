/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plugin claims over caches, which no graph of the listing has: appends, and attention over them.
 */
#include <string.h>

#include "runtime/conform/abi/parts.h"
#include "runtime/conform/drive/drive.h"

/* Of four dims, or flat: heads in the last of three. */
static tn_id value_of(tni_cn_graph *b, const char *name, uint32_t kind, bool flat, const char *rows) {
  char dims[32];
  if (flat)
    snprintf(dims, sizeof dims, "2,%s,32", rows);
  else
    snprintf(dims, sizeof dims, "2,2,%s,16", rows);
  return tni_cn_value(b, name, kind, TN_DT_F32, dims);
}

static tni_raw_attr attr_of(const char *name, int64_t v) {
  return (tni_raw_attr){.name = name, .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1, .u.i = v}};
}

/* Keys and values are appended, and looked at where `attends` is set. */
static bool cached_make(tni_cn_graph *b, bool flat, bool attends) {
  if (!tni_cn_begin(b, TN_DT_F32)) return false;
  const tn_id pos = b->g->step_pos = tni_cn_value(b, "pos", TN_VALUE_STEP, TN_DT_I64, "2"),
              valid = b->g->step_valid = tni_cn_value(b, "valid", TN_VALUE_STEP, TN_DT_I64, "2");
  const tn_state state = {
      .h = TN_HDR(tn_state), .axis = flat ? 1 : 2, .pos = pos, .valid = valid, .heads = flat ? 2 : 0};
  const tn_id q = attends ? b->in[b->n_in++] = value_of(b, "q", TN_VALUE_INPUT, flat, "S") : TN_NONE;
  tn_id after[2];
  for (int i = 0; i < 2; i++) {
    const tn_id x = b->in[b->n_in++] = value_of(b, i ? "v" : "k", TN_VALUE_INPUT, flat, "S"),
                before = value_of(b, i ? "v in" : "k in", TN_VALUE_STATE, flat, "S+T");
    after[i] = value_of(b, i ? "v out" : "k out", TN_VALUE_STATE, flat, "S+T");
    if (!tni_cn_append(b, &state, before, x, after[i])) return false;
  }
  const tn_id in[7] = {q, after[0], after[1], TN_NONE, TN_NONE, TN_NONE, valid};
  const tni_raw_attr a[3] = {attr_of("is_causal", 1), attr_of("q_num_heads", 2), attr_of("kv_num_heads", 2)};
  if (attends) {
    const tn_id y = b->out[b->n_out++] = tni_cn_value(b, "y", TN_VALUE_ACT, TN_DT_UNDEFINED, "?");
    if (!tni_cn_node(b, "", "Attention", 24, in, 7, &y, 1, a, flat ? 3 : 1)) return false;
  }
  if (!tni_cn_end(b)) return false;
  tni_cn_pad(b);
  return tni_cf_graph_stats(b);
}

static void note_claims(tni_cf_host *h, tni_cn_graph *b, uint32_t phase, tni_cf_over_caches *out) {
  tni_cf_drive d = {.flip = UINT64_MAX};
  const bool asked = tni_cf_drive_claim(&d, h, b->g, phase);
  for (tn_id i = 0; asked && i < d.view.n_nodes; i++) {
    const bool taken = d.part.device_of[i] != TN_NONE;
    if (d.view.nodes[i]->op == TN_OP_TENSOR_SCATTER) out->appends = out->appends || taken;
    if (d.view.nodes[i]->op == TN_OP_ATTENTION) out->attends = out->attends || taken;
  }
  tni_cf_drive_finish(&d);
}

tni_cf_over_caches tni_cf_abi_over_caches(tni_cf *cf) {
  static const uint32_t phases[] = {TN_PHASE_PREFILL, TN_PHASE_DECODE, TN_PHASE_ANY};
  const tni_cf_ask ask = {.offline = true};
  tni_cf_over_caches out = {false, false};
  tni_cf_host h;
  if (!tni_cf_host_open(cf, &h, &ask)) return out;
  for (int form = 0; form < 4; form++)
    for (size_t p = 0; p < sizeof phases / sizeof *phases; p++) {
      tni_cn_graph b;
      memset(&b, 0, sizeof b);
      if (cached_make(&b, form & 1, form & 2))
        note_claims(&h, &b, phases[p], &out);
      else
        tni_cf_fail(cf, "a graph with caches: %s", b.err.message);
      if (b.g) tni_cn_destroy(&b);
    }
  tni_cf_host_close(cf, &h);
  return out;
}
