/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/llm/text: strings, Unicode and JSON.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_LLM_TEXT_TEXT_H
#define TENON_LLM_TEXT_TEXT_H

#include "runtime/llm/text/cp_set.h"
#include "runtime/llm/text/json_at.h"
#include "runtime/llm/text/str.h"
#include "runtime/llm/text/unicode.h"

#endif
