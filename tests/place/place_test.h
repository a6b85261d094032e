/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs from text and devices from tables of answers.
 */
#ifndef TENON_TESTS_PLACE_H
#define TENON_TESTS_PLACE_H

#include <CUnit/Basic.h>
#include <stdbool.h>

#include "runtime/place/devlock.h"
#include "runtime/place/program.h"
#include "tests/kit/rig.h"

/* A finished graph and its view. */
typedef struct fixture {
  tni_graph *g;
  tn_graph view;
  tni_arena *arena;
  tn_error err;
} fixture;

/* Nodes "Type:in,in:out,out" split at ';', named n0, n1 ... in this order. Names that start with x are float32 inputs
 * [4,4], with w constants [4,4], with s STEP values [4,4]; those in `outputs` ("y,z") are the graph's. */
void fixture_init(fixture *f, const char *nodes, const char *outputs);
void fixture_finish(fixture *f);
/* Value by name; the test stops where there is none. */
tn_id value_id(const fixture *f, const char *name);

/* A device whose answers come from a function of the test. */
typedef struct fake {
  tn_device pub; /* first */
  tn_status (*answer)(struct fake *d, const tn_graph *g, const tn_claim_sink *sink, tn_error *err);
  const uint32_t *verdicts;  /* [n_nodes], for answer_table; NULL: all YES */
  const char *const *groups; /* "0,1,2": node ids, for answer_table */
  uint32_t n_groups;
  const tn_program_info *info;
  uint32_t released;
  tni_devlock lock;
} fake;

void fake_init(fake *d, tni_dev *dev, const char *name);
void fake_finish(fake *d);
tn_status answer_table(fake *d, const tn_graph *g, const tn_claim_sink *sink, tn_error *err);

void suite_claims(void);
void suite_partition(void);
void suite_program(void);
void suite_taskgraph(void);
void suite_weight(void);
void suite_place(void);
void suite_pack(void);
void suite_embeddings(void);

#endif
