/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls as Qwen3-Coder writes them: <function=NAME>, then <parameter=KEY>VALUE</parameter> for each argument.
 */
#ifndef TENON_SERVE_CALLXML_H
#define TENON_SERVE_CALLXML_H

#include <stddef.h>

#include "runtime/base/json.h"

#define SRV_CALLXML_OPEN "<function="

/* How the value of a parameter is written, by its schema: as JSON, as text as it is, or as text of which "null" alone
 * is null ("type": ["string", "null"]). */
typedef enum srv_callxml_form { SRV_CALLXML_JSON, SRV_CALLXML_TEXT, SRV_CALLXML_TEXT_OR_NULL } srv_callxml_form;
srv_callxml_form srv_callxml_form_of(const json_t *parameter);

/* text: n bytes, of one or several such calls; the first <function= may be missing. tools: as a request has them. The calls
 * as a list of {"name", "arguments"}, the caller's; NULL: it is none, or memory is short. A value is text where the tool's
 * parameter is a string or is not known, else JSON, and text where it is no JSON. */
json_t *srv_callxml_read(const json_t *tools, const char *text, size_t n);

#endif
