/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls as Mistral's newer models write them: [TOOL_CALLS]NAME[ARGS]{...}, or [TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{...}.
 */
#ifndef TENON_SERVE_CALLARGS_H
#define TENON_SERVE_CALLARGS_H

#include <stddef.h>

#include "runtime/base/json.h"

#define SRV_CALLARGS_OPEN "[TOOL_CALLS]"
#define SRV_CALLARGS_ID "[CALL_ID]"
#define SRV_CALLARGS_ARGS "[ARGS]"

/* text: n bytes, of one or several such calls; the first [TOOL_CALLS] may be missing. The calls as a list of {"name",
 * "arguments"}, with "id" where the model wrote one, the caller's; NULL: it is none, or memory is short. Arguments are an
 * object; none at all are an empty one. */
json_t *srv_callargs_read(const char *text, size_t n);

#endif
