/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/batch.h"
#include "tests/llm/lm_kit.h"

#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *kit_data;
tn_runtime *kit_rt;

int kit_begin(void) {
  char profile[512];
  const char *source = getenv("TENON_TEST_SOURCE");
  snprintf(profile, sizeof profile, "%s/configs/host.yaml", source ? source : "");
  return kit_begin_with(profile, NULL);
}

int kit_begin_with(const char *profile, const char *plugins) {
  char probe[512];
  kit_data = getenv("TENON_TEST_DATA");
  snprintf(probe, sizeof probe, "%s/lm/stories260k-onnx/model.onnx", kit_data ? kit_data : "");
  if (!kit_data || access(probe, R_OK) != 0) {
    printf("skipped: no models (TENON_TEST_DATA)\n");
    return 77;
  }
  const tn_runtime_opts o = {.h = {sizeof o, 1, 0},
                             .profile = profile,
                             .plugin_dirs = &plugins,
                             .n_plugin_dirs = plugins != NULL,
                             .flags = plugins ? TN_RT_TEST_WRITABLE | TN_RT_NO_PROBE : 0};
  tn_error err;
  tn_error_init(&err);
  if (tn_runtime_create(&o, &kit_rt, &err) == TN_OK) return 0;
  printf("%s: %s\n", err.where, err.message);
  return 1;
}

int kit_take(void *user, int32_t id, const char *text, size_t n) {
  kit_sink *s = user;
  if (s->n < 512) s->ids[s->n++] = id;
  if (s->text_n + n < sizeof s->text) memcpy(s->text + s->text_n, text, n);
  s->text_n += n;
  s->text[s->text_n] = '\0';
  if (s->cancel && s->n == 3) tn_chat_cancel(s->cancel);
  return s->stop_after && s->n == s->stop_after;
}

tn_lm *kit_load_at(const char *path) {
  tn_lm *lm = NULL;
  tn_error err;
  tn_error_init(&err);
  if (tn_lm_load(kit_rt, path, NULL, &lm, &err) != TN_OK) printf("\n  %s: %s: %s", path, err.where, err.message);
  CU_ASSERT_PTR_NOT_NULL_FATAL(lm);
  return lm;
}

tn_lm *kit_load(const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", kit_data, name);
  return kit_load_at(path);
}

tn_chat *kit_talk(tn_lm *lm) {
  tn_chat *c = NULL;
  CU_ASSERT_EQUAL_FATAL(tn_chat_create(lm, &c, NULL), TN_OK);
  return c;
}

tn_gen_params kit_greedy(uint32_t n) {
  tn_gen_params p;
  tn_gen_params_init(&p);
  p.temperature = 0;
  p.max_tokens = n;
  return p;
}

tn_gen_result kit_say(tn_chat *c, const char *prompt, const tn_gen_params *p, kit_sink *s) {
  tn_gen_result r = {.h = {sizeof r, 1, 0}};
  tn_error err;
  tn_error_init(&err);
  tn_status st = tn_generate(c, prompt, strlen(prompt), p, kit_take, s, &r, &err);
  if (st != TN_OK) printf("\n  %s: %s", err.where, err.message);
  CU_ASSERT_EQUAL(st, TN_OK);
  return r;
}

tn_lm *kit_load_demo(void) {
  char path[512];
  snprintf(path, sizeof path, "%s/models/demo", getenv("TENON_TEST_SOURCE"));
  return kit_load_at(path);
}

void kit_untimed(tn_batch *b) { b->pace.even = true; }
