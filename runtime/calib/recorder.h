/* SPDX-License-Identifier: Apache-2.0
 *
 * What a recorder holds, for record.c, which fills it, and keep.c, which writes and reads it.
 */
#ifndef TENON_CALIB_RECORDER_H
#define TENON_CALIB_RECORDER_H

#include <pthread.h>

#include "runtime/calib/calib.h"

enum { TNI_CALIB_BINS = 1 << 16 };

/* One activation. */
typedef struct tni_calib_watch {
  tn_id x, node; /* recorded before this node, the first that reads x */
  const char *name;
  const char **weights;
  uint32_t n_weights, cap_weights;
  int64_t K;
  uint64_t *bins; /* [TNI_CALIB_BINS], the first pass only */
  double *sum, *sum2;
  uint64_t *over;
  uint64_t rows[2], count;
  float absmax, p999, limit;
} tni_calib_watch;

struct tni_recorder {
  pthread_mutex_t lock;
  tni_calib_watch *w;
  uint32_t n, n_nodes;
  uint32_t *of_node; /* [n_nodes]: index into w, or TN_NONE */
  int pass;          /* 0, 1 */
  char graph[TNI_CALIB_HEX + 1]; /* tni_calib_model_hash after passes, which decide what is recorded and how it is rounded */
};

/* w is in the second pass from here on. */
void tni_calib_watch_next(tni_calib_watch *w, float p999);

#endif
