/* SPDX-License-Identifier: Apache-2.0
 *
 * A runtime, a model from bytes and a session in a folder of their own.
 */
#ifndef TENON_TESTS_KIT_RIG_H
#define TENON_TESTS_KIT_RIG_H

#include <CUnit/Basic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "tests/onnx/wire.h"

typedef struct rig {
  char dir[64];
  tn_runtime *rt;
  tn_model *m;
  tn_session *s;
  tn_error err;
  char log[8192]; /* lines so far */
} rig;

/* profile: YAML text. Plugins come from the build's test folders (TENON_TEST_PLUGINS, TENON_TEST_SESSION_PLUGINS). */
tn_status rig_init(rig *r, const char *profile);
/* Writes the model (taken over), loads it and makes a session. */
tn_status rig_load(rig *r, wbuf model, uint32_t flags);
/* The same for a folder that is there; no session. */
tn_status rig_open(rig *r, const char *path, uint32_t flags);
void rig_finish(rig *r);
/* "Type:name:in:out;..." with initializers "w" [K,N] of floats w (NULL: none); inputs and outputs as "name=dims;...".
 */
wbuf text_model(const char *nodes, const char *inputs, const char *outputs, const char *wdims, const float *w,
                size_t n_w);
tn_tensor f32_tensor(const char *name, const float *data, uint32_t rank, int64_t d0, int64_t d1, int64_t d2);
tn_tensor i64_tensor(const char *name, const int64_t *data, uint32_t rank, int64_t d0, int64_t d1);
/* One run with up to three inputs, all outputs into out. */
tn_status rig_run(rig *r, uint32_t phase, const tn_tensor *a, const tn_tensor *b, const tn_tensor *c, tn_tensor *out,
                  uint32_t n_out);
/* First number after "key": in JSON text, or -1. */
double json_number(const char *json, const char *key);

/* Runs the suites that these add; 0 if nothing failed. */
int rig_run_suites(void (*const *add)(void), size_t n);

#endif
