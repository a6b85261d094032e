/* SPDX-License-Identifier: Apache-2.0
 *
 * How a connection ends: who says so first, and what callers are told.
 */
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#include "runtime/plugin/process/conn.h"

bool tni_conn_dead(tni_conn *c) {
  pthread_mutex_lock(&c->state);
  const bool dead = c->dead;
  pthread_mutex_unlock(&c->state);
  return dead;
}

tn_status tni_conn_lost(tni_conn *c, tn_error *err) {
  pthread_mutex_lock(&c->state);
  tn_status st = tni_fail(err, TN_E_DEVICE_LOST, c->name, "the process of plugin '%s' is gone: %s", c->name,
                          c->why[0] ? c->why : "it ended");
  pthread_mutex_unlock(&c->state);
  return st;
}

void tni_conn_fail(tni_conn *c, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  pthread_mutex_lock(&c->state);
  if (!c->why[0]) vsnprintf(c->why, sizeof c->why, fmt, ap);
  c->dead = true;
  if (c->child.channel >= 0) shutdown(c->child.channel, SHUT_RDWR); /* its thread ends the process */
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->state);
  va_end(ap);
}

tn_status tni_conn_wrong(tni_conn *c, const char *what, tn_error *err) {
  tni_conn_fail(c, "its answer to '%s' was none", what);
  return tni_conn_lost(c, err);
}
