/* SPDX-License-Identifier: Apache-2.0
 *
 * models/demo on a profile whose plugins may live in processes of their own.
 */
#ifndef TENON_TESTS_ISOLATE_H
#define TENON_TESTS_ISOLATE_H

#include <CUnit/Basic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "tests/onnx/wire.h"

enum { MAX_TOKENS = 64 };

typedef struct lab {
  char dir[64], log[16384];
  tn_runtime *rt;
  tn_lm *lm;
  tn_chat *chat;
  tn_error err;
} lab;

/* profile: YAML text, with two threads where it does not say; packed weights are kept in one folder for all
 * (lab_cleanup). dirs: plugin folders, NULL at the end; NULL: those of the build. helper NULL: tenon-helper of the
 * build. */
tn_status lab_open(lab *l, const char *profile, const char *const *dirs, const char *helper);
/* The demo model and a conversation. */
tn_status lab_load(lab *l);
void lab_close(lab *l);
void lab_cleanup(void);
const char *lab_cache(void); /* that folder */

/* The process of the isolated plugin; 0: there is none. */
int lab_child(const lab *l, const char *plugin);

/* Greedy ids behind a prompt of n ids; before token `at` is asked for, hit(user) is called (at -1: never). */
tn_status lab_generate(lab *l, const int32_t *ids, size_t n, uint32_t tokens, int at, void (*hit)(void *), void *user,
                       int32_t *out);
/* What greedy ids must be when the first `at` tokens are computed by m, and the rest by other from m's caches: plain
 * runs, with past and present in our hands. at 0: all by other. */
tn_status lab_expect(tn_model *m, tn_model *other, const int32_t *ids, size_t n, uint32_t tokens, uint32_t at,
                     int32_t *out, tn_error *err);

/* A model of two products and a sum, for plugins of the corpus; opened, loaded and run three times. */
typedef struct small_case {
  const char *profile, *plugin, *helper; /* helper NULL: tenon-helper */
  int salt;                              /* other weights, which are packed anew */
} small_case;
/* *right: all results were; *child: the plugin's process at the end. */
tn_status small_try(const small_case *k, lab *l, bool *right, int *child);
/* Writes a model into the lab's folder, and frees it. */
bool lab_model(const lab *l, wbuf *m, char *path, size_t n);
bool small_model(const lab *l, char *path, size_t n);

bool has_avx2(void);
bool has_npu(void);

void suite_same(void);
void suite_kill(void);
void suite_crash(void);
void suite_wire(void);
void suite_start(void);
void suite_device(void);
void suite_threads(void);
void suite_order(void);
void suite_walls(void);
void suite_flip(void);
void suite_cancel(void);

#endif
