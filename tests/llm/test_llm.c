/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/llm/llm_test.h"

const char tiny_tokenizer[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,"
    "\"added_tokens\":[{\"id\":6,\"content\":\"<s>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
    "\"normalized\":false,\"special\":true}],"
    "\"normalizer\":{\"type\":\"Lowercase\"},\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},"
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[],"
    "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[6],\"tokens\":[\"<s>\"]}}},"
    "\"decoder\":{\"type\":\"Fuse\"},"
    "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":\"<unk>\",\"continuing_subword_prefix\":null,"
    "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":false,"
    "\"vocab\":{\"<unk>\":0,\"a\":1,\"b\":2,\"c\":3,\"ab\":4,\"abc\":5},\"merges\":[[\"a\",\"b\"],\"ab c\"]}}";

char *edited(const char *text, const char *from, const char *to) {
  const char *at = strstr(text, from);
  char *out = NULL;
  CU_ASSERT_PTR_NOT_NULL_FATAL(at);
  if (asprintf(&out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) < 0) out = NULL;
  CU_ASSERT_PTR_NOT_NULL_FATAL(out);
  return out;
}

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 2;
  add_tokenizer_suite();
  add_found_suite();
  add_malformed_suite();
  add_sampler_suite();
  add_stop_suite();
  add_config_suite();
  add_jinja_suite();
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned failed = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failed != 0;
}
