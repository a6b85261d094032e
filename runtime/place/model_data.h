/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of a loaded model. Filled stage by stage by the session room (model.c); sessions read it only.
 */
#ifndef TENON_PLACE_MODEL_DATA_H
#define TENON_PLACE_MODEL_DATA_H

#include <tenon/tenon.h>

#include "runtime/calib/calib.h"
#include "runtime/onnx/onnx.h"
#include "runtime/pack/pack.h"
#include "runtime/passes/passes.h"
#include "runtime/place/devices.h"
#include "runtime/place/placement.h"
#include "runtime/roles/roles.h"

/* Packed weights of one plugin's formats. */
typedef struct tni_packed {
  const tni_dev *dev;
  const tni_pack_item **items;
  uint32_t n_items;
  tni_pack_store *store;
  uint32_t compiled, left; /* tasks, ahead of time: done, and those whose dims only a run knows */
  int64_t compile_ns;
} tni_packed;

struct tn_model {
  int32_t holders; /* sessions, as in tn_runtime */
  bool counted;    /* among the runtime's holders */
  tn_runtime *rt;
  tni_arena *arena;
  tni_budget budget; /* of the load */
  tni_model *import;
  tni_graph *graph;
  tni_roles roles;
  const char *path, *name;
  uint32_t flags;
  int64_t max_seq;
  /* Files beside it, or NULL: what makes inputs_embeds of ids; the encoder before it; the decoder without a past */
  const char *embed, *encoder, *first;
  const char **fixed_names; /* dims for the memory statement */
  int64_t *fixed_values;
  uint32_t n_fixed;
  const char **disabled; /* passes to leave out */
  uint32_t n_disabled;
  const char **overridable; /* initializers that stay inputs */
  uint32_t n_overridable;
  uint64_t order_seed; /* 0: tasks run in the planned order; else in random ones that the graph allows */
  tni_passes_report passes;
  tni_mem_users *state_users;   /* [n_states] of the graph: who touches a cache */
  struct tni_devconsts *consts; /* constants in memory of devices */
  tn_layout *state_layouts;     /* [n_states]: over the dims of a cache's view; with TN_LAYOUT_CIRCULAR it is a ring */
  int64_t *state_windows;       /* [n_states]: positions that readers look back; -1: all */
  tni_exec *execs;              /* [n_execs]: one for all phases, or prefill and decode */
  uint32_t n_execs;
  tni_packed *packed; /* [n_devs] */
  tn_io_info **inputs, **outputs;
  uint32_t n_inputs, n_outputs;
  struct tni_refcache *ref;
  tni_calib *calib;             /* what the profile or the options name, or NULL */
  tni_recorder *recorder;       /* TN_MODEL_CALIBRATE */
  char hash[TNI_CALIB_HEX + 1]; /* of the model as imported; only with one of the two */
  tn_id *tables;                /* constants looked up row by row (tables.c) */
  uint32_t n_tables;
  struct tni_embedding *embeddings; /* tables, and where their rows are read (embeddings.h) */
  uint32_t n_embeddings;
  tn_model *next; /* placed again after a device was lost (failover.h); ours */
};

#endif
