/* @NAME@: a backend for Tenon. The contract is <tenon/plugin.h>; docs/writing-a-plugin.md goes on from here.
 *
 * What stands here opens a device that takes nothing, and says so: the level "abi" of `tenon conform` passes. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tenon/plugin.h>

/* A plugin keeps no globals that change: two hosts may live in one process. */
typedef struct backend {
  tn_plugin pub; /* first: the host's pointer is ours */
  const tn_host *host;
  tn_caps caps;
  tn_device device;
} backend;

static tn_status fail(tn_error *err, tn_status st, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  if (err && err->code == TN_OK) {
    err->code = st;
    vsnprintf(err->message, sizeof err->message, fmt, ap);
  }
  va_end(ap);
  return st;
}

/* ---- claims: every node gets an answer, and every refusal a reason ---- */

static tn_status claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err) {
  tn_status st = TN_OK;
  (void)d, (void)at, (void)err;
  for (tn_id i = 0; st == TN_OK && i < g->n_nodes; i++) {
    tn_claim c = {.h = TN_HDR(tn_claim), .verdict = TN_NO, .reason = TN_WHY_OP};
    snprintf(c.text, sizeof c.text, "@NAME@ takes no operators yet");
    st = sink->node(sink->ctx, i, &c); /* TN_YES for what lower() below can compute */
  }
  return st;
}

/* ---- programs: nothing is claimed, so nobody comes here ---- */

static tn_status lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err) {
  (void)d, (void)s, (void)out;
  return fail(err, TN_E_UNSUPPORTED, "@NAME@ claimed none of these nodes");
}

static const tn_program_info *info(const tn_program *p) {
  (void)p;
  return NULL;
}

static tn_status measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  (void)p, (void)task, (void)dims, (void)out;
  return TN_E_UNSUPPORTED;
}

static tn_status set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  (void)p, (void)slot, (void)view, (void)blob;
  return fail(err, TN_E_UNSUPPORTED, "@NAME@ has no programs");
}

static void release(tn_program *p) { (void)p; }

static tn_status bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  (void)p, (void)task, (void)dims, (void)out;
  return fail(err, TN_E_UNSUPPORTED, "@NAME@ has no programs");
}

static void unbind(tn_plan *plan) { (void)plan; }

static tn_status args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  (void)plan, (void)uses, (void)n, (void)out;
  return fail(err, TN_E_UNSUPPORTED, "@NAME@ has no plans");
}

static tn_status args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  (void)a, (void)use, (void)view;
  return fail(err, TN_E_UNSUPPORTED, "@NAME@ has no plans");
}

static void args_free(tn_args *a) { (void)a; }

static tn_status run(const tn_plan *plan, tn_args *a, tn_run *pool, tn_error *err) {
  (void)plan, (void)a, (void)pool;
  return fail(err, TN_E_UNSUPPORTED, "@NAME@ has no plans");
}

/* ---- the plugin ---- */

static tn_status enumerate(tn_plugin *pub, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err) {
  backend *p = (backend *)pub;
  (void)err;
  /* Ask the driver here. No device: *n = 0, and err says why; that is no failure. */
  p->caps = (tn_caps){.h = TN_HDR(tn_caps),
                      .name = "@NAME@",
                      .driver = "none",
                      .key = "@IDENT@", /* of driver and hardware, 32 bytes at most */
                      .align = 64,
                      .sub_align = 64};
  if (cap) out[0] = &p->caps;
  *n = 1;
  return TN_OK;
}

static tn_status open_device(tn_plugin *pub, uint32_t index, tn_device **out, tn_error *err) {
  backend *p = (backend *)pub;
  if (index) return fail(err, TN_E_INVALID, "there is no device %u", index);
  p->device = (tn_device){.h = TN_HDR(tn_device),
                          .caps = &p->caps,
                          .claim = claim,
                          .lower = lower,
                          .info = info,
                          .measure = measure,
                          .set = set,
                          .release = release,
                          .bind = bind,
                          .unbind = unbind,
                          .args = args,
                          .args_set = args_set,
                          .args_free = args_free,
                          .run = run};
  *out = &p->device;
  return TN_OK;
}

static void close_device(tn_device *d) { (void)d; }

static void stop(tn_plugin *pub) {
  const tn_host *h = ((backend *)pub)->host;
  h->free(h->ctx, pub);
}

static tn_status entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  if (!neg || neg->h.size < TN_UPTO(tn_negotiate, message)) return TN_E_INCOMPATIBLE;
  neg->plugin_min = 0; /* the oldest minor whose fields are enough */
  neg->plugin_max = TN_ABI_MINOR;
  snprintf(neg->name, sizeof neg->name, "@NAME@");
  snprintf(neg->version, sizeof neg->version, "0.1.0");
  if (neg->host_min > neg->plugin_max || !host || !TN_HAS(host, tn_host, free) || !host->alloc || !host->free) {
    snprintf(neg->message, sizeof neg->message, "@NAME@ needs a host of ABI 1.0 to 1.%d, with alloc and free", TN_ABI_MINOR);
    return TN_E_INCOMPATIBLE;
  }
  neg->minor = neg->host_max < neg->plugin_max ? neg->host_max : neg->plugin_max;
  backend *p = host->alloc(host->ctx, sizeof *p, 64, TN_TAG_PLUGIN);
  if (!p) return TN_E_NO_MEMORY;
  memset(p, 0, sizeof *p);
  p->host = host;
  p->pub = (tn_plugin){.h = TN_HDR(tn_plugin),
                       .name = "@NAME@",
                       .version = "0.1.0",
                       .build_id = "@NAME@-0.1.0",
                       .enumerate = enumerate,
                       .open = open_device,
                       .close = close_device,
                       .shutdown = stop};
  *out = &p->pub;
  return TN_OK;
}

TN_PLUGIN(@IDENT@, entry)
