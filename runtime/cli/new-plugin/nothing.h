/* SPDX-License-Identifier: Apache-2.0
 *
 * A device that takes no node, and says so: the rest of what the skeleton declares, for what `tenon new-plugin` makes
 * and for plugins of tests that break something else.
 */
#ifndef TENON_CLI_NEW_PLUGIN_NOTHING_H
#define TENON_CLI_NEW_PLUGIN_NOTHING_H

/* ---- claims: every node gets an answer, and every refusal a reason ---- */

static tn_status claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err) {
  tn_status st = TN_OK;
  (void)d, (void)at, (void)err;
  for (tn_id i = 0; st == TN_OK && i < g->n_nodes; i++) {
    tn_claim c = {.h = TN_HDR(tn_claim), .verdict = TN_NO, .reason = TN_WHY_OP};
    snprintf(c.text, sizeof c.text, PLUGIN_NAME " takes no operators yet");
    st = sink->node(sink->ctx, i, &c); /* TN_YES for what lower() below can compute */
  }
  return st;
}

/* ---- programs: nothing is claimed, so nobody comes here ---- */

static tn_status lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err) {
  (void)s, (void)out;
  return fail(err, TN_E_UNSUPPORTED, "%s claimed none of these nodes", backend_of(d)->pub.name);
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
  return fail(err, TN_E_UNSUPPORTED, PLUGIN_NAME " has no programs");
}

static void release(tn_program *p) { (void)p; }

static tn_status bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  (void)p, (void)task, (void)dims, (void)out;
  return fail(err, TN_E_UNSUPPORTED, PLUGIN_NAME " has no programs");
}

static void unbind(tn_plan *plan) { (void)plan; }

static tn_status args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  (void)plan, (void)uses, (void)n, (void)out;
  return fail(err, TN_E_UNSUPPORTED, PLUGIN_NAME " has no plans");
}

static tn_status args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  (void)a, (void)use, (void)view;
  return fail(err, TN_E_UNSUPPORTED, PLUGIN_NAME " has no plans");
}

static void args_free(tn_args *a) { (void)a; }

static tn_status run(const tn_plan *plan, tn_args *a, tn_run *pool, tn_error *err) {
  (void)plan, (void)a, (void)pool;
  return fail(err, TN_E_UNSUPPORTED, PLUGIN_NAME " has no plans");
}

#endif
