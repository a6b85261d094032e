/* SPDX-License-Identifier: Apache-2.0
 *
 * Caches in the graph: who may write them, what compact and dce keep, how they print and hash.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/graph/graph_test.h"

static tn_id special(fixture *f, const char *name, uint32_t kind, uint32_t dtype, const char *like) {
  const tn_id v = tni_graph_add_value(f->g, name, kind, dtype);
  const tni_value *x = f->g->values[val(f, like)];
  CU_ASSERT_EQUAL(tni_value_set_dims(f->g, v, kind == TN_VALUE_STEP ? 1 : x->pub.rank, x->pub.dims), TN_OK);
  return v;
}

/* past -> present in memory; unused values and a dead node stand before them, so that compact has something to do. */
static void build(fixture *f) {
  static const int64_t junk[] = {1};
  fixture_init(f);
  val(f, "unused");
  constant(f, "unused too", TN_DT_I64, 1, junk, (void *)junk);
  input(f, "past", "b, 2, p, 4");
  input(f, "new", "b, s, 8");
  input(f, "whole", "b, t, 8");
  tni_graph *g = f->g;
  g->step_pos = special(f, "pos", TN_VALUE_STEP, TN_DT_I64, "whole");
  g->step_valid = special(f, "valid", TN_VALUE_STEP, TN_DT_I64, "whole");
  tn_state *s = tni_arena_alloc(g->arena, sizeof *s, 8);
  *s = (tn_state){.h = TN_HDR(tn_state), .axis = 1, .pos = g->step_pos, .valid = g->step_valid};
  g->states = tni_arena_alloc(g->arena, sizeof *g->states, 8);
  *g->states = (tni_gstate){.past = val(f, "past"),
                            .present = val(f, "present"),
                            .in = special(f, "in", TN_VALUE_STATE, TN_DT_F32, "whole"),
                            .out = special(f, "out", TN_VALUE_STATE, TN_DT_F32, "whole"),
                            .axis = 2,
                            .rank = 4,
                            .perm = {0, 2, 1, 3}};
  g->n_states = 1;
  g->values[g->states->in]->pub.state = g->values[g->states->out]->pub.state = s;
  tni_raw_attr axis = raw_int("axis", 1);
  CU_ASSERT_EQUAL_FATAL(node_raw(f, "append", "TensorScatter", 24, "in new pos", "out", &axis, 1), TN_OK);
  CU_ASSERT_EQUAL_FATAL(node(f, "drop", "Neg", "out", "dropped"), TN_OK);
  CU_ASSERT_EQUAL_FATAL(node(f, "y", "Neg", "new", "y"), TN_OK);
  io(f, "past new whole", "y present");
}

static void check_ids(const tni_graph *g) {
  const tni_gstate *s = &g->states[0];
  CU_ASSERT_STRING_EQUAL(g->values[s->past]->pub.name, "past");
  CU_ASSERT_STRING_EQUAL(g->values[s->present]->pub.name, "present");
  CU_ASSERT_STRING_EQUAL(g->values[s->in]->pub.name, "in");
  CU_ASSERT_STRING_EQUAL(g->values[s->out]->pub.name, "out");
  CU_ASSERT_STRING_EQUAL(g->values[g->step_pos]->pub.name, "pos");
  CU_ASSERT_STRING_EQUAL(g->values[g->step_valid]->pub.name, "valid");
  for (int i = 0; i < 2; i++) {
    const tni_value *v = g->values[i ? s->out : s->in];
    CU_ASSERT_EQUAL(v->pub.kind, TN_VALUE_STATE);
    CU_ASSERT_EQUAL(v->pub.state->pos, g->step_pos);
    CU_ASSERT_EQUAL(v->pub.state->valid, g->step_valid);
  }
  CU_ASSERT_EQUAL(g->values[s->in]->pub.producer, TN_NONE);
  CU_ASSERT_EQUAL(g->values[s->present]->pub.producer, TN_NONE);
}

/* A cache is written although nobody reads it in this run: the next one does. */
static void kept(void) {
  fixture f;
  char buf[64];
  build(&f);
  CU_ASSERT_EQUAL(tni_graph_finish(f.g, &f.err), TN_OK);
  check_ids(f.g);
  CU_ASSERT_EQUAL(tni_graph_dce(f.g), 1);
  CU_ASSERT_EQUAL(tni_graph_compact(f.g, &f.err), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_find(f.g, "unused"), TN_NONE);
  check_ids(f.g);
  CU_ASSERT_STRING_EQUAL(order_of(&f, buf, sizeof buf), "append y");
  fixture_finish(&f);
}

static void refused(void) {
  fixture f;
  build(&f);
  CU_ASSERT_EQUAL(node(&f, "bad", "Neg", "new", "in"), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_finish(f.g, &f.err), TN_E_INVALID);
  CU_ASSERT(err_has(&f.err, "output 'in' is a graph input or a constant|bad"));
  fixture_finish(&f);

  build(&f); /* it appends to what is no cache */
  tni_raw_attr axis = raw_int("axis", 1);
  f.g->nodes[node_id(&f, "append")]->dead = true;
  CU_ASSERT_EQUAL(node_raw(&f, "bad", "TensorScatter", 24, "whole new pos", "out", &axis, 1), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_finish(f.g, &f.err), TN_E_INVALID);
  CU_ASSERT(err_has(&f.err, "output 'out'|bad"));
  fixture_finish(&f);

  build(&f); /* an output that no cache stands behind */
  f.g->n_states = 0;
  CU_ASSERT_EQUAL(tni_graph_finish(f.g, &f.err), TN_E_INVALID);
  CU_ASSERT(err_has(&f.err, "present|made by no node"));
  fixture_finish(&f);
}

static void printed(void) {
  fixture f;
  char *text = NULL;
  size_t n = 0;
  build(&f);
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
  FILE *out = open_memstream(&text, &n);
  if (!out) CU_FAIL_FATAL("memory");
  tni_graph_dump_text(f.g, out);
  fclose(out);
  CU_ASSERT(strstr(text, "  cache \"past\" -> \"present\" in \"in\" -> \"out\" axis=2 perm=[0, 2, 1, 3]\n") != NULL);
  CU_ASSERT(strstr(text, "  state \"in\": float32[b, t, 8]\n") != NULL);
  CU_ASSERT(strstr(text, "  step \"pos\": int64[b]\n") != NULL);
  CU_ASSERT(strstr(text, "TensorScatter \"append\" (\"in\": float32[b, t, 8], ") != NULL);
  free(text);
  fixture_finish(&f);
}

static void hashed(void) {
  fixture f[3];
  tn_graph view[3];
  for (int i = 0; i < 3; i++) {
    build(&f[i]);
    if (i == 2) ((tn_state *)f[i].g->values[f[i].g->states->in]->pub.state)->axis = 0;
    CU_ASSERT_EQUAL_FATAL(tni_graph_compact(f[i].g, &f[i].err), TN_OK);
    CU_ASSERT_EQUAL_FATAL(tni_graph_view(f[i].g, 0, &view[i], &f[i].err), TN_OK);
    CU_ASSERT_PTR_EQUAL(view[i].values[f[i].g->states->in]->state, f[i].g->values[f[i].g->states->in]->pub.state);
  }
  CU_ASSERT(memcmp(view[0].hash, view[1].hash, 32) == 0);
  CU_ASSERT(memcmp(view[0].hash, view[2].hash, 32) != 0);
  for (int i = 0; i < 3; i++) fixture_finish(&f[i]);
}

void add_state_suite(void) {
  CU_pSuite s = CU_add_suite("caches", NULL, NULL);
  CU_add_test(s, "what stays", kept);
  CU_add_test(s, "what is refused", refused);
  CU_add_test(s, "text", printed);
  CU_add_test(s, "hash", hashed);
}
