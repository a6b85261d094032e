/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/serve/speech/callargs.h"

#include <stdbool.h>
#include <string.h>

#include "runtime/serve/speech/rest.h"

/* Letters of names and of ids; others are of texts that only look like a call. */
static bool is_word(const srv_rest *r) {
  for (size_t i = 0; i < r->n; i++)
    if ((unsigned char)r->v[i] <= ' ' || strchr("[]{}\"", r->v[i])) return false;
  return r->n > 0;
}

/* Up to the mark, which goes too, without blanks around; false: no word stands before it. */
static bool take_word(srv_rest *r, const char *mark, srv_rest *out) {
  srv_rest after = *r;
  if (!srv_rest_until(&after, mark, out)) return false;
  srv_rest_blanks(out);
  srv_rest_trim_end(out);
  if (!is_word(out)) return false;
  *r = after;
  return true;
}

/* An object, which ends where it ends; nothing, or what is no object, stays. */
static json_t *take_object(srv_rest *r) {
  json_error_t e;
  srv_rest_blanks(r);
  if (!r->n || *r->v == '[') return json_object(); /* the next call follows at once */
  json_t *j = tni_json_loadb(r->v, r->n, JSON_DISABLE_EOF_CHECK, &e);
  if (!json_is_object(j)) {
    json_decref(j);
    return NULL;
  }
  srv_rest_skip(r, (size_t)e.position);
  return j;
}

static json_t *read_call(srv_rest *r) {
  srv_rest name, id = {0};
  const bool named = take_word(r, SRV_CALLARGS_ID, &name);
  if (named ? !take_word(r, SRV_CALLARGS_ARGS, &id) : !take_word(r, SRV_CALLARGS_ARGS, &name)) return NULL;
  json_t *arguments = take_object(r), *call = NULL;
  if (arguments) call = json_pack("{s:s%, s:o}", "name", name.v, name.n, "arguments", arguments);
  if (call && named) json_object_set_new(call, "id", json_stringn(id.v, id.n));
  return call;
}

json_t *srv_callargs_read(const char *text, size_t n) {
  srv_rest r = {text, n};
  json_t *all = json_array();
  bool good = all != NULL;
  srv_rest_blanks(&r);
  (void)srv_rest_take(&r, SRV_CALLARGS_OPEN);
  while (good) {
    json_t *one = read_call(&r);
    good = one && json_array_append_new(all, one) == 0;
    srv_rest_blanks(&r);
    if (!good || !r.n) break;
    good = srv_rest_take(&r, SRV_CALLARGS_OPEN);
  }
  if (good) return all;
  json_decref(all);
  return NULL;
}
