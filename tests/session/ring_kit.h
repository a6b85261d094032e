/* SPDX-License-Identifier: Apache-2.0
 *
 * A decoder of two layers whose attention looks back a window each, and steps of it.
 */
#ifndef TENON_TESTS_SESSION_RING_KIT_H
#define TENON_TESTS_SESSION_RING_KIT_H

#include "session_test.h"

enum {
  VOCAB = 48,
  DIM = 32,
  HEADS = 4,
  KV = 2,
  SIZE = 8,
  LAYERS = 2,
  STEP = 16,
  LONG = 230,
  CAPACITY = 256,
  RING = 64
};

typedef struct walk {
  rig r;
  const tn_tensor *in[1 + 2 * LAYERS];
  tn_tensor ids, logits, *out[1 + 2 * LAYERS];
  int64_t id[CAPACITY];
} walk;

#define HOST "plugins: [host]\n"
#define ALL "kv_ring: false\n"

extern const int64_t walk_cuts[4][8];
/* Elements of a head, SIZE; and what every profile has besides. */
extern int64_t walk_size;
extern const char *walk_more;

uint32_t walk_random(uint32_t *state);
/* first, second: windows of the two layers. */
wbuf walk_model(int64_t first, int64_t second);
bool walk_keep(walk *w, tn_session *s, int64_t capacity, int64_t max_step);
bool walk_begin(walk *w, const char *profile, int64_t first, int64_t second);
tn_status walk_step(walk *w, tn_session *s, int64_t n);
/* Steps of these sizes, over and over, up to `to`: all logits to dst [to][VOCAB]. */
bool walk_steps(walk *w, tn_session *s, const int64_t *sizes, int64_t to, float *dst);
/* Logits of LONG positions; NULL: it failed, and said so. rows: of the two layers' caches. */
float *walk_logits(const char *profile, int64_t first, int64_t second, const int64_t *sizes, int64_t rows[2]);
bool walk_same(const float *a, const float *b);

/* Largest difference of two runs' logits, as a share of b's largest. A NaN stays: no later distance is larger. */
double walk_distance(const float *a, const float *b);

/* ring_test.c */
void test_truncate(void);
void test_cancel(void);
void test_share(void);
void test_plain(void);
/* ring_saved_test.c */
void test_saved(void);
void test_slots(void);
/* ring_few_test.c */
CU_ErrorCode add_few_bits(void);

#endif
