/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cli/texts/texts.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/base/json.h"
#include "runtime/cli/shell/shell.h"

tn_status cli_texts_each(const char *path, const char *text, size_t n, cli_text_fn fn, void *user, tn_error *err) {
  const size_t m = strlen(path);
  tni_error_begin(err);
  if (m < 5 || strcmp(path + m - 5, ".json") != 0) return fn(user, 0, 1, text, n);
  size_t i;
  json_error_t why;
  json_t *list = json_loadb(text, n, 0, &why), *s;
  tn_status st = TN_OK;
  if (!json_is_array(list))
    st = list ? tni_fail(err, TN_E_INVALID, path, "'%s' is not a JSON list of strings", path)
              : tni_fail(err, TN_E_INVALID, path, "'%s' is not a JSON list of strings: line %d: %s", path, why.line,
                          why.text);
  json_array_foreach(list, i, s) {
    if (st == TN_OK && !json_is_string(s))
      st = tni_fail(err, TN_E_INVALID, path, "'%s': element %zu is not a string", path, i);
    if (st == TN_OK && cli_interrupted()) st = tni_fail(err, TN_E_CANCELLED, NULL, "cancelled");
    if (st != TN_OK) break;
    st = fn(user, i, json_array_size(list), json_string_value(s), json_string_length(s));
  }
  json_decref(list);
  return st;
}

tn_status cli_text_encode(const tn_lm *lm, const char *text, size_t n, int32_t **out, size_t *n_out, tn_error *err) {
  int32_t *ids = NULL, bos = tn_lm_bos(lm);
  size_t k = 0;
  tn_status st = tn_lm_encode(lm, text, n, 1, &ids, &k, err);
  if (st != TN_OK) return st;
  const bool add = bos >= 0 && (k == 0 || ids[0] != bos);
  int32_t *r = malloc((k + 2) * sizeof *r);
  if (!r) {
    tn_free(ids);
    return TN_E_NO_MEMORY;
  }
  if (add) r[0] = bos;
  if (k) memcpy(r + add, ids, k * sizeof *r);
  tn_free(ids);
  *n_out = k + add;
  *out = r;
  return TN_OK;
}
