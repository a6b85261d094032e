/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/serve/speech/callmarks.h"

#include <stdbool.h>
#include <string.h>

#include "runtime/serve/speech/rest.h"

static const struct {
  const char *open, *sep, *close;
} kinds[] = {{SRV_DEEPSEEK_ONE, SRV_DEEPSEEK_SEP, SRV_DEEPSEEK_ONE_END},
             {SRV_KIMI_ONE, SRV_KIMI_SEP, SRV_KIMI_ONE_END}};
enum { DEEPSEEK, KIMI };

/* Kimi's id is functions.NAME:NUMBER. */
static void split_id(srv_rest *name, srv_rest *id) {
  *id = *name;
  (void)srv_rest_take(name, "functions.");
  const char *colon = name->v && name->n ? memrchr(name->v, ':', name->n) : NULL;
  if (colon) name->n = (size_t)(colon - name->v);
}

/* DeepSeek R1: "function", the mark, NAME, and the arguments in a block of code. */
static void split_block(srv_rest *name, srv_rest *arguments) {
  srv_rest body = *arguments, own, block;
  srv_rest_blanks(&body);
  if (name->n != 8 || memcmp(name->v, "function", 8) != 0 || !srv_rest_until(&body, "```json", &own)) return;
  srv_rest_trim_end(&own);
  *name = own;
  *arguments = srv_rest_until(&body, "```", &block) ? block : body;
}

static json_t *read_call(srv_rest *r, int kind) {
  srv_rest name, arguments, id = {0};
  if (!srv_rest_until(r, kinds[kind].sep, &name)) return NULL;
  if (!srv_rest_until(r, kinds[kind].close, &arguments)) {
    arguments = *r;
    srv_rest_skip(r, r->n);
  }
  srv_rest_blanks(&name);
  srv_rest_trim_end(&name);
  if (kind == KIMI) split_id(&name, &id);
  if (kind == DEEPSEEK) split_block(&name, &arguments);
  json_t *j = name.n ? tni_json_loadb(arguments.v, arguments.n, 0, NULL) : NULL;
  json_t *call = json_is_object(j) ? json_pack("{s:s%, s:O}", "name", name.v, name.n, "arguments", j) : NULL;
  json_decref(j);
  if (call && id.n) json_object_set_new(call, "id", json_stringn(id.v, id.n));
  return call;
}

json_t *srv_callmarks_read(const char *text, size_t n) {
  srv_rest r = {text, n};
  const int kind = n && memmem(text, n, SRV_KIMI_SEP, sizeof SRV_KIMI_SEP - 1) ? KIMI : DEEPSEEK;
  json_t *all = json_array();
  bool good = all != NULL;
  srv_rest_blanks(&r);
  (void)srv_rest_take(&r, kinds[kind].open);
  while (good) {
    json_t *one = read_call(&r, kind);
    good = one && json_array_append_new(all, one) == 0;
    srv_rest_blanks(&r);
    if (!good || !r.n) break;
    good = srv_rest_take(&r, kinds[kind].open);
  }
  if (good) return all;
  json_decref(all);
  return NULL;
}
