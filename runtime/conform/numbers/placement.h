/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model's placement packs, copied out of libtenon: real matrices for whoever drives a plugin by its vtable.
 */
#ifndef TENON_CONFORM_NUMBERS_PLACEMENT_H
#define TENON_CONFORM_NUMBERS_PLACEMENT_H

#include <stdbool.h>
#include <tenon/plugin.h>

enum { PLACED_PARAMS = 8 };

/* A packed matrix [N,K], siblings joined. */
typedef struct placed_weight {
  char name[128], format[32];
  int64_t N, K;
  float *kn; /* [K,N]: as the model has it */
  int64_t params[PLACED_PARAMS];
  uint32_t n_params, reserved;
  uint8_t *bytes; /* [n_bytes]: as libtenon packed it */
  uint64_t n_bytes;
  tn_stats stats; /* of its activation; h.size 0: none. ch_* [K] or NULL */
} placed_weight;

typedef struct placement {
  placed_weight *w;
  uint32_t n;
} placement;

/* What is placed and how. Without a phase the plugin must take every product with constant weights. */
typedef struct placement_req {
  const char *plugin, *plugin_dir; /* name; folder with its manifest */
  uint32_t device;                 /* which of the plugin's */
  const char *model;               /* folder */
  const char *const *options;      /* [n_options] "key=value" */
  uint32_t n_options, phase;       /* TN_PHASE_* */
  bool need_stats;                 /* a model without calibration.yaml is calibrated on a few ids */
} placement_req;

/* Loads, packs in memory, copies, closes. False with a message in err. */
bool placement_read(const placement_req *r, placement *out, tn_error *err);
void placement_free(placement *p);

#endif
