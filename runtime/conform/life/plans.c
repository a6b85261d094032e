/* SPDX-License-Identifier: Apache-2.0
 *
 * Two plans of one task, two args of one plan, two programs of one graph: each gives what it gives alone, in whatever
 * order the others end. What the plugin gives back is closed (the host's) or filled with nonsense (malloc's).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/conform/drive/drive.h"
#include "runtime/conform/heap/heap.h"
#include "runtime/conform/life/both.h"
#include "runtime/conform/life/engine.h"
#include "runtime/conform/life/follow.h"

enum { BUDGET_S = 6, INPUTS = 3, ROUNDS = 3 };

/* What one set of dims gives for each of several inputs. */
typedef struct wanted {
  int64_t rows;
  uint64_t stream; /* of the inputs */
  void *out[INPUTS][TNI_CN_MAX_OUT];
} wanted;

typedef struct plans {
  tni_cf *cf;
  tni_cf_host *h;
  tni_cf_rig program; /* lowered, without plans */
  const char *graph;
  tni_arena *arena;
} plans;

static bool failed(const plans *p, const char *when, const char *why) {
  return tni_cf_fail(p->cf, "%s: %s: %s", p->graph, when, why), false;
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

static bool give_inputs(const plans *p, tni_cf_rig *rig, const wanted *w, uint32_t k) {
  tni_cf_rng r = tni_cf_rng_of(p->cf, w->stream + k);
  return tni_cf_rig_inputs(rig, &r);
}

static bool is_as(const tni_cf_rig *rig, const wanted *w, uint32_t k) {
  for (uint32_t o = 0; o < rig->b.n_out; o++)
    if (memcmp(rig->out[o].data, w->out[k][o], rig->out[o].bytes) != 0) return false;
  return true;
}

/* One run with the inputs k: what they gave alone. */
static bool runs(const plans *p, tni_cf_rig *rig, const wanted *w, uint32_t k, const char *when) {
  if (!give_inputs(p, rig, w, k) || !tni_cf_rig_run(rig, (uint8_t)(0x11 + 0x22 * k), TNI_CF_INLINE))
    return failed(p, when, rig->why);
  return is_as(rig, w, k) || failed(p, when, "it gives other bits than alone");
}

static bool runs_all(const plans *p, tni_cf_rig *rig, const wanted *w, const char *when) {
  for (uint32_t n = 0; n < ROUNDS; n++)
    if (!runs(p, rig, w, n % INPUTS, when)) return false;
  return true;
}

static bool bind(plans *p, tni_cf_rig *rig, const wanted *w, const char *when) {
  tni_cf_rng r = tni_cf_rng_of(p->cf, w->stream);
  return tni_cf_rig_again(rig, &p->program, w->rows, &r) || failed(p, when, rig->why);
}

/* What the rows give while there is no other plan. */
static bool alone(plans *p, wanted *w) {
  tni_cf_rig rig;
  bool ok = bind(p, &rig, w, "a plan alone");
  for (uint32_t k = 0; ok && k < INPUTS; k++) {
    ok =
        (give_inputs(p, &rig, w, k) && tni_cf_rig_run(&rig, 0x5b, TNI_CF_INLINE)) || failed(p, "a plan alone", rig.why);
    for (uint32_t o = 0; ok && o < rig.b.n_out; o++)
      ok = (w->out[k][o] = tni_arena_memdup(p->arena, rig.out[o].data, rig.out[o].bytes + 1, 64)) != NULL;
  }
  tni_cf_rig_finish(&rig);
  return ok;
}

/* --- at once ------------------------------------------------------------------------------------------------------ */

static bool at_once(const plans *p, tni_cf_rig *a, const wanted *wa, tni_cf_rig *b, const wanted *wb) {
  tni_cf_runner w[2] = {{.rig = a, .rounds = 2 * ROUNDS}, {.rig = b, .rounds = 2 * ROUNDS}};
  for (int i = 0; i < 2; i++) {
    const wanted *of = i ? wb : wa;
    memcpy(w[i].want, of->out[0], sizeof w[i].want);
    if (!give_inputs(p, w[i].rig, of, 0)) return failed(p, "two plans at once", w[i].rig->why);
  }
  tni_cf_run_both(w);
  for (int i = 0; i < 2; i++)
    if (w[i].failed || w[i].differs)
      return failed(p, "runs of two plans of one task at once", w[i].failed ? w[i].rig->why : "other bits than alone");
  return true;
}

/* --- what is asked ------------------------------------------------------------------------------------------------ */

/* Two plans of each task, of so many rows: either ends before the other, the older one or the younger. */
static bool two_plans(plans *p, int64_t rows, int64_t others) {
  wanted wa = {.rows = rows, .stream = 10}, wb = {.rows = others, .stream = 20};
  tni_cf_rig a = {0}, b = {0};
  bool ok = alone(p, &wa) && alone(p, &wb) && bind(p, &a, &wa, "a first plan") && bind(p, &b, &wb, "a second plan") &&
            runs(p, &a, &wa, 0, "of two plans the first") && runs(p, &b, &wb, 0, "of two plans the second");
  if (a.h) tni_cf_rig_finish(&a);
  ok = ok && runs_all(p, &b, &wb, "a plan, once one that was bound before it is unbound") &&
       bind(p, &a, &wa, "a plan that is bound again") && runs(p, &a, &wa, 1, "a plan that is bound again") &&
       at_once(p, &a, &wa, &b, &wb);
  if (a.h) tni_cf_rig_finish(&a);
  ok = ok && runs_all(p, &b, &wb, "a plan, once one that was bound after it is unbound") &&
       bind(p, &a, &wa, "a plan that is bound again");
  if (b.h) tni_cf_rig_finish(&b);
  ok = ok && runs_all(p, &a, &wa, "a plan, once the first is unbound");
  if (a.h) tni_cf_rig_finish(&a);
  return ok;
}

/* Two args of one plan besides the first: either is freed before the other. */
static bool two_args(plans *p, int64_t rows) {
  wanted w = {.rows = rows, .stream = 30};
  tni_cf_rig a = {0}, b[2] = {{0}};
  bool ok = alone(p, &w) && bind(p, &a, &w, "a plan for three args");
  for (int first = 0; ok && first < 2; first++) {
    for (int i = 0; ok && i < 2; i++) {
      tni_cf_rng r = tni_cf_rng_of(p->cf, w.stream);
      ok = tni_cf_rig_share(&b[i], &a, &r) || failed(p, "args beside others", b[i].why);
    }
    ok = ok && runs(p, &b[0], &w, 1, "the second args of a plan") && runs(p, &b[1], &w, 2, "the third args of a plan");
    if (b[first].h) tni_cf_rig_finish(&b[first]);
    ok = ok && runs_all(p, &b[!first], &w, "args, once others of their plan are freed") &&
         runs(p, &a, &w, 0, "the first args, once others of their plan are freed");
    if (b[!first].h) tni_cf_rig_finish(&b[!first]);
  }
  if (a.h) tni_cf_rig_finish(&a);
  return ok;
}

static bool is_fixed(const tni_cf_inst *i, uint32_t slot) {
  const uint32_t kind = i->d->info->slots[slot]->kind;
  return kind == TN_SLOT_WEIGHT || kind == TN_SLOT_PRIVATE;
}

/* All args of `of` over the memory of `to`. */
static bool move_args(const plans *p, tni_cf_rig *of, tni_cf_rig *to) {
  const tn_program_info *f = of->i.d->info;
  tn_error e;
  for (uint32_t t = 0; t < f->n_tasks; t++)
    for (uint32_t u = 0; u <= f->tasks[t]->n_uses; u++) {
      const bool last = u == f->tasks[t]->n_uses;
      if (!last && is_fixed(&of->i, f->tasks[t]->uses[u].slot)) continue;
      tni_error_init(&e);
      const tn_view *v = last ? &to->i.scratch[t].view : &to->i.slot[f->tasks[t]->uses[u].slot].view;
      if (p->h->device->args_set(of->i.args[t], u, v, &e) != TN_OK) return failed(p, "args_set", e.message);
    }
  return true;
}

/* args_set of some args, over the memory of a third: neither the args of the same plan nor its memory move with them.
 */
static bool moved_args(plans *p, int64_t rows) {
  wanted w = {.rows = rows, .stream = 40};
  tni_cf_rig a = {0}, b = {0}, c = {0};
  tni_cf_rng r = tni_cf_rng_of(p->cf, w.stream);
  bool ok = alone(p, &w) && bind(p, &a, &w, "a plan for two args") &&
            (tni_cf_rig_share(&b, &a, &r) || failed(p, "args beside others", b.why)) && bind(p, &c, &w, "a third plan");
  ok = ok && move_args(p, &b, &c) && runs(p, &a, &w, 1, "args, once args_set moved others of their plan") &&
       runs(p, &c, &w, 2, "args over memory that args_set gave to others too") && move_args(p, &b, &b) &&
       runs(p, &b, &w, 1, "args that args_set moved there and back") && move_args(p, &a, &c) && move_args(p, &a, &a) &&
       runs(p, &b, &w, 2, "args, once args_set moved others of their plan");
  if (c.h) tni_cf_rig_finish(&c);
  if (b.h) tni_cf_rig_finish(&b);
  if (a.h) tni_cf_rig_finish(&a);
  return ok;
}

/* A program of the graph with weights of `stream`. */
static bool make_program(plans *p, const tni_cf_claimed *c, uint64_t stream) {
  tni_cf_rng r = tni_cf_rng_of(p->cf, stream);
  memset(&p->program, 0, sizeof p->program);
  return (tni_cf_rig_claim(&p->program, p->h, tni_cf_graph_find(c->graph), c->phase, &r) &&
          tni_cf_rig_lower(&p->program)) ||
         failed(p, "a program", p->program.why);
}

/* Two programs of the same graph with other weights: the older or the younger is released before the other. */
static bool one_released(plans *p, plans *q, const tni_cf_claimed *c, int64_t rows, bool older) {
  wanted w[2] = {{.rows = rows, .stream = 50}, {.rows = rows, .stream = 50}};
  plans *const of[2] = {p, q};
  tni_cf_rig rig[2] = {{0}, {0}};
  bool ok = true;
  for (uint64_t k = 0; ok && k < 2; k++) { /* what each gives while the other is not there */
    ok = make_program(p, c, 1 + k) && alone(p, &w[k]);
    tni_cf_rig_finish(&p->program);
  }
  *q = *p;
  memset(&q->program, 0, sizeof q->program);
  ok = ok && make_program(p, c, 1) && bind(p, &rig[0], &w[0], "a first program") && make_program(q, c, 2) &&
       bind(q, &rig[1], &w[1], "a second program") && runs(p, &rig[0], &w[0], 0, "of two programs the first") &&
       runs(q, &rig[1], &w[1], 0, "of two programs the second");
  const int gone = older ? 0 : 1;
  for (int k = 0; k < 2; k++) {
    const int now = k ? !gone : gone;
    if (k) ok = ok && runs_all(of[now], &rig[now], &w[now], "a program, once another of the same graph is released");
    if (rig[now].h) tni_cf_rig_finish(&rig[now]);
    tni_cf_rig_finish(&of[now]->program);
  }
  return ok;
}

static bool two_programs(plans *p, const tni_cf_claimed *c, int64_t rows) {
  plans *q = malloc(sizeof *q);
  const bool ok = (q || failed(p, "two programs", "no memory")) && one_released(p, q, c, rows, false) &&
                  one_released(p, q, c, rows, true);
  free(q);
  return ok;
}

/* What a run leaves in a cache is in the next one's results. */
static bool has_caches(const tni_cf_rig *rig) {
  for (uint32_t s = 0; s < rig->d.info->n_slots; s++)
    if (rig->d.info->slots[s]->kind == TN_SLOT_STATE) return true;
  return false;
}

static bool ask_graph(plans *p, const tni_cf_claimed *c) {
  enum { FEW = 5, MORE = 19 };
  p->graph = c->graph;
  p->arena = tni_arena_create();
  fprintf(stderr, "%s\n", c->graph);
  bool ok = p->arena && make_program(p, c, 1);
  const bool caches = ok && has_caches(&p->program);
  ok = ok && !caches && two_plans(p, FEW, FEW) && two_plans(p, FEW, MORE) && two_args(p, FEW) && moved_args(p, FEW);
  tni_cf_rig_finish(&p->program);
  ok = ok && two_programs(p, c, FEW);
  if (ok && tni_cf_heap_spoilt()) ok = failed(p, "plans, args and programs", "memory that was freed was written to");
  tni_cf_heap_drop();
  tni_arena_destroy(p->arena);
  return ok;
}

static void ask_plans(tni_cf *cf, const void *arg) {
  const tni_cf_listing *l = cf->listing;
  const int64_t until = tni_now_ns() + (int64_t)(cf->subject->thorough ? 8 : 1) * BUDGET_S * 1000000000;
  tni_cf_host h;
  plans *p = calloc(1, sizeof *p);
  uint32_t asked = 0, all = 0;
  (void)arg;
  if (!p) return;
  *p = (plans){.cf = cf, .h = &h};
  tni_cf_follow_begin(cf);
  tni_cf_heap_poison(true);
  if (!tni_cf_host_open(cf, &h, &(tni_cf_ask){.closed = true})) {
    free(p);
    return;
  }
  const tni_cf_claimed **list = TNI_NEW_ARRAY(cf->arena, const tni_cf_claimed *, l->n_claimed + 1);
  for (uint32_t i = 0; list && i < l->n_claimed; i++)
    if (l->claimed[i].verdict == TN_YES) list[all++] = &l->claimed[i];
  /* The first, and then from anywhere on. */
  tni_cf_rng r = tni_cf_rng_of(cf, 3);
  const uint32_t from = all > 1 ? (uint32_t)(tni_cf_rng_next(&r) % (all - 1)) : 0;
  for (uint32_t k = 0; k < all && cf->verdict == TNI_CF_PASS && tni_now_ns() < until; k++)
    asked += ask_graph(p, list[k ? 1 + (from + k) % (all - 1) : 0]);
  if (!all)
    tni_cf_skip(cf, "none of the graphs was claimed");
  else
    tni_cf_note(cf, "%u of %u graphs", asked, all);
  tni_cf_host_close(cf, &h);
  free(p);
}

void tni_cf_life_plan_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"life/plans", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_plans, NULL, 60000});
}
