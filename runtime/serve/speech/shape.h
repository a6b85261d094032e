/* SPDX-License-Identifier: Apache-2.0
 *
 * How a model writes calls of tools, seen in what its template makes of one, and the grammar of an answer that may or
 * must call: from where a call begins, nothing can be said but a call of a tool that there is, with arguments that its
 * schema allows.
 */
#ifndef TENON_SERVE_SPEECH_SHAPE_H
#define TENON_SERVE_SPEECH_SHAPE_H

#include <stdbool.h>
#include <stdio.h>

#include "runtime/base/json.h"

typedef enum srv_shape {
  SRV_SHAPE_JSON,        /* {"name": ..., "arguments": ...} alone */
  SRV_SHAPE_PARAMETERS,  /* {"name": ..., "parameters": ...} alone: Llama 3 */
  SRV_SHAPE_TOOL_CALL,   /* <tool_call>, JSON: Hermes, Qwen */
  SRV_SHAPE_LIST,        /* <|tool_call|>, a list: Phi-4-mini, Granite 3 */
  SRV_SHAPE_XML,         /* <function=NAME>: Qwen3-Coder */
  SRV_SHAPE_MISTRAL,     /* [TOOL_CALLS], a list */
  SRV_SHAPE_ARGS,        /* [TOOL_CALLS]NAME[ARGS] */
  SRV_SHAPE_ARGS_ID,     /* [TOOL_CALLS]NAME[CALL_ID]ID[ARGS] */
  SRV_SHAPE_HARMONY,     /* to=functions.NAME: gpt-oss */
  SRV_SHAPE_DEEPSEEK,    /* NAME<sep>JSON: V3.1 */
  SRV_SHAPE_DEEPSEEK_R1, /* function<sep>NAME and a block of JSON */
  SRV_SHAPE_KIMI,
  SRV_SHAPE_ACTION,       /* <|START_ACTION|>: Command-R7B */
  SRV_SHAPE_ACTION_BLOCK, /* Action: and a block of JSON: Command-R */
  SRV_SHAPES
} srv_shape;

/* Messages with a call, and the tool that it calls, as JSON: a template applied to them shows its shape. Templates
 * refuse some of these conversations: i counts them. NULL: there are no more. */
const char *srv_shape_messages(unsigned i);
extern const char srv_shape_tools[];
/* Of the text that the template made, n bytes. */
srv_shape srv_shape_of(const char *text, size_t n);
const char *srv_shape_name(srv_shape s);

typedef struct srv_shape_wish {
  srv_shape shape;
  const json_t *tools;    /* as a request has them; not empty */
  const char *only;       /* the name of the one that must be called, or NULL */
  const bool *any;        /* [tools] its arguments are any object: the schema is beyond grammars; NULL: none is so */
  bool must, one;         /* at least one call; at most one */
  bool thinks, may_think; /* the prompt ends inside of <think>; thoughts may come before a call that must */
} srv_shape_wish;

/* Writes the grammar of the answer in GBNF, with what runtime/llm/grammar has beyond it. False: `only` names no tool.
 */
bool srv_shape_write(FILE *out, const srv_shape_wish *w);

#endif
