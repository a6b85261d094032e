/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of a prompt in flight, virtual time, graphs that are kept or joined, attention on the device.
 */
#include <CUnit/Basic.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/npu/demo.h"

typedef struct interval {
  uint32_t step, product; /* product: hash of its name */
  int64_t start, end;
} interval;

typedef struct timeline {
  uint64_t hash;
  uint32_t n, n_shadows, n_npu, beside; /* events; shadows that began while the products beside them ran */
  interval shadows[1024], npu[1024];
  int64_t first, last, npu_ns, cpu_ns;
} timeline;

static void on_virtual(void *user, const tn_trace_event *e) {
  timeline *t = user;
  if (!e->clock) return;
  const int64_t times[2] = {e->start, e->end};
  for (const char *c = e->name; *c; c++) t->hash = (t->hash ^ (uint8_t)*c) * 0x100000001b3u;
  for (int i = 0; i < 16; i++) t->hash = (t->hash ^ (uint8_t)(times[i / 8] >> i % 8 * 8)) * 0x100000001b3u;
  if (!t->n || e->start < t->first) t->first = e->start;
  if (!t->n || e->end > t->last) t->last = e->end;
  t->n++;
  const bool shadow = !strncmp(e->name, "shadow ", 7), npu = !strcmp(e->track, "npu-int8-sim:npu");
  interval at = {.step = e->step, .start = e->start, .end = e->end, .product = 5381};
  for (const char *c = strchr(e->name, ' '); c && *c; c++) at.product = at.product * 33 + (uint8_t)*c;
  *(npu ? &t->npu_ns : &t->cpu_ns) += e->end - e->start;
  if (shadow && t->n_shadows < 1024) t->shadows[t->n_shadows++] = at;
  if (npu && t->n_npu < 1024) t->npu[t->n_npu++] = at;
}

static void count_beside(timeline *t) {
  for (uint32_t i = 0; i < t->n_shadows; i++)
    for (uint32_t k = 0; k < t->n_npu; k++) {
      const interval *a = &t->shadows[i], *b = &t->npu[k];
      t->beside += a->step == b->step && a->product == b->product && a->start >= b->start && a->start < b->end;
    }
}

/* Virtual time is the same whatever the machine does, and in it the shadow runs beside the device. */
void demo_virtual_time(void) {
  static const char *const threads[] = {"threads: 1\n", "threads: 2\n", "threads: 2\nchunks_in_flight: 1\n"};
  int32_t ids[70];
  static timeline t[3];
  size_t vocab;
  demo_ids(ids, 70, 9);
  for (int i = 0; i < 3; i++) {
    demo b;
    t[i] = (timeline){.hash = 0xcbf29ce484222325u};
    CU_ASSERT_EQUAL_FATAL(demo_open(&b, demo_profile("chunk: 64", threads[i]), 0, 0), TN_OK);
    tn_chat_trace(b.chat, on_virtual, &t[i]);
    free(demo_score(&b, ids, 70, &vocab));
    count_beside(&t[i]);
    demo_close(&b);
  }
  CU_ASSERT(t[0].n > 100 && t[0].n == t[1].n && t[0].hash == t[1].hash);
  CU_ASSERT(t[2].n_shadows == 48 && t[2].beside >= 40);
}

/* A prompt, what follows it on the decode plugin, and a second prompt after both. */
enum { FIRST = 266, SECOND = 65, ALL = FIRST + 1 + SECOND };
static float *converse(const char *more, uint64_t seed, timeline *t, size_t *vocab) {
  demo b;
  int32_t ids[ALL];
  static const size_t parts[] = {FIRST, 1, SECOND};
  float *all = NULL;
  demo_ids(ids, ALL, 30);
  CU_ASSERT_EQUAL_FATAL(demo_open(&b, demo_profile("chunk: 64, profile: qnn-2024", more), 0, seed), TN_OK);
  if (t) {
    *t = (timeline){.hash = 0};
    tn_chat_trace(b.chat, on_virtual, t);
  }
  for (size_t i = 0, at = 0; i < 3; at += parts[i++]) {
    const float *y;
    size_t rows;
    const tn_status st = tn_chat_score(b.chat, ids + at, parts[i], &y, &rows, vocab, &b.err);
    if (st != TN_OK) printf("\n    %s: %s", b.err.where, b.err.message);
    CU_ASSERT_FATAL(st == TN_OK && rows == parts[i]);
    if (!all && !(all = malloc(ALL * *vocab * sizeof *all))) abort();
    memcpy(all + at * *vocab, y, parts[i] * *vocab * sizeof *y);
    if (i == 0) tn_chat_trace(b.chat, NULL, NULL);
  }
  demo_close(&b);
  return all;
}

/* However many pieces of a prompt are in flight, in whatever order and on however many threads: the same bits. On the
 * simulated clock more pieces take less time, and never less than one of the two machines has to do. */
void demo_in_flight(void) {
  static const char *const more[] = {"chunks_in_flight: 1\n", "chunks_in_flight: 2\n", "chunks_in_flight: 4\n",
                                     "memory: 64K\n", ""};
  static timeline t[5];
  int64_t span[5];
  size_t vocab;
  float *one = converse(more[0], 0, &t[0], &vocab);
  for (int i = 1; i < 5; i++) {
    float *y = converse(more[i], 0, &t[i], &vocab);
    CU_ASSERT_EQUAL(memcmp(one, y, ALL * vocab * sizeof *y), 0);
    free(y);
  }
  for (uint64_t seed = 1; seed < 5; seed++) {
    float *y = converse(seed & 1 ? "threads: 2\n" : "threads: 1\nchunks_in_flight: 3\n", seed, NULL, &vocab);
    CU_ASSERT_EQUAL(memcmp(one, y, ALL * vocab * sizeof *y), 0);
    free(y);
  }
  free(one);
  for (int i = 0; i < 5; i++) {
    span[i] = t[i].last - t[i].first;
    CU_ASSERT(t[i].n == t[0].n && t[i].npu_ns == t[0].npu_ns && t[i].cpu_ns == t[0].cpu_ns);
    CU_ASSERT(span[i] >= t[0].npu_ns && span[i] >= t[0].cpu_ns);
  }
  /* By hand: wake once; of five pieces and six blocks four launches and weights of q/k/v, o, gate and up, down at 26
   * GB/s. */
  CU_ASSERT_EQUAL(t[0].npu_ns, 1150000 + 30 * (4 * 1500000 + 5041 + 2521 + 13863 + 6932));
  printf("(%.2f, %.2f, %.2f, %.2f ms of %.2f) ", (double)span[0] / 1e6, (double)span[1] / 1e6, (double)span[2] / 1e6,
         (double)span[4] / 1e6, (double)t[0].npu_ns / 1e6);
  CU_ASSERT(span[0] > span[1] && span[1] > span[2] && span[2] > span[4]);
  CU_ASSERT_EQUAL(span[3], span[2]); /* four are always allowed */
}

static int drop(const char *path, const struct stat *info, int flag, struct FTW *at) {
  (void)info, (void)flag, (void)at;
  return remove(path);
}

/* A second start prepares nothing, and computes the same. */
void demo_kept_graphs(void) {
  static const char *const said[] = {" 24 graphs prepared, 0 kept ones", " 0 graphs prepared, 24 kept ones"};
  char cache[64], more[96];
  int32_t ids[70];
  float *y[2];
  size_t vocab = 0;
  snprintf(cache, sizeof cache, "%s/cache", demo_folder);
  snprintf(more, sizeof more, "cache: {dir: %s}\n", cache);
  demo_ids(ids, 70, 40);
  for (int i = 0; i < 2; i++) {
    demo b;
    CU_ASSERT_EQUAL_FATAL(demo_open(&b, demo_profile("chunk: 64", more), 0, 0), TN_OK);
    y[i] = demo_score(&b, ids, 70, &vocab);
    demo_close(&b);
    CU_ASSERT_PTR_NOT_NULL(strstr(demo_counted, said[i]));
  }
  CU_ASSERT_EQUAL(memcmp(y[0], y[1], 70 * vocab * sizeof **y), 0);
  free(y[0]);
  free(y[1]);
  nftw(cache, drop, 8, FTW_DEPTH | FTW_PHYS);
}

/* Without shadow gate, up and down are one graph, with the chain between them on the device: three executions for a
 * block instead of four, and the same bits. */
void demo_one_ffn(void) {
  static const char *const options[] = {"chunk: 64, shadow: none, ffn: two", "chunk: 64, shadow: none",
                                        "chunk: 64, shadow: pruned, ffn: two", "chunk: 64, shadow: pruned"};
  int32_t ids[100];
  float *y[4];
  uint32_t n[4];
  size_t vocab = 0;
  demo_ids(ids, 100, 50);
  for (int i = 0; i < 4; i++) {
    demo b;
    demo_seen s = {.ordered = true};
    CU_ASSERT_EQUAL_FATAL(demo_open(&b, demo_profile(options[i], ""), 0, 0), TN_OK);
    tn_chat_trace(b.chat, demo_on_task, &s);
    y[i] = demo_score(&b, ids, 100, &vocab);
    n[i] = s.npu;
    demo_close(&b);
  }
  for (int i = 0; i < 4; i += 2) CU_ASSERT_EQUAL(memcmp(y[i], y[i + 1], 100 * vocab * sizeof **y), 0);
  CU_ASSERT(n[0] == 2 * 24 && n[1] == 2 * 18 && n[2] == 2 * 24 && n[3] < n[2]);
  for (int i = 0; i < 4; i++) free(y[i]);
}

typedef struct attended {
  uint32_t n, wrong; /* executions of attention; of other durations than the cost model's */
  int64_t first;     /* position of the step that is next */
} attended;

/* Eight heads of 32 over four, six blocks; T: the capacity that a session without buckets runs at. */
static void on_attention(void *user, const tn_trace_event *e) {
  enum { CHUNK = 64, HEADS = 8, SIZE = 32, KV = 4 };
  attended *a = user;
  if (strcmp(e->track, "npu-int8-sim:npu") != 0 || strncmp(e->name, "float ", 6) != 0) return;
  const double T = (double)a->first, M = CHUNK, q = HEADS * SIZE, kv = KV * SIZE;
  const double macs = 2 * M * T * q / 5e12, exps = M * T * HEADS / 8e9;
  const double bytes = 4 * M * (q + 2 * kv) + 9 * M * q + 4 * (M + T) * kv;
  const int64_t ns = 35000 + (int64_t)(1e9 * ((macs > exps ? macs : exps) + bytes / 50e9) + 0.5);
  a->n++;
  a->wrong += e->end - e->start != ns;
}

/* Float attention on the device, over caches that the CPU writes and the decode plugin reads: nothing is copied. */
void demo_attention(void) {
  enum { N = 200 };
  static const char *const options[] = {"chunk: 64", "chunk: 64, profile: hmx-2026-fa",
                                        "chunk: 64, profile: hmx-2026-fa"};
  static const char *const more[] = {"", "", "chunks_in_flight: 1\n"};
  int32_t ids[N + 8];
  float *y[3];
  size_t vocab = 0;
  demo_ids(ids, N + 8, 60);
  for (int i = 0; i < 3; i++) {
    demo b;
    attended a = {.first = 2048 - 1 + 64};
    const float *l;
    size_t rows;
    CU_ASSERT_EQUAL_FATAL(demo_open(&b, demo_profile(options[i], more[i]), 0, 0), TN_OK);
    tn_chat_trace(b.chat, on_attention, &a);
    y[i] = demo_score(&b, ids, N, &vocab);
    CU_ASSERT(i ? a.n == 6 * 4 && a.wrong == 0 : a.n == 0);
    float *grown = realloc(y[i], (N + 8) * vocab * sizeof **y);
    if (!grown) abort();
    y[i] = grown;
    for (int k = 0; k < 8; k++) { /* decode, one by one */
      CU_ASSERT_EQUAL_FATAL(tn_chat_score(b.chat, ids + N + k, 1, &l, &rows, &vocab, &b.err), TN_OK);
      memcpy(y[i] + (N + (size_t)k) * vocab, l, vocab * sizeof **y);
    }
    demo_close(&b);
    CU_ASSERT_PTR_NOT_NULL(strstr(demo_counted, ", 0 bytes copied,"));
  }
  CU_ASSERT(demo_distance(y[0], y[1], (N + 8) * vocab) <=
            2e-2); /* a last bit may flip a code of what follows; each task by itself: check_tasks */
  CU_ASSERT_EQUAL(memcmp(y[1], y[2], (N + 8) * vocab * sizeof **y), 0);
  printf("(%.1e) ", demo_distance(y[0], y[1], (N + 8) * vocab));
  for (int i = 0; i < 3; i++) free(y[i]);
}
