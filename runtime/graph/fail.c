/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors that name a node.
 */
#include <stdarg.h>
#include <stdio.h>

#include "runtime/graph/priv.h"

/* "node 'NAME' (Type)" into buf; returns buf. */
static const char *node_where(const tni_node *n, char *buf, size_t size) {
  snprintf(buf, size, "node '%s' (%s)", n->pub.name, n->type);
  return buf;
}

tn_status tni_fail_node(tn_error *err, tn_status st, const tni_node *n, tn_id id, const char *fmt, ...) {
  char where[128];
  bool first = err && err->code == TN_OK;
  va_list ap;
  va_start(ap, fmt);
  tni_vfail(err, st, node_where(n, where, sizeof where), fmt, ap);
  va_end(ap);
  if (first) err->node = id;
  return st;
}
