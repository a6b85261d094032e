/* SPDX-License-Identifier: Apache-2.0
 *
 * The demo model through libtenon, with a calibration made once: what the tests of npu-demo share.
 */
#ifndef TENON_TESTS_NPU_DEMO_H
#define TENON_TESTS_NPU_DEMO_H

#include <stdbool.h>
#include <tenon/tenon.h>

typedef struct demo {
  tn_runtime *rt;
  tn_lm *lm;
  tn_chat *chat;
  tn_error err;
  char profile[128];
} demo;

extern char demo_folder[];
extern char demo_counted[256]; /* what the device said last of its graphs, when it was closed */

/* Folders of plugins; false: none. */
bool demo_start(int argc, char **argv);
/* Once, before and after all tests. */
int demo_calibrate(void);
int demo_clean(void);
/* text: a profile. */
tn_status demo_open(demo *b, const char *text, uint32_t flags, uint64_t seed);
void demo_close(demo *b);
/* Options of the device, and lines more. Static memory. */
const char *demo_profile(const char *options, const char *more);
/* n ids that a text of this kind has: words of the model's own, by a fixed rule. */
void demo_ids(int32_t *ids, size_t n, uint32_t seed);
/* Logits [n][vocab], to free. */
float *demo_score(demo *b, const int32_t *ids, size_t n, size_t *vocab);
/* Largest |a - b| over the largest |a|. */
double demo_distance(const float *a, const float *b, size_t n);

/* Executions of the device; ordered: none began before the last one's end. */
typedef struct demo_seen {
  uint32_t npu, virtual_clock, named;
  int64_t end;
  bool ordered;
  uint64_t bytes; /* of what the tasks touch */
} demo_seen;
void demo_on_task(void *user, const tn_trace_event *e);

/* demo_flight.c */
extern void demo_virtual_time(void), demo_in_flight(void), demo_kept_graphs(void), demo_one_ffn(void),
    demo_attention(void);

#endif
