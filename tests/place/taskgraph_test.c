/* SPDX-License-Identifier: Apache-2.0
 *
 * Random task graphs through hazards -> order -> offsets -> edges, and then run on simulated engines in random orders
 * over a shadow of the arena that knows whose every byte is. What a wrong plan does is seen there: the same graphs
 * without the edges that sharing needs are caught.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "place_test.h"
#include "runtime/memory/choose_order.h"

enum { TASKS = 60, OBJECTS = 2 * TASKS, ENGINES = 3, MOST_USES = 8, LIVES = OBJECTS + TASKS };

/* A model: tasks with engines and scratch, objects with sizes. */
typedef struct world {
  uint64_t seed;
  uint32_t n, n_objects, n_accesses, n_lives;
  uint32_t engine[TASKS];
  uint64_t bytes[OBJECTS], scratch[TASKS];
  tni_access access[TASKS * MOST_USES];
  uint32_t users[LIVES][TASKS], n_users[LIVES];
  tni_life lives[LIVES]; /* objects, then scratch of task i as n_objects + i */
} world;

static uint64_t rng(uint64_t *s) {
  *s ^= *s << 13;
  *s ^= *s >> 7;
  *s ^= *s << 17;
  return *s;
}

static void use(world *w, uint32_t task, uint32_t object, uint32_t access) {
  for (uint32_t i = w->n_accesses; i > 0 && w->access[i - 1].task == task; i--)
    if (w->access[i - 1].object == object) return;
  w->access[w->n_accesses++] = (tni_access){task, object, access};
}

/* Each task makes one or two objects and reads some; now and then it writes one that is there again. */
static void make_world(world *w, uint64_t seed) {
  uint64_t s = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  memset(w, 0, sizeof *w);
  w->seed = seed;
  w->n = 3 + (uint32_t)(rng(&s) % (TASKS - 3));
  const uint32_t window = 1 + (uint32_t)(rng(&s) % 12);
  for (uint32_t t = 0; t < w->n; t++) {
    w->engine[t] = rng(&s) % 2 ? 0 : (uint32_t)(rng(&s) % ENGINES);
    w->scratch[t] = rng(&s) % 3 ? rng(&s) % 200 : 0;
    for (uint32_t k = (uint32_t)(rng(&s) % 4); k > 0 && w->n_objects; k--) {
      uint32_t back = (uint32_t)(rng(&s) % (w->n_objects < window ? w->n_objects : window));
      use(w, t, w->n_objects - 1 - back, rng(&s) % 12 ? TN_READ : TN_APPEND);
    }
    for (uint32_t k = 1 + (rng(&s) % 4 == 0); k > 0; k--) {
      w->bytes[w->n_objects] = rng(&s) % 10 ? 1 + rng(&s) % 300 : 0;
      use(w, t, w->n_objects++, TN_WRITE);
    }
  }
}

/* Lives in the numbering `position` (NULL: as made). */
static void make_lives(world *w, const uint32_t *position) {
  memset(w->n_users, 0, sizeof w->n_users);
  uint32_t at[TASKS];
  for (uint32_t t = 0; t < w->n; t++) at[position ? position[t] : t] = t;
  for (uint32_t p = 0; p < w->n; p++)
    for (uint32_t i = 0; i < w->n_accesses; i++)
      if (w->access[i].task == at[p]) w->users[w->access[i].object][w->n_users[w->access[i].object]++] = p;
  for (uint32_t p = 0; p < w->n; p++) {
    w->users[w->n_objects + at[p]][0] = p;
    w->n_users[w->n_objects + at[p]] = 1;
  }
  w->n_lives = w->n_objects + w->n;
  for (uint32_t i = 0; i < w->n_lives; i++) {
    bool object = i < w->n_objects;
    w->lives[i] = (tni_life){.tasks = w->users[i],
                             .n_tasks = w->n_users[i],
                             .serial = !object && w->engine[i - w->n_objects] == 0,
                             .bytes = object ? w->bytes[i] : w->scratch[i - w->n_objects],
                             .align = UINT64_C(1) << i % 5};
  }
}

static tn_status make_graph(const world *w, tni_taskgraph *g) {
  tni_edges e = {0};
  tn_status st = tni_taskgraph_hazards(w->access, w->n_accesses, w->n_objects, &e);
  if (st == TN_OK) st = tni_taskgraph_make(w->n, e.v, e.n, g);
  free(e.v);
  return st;
}

/* --- simulated engines ------------------------------------------------------------------------------------------- */

typedef struct sim {
  const world *w;
  const tni_taskgraph *g;
  const uint32_t *task; /* position -> task */
  uint16_t *shadow;     /* life + 1 that owns the byte */
  uint32_t running[ENGINES], n_running;
  uint8_t started[TASKS], finished[TASKS], born[LIVES];
  uint32_t lost; /* uses of bytes that somebody else has written meanwhile */
} sim;

static void own(sim *s, uint32_t life) {
  const tni_life *l = &s->w->lives[life];
  for (uint64_t b = 0; b < l->bytes; b++) s->shadow[l->offset + b] = (uint16_t)(life + 1);
}

static bool owns(const sim *s, uint32_t life) {
  const tni_life *l = &s->w->lives[life];
  for (uint64_t b = 0; b < l->bytes; b++)
    if (s->shadow[l->offset + b] != life + 1) return false;
  return true;
}

/* First use writes; later ones find what was written. */
static void begin(sim *s, uint32_t p) {
  s->started[p] = 1;
  for (uint32_t i = 0; i < s->w->n_accesses; i++) {
    const tni_access *a = &s->w->access[i];
    if (a->task != s->task[p]) continue;
    if (!s->born[a->object])
      own(s, a->object);
    else
      s->lost += !owns(s, a->object);
    s->born[a->object] = 1;
  }
  own(s, s->w->n_objects + s->task[p]);
}

static void end(sim *s, uint32_t p) {
  s->finished[p] = 1;
  for (uint32_t i = 0; i < s->w->n_accesses; i++)
    if (s->w->access[i].task == s->task[p]) s->lost += !owns(s, s->w->access[i].object);
  s->lost += !owns(s, s->w->n_objects + s->task[p]);
}

static bool can_start(const sim *s, uint32_t p) {
  if (s->started[p] || s->running[s->w->engine[s->task[p]]] != TN_NONE) return false;
  for (uint32_t i = s->g->first[p]; i < s->g->first[p + 1]; i++)
    if (!s->finished[s->g->pred[i]]) return false;
  return true;
}

/* Starts and ends tasks at random until all are done. Returns how often a task lost bytes. */
static uint32_t simulate(const world *w, const tni_taskgraph *g, const uint32_t *task, uint64_t arena, uint64_t seed) {
  sim s = {.w = w, .g = g, .task = task, .shadow = calloc(arena + 1, sizeof(uint16_t))};
  CU_ASSERT_PTR_NOT_NULL_FATAL(s.shadow);
  for (uint32_t e = 0; e < ENGINES; e++) s.running[e] = TN_NONE;
  for (uint32_t done = 0; done < w->n;) {
    uint32_t ready[TASKS], n = 0, e = (uint32_t)(rng(&seed) % ENGINES);
    for (uint32_t p = 0; p < w->n; p++)
      if (can_start(&s, p)) ready[n++] = p;
    if (n && rng(&seed) % 3) {
      uint32_t p = ready[rng(&seed) % n];
      s.running[w->engine[task[p]]] = p;
      begin(&s, p);
    } else if (s.running[e] != TN_NONE) {
      end(&s, s.running[e]);
      s.running[e] = TN_NONE;
      done++;
    }
  }
  free(s.shadow);
  return s.lost;
}

/* --- the whole way ----------------------------------------------------------------------------------------------- */

typedef struct tally {
  uint32_t lost, lost_without, reordered;
  uint64_t arena, plain, bound, wide;
} tally;

static void plan_world(world *w, tally *sum) {
  tni_taskgraph g = {0}, ordered = {0}, safe = {0};
  tni_order o;
  uint64_t arena = 0, plain = 0;
  uint32_t position[TASKS];
  CU_ASSERT_EQUAL_FATAL(make_graph(w, &g), TN_OK);
  make_lives(w, NULL);
  CU_ASSERT_EQUAL_FATAL(tni_lives_plan(w->lives, w->n_lives, &plain), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_order_choose(&g, w->lives, w->n_lives, &o), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_taskgraph_permute(&g, o.task, &ordered), TN_OK);
  for (uint32_t p = 0; p < w->n; p++) position[o.task[p]] = p;
  make_lives(w, position);
  CU_ASSERT_EQUAL_FATAL(tni_lives_plan(w->lives, w->n_lives, &arena), TN_OK);
  CU_ASSERT(arena == o.arena && arena <= plain && o.bound <= arena);
  CU_ASSERT_EQUAL_FATAL(tni_taskgraph_share(&ordered, w->lives, w->n_lives, &safe), TN_OK);
  for (uint64_t k = 1; k <= 8; k++) {
    uint32_t lost = simulate(w, &safe, o.task, arena, w->seed * 100 + k);
    if (lost) printf("\n  seed %" PRIu64 ", run %" PRIu64 ": %u uses of overwritten bytes", w->seed, k, lost);
    sum->lost += lost;
    sum->lost_without += simulate(w, &ordered, o.task, arena, w->seed * 100 + k) != 0;
  }
  /* Spread: safe in every order without one edge more. */
  uint64_t wide = 0;
  tni_taskgraph_destroy(&safe);
  CU_ASSERT_EQUAL_FATAL(tni_lives_spread(&ordered, w->lives, w->n_lives, &wide), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_taskgraph_share(&ordered, w->lives, w->n_lives, &safe), TN_OK);
  CU_ASSERT(safe.n_edges == ordered.n_edges && wide >= o.bound);
  for (uint64_t k = 1; k <= 8; k++) sum->lost += simulate(w, &ordered, o.task, wide, w->seed * 100 + k);
  sum->wide += wide;
  sum->reordered += o.chosen != 0;
  sum->arena += arena;
  sum->plain += plain;
  sum->bound += o.bound;
  free(o.task);
  tni_taskgraph_destroy(&g);
  tni_taskgraph_destroy(&ordered);
  tni_taskgraph_destroy(&safe);
}

static void test_random(void) {
  static world w;
  tally sum = {0};
  enum { WORLDS = 400 };
  for (uint64_t seed = 1; seed <= WORLDS; seed++) {
    make_world(&w, seed);
    plan_world(&w, &sum);
  }
  printf(
      "%u of %d graphs reordered, arena %.3f of the numbering's, %.3f of the bound, %u of %d runs without the edges "
      "caught; spread %.3f of the arena ... ",
      sum.reordered, WORLDS, (double)sum.arena / (double)sum.plain, (double)sum.arena / (double)sum.bound,
      sum.lost_without, 8 * WORLDS, (double)sum.wide / (double)sum.arena);
  CU_ASSERT_EQUAL(sum.lost, 0);
  CU_ASSERT(sum.lost_without > 4 * WORLDS); /* the simulation sees a plan without its edges */
  CU_ASSERT(sum.reordered > WORLDS / 4 && sum.arena < sum.plain);
}

/* --- by hand ----------------------------------------------------------------------------------------------------- */

static bool has_edge(const tni_taskgraph *g, uint32_t from, uint32_t to) {
  for (uint32_t i = g->first[to]; i < g->first[to + 1]; i++)
    if (g->pred[i] == from) return true;
  return false;
}

static void test_hazards(void) {
  /* 0 writes a; 1 and 2 read it; 3 appends to it; 4 reads it; 4 and 5 share nothing. */
  const tni_access a[] = {{0, 0, TN_WRITE},  {1, 0, TN_READ}, {2, 0, TN_READ}, {3, 0, TN_READ},
                          {3, 0, TN_APPEND}, {4, 0, TN_READ}, {5, 1, TN_WRITE}};
  tni_edges e = {0};
  tni_taskgraph g = {0};
  tni_reach r = {0};
  CU_ASSERT_EQUAL(tni_taskgraph_hazards(a, 7, 2, &e), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_taskgraph_make(6, e.v, e.n, &g), TN_OK);
  CU_ASSERT(has_edge(&g, 0, 1) && has_edge(&g, 0, 2) && has_edge(&g, 1, 3) && has_edge(&g, 2, 3));
  CU_ASSERT(has_edge(&g, 3, 4) && !has_edge(&g, 1, 2) && g.first[6] - g.first[5] == 0);
  CU_ASSERT_EQUAL_FATAL(tni_reach_make(&g, &r), TN_OK);
  CU_ASSERT(tni_precedes(&r, 0, 4) && tni_precedes(&r, 2, 4) && !tni_precedes(&r, 1, 2) && !tni_precedes(&r, 4, 4));
  CU_ASSERT(!tni_precedes(&r, 0, 5));
  tni_reach_destroy(&r);
  tni_taskgraph_destroy(&g);
  free(e.v);
}

/* Four branches: each makes 1,000 bytes and reduces them to 10. The numbering makes all first. */
static void test_branches(void) {
  enum { N = 4 };
  uint32_t users[2 * N][2];
  tni_life lives[2 * N];
  tni_access a[3 * N + N];
  uint32_t n = 0;
  for (uint32_t i = 0; i < N; i++) a[n++] = (tni_access){i, i, TN_WRITE};
  for (uint32_t i = 0; i < N; i++) {
    a[n++] = (tni_access){N + i, i, TN_READ};
    a[n++] = (tni_access){N + i, N + i, TN_WRITE};
    users[i][0] = i;
    users[i][1] = N + i;
    users[N + i][0] = N + i;
    users[N + i][1] = 2 * N;
    lives[i] = (tni_life){users[i], 2, 0, 1000, 2, 0};
    lives[N + i] = (tni_life){users[N + i], 2, 0, 10, 2, 0};
  }
  for (uint32_t i = 0; i < N; i++) a[n++] = (tni_access){2 * N, N + i, TN_READ};
  tni_edges e = {0};
  tni_taskgraph g = {0};
  tni_order o = {0};
  uint64_t plain = 0;
  CU_ASSERT_EQUAL(tni_taskgraph_hazards(a, n, 2 * N, &e), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_taskgraph_make(2 * N + 1, e.v, e.n, &g), TN_OK);
  CU_ASSERT_EQUAL(tni_lives_plan(lives, 2 * N, &plain), TN_OK);
  CU_ASSERT_EQUAL(plain, 4010);
  CU_ASSERT_EQUAL_FATAL(tni_order_choose(&g, lives, 2 * N, &o), TN_OK);
  CU_ASSERT_EQUAL(o.arena, 1040);
  CU_ASSERT_EQUAL(o.bound, 1040);
  free(o.task);
  tni_taskgraph_destroy(&g);
  free(e.v);
}

/* Two tasks that know nothing of each other: sharing costs an edge, scratch of one engine does not. */
static void test_sharing(void) {
  static const uint32_t t0[] = {0}, t1[] = {1}, both[] = {0, 1};
  tni_life lives[2] = {{t0, 1, 0, 64, 1, 0}, {t1, 1, 0, 64, 1, 0}};
  tni_taskgraph g = {0}, s = {0};
  CU_ASSERT_EQUAL_FATAL(tni_taskgraph_make(2, NULL, 0, &g), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_taskgraph_share(&g, lives, 2, &s), TN_OK);
  CU_ASSERT(s.n_edges == 1 && has_edge(&s, 0, 1));
  tni_taskgraph_destroy(&s);
  lives[1].offset = 64;
  CU_ASSERT_EQUAL_FATAL(tni_taskgraph_share(&g, lives, 2, &s), TN_OK);
  CU_ASSERT_EQUAL(s.n_edges, 0);
  tni_taskgraph_destroy(&s);
  lives[1].offset = 63;
  lives[0].serial = lives[1].serial = 1;
  CU_ASSERT_EQUAL_FATAL(tni_taskgraph_share(&g, lives, 2, &s), TN_OK);
  CU_ASSERT_EQUAL(s.n_edges, 0);
  tni_taskgraph_destroy(&s);
  lives[1] = (tni_life){both, 2, 0, 64, 1, 0}; /* neither ends first */
  CU_ASSERT_EQUAL(tni_taskgraph_share(&g, lives, 2, &s), TN_E_INTERNAL);
  tni_taskgraph_destroy(&g);
}

static void test_bad(void) {
  tni_taskgraph g = {0}, p = {0};
  tni_reach r;
  const tni_edge back[] = {{1, 0}}, self[] = {{1, 1}}, far[] = {{0, 2}}, good[] = {{0, 1}, {0, 1}};
  const uint32_t twice[] = {0, 0}, against[] = {1, 0}, outside[] = {0, 2};
  CU_ASSERT_EQUAL(tni_taskgraph_make(2, back, 1, &g), TN_E_INVALID);
  CU_ASSERT_EQUAL(tni_taskgraph_make(2, self, 1, &g), TN_E_INVALID);
  CU_ASSERT_EQUAL(tni_taskgraph_make(2, far, 1, &g), TN_E_INVALID);
  CU_ASSERT_EQUAL_FATAL(tni_taskgraph_make(2, good, 2, &g), TN_OK);
  CU_ASSERT_EQUAL(g.n_edges, 1);
  CU_ASSERT_EQUAL(tni_taskgraph_permute(&g, twice, &p), TN_E_INVALID);
  CU_ASSERT_EQUAL(tni_taskgraph_permute(&g, against, &p), TN_E_INVALID);
  CU_ASSERT_EQUAL(tni_taskgraph_permute(&g, outside, &p), TN_E_INVALID);
  tni_taskgraph_destroy(&g);
  CU_ASSERT_EQUAL_FATAL(tni_taskgraph_chain(TNI_REACH_MAX + 1, &g), TN_OK);
  CU_ASSERT_EQUAL(g.n_edges, TNI_REACH_MAX);
  CU_ASSERT_EQUAL(tni_reach_make(&g, &r), TN_E_LIMIT);
  tni_taskgraph_destroy(&g);
  CU_ASSERT_EQUAL_FATAL(tni_taskgraph_chain(0, &g), TN_OK);
  tni_taskgraph_destroy(&g);
}

/* Every order of a small graph comes up, and only orders of it. */
static void test_random_orders(void) {
  const tni_edge e[] = {{0, 2}};
  tni_taskgraph g = {0};
  uint32_t seen[27] = {0}, order[3], again[3], kinds = 0;
  CU_ASSERT_EQUAL_FATAL(tni_taskgraph_make(3, e, 1, &g), TN_OK);
  for (uint64_t seed = 1; seed <= 200; seed++) {
    CU_ASSERT_EQUAL_FATAL(tni_order_random(&g, seed, order), TN_OK);
    CU_ASSERT_EQUAL_FATAL(tni_order_random(&g, seed, again), TN_OK);
    CU_ASSERT_EQUAL(memcmp(order, again, sizeof order), 0);
    tni_taskgraph p = {0};
    CU_ASSERT_EQUAL(tni_taskgraph_permute(&g, order, &p), TN_OK);
    tni_taskgraph_destroy(&p);
    kinds += seen[order[0] * 9 + order[1] * 3 + order[2]]++ == 0;
  }
  CU_ASSERT_EQUAL(kinds, 3);
  tni_taskgraph_destroy(&g);
}

/* A graph with as many edges as one that is gone often lies where that one did: it is another all the same. */
static void test_ids(void) {
  const tni_edge e[2][1] = {{{0, 1}}, {{0, 2}}};
  uint64_t last = 0;
  for (uint32_t i = 0; i < 100; i++) {
    tni_taskgraph g = {0};
    CU_ASSERT_EQUAL_FATAL(tni_taskgraph_make(3, e[i % 2], 1, &g), TN_OK);
    CU_ASSERT(g.id > last);
    last = g.id;
    tni_taskgraph_destroy(&g);
    CU_ASSERT_EQUAL(g.id, 0);
  }
}

void suite_taskgraph(void) {
  CU_pSuite s = CU_add_suite("plan: task graph", NULL, NULL);
  CU_add_test(s, "random graphs on simulated engines", test_random);
  CU_add_test(s, "reads and writes in order", test_hazards);
  CU_add_test(s, "an order that needs less", test_branches);
  CU_add_test(s, "shared bytes", test_sharing);
  CU_add_test(s, "what is no graph", test_bad);
  CU_add_test(s, "random orders", test_random_orders);
  CU_add_test(s, "graphs at one address", test_ids);
}
