/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls between marks of their own, each with its name and its arguments, inside of marks around all of them:
 * DeepSeek's function<sep>NAME with JSON in a block (R1) or NAME<sep>JSON (V3.1), and Kimi's functions.NAME:0.
 */
#ifndef TENON_SERVE_CALLMARKS_H
#define TENON_SERVE_CALLMARKS_H

#include <stddef.h>

#include "runtime/base/json.h"

#define SRV_DEEPSEEK_ALL "<｜tool▁calls▁begin｜>"
#define SRV_DEEPSEEK_ALL_END "<｜tool▁calls▁end｜>"
#define SRV_DEEPSEEK_ONE "<｜tool▁call▁begin｜>"
#define SRV_DEEPSEEK_ONE_END "<｜tool▁call▁end｜>"
#define SRV_DEEPSEEK_SEP "<｜tool▁sep｜>"
#define SRV_KIMI_ALL "<|tool_calls_section_begin|>"
#define SRV_KIMI_ALL_END "<|tool_calls_section_end|>"
#define SRV_KIMI_ONE "<|tool_call_begin|>"
#define SRV_KIMI_ONE_END "<|tool_call_end|>"
#define SRV_KIMI_SEP "<|tool_call_argument_begin|>"

/* Command-R's list of {"tool_name", "parameters"}, JSON. */
#define SRV_ACTION "<|START_ACTION|>"
#define SRV_ACTION_END "<|END_ACTION|>"
#define SRV_ACTION_BLOCK "Action:\n```json\n"
#define SRV_ACTION_BLOCK_END "```"

/* text: n bytes, of one or several such calls, without the marks around all; the first one's own may be missing, and so
 * may the last one's end. As srv_callargs_read. */
json_t *srv_callmarks_read(const char *text, size_t n);

#endif
