/* SPDX-License-Identifier: Apache-2.0
 *
 * Family abi, what surrounds calls: the thread's and the process's state, structs of the device.
 */
#include <dlfcn.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/conform/abi/parts.h"
#include "runtime/conform/drive/drive.h"
#include "runtime/plugin/plugin.h"

/* --- state that is not the plugin's ------------------------------------------------------------------------------ */

typedef struct caller_state {
  uint64_t fpmode;
  sigset_t mask;
  cpu_set_t cpus;
  struct sigaction actions[NSIG];
  char cwd[512], locale[128];
  mode_t umask;
} caller_state;

static void state_read(caller_state *s) {
  memset(s, 0, sizeof *s);
  s->fpmode = tni_fpmode_get();
  pthread_sigmask(SIG_BLOCK, NULL, &s->mask);
  sched_getaffinity(0, sizeof s->cpus, &s->cpus);
  for (int i = 1; i < NSIG; i++) (void)sigaction(i, NULL, &s->actions[i]);
  if (!getcwd(s->cwd, sizeof s->cwd)) s->cwd[0] = '\0';
  const char *l = setlocale(LC_ALL, NULL);
  snprintf(s->locale, sizeof s->locale, "%s", l ? l : "");
  s->umask = umask(022);
  umask(s->umask);
}

/* A driver's library may install handlers of its own, which the plugin cannot help: that is noted. */
static void check_handler(tni_cf *cf, const char *step, int signal, void (*now)(int)) {
  const char *name = sigabbrev_np(signal);
  Dl_info who = {0};
  const bool known = now != SIG_DFL && now != SIG_IGN && dladdr(*(void **)&now, &who) && who.dli_fname;
  char *real = known ? realpath(who.dli_fname, NULL) : NULL;
  if (real && strcmp(real, cf->subject->path))
    tni_cf_note(cf, "%s: a handler of SIG%s in %s", step, name ? name : "?", real);
  else
    tni_cf_fail(cf, "%s changes the handler of SIG%s", step, name ? name : "?");
  free(real);
}

static void state_compare(tni_cf *cf, caller_state *before, const char *step) {
  caller_state now;
  state_read(&now);
  if (now.fpmode != before->fpmode)
    tni_cf_fail(cf, "%s changes the floating-point mode of its thread (%#llx to %#llx)", step,
                (unsigned long long)before->fpmode, (unsigned long long)now.fpmode);
  for (int i = 1; i < NSIG; i++) {
    if (sigismember(&now.mask, i) != sigismember(&before->mask, i))
      tni_cf_fail(cf, "%s leaves SIG%s %s", step, sigabbrev_np(i) ? sigabbrev_np(i) : "?",
                  sigismember(&now.mask, i) == 1 ? "blocked" : "unblocked");
    if (now.actions[i].sa_handler != before->actions[i].sa_handler)
      check_handler(cf, step, i, now.actions[i].sa_handler);
  }
  if (!CPU_EQUAL(&now.cpus, &before->cpus)) tni_cf_fail(cf, "%s changes the thread's affinity", step);
  if (strcmp(now.cwd, before->cwd)) tni_cf_fail(cf, "%s changes the working directory to %s", step, now.cwd);
  if (strcmp(now.locale, before->locale)) tni_cf_fail(cf, "%s changes the locale to %s", step, now.locale);
  memcpy(before->actions, now.actions, sizeof now.actions); /* each change is said once */
  if (now.umask != before->umask) tni_cf_fail(cf, "%s changes the umask to %o", step, now.umask);
}

static const tni_cf_claimed *first_claimed(const tni_cf_listing *l) {
  for (uint32_t i = 0; i < l->n_claimed; i++)
    if (l->claimed[i].verdict == TN_YES) return &l->claimed[i];
  return NULL;
}

/* From loading to shutdown with one product in between. */
static void thread_state(tni_cf *cf, const void *arg) {
  caller_state before;
  tni_cf_host *h = calloc(1, sizeof *h);
  tni_cf_rig rig = {0};
  tni_cf_rng r = tni_cf_rng_of(cf, 0);
  const tni_cf_claimed *c = first_claimed(cf->listing);
  (void)arg;
  state_read(&before);
  if (!h || !tni_cf_host_open(cf, h, NULL)) {
    free(h);
    return;
  }
  state_compare(cf, &before, "loading, entry, enumerate or open");
  if (c) {
    const bool claimed = tni_cf_rig_claim(&rig, h, tni_cf_graph_find(c->graph), c->phase, &r);
    state_compare(cf, &before, "claim");
    const bool ok = claimed && tni_cf_rig_prepare(&rig, 3, &r);
    state_compare(cf, &before, "lower, packing, set, measure, bind or args");
    if (!ok || !tni_cf_rig_run(&rig, 0x5b, TNI_CF_EVEN)) tni_cf_fail(cf, "%s: %s", c->graph, rig.why);
    state_compare(cf, &before, "run, submit, map or unmap");
    tni_cf_rig_finish(&rig);
    state_compare(cf, &before, "args_free, unbind, release or destroy");
  }
  tni_cf_host_close(cf, h);
  state_compare(cf, &before, "close or shutdown");
  free(h);
}

/* --- caps, twice ------------------------------------------------------------------------------------------------- */

/* A list that is asked for with too little room says how many there are and writes no more than there is room for. */
static void enumerate_caps(tni_cf *cf, const void *arg) {
  tni_cf_plugin p;
  (void)arg;
  if (!tni_cf_start(cf, &p)) return;
  const tn_caps *again[TNI_CF_MAX_DEVICES + 1], *none = (const tn_caps *)(const void *)&p;
  for (uint32_t cap = 0; cap <= p.n_caps; cap++) {
    uint32_t n = 0;
    tn_error e;
    tni_error_init(&e);
    for (uint32_t i = 0; i <= TNI_CF_MAX_DEVICES; i++) again[i] = none;
    if (p.plugin->enumerate(p.plugin, cap, again, &n, &e) != TN_OK)
      tni_cf_fail(cf, "enumerate with room for %u failed: %s", cap, e.message);
    else if (n != p.n_caps)
      tni_cf_fail(cf, "enumerate with room for %u says %u devices, before it was %u", cap, n, p.n_caps);
    for (uint32_t i = cap; i <= TNI_CF_MAX_DEVICES; i++)
      if (again[i] != none) tni_cf_fail(cf, "enumerate with room for %u writes entry %u", cap, i);
    for (uint32_t i = 0; i < cap && i < p.n_caps; i++)
      if (again[i] == none || !again[i] || memcmp(again[i]->key, p.caps[i]->key, 32))
        tni_cf_fail(cf, "device %u has another key when asked again", i);
  }
  const tn_caps *c = p.device->caps;
  if (strcmp(c->name, p.caps[cf->subject->device]->name))
    tni_cf_fail(cf, "the open device calls itself '%s', enumerate '%s'", c->name, p.caps[cf->subject->device]->name);
  tni_cf_stop(cf, &p);
}

/* A device that is not there: a status and a text, nothing in *out. */
static void open_nothing(tni_cf *cf, const void *arg) {
  tni_cf_plugin p;
  (void)arg;
  if (!tni_cf_start(cf, &p)) return;
  const uint32_t wrong[] = {p.n_caps, p.n_caps + 1, 1u << 31, UINT32_MAX};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    tn_device *d = NULL;
    tn_error e;
    tni_error_init(&e);
    const tn_status st = p.plugin->open(p.plugin, wrong[i], &d, &e);
    if (st == TN_OK) tni_cf_fail(cf, "device %u is opened, of %u", wrong[i], p.n_caps);
    if (st != TN_OK && !e.message[0])
      tni_cf_fail(cf, "device %u of %u is refused without a message", wrong[i], p.n_caps);
    if (st == TN_OK && d) p.plugin->close(d);
  }
  tni_cf_stop(cf, &p);
}

/* Nobody knows these. */
static void try_extensions(tni_cf *cf, const void *arg) {
  tni_cf_plugin p;
  (void)arg;
  if (!tni_cf_start(cf, &p)) return;
  if (p.plugin->get_extension) {
    if (p.plugin->get_extension(p.plugin, "tenon.no-such-extension", 1))
      tni_cf_fail(cf, "get_extension answers a name that nobody has");
    if (p.plugin->get_extension(p.plugin, "", 0)) tni_cf_fail(cf, "get_extension answers the empty name");
  }
  tni_cf_stop(cf, &p);
}

void tni_cf_abi_calls_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  static const tni_cf_case cases[] = {
      {"abi/calls/enumerate", TNI_CF_LEVEL_ALL, 0, enumerate_caps, NULL, 0},
      {"abi/calls/open-nothing", TNI_CF_LEVEL_ALL, 0, open_nothing, NULL, 0},
      {"abi/calls/extensions", TNI_CF_LEVEL_ALL, 0, try_extensions, NULL, 0},
      {"abi/calls/thread-state", TNI_CF_LEVEL_ALL, 0, thread_state, NULL, 0},
  };
  (void)l;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) add(ctx, &cases[i]);
}
