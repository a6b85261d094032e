/* SPDX-License-Identifier: Apache-2.0
 *
 * Family abi, calls that every device answers.
 */
#include <string.h>

#include "runtime/conform/abi/parts.h"
#include "runtime/conform/drive/drive.h"
#include "runtime/plugin/plugin.h"

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
    tni_cf_long_error e;
    tni_cf_long_error_init(&e);
    const tn_status st = p.plugin->open(p.plugin, wrong[i], &d, &e.error);
    tni_cf_long_error_look(cf, &e, "open");
    if (st == TN_OK) tni_cf_fail(cf, "device %u is opened, of %u", wrong[i], p.n_caps);
    if (st != TN_OK && !e.error.message[0])
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
  };
  (void)l;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) add(ctx, &cases[i]);
}
