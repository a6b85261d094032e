/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/llm: settings, inputs and sessions of language models.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_LLM_LLM_H
#define TENON_LLM_LLM_H

#include "runtime/llm/config.h"
#include "runtime/llm/inputs.h"
#include "runtime/llm/lm.h"

#endif
