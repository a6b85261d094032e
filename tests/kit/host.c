/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kit/host.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FILL = 0xa5, MOST_PIECES = 8 };

static kit_host *host_of(tn_host_ctx *ctx) { return (kit_host *)(void *)ctx; }

/* --- memory, lines, time ------------------------------------------------------------------------------------------ */

static void *host_alloc(tn_host_ctx *ctx, size_t bytes, size_t align, uint32_t tag) {
  kit_host *h = host_of(ctx);
  void *p = NULL;
  (void)tag;
  __atomic_fetch_add(&h->total, 1, __ATOMIC_RELAXED);
  if (h->fail_at && --h->fail_at == 0) return NULL;
  if (posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, bytes ? bytes : 1)) return NULL;
  memset(p, FILL, bytes); /* uninitialised memory must not be relied on */
  __atomic_fetch_add(&h->live, 1, __ATOMIC_RELAXED);
  return p;
}

static void host_free(tn_host_ctx *ctx, void *p) {
  if (p) __atomic_fetch_sub(&host_of(ctx)->live, 1, __ATOMIC_RELAXED);
  free(p);
}

static void host_log(tn_host_ctx *ctx, uint32_t level, const char *line) {
  kit_host *h = host_of(ctx);
  (void)level;
  snprintf(h->line, sizeof h->line, "%s", line);
}

static int64_t host_now(tn_host_ctx *ctx) {
  struct timespec t;
  (void)ctx;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* --- what a plugin may ask for and has no use of here ------------------------------------------------------------- */

static uint32_t host_name_id(tn_host_ctx *ctx, const char *name) { return (void)ctx, (void)name, 0; }
static void host_span(tn_host_ctx *ctx, uint32_t name, uint32_t clock, int64_t start, int64_t end) {
  (void)ctx, (void)name, (void)clock, (void)start, (void)end;
}
static tn_status host_resource(tn_host_ctx *ctx, const char *rel, const void **data, uint64_t *n) {
  return (void)ctx, (void)rel, (void)data, (void)n, TN_E_UNAVAILABLE;
}
static const void *host_extension(tn_host_ctx *ctx, const char *name, uint32_t version) {
  return (void)ctx, (void)name, (void)version, NULL;
}
static int32_t host_cancelled(tn_host_ctx *ctx) { return (void)ctx, 0; }

/* One after the other. */
static tn_status host_offsets(tn_host_ctx *ctx, uint32_t n, tn_interval *iv, uint64_t *total) {
  uint64_t at = 0;
  (void)ctx;
  for (uint32_t i = 0; i < n; i++) {
    iv[i].offset = (at + iv[i].align - 1) & ~(iv[i].align - 1);
    at = iv[i].offset + iv[i].bytes;
  }
  return *total = at, TN_OK;
}

/* --- the cache ---------------------------------------------------------------------------------------------------- */

/* Index of the key, or c->n. */
static uint32_t cache_find(const kit_cache *c, const void *key, uint64_t n) {
  uint32_t i = 0;
  while (i < c->n && (c->entry[i].n_key != n || memcmp(c->entry[i].key, key, n) != 0)) i++;
  return i;
}

static tn_status host_cache_get(tn_host_ctx *ctx, const void *key, uint64_t nkey, const void **data, uint64_t *n) {
  const kit_cache *c = host_of(ctx)->cache;
  const uint32_t i = c ? cache_find(c, key, nkey) : 0;
  if (!c || i == c->n) return TN_E_UNAVAILABLE;
  *data = c->entry[i].data;
  *n = c->entry[i].n_data;
  return TN_OK;
}

static void *copy_of(const void *p, uint64_t n) {
  void *q = malloc(n + 1);
  if (!q) abort();
  return memcpy(q, p, n);
}

static tn_status host_cache_put(tn_host_ctx *ctx, const void *key, uint64_t nkey, const void *data, uint64_t n) {
  kit_cache *c = host_of(ctx)->cache;
  const uint32_t i = c ? cache_find(c, key, nkey) : 0;
  if (!c || i == KIT_CACHED) return TN_OK;
  if (i == c->n) {
    c->entry[c->n++].key = copy_of(key, nkey);
    c->entry[i].n_key = nkey;
  }
  free(c->entry[i].data);
  c->entry[i].data = copy_of(data, n);
  c->entry[i].n_data = n;
  c->puts++;
  return TN_OK;
}

void kit_cache_free(kit_cache *c) {
  for (uint32_t i = 0; i < c->n; i++) {
    free(c->entry[i].key);
    free(c->entry[i].data);
  }
  *c = (kit_cache){.n = 0};
}

void kit_cache_copy(kit_cache *to, const kit_cache *from) {
  kit_cache_free(to);
  *to = *from;
  for (uint32_t i = 0; i < from->n; i++) {
    to->entry[i].key = copy_of(from->entry[i].key, from->entry[i].n_key);
    to->entry[i].data = copy_of(from->entry[i].data, from->entry[i].n_data);
  }
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

static void host_done(tn_ticket *t, tn_status st, const tn_times *times, const tn_error *err) {
  if (times) t->times = *times;
  if (err) t->err = *err;
  t->st = st;
  __atomic_add_fetch(&t->done, 1, __ATOMIC_RELEASE);
}

static int32_t run_cancelled(const tn_run *run) {
  kit_host *h = run->ctx;
  return h->cancel_after && __atomic_add_fetch(&h->polls, 1, __ATOMIC_RELAXED) > h->cancel_after;
}

typedef struct piece {
  tn_body body;
  void *arg;
  int64_t begin, end;
  uint32_t worker;
} piece;

static void *piece_run(void *arg) {
  piece *p = arg;
  if (p->begin < p->end) p->body(p->arg, p->begin, p->end, p->worker);
  return NULL;
}

static void pieces_backwards(int64_t n, tn_body body, void *arg) {
  for (int64_t i = 3; i-- > 0;) piece_run(&(piece){body, arg, n * i / 3, n * (i + 1) / 3, (uint32_t)i});
}

static void run_parallel_for(tn_run *run, int64_t n, int64_t grain, tn_body body, void *arg) {
  const kit_host *h = run->ctx;
  const int64_t parts = h->threads ? h->threads : 1;
  pthread_t t[MOST_PIECES];
  piece p[MOST_PIECES];
  if (grain < 1 || parts > MOST_PIECES) abort();
  if (h->backwards) {
    pieces_backwards(n, body, arg);
    return;
  }
  for (int64_t i = 0; i < parts; i++) {
    p[i] = (piece){body, arg, n * i / parts, n * (i + 1) / parts, (uint32_t)i};
    if (i == parts - 1)
      piece_run(&p[i]);
    else if (pthread_create(&t[i], NULL, piece_run, &p[i]))
      abort();
  }
  for (int64_t i = 0; i + 1 < parts; i++) pthread_join(t[i], NULL);
}

tn_run kit_host_run(kit_host *h) {
  return (tn_run){.h = TN_HDR(tn_run),
                  .ctx = h,
                  .n_workers = h->host.max_workers,
                  .parallel_for = run_parallel_for,
                  .cancelled = run_cancelled};
}

/* --- the host ----------------------------------------------------------------------------------------------------- */

void kit_host_init(kit_host *h, uint32_t max_workers) {
  h->live = h->total = h->fail_at = h->polls = 0;
  h->line[0] = '\0';
  h->host = (tn_host){.h = TN_HDR(tn_host),
                      .ctx = (tn_host_ctx *)(void *)h,
                      .max_workers = max_workers,
                      .alloc = host_alloc,
                      .free = host_free,
                      .log = host_log,
                      .now = host_now,
                      .name_id = host_name_id,
                      .span = host_span,
                      .resource = host_resource,
                      .cache_get = host_cache_get,
                      .cache_put = host_cache_put,
                      .offsets = host_offsets,
                      .done = host_done,
                      .get_extension = host_extension,
                      .cancelled = host_cancelled};
}

bool kit_host_load(kit_host *h, const char *so, tn_plugin **plugin, tn_error *err) {
  tn_negotiate neg = {.h = TN_HDR(tn_negotiate)};
  const tn_caps *caps = NULL;
  tn_entry_v1 entry = NULL;
  uint32_t n = 0;
  void *lib = dlopen(so, RTLD_NOW | RTLD_LOCAL);
  *plugin = NULL;
  if (!lib) return printf("%s\n", dlerror()), false;
  *(void **)&entry = dlsym(lib, TN_ENTRY_SYMBOL);
  if (!entry || entry(&h->host, &neg, plugin) != TN_OK) return false;
  return (*plugin)->enumerate(*plugin, 1, &caps, &n, err) == TN_OK && n == 1;
}
