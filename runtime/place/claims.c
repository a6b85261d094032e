/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/place/claims.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/graph/graph.h"
#include "runtime/graph/view.h"
#include "runtime/place/devlock.h"
#include "runtime/place/partition.h"
#include "runtime/plugin/plugin.h"

typedef struct collector {
  const tn_graph *view;
  tni_arena *arena;
  tni_claims *claims;
  tni_claim *node; /* of the device being asked */
  const tni_dev *devs;
  uint32_t device;
  uint32_t groups_before, states_before;
  uint64_t in_groups; /* nodes that its groups name, and answers without a group */
  uint32_t *stamp;    /* [n_nodes], of the last group that named it */
  uint32_t stamps;
  tni_lengths fixed_before;
  bool is_host;
  const char *fault; /* first thing wrong with its answers */
  bool no_memory;
} collector;

static tn_status claim_fault(collector *c, const char *what) {
  if (!c->fault) c->fault = what;
  return TN_E_INVALID;
}

/* What a constraint EQ or IN allows. */
static tni_lengths lengths_of(const tn_claim *in, const tn_constraint *k) {
  tni_lengths l = {.v = {k->rhs}, .n = 1};
  if (k->rel != TN_REL_IN) return l;
  const tn_value_set *s = &in->sets[k->rhs];
  memcpy(l.v, s->v, s->n * sizeof *s->v);
  l.n = s->n;
  return l;
}

static bool has_length(const tni_lengths *l, int64_t v) {
  for (uint32_t i = 0; i < l->n; i++)
    if (l->v[i] == v) return true;
  return false;
}

static bool is_proved(tni_exprs *x, const tn_claim *in, const tn_constraint *k) {
  int64_t lo, hi;
  tni_ex_range(x, k->lhs, &lo, &hi);
  const tni_lengths l = k->rel == TN_REL_IN ? lengths_of(in, k) : (tni_lengths){.n = 0};
  switch (k->rel) {
    case TN_REL_IN:
      return lo == hi && has_length(&l, lo);
    case TN_REL_EQ:
      return lo == k->rhs && hi == k->rhs;
    case TN_REL_LE:
      return hi <= k->rhs;
    case TN_REL_GE:
      return lo >= k->rhs;
    default:
      return k->rhs > 0 && tni_ex_divides(x, k->lhs, k->rhs) == 1;
  }
}

/* 65536 is more than any bucket is good for. */
static bool widen_bucket(const collector *c, const tn_constraint *k) {
  if (k->rel != TN_REL_MOD || k->lhs != c->view->ctx->padded || k->lhs == TNI_EXPR_NONE || k->rhs < 1) return false;
  const int64_t both = c->claims->bucket / tni_gcd(c->claims->bucket, k->rhs);
  if (k->rhs > 65536 || both > 65536 / k->rhs) return false;
  c->claims->bucket = both * k->rhs;
  return true;
}

/* The positions of a run. text: why not, for one that names them. */
static bool fix_lengths(const collector *c, const tn_claim *in, const tn_constraint *k, char *text, size_t n) {
  const tn_graph_ctx *g = c->view->ctx;
  tni_claims *cl = c->claims;
  if ((k->rel != TN_REL_EQ && k->rel != TN_REL_IN) || g->step == TNI_EXPR_NONE || k->lhs != g->step) return false;
  tni_lengths l = lengths_of(in, k);
  const bool one = c->view->phase == TN_PHASE_DECODE && has_length(&l, 1);
  if (!one && c->view->phase == TN_PHASE_ANY)
    snprintf(text, n, ": without `phases` in the profile a run has any length");
  if (!one && c->view->phase != TN_PHASE_PREFILL) return false;
  if (!one && (l.v[0] < 1 || l.v[l.n - 1] > 65536)) return false;
  if (one) l = (tni_lengths){.v = {1}, .n = 1};
  if (!one && g->step_fixed) {
    snprintf(text, n, ": runs cannot be padded: %s", g->step_fixed);
    return false;
  }
  if (cl->fixed.n) {
    uint32_t both = 0;
    for (uint32_t i = 0; i < l.n; i++)
      if (has_length(&cl->fixed, l.v[i])) l.v[both++] = l.v[i];
    if (!both) {
      char said[256];
      snprintf(text, n, ": '%s' has fixed it to %s", c->devs[cl->fixed_by].name,
               tni_lengths_say(&cl->fixed, said, sizeof said));
      return false;
    }
    l.n = both;
  } else {
    cl->fixed_by = c->device;
  }
  cl->fixed = l;
  return true;
}

const char *tni_lengths_say(const tni_lengths *l, char *buf, size_t size) {
  size_t at = 0;
  if (size) buf[0] = '\0';
  for (uint32_t i = 0; i < l->n && at < size; i++)
    at += (size_t)snprintf(buf + at, size - at, "%s%lld",
                           i == 0         ? ""
                           : i + 1 < l->n ? ", "
                                          : " or ",
                           (long long)l->v[i]);
  return buf;
}

/* NULL, or what is wrong with the sets of a claim. */
static const char *sets_fault(const tn_claim *in) {
  const uint32_t n = TN_HAS(in, tn_claim, n_sets) ? in->n_sets : 0;
  if (n > TNI_MAX_LENGTHS || (n && !in->sets)) return "absurd sets of values";
  for (uint32_t i = 0; i < n; i++) {
    const tn_value_set *s = &in->sets[i];
    if (!s->n || s->n > TNI_MAX_LENGTHS || !s->v || s->v[0] < 1)
      return "a set of values that is empty, too long or not above 0";
    for (uint32_t k = 1; k < s->n; k++)
      if (s->v[k] <= s->v[k - 1]) return "a set of values that does not ascend";
  }
  for (uint32_t i = 0; i < in->n_constraints; i++)
    if (in->constraints[i].rel == TN_REL_IN && (uint64_t)in->constraints[i].rhs >= n)
      return "a constraint of a set that is not there";
  return NULL;
}

/* Constraints that cannot be promised turn yes into no. */
static tn_status check_promise(collector *c, const tn_claim *in, tni_claim *out) {
  static const char *const rels[] = {"=", "<=", ">=", "a multiple of", "one of"};
  tni_exprs *x = c->view->ctx->exprs;
  if (in->n_constraints > 64 || (in->n_constraints && !in->constraints)) return claim_fault(c, "absurd constraints");
  for (uint32_t i = 0; out->verdict != TN_NO && i < in->n_constraints; i++) {
    const tn_constraint *k = &in->constraints[i];
    char lhs[128], text[768], rhs[256], more[320] = "";
    if (k->rel < TN_REL_EQ || k->rel > TN_REL_IN) return claim_fault(c, "a constraint with an unknown relation");
    if (!i && sets_fault(in)) return claim_fault(c, sets_fault(in));
    if (is_proved(x, in, k) || widen_bucket(c, k)) continue;
    if (fix_lengths(c, in, k, more, sizeof more)) {
      out->fixed = true;
      continue;
    }
    tni_ex_print(x, k->lhs, lhs, sizeof lhs);
    const tni_lengths values = lengths_of(in, k);
    snprintf(text, sizeof text, "it needs %s %s %s, which does not always hold%s", lhs, rels[k->rel - 1],
             tni_lengths_say(&values, rhs, sizeof rhs), more);
    out->verdict = TN_NO;
    out->reason = TN_WHY_SHAPE;
    if (!(out->text = tni_arena_strdup(c->arena, text))) c->no_memory = true;
  }
  return TN_OK;
}

static tn_status copy_claim(collector *c, const tn_claim *in, tni_claim *out) {
  if (!in || in->h.size < offsetof(tn_claim, cost_ns)) return claim_fault(c, "a claim of a size that is not one");
  if (in->verdict < TN_YES || in->verdict > TN_GROUP_ONLY) return claim_fault(c, "a claim with an unknown verdict");
  tni_claim r = {.verdict = in->verdict, .reason = in->reason, .format = in->format, .text = ""};
  if (TN_HAS(in, tn_claim, cost_ns)) r.cost_ns = in->cost_ns;
  if (!isfinite(r.cost_ns) || r.cost_ns < 0) return claim_fault(c, "a claim whose cost is not a finite number");
  if (TN_HAS(in, tn_claim, n_params) && in->n_params) {
    if (in->n_params > 16 || !in->params) return claim_fault(c, "a claim with absurd format params");
    r.params = tni_arena_memdup(c->arena, in->params, in->n_params * sizeof *in->params, _Alignof(int64_t));
    if (!r.params) c->no_memory = true;
    r.n_params = in->n_params;
  }
  if (TN_HAS(in, tn_claim, text))
    r.text = tni_arena_strndup(c->arena, in->text, strnlen(in->text, sizeof in->text - 1));
  if (!r.text) c->no_memory = true;
  tn_status st = check_promise(c, in, &r);
  if (st == TN_OK) *out = r;
  return st;
}

/* The host alone runs what has no dims before the run. */
static bool waits_for_data(const collector *c, tn_id node) {
  return !c->is_host && ((const tni_node *)c->view->nodes[node])->dynamic;
}

static tn_status on_node(void *ctx, tn_id node, const tn_claim *claim) {
  collector *c = ctx;
  if (node >= c->view->n_nodes) return claim_fault(c, "a claim for a node that does not exist");
  if (c->node[node].verdict) return claim_fault(c, "two claims for one node");
  tn_status st = copy_claim(c, claim, &c->node[node]);
  if (st == TN_OK && waits_for_data(c, node) && c->node[node].verdict != TN_NO)
    c->node[node] =
        (tni_claim){.verdict = TN_NO, .reason = TN_WHY_SHAPE, .text = "only the run knows its dims; the host runs it"};
  return st;
}

static tn_status add_group(tni_claims *cl, tni_arena *arena, const tni_group *g) {
  if (cl->n_groups == cl->cap_groups) {
    uint32_t cap = cl->cap_groups ? cl->cap_groups * 2 : 32;
    tni_group *grown = TNI_NEW_ARRAY(arena, tni_group, cap);
    if (!grown) return TN_E_NO_MEMORY;
    if (cl->n_groups) memcpy(grown, cl->groups, cl->n_groups * sizeof *grown);
    cl->groups = grown;
    cl->cap_groups = cap;
  }
  cl->groups[cl->n_groups++] = *g;
  return TN_OK;
}

static tn_status on_group(void *ctx, const tn_id *nodes, uint32_t n, const tn_claim *claim) {
  collector *c = ctx;
  if (n == 0 || !nodes) return claim_fault(c, "a group without nodes");
  if (n > c->view->n_nodes) return claim_fault(c, "a group of more nodes than there are");
  /* Groups overlap, but not without end: 64 ways to take each node are plenty. */
  c->in_groups += n;
  if (c->in_groups > (uint64_t)c->view->n_nodes * 64 + 4096) return claim_fault(c, "groups without end");
  c->stamps++;
  for (uint32_t i = 0; i < n; i++) {
    if (nodes[i] >= c->view->n_nodes) return claim_fault(c, "a group with a node that does not exist");
    if (c->stamp[nodes[i]] == c->stamps) return claim_fault(c, "a group that names a node twice");
    c->stamp[nodes[i]] = c->stamps;
  }
  for (uint32_t i = 0; i < n; i++)
    if (waits_for_data(c, nodes[i])) return TN_OK;
  tni_group g = {.device = c->device, .n_nodes = n};
  tn_status st = copy_claim(c, claim, &g.claim);
  if (st != TN_OK) return st;
  if (g.claim.verdict != TN_YES) return TN_OK;
  g.nodes = tni_arena_memdup(c->arena, nodes, n * sizeof *nodes, _Alignof(tn_id));
  if (!g.nodes || add_group(c->claims, c->arena, &g) != TN_OK) c->no_memory = true;
  return c->no_memory ? TN_E_NO_MEMORY : TN_OK;
}

static tn_status add_state(collector *c, const tni_state_claim *made, const char *why) {
  tni_claims *cl = c->claims;
  if (cl->n_states == cl->cap_states) {
    const uint32_t cap = cl->cap_states ? cl->cap_states * 2 : 32;
    tni_state_claim *grown = TNI_NEW_ARRAY(c->arena, tni_state_claim, cap);
    if (!grown) return TN_E_NO_MEMORY;
    if (cl->n_states) memcpy(grown, cl->states, cl->n_states * sizeof *grown);
    cl->states = grown;
    cl->cap_states = cap;
  }
  cl->states[cl->n_states] = *made;
  cl->states[cl->n_states].why = *why ? tni_arena_strdup(c->arena, why) : NULL;
  if (*why && !cl->states[cl->n_states].why) return TN_E_NO_MEMORY;
  cl->n_states++;
  return TN_OK;
}

static tn_status on_state(void *ctx, tn_id value, const tn_layout *const *accepted, uint32_t n) {
  collector *c = ctx;
  if (value >= c->view->n_values || c->view->values[value]->kind != TN_VALUE_STATE)
    return claim_fault(c, "a state that does not exist");
  tni_state_claim made = {.device = c->device, .value = tni_state_root(c->view, value)};
  for (uint32_t i = c->states_before; i < c->claims->n_states; i++)
    if (c->claims->states[i].value == made.value) return claim_fault(c, "layouts for one cache twice");
  if (n == 0 && !accepted) return TN_OK;
  char why[200];
  const char *wrong = tni_layouts_read(c->view->values[made.value], accepted, n, c->arena, &made, why, sizeof why);
  if (wrong) return claim_fault(c, wrong);
  if (n && add_state(c, &made, why) != TN_OK) c->no_memory = true;
  return c->no_memory ? TN_E_NO_MEMORY : TN_OK;
}

static bool touches_cache(const collector *c, const tn_node *n, tn_id cache) {
  for (uint32_t i = 0; i < (uint32_t)n->n_in + n->n_out; i++) {
    const tn_id v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];
    if (v != TN_NONE && c->view->values[v]->kind == TN_VALUE_STATE && tni_state_root(c->view, v) == cache) return true;
  }
  return false;
}

static void drop_groups(collector *c, tn_id node) {
  tni_claims *cl = c->claims;
  uint32_t kept = c->groups_before;
  for (uint32_t g = c->groups_before; g < cl->n_groups; g++) {
    bool has = false;
    for (uint32_t i = 0; i < cl->groups[g].n_nodes; i++) has = has || cl->groups[g].nodes[i] == node;
    if (!has) cl->groups[kept++] = cl->groups[g];
  }
  cl->n_groups = kept;
}

/* What works on a cache in none of the layouts that the host can give is refused. */
static void refuse_states(collector *c) {
  for (uint32_t s = c->states_before; s < c->claims->n_states; s++) {
    const tni_state_claim *k = &c->claims->states[s];
    for (uint32_t i = 0; k->why && i < c->view->n_nodes; i++) {
      if (c->node[i].verdict == TN_NO || !touches_cache(c, c->view->nodes[i], k->value)) continue;
      c->node[i] = (tni_claim){.verdict = TN_NO, .reason = TN_WHY_DTYPE, .text = k->why};
      drop_groups(c, i);
    }
  }
}

/* The device's answers do not count: everything is refused with one reason. */
static void refuse_all(collector *c, const char *text) {
  c->claims->n_groups = c->groups_before;
  c->claims->fixed = c->fixed_before;
  c->claims->n_states = c->states_before;
  for (uint32_t i = 0; i < c->view->n_nodes; i++)
    c->node[i] = (tni_claim){.verdict = TN_NO, .reason = TN_WHY_DRIVER, .text = text};
}

static tn_status ask_claims(collector *c, const tni_dev *d, tn_error *err) {
  tn_claim_sink sink = {TN_HDR(tn_claim_sink), c, on_node, on_group, on_state};
  tn_error why;
  tni_error_init(&why);
  if (tni_devlock_lost(d->lock)) {
    refuse_all(c, "the device was lost");
    return TN_OK;
  }
  tni_devlock_lock(d->lock);
  const tni_calm calm = tni_calm_take();
  tn_status st = d->device->claim(d->device, c->view, NULL, &sink, &why);
  tni_devlock_unlock(d->lock);
  st = tni_calm_check(&calm, "claim", st, &why);
  if (st == TN_E_DEVICE_LOST) tni_devlock_lose(d->lock);
  if (c->no_memory) return tni_fail_memory(err, d->name);
  if (st == TN_E_NO_MEMORY) return tni_fail(err, st, d->name, "plugin '%s' failed to claim: out of memory", d->name);
  tn_error said = why; /* its strings may have no end */
  tni_error_copy(&why, &said);
  for (uint32_t i = 0; st == TN_OK && !c->fault && i < c->view->n_nodes; i++)
    if (!c->node[i].verdict) claim_fault(c, "no claim for some nodes");
  if (st == TN_OK && !c->fault) {
    refuse_states(c);
    return TN_OK;
  }
  char text[320];
  if (c->fault)
    snprintf(text, sizeof text, "plugin '%s' gave %s", d->name, c->fault);
  else
    snprintf(text, sizeof text, "plugin '%s' failed to claim: %s (%d) %s", d->name, tni_status_name(st), st,
             why.message);
  const char *kept = tni_arena_strdup(c->arena, text);
  if (!kept) return tni_fail_memory(err, d->name);
  if (c->fault && !c->claims->fault) c->claims->fault = kept;
  refuse_all(c, kept);
  return TN_OK;
}

tn_status tni_claims_collect(const tn_graph *view, const tni_dev *devs, uint32_t n_devs, tni_arena *arena,
                             tni_claims *out, tn_error *err) {
  *out = (tni_claims){.node = TNI_NEW_ARRAY(arena, tni_claim *, n_devs), .bucket = 1};
  if (!out->node) return tni_fail_memory(err, NULL);
  for (uint32_t d = 0; d < n_devs; d++) {
    out->node[d] = TNI_NEW_ARRAY(arena, tni_claim, view->n_nodes);
    if (!out->node[d]) return tni_fail_memory(err, NULL);
    collector c = {.view = view,
                   .arena = arena,
                   .claims = out,
                   .node = out->node[d],
                   .devs = devs,
                   .device = d,
                   .is_host = devs[d].is_host,
                   .groups_before = out->n_groups,
                   .states_before = out->n_states,
                   .stamp = TNI_NEW_ARRAY(arena, uint32_t, (size_t)view->n_nodes + 1),
                   .fixed_before = out->fixed};
    if (!c.stamp) return tni_fail_memory(err, devs[d].name);
    tn_status st = ask_claims(&c, &devs[d], err);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

const char *tni_why_name(uint32_t reason) {
  static const char *const names[] = {"none",     "op",    "dtype",  "shape",  "attribute", "not_constant",
                                      "no_stats", "float", "driver", "option", "too_big",   "cpu"};
  return reason < sizeof names / sizeof *names ? names[reason] : "unknown";
}

const void *tni_dev_extension(const tni_dev *d, const char *name, uint32_t version) {
  tn_plugin *p = (tn_plugin *)(uintptr_t)d->plugin;
  if (d->process || d->is_host || !TN_HAS(p, tn_plugin, get_extension) || !p->get_extension) return NULL;
  return p->get_extension(p, name, version);
}
