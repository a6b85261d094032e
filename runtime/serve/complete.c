/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/completions: texts, or ids, that go on.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/serve/ask.h"
#include "runtime/serve/form.h"

static bool text_prompt(srv_ask *a, const json_t *j, const char *path) {
  tn_long_error err;
  int32_t *ids = NULL;
  size_t n = 0;
  tn_long_error_init(&err);
  const tn_status st =
      tn_lm_encode(a->model->lm, json_string_value(j), json_string_length(j), 1, &ids, &n, &err.error);
  if (st != TN_OK) return srv_refuse_error(&a->call->refusal, st, path, &err.error);
  return srv_ask_prompt(a, ids, n, path);
}

static bool is_ids(const json_t *j) { return json_is_integer(json_array_get(j, 0)); }

static bool ids_prompt(srv_ask *a, const json_t *j, const char *path) {
  const size_t n = json_array_size(j);
  int32_t *ids = malloc(n * sizeof *ids + 1);
  bool good = ids || srv_refuse(&a->call->refusal, 503, "no_memory", NULL, "out of memory");
  for (size_t i = 0; good && i < n; i++) {
    const json_t *id = json_array_get(j, i);
    const json_int_t v = json_integer_value(id);
    if (!json_is_integer(id) || v < 0 || v > INT32_MAX)
      good = srv_refuse(&a->call->refusal, 400, "invalid_value", path, "'%s': element %zu is no token id", path, i);
    else
      ids[i] = (int32_t)v;
  }
  if (good) return srv_ask_prompt(a, ids, n, path);
  free(ids);
  return false;
}

static bool one_prompt(srv_ask *a, const json_t *j, const char *path) {
  if (json_is_string(j)) return text_prompt(a, j, path);
  if (json_is_array(j) && is_ids(j)) return ids_prompt(a, j, path);
  return srv_refuse(&a->call->refusal, 400, "invalid_type", path,
                    "'%s' must be a string, a list of token ids, or a list of those", path);
}

static bool read_prompts(srv_ask *a) {
  srv_refusal *r = &a->call->refusal;
  const json_t *j = json_object_get(a->body, "prompt");
  if (!j) return srv_refuse(r, 400, "missing", "prompt", "'prompt' is missing");
  if (!json_is_array(j) || is_ids(j)) return one_prompt(a, j, "prompt");
  const size_t n = json_array_size(j);
  if (!n || n > SRV_MAX_PROMPTS)
    return srv_refuse(r, 400, "invalid_value", "prompt", "'prompt' has %zu prompts: 1 to %d are possible", n, SRV_MAX_PROMPTS);
  for (size_t i = 0; i < n; i++) {
    char path[32];
    snprintf(path, sizeof path, "prompt[%zu]", i);
    if (!one_prompt(a, json_array_get(j, i), path)) return false;
  }
  return true;
}

static bool read_completion(srv_ask *a) {
  srv_refusal *r = &a->call->refusal;
  bool echo = false;
  const char *suffix = NULL;
  int64_t best = 1;
  if (!srv_ask_read(a) || !srv_flag(r, a->body, "", "echo", &echo) || !srv_text(r, a->body, "", "suffix", &suffix) ||
      !srv_count(r, a->body, "", "best_of", 1, SRV_MAX_N, &best))
    return false;
  if (echo) return srv_refuse(r, 400, "unsupported", "echo", "'echo' is not supported");
  if (suffix) return srv_refuse(r, 400, "unsupported", "suffix", "'suffix' is not supported");
  if (best != 1 && best != a->n) return srv_refuse(r, 400, "unsupported", "best_of", "'best_of' is not supported");
  return srv_form_read(a) && read_prompts(a);
}

void srv_complete(srv_call *c) {
  json_t *body = srv_body(c);
  srv_ask *a = body ? srv_ask_create(c, body, false) : NULL;
  if (!a) return;
  if (read_completion(a))
    srv_ask_answer(a);
  else
    srv_ask_destroy(a);
}
