/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of OpenAI's API as chat templates expect them.
 */
#ifndef TENON_SERVE_MESSAGES_H
#define TENON_SERVE_MESSAGES_H

#include "runtime/serve/fields.h"

/* A new list: contents in parts become texts, the developer is the system, arguments of tool calls are objects. NULL:
 * refused. */
json_t *srv_messages(srv_refusal *r, const json_t *list);

#endif
