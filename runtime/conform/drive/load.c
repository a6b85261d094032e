/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/drive/load.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/conform/observe/observe.h"
#include "runtime/host/host.h"
#include "runtime/plugin/plugin.h"

static tni_cf_services *services_of(tn_host_ctx *ctx) { return (tni_cf_services *)ctx; }

/* --- blocks between pages ---------------------------------------------------------------------------------------- */

/* A block between two pages that may not be touched. */
struct tni_cf_exact {
  struct tni_cf_exact *next;
  uint8_t *map;
  size_t bytes;
};

enum { MOST_CLOSED = 1 << 14 };
enum { PAGE = 4096, MOST_FILLED = 1 << 30, HUGE = 1 << 26 };
static const size_t MOST_HUGE = (size_t)1 << 38;

static void *exact_alloc(tni_cf_services *h, size_t bytes) {
  struct tni_cf_exact *b = malloc(sizeof *b);
  const int spare = bytes < HUGE ? 0 : MAP_NORESERVE;
  uint8_t *map =
      b ? mmap(NULL, bytes + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | spare, -1, 0) : MAP_FAILED;
  if (map == MAP_FAILED) return free(b), NULL;
  if (spare) (void)madvise(map, bytes + 2 * PAGE, MADV_NOHUGEPAGE);
  (void)mprotect(map, PAGE, PROT_NONE);
  (void)mprotect(map + PAGE + bytes, PAGE, PROT_NONE);
  pthread_mutex_lock(&h->lock);
  *b = (struct tni_cf_exact){.next = h->exacts, .map = map, .bytes = bytes + 2 * PAGE};
  h->exacts = b;
  pthread_mutex_unlock(&h->lock);
  return map + PAGE;
}

static bool exact_free(tni_cf_services *h, const void *p) {
  struct tni_cf_exact *found = NULL;
  pthread_mutex_lock(&h->lock);
  for (struct tni_cf_exact **at = &h->exacts; *at && !found; at = found ? at : &(*at)->next)
    if ((*at)->map + PAGE == p) found = *at, *at = found->next;
  pthread_mutex_unlock(&h->lock);
  if (found && h->closed) {
    (void)mprotect(found->map, found->bytes, PROT_NONE);
    (void)madvise(found->map, found->bytes, MADV_DONTNEED); /* the addresses are kept, not the memory */
    tni_cf_loan_gone(found->map, found->bytes, "memory that the plugin has given back to the host");
  } else if (found) {
    (void)munmap(found->map, found->bytes);
  }
  free(found);
  return found != NULL;
}

/* --- faults ------------------------------------------------------------------------------------------------------ */

/* eval and range get no host: what fails is the process's. */
static struct {
  atomic_uint which;
  atomic_llong calls, at;
  _Atomic(tn_status (*)(const tn_graph *, tn_expr, const tn_dims *, int64_t *)) eval;
  _Atomic(tn_status (*)(const tn_graph *, tn_expr, int64_t *, int64_t *)) range;
} faults;

void tni_cf_fault_begin(uint32_t which, long long at) {
  atomic_store(&faults.calls, 0);
  atomic_store(&faults.at, at);
  atomic_store(&faults.which, which);
}
long long tni_cf_fault_count(void) { return atomic_load(&faults.calls); }
long long tni_cf_fault_end(void) {
  atomic_store(&faults.which, 0);
  return atomic_load(&faults.calls);
}

static bool fault_due(uint32_t which) {
  return atomic_load(&faults.which) == which && atomic_fetch_add(&faults.calls, 1) + 1 == atomic_load(&faults.at);
}

static tn_status cf_eval(const tn_graph *g, tn_expr e, const tn_dims *dims, int64_t *out) {
  return fault_due(TNI_CF_FAULT_DIMS) ? TN_E_LIMIT : atomic_load(&faults.eval)(g, e, dims, out);
}
static tn_status cf_range(const tn_graph *g, tn_expr e, int64_t *lo, int64_t *hi) {
  return fault_due(TNI_CF_FAULT_DIMS) ? TN_E_LIMIT : atomic_load(&faults.range)(g, e, lo, hi);
}

/* --- blobs ------------------------------------------------------------------------------------------------------- */

struct tni_cf_kept {
  struct tni_cf_kept *next;
  uint64_t n_key, n;
  uint8_t bytes[]; /* the key, then the data */
};
static tni_cf_blobs *held;
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;

void tni_cf_blobs_hold(tni_cf_blobs *b) {
  pthread_mutex_lock(&held_lock);
  held = b;
  if (b) b->found = 0;
  pthread_mutex_unlock(&held_lock);
}

static void free_kept(struct tni_cf_kept *k) {
  for (struct tni_cf_kept *next; k; k = next) next = k->next, free(k);
}
void tni_cf_blobs_free(tni_cf_blobs *b) {
  free_kept(b->first);
  free_kept(b->lent);
  b->first = b->lent = NULL;
}

static struct tni_cf_kept *add_kept(struct tni_cf_kept **list, const void *key, uint64_t nkey, const void *data, uint64_t n) {
  struct tni_cf_kept *k = malloc(sizeof *k + nkey + n);
  if (!k) return NULL;
  *k = (struct tni_cf_kept){.next = *list, .n_key = nkey, .n = n};
  memcpy(k->bytes, key, nkey);
  memcpy(k->bytes + nkey, data, n);
  return *list = k;
}

static void spoil(uint32_t way, uint8_t *data, uint64_t *n) {
  if (!way || !*n) return;
  if (way == 2) *n /= 2;
  if (way == 5) --*n;
  if (way == 2 || way == 5) return;
  data[way == 1 ? *n / 2 : way == 3 ? *n - 1 : way == 6 ? *n / 4 : way == 7 ? *n - 1 - *n / 4 : 0] ^= 4;
}

/* The plugin's memory until it is shut down: every answer is a copy, spoiled where that is asked for. */
static tn_status held_get(tni_cf_blobs *b, const void *key, uint64_t nkey, const void **data, uint64_t *n) {
  const struct tni_cf_kept *k = b->first;
  while (k && !(k->n_key == nkey && !memcmp(k->bytes, key, nkey))) k = k->next;
  if (!k) return TN_E_UNAVAILABLE;
  struct tni_cf_kept *copy = add_kept(&b->lent, key, nkey, k->bytes + nkey, k->n);
  if (!copy) return TN_E_NO_MEMORY;
  if (!b->every || b->found++ % b->every == b->turn % b->every) spoil(b->spoil, copy->bytes + nkey, &copy->n);
  b->hits++;
  *data = copy->bytes + nkey;
  *n = copy->n;
  return TN_OK;
}

/* What a spoiled blob is replaced by is spoiled too. */
static tn_status held_put(tni_cf_blobs *b, const void *key, uint64_t nkey, const void *data, uint64_t n) {
  if (!add_kept(&b->first, key, nkey, data, n)) return TN_E_NO_MEMORY;
  b->puts++;
  return TN_OK;
}

/* --- services, counted ------------------------------------------------------------------------------------------- */

static void *cf_alloc(tn_host_ctx *ctx, size_t bytes, size_t align, uint32_t tag) {
  tni_cf_services *h = services_of(ctx);
  const long long n = atomic_fetch_add(&h->total, 1) + 1, from = atomic_load(&h->fail_from);
  if (n == atomic_load(&h->fail_at) || (from && n >= from)) {
    atomic_fetch_add(&h->failed, 1);
    return NULL;
  }
  const bool closed = h->closed && bytes < MOST_FILLED && n < MOST_CLOSED;
  const bool exact = closed || (h->exact && bytes && bytes % PAGE == 0) || (h->huge && bytes >= HUGE && bytes < MOST_HUGE);
  void *p = exact && align <= PAGE ? exact_alloc(h, (bytes + PAGE - 1) / PAGE * PAGE)
                                   : h->base->alloc(h->base->ctx, bytes, align, tag);
  if (p && bytes < (h->huge ? HUGE : MOST_FILLED)) memset(p, 0xa5, bytes); /* nobody relies on what new memory holds */
  if (p) atomic_fetch_add(&h->live, 1);
  return p;
}
static void cf_free(tn_host_ctx *ctx, void *p) {
  if (p) atomic_fetch_sub(&services_of(ctx)->live, 1);
  if (services_of(ctx)->exacts && exact_free(services_of(ctx), p)) return;
  services_of(ctx)->base->free(services_of(ctx)->base->ctx, p);
}
static void cf_log(tn_host_ctx *ctx, uint32_t level, const char *text) {
  services_of(ctx)->base->log(services_of(ctx)->base->ctx, level, text);
}
static int64_t cf_now(tn_host_ctx *ctx) { return services_of(ctx)->base->now(services_of(ctx)->base->ctx); }
static uint32_t cf_name_id(tn_host_ctx *ctx, const char *name) {
  return services_of(ctx)->base->name_id(services_of(ctx)->base->ctx, name);
}
static void cf_span(tn_host_ctx *ctx, uint32_t name, uint32_t clock, int64_t start, int64_t end) {
  services_of(ctx)->base->span(services_of(ctx)->base->ctx, name, clock, start, end);
}
static tn_status cf_option(tn_host_ctx *ctx, const char *key, uint32_t type, void *out) {
  if (fault_due(TNI_CF_FAULT_FILES)) return TN_E_INVALID;
  return services_of(ctx)->base->option(services_of(ctx)->base->ctx, key, type, out);
}
static tn_status cf_resource(tn_host_ctx *ctx, const char *rel, const void **data, uint64_t *n) {
  if (fault_due(TNI_CF_FAULT_FILES)) return TN_E_IO;
  return services_of(ctx)->base->resource(services_of(ctx)->base->ctx, rel, data, n);
}
static tn_status cf_cache_get(tn_host_ctx *ctx, const void *key, uint64_t nkey, const void **data, uint64_t *n) {
  if (fault_due(TNI_CF_FAULT_FILES)) return TN_E_IO;
  pthread_mutex_lock(&held_lock);
  const bool is_held = held != NULL;
  const tn_status st = is_held ? held_get(held, key, nkey, data, n) : TN_OK;
  pthread_mutex_unlock(&held_lock);
  if (is_held) return st;
  return services_of(ctx)->base->cache_get(services_of(ctx)->base->ctx, key, nkey, data, n);
}
static tn_status cf_cache_put(tn_host_ctx *ctx, const void *key, uint64_t nkey, const void *data, uint64_t n) {
  if (fault_due(TNI_CF_FAULT_FILES)) return TN_E_IO;
  pthread_mutex_lock(&held_lock);
  const bool is_held = held != NULL;
  const tn_status st = is_held ? held_put(held, key, nkey, data, n) : TN_OK;
  pthread_mutex_unlock(&held_lock);
  if (is_held) return st;
  return services_of(ctx)->base->cache_put(services_of(ctx)->base->ctx, key, nkey, data, n);
}
static tn_status cf_offsets(tn_host_ctx *ctx, uint32_t n, tn_interval *iv, uint64_t *total) {
  if (fault_due(TNI_CF_FAULT_FILES)) return TN_E_LIMIT;
  return services_of(ctx)->base->offsets(services_of(ctx)->base->ctx, n, iv, total);
}
static const void *cf_get_extension(tn_host_ctx *ctx, const char *name, uint32_t version) {
  return services_of(ctx)->base->get_extension(services_of(ctx)->base->ctx, name, version);
}
static int32_t cf_cancelled(tn_host_ctx *ctx) {
  tni_cf_services *h = services_of(ctx);
  const long long polls = atomic_fetch_add(&h->polls, 1) + 1, after = atomic_load(&h->cancel_after);
  return after ? polls >= after : atomic_load(&h->cancel);
}

static void fill_host(tni_cf_services *h) {
  h->pub = *h->base;
  h->pub.ctx = (tn_host_ctx *)h;
  h->pub.alloc = cf_alloc;
  h->pub.free = cf_free;
  h->pub.log = cf_log;
  h->pub.now = cf_now;
  h->pub.name_id = cf_name_id;
  h->pub.span = cf_span;
  h->pub.option = cf_option;
  h->pub.resource = cf_resource;
  h->pub.cache_get = cf_cache_get;
  h->pub.cache_put = cf_cache_put;
  h->pub.offsets = cf_offsets;
  h->pub.get_extension = cf_get_extension;
  h->pub.cancelled = cf_cancelled;
  atomic_store(&faults.eval, h->base->eval);
  atomic_store(&faults.range, h->base->range);
  h->pub.eval = cf_eval;
  h->pub.range = cf_range;
}

/* --- steps ------------------------------------------------------------------------------------------------------- */

static bool built_in(const tni_cf_subject *s) { return !strcmp(s->path, "host"); }

/* Address of the entry, loaded once per process and never unloaded. The subject "host" has the built-in device's. */
static tn_status load_entry(const tni_cf_subject *s, tn_entry_v1 *out, tn_error *err) {
  if (built_in(s)) return *out = tni_host_plugin_entry, TN_OK;
  void *lib = dlopen(s->path, RTLD_NOW | RTLD_LOCAL);
  if (!lib) return tni_fail(err, TN_E_UNAVAILABLE, s->path, "%s", dlerror());
  void *symbol = dlsym(lib, TN_ENTRY_SYMBOL);
  if (!symbol) return tni_fail(err, TN_E_INVALID, s->path, "is no plugin: it exports no %s", TN_ENTRY_SYMBOL);
  memcpy(out, &symbol, sizeof *out); /* ISO C has no cast from object to function pointer */
  return TN_OK;
}

static void to_stderr(void *user, uint32_t level, const char *text) {
  (void)user;
  if (level <= TN_LOG_WARN) fprintf(stderr, "%s\n", text);
}

tn_status tni_cf_plugin_init(tni_cf_plugin *p, const tni_cf_subject *s) {
  memset(p, 0, sizeof *p);
  pthread_mutex_init(&p->host.lock, NULL);
  tni_error_init(&p->err);
  p->host_max = TN_ABI_MINOR;
  p->step = "load";
  char folder[4096];
  snprintf(folder, sizeof folder, "%s", s->path);
  char *slash = strrchr(folder, '/');
  if (slash) *slash = '\0';
  tn_status st = load_entry(s, &p->entry, &p->err);
  const tni_services_opts o = {.name = s->name,
                               .folder = slash ? folder : NULL,
                               .cache_dir = s->cache_dir,
                               .log = {.fn = to_stderr, .level = TN_LOG_WARN},
                               .max_workers = 12,
                               .allow_shared_writable = true};
  if (st == TN_OK) st = tni_services_create(&o, &p->host.services, &p->err);
  if (st != TN_OK) return st;
  p->host.base = tni_services_host(p->host.services);
  fill_host(&p->host);
  return TN_OK;
}

/* Status of a call as ours, kept in p. */
static tn_status load_said(tni_cf_plugin *p, const char *step, tn_status raw, const tn_error *from) {
  p->step = step;
  return tni_plugin_result("plugin", step, raw, from, &p->err);
}

tn_status tni_cf_plugin_enter(tni_cf_plugin *p) {
  p->neg = (tn_negotiate){.h = TN_HDR(tn_negotiate), .host_min = 0, .host_max = p->host_max};
  tn_error e;
  tni_error_init(&e);
  tn_plugin *plugin = NULL;
  const char *before = tni_cf_call_begin("entry");
  tn_status raw = p->entry(&p->host.pub, &p->neg, &plugin);
  tni_cf_call_over(before);
  p->neg.message[sizeof p->neg.message - 1] = '\0';
  snprintf(e.message, sizeof e.message, "%s", p->neg.message);
  tn_status st = load_said(p, "entry", raw, &e);
  if (st == TN_OK && !plugin) st = tni_fail(&p->err, TN_E_INTERNAL, "entry", "said OK and gave no plugin");
  if (st == TN_OK) p->plugin = plugin;
  return st;
}

/* "key=value" of the command line as a section of a profile. */
static tn_status section_of(tni_arena *a, const tni_cf_subject *s, tni_profile_plugin *out, tn_error *err) {
  tni_profile_option *o = TNI_NEW_ARRAY(a, tni_profile_option, s->n_options + 1);
  if (!o) return tni_fail_memory(err, "options");
  for (uint32_t i = 0; i < s->n_options; i++) {
    const char *eq = strchr(s->options[i], '=');
    if (!eq) return tni_fail(err, TN_E_INVALID, s->options[i], "an option is KEY=VALUE");
    o[i] = (tni_profile_option){.key = tni_arena_strndup(a, s->options[i], (size_t)(eq - s->options[i])),
                                .value = tni_arena_strdup(a, eq + 1),
                                .line = 1,
                                .column = 1,
                                .value_line = 1,
                                .value_column = 1};
    if (!o[i].key || !o[i].value) return tni_fail_memory(err, "options");
  }
  *out = (tni_profile_plugin){.name = s->name, .options = o, .n_options = s->n_options, .line = 1, .column = 1};
  return TN_OK;
}

tn_status tni_cf_plugin_check(tni_cf_plugin *p, const tni_cf_subject *s) {
  tni_arena *a = tni_services_arena(p->host.services);
  const tni_option_value *values = NULL;
  tni_profile_plugin section;
  p->step = "the plugin's table";
  tn_status st = tni_check_plugin(s->name, p->plugin, &p->err);
  if (st == TN_OK) p->step = "options";
  if (st == TN_OK) st = section_of(a, s, &section, &p->err);
  if (st == TN_OK) st = tni_options_resolve(a, p->plugin, "command line", &section, &values, &p->err);
  if (st == TN_OK) tni_services_set_options(p->host.services, values, p->plugin->n_options);
  return st;
}

tn_status tni_cf_plugin_enumerate(tni_cf_plugin *p) {
  uint8_t keys[TNI_CF_MAX_DEVICES][32];
  tn_error e;
  tni_error_init(&e);
  p->n_caps = 0;
  uint32_t n = 0;
  const char *before = tni_cf_call_begin("enumerate");
  const tn_status raw = p->plugin->enumerate(p->plugin, TNI_CF_MAX_DEVICES, p->caps, &n, &e);
  tni_cf_call_over(before);
  tn_status st = load_said(p, "enumerate", raw, &e);
  if (st != TN_OK) return st;
  if (n == 0) tni_error_copy(&p->err, &e);
  if (n > TNI_CF_MAX_DEVICES)
    return tni_fail(&p->err, TN_E_INTERNAL, "enumerate", "gave %u devices where %d were asked for", n,
                    TNI_CF_MAX_DEVICES);
  for (uint32_t i = 0; i < n; i++) {
    st = tni_check_caps(p->caps[i], &p->err);
    if (st != TN_OK) return st;
    memcpy(keys[i], p->caps[i]->key, 32);
  }
  p->n_caps = n;
  return tni_services_set_identity(p->host.services, p->plugin->build_id, (const uint8_t(*)[32])keys, n);
}

tn_status tni_cf_plugin_open(tni_cf_plugin *p, uint32_t index) {
  tn_error e;
  tn_device *d = NULL;
  tni_error_init(&e);
  const char *before = tni_cf_call_begin("open");
  const tn_status raw = p->plugin->open(p->plugin, index, &d, &e);
  tni_cf_call_over(before);
  tn_status st = load_said(p, "open", raw, &e);
  if (st == TN_OK && !d) st = tni_fail(&p->err, TN_E_INTERNAL, "open", "said OK and gave no device");
  if (st == TN_OK) st = tni_check_device(d, &p->err);
  if (st == TN_OK) p->device = d;
  return st;
}

static void plugin_end(tni_cf_plugin *p) {
  const char *before = tni_cf_call_begin("close");
  if (p->device) p->plugin->close(p->device);
  tni_cf_call_over(before);
  before = tni_cf_call_begin("shutdown");
  if (p->plugin) p->plugin->shutdown(p->plugin);
  tni_cf_call_over(before);
  p->device = NULL;
  p->plugin = NULL;
}

void tni_cf_plugin_finish(tni_cf_plugin *p) {
  plugin_end(p);
  tni_services_destroy(p->host.services);
  p->host.services = NULL;
}

void tni_cf_long_error_init(tni_cf_long_error *e) {
  memset(e, 0xa7, sizeof *e);
  tni_error_init(&e->error);
  e->error.h = (tn_hdr){sizeof *e, TN_ABI_MAJOR, TN_ABI_MINOR + 1};
}

void tni_cf_long_error_look(tni_cf *cf, const tni_cf_long_error *e, const char *call) {
  const tn_hdr lent = {sizeof *e, TN_ABI_MAJOR, TN_ABI_MINOR + 1};
  bool kept = memcmp(&e->error.h, &lent, sizeof lent) == 0;
  for (size_t i = 0; i < sizeof e->more; i++) kept = kept && e->more[i] == 0xa7;
  if (!kept)
    tni_cf_fail(cf,
                "%s changes the header of its tn_error, or writes after the fields that it knows: both are the host's",
                call);
}

/* --- for cases --------------------------------------------------------------------------------------------------- */

bool tni_cf_start(tni_cf *cf, tni_cf_plugin *p) {
  tn_status st = tni_cf_plugin_init(p, cf->subject);
  if (st == TN_OK) st = tni_cf_plugin_enter(p);
  if (st == TN_OK) st = tni_cf_plugin_check(p, cf->subject);
  if (st == TN_OK) st = tni_cf_plugin_enumerate(p);
  if (st == TN_OK && p->n_caps == 0) {
    tni_cf_skip(cf, "no device here: %s", p->err.message);
    tni_cf_plugin_finish(p);
    return false;
  }
  if (st == TN_OK && cf->subject->device >= p->n_caps)
    st = tni_fail(&p->err, TN_E_INVALID, "", "there is no device %u", cf->subject->device);
  if (st == TN_OK) st = tni_cf_plugin_open(p, cf->subject->device);
  if (st == TN_OK) return true;
  tni_cf_fail(cf, "%s: %s (%s)", p->step, p->err.message, tni_status_name(st));
  tni_cf_plugin_finish(p);
  return false;
}

void tni_cf_stop(tni_cf *cf, tni_cf_plugin *p) {
  char changed[256];
  plugin_end(p);
  if (tni_cf_call_changed(changed, sizeof changed)) tni_cf_fail(cf, "%s", changed);
  const long long left = atomic_load(&p->host.live);
  if (left) tni_cf_fail(cf, "after shutdown %lld blocks of the host's memory were not given back", left);
  tni_cf_plugin_finish(p);
}
