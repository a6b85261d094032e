/* SPDX-License-Identifier: Apache-2.0
 *
 * What an answer that may or must call tools keeps to: calls in the shape that the model's template has.
 */
#ifndef TENON_SERVE_TOOLS_H
#define TENON_SERVE_TOOLS_H

#include "runtime/serve/ask.h"

/* Once, when the model has come: how it writes calls. */
void srv_tools_look(srv_model *m);
/* Of a list of tools, those that the template gets, by tool_choice too. *tools NULL: none. False: refused. */
bool srv_tools_read(srv_ask *a, json_t **tools);
/* tool_choice asks for a call. */
bool srv_tools_must(const srv_ask *a);
/* After the prompt is known. False: refused. */
bool srv_tools_form(srv_ask *a);

#endif
