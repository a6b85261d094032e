/* SPDX-License-Identifier: Apache-2.0
 *
 * What the devices say of a graph: one answer per node and device, plus groups. Answers are copied from the plugins and
 * checked: every node exactly once, known verdicts, finite costs, ids in range.
 *
 * A constraint of a claim is promised where it is proved, where it asks for a multiple of the padded length of the
 * context, which the session then rounds up, or where it fixes the positions of a run: to a length, or one of several,
 * in the prefill phase of a model whose runs can be padded (of several devices those that all have, as long as there
 * are any; the first device's win), to 1 in the decode phase. Any other turns the claim into a refusal that says which.
 */
#ifndef TENON_PLACE_CLAIMS_H
#define TENON_PLACE_CLAIMS_H

#include "runtime/base/base.h"
#include "runtime/graph/graph.h"
#include "runtime/place/layouts.h"

/* A device of the profile, in order of preference. name: the plugin's. Lives in the runtime. */
typedef struct tni_dev {
  const char *name;
  tn_device *device;
  const tn_plugin *plugin;
  const tn_host *host;
  struct tni_devlock *lock; /* claim .. args_free and buffers: one at a time */
  bool is_host;             /* the built-in device */
  bool process;             /* the plugin lives in one of its own (runtime/plugin/process) */
} tni_dev;
/* What the device's plugin answers to the name, or NULL. Neither the built-in device nor plugins in processes of their
 * own are asked. */
const void *tni_dev_extension(const tni_dev *d, const char *name, uint32_t version);

typedef struct tni_claim {
  uint32_t verdict, reason; /* TN_YES ..., TN_WHY_* */
  const tn_format *format;
  const int64_t *params;
  uint32_t n_params;
  double cost_ns;
  const char *text;
  bool fixed; /* only at lengths of tni_claims.fixed */
} tni_claim;

/* Lengths that are allowed, ascending; n 0: any. */
enum { TNI_MAX_LENGTHS = 64 };
typedef struct tni_lengths {
  int64_t v[TNI_MAX_LENGTHS];
  uint32_t n;
} tni_lengths;
/* 0: any. */
static inline int64_t tni_lengths_most(const tni_lengths *l) { return l->n ? l->v[l->n - 1] : 0; }

typedef struct tni_group {
  uint32_t device; /* index into devs */
  const tn_id *nodes;
  uint32_t n_nodes;
  tni_claim claim;
} tni_group;

typedef struct tni_claims {
  tni_claim **node; /* [n_devs][n_nodes] */
  tni_group *groups;
  uint32_t n_groups, cap_groups;
  tni_state_claim *states; /* layouts of caches, by device; who says nothing takes the host's */
  uint32_t n_states, cap_states;
  tni_lengths fixed; /* positions of a run, where a device fixes them */
  tn_id fixed_by;    /* index of the first device that does */
  int64_t
      bucket; /* the padded length (tni_graph.padded) must be a multiple of it, whoever takes the work; 1: of nothing */
  const char *fault; /* of the first device that answered wrongly: which, and how; or NULL */
} tni_claims;

/* Asks every device. A device that fails or answers wrongly refuses everything with that as the reason. */
TN_MUST_CHECK tn_status tni_claims_collect(const tn_graph *view, const tni_dev *devs, uint32_t n_devs, tni_arena *arena,
                                           tni_claims *out, tn_error *err);

const char *tni_why_name(uint32_t reason);
/* "64, 128 or 256". Returns buf. */
const char *tni_lengths_say(const tni_lengths *l, char *buf, size_t size);

#endif
