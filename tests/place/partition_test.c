/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/place/partition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "place_test.h"

enum { Y = TN_YES, N = TN_NO, G = TN_GROUP_ONLY };

/* Two devices; verdicts per node; groups of the first; placements expected ("0011", '-' nobody). */
typedef struct row {
  const char *label, *nodes, *outputs;
  uint32_t first[6], second[6];
  const char *groups[3];
  const char *device, *group; /* group: index or '-' per node */
  uint32_t clusters;
} row;

static const row rows[] = {
    {"order of preference", "Relu:x:a;Neg:a:b;Abs:b:y", "y", {Y, N, Y}, {Y, Y, Y}, {0}, "010", "---", 3},
    {"the second only fills up", "Relu:x:a;Neg:a:b;Abs:b:y", "y", {Y, Y, Y}, {Y, Y, Y}, {0}, "000", "---", 1},
    {"nobody", "Relu:x:a;Neg:a:b;Abs:b:y", "y", {Y, N, Y}, {Y, N, Y}, {0}, "0-0", "---", 0},
    {"group only, no group", "Relu:x:a;Neg:a:b;Abs:b:y", "y", {G, G, Y}, {Y, N, Y}, {0}, "1-0", "---", 0},
    {"group taken whole", "Relu:x:a;Neg:a:b;Abs:b:y", "y", {G, G, N}, {Y, Y, Y}, {"0,1"}, "001", "00-", 2},
    {"group in any order", "Relu:x:a;Neg:a:b;Abs:b:y", "y", {G, G, N}, {Y, Y, Y}, {"1,0"}, "001", "00-", 2},
    {"first of two that overlap",
     "Relu:x:a;Neg:a:b;Abs:b:y",
     "y",
     {G, G, G},
     {Y, Y, Y},
     {"0,1", "1,2"},
     "001",
     "00-",
     2},
    {"the next that is free",
     "Relu:x:a;Neg:a:b;Abs:b:y",
     "y",
     {G, G, G},
     {Y, Y, Y},
     {"1,2", "0,1", "0"},
     "000",
     "200",
     1},
    /* n1 lies on a path that leaves the group {n0, n2} and comes back */
    {"cyclic", "Relu:x:a;Neg:a:b;Add:a,b:y", "y", {G, G, G}, {Y, Y, Y}, {"0,2"}, "111", "---", 1},
    {"cyclic over two",
     "Relu:x:a;Neg:a:b;Abs:b:c;Add:a,c:y",
     "y",
     {G, G, G, G},
     {Y, Y, Y, Y},
     {"0,3"},
     "1111",
     "----",
     1},
    {"with the path inside", "Relu:x:a;Neg:a:b;Add:a,b:y", "y", {G, G, G}, {Y, Y, Y}, {"0,1,2"}, "000", "000", 1},
    {"parallel is fine", "Relu:x:a;Neg:x:b;Add:a,b:y", "y", {G, G, N}, {Y, Y, Y}, {"0,1"}, "001", "00-", 2},
    /* two groups, each fine alone, that would wait for each other */
    {"cyclic with one taken before",
     "Relu:x:a;Neg:x:b;Abs:a:c;Exp:b:d",
     "c,d",
     {G, G, G, G},
     {Y, Y, Y, Y},
     {"0,3", "1,2"},
     "0110",
     "0--0",
     3},
    {"chain of changes", "Relu:x:a;Neg:a:b;Abs:b:c;Exp:c:y", "y", {Y, N, Y, N}, {Y, Y, Y, Y}, {0}, "0101", "----", 4},
};

static tn_status partition(const fixture *f, fake *d, const uint32_t *order, uint32_t n, tni_claims *c,
                           tni_partition *p) {
  tni_dev devs[3];
  tn_error err;
  tni_error_init(&err);
  for (uint32_t i = 0; i < n; i++) devs[i] = (tni_dev){.name = "d", .device = &d[i].pub, .lock = &d[i].lock};
  tn_status st = tni_claims_collect(&f->view, devs, n, f->arena, c, &err);
  return st == TN_OK ? tni_partition_make(&f->view, c, order, n, f->arena, p, &err) : st;
}

static void test_rows(void) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const row *r = &rows[i];
    fixture f;
    fake d[2];
    tni_dev dev;
    tni_claims c;
    tni_partition p;
    fixture_init(&f, r->nodes, r->outputs);
    fake_init(&d[0], &dev, "first");
    fake_init(&d[1], &dev, "second");
    d[0].verdicts = r->first;
    d[1].verdicts = r->second;
    d[0].groups = r->groups;
    while (d[0].n_groups < 3 && r->groups[d[0].n_groups]) d[0].n_groups++;
    CU_ASSERT_EQUAL_FATAL(partition(&f, d, (const uint32_t[]){0, 1}, 2, &c, &p), TN_OK);
    char device[16] = "", group[16] = "";
    for (uint32_t n = 0; n < f.view.n_nodes; n++) {
      device[n] = p.device_of[n] == TN_NONE ? '-' : (char)('0' + p.device_of[n]);
      group[n] = p.group_of[n] == TN_NONE ? '-' : (char)('0' + p.group_of[n]);
    }
    if (strcmp(device, r->device) != 0 || strcmp(group, r->group) != 0 || p.n_clusters != r->clusters)
      printf("\n    %s: %s %s, %u clusters\n", r->label, device, group, p.n_clusters);
    CU_ASSERT_STRING_EQUAL(device, r->device);
    CU_ASSERT_STRING_EQUAL(group, r->group);
    CU_ASSERT_EQUAL(p.n_clusters, r->clusters);
    for (uint32_t n = 0; n < f.view.n_nodes; n++) {
      const tni_claim *k = tni_partition_claim(&p, &c, n);
      CU_ASSERT_EQUAL(k == NULL, p.device_of[n] == TN_NONE);
      if (k) CU_ASSERT_EQUAL(k->verdict, TN_YES);
    }
    fake_finish(&d[0]);
    fake_finish(&d[1]);
    fixture_finish(&f);
  }
}

/* The order given decides, not the order of the devices. */
static void test_order(void) {
  fixture f;
  fake d[2];
  tni_dev dev;
  tni_claims c;
  tni_partition p;
  fixture_init(&f, "Relu:x:a;Neg:a:y", "y");
  fake_init(&d[0], &dev, "first");
  fake_init(&d[1], &dev, "second");
  CU_ASSERT_EQUAL_FATAL(partition(&f, d, (const uint32_t[]){1, 0}, 2, &c, &p), TN_OK);
  CU_ASSERT(p.device_of[0] == 1 && p.device_of[1] == 1);
  fake_finish(&d[0]);
  fake_finish(&d[1]);
  fixture_finish(&f);
}

/* --- random graphs ---------------------------------------------------------------------------------------------- */

static uint32_t state;
static uint32_t rnd(uint32_t n) {
  state = state * 1664525u + 1013904223u;
  return (state >> 8) % n;
}

static void random_text(char *text, size_t cap, uint32_t nodes) {
  size_t at = 0;
  text[0] = '\0';
  for (uint32_t i = 0; i < nodes; i++) {
    char in[2][16];
    for (int k = 0; k < 2; k++) {
      uint32_t pick = rnd(i + 3), near = i > 6 && rnd(2) ? i - 1 - rnd(5) : pick;
      if (near < i)
        snprintf(in[k], sizeof in[k], "t%u", near);
      else
        snprintf(in[k], sizeof in[k], "%s", rnd(2) ? "x" : rnd(2) ? "w" : "s");
    }
    if (rnd(3))
      at += (size_t)snprintf(text + at, cap - at, "Add:%s,%s:t%u;", in[0], in[1], i);
    else
      at += (size_t)snprintf(text + at, cap - at, "Neg:%s:t%u;", in[0], i);
  }
}

static bool contains(const tn_id *list, uint32_t n, tn_id v) {
  for (uint32_t i = 0; i < n; i++)
    if (list[i] == v) return true;
  return false;
}

/* Borders of cluster k, counted the slow way. */
static bool borders_right(const fixture *f, const tni_partition *p, uint32_t k, const uint32_t *cluster_of) {
  const tni_cluster *c = &p->clusters[k];
  const tn_graph *g = &f->view;
  uint32_t n_in = 0, n_out = 0;
  for (tn_id v = 0; v < g->n_values; v++) {
    const tn_value *val = g->values[v];
    bool made_here = val->producer != TN_NONE && cluster_of[val->producer] == k, read_here = false, read_there = false;
    for (uint32_t u = 0; u < val->n_uses; u++) {
      if (cluster_of[val->uses[u]] == k)
        read_here = true;
      else
        read_there = true;
    }
    bool in = read_here && !made_here && val->kind != TN_VALUE_CONST;
    bool out = made_here && (read_there || ((const tni_value *)val)->is_output);
    if (in != contains(c->inputs, c->n_inputs, v) || out != contains(c->outputs, c->n_outputs, v)) return false;
    n_in += in;
    n_out += out;
  }
  return n_in == c->n_inputs && n_out == c->n_outputs;
}

static const char *check_partition(const fixture *f, const tni_claims *c, const tni_partition *p) {
  const tn_graph *g = &f->view;
  static uint32_t cluster_of[256];
  uint32_t covered = 0;
  for (tn_id n = 0; n < g->n_nodes; n++) cluster_of[n] = TN_NONE;
  for (uint32_t k = 0; k < p->n_clusters; k++) {
    const tni_cluster *cl = &p->clusters[k];
    for (uint32_t i = 0; i < cl->n_nodes; i++) {
      if (cluster_of[cl->nodes[i]] != TN_NONE) return "a node in two clusters";
      if (i && cl->nodes[i] <= cl->nodes[i - 1]) return "nodes out of order";
      if (p->device_of[cl->nodes[i]] != cl->device) return "a node of another device";
      if (p->group_of[cl->nodes[i]] != cl->group_of[i]) return "a node of another group";
      cluster_of[cl->nodes[i]] = k;
      covered++;
    }
  }
  if (covered != g->n_nodes) return "a node in no cluster";
  for (tn_id n = 0; n < g->n_nodes; n++) {
    if (p->group_of[n] == TN_NONE) {
      if (c->node[p->device_of[n]][n].verdict != TN_YES) return "a node that its device did not claim alone";
      continue;
    }
    const tni_group *gr = &c->groups[p->group_of[n]];
    for (uint32_t i = 0; i < gr->n_nodes; i++)
      if (p->group_of[gr->nodes[i]] != p->group_of[n] || cluster_of[gr->nodes[i]] != cluster_of[n])
        return "a group that is not whole";
  }
  /* The list is an order in which clusters may run: then their graph has no cycle. */
  for (tn_id n = 0; n < g->n_nodes; n++)
    for (uint32_t i = 0; i < g->nodes[n]->n_in; i++) {
      tn_id from = g->values[g->nodes[n]->in[i]]->producer;
      if (from != TN_NONE && cluster_of[from] > cluster_of[n]) return "a cluster that waits for a later one";
    }
  for (uint32_t k = 0; k < p->n_clusters; k++)
    if (!borders_right(f, p, k, cluster_of)) return "wrong inputs or outputs";
  return NULL;
}

static void random_graph(uint32_t seed) {
  static char text[8192], group_text[3][20][256];
  static uint32_t verdicts[3][256];
  static const char *groups[3][20];
  state = seed;
  uint32_t nodes = 3 + rnd(60);
  char out[64];
  random_text(text, sizeof text, nodes);
  snprintf(out, sizeof out, "t%u,t%u", nodes - 1, nodes / 2);
  fixture f;
  fake d[3];
  tni_dev dev;
  tni_claims c;
  tni_partition p;
  fixture_init(&f, text, nodes / 2 == nodes - 1 ? out + strcspn(out, ",") + 1 : out);
  for (int i = 0; i < 3; i++) {
    fake_init(&d[i], &dev, "d");
    for (uint32_t n = 0; n < nodes; n++) verdicts[i][n] = i == 2 ? TN_YES : 1 + rnd(3);
    d[i].verdicts = verdicts[i];
    d[i].groups = groups[i];
    d[i].n_groups = i == 2 ? 0 : rnd(20);
    for (uint32_t k = 0; k < d[i].n_groups; k++) {
      char *t = group_text[i][k];
      uint32_t want = 1 + rnd(5), at = rnd(nodes);
      size_t len = 0;
      for (uint32_t m = 0; m < want && at < nodes; m++, at += 1 + rnd(4))
        len += (size_t)snprintf(t + len, 256 - len, "%s%u", m ? "," : "", at);
      groups[i][k] = t;
    }
  }
  CU_ASSERT_EQUAL_FATAL(partition(&f, d, (const uint32_t[]){0, 1, 2}, 3, &c, &p), TN_OK);
  CU_ASSERT_EQUAL(p.n_unsupported, 0);
  const char *wrong = check_partition(&f, &c, &p);
  if (wrong) printf("\n    seed %u: %s\n", seed, wrong);
  CU_ASSERT_PTR_NULL(wrong);
  for (int i = 0; i < 3; i++) fake_finish(&d[i]);
  fixture_finish(&f);
}

static void test_random(void) {
  for (uint32_t seed = 1; seed <= 500; seed++) random_graph(seed);
}

void suite_partition(void) {
  CU_pSuite s = CU_add_suite("plan: partition", NULL, NULL);
  CU_add_test(s, "table", test_rows);
  CU_add_test(s, "order of a phase", test_order);
  CU_add_test(s, "500 random graphs", test_random);
}
