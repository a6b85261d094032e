/* SPDX-License-Identifier: Apache-2.0
 *
 * What the corpus is run in: an application that generates text while plugins come and go, and one small model.
 */
#ifndef TENON_TESTS_FAULTS_HOST_H
#define TENON_TESTS_FAULTS_HOST_H

#include <stdbool.h>
#include <tenon/tenon.h>

#include "kinds.h"

/* Text without end, from the demo model on the host device, in a thread of its own. */
typedef struct writer writer;
/* model: the demo's folder. NULL, and err, where it cannot start. */
writer *writer_start(const char *model, tn_error *err);
/* Rounds of 16 tokens so far, and how many of them gave other ids than the first one or an error. */
void writer_count(writer *w, int *rounds, int *wrong);
/* Ends it after the round under way; counts as above. */
void writer_stop(writer *w, int *rounds, int *wrong);

/* One kind under its protection. */
typedef struct outcome {
  const char *stage; /* "probe", "claim", "load", "run", or "none" where nothing was reported */
  bool taken;        /* the plugin took a node */
  bool right;        /* the model ran, and gave what it must */
  tn_status status;
  char message[512];
  double ms;
} outcome;

typedef struct places {
  const char *plugins, *engine; /* folders of the corpus and of fake-engine */
  const char *helper;
  const char *work; /* a folder for the model and profiles; a cache below it */
} places;

/* Writes WORK/model.onnx: y = x[n,8] * w[8,8] * w + x. */
bool write_model(const places *p);
/* by: under which protection; usually k->by. */
void try_kind(const places *p, const kind *k, protection by, outcome *out);

#endif
