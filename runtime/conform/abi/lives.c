/* SPDX-License-Identifier: Apache-2.0
 *
 * Family abi, several plugins of one file: what each says of itself is its own, lasts, and is the same in every life.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/abi/parts.h"
#include "runtime/conform/drive/drive.h"

enum { MOST_TEXT = 128, LIVES = 3 };

/* What was on the stack below is something else now. */
static void __attribute__((noinline)) dirty_stack(uint8_t with) {
  volatile uint8_t room[32 << 10];
  for (size_t i = 0; i < sizeof room; i++) room[i] = with;
}

/* What a life said, copied when it was said. */
typedef struct said {
  char name[MOST_TEXT], version[MOST_TEXT], build[MOST_TEXT], device[MOST_TEXT], driver[MOST_TEXT];
  uint8_t key[32];
  uint32_t n_engines, align, sub_align, flags;
} said;

static void copy_text(char *to, const char *from) { snprintf(to, MOST_TEXT, "%s", from ? from : ""); }

static void listen(const tni_cf_plugin *p, said *s) {
  const tn_caps *c = p->n_caps ? p->caps[0] : NULL;
  memset(s, 0, sizeof *s);
  copy_text(s->name, p->plugin->name);
  copy_text(s->version, p->plugin->version);
  copy_text(s->build, p->plugin->build_id);
  if (!c) return;
  copy_text(s->device, c->name);
  copy_text(s->driver, c->driver);
  memcpy(s->key, c->key, sizeof s->key);
  s->n_engines = c->n_engines;
  s->align = c->align;
  s->sub_align = c->sub_align;
  s->flags = c->flags;
}

static void compare(tni_cf *cf, const said *a, const said *b, const char *when) {
  const struct {
    const char *what, *x, *y;
  } texts[] = {{"tn_plugin.name", a->name, b->name},
               {"tn_plugin.version", a->version, b->version},
               {"tn_plugin.build_id", a->build, b->build},
               {"tn_caps.name", a->device, b->device},
               {"tn_caps.driver", a->driver, b->driver}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (strcmp(texts[i].x, texts[i].y) != 0)
      tni_cf_fail(cf,
                  "%s is another %s: what hangs on a returned object lives as long as the object, and says the same "
                  "(plugin.h, rule 4)",
                  texts[i].what, when);
  if (memcmp(a->key, b->key, sizeof a->key) != 0)
    tni_cf_fail(cf, "tn_caps.key is another %s: compiled kernels are kept under it, for driver and hardware alone",
                when);
  if (a->n_engines != b->n_engines || a->align != b->align || a->sub_align != b->sub_align || a->flags != b->flags)
    tni_cf_fail(cf, "tn_caps says other numbers %s", when);
}

static bool enter(tni_cf *cf, tni_cf_plugin *p) {
  tn_status st = tni_cf_plugin_init(p, cf->subject);
  if (st == TN_OK) st = tni_cf_plugin_enter(p);
  if (st == TN_OK) st = tni_cf_plugin_check(p, cf->subject);
  if (st == TN_OK) st = tni_cf_plugin_enumerate(p);
  if (st != TN_OK) tni_cf_fail(cf, "%s: %s", p->step, p->err.message);
  return st == TN_OK;
}

static void ask_lives(tni_cf *cf, const void *arg) {
  tni_cf_plugin *p = calloc(1, sizeof *p);
  said first, now;
  (void)arg;
  for (int life = 0; p && life < LIVES && cf->verdict == TNI_CF_PASS; life++) {
    dirty_stack((uint8_t)(0x11 + 0x47 * life));
    if (!enter(cf, p)) break;
    listen(p, life ? &now : &first);
    if (life) compare(cf, &first, &now, "in another life");
    said *said_then = life ? &now : &first, later;
    dirty_stack(0xee);
    listen(p, &later);
    compare(cf, said_then, &later, "later in the same life");
    tni_cf_plugin_finish(p);
  }
  free(p);
}

/* Two plugins at once, entered one after the other before the first is opened: each uses the host that it was given. */
static void ask_two_entries(tni_cf *cf, const void *arg) {
  tni_cf_plugin *p = calloc(2, sizeof *p);
  (void)arg;
  if (!p || !enter(cf, &p[0])) {
    free(p);
    return;
  }
  if (enter(cf, &p[1])) {
    if (p[0].plugin == p[1].plugin)
      tni_cf_fail(cf, "two hosts get the same tn_plugin: nothing of a plugin may be a global (plugin.h, tn_host)");
    const long long other = atomic_load(&p[1].host.total);
    if (cf->verdict == TNI_CF_PASS && p[0].n_caps > cf->subject->device &&
        tni_cf_plugin_open(&p[0], cf->subject->device) != TN_OK)
      tni_cf_fail(cf, "open, with another host entered: %s", p[0].err.message);
    if (atomic_load(&p[1].host.total) != other)
      tni_cf_fail(cf,
                  "open takes memory of the host that was entered last, not of its own: keep the tn_host with what it "
                  "made, not in a global (plugin.h, tn_host)");
    if (p[0].plugin != p[1].plugin) tni_cf_plugin_finish(&p[1]);
  }
  tni_cf_plugin_finish(&p[0]);
  free(p);
}

/* A device that takes nothing cannot lower anything. */
static void lower_nothing(tni_cf *cf, tni_cf_plugin *p) {
  tni_cn_graph b;
  tn_graph view;
  tn_program *program = NULL;
  tn_error e;
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  const tn_id nodes[1] = {0}, none[1] = {TN_NONE};
  tni_error_init(&e);
  if (tni_cf_graph_make(tni_cf_graph_find("add"), &b, &r) && tni_graph_view(b.g, TN_PHASE_ANY, &view, &e) == TN_OK) {
    const tn_subgraph s = {.h = TN_HDR(tn_subgraph),
                           .graph = &view,
                           .nodes = nodes,
                           .group_of = none,
                           .inputs = b.in,
                           .outputs = b.out,
                           .n_nodes = 1,
                           .n_inputs = b.n_in,
                           .n_outputs = b.n_out};
    const tn_status st = p->device->lower(p->device, &s, &program, &e);
    if (st == TN_OK && !program)
      tni_cf_fail(cf, "lower of a node that was refused says OK and gives no program");
    else if (st == TN_OK)
      p->device->release(program);
    else if (!e.message[0])
      tni_cf_fail(cf, "lower refuses a node without a text: fill tn_error.message");
  }
  tni_cn_destroy(&b);
}

static void ask_lower(tni_cf *cf, const void *arg) {
  tni_cf_plugin *p = calloc(1, sizeof *p);
  bool takes = false;
  (void)arg;
  for (uint32_t i = 0; i < cf->listing->n_claimed; i++) takes = takes || cf->listing->claimed[i].verdict == TN_YES;
  if (takes) tni_cf_skip(cf, "it takes nodes: a host does not lower others");
  if (p && !takes && tni_cf_start(cf, p)) {
    lower_nothing(cf, p);
    tni_cf_stop(cf, p);
  }
  free(p);
}

void tni_cf_abi_lives_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  static const tni_cf_case cases[] = {
      {"abi/calls/lives", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, ask_lives, NULL, 0},
      {"abi/calls/two-entries", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, ask_two_entries, NULL, 0},
      {"abi/calls/lower-nothing", TNI_CF_LEVEL_ALL, 0, ask_lower, NULL, 0},
  };
  (void)l;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) add(ctx, &cases[i]);
}
