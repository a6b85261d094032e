/* SPDX-License-Identifier: Apache-2.0
 *
 * What the child says of its own accord: log lines, completions, questions.
 */
#ifndef TENON_PLUGIN_PROCESS_EVENTS_H
#define TENON_PLUGIN_PROCESS_EVENTS_H

#include "runtime/plugin/process/conn.h"

/* On the connection's thread. false: it is to be ended. */
bool tni_event_take(tni_conn *c, tni_rd *r);
/* Completes what is in flight: the process is gone. */
void tni_event_all_lost(tni_conn *c);

#endif
