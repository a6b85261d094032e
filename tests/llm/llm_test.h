/* SPDX-License-Identifier: Apache-2.0
 *
 * What the suites of tests/llm share. Each adds its tests to the registry; test_llm.c runs them.
 */
#ifndef TENON_TEST_LLM_H
#define TENON_TEST_LLM_H

#include <CUnit/Basic.h>
#include <stdbool.h>

#include "runtime/base/error.h"

void add_malformed_suite(void);
void add_tokenizer_suite(void);
void add_found_suite(void);
void add_jinja_suite(void);
void add_sampler_suite(void);
void add_stop_suite(void);
void add_config_suite(void);

/* A small byte-level-free BPE file in memory: vocabulary a b c ab abc <unk> <s>, merges a+b, ab+c. */
extern const char tiny_tokenizer[];
/* text with the first `from` replaced by `to`; free. Aborts the test when `from` is not there. */
char *edited(const char *text, const char *from, const char *to);

#endif
