/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend.h"

tn_status fail(tn_error *err, tn_status st, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  if (err) {
    err->code = st;
    vsnprintf(err->message, sizeof err->message, fmt, ap);
  }
  va_end(ap);
  return st;
}

/* ---- memory: the host's, which the CPU sees all the time; what the host has already is taken as it is ---- */
typedef struct buffer {
  tn_buffer pub;
  unsigned char *bytes;
  int imported;
} buffer;

unsigned char *at(const tn_view *v) {
  return v->buffer ? ((const buffer *)v->buffer)->bytes + v->offset : v->ptr;
}

static tn_status create(tn_device *d, const tn_buffer_req *req, tn_buffer **out, tn_error *err) {
  const tn_host *h = ((device *)d)->host;
  if (req->kind != TN_MEM_NEW && req->kind != TN_MEM_HOST_PTR)
    return fail(err, TN_E_UNSUPPORTED, "memory of another kind");
  buffer *b = h->alloc(h->ctx, sizeof *b, 16, TN_TAG_PLUGIN);
  if (!b) return fail(err, TN_E_NO_MEMORY, "no memory for a buffer");
  *b = (buffer){.pub = {.h = TN_HDR(tn_buffer), .device = d, .bytes = req->bytes, .flags = TN_BUF_COHERENT},
      .bytes = req->ptr, .imported = req->kind == TN_MEM_HOST_PTR};
  if (!b->imported && !(b->bytes = h->alloc(h->ctx, req->bytes ? req->bytes : 1, 4096, TN_TAG_PLUGIN))) {
    h->free(h->ctx, b);
    return fail(err, TN_E_NO_MEMORY, "no memory for %llu bytes", (unsigned long long)req->bytes);
  }
  if (req->flags & TN_BUF_ZERO) memset(b->bytes, 0, req->bytes);
  *out = &b->pub;
  return TN_OK;
}

static void destroy(tn_buffer *pub) {
  buffer *b = (buffer *)pub;
  const tn_host *h = ((device *)pub->device)->host;
  if (!b->imported) h->free(h->ctx, b->bytes);
  h->free(h->ctx, b);
}

static tn_status map(tn_buffer *b, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err) {
  (void)access;
  if (offset > b->bytes || n > b->bytes - offset) return fail(err, TN_E_INVALID, "the range is outside of the buffer");
  *ptr = ((buffer *)b)->bytes + offset;
  return TN_OK;
}

static tn_status unmap(tn_buffer *b, void *ptr, tn_error *err) {
  (void)b, (void)ptr, (void)err;
  return TN_OK;
}

/* ---- the plugin ---- */
static const tn_program_info *info(const tn_program *p) { return &p->info; }

static tn_status run(const tn_plan *plan, tn_args *a, tn_run *pool, tn_error *err) {
  (void)plan, (void)a, (void)pool;
  return fail(err, TN_E_UNSUPPORTED, "there are no tasks for the CPU");
}

/* An engine, and not the CPU's: XNNPACK's operators allocate when sizes change, and run for one item at a time. */
static tn_status enumerate(tn_plugin *pub, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err) {
  backend *p = (backend *)pub;
  (void)err;
  p->engine = (tn_engine){.h = TN_HDR(tn_engine), .name = "xnnpack", .flags = TN_ENGINE_BLOCKING, .depth = 64};
  p->engines[0] = &p->engine;
  p->caps = (tn_caps){.h = TN_HDR(tn_caps), .name = "XNNPACK on the CPU", .driver = "XNNPACK", .key = "xnnpack",
      .engines = p->engines, .n_engines = 1, .import_kinds = 1u << TN_MEM_HOST_PTR, .align = 64, .sub_align = 64,
      .import_align = 64,
      .dtypes = UINT64_C(1) << TN_DT_F32 | UINT64_C(1) << TN_DT_I8 | UINT64_C(1) << TN_DT_U8 | UINT64_C(1) << TN_DT_I32,
      .memory_bytes = UINT64_C(1) << 40, .max_buffer_bytes = UINT64_C(1) << 40};
  if (cap) out[0] = &p->caps;
  *n = 1;
  return TN_OK;
}

static void close_device(tn_device *pub) {
  device *d = (device *)pub;
  d->host->free(d->host->ctx, d);
}

static tn_status open_device(tn_plugin *pub, uint32_t index, tn_device **out, tn_error *err) {
  backend *p = (backend *)pub;
  device *d = index ? NULL : p->host->alloc(p->host->ctx, sizeof *d, 64, TN_TAG_PLUGIN);
  if (!d) return fail(err, index ? TN_E_INVALID : TN_E_NO_MEMORY, "device %u cannot be opened", index);
  *d = (device){.pub = {.h = TN_HDR(tn_device), .caps = &p->caps, .claim = claim, .lower = lower, .info = info,
      .measure = measure, .set = set_memory, .release = release, .bind = bind, .unbind = unbind, .args = args,
      .args_set = args_set, .args_free = args_free, .run = run, .submit = submit, .create = create,
      .destroy = destroy, .map = map, .unmap = unmap}, .host = p->host};
  if (xnn_initialize(NULL) != xnn_status_success) {
    close_device(&d->pub);
    return fail(err, TN_E_UNAVAILABLE, "XNNPACK does not know this processor");
  }
  *out = &d->pub;
  return TN_OK;
}

static void stop(tn_plugin *p) { ((backend *)p)->host->free(((backend *)p)->host->ctx, p); }

static tn_status entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  if (!neg || neg->h.size < TN_UPTO(tn_negotiate, message)) return TN_E_INCOMPATIBLE;
  neg->plugin_min = 0;
  neg->plugin_max = TN_ABI_MINOR;
  snprintf(neg->name, sizeof neg->name, "xnnpack");
  snprintf(neg->version, sizeof neg->version, "1.0.0");
  snprintf(neg->message, sizeof neg->message, "xnnpack needs a host of ABI 1.0 to 1.%d with memory", TN_ABI_MINOR);
  if (neg->host_min > neg->plugin_max || !host || !TN_HAS(host, tn_host, symbols) || !host->alloc || !host->free ||
      !host->offsets)
    return TN_E_INCOMPATIBLE;
  neg->minor = neg->host_max < neg->plugin_max ? neg->host_max : neg->plugin_max;
  backend *p = host->alloc(host->ctx, sizeof *p, 16, TN_TAG_PLUGIN);
  if (!p) return TN_E_NO_MEMORY;
  *p = (backend){.pub = {.h = TN_HDR(tn_plugin), .name = "xnnpack", .version = "1.0.0", .build_id = "xnnpack-1.0.0",
      .enumerate = enumerate, .open = open_device, .close = close_device, .shutdown = stop}, .host = host};
  *out = &p->pub;
  return TN_OK;
}

TN_PLUGIN(xnnpack, entry)
