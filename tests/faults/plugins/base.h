/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin that is in order but claims nothing, as static tables; the misbehaving plugins start from it and break one
 * thing each.
 */
#ifndef TENON_TESTS_FAULTS_BASE_H
#define TENON_TESTS_FAULTS_BASE_H

#define PLUGIN_NAME "base"
#define PLUGIN_VERSION "0.0.1"
#include "../../kit/skeleton.h"
#include "../../../runtime/cli/new-plugin/nothing.h"

static void set_up(backend *p) { p->caps.align = p->caps.sub_align = 0; }

static tn_status ask_driver(backend *p, uint32_t *n, tn_error *err) {
  (void)p, (void)err;
  *n = 1;
  return TN_OK;
}

/* What hooks reach; it outlives the plugin, whatever becomes of *out. */
static backend base;

static void base_stop(tn_plugin *p) { (void)p; }

static inline tn_status base_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out, const char *name) {
  tn_status st = entry(host, neg, out);
  if (st != TN_OK) return st;
  stop(*out);
  base.host = host;
  fill_tables(&base);
  base.pub.name = name;
  base.pub.shutdown = base_stop;
  *out = &base.pub;
  return TN_OK;
}

#endif
