/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/serve/speech/shape.h"

#include <string.h>

#include "runtime/serve/speech/callmarks.h"

#define CALLED "zq_call"

/* Ids have nine letters, which Mistral's templates ask for. */
static const char *const messages[] = {
    "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":"
    "\"abcdefghi\",\"type\":"
    "\"function\",\"function\":{\"name\":\"" CALLED "\",\"arguments\":{\"zq_key\":\"zq_value\"}}}]}]",
    "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":"
    "\"abcdefghi\",\"type\":"
    "\"function\",\"function\":{\"name\":\"" CALLED
    "\",\"arguments\":{\"zq_key\":\"zq_value\"}}}]},{\"role\":\"tool\",\"name\":\"" CALLED
    "\",\"tool_call_id\":\"abcdefghi\",\"content\":\"r\"},{\"role\":\"user\",\"content\":\"q\"}]",
    "[{\"role\":\"user\",\"content\":\"q\"}]"};
const char srv_shape_tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"" CALLED
                               "\",\"description\":\"d\",\"parameters\":{\"type\":\"object\",\"properties\":"
                               "{\"zq_key\":{\"type\":\"string\",\"description\":\"k\"}},\"required\":[\"zq_key\"]}}}]";

const char *srv_shape_messages(unsigned i) { return i < sizeof messages / sizeof *messages ? messages[i] : NULL; }

/* What is in the text, the first row that fits: rows that say more come first. */
static const struct {
  const char *has;
  srv_shape shape;
} signs[] = {{"to=functions." CALLED, SRV_SHAPE_HARMONY},
             {"<function=" CALLED ">", SRV_SHAPE_XML},
             {"[TOOL_CALLS]" CALLED "[CALL_ID]", SRV_SHAPE_ARGS_ID},
             {"[TOOL_CALLS]" CALLED "[ARGS]", SRV_SHAPE_ARGS},
             {"[TOOL_CALLS]", SRV_SHAPE_MISTRAL},
             {SRV_KIMI_SEP, SRV_SHAPE_KIMI},
             {SRV_DEEPSEEK_SEP CALLED "\n```json", SRV_SHAPE_DEEPSEEK_R1},
             {SRV_DEEPSEEK_SEP, SRV_SHAPE_DEEPSEEK},
             {SRV_ACTION, SRV_SHAPE_ACTION},
             {"\"tool_name\": \"" CALLED "\"", SRV_SHAPE_ACTION_BLOCK},
             {"<tool_call>", SRV_SHAPE_TOOL_CALL},
             {"<|tool_call|>", SRV_SHAPE_LIST},
             {"{\"name\": \"" CALLED "\", \"parameters\"", SRV_SHAPE_PARAMETERS},
             {"\"parameters\": ...", SRV_SHAPE_PARAMETERS}};

srv_shape srv_shape_of(const char *text, size_t n) {
  for (size_t i = 0; n && i < sizeof signs / sizeof *signs; i++)
    if (memmem(text, n, signs[i].has, strlen(signs[i].has))) return signs[i].shape;
  return SRV_SHAPE_JSON;
}

const char *srv_shape_name(srv_shape s) {
  static const char *const names[] = {"json",         "json-parameters", "tool_call",    "tool_call-list",
                                      "function-xml", "mistral-list",    "mistral-args", "mistral-args-id",
                                      "harmony",      "deepseek",        "deepseek-r1",  "kimi",
                                      "action",       "action-block"};
  return names[s];
}
