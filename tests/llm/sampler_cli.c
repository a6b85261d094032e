/* SPDX-License-Identifier: Apache-2.0
 *
 * sampler-cli: a line of JSON in, a line of picked ids out. {"logits": [[...], ...], "params": {...}, "seen": [ids],
 * "counts": [ids], "dry": {"amount", "base", "length", "last", "breaks"}, "ids": [...]}: each row of logits in turn;
 * what was picked counts for the next. check_sampler.py runs it.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/llm/repeats.h"
#include "runtime/llm/sampler.h"

enum { MOST = 4096 };

static float number(const json_t *o, const char *key, float unset) {
  const json_t *v = json_object_get(o, key);
  return v ? (float)json_number_value(v) : unset;
}

static size_t ids_of(const json_t *list, int32_t *out) {
  size_t n = 0;
  for (; n < json_array_size(list) && n < MOST; n++) out[n] = (int32_t)json_integer_value(json_array_get(list, n));
  return n;
}

static void lower(void *user, int32_t id, float amount) { tni_sampler_lower(user, id, amount); }

static void answer(const json_t *ask) {
  static int32_t ids[MOST], seen[MOST], breaks[MOST];
  static uint32_t scratch[MOST];
  static float row[MOST];
  const json_t *p = json_object_get(ask, "params"), *rows = json_object_get(ask, "logits"),
               *d = json_object_get(ask, "dry");
  const tni_sampler_params sp = {.temperature = number(p, "temperature", 1),
                                 .top_p = number(p, "top_p", 1),
                                 .min_p = number(p, "min_p", 0),
                                 .repeat_penalty = number(p, "repeat", 1),
                                 .top_k = (uint32_t)number(p, "top_k", 0),
                                 .seed = (uint64_t)number(p, "seed", 0),
                                 .frequency = number(p, "frequency", 0),
                                 .presence = number(p, "presence", 0),
                                 .typical_p = number(p, "typical_p", 0),
                                 .mirostat_tau = number(p, "tau", 0),
                                 .mirostat_eta = number(p, "eta", 0)};
  size_t n_ids = ids_of(json_object_get(ask, "ids"), ids);
  const size_t vocab = json_array_size(json_array_get(rows, 0)), n_seen = ids_of(json_object_get(ask, "seen"), seen);
  const tni_dry dry = {number(d, "amount", 0),
                       number(d, "base", 1),
                       (uint32_t)number(d, "length", 2),
                       (uint32_t)number(d, "last", 0),
                       breaks,
                       (uint32_t)ids_of(json_object_get(d, "breaks"), breaks)};
  tni_sampler *s = NULL;
  if (vocab > MOST || tni_sampler_create(vocab, &sp, &s, NULL) != TN_OK) exit(1);
  for (size_t i = 0; i < n_seen; i++) tni_sampler_see(s, seen[i]);
  for (size_t r = 0; r < json_array_size(rows); r++) {
    int32_t id = -1;
    for (size_t i = 0; i < vocab; i++) row[i] = (float)json_number_value(json_array_get(json_array_get(rows, r), i));
    if (d) tni_dry_find(&dry, ids, n_ids, scratch, lower, s);
    if (tni_sampler_pick(s, row, &id, NULL) != TN_OK) exit(1);
    tni_sampler_see(s, id);
    tni_sampler_count(s, id);
    if (n_ids < MOST) ids[n_ids++] = id;
    printf("%d ", id);
  }
  putchar('\n');
  fflush(stdout);
  tni_sampler_destroy(s);
}

int main(void) {
  char *line = NULL;
  size_t cap = 0;
  while (getline(&line, &cap, stdin) > 0) {
    json_t *ask = json_loads(line, 0, NULL);
    if (!ask) return 1;
    answer(ask);
    json_decref(ask);
  }
  free(line);
  return 0;
}
