/* SPDX-License-Identifier: Apache-2.0
 *
 * Random graphs under random edits: structure stays consistent and the outputs keep their meaning. The meaning of a
 * value is a hash over the operators and inputs it comes from, where Identity is transparent.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/graph/graph_test.h"

enum { GRAPHS = 400, MAX_NODES = 40 };

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

static uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 29;
}

static uint64_t hash_name(const char *s) {
  uint64_t h = 7;
  for (; *s; s++) h = mix(h, (unsigned char)*s);
  return h;
}

/* Nodes in a random file order over values a0 .. an, ai made of earlier ones only. */
static void build(fixture *f, uint64_t *seed) {
  int n = 3 + (int)(next_random(seed) % MAX_NODES), order[MAX_NODES + 3];
  char in[96], out[16];
  fixture_init(f);
  input(f, "a0", "n");
  input(f, "a1", "n");
  for (int i = 0; i < n; i++) order[i] = i;
  for (int i = n - 1; i > 0; i--) {
    int k = (int)(next_random(seed) % (uint64_t)(i + 1)), t = order[i];
    order[i] = order[k];
    order[k] = t;
  }
  for (int i = 0; i < n; i++) {
    uint64_t top = (uint64_t)order[i] + 2, a = next_random(seed) % top, b = next_random(seed) % top;
    snprintf(out, sizeof out, "a%d", order[i] + 2);
    bool identity = next_random(seed) % 3 == 0;
    if (identity)
      snprintf(in, sizeof in, "a%d", (int)a);
    else
      snprintf(in, sizeof in, "a%d a%d a%d", (int)a, (int)b, (int)a);
    CU_ASSERT_EQUAL(node(f, out, identity ? "Identity" : "Max", in, out), TN_OK);
  }
  snprintf(in, sizeof in, "a%d a%d", n + 1, n);
  io(f, "a0 a1", in);
}

static uint64_t meaning(const fixture *f, tn_id v, uint64_t *memo) {
  const tni_value *val = f->g->values[v];
  if (memo[v]) return memo[v];
  if (val->pub.producer == TN_NONE) return memo[v] = hash_name(val->pub.name);
  const tni_node *n = f->g->nodes[val->pub.producer];
  if (n->pub.op == TN_OP_IDENTITY) return memo[v] = meaning(f, n->pub.in[0], memo);
  uint64_t h = 1;
  for (uint32_t i = 0; i < n->pub.n_in; i++) h = mix(h, meaning(f, n->pub.in[i], memo));
  return memo[v] = h;
}

/* Names and meanings of the outputs. */
static uint64_t interface_of(const fixture *f) {
  uint64_t h = 3, *memo = calloc(f->g->n_values, sizeof *memo);
  for (uint32_t i = 0; i < f->g->n_outputs; i++) {
    h = mix(h, hash_name(f->g->values[f->g->outputs[i]]->pub.name));
    h = mix(h, meaning(f, f->g->outputs[i], memo));
  }
  free(memo);
  return h;
}

static uint32_t count_uses(const tni_graph *g, tn_id v) {
  uint32_t n = 0;
  for (tn_id i = 0; i < g->n_nodes; i++)
    for (uint32_t k = 0; k < g->nodes[i]->pub.n_in && !g->nodes[i]->dead; k++) n += g->nodes[i]->pub.in[k] == v;
  return n;
}

static int is_consistent(const tni_graph *g, bool ordered) {
  for (tn_id v = 0; v < g->n_values; v++) {
    const tni_value *val = g->values[v];
    if (tni_graph_find(g, val->pub.name) != v) return 0;
    if (val->pub.n_uses != count_uses(g, v)) return 0;
    for (uint32_t k = 0; k < val->pub.n_uses; k++)
      if (g->nodes[val->pub.uses[k]]->dead) return 0;
  }
  for (tn_id i = 0; i < g->n_nodes && ordered; i++) {
    const tni_node *n = g->nodes[i];
    if (n->dead) continue;
    for (uint32_t k = 0; k < n->pub.n_in; k++) {
      tn_id p = g->values[n->pub.in[k]]->pub.producer;
      if (p != TN_NONE && p >= i) return 0;
    }
    if (g->values[n->pub.out[0]]->pub.producer != i) return 0;
  }
  return 1;
}

static void drop_identities(fixture *f, uint64_t *seed) {
  for (tn_id i = 0; i < f->g->n_nodes; i++) {
    const tni_node *n = f->g->nodes[i];
    if (n->dead || n->pub.op != TN_OP_IDENTITY || next_random(seed) % 4 == 0) continue;
    tn_status st = tni_graph_replace(f->g, n->pub.out[0], n->pub.in[0]);
    CU_ASSERT_TRUE(st == TN_OK || st == TN_E_UNSUPPORTED);
  }
}

static void one_graph(uint64_t seed) {
  fixture f;
  build(&f, &seed);
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
  uint64_t before = interface_of(&f);
  int ok = is_consistent(f.g, true);
  drop_identities(&f, &seed);
  ok = ok && is_consistent(f.g, false) && interface_of(&f) == before;
  if (next_random(&seed) % 2) tni_graph_dce(f.g);
  ok = ok && is_consistent(f.g, false) && interface_of(&f) == before;
  ok = ok && tni_graph_compact(f.g, &f.err) == TN_OK;
  ok = ok && is_consistent(f.g, true) && interface_of(&f) == before;
  tni_graph_dce(f.g);
  ok = ok && tni_graph_compact(f.g, &f.err) == TN_OK;
  ok = ok && is_consistent(f.g, true) && interface_of(&f) == before;
  if (!ok) fprintf(stderr, "\nseed %llu\n", (unsigned long long)seed);
  CU_ASSERT_TRUE(ok);
  fixture_finish(&f);
}

static void random_edits(void) {
  for (uint64_t seed = 1; seed <= GRAPHS; seed++) one_graph(seed);
}

void add_random_suite(void) {
  CU_pSuite s = CU_add_suite("random graphs", NULL, NULL);
  CU_add_test(s, "edits keep structure and meaning", random_edits);
}
