/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/llm/config.h"
#include "tests/llm/llm_test.h"

static char folder[64];
static const tni_folder where = {.dir = folder};

static int make_folder(void) {
  strcpy(folder, "/tmp/tenon-config-XXXXXX");
  return mkdtemp(folder) ? 0 : 1;
}

static void put(const char *name, const char *text) {
  char path[160];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  if (!text) {
    unlink(path);
    return;
  }
  FILE *f = fopen(path, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fputs(text, f);
  fclose(f);
}

static void put_all(const char *config, const char *generation, const char *tokenizer, const char *genai) {
  put("config.json", config);
  put("generation_config.json", generation);
  put("tokenizer_config.json", tokenizer);
  put("genai_config.json", genai);
}

static int remove_folder(void) {
  put_all(NULL, NULL, NULL, NULL);
  return rmdir(folder);
}

static void test_empty(void) {
  tni_lm_config c;
  put_all(NULL, NULL, NULL, NULL);
  CU_ASSERT_EQUAL_FATAL(tni_lm_config_load(&where, &c, NULL), TN_OK);
  CU_ASSERT(c.context == 0 && c.vocab == 0 && c.bos == -1 && c.pad == -1 && c.n_eos == 0 && !c.has_do_sample &&
            !c.add_bos);
  CU_ASSERT(c.temperature == 1 && c.top_p == 1 && c.min_p == 0 && c.repeat_penalty == 1 && c.top_k == 0);
  CU_ASSERT(*c.bos_token == 0 && *c.eos_token == 0);
}

static void test_values(void) {
  tni_lm_config c;
  put_all(
      "{\"max_position_embeddings\":2048,\"vocab_size\":4096,\"bos_token_id\":1,\"eos_token_id\":2,\"pad_token_id\":"
      "null}",
      "{\"eos_token_id\":[7,8],\"do_sample\":true,\"temperature\":0.6,\"top_p\":0.9,\"top_k\":40,\"min_p\":0.05,"
      "\"repetition_penalty\":1.1}",
      "{\"add_bos_token\":true,\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"</s>\","
      "\"model_max_length\":1000000000000000019884624838656}",
      NULL);
  CU_ASSERT_EQUAL_FATAL(tni_lm_config_load(&where, &c, NULL), TN_OK);
  CU_ASSERT(c.context == 2048 && c.vocab == 4096 && c.bos == 1 && c.pad == -1);
  CU_ASSERT(c.n_eos == 2 && c.eos[0] == 7 && c.eos[1] == 8);
  CU_ASSERT(c.has_do_sample && c.do_sample && c.temperature == 0.6 && c.top_p == 0.9 && c.top_k == 40);
  CU_ASSERT(c.min_p == 0.05 && c.repeat_penalty == 1.1 && c.add_bos);
  CU_ASSERT_STRING_EQUAL(c.bos_token, "<s>");
  CU_ASSERT_STRING_EQUAL(c.eos_token, "</s>");
  put_all("{\"n_positions\":1024,\"n_ctx\":512,\"eos_token_id\":5}", NULL, NULL, NULL);
  CU_ASSERT_EQUAL_FATAL(tni_lm_config_load(&where, &c, NULL), TN_OK);
  CU_ASSERT(c.context == 1024 && c.n_eos == 1 && c.eos[0] == 5);
  put_all("{\"n_ctx\":512}", NULL, NULL,
          "{\"model\":{\"context_length\":99,\"bos_token_id\":3,\"eos_token_id\":[4]},\"search\":{\"top_k\":3}}");
  CU_ASSERT_EQUAL_FATAL(tni_lm_config_load(&where, &c, NULL), TN_OK);
  CU_ASSERT(c.context == 512 && c.bos == 3 && c.n_eos == 1 && c.eos[0] == 4 && c.top_k == 3);
}

static void test_bad(void) {
  static const struct {
    const char *config, *generation, *tokenizer;
    const char *file, *message;
  } table[] = {
      {"{\"vocab_size\":\"a\"}", NULL, NULL, "/config.json", "vocab_size: expected an integer, got a string"},
      {"{\"vocab_size\":0}", NULL, NULL, "/config.json", "vocab_size: 0 is not in"},
      {"{\"vocab_size\":1.5}", NULL, NULL, "/config.json", "vocab_size: expected an integer, got a real"},
      {"{\"n_ctx\":-4}", NULL, NULL, "/config.json", "n_ctx: -4"},
      {"[]", NULL, NULL, "/config.json", "expected an object, got an array"},
      {"{", NULL, NULL, "/config.json", "not valid JSON: line 1"},
      {"{\"a\":1,\"a\":2}", NULL, NULL, "/config.json", "duplicate"},
      {NULL, "{\"eos_token_id\":[1,\"x\"]}", NULL, "/generation_config.json", "eos_token_id[1]: expected an integer"},
      {NULL, "{\"eos_token_id\":{}}", NULL, "/generation_config.json", "eos_token_id: expected an integer"},
      {NULL, "{\"temperature\":-1}", NULL, "/generation_config.json", "temperature: -1 is not in"},
      {NULL, "{\"temperature\":true}", NULL, "/generation_config.json", "temperature: expected a number"},
      {NULL, "{\"top_p\":1.5}", NULL, "/generation_config.json", "top_p: 1.5"},
      {NULL, "{\"top_k\":-1}", NULL, "/generation_config.json", "top_k: -1"},
      {NULL, "{\"do_sample\":1}", NULL, "/generation_config.json", "do_sample: expected a boolean"},
      {NULL, "{\"repetition_penalty\":0}", NULL, "/generation_config.json", "repetition_penalty: 0"},
      {NULL, NULL, "{\"add_bos_token\":\"yes\"}", "/tokenizer_config.json", "add_bos_token: expected a boolean"},
      {NULL, NULL, "{\"bos_token\":7}", "/tokenizer_config.json", "bos_token: expected a string"},
      {NULL, NULL, "{\"eos_token\":{}}", "/tokenizer_config.json", "eos_token.content: missing"}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    tni_lm_config c = {.context = 77};
    tn_error err;
    tni_error_init(&err);
    put_all(table[i].config, table[i].generation, table[i].tokenizer, NULL);
    CU_ASSERT_EQUAL(tni_lm_config_load(&where, &c, &err), TN_E_INVALID);
    bool good = strstr(err.where, table[i].file) && strstr(err.message, table[i].message);
    if (!good) printf("\n  row %zu: %s: %s", i, err.where, err.message);
    CU_ASSERT(good);
    CU_ASSERT_EQUAL(c.context, 77);
  }
}

void add_config_suite(void) {
  CU_pSuite s = CU_add_suite("config files", make_folder, remove_folder);
  CU_add_test(s, "no files", test_empty);
  CU_add_test(s, "values", test_values);
  CU_add_test(s, "each bad value is named", test_bad);
}
