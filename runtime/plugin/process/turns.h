/* SPDX-License-Identifier: Apache-2.0
 *
 * What the child may say, and when: one table for every call and every message (docs/isolation.md).
 *
 * A call is begun by the host and ended by the child's answer. In between the child may put questions, one at a time;
 * what a question is about is pinned until the host has read it. A question about a weight that is open when the answer
 * comes, and every message that the table does not allow, is a breach: the child is ended.
 */
#ifndef TENON_PLUGIN_PROCESS_TURNS_H
#define TENON_PLUGIN_PROCESS_TURNS_H

#include "runtime/plugin/process/conn.h"

/* Whether `event` may come while the child is in `call` (0: in none; TNI_ISO_CALLS: it has said goodbye). */
bool tni_turn_allows(uint32_t call, uint32_t event);

/* The host begins a call. g: the graph whose constants may be asked for meanwhile, or NULL. */
void tni_turn_begin(tni_conn *c, uint32_t call, const tn_graph *g);
/* The answer has come, or will not come: nothing that was lent for the call is in use when this returns. False: a
 * question was open. */
bool tni_turn_end(tni_conn *c);

/* The child asks about `id` (events.c). False: not now. *weight, *blob: what it is, or NULL; they stay until
 * tni_turn_asked_end. */
bool tni_turn_asked(tni_conn *c, uint32_t event, uint32_t id, const tn_weight **weight, const tn_blob **blob);
void tni_turn_asked_end(tni_conn *c);
/* The same for what is no question. */
bool tni_turn_said(tni_conn *c, uint32_t event);

#endif
