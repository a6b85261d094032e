/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/services.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/view.h"
#include "runtime/plugin/blobcache.h"
#include "runtime/plugin/ticket.h"
#include "runtime/plugin/trust.h"

enum { MAX_SPAN_NAMES = 4096, MAX_NAME = 127, BLOCK_MAGIC = 0x746e616c, FREED_MAGIC = 0x746e6672 };

/* A mapping that lives until shutdown; name NULL: a cache entry. */
typedef struct mapping {
  struct mapping *next;
  tni_file file;
  const char *name;
} mapping;

struct tn_host_ctx {
  tn_host host;
  tni_services_opts o;
  tni_arena *arena; /* under lock once the plugin runs */
  pthread_mutex_t lock;
  mapping *mappings; /* under lock */
  const tni_option_value *options;
  uint32_t n_options;
  uint8_t *identity; /* prefix of every cache key; NULL: no cache */
  size_t n_identity;
  char track_host[96], track_device[96];
  atomic_uint n_names;
  const char *names[MAX_SPAN_NAMES]; /* [0, n_names) are final */
  atomic_uint_least64_t bytes, peak, blocks;
  atomic_int cancel, ahead;
};

/* ------------------------------------------------------------------------------------------------------- memory */

/* Stands right before each block. */
typedef struct block_header {
  tn_host_ctx *ctx;
  void *raw;
  uint64_t bytes;
  uint32_t magic, tag;
} block_header;

static bool reserve_scratch(tn_host_ctx *c, uint64_t bytes) {
  uint64_t now = atomic_fetch_add(&c->bytes, bytes) + bytes;
  if (c->o.memory_limit && now > c->o.memory_limit) {
    atomic_fetch_sub(&c->bytes, bytes);
    return false;
  }
  uint64_t peak = atomic_load(&c->peak);
  while (now > peak && !atomic_compare_exchange_weak(&c->peak, &peak, now)) continue;
  return true;
}

static void *host_alloc(tn_host_ctx *c, size_t bytes, size_t align, uint32_t tag) {
  size_t total;
  if (align & (align - 1)) return NULL;
  if (align < 16) align = 16;
  if (!tni_add_size(bytes, align, &total) || !tni_add_size(total, sizeof(block_header), &total)) return NULL;
  if (bytes > INT64_MAX || !reserve_scratch(c, bytes)) return NULL;
  unsigned char *raw = malloc(total);
  if (!raw) {
    atomic_fetch_sub(&c->bytes, bytes);
    return NULL;
  }
  uintptr_t at = ((uintptr_t)raw + sizeof(block_header) + align - 1) & ~(uintptr_t)(align - 1);
  unsigned char *p = raw + (at - (uintptr_t)raw);
  block_header h = {c, raw, bytes, BLOCK_MAGIC, tag};
  memcpy(p - sizeof h, &h, sizeof h);
  atomic_fetch_add(&c->blocks, 1);
  return p;
}

static void host_free(tn_host_ctx *c, void *p) {
  if (!p) return;
  block_header h;
  unsigned char *at = (unsigned char *)p - sizeof h;
  memcpy(&h, at, sizeof h);
  if (h.magic != BLOCK_MAGIC || h.ctx != c) {
    tni_log_line(&c->o.log, TN_LOG_ERROR, "%s: free of %p, which this plugin did not get from alloc; ignored",
                 c->o.name, p);
    return;
  }
  h.magic = FREED_MAGIC;
  memcpy(at, &h, sizeof h);
  atomic_fetch_sub(&c->bytes, h.bytes);
  atomic_fetch_sub(&c->blocks, 1);
  free(h.raw);
}

void tni_services_memory_get(tn_host_ctx *c, tni_services_memory *out) {
  *out = (tni_services_memory){atomic_load(&c->bytes), atomic_load(&c->peak), atomic_load(&c->blocks)};
}

/* ---------------------------------------------------------------------------------------------- log, clock, trace */

static void host_log(tn_host_ctx *c, uint32_t level, const char *line) {
  if (!line) return;
  char clean[512];
  size_t n = strnlen(line, sizeof clean - 1);
  for (size_t i = 0; i < n; i++) clean[i] = (unsigned char)line[i] < 0x20 ? ' ' : line[i];
  clean[n] = '\0';
  tni_log_line(&c->o.log, level <= TN_LOG_DEBUG ? level : TN_LOG_DEBUG, "%s: %s", c->o.name, clean);
}

static int64_t host_now(tn_host_ctx *c) {
  (void)c;
  return tni_now_ns();
}

static uint32_t host_name_id(tn_host_ctx *c, const char *name) {
  if (!name) return TN_NONE;
  pthread_mutex_lock(&c->lock);
  uint32_t n = atomic_load_explicit(&c->n_names, memory_order_relaxed), id = 0;
  while (id < n && strncmp(c->names[id], name, MAX_NAME) != 0) id++;
  if (id == n) {
    const char *copy = n < MAX_SPAN_NAMES ? tni_arena_strndup(c->arena, name, strnlen(name, MAX_NAME)) : NULL;
    if (copy) {
      c->names[n] = copy;
      atomic_store_explicit(&c->n_names, n + 1, memory_order_release);
    } else {
      id = TN_NONE;
    }
  }
  pthread_mutex_unlock(&c->lock);
  return id;
}

static void host_span(tn_host_ctx *c, uint32_t name, uint32_t clock, int64_t start, int64_t end) {
  const tni_trace_sink *t = c->o.trace;
  if (!t || !t->span || name >= atomic_load_explicit(&c->n_names, memory_order_acquire)) return;
  t->span(t->user, clock ? c->track_device : c->track_host, c->names[name], clock, start, end, 0);
}

/* ------------------------------------------------------------------------------------- options, files and cache */

static tn_status host_option(tn_host_ctx *c, const char *key, uint32_t type, void *out) {
  for (uint32_t i = 0; key && out && i < c->n_options; i++) {
    const tni_option_value *v = &c->options[i];
    if (v->type != type || strcmp(v->key, key) != 0) continue;
    if (type == TN_OPT_FLOAT)
      *(double *)out = v->d;
    else if (type == TN_OPT_STRING)
      *(const char **)out = v->s;
    else
      *(int64_t *)out = v->i;
    return TN_OK;
  }
  return TN_E_INVALID;
}

static mapping *keep_mapping(tn_host_ctx *c, const tni_file *f, const char *name) {
  mapping *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->file = *f;
  m->name = name ? tni_arena_strdup(c->arena, name) : NULL;
  if (name && !m->name) {
    free(m);
    return NULL;
  }
  m->next = c->mappings;
  c->mappings = m;
  return m;
}

static tn_status map_resource(tn_host_ctx *c, const char *rel, mapping **out) {
  for (mapping *m = c->mappings; m; m = m->next)
    if (m->name && strcmp(m->name, rel) == 0) return *out = m, TN_OK;
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/%s", c->o.folder, rel) >= (int)sizeof path) return TN_E_INVALID;
  tn_error err = {0};
  tni_file f;
  const uint32_t allow = (c->o.allow_shared_writable ? TNI_TRUST_SHARED : 0) | (c->o.any_owner ? TNI_TRUST_OWNER : 0);
  tn_status st = tni_trust_map(path, allow, true, &f, &err);
  if (st != TN_OK) {
    tni_log_line(&c->o.log, TN_LOG_WARN, "%s: resource %s: %s", c->o.name, path, err.message);
    return st;
  }
  *out = keep_mapping(c, &f, rel);
  if (*out) return TN_OK;
  tni_file_unmap(&f);
  return TN_E_NO_MEMORY;
}

void tni_services_resources(tn_host_ctx *c, tni_resource_sink each, void *user) {
  pthread_mutex_lock(&c->lock);
  for (const mapping *m = c->mappings; m; m = m->next)
    if (m->name) each(user, m->name);
  pthread_mutex_unlock(&c->lock);
}

bool tni_resource_name(const char *s) {
  return *s && !strchr(s, '/') && !strchr(s, '\\') && strcmp(s, ".") != 0 && !strstr(s, "..");
}

static tn_status host_resource(tn_host_ctx *c, const char *rel, const void **data, uint64_t *n) {
  if (!rel || !data || !n || !tni_resource_name(rel)) return TN_E_INVALID;
  if (!c->o.folder) return TN_E_UNAVAILABLE;
  mapping *m = NULL;
  pthread_mutex_lock(&c->lock);
  tn_status st = map_resource(c, rel, &m);
  pthread_mutex_unlock(&c->lock);
  if (st != TN_OK) return st;
  *data = m->file.data;
  *n = m->file.bytes;
  return TN_OK;
}

/* identity + key; the caller frees it. */
static uint8_t *full_key(const tn_host_ctx *c, const void *key, uint64_t nkey) {
  if (!c->identity || !c->o.ahead_dir || !key || !nkey || nkey > TNI_BLOB_MAX_KEY - c->n_identity) return NULL;
  uint8_t *k = malloc(c->n_identity + (size_t)nkey);
  if (!k) return NULL;
  memcpy(k, c->identity, c->n_identity);
  memcpy(k + c->n_identity, key, (size_t)nkey);
  return k;
}

/* In DIR/plugins/NAME, or FOLDER of it. */
static tn_status find_blob(const tn_host_ctx *c, const char *dir, const char *folder, uint32_t allow, const void *k,
                           uint64_t n, tni_file *f, const void **data, uint64_t *bytes) {
  char path[PATH_MAX];
  if (!dir || snprintf(path, sizeof path, "%s/plugins/%s%s", dir, c->o.name, folder) >= (int)sizeof path)
    return TN_E_UNAVAILABLE;
  return tni_blob_get_of(path, allow, k, n, &c->o.log, f, data, bytes);
}

static tn_status host_cache_get(tn_host_ctx *c, const void *key, uint64_t nkey, const void **data, uint64_t *n) {
  if (!key || !nkey || !data || !n) return TN_E_INVALID;
  uint8_t *k = full_key(c, key, nkey);
  tni_file f;
  const void *d;
  uint64_t bytes;
  if (!k) return TN_E_UNAVAILABLE;
  tn_status st = find_blob(c, c->o.cache_dir, "", 0, k, c->n_identity + nkey, &f, &d, &bytes);
  if (st != TN_OK)
    st = find_blob(c, c->o.ahead_dir, "/" TNI_AHEAD, c->o.any_owner ? TNI_TRUST_ANY : 0, k, c->n_identity + nkey, &f, &d,
                   &bytes);
  free(k);
  if (st != TN_OK) return st;
  pthread_mutex_lock(&c->lock);
  mapping *m = keep_mapping(c, &f, NULL);
  pthread_mutex_unlock(&c->lock);
  if (!m) {
    tni_file_unmap(&f);
    return TN_E_NO_MEMORY;
  }
  *data = d;
  *n = bytes;
  return TN_OK;
}

static tn_status host_cache_put(tn_host_ctx *c, const void *key, uint64_t nkey, const void *data, uint64_t n) {
  if (!key || !nkey || (n && !data)) return TN_E_INVALID;
  if (n > TNI_BLOB_MAX_BYTES) return TN_E_LIMIT;
  const bool ahead = atomic_load(&c->ahead);
  const char *dir = ahead ? c->o.ahead_dir : c->o.cache_dir;
  uint8_t *k = dir ? full_key(c, key, nkey) : NULL;
  if (!k) return TN_OK; /* "put may quietly keep nothing" */
  tn_error err = {0};
  char name[NAME_MAX + sizeof "/" TNI_AHEAD];
  snprintf(name, sizeof name, "%s%s", c->o.name, ahead ? "/" TNI_AHEAD : "");
  if (tni_blob_put(dir, name, k, c->n_identity + nkey, n ? data : "", n, &err) != TN_OK)
    tni_log_line(&c->o.log, TN_LOG_WARN, "%s: nothing cached: %s", c->o.name, err.message);
  free(k);
  return TN_OK;
}

/* ------------------------------------------------------------------------------------- symbolic dims and the rest */

static tn_status host_eval(const tn_graph *g, tn_expr e, const tn_dims *dims, int64_t *out) {
  if (!g || !g->ctx || !g->ctx->exprs || !dims || !out) return TN_E_INVALID;
  return tni_ex_eval(g->ctx->exprs, e, dims->v, dims->n, out);
}

static tn_status host_range(const tn_graph *g, tn_expr e, int64_t *lo, int64_t *hi) {
  if (!g || !g->ctx || !g->ctx->exprs || !lo || !hi || e == TNI_EXPR_NONE) return TN_E_INVALID;
  tni_ex_range(g->ctx->exprs, e, lo, hi);
  return TN_OK;
}

static int32_t host_divides(const tn_graph *g, tn_expr e, int64_t k) {
  if (!g || !g->ctx || !g->ctx->exprs || e == TNI_EXPR_NONE || k == 0) return -1;
  return tni_ex_divides(g->ctx->exprs, e, k);
}

static uint64_t host_symbols(const tn_graph *g, tn_expr e) {
  if (!g || !g->ctx || !g->ctx->exprs || e == TNI_EXPR_NONE) return UINT64_MAX;
  return tni_ex_symbols(g->ctx->exprs, e);
}

static int32_t host_order(const tn_graph *g, tn_expr a, tn_expr b) {
  if (!g || !g->ctx || !g->ctx->exprs || a == TNI_EXPR_NONE || b == TNI_EXPR_NONE) return 2;
  return tni_ex_order(g->ctx->exprs, a, b);
}

static tn_status host_offsets(tn_host_ctx *c, uint32_t n, tn_interval *iv, uint64_t *total) {
  (void)c;
  if (!total || (n && !iv)) return TN_E_INVALID;
  return tni_plan_offsets(n, iv, total);
}

static const void *host_get_extension(tn_host_ctx *c, const char *name, uint32_t version) {
  (void)c;
  return name && version == 1 && strcmp(name, TNI_CORE_GRAPH) == 0 ? tni_core_graph_get() : NULL;
}

static int32_t host_cancelled(tn_host_ctx *c) {
  if (!c) return 0;
  const bool stop = c->o.stop_call && __atomic_load_n(c->o.stop_call, __ATOMIC_RELAXED);
  return stop || atomic_load_explicit(&c->cancel, memory_order_relaxed);
}

void tni_services_ahead(tn_host_ctx *c, bool on) { atomic_store(&c->ahead, on); }

void tni_services_cancel(tn_host_ctx *c, bool on) { atomic_store(&c->cancel, on); }

/* --------------------------------------------------------------------------------------------------------- life */

static const tn_host host_services = {
    .h = TN_HDR(tn_host),
    .alloc = host_alloc,
    .free = host_free,
    .log = host_log,
    .now = host_now,
    .name_id = host_name_id,
    .span = host_span,
    .option = host_option,
    .resource = host_resource,
    .cache_get = host_cache_get,
    .cache_put = host_cache_put,
    .eval = host_eval,
    .range = host_range,
    .divides = host_divides,
    .order = host_order,
    .symbols = host_symbols,
    .offsets = host_offsets,
    .done = tni_ticket_done,
    .get_extension = host_get_extension,
    .cancelled = host_cancelled,
};

static const char *dup_or_null(tni_arena *a, const char *s, bool *ok) {
  const char *d = s ? tni_arena_strdup(a, s) : NULL;
  if (s && !d) *ok = false;
  return d;
}

tn_status tni_services_create(const tni_services_opts *o, tn_host_ctx **out, tn_error *err) {
  tn_host_ctx *c = calloc(1, sizeof *c);
  tni_arena *a = c ? tni_arena_create() : NULL;
  if (!a || pthread_mutex_init(&c->lock, NULL) != 0) {
    tni_arena_destroy(a);
    free(c);
    return tni_fail_memory(err, o->name);
  }
  bool ok = true;
  c->arena = a;
  c->o = *o;
  c->o.name = dup_or_null(a, o->name, &ok);
  c->o.folder = dup_or_null(a, o->folder, &ok);
  c->o.cache_dir = dup_or_null(a, o->cache_dir, &ok);
  c->o.ahead_dir = dup_or_null(a, o->ahead_dir ? o->ahead_dir : o->cache_dir, &ok);
  snprintf(c->track_host, sizeof c->track_host, "%s:cpu", o->name);
  snprintf(c->track_device, sizeof c->track_device, "%s:device", o->name);
  c->host = host_services;
  c->host.ctx = c;
  c->host.max_workers = o->max_workers;
  c->host.flags = o->flags;
  if (!ok) {
    tni_services_destroy(c);
    return tni_fail_memory(err, o->name);
  }
  *out = c;
  return TN_OK;
}

void tni_services_destroy(tn_host_ctx *c) {
  if (!c) return;
  if (atomic_load(&c->blocks))
    tni_log_line(&c->o.log, TN_LOG_WARN, "%s: %llu bytes in %llu blocks were never freed", c->o.name,
                 (unsigned long long)atomic_load(&c->bytes), (unsigned long long)atomic_load(&c->blocks));
  for (mapping *m = c->mappings, *next; m; m = next) {
    next = m->next;
    tni_file_unmap(&m->file);
    free(m);
  }
  pthread_mutex_destroy(&c->lock);
  tni_arena_destroy(c->arena);
  free(c);
}

const tn_host *tni_services_host(tn_host_ctx *c) { return &c->host; }
tni_arena *tni_services_arena(tn_host_ctx *c) { return c->arena; }

void tni_services_set_options(tn_host_ctx *c, const tni_option_value *values, uint32_t n) {
  c->options = values;
  c->n_options = n;
}

tn_status tni_services_set_identity(tn_host_ctx *c, const char *build_id, const uint8_t (*keys)[32], uint32_t n) {
  size_t len = build_id ? strnlen(build_id, 256) : 0, bytes;
  if (!len) return TN_OK;
  if (!tni_mul_size(n, 32, &bytes) || !tni_add_size(bytes, len + 1, &bytes)) return TN_E_LIMIT;
  uint8_t *id = tni_arena_alloc(c->arena, bytes, 1);
  if (!id) return TN_E_NO_MEMORY;
  memcpy(id, build_id, len);
  if (n) memcpy(id + len + 1, keys, (size_t)n * 32);
  c->identity = id;
  c->n_identity = bytes;
  return TN_OK;
}
