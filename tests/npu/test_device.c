/* SPDX-License-Identifier: Apache-2.0
 *
 * The built plugin through its vtable: what it takes, its memory and its time, and what happens when things go wrong.
 */
#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/npu/reference.h"

/* One MatMul [K, N] on a device of the options in m, which the caller sets first. */
typedef struct one {
  mini m;
  net n;
  float *x; /* [64][K] with planted outliers */
  built b;
} one;

static void one_make(one *o, uint64_t stream, int64_t K, int64_t N, int outliers) {
  rng r = rng_of(stream);
  net_init(&o->n, K, 1, (int64_t[]){N}, 0.25f, &r);
  net_build(&o->n, o->m.chunk);
  o->x = plant(&o->n, 64, 0.25f, outliers, &r);
}

static void one_open(one *o, uint64_t stream, int64_t K, int64_t N, int outliers) {
  OPEN(o->m);
  one_make(o, stream, K, N, outliers);
  o->b = mini_build(&o->m, &o->n, 64, false);
}

static void one_drop(one *o) {
  free(o->x);
  mini_unbuild(&o->m, &o->b);
  net_free(&o->n);
}

static void one_close(one *o) {
  one_drop(o);
  CLOSE(o->m);
}

/* --- claims ------------------------------------------------------------------------------------------------------ */

static void claims(void) {
  rng r = rng_of(7);
  mini m = mini_defaults();
  m.chunk = 256;
  OPEN(m);
  for (int rank3 = 0; rank3 < 2; rank3++) {
    net n;
    claimed c, again;
    net_init(&n, 2048, 1, (int64_t[]){64}, 0.25f, &r);
    n.rank3 = rank3;
    net_build(&n, m.chunk);
    CU_ASSERT_EQUAL(mini_claim(&m, &n, &c), TN_OK);
    CU_ASSERT_EQUAL(mini_claim(&m, &n, &again), TN_OK);
    c.claim.constraints = again.claim.constraints = NULL;
    c.claim.params = again.claim.params = NULL;
    CU_ASSERT_EQUAL(memcmp(&c, &again, sizeof c), 0);
    CU_ASSERT(c.n == 1 && c.claim.verdict == TN_YES && c.claim.n_constraints == 1);
    CU_ASSERT(c.constraints[0].lhs == 0 && c.constraints[0].rel == TN_REL_EQ && c.constraints[0].rhs == 256);
    float s;
    const uint32_t bits = (uint32_t)c.params[0];
    memcpy(&s, &bits, sizeof s);
    CU_ASSERT(c.claim.n_params == 2 && s == n.stats.p999 / 127.0f && c.params[1] == 1);
    const tn_numerics *num = c.claim.format->numerics_of(c.claim.format, c.params, 2);
    CU_ASSERT(num && num->act_scheme == TN_ACT_STATIC && num->act_max == 1048575 && num->acc_inner == TN_DT_I64);
    CU_ASSERT(c.claim.macs == 256.0 * 2048 * 64 && c.claim.weight_bytes == 2048 * 64 + 128);
    const npusim_shape shape = {256, 64, 2048};
    CU_ASSERT(c.claim.cost_ns > (double)npusim_graph_ns(npusim_profile_find("hmx-2026"), &shape, 1));
    net_free(&n);
  }
  CLOSE(m);
}

static void refusals(void) {
  static const chain_spec bad_chain = {.n_parts = 1, .parts = {0, 0, 65}, .n_results = 1, .results = {0}};
  enum { CASES = 9 };
  static const uint32_t reason[CASES] = {TN_WHY_NO_STATS, TN_WHY_OPTION,    TN_WHY_OPTION,
                                         TN_WHY_FLOAT,    TN_WHY_NOT_CONST, TN_WHY_NO_STATS,
                                         TN_WHY_DTYPE,    TN_WHY_NOT_CONST, TN_WHY_SHAPE};
  rng r = rng_of(8);
  mini m = mini_defaults();
  OPEN(m);
  for (int i = 0; i < CASES; i++) {
    net n;
    claimed c;
    net_init(&n, 64, 1, (int64_t[]){64}, 0.25f, &r);
    n.no_stats = i == 0;
    if (i == 1) n.phase = TN_PHASE_DECODE;
    if (i == 2) n.phase = TN_PHASE_ANY;
    if (i == 3) n.op = TN_OP_SOFTMAX;
    if (i == 5) n.stats.absmax = NAN;
    if (i == 8) {
      n.op = TN_OP_FUSED_MATMUL;
      n.chain = &bad_chain;
    }
    net_build(&n, m.chunk);
    if (i == 4) n.value[1].kind = TN_VALUE_ACT;
    if (i == 6) n.value[1].dtype = TN_DT_F16;
    if (i == 7) n.value[0].kind = TN_VALUE_CONST;
    CU_ASSERT_EQUAL(mini_claim(&m, &n, &c), TN_OK);
    CU_ASSERT(c.n == 1 && c.claim.verdict == TN_NO && c.claim.reason == reason[i] && c.claim.text[0]);
    if (c.claim.reason != reason[i]) printf("\n    case %d: %u %s", i, c.claim.reason, c.claim.text);
    built b = mini_build(&m, &n, 64, false);
    CU_ASSERT(b.st == TN_E_INVALID && b.p == NULL && !strcmp(m.err.where, "linear"));
    m.err = (tn_error){.h = TN_HDR(tn_error)};
    mini_unbuild(&m, &b);
    net_free(&n);
  }
  CLOSE(m);
}

/* A batch of two is two chunks on the device, one after the other. */
static void batch(void) {
  enum { K = 70, N = 45, ROWS = 128 };
  rng r = rng_of(19);
  mini m = mini_defaults();
  OPEN(m);
  net n;
  net_init(&n, K, 2, (int64_t[]){N, N}, 0.25f, &r);
  static const chain_spec spec = {.n_parts = 2, .parts = {0, 0, N, 1, 0, N}, .n_results = 2, .results = {0, 1}};
  n.op = TN_OP_FUSED_MATMUL;
  n.chain = &spec;
  net_build(&n, m.chunk);
  const float s = n.stats.p999 / 127.0f;
  float *x = plant(&n, ROWS, s, 4, &r);
  built b = mini_build(&m, &n, ROWS, false);
  CU_ASSERT_EQUAL_FATAL(b.st, TN_OK);
  CU_ASSERT_EQUAL(mini_step(&m, &b, x, false), TN_OK);
  for (uint32_t j = 0; j < 2; j++) {
    float *want = wide_product(&n, j, x, ROWS, s, true);
    CU_ASSERT_EQUAL(memcmp(want, mini_output(&n, &b, j), ROWS * N * 4), 0);
    free(want);
  }
  CU_ASSERT(mini_count(&m).submissions == 2 && mini_count(&m).graphs == 1);
  CU_ASSERT_EQUAL(b.times[1].end - b.times[1].start, mini_count(&m).busy_ns);
  free(x);
  mini_unbuild(&m, &b);
  net_free(&n);
  CLOSE(m);
}

/* Any other number of rows is refused, by the plugin before the device. */
static void other_rows(void) {
  rng r = rng_of(9);
  mini m = mini_defaults();
  OPEN(m);
  const int64_t rows[] = {1, 63, 65, 96, 4095};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    net n;
    net_init(&n, 64, 1, (int64_t[]){32}, 0.25f, &r);
    net_build(&n, m.chunk);
    built b = mini_build(&m, &n, rows[i], false);
    CU_ASSERT(b.st == TN_E_UNSUPPORTED && strstr(m.err.message, "there must be 64") && mini_count(&m).graphs == 0);
    m.err = (tn_error){.h = TN_HDR(tn_error)};
    mini_unbuild(&m, &b);
    net_free(&n);
  }
  CLOSE(m);
}

static void bad_options(void) {
  for (int i = 0; i < 8; i++) {
    mini m = mini_defaults();
    const char *key[] = {"profile", "chunk", "shadow", "prune", "hot", "fault", "fault", "window"};
    if (i == 0) m.profile = "qnn-2025";
    if (i == 1) m.chunk = 96;
    if (i == 2) m.shadow = "some";
    if (i == 3) m.prune = 1.5;
    if (i == 4) m.hot = NAN;
    if (i == 5) m.fault = "graph:0";
    if (i == 6) m.fault = "weather:3";
    if (i == 7) m.window_mib = -1;
    CU_ASSERT_FALSE(mini_open(&m));
    CU_ASSERT(m.device == NULL && m.err.code == TN_E_INVALID && strstr(m.err.message, key[i]) != NULL);
    CLOSE(m);
  }
}

/* --- memory, time, failures -------------------------------------------------------------------------------------- */

/* Copies are the simulator's and counted; shared memory is one memory; what is not the device's is refused. */
static void buffers(void) {
  mini m = mini_defaults();
  m.window_mib = 1;
  OPEN(m);
  tn_buffer *a = NULL, *b = NULL, *c = NULL;
  tn_buffer_req req = {.h = TN_HDR(tn_buffer_req), .bytes = 4096, .fd = -1, .flags = TN_BUF_ZERO}, shared = req;
  void *pa = NULL, *pb = NULL;
  CU_ASSERT_EQUAL_FATAL(m.device->create(m.device, &req, &a, &m.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(m.device->share(a, TN_MEM_FD, &shared, &m.err), TN_OK);
  CU_ASSERT(shared.kind == TN_MEM_FD && shared.fd >= 0 && shared.bytes == 4096);
  CU_ASSERT_EQUAL_FATAL(m.device->create(m.device, &shared, &b, &m.err), TN_OK);
  close(shared.fd);
  CU_ASSERT_EQUAL(m.device->map(a, 0, 4096, TN_WRITE, &pa, &m.err), TN_OK);
  CU_ASSERT_EQUAL(m.device->map(b, 16, 100, TN_READ, &pb, &m.err), TN_OK);
  CU_ASSERT_FATAL(pa && pb && pa != pb);
  CU_ASSERT_EQUAL(((char *)pa)[20], 0);
  ((char *)pa)[20] = 'x';
  CU_ASSERT_EQUAL(((char *)pb)[4], 'x');
  CU_ASSERT_EQUAL(m.device->unmap(a, pa, &m.err), TN_OK);
  CU_ASSERT_EQUAL(m.device->unmap(b, pa, &m.err), TN_E_INVALID);
  CU_ASSERT_EQUAL(m.device->map(b, 16, 4096, TN_READ, &pb, &m.err), TN_E_INVALID);
  req.bytes = 2 << 20;
  CU_ASSERT_EQUAL(m.device->create(m.device, &req, &c, &m.err), TN_E_NO_MEMORY);
  req.kind = TN_MEM_HOST_PTR;
  CU_ASSERT_EQUAL(m.device->create(m.device, &req, &c, &m.err), TN_E_UNSUPPORTED);
  shared.fd = -1;
  CU_ASSERT_EQUAL(m.device->create(m.device, &shared, &c, &m.err), TN_E_INVALID);
  CU_ASSERT_EQUAL(m.device->share(a, TN_MEM_DMABUF, &shared, &m.err), TN_E_UNSUPPORTED);
  CU_ASSERT(c == NULL);
  const npusim_counters n = mini_count(&m);
  CU_ASSERT(n.allocations == 2 && n.live_registrations == 2 && n.registered_bytes == 8192 && n.bytes_copied == 0);
  m.device->destroy(a);
  m.device->destroy(b);
  CU_ASSERT_EQUAL(mini_count(&m).registered_bytes, 0);
  CLOSE(m);
}

/* Times are the device's: ready, then launch and the rest; the same every time. */
static void times(void) {
  one o = {.m = mini_defaults()};
  o.m.wake = 0;
  one_open(&o, 10, 2048, 96, 0);
  CU_ASSERT_EQUAL_FATAL(o.b.st, TN_OK);
  const tn_caps *caps = o.m.device->caps;
  CU_ASSERT(caps->clock->kind == TN_CLOCK_VIRTUAL && caps->clock->cpu_ns_per_byte == 0.04);
  CU_ASSERT(caps->n_engines == 1 && caps->engines[0]->flags == TN_ENGINE_BLOCKING);
  const npusim_shape shape = {64, 96, 2048};
  const int64_t cost = npusim_graph_ns(npusim_profile_find("hmx-2026"), &shape, 1);
  for (int i = 0; i < 3; i++) {
    CU_ASSERT_EQUAL(mini_step(&o.m, &o.b, o.x, false), TN_OK);
    CU_ASSERT(o.b.times[1].clock == 1 && o.b.times[1].queued == 1000 && o.b.times[1].start == 1000 + i * cost);
    CU_ASSERT(o.b.times[1].end == o.b.times[1].start + cost && o.b.times[1].bytes > 96 * 2048);
  }
  CU_ASSERT(mini_count(&o.m).submissions == 3 && mini_count(&o.m).graphs == 1);
  /* What a task costs on that clock is what it moves and multiplies, by the clock's two constants. */
  uint64_t slots[MAX_SLOTS] = {0};
  const int64_t S = 64;
  const tn_dims dims = {.h = TN_HDR(tn_dims), .v = &S, .n = 1};
  for (uint32_t t = 0; t < 4; t++) {
    tn_measure me = {.h = TN_HDR(tn_measure), .slot_bytes = slots};
    CU_ASSERT_EQUAL(o.m.device->measure(o.b.p, t, &dims, &me), TN_OK);
    if (t == 1)
      CU_ASSERT(me.cost_ns == (double)cost && me.macs == 64.0 * 96 * 2048)
    else
      CU_ASSERT_DOUBLE_EQUAL(me.cost_ns, me.macs * 0.004 + me.moved_bytes * 0.04, 1);
  }
  CU_ASSERT_EQUAL(o.b.info->tasks[0]->symbols, 1);
  one_close(&o);
}

/* Prepared graphs come back from the host's cache, where they are what is wanted; else they are made and kept anew. */
static void kept_graphs(void) {
  static const struct {
    const char *what, *profile;
    uint64_t stream, graphs, loaded;
    uint32_t entries;
  } cases[] = {{"the first", "hmx-2026", 30, 1, 0, 1},   {"the same", "hmx-2026", 30, 0, 1, 1},
               {"damaged", "hmx-2026", 30, 1, 0, 1},     {"mended", "hmx-2026", 30, 0, 1, 1},
               {"cut off", "hmx-2026", 30, 1, 0, 1},     {"other weights", "hmx-2026", 31, 1, 0, 2},
               {"other costs", "qnn-2024", 30, 1, 0, 3}, {"all there", "hmx-2026", 31, 0, 1, 3}};
  kit_cache cache = {.n = 0};
  float *first = NULL;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    one o = {.m = mini_defaults()};
    o.m.profile = cases[i].profile;
    o.m.h.cache = &cache;
    if (!strcmp(cases[i].what, "damaged")) cache.entry[0].data[100] ^= 1;
    if (!strcmp(cases[i].what, "cut off")) cache.entry[0].n_data--;
    one_open(&o, cases[i].stream, 64, 96, 2);
    CU_ASSERT_EQUAL_FATAL(o.b.st, TN_OK);
    const npusim_counters n = mini_count(&o.m);
    CU_ASSERT(n.graphs == cases[i].graphs && n.loaded == cases[i].loaded && cache.n == cases[i].entries);
    CU_ASSERT_EQUAL(n.prepare_ns, cases[i].graphs ? 6 * 64 * 96 : 0);
    if (n.graphs != cases[i].graphs) printf("\n    %s", cases[i].what);
    CU_ASSERT_EQUAL(mini_step(&o.m, &o.b, o.x, false), TN_OK);
    if (!first) first = memcpy(malloc(64 * 96 * 4), mini_output(&o.n, &o.b, 0), 64 * 96 * 4);
    if (cases[i].stream == 30) CU_ASSERT_EQUAL(memcmp(first, mini_output(&o.n, &o.b, 0), 64 * 96 * 4), 0);
    one_close(&o);
  }
  free(first);
  kit_cache_free(&cache);
}

static void device_faults(void) {
  static const struct {
    const char *fault;
    tn_status build, step;
  } cases[] = {{"graph:1", TN_E_NO_MEMORY, TN_OK},  {"register:2", TN_E_NO_MEMORY, TN_OK},
               {"alloc:3", TN_E_NO_MEMORY, TN_OK},  {"lost:1", TN_OK, TN_E_DEVICE_LOST},
               {"hung:1", TN_OK, TN_E_DEVICE_LOST}, {"lost:2", TN_OK, TN_OK}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    one o = {.m = mini_defaults()};
    o.m.fault = cases[i].fault;
    one_open(&o, 20, 64, 32, 2);
    CU_ASSERT_EQUAL(o.b.st, cases[i].build);
    if (o.b.st == TN_OK) CU_ASSERT_EQUAL(mini_step(&o.m, &o.b, o.x, false), cases[i].step);
    if (o.b.st != TN_OK) CU_ASSERT(o.m.err.code == o.b.st && o.m.err.message[0]);
    if (!strcmp(cases[i].fault, "lost:2")) {
      CU_ASSERT_EQUAL(mini_step(&o.m, &o.b, o.x, false), TN_E_DEVICE_LOST);
      CU_ASSERT(o.m.err.code == TN_E_DEVICE_LOST && strstr(o.m.err.message, "lost"));
    }
    one_close(&o);
  }
}

/* Every allocation fails once: a status, no leak. */
static void no_memory(void) {
  for (int64_t at = 1; at < 400; at++) {
    one o = {.m = mini_defaults()};
    OPEN(o.m);
    one_make(&o, 21, 64, 32, 2);
    const int64_t live = o.m.h.live;
    o.m.h.fail_at = at;
    o.b = mini_build(&o.m, &o.n, 64, false);
    const bool reached = o.m.h.fail_at == 0;
    CU_ASSERT_EQUAL(o.b.st, reached ? TN_E_NO_MEMORY : TN_OK);
    o.m.h.fail_at = 0;
    if (o.b.st == TN_OK) CU_ASSERT_EQUAL(mini_step(&o.m, &o.b, o.x, false), TN_OK);
    one_drop(&o);
    CU_ASSERT_EQUAL(o.m.h.live, live);
    CLOSE(o.m);
    if (!reached) return;
  }
  CU_FAIL("never ran out of allocations to fail");
}

static void cancel(void) {
  for (int32_t polls = 1; polls < 6; polls++) {
    one o = {.m = mini_defaults()};
    one_open(&o, 22, 64, 96, 2);
    CU_ASSERT_EQUAL_FATAL(o.b.st, TN_OK);
    o.m.h.cancel_after = polls * 25;
    CU_ASSERT_EQUAL(mini_step(&o.m, &o.b, o.x, false), TN_E_CANCELLED);
    CU_ASSERT_EQUAL(o.m.err.code, TN_E_CANCELLED);
    o.m.h.cancel_after = 0;
    o.m.err = (tn_error){.h = TN_HDR(tn_error)};
    CU_ASSERT_EQUAL(mini_step(&o.m, &o.b, o.x, false), TN_OK);
    one_close(&o);
  }
}

/* Two items, and a host that gives the second one up while the engine is at it: its arguments go when the engine has
 * let go of them, not before. */
static struct {
  tn_device *device;
  tn_args *second;
  pthread_t thread;
  int dones;
  int freed; /* atomic */
  int freed_early;
} given_up_state;

static void *free_second(void *unused) {
  (void)unused;
  given_up_state.device->args_free(given_up_state.second);
  __atomic_store_n(&given_up_state.freed, 1, __ATOMIC_RELEASE);
  return NULL;
}

static void count_done(tn_ticket *t, tn_status st, const tn_times *times, const tn_error *err) {
  (void)t, (void)times, (void)err;
  CU_ASSERT_EQUAL(st, TN_OK);
  if (given_up_state.dones++ == 0)
    CU_ASSERT_EQUAL_FATAL(pthread_create(&given_up_state.thread, NULL, free_second, NULL), 0);
}

static int32_t look_whether_freed(const tn_run *run) {
  const struct timespec moment = {.tv_nsec = 2000000};
  (void)run;
  if (given_up_state.dones != 1) return 0;
  nanosleep(&moment, NULL);
  given_up_state.freed_early |= __atomic_load_n(&given_up_state.freed, __ATOMIC_ACQUIRE);
  return 0;
}

static void given_up(void) {
  one o = {.m = mini_defaults()};
  one_open(&o, 23, 64, 96, 2);
  CU_ASSERT_EQUAL_FATAL(o.b.st, TN_OK);
  CU_ASSERT_EQUAL_FATAL(mini_step(&o.m, &o.b, o.x, false), TN_OK);
  const tn_task *t = o.b.info->tasks[1];
  const tn_view *views[MAX_SLOTS], scratch = {.h = TN_HDR(tn_view), .ptr = o.b.scratch[1], .bytes = 64};
  for (uint32_t i = 0; i < t->n_uses; i++) views[i] = &o.b.view[t->uses[i].slot];
  views[t->n_uses] = &scratch;
  given_up_state.device = o.m.device;
  CU_ASSERT_EQUAL_FATAL(o.m.device->args(o.b.plan[1], views, t->n_uses + 1, &given_up_state.second, &o.m.err), TN_OK);
  int tickets[2];
  const tn_item first = {.h = TN_HDR(tn_item), .plan = o.b.plan[1], .args = o.b.args[1], .ticket = (void *)&tickets[0]};
  const tn_item second = {
      .h = TN_HDR(tn_item), .plan = o.b.plan[1], .args = given_up_state.second, .ticket = (void *)&tickets[1]};
  const tn_item *items[2] = {&first, &second};
  tn_run run = mini_run(&o.m);
  run.cancelled = look_whether_freed;
  o.m.h.host.done = count_done;
  CU_ASSERT_EQUAL(o.m.device->submit(o.m.device, 1, items, 2, &run, &o.m.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(given_up_state.dones, 2);
  pthread_join(given_up_state.thread, NULL);
  CU_ASSERT_EQUAL(given_up_state.freed_early, 0);
  CU_ASSERT_EQUAL(given_up_state.freed, 1);
  one_close(&o);
}

static int open_files(void) {
  int n = 0;
  for (int fd = 0; fd < 1024; fd++) n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

/* A hundred times from the entry to shutdown: neither heap, nor descriptors, nor mappings grow. */
static void reopen(void) {
  size_t heap = 0;
  int files = 0;
  for (int i = 0; i < 100; i++) {
    one o = {.m = mini_defaults()};
    one_open(&o, 24, 64, 32, 2);
    CU_ASSERT_EQUAL(o.b.st, TN_OK);
    CU_ASSERT_EQUAL(mini_step(&o.m, &o.b, o.x, false), TN_OK);
    one_drop(&o);
    CU_ASSERT_EQUAL(mini_count(&o.m).registered_bytes, 0);
    CLOSE(o.m);
    if (i == 49) {
      heap = mallinfo2().uordblks;
      files = open_files();
    }
  }
  if (mallinfo2().uordblks >= heap + 2048) printf("(%zu bytes more) ", mallinfo2().uordblks - heap);
  CU_ASSERT(mallinfo2().uordblks < heap + 2048); /* freed chunks that malloc keeps at hand count too */
  CU_ASSERT_EQUAL(open_files(), files);
}

/* Wrong blobs, views, indices: statuses. */
static void misuse(void) {
  rng r = rng_of(23);
  mini m = mini_defaults();
  OPEN(m);
  net n;
  net_init(&n, 64, 1, (int64_t[]){32}, 0.25f, &r);
  net_build(&n, m.chunk);
  built b = mini_build(&m, &n, 64, false);
  CU_ASSERT_EQUAL_FATAL(b.st, TN_OK);
  const tn_id w = b.info->tasks[1]->uses[2].slot, rows = b.info->tasks[2]->uses[3].slot;
  tn_blob blob = b.blob[w];
  tn_view v = b.view[w];
  v.buffer = NULL;
  CU_ASSERT_EQUAL(m.device->set(b.p, w, &v, &blob, NULL), TN_E_INVALID); /* a pointer is no memory of the device */
  CU_ASSERT_EQUAL(m.device->set(b.p, w, NULL, &blob, NULL), TN_E_INVALID);
  v = b.view[w];
  v.offset = 64;
  CU_ASSERT_EQUAL(m.device->set(b.p, w, &v, &blob, NULL), TN_E_INVALID);
  blob.K--;
  CU_ASSERT_EQUAL(m.device->set(b.p, w, &b.view[w], &blob, NULL), TN_E_INVALID);
  blob = b.blob[w];
  blob.bytes--;
  CU_ASSERT_EQUAL(m.device->set(b.p, w, &b.view[w], &blob, NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(m.device->set(b.p, w, &b.view[w], &b.blob[rows], NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(m.device->set(b.p, rows, NULL, &b.blob[w], NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(m.device->set(b.p, 99, NULL, NULL, NULL), TN_E_INVALID);
  const tn_task *t = b.info->tasks[1];
  const tn_view *views[8];
  tn_args *args = NULL;
  for (uint32_t i = 0; i < t->n_uses; i++) views[i] = &b.view[t->uses[i].slot];
  views[t->n_uses] = NULL;
  tn_view host = b.view[t->uses[0].slot];
  host.buffer = NULL;
  views[0] = &host;
  CU_ASSERT_EQUAL(m.device->args(b.plan[1], views, t->n_uses + 1, &args, &m.err), TN_E_INVALID);
  CU_ASSERT(strstr(m.err.message, "memory of the device") != NULL);
  host = b.view[t->uses[0].slot];
  host.bytes--;
  CU_ASSERT_EQUAL(m.device->args(b.plan[1], views, t->n_uses + 1, &args, NULL), TN_E_INVALID);
  views[0] = &b.view[t->uses[0].slot];
  CU_ASSERT_EQUAL(m.device->args(b.plan[1], views, t->n_uses, &args, NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(m.device->args_set(b.args[1], 9, views[0], NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(m.device->args_set(b.args[1], 0, views[0], NULL), TN_OK);
  CU_ASSERT(args == NULL);
  const tn_item none = {.h = TN_HDR(tn_item)};
  const tn_item *items[1] = {&none};
  CU_ASSERT_EQUAL(m.device->submit(m.device, 1, items, 1, NULL, NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(m.device->submit(m.device, 2, items, 0, NULL, NULL), TN_E_INVALID);
  mini_unbuild(&m, &b);
  net_free(&n);
  CLOSE(m);
}

bool add_device_suite(void) {
  CU_TestInfo tests[] = {{"claims", claims},         {"refusals", refusals},       {"batch", batch},
                         {"other rows", other_rows}, {"bad options", bad_options}, {"buffers", buffers},
                         {"times", times},           {"kept graphs", kept_graphs}, {"device faults", device_faults},
                         {"no memory", no_memory},   {"cancel", cancel},           {"given up", given_up},
                         {"reopen", reopen},         {"misuse", misuse},           CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"device", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  return CU_register_suites(suites) == CUE_SUCCESS;
}
